//! Opening and reading the ledger's file, and replacing one that is damaged or gone.

use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OpenFlags};
use rustix::fs::{Access, access};
use rustix::io::Errno;

use super::error::{LedgerError, is_unusable, unusable};
use super::schema::{self, VERSION};
use super::{FILE, Ledger, bytes, now_ns, rooted};
use crate::fs::beneath::Folder;
use crate::fs::paths::{Shown, folder_of};

/// The extension of its write-ahead log.
const LOG: &str = "sqlite-wal";
/// How long a writer waits while the database is locked.
const BUSY: Duration = Duration::from_secs(10);
/// How long a reader waits while the database is locked.
const BUSY_READING: Duration = Duration::from_secs(2);

impl Ledger {
    /// Opens the ledger in `folder`, creating both if necessary. An unreadable ledger is set aside
    /// under another name and replaced by an empty one; the second value is then a sentence about
    /// that.
    ///
    /// # Errors
    /// When the folder or the database cannot be created or used, unless the database itself is
    /// damaged.
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

    /// Replaces the ledger by an empty one if `why`, the error of one of its calls, is a sign of
    /// damage: damage may show only once the damaged part is read. Returns a sentence about that;
    /// any other error is returned unchanged.
    ///
    /// # Errors
    /// `why`, unless it is a sign of damage. Otherwise as of [`Ledger::open`].
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

    /// Opens the ledger in `folder` for reading; `None` if it does not exist, or is only just being
    /// created.
    ///
    /// # Errors
    /// When it exists and cannot be read: for lack of rights, because it is damaged, or because
    /// another version wrote it.
    pub fn read(folder: &Path) -> Result<Option<Self>, LedgerError> {
        let file = folder.join(FILE);
        Self::read_file(&file).map_err(|why| why.for_reader_of(&file))
    }

    pub(super) fn read_file(file: &Path) -> Result<Option<Self>, LedgerError> {
        if let Err(source) = must_be_files(file) {
            return match source.kind() {
                ErrorKind::NotFound | ErrorKind::NotADirectory => Ok(None),
                ErrorKind::PermissionDenied => Err(LedgerError::Unreadable { path: file.to_owned(), source }),
                _ => Err(LedgerError::File { path: file.to_owned(), source }),
            };
        }
        // Checked without opening it: closing a file releases all locks that this process has on
        // it, and a service reads its own ledger here too.
        match access(file, Access::READ_OK) {
            Ok(()) => {}
            Err(Errno::NOENT | Errno::NOTDIR) => return Ok(None),
            Err(errno) => {
                return Err(LedgerError::Unreadable { path: file.to_owned(), source: errno.into() });
            }
        }
        let db = open(file, OpenFlags::SQLITE_OPEN_READ_WRITE)
            .or_else(|_| open(file, OpenFlags::SQLITE_OPEN_READ_ONLY))?;
        match Self::for_reading(db, file) {
            // No process has it open, and this user may not create the files that readers share.
            // Its content cannot change then.
            Err(LedgerError::NotOurs(_)) if !file.with_extension(LOG).exists() => {
                Self::for_reading(open_unchanging(file)?, file)
            }
            read => read,
        }
    }

    fn for_reading(db: Connection, file: &Path) -> Result<Option<Self>, LedgerError> {
        db.busy_timeout(BUSY_READING)?;
        db.pragma_update(None, "query_only", true)?;
        match schema::probe(&db) {
            Ok(true) => match schema::version(&db)? {
                VERSION => Ok(Some(Self { db, inode: inode(file), file: file.to_owned() })),
                version if schema::is_older(version) => Err(LedgerError::OlderVersion(file.to_owned())),
                _ => Err(LedgerError::OtherVersion(file.to_owned())),
            },
            Ok(false) => Ok(None),
            Err(error)
                if matches!(error.sqlite_error_code(), Some(ErrorCode::ReadOnly | ErrorCode::CannotOpen)) =>
            {
                Err(LedgerError::NotOurs(file.to_owned()))
            }
            Err(error) => Err(error.into()),
        }
    }

    fn open_file(file: &Path) -> Result<Self, LedgerError> {
        must_be_files(file).map_err(|source| LedgerError::File { path: file.into(), source })?;
        let db = open(file, OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE)?;
        db.busy_timeout(BUSY)?;
        // In WAL mode "normal" survives a kill without loss, and a power failure without damage;
        // work lost in a power failure is repeated.
        db.pragma_update(None, "journal_mode", "wal")?;
        db.pragma_update(None, "synchronous", "normal")?;
        // Without this, REPLACE would not run the delete trigger, and the rows it removes would
        // stay in the sums.
        db.pragma_update(None, "recursive_triggers", true)?;
        if let Err(other) = schema::prepare(&db)? {
            return Err(unusable(format!("its version is {other}, and this histeqd needs {VERSION}")).into());
        }
        schema::probe(&db)?;
        Ok(Self { db, inode: inode(file), file: file.to_owned() })
    }

    /// Opens the ledger again if its file was deleted or replaced; a deleted one is then new and
    /// empty. Returns a sentence about that.
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

    /// Opens the ledger again, for another file system may have been mounted in its place. As
    /// [`Ledger::open`].
    ///
    /// # Errors
    /// As of [`Ledger::open`].
    pub fn reopen(&mut self) -> Result<Option<String>, LedgerError> {
        let (ledger, note) = Self::open(folder_of(&self.file))?;
        self.give_way_to(ledger)?;
        Ok(note)
    }

    /// Replaces the ledger by the one that lies at the same path now, and leaves that one's files
    /// alone: when the last connection to a database closes, SQLite removes the write-ahead log by
    /// its path.
    fn give_way_to(&mut self, ledger: Self) -> Result<(), LedgerError> {
        self.db.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
        *self = ledger;
        Ok(())
    }
}

/// Checks that the files of a database are regular files, as far as they exist.
fn must_be_files(file: &Path) -> io::Result<()> {
    let (root, below) = rooted(folder_of(file));
    let folder = Folder::open(root, below)?;
    ["", "-wal", "-shm", "-journal"].iter().try_for_each(|end| folder.must_be_a_file(format!("{FILE}{end}")))
}

/// Opens a database, without following links below its root. The path is absolute because SQLite
/// takes one that starts with "file:" for a URI.
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

/// Opens a database that no process changes, without the files that accompany one in use.
fn open_unchanging(file: &Path) -> Result<Connection, LedgerError> {
    let file = without_links(file)?;
    let uri = format!("file:{}?immutable=1", bytes(&file).iter().map(escaped).collect::<String>());
    let access = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI;
    let flags = access | OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_NOFOLLOW;
    Ok(Connection::open_with_flags(uri, flags)?)
}

/// Escapes a byte of a path for a URI.
fn escaped(byte: &u8) -> String {
    match byte {
        b'/' | b'-' | b'.' | b'_' | b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' => char::from(*byte).to_string(),
        other => format!("%{other:02x}"),
    }
}

/// Returns the inode of a file, 0 if it does not exist.
pub(super) fn inode(file: &Path) -> u64 {
    fs::symlink_metadata(file).map_or(0, |metadata| metadata.ino())
}

fn set_aside(file: &Path) -> Result<PathBuf, LedgerError> {
    let aside = file.with_extension(format!("broken-{}", now_ns() / 1_000_000_000));
    let (root, below) = rooted(folder_of(file));
    let name = aside.file_name().unwrap_or_default();
    let renamed = Folder::open(root, below).and_then(|folder| {
        folder.rename(FILE, name)?;
        for companion in ["-wal", "-shm"] {
            // They belong to the file that was set aside, and usually do not exist.
            let _ = folder.remove(format!("{FILE}{companion}"));
        }
        Ok(())
    });
    renamed.map(|()| aside.clone()).map_err(|source| LedgerError::File { path: file.into(), source })
}
