//! The record of processed pictures: one row per picture, in an embedded database that survives kills and power failures.
//!
//! The ledger makes a restart cheap and exact, but is never essential: a picture that it does not know is done again. So it can be deleted
//! at any time, and an unreadable ledger is set aside and replaced by an empty one.

mod assigned;
mod check;
mod error;
mod failures;
mod interrupted;
mod lock;
mod prune;
mod report;
mod schema;
mod state;

use std::ffi::OsString;
use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OpenFlags, OptionalExtension, Row, named_params, params};
use rustix::fs::{Access, access};
use rustix::io::Errno;

pub use assigned::Assigned;
pub use check::Damage;
pub use error::{LedgerError, TakeError};
use error::{is_unusable, unusable};
pub use failures::{FailureSearch, FoundFailures};
pub use interrupted::MOST_STARTS;
pub use lock::{Lock, LockError};
pub use prune::Pruned;
pub use report::{FailedPicture, Report, ServiceReport, folder};
use schema::VERSION;
use state::PictureState;

use crate::fs::beneath::Folder;
use crate::fs::paths::{Shown, folder_of};
use crate::fs::stamp::{Stamp, mtime_ns};
use crate::picture::record::Record;

/// The name of histeqd's own folder in the output folder.
pub const FOLDER: &str = ".histeqd";
/// The database's file name.
pub(crate) const FILE: &str = "ledger.sqlite";
/// The extension of its write-ahead log.
const LOG: &str = "sqlite-wal";
/// How long a writer waits while the database is locked.
const BUSY: Duration = Duration::from_secs(10);
/// How long a reader waits while the database is locked.
const BUSY_READING: Duration = Duration::from_secs(2);

/// An input in a certain state, and the output to be made from it.
#[derive(Clone, Copy, Debug)]
pub struct Entry<'a> {
    /// The file to read.
    pub input: &'a Path,
    /// The state of its content.
    pub stamp: Stamp,
    /// All settings that determine what the output looks like.
    pub settings: &'a str,
    /// The file to write.
    pub output: &'a Path,
}

/// What the ledger knows about an input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Nothing that still applies: it is to be done.
    Unknown,
    /// It was done in its current state and with these settings.
    Done,
    /// It is not a picture.
    Skipped,
    /// It was begun so often in a row without an end, in its current state and with these settings: its process was killed each time.
    Interrupted {
        /// How often.
        starts: u32,
    },
    /// It failed for good in its current state and with these settings.
    Failed {
        /// Why.
        reason: String,
        /// Whether it was [given up](Ledger::give_up), so that not even another run is to begin it.
        given_up: bool,
    },
}

/// The result of a picture that was done.
#[derive(Clone, Copy, Debug)]
pub struct Outcome<'a> {
    /// The device that equalized it.
    pub device: &'a str,
    /// Width times height.
    pub pixels: u64,
    /// Bytes of the output.
    pub bytes_out: u64,
}

/// Takes the locks of an output folder and of its ledger, and opens the ledger. Returns also a sentence about the ledger if there is
/// something to say. After a power failure, no output counts as that of a picture in progress, since not all of it may be on the disk.
///
/// # Errors
/// As of [`Lock::take`] and [`Ledger::open`].
pub fn take(out: &Path, state: Option<&Path>) -> Result<(Lock, Ledger, Option<String>), TakeError> {
    let folder = folder(out, state);
    let lock = Lock::take(out, &folder)?;
    let (mut ledger, mut note) = Ledger::open(&folder)?;
    if lock.may_follow_power_failure() {
        if let Err(why) = ledger.forget_running() {
            note = Some(ledger.mend(why)?);
        }
        lock.power_failure_is_over()?;
    }
    Ok((lock, ledger, note))
}

/// An open ledger. Only the process that holds the [`Lock`] writes to it; any number may read it.
#[derive(Debug)]
pub struct Ledger {
    db: Connection,
    file: PathBuf,
    inode: u64,
}

impl Ledger {
    /// Opens the ledger in `folder`, creating both if necessary. An unreadable ledger is set aside under another name and replaced by an
    /// empty one; the second value is then a sentence that says so.
    ///
    /// # Errors
    /// When the folder or the database cannot be created or used, unless the database itself is damaged.
    pub fn open(folder: &Path) -> Result<(Self, Option<String>), LedgerError> {
        let (root, below) = rooted(folder);
        Folder::create(root, below, true)
            .map_err(|source| LedgerError::File { path: folder.into(), source })?;
        let file = folder.join(FILE);
        match Self::open_file(&file) {
            Ok(ledger) => Ok((ledger, None)),
            Err(why) => Self::begin_anew(&file, why).map(|(ledger, note)| (ledger, Some(note))),
        }
    }

    /// Replaces the ledger by an empty one if `why`, the error of one of its calls, says that it is damaged: damage may show only once the
    /// damaged part is read. Returns a sentence that says so; any other error is returned as it is.
    ///
    /// # Errors
    /// `why`, unless it says that the ledger is damaged. Otherwise as of [`Ledger::open`].
    pub fn mend(&mut self, why: LedgerError) -> Result<String, LedgerError> {
        // Another ledger may have taken its place.
        if inode(&self.file) != self.inode {
            return Err(why);
        }
        let (ledger, note) = Self::begin_anew(&self.file, why)?;
        self.give_way_to(ledger)?;
        Ok(note)
    }

    fn begin_anew(file: &Path, why: LedgerError) -> Result<(Self, String), LedgerError> {
        match why {
            LedgerError::Database(error) if is_unusable(&error) => {
                let aside = set_aside(file)?;
                let note = format!(
                    "the ledger could not be used ({error}); it is now {}, and pictures may be processed again",
                    Shown(&aside)
                );
                Ok((Self::open_file(file)?, note))
            }
            why => Err(why),
        }
    }

    /// Opens the ledger in `folder` for reading; `None` if there is none, or it is only just being created.
    ///
    /// # Errors
    /// When there is one that cannot be read: for lack of rights, because it is damaged, or because another version wrote it.
    pub fn read(folder: &Path) -> Result<Option<Self>, LedgerError> {
        let file = folder.join(FILE);
        Self::read_file(&file).map_err(|why| why.for_reader_of(&file))
    }

    fn read_file(file: &Path) -> Result<Option<Self>, LedgerError> {
        let path = || file.to_owned();
        if let Err(source) = must_be_files(file) {
            return match source.kind() {
                ErrorKind::NotFound | ErrorKind::NotADirectory => Ok(None),
                ErrorKind::PermissionDenied => Err(LedgerError::Unreadable { path: path(), source }),
                _ => Err(LedgerError::File { path: path(), source }),
            };
        }
        // Not by opening it: closing a file releases all locks that this process has on it, and a service reads its own ledger here too.
        match access(file, Access::READ_OK) {
            Ok(()) => {}
            Err(Errno::NOENT | Errno::NOTDIR) => return Ok(None),
            Err(errno) => return Err(LedgerError::Unreadable { path: path(), source: errno.into() }),
        }
        let db = open(file, OpenFlags::SQLITE_OPEN_READ_WRITE)
            .or_else(|_| open(file, OpenFlags::SQLITE_OPEN_READ_ONLY))?;
        match Self::for_reading(db, file) {
            // Nobody has it open, and this user may not create the files that readers share. Nothing in it can change then.
            Err(LedgerError::NotOurs(_)) if !file.with_extension(LOG).exists() => {
                Self::for_reading(open_unchanging(file)?, file)
            }
            read => read,
        }
    }

    fn for_reading(db: Connection, file: &Path) -> Result<Option<Self>, LedgerError> {
        let path = || file.to_owned();
        db.busy_timeout(BUSY_READING)?;
        db.pragma_update(None, "query_only", true)?;
        match schema::probe(&db) {
            Ok(true) => match schema::version(&db)? {
                VERSION => Ok(Some(Self { db, inode: inode(file), file: path() })),
                version if schema::is_older(version) => Err(LedgerError::OlderVersion(path())),
                _ => Err(LedgerError::OtherVersion(path())),
            },
            Ok(false) => Ok(None),
            Err(error)
                if matches!(error.sqlite_error_code(), Some(ErrorCode::ReadOnly | ErrorCode::CannotOpen)) =>
            {
                Err(LedgerError::NotOurs(path()))
            }
            Err(error) => Err(error.into()),
        }
    }

    fn open_file(file: &Path) -> Result<Self, LedgerError> {
        must_be_files(file).map_err(|source| LedgerError::File { path: file.into(), source })?;
        let db = open(file, OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE)?;
        db.busy_timeout(BUSY)?;
        // In WAL mode "normal" survives a kill without loss, and a power failure without damage; what a power failure loses is done again.
        db.pragma_update(None, "journal_mode", "wal")?;
        db.pragma_update(None, "synchronous", "normal")?;
        // Without this, REPLACE would not run the delete trigger, and the rows it removes would stay in the sums.
        db.pragma_update(None, "recursive_triggers", true)?;
        if let Err(other) = schema::prepare(&db)? {
            return Err(unusable(format!("its version is {other}, and this histeqd needs {VERSION}")).into());
        }
        schema::probe(&db)?;
        Ok(Self { db, inode: inode(file), file: file.to_owned() })
    }

    /// Opens the ledger again if its file was deleted or replaced; a deleted one is then new and empty. Returns a sentence that says so.
    ///
    /// # Errors
    /// As of [`Ledger::open`].
    pub fn reopen_if_deleted(&mut self) -> Result<Option<String>, LedgerError> {
        if inode(&self.file) == self.inode {
            return Ok(None);
        }
        let note = self.reopen()?;
        Ok(Some(note.unwrap_or_else(|| "the ledger is missing; a new one is started".into())))
    }

    /// Opens the ledger again, for another file system may have been mounted in its place. As [`Ledger::open`].
    ///
    /// # Errors
    /// As of [`Ledger::open`].
    pub fn reopen(&mut self) -> Result<Option<String>, LedgerError> {
        let (ledger, note) = Self::open(folder_of(&self.file))?;
        self.give_way_to(ledger)?;
        Ok(note)
    }

    /// Replaces the ledger by one that lies at the same path now, and leaves that one's files alone: when the last connection to a database
    /// closes, SQLite removes the write-ahead log by its path.
    fn give_way_to(&mut self, ledger: Self) -> Result<(), LedgerError> {
        self.db.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
        *self = ledger;
        Ok(())
    }

    /// Returns what is known about an input. A picture that was in progress when its process was killed counts as done if its output has
    /// appeared since it was begun: outputs appear complete, and unless its record says otherwise, it is assumed that nobody else wrote
    /// it.
    ///
    /// # Errors
    /// When a call of the database fails.
    pub fn standing(&self, entry: &Entry<'_>) -> Result<Standing, LedgerError> {
        let mut query = self.db.prepare_cached(
            "SELECT state, coalesce(reason, ''), before_inode, before_mtime, starts FROM picture
             WHERE input = :input AND size = :size AND mtime = :mtime AND inode = :inode
               AND settings = (SELECT CAST(id AS TEXT) FROM settings WHERE text = :settings) AND output = :output",
        )?;
        let row = query.query_row(
            named_params! {
                ":input": bytes(entry.input), ":size": entry.stamp.size.cast_signed(),
                ":mtime": entry.stamp.mtime_ns, ":inode": entry.stamp.inode.cast_signed(),
                ":settings": entry.settings, ":output": bytes(entry.output),
            },
            // An unknown state, which only damage can leave, costs no more than this picture.
            |row| Ok((row.get(0).ok(), row.get(1)?, before(row)?, row.get(4)?)),
        );
        let Some((state, reason, before, starts)) = row.optional()? else { return Ok(Standing::Unknown) };
        Ok(match state {
            Some(PictureState::Done) => Standing::Done,
            Some(PictureState::Skipped) => Standing::Skipped,
            Some(PictureState::Failed) => Standing::Failed { reason, given_up: starts > 0 },
            Some(PictureState::Running) if appeared(entry.output, before) && !is_anothers(entry) => {
                self.adopt(entry)?;
                Standing::Done
            }
            Some(PictureState::Running | PictureState::Retry) if starts > 0 => {
                Standing::Interrupted { starts }
            }
            Some(PictureState::Running | PictureState::Retry) | None => Standing::Unknown,
        })
    }

    /// Returns when a picture was done, in nanoseconds since 1970, and the bytes of its output; `None` if it is not done.
    ///
    /// # Errors
    /// When a call of the database fails.
    pub fn made(&self, input: &Path) -> Result<Option<(i64, u64)>, LedgerError> {
        let mut query = self
            .db
            .prepare_cached("SELECT finished, bytes_out FROM picture WHERE input = ?1 AND state = 'done'")?;
        let made = |row: &Row<'_>| Ok((row.get(0)?, row.get::<_, i64>(1)?.cast_unsigned()));
        Ok(query.query_row([bytes(input)], made).optional()?)
    }

    fn adopt(&self, entry: &Entry<'_>) -> Result<(), LedgerError> {
        let bytes_out = fs::metadata(entry.output).map_or(0, |metadata| metadata.len());
        self.done(entry.input, &Outcome { device: "", pixels: 0, bytes_out })
    }

    /// Records that a picture is begun, once more if it never ended.
    ///
    /// # Errors
    /// When a call of the database fails.
    pub fn begin(&self, entry: &Entry<'_>) -> Result<(), LedgerError> {
        self.insert(entry, PictureState::Running)
    }

    /// Records that a picture is not begun for now.
    ///
    /// # Errors
    /// When a call of the database fails.
    pub fn refuse(&self, entry: &Entry<'_>) -> Result<(), LedgerError> {
        self.insert(entry, PictureState::Retry)
    }

    fn insert(&self, entry: &Entry<'_>, state: PictureState) -> Result<(), LedgerError> {
        let before = version(entry.output);
        let begun = u32::from(state == PictureState::Running);
        let mut settings = self.db.prepare_cached("INSERT OR IGNORE INTO settings (text) VALUES (?1)")?;
        settings.execute([entry.settings])?;
        let mut insert = self.db.prepare_cached(
            "INSERT OR REPLACE INTO picture
                 (input, size, mtime, inode, settings, output, state, started, before_inode, before_mtime, starts)
             SELECT ?1, ?2, ?3, ?4, id, ?6, ?10, ?7, ?8, ?9,
                 ?11 + coalesce((SELECT starts FROM picture WHERE input = ?1 AND size = ?2 AND mtime = ?3 AND inode = ?4
                     AND settings = CAST(id AS TEXT) AND output = ?6), 0)
             FROM settings WHERE text = ?5",
        )?;
        insert.execute(params![
            bytes(entry.input),
            entry.stamp.size.cast_signed(),
            entry.stamp.mtime_ns,
            entry.stamp.inode.cast_signed(),
            entry.settings,
            bytes(entry.output),
            now_ns(),
            before.map(|(inode, _)| inode),
            before.map(|(_, mtime)| mtime),
            state,
            begun,
        ])?;
        Ok(())
    }

    /// Records that a picture that was begun has its output. Any other input that had this output is forgotten: its output was replaced or
    /// taken away.
    ///
    /// # Errors
    /// When a call of the database fails.
    pub fn done(&self, input: &Path, outcome: &Outcome<'_>) -> Result<(), LedgerError> {
        // First, so that a kill in between does not leave an input recorded as done whose output is another's.
        self.own_output(input)?;
        let mut update = self.db.prepare_cached(
            "UPDATE picture SET state = 'done', finished = ?2, device = ?3, pixels = ?4, bytes_out = ?5, reason = NULL,
                 starts = 0
             WHERE input = ?1",
        )?;
        update.execute(params![
            bytes(input),
            now_ns(),
            outcome.device,
            outcome.pixels.cast_signed(),
            outcome.bytes_out.cast_signed(),
        ])?;
        Ok(())
    }

    /// Records that a file that was begun turned out not to be a picture.
    ///
    /// # Errors
    /// When a call of the database fails.
    pub fn skipped(&self, input: &Path) -> Result<(), LedgerError> {
        self.end(input, PictureState::Skipped, None, None)
    }

    /// Records that a picture that was begun failed, for good or for a cause that can pass.
    ///
    /// # Errors
    /// When a call of the database fails.
    pub fn failed(&self, input: &Path, reason: &str, for_good: bool) -> Result<(), LedgerError> {
        self.end(input, if for_good { PictureState::Failed } else { PictureState::Retry }, Some(reason), None)
    }

    /// Records that a picture that was begun failed, and is tried again after `pause`.
    ///
    /// # Errors
    /// When a call of the database fails.
    pub fn retried(&self, input: &Path, reason: &str, pause: Duration) -> Result<(), LedgerError> {
        let again = now_ns().saturating_add(i64::try_from(pause.as_nanos()).unwrap_or(i64::MAX));
        self.end(input, PictureState::Retry, Some(reason), Some(again))
    }

    fn end(
        &self,
        input: &Path,
        state: PictureState,
        reason: Option<&str>,
        again: Option<i64>,
    ) -> Result<(), LedgerError> {
        let mut update = self.db.prepare_cached(
            "UPDATE picture SET state = ?2, finished = ?3, reason = ?4, again = ?5, starts = 0 WHERE input = ?1",
        )?;
        update.execute(params![bytes(input), state, now_ns(), reason, again])?;
        Ok(())
    }

    /// Forgets those of `inputs` that failed, for good or for now: they are gone.
    ///
    /// # Errors
    /// When a call of the database fails.
    pub fn forget_gone(&self, inputs: &[PathBuf]) -> Result<(), LedgerError> {
        let transaction = self.db.unchecked_transaction()?;
        let mut delete = self
            .db
            .prepare_cached("DELETE FROM picture WHERE input = ?1 AND state IN ('retry', 'failed')")?;
        for input in inputs {
            delete.execute([bytes(input)])?;
        }
        Ok(transaction.commit()?)
    }

    /// Forgets an input: what is known about it does not apply any more.
    ///
    /// # Errors
    /// When a call of the database fails.
    pub fn forget(&self, input: &Path) -> Result<(), LedgerError> {
        self.db.prepare_cached("DELETE FROM picture WHERE input = ?1")?.execute([bytes(input)])?;
        Ok(())
    }

    /// Forgets the pictures that failed for good, as far as they `are_meant`, so that they are tried again. Returns how many there were.
    ///
    /// # Errors
    /// When a call of the database fails.
    pub fn forget_failed(&self, are_meant: impl Fn(&Path) -> bool) -> Result<usize, LedgerError> {
        let transaction = self.db.unchecked_transaction()?;
        let meant: Vec<_> = self.all_failed()?.into_iter().filter(|input| are_meant(input)).collect();
        for input in &meant {
            self.forget(input)?;
        }
        transaction.commit()?;
        Ok(meant.len())
    }

    /// Returns the inputs of all pictures that failed for good.
    ///
    /// # Errors
    /// When a call of the database fails.
    pub fn all_failed(&self) -> Result<Vec<PathBuf>, LedgerError> {
        let mut query = self.db.prepare_cached("SELECT input FROM picture WHERE state = 'failed'")?;
        Ok(query.query_map([], |row| row.get(0).map(path))?.collect::<Result<_, _>>()?)
    }

    /// Sets how long a call waits while another process has the database locked.
    pub fn set_patience(&self, patience: Duration) {
        // Fails only if the database is closed.
        let _ = self.db.busy_timeout(patience);
    }
}

/// Returns the root of a ledger's folder, and its path below that: a folder named [`FOLDER`] lies in an output folder, where no link is
/// followed, and another is a root itself.
fn rooted(folder: &Path) -> (&Path, &Path) {
    if folder.ends_with(FOLDER) { (folder_of(folder), Path::new(FOLDER)) } else { (folder, Path::new("")) }
}

/// Checks that the files of a database are regular files, as far as they exist.
fn must_be_files(file: &Path) -> io::Result<()> {
    let (root, below) = rooted(folder_of(file));
    let folder = Folder::open(root, below)?;
    ["", "-wal", "-shm", "-journal"].iter().try_for_each(|end| folder.must_be_a_file(format!("{FILE}{end}")))
}

/// Opens a database, without following links below its root. By its absolute path, for SQLite takes one that starts with "file:" for a URI.
fn open(file: &Path, access: OpenFlags) -> Result<Connection, LedgerError> {
    let flags = access | OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_NOFOLLOW;
    Ok(Connection::open_with_flags(without_links(file)?, flags)?)
}

/// Returns the absolute path of a ledger, without links above its root.
fn without_links(file: &Path) -> Result<PathBuf, LedgerError> {
    let (root, below) = rooted(folder_of(file));
    let root = root.canonicalize().map_err(|source| LedgerError::File { path: file.into(), source })?;
    Ok(root.join(below).join(FILE))
}

/// Opens a database that nobody changes, without the files that go with one that somebody does.
fn open_unchanging(file: &Path) -> Result<Connection, LedgerError> {
    let file = without_links(file)?;
    let escaped = |byte: &u8| match byte {
        b'/' | b'-' | b'.' | b'_' | b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' => char::from(*byte).to_string(),
        other => format!("%{other:02x}"),
    };
    let uri = format!("file:{}?immutable=1", bytes(&file).iter().map(escaped).collect::<String>());
    let access = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI;
    let flags = access | OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_NOFOLLOW;
    Ok(Connection::open_with_flags(uri, flags)?)
}

/// Inode and mtime of an output, which tell it from the one that replaces it.
type Version = (i64, i64);

fn version(path: &Path) -> Option<Version> {
    let metadata = fs::symlink_metadata(path).ok()?;
    Some((metadata.ino().cast_signed(), mtime_ns(&metadata)))
}

/// Returns whether an output is another file than the one `before`: with both another inode, because an older output may have been written
/// to since, and another mtime, because some file systems make up inodes at every mount.
fn appeared(output: &Path, before: Option<Version>) -> bool {
    version(output).is_some_and(|now| before.is_none_or(|before| now.0 != before.0 && now.1 != before.1))
}

/// Returns whether the record of an output says that it is from another input.
fn is_anothers(entry: &Entry<'_>) -> bool {
    Record::of(entry.output).is_some_and(|record| !record.is_from(&entry.stamp))
}

fn before(row: &Row<'_>) -> rusqlite::Result<Option<Version>> {
    let (inode, mtime): (Option<i64>, Option<i64>) = (row.get(2)?, row.get(3)?);
    Ok(inode.zip(mtime))
}

/// Returns the time in nanoseconds since 1970.
pub(crate) fn now_ns() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
}

fn inode(file: &Path) -> u64 {
    fs::symlink_metadata(file).map_or(0, |metadata| metadata.ino())
}

fn bytes(path: &Path) -> &[u8] {
    path.as_os_str().as_bytes()
}

fn path(bytes: Vec<u8>) -> PathBuf {
    OsString::from_vec(bytes).into()
}

fn set_aside(file: &Path) -> Result<PathBuf, LedgerError> {
    let aside = file.with_extension(format!("broken-{}", now_ns() / 1_000_000_000));
    let (root, below) = rooted(folder_of(file));
    let name = aside.file_name().unwrap_or_default();
    let renamed = Folder::open(root, below).and_then(|folder| {
        folder.rename(FILE, name)?;
        for companion in ["-wal", "-shm"] {
            // They belong to the file that was set aside; usually there are none.
            let _ = folder.remove(format!("{FILE}{companion}"));
        }
        Ok(())
    });
    renamed.map(|()| aside.clone()).map_err(|source| LedgerError::File { path: file.into(), source })
}

#[cfg(test)]
mod tests;
