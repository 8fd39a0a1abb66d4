//! What was done: one row a picture, in an embedded database that survives kills and power failures.
//!
//! The ledger makes a restart cheap and exact. It is never needed: a picture that it does not know is done again, so it can
//! be deleted at any time, and one that cannot be read is set aside and begun anew.

mod lock;
mod report;
mod schema;

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rusqlite::{Connection, ErrorCode, OpenFlags, OptionalExtension, Row, named_params, params};
use rustix::fs::{Access, access};
use rustix::io::Errno;

pub use lock::{Lock, LockError};
pub use report::{Daemon, FailedPicture, Report, folder};
use schema::VERSION;

use crate::paths::Shown;
use crate::source::stamp::{Stamp, mtime_ns};

/// The folder below the output folder that is histeqd's own.
pub const FOLDER: &str = ".histeqd";
/// The database's name in its folder.
const FILE: &str = "ledger.sqlite";
/// How long a writer waits for another, and who only wants to know how things are.
const BUSY: Duration = Duration::from_secs(10);
const BUSY_READING: Duration = Duration::from_secs(2);

/// Why the ledger cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum LedgerError {
    /// Its folder or file cannot be made or moved.
    #[error("the ledger {}: {source}", Shown(path))]
    File {
        /// The folder or file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Who may not write cannot read a ledger that no service has open.
    #[error("the ledger {} can be read only by who may write it, while no service runs; ask as that user", Shown(.0))]
    NotOurs(PathBuf),
    /// Somebody else may read it.
    #[error("the ledger {} cannot be read: {source}; ask as the user that the service runs as", Shown(path))]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Who only reads it does not change it.
    #[error("the ledger {} is an older version's; a service or a --resume of this one brings it up to date", Shown(.0))]
    OlderVersion(PathBuf),
    /// It is read by who wrote it.
    #[error("the ledger {} is another version's; ask the histeqd that keeps it", Shown(.0))]
    OtherVersion(PathBuf),
    /// Who only reads it does not mend it.
    #[error(
        "the ledger {} is damaged ({source}); the next --watch or --resume sets it aside and begins another",
        Shown(path)
    )]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What the database said.
        source: rusqlite::Error,
    },
    /// The database said no.
    #[error("the ledger: {0}")]
    Database(#[from] rusqlite::Error),
}

/// An input in a certain state, and what is to be made of it.
#[derive(Clone, Copy, Debug)]
pub struct Entry<'a> {
    /// The file to read.
    pub input: &'a Path,
    /// Its content's state.
    pub stamp: Stamp,
    /// All that decides what the output looks like.
    pub settings: &'a str,
    /// The file to write.
    pub output: &'a Path,
}

/// What the ledger knows of an input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Nothing that is still true: it is to be done.
    Unknown,
    /// It was done, as it is now and with these settings.
    Done,
    /// It is no picture.
    Skipped,
    /// It cannot be done as it is now, with these settings.
    Failed {
        /// Why.
        reason: String,
    },
}

/// A picture that was done.
#[derive(Clone, Copy, Debug)]
pub struct Outcome<'a> {
    /// What equalized it.
    pub device: &'a str,
    /// Width times height.
    pub pixels: u64,
    /// Bytes of the output.
    pub bytes_out: u64,
}

/// The open ledger. One process writes to it, the one that has the [`Lock`]; any number may read.
#[derive(Debug)]
pub struct Ledger {
    db: Connection,
    file: PathBuf,
    inode: u64,
}

impl Ledger {
    /// Opens the ledger in `folder`, which is made if need be, as is the ledger. One that cannot be read is set aside under
    /// another name; the second value is then a sentence that says so.
    pub fn open(folder: &Path) -> Result<(Self, Option<String>), LedgerError> {
        fs::create_dir_all(folder).map_err(|source| LedgerError::File { path: folder.into(), source })?;
        let file = folder.join(FILE);
        match Self::open_file(&file) {
            Ok(ledger) => Ok((ledger, None)),
            Err(why) => Self::begin_anew(&file, why).map(|(ledger, note)| (ledger, Some(note))),
        }
    }

    /// Begins the ledger anew if `why`, which one of its calls ended with, says that it is damaged: that may be found out only where
    /// the damage is. Returns a sentence that says so; else `why` again.
    pub fn mend(&mut self, why: LedgerError) -> Result<String, LedgerError> {
        // Another's may have its place.
        if inode(&self.file) != self.inode {
            return Err(why);
        }
        let (ledger, note) = Self::begin_anew(&self.file, why)?;
        *self = ledger;
        Ok(note)
    }

    fn begin_anew(file: &Path, why: LedgerError) -> Result<(Self, String), LedgerError> {
        match why {
            LedgerError::Database(error) if is_unusable(&error) => {
                let aside = set_aside(file)?;
                let note = format!(
                    "the ledger could not be used ({error}); it is now {}, and pictures may be done again",
                    Shown(&aside)
                );
                Ok((Self::open_file(file)?, note))
            }
            why => Err(why),
        }
    }

    /// Opens the ledger in `folder` to read it; none where there is none, or one is just being made.
    pub fn read(folder: &Path) -> Result<Option<Self>, LedgerError> {
        let file = folder.join(FILE);
        Self::read_file(&file).map_err(|why| why.for_reader_of(&file))
    }

    fn read_file(file: &Path) -> Result<Option<Self>, LedgerError> {
        let path = || file.to_owned();
        // Not by opening it: to close a file ends all locks that this process has on it, and a service asks here too.
        match access(file, Access::READ_OK) {
            Ok(()) => {}
            Err(Errno::NOENT | Errno::NOTDIR) => return Ok(None),
            Err(errno) => return Err(LedgerError::Unreadable { path: path(), source: errno.into() }),
        }
        let db = open(file, OpenFlags::SQLITE_OPEN_READ_WRITE)
            .or_else(|_| open(file, OpenFlags::SQLITE_OPEN_READ_ONLY))?;
        db.busy_timeout(BUSY_READING)?;
        db.pragma_update(None, "query_only", true)?;
        match schema::probe(&db) {
            Ok(true) => match schema::version(&db)? {
                VERSION => Ok(Some(Self { db, inode: inode(file), file: path() })),
                version if schema::is_older(version) => Err(LedgerError::OlderVersion(path())),
                _ => Err(LedgerError::OtherVersion(path())),
            },
            Ok(false) => Ok(None),
            Err(error) if error.sqlite_error_code() == Some(ErrorCode::ReadOnly) => {
                Err(LedgerError::NotOurs(path()))
            }
            Err(error) => Err(error.into()),
        }
    }

    fn open_file(file: &Path) -> Result<Self, LedgerError> {
        let db = open(file, OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE)?;
        db.busy_timeout(BUSY)?;
        // In WAL mode "normal" survives a kill without loss, and a power failure without damage; what a power failure
        // takes is done again.
        db.pragma_update(None, "journal_mode", "wal")?;
        db.pragma_update(None, "synchronous", "normal")?;
        // Else what a REPLACE takes away would stay in the sums.
        db.pragma_update(None, "recursive_triggers", true)?;
        if let Err(other) = schema::prepare(&db)? {
            return Err(unusable(format!("its version is {other}, and histeqd's {VERSION}")).into());
        }
        schema::probe(&db)?;
        Ok(Self { db, inode: inode(file), file: file.to_owned() })
    }

    /// Opens the ledger again, new and empty, if somebody deleted it meanwhile. Returns whether that was so.
    pub fn reopen_if_deleted(&mut self) -> Result<bool, LedgerError> {
        if inode(&self.file) == self.inode {
            return Ok(false);
        }
        let folder = self.file.parent().unwrap_or(Path::new("."));
        fs::create_dir_all(folder).map_err(|source| LedgerError::File { path: folder.into(), source })?;
        *self = Self::open_file(&self.file)?;
        Ok(true)
    }

    /// What is known of an input. A picture that was under way when its process was killed counts as done if its output
    /// appeared since it was begun: outputs appear whole.
    pub fn standing(&self, entry: &Entry<'_>) -> Result<Standing, LedgerError> {
        let mut query = self.db.prepare_cached(
            "SELECT state, coalesce(reason, ''), before_inode, before_mtime FROM picture
             WHERE input = :input AND size = :size AND mtime = :mtime AND inode = :inode
               AND settings = (SELECT CAST(id AS TEXT) FROM settings WHERE text = :settings) AND output = :output",
        )?;
        let row = query.query_row(
            named_params! {
                ":input": bytes(entry.input), ":size": entry.stamp.size.cast_signed(),
                ":mtime": entry.stamp.mtime_ns, ":inode": entry.stamp.inode.cast_signed(),
                ":settings": entry.settings, ":output": bytes(entry.output),
            },
            |row| Ok((row.get(0)?, row.get(1)?, before(row)?)),
        );
        let Some((state, reason, before)) = row.optional()? else { return Ok(Standing::Unknown) };
        let state: String = state;
        Ok(match state.as_str() {
            "done" => Standing::Done,
            "skipped" => Standing::Skipped,
            "failed" => Standing::Failed { reason },
            "running" if appeared(entry.output, before) => {
                self.adopt(entry)?;
                Standing::Done
            }
            _ => Standing::Unknown,
        })
    }

    fn adopt(&self, entry: &Entry<'_>) -> Result<(), LedgerError> {
        let bytes_out = fs::metadata(entry.output).map_or(0, |metadata| metadata.len());
        self.done(entry.input, &Outcome { device: "", pixels: 0, bytes_out })
    }

    /// A picture is about to be done.
    pub fn begin(&self, entry: &Entry<'_>) -> Result<(), LedgerError> {
        self.insert(entry, "running")
    }

    /// A picture is not begun, for now.
    pub fn refuse(&self, entry: &Entry<'_>) -> Result<(), LedgerError> {
        self.insert(entry, "retry")
    }

    fn insert(&self, entry: &Entry<'_>, state: &str) -> Result<(), LedgerError> {
        let before = identity(entry.output);
        let mut settings = self.db.prepare_cached("INSERT OR IGNORE INTO settings (text) VALUES (?1)")?;
        settings.execute([entry.settings])?;
        let mut insert = self.db.prepare_cached(
            "INSERT OR REPLACE INTO picture
                 (input, size, mtime, inode, settings, output, state, started, before_inode, before_mtime)
             VALUES (?1, ?2, ?3, ?4, (SELECT id FROM settings WHERE text = ?5), ?6, ?10, ?7, ?8, ?9)",
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
        ])?;
        Ok(())
    }

    /// A picture that was begun has its output, and no other input has that: who had it before lost it, or had it taken away.
    pub fn done(&self, input: &Path, outcome: &Outcome<'_>) -> Result<(), LedgerError> {
        // First, so that a kill in between leaves nobody done whose output is another's.
        self.own_output(input)?;
        let mut update = self.db.prepare_cached(
            "UPDATE picture SET state = 'done', finished = ?2, device = ?3, pixels = ?4, bytes_out = ?5, reason = NULL
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

    /// A file that was begun turned out to be no picture.
    pub fn skipped(&self, input: &Path) -> Result<(), LedgerError> {
        self.end(input, "skipped", None, None)
    }

    /// A picture that was begun failed: for good, or for a cause that can pass.
    pub fn failed(&self, input: &Path, reason: &str, for_good: bool) -> Result<(), LedgerError> {
        self.end(input, if for_good { "failed" } else { "retry" }, Some(reason), None)
    }

    /// A picture that was begun failed, and is tried again after a pause.
    pub fn retried(&self, input: &Path, reason: &str, pause: Duration) -> Result<(), LedgerError> {
        let again = now_ns().saturating_add(i64::try_from(pause.as_nanos()).unwrap_or(i64::MAX));
        self.end(input, "retry", Some(reason), Some(again))
    }

    fn end(
        &self,
        input: &Path,
        state: &str,
        reason: Option<&str>,
        again: Option<i64>,
    ) -> Result<(), LedgerError> {
        let mut update = self.db.prepare_cached(
            "UPDATE picture SET state = ?2, finished = ?3, reason = ?4, again = ?5 WHERE input = ?1",
        )?;
        update.execute(params![bytes(input), state, now_ns(), reason, again])?;
        Ok(())
    }

    /// Inputs that failed for a cause that can pass, those that did, are not there to be tried again.
    pub fn not_retried(&self, inputs: &[PathBuf]) -> Result<(), LedgerError> {
        let transaction = self.db.unchecked_transaction()?;
        let mut delete =
            self.db.prepare_cached("DELETE FROM picture WHERE input = ?1 AND state = 'retry'")?;
        for input in inputs {
            delete.execute([bytes(input)])?;
        }
        Ok(transaction.commit()?)
    }

    /// What is known of an input is not true any more.
    pub fn forget(&self, input: &Path) -> Result<(), LedgerError> {
        self.db.prepare_cached("DELETE FROM picture WHERE input = ?1")?.execute([bytes(input)])?;
        Ok(())
    }

    /// Other inputs that have the same output, or are about to: those that still exist, and, where inputs go when they are done, those
    /// whose output still stands.
    pub fn rivals(&self, entry: &Entry<'_>, inputs_go: bool) -> Result<Vec<PathBuf>, LedgerError> {
        let mut query = self.db.prepare_cached(
            "SELECT input, state = 'done' FROM picture
             WHERE output = ?1 AND input <> ?2 AND state IN ('running', 'done')",
        )?;
        let rows = query.query_map([bytes(entry.output), bytes(entry.input)], |row| {
            Ok((path(row.get(0)?), row.get::<_, bool>(1)?))
        })?;
        let rows: Vec<(PathBuf, bool)> = rows.collect::<Result<_, _>>()?;
        let stands = inputs_go && entry.output.exists();
        let is_rival = |(input, is_done): &(PathBuf, bool)| *is_done && stands || input.exists();
        Ok(rows.into_iter().filter(is_rival).map(|(input, _)| input).collect())
    }

    fn own_output(&self, input: &Path) -> Result<(), LedgerError> {
        // The plus keeps it from looking through all that is done instead of the few that have the output.
        let mut delete = self.db.prepare_cached(
            "DELETE FROM picture WHERE +state = 'done' AND input <> ?1
                 AND output = (SELECT output FROM picture WHERE input = ?1)",
        )?;
        delete.execute([bytes(input)])?;
        Ok(())
    }

    /// Forgets pictures whose inputs are gone and that ended longer than `age` ago, so that the ledger does not grow for ever, or
    /// never came to an end. Those below folders that are `away` may only be away with them. A step looks at the `most` pictures that
    /// come next `after` a path, for a look at a file may take long.
    pub fn prune(
        &self,
        age: Duration,
        away: &[&Path],
        after: &Path,
        most: u32,
    ) -> Result<Pruned, LedgerError> {
        let before = now_ns().saturating_sub(i64::try_from(age.as_nanos()).unwrap_or(i64::MAX));
        let mut query = self.db.prepare_cached(
            "SELECT input, state IN ('running', 'retry') OR coalesce(finished, started) < ?2 FROM picture
             WHERE input > ?1 ORDER BY input LIMIT ?3",
        )?;
        let rows = query.query_map(params![bytes(after), before, most], |row| {
            Ok((path(row.get(0)?), row.get::<_, bool>(1)?))
        })?;
        let rows: Vec<(PathBuf, bool)> = rows.collect::<Result<_, _>>()?;
        let mut forgotten = 0;
        let transaction = self.db.unchecked_transaction()?;
        let is_away = |input: &Path| away.iter().any(|folder| input.starts_with(folder));
        for (input, _) in rows.iter().filter(|(input, is_old)| *is_old && !is_away(input) && is_gone(input)) {
            self.forget(input)?;
            forgotten += 1;
        }
        transaction.commit()?;
        let is_end = rows.len() < most as usize;
        Ok(Pruned {
            forgotten,
            last: rows.into_iter().next_back().map(|(input, _)| input).filter(|_| !is_end),
        })
    }
}

/// What a step of [`Ledger::prune`] did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pruned {
    /// How many pictures it forgot.
    pub forgotten: usize,
    /// The last path that it looked at; none if that was all.
    pub last: Option<PathBuf>,
}

/// Opens a database. By its absolute path, for SQLite takes one that starts with "file:" for a URI.
fn open(file: &Path, access: OpenFlags) -> rusqlite::Result<Connection> {
    let file = std::path::absolute(file).unwrap_or_else(|_| file.to_owned());
    Connection::open_with_flags(file, access | OpenFlags::SQLITE_OPEN_NO_MUTEX)
}

/// Whether there is no such file, and not only no way to it.
fn is_gone(path: &Path) -> bool {
    fs::symlink_metadata(path).is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
}

/// Which file stands at a path, by inode and mtime.
type Identity = (i64, i64);

fn identity(path: &Path) -> Option<Identity> {
    let metadata = fs::symlink_metadata(path).ok()?;
    Some((metadata.ino().cast_signed(), mtime_ns(&metadata)))
}

fn appeared(output: &Path, before: Option<Identity>) -> bool {
    identity(output).is_some_and(|now| Some(now) != before)
}

fn before(row: &Row<'_>) -> rusqlite::Result<Option<Identity>> {
    let (inode, mtime): (Option<i64>, Option<i64>) = (row.get(2)?, row.get(3)?);
    Ok(inode.zip(mtime))
}

fn now_ns() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
}

fn inode(file: &Path) -> u64 {
    fs::metadata(file).map_or(0, |metadata| metadata.ino())
}

fn bytes(path: &Path) -> &[u8] {
    path.as_os_str().as_bytes()
}

fn path(bytes: Vec<u8>) -> PathBuf {
    OsString::from_vec(bytes).into()
}

fn unusable(message: String) -> rusqlite::Error {
    rusqlite::Error::SqliteFailure(rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_NOTADB), Some(message))
}

/// Whether the file, and not the system around it, is what is wrong.
fn is_unusable(error: &rusqlite::Error) -> bool {
    match error.sqlite_error_code() {
        Some(ErrorCode::NotADatabase | ErrorCode::DatabaseCorrupt) => true,
        // Another schema under our version.
        Some(ErrorCode::Unknown) => error.to_string().contains("no such"),
        _ => false,
    }
}

fn set_aside(file: &Path) -> Result<PathBuf, LedgerError> {
    let aside = file.with_extension(format!("broken-{}", now_ns() / 1_000_000_000));
    fs::rename(file, &aside).map_err(|source| LedgerError::File { path: file.into(), source })?;
    for companion in ["sqlite-wal", "sqlite-shm"] {
        // They belong to the file that is gone; most often there are none.
        let _ = fs::remove_file(file.with_extension(companion));
    }
    Ok(aside)
}

#[cfg(test)]
mod tests;
