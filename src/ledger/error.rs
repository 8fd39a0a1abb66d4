//! Why a ledger cannot be used.

use std::io;
use std::path::{Path, PathBuf};

use rusqlite::ErrorCode;

use super::lock::LockError;
use crate::fs::paths::Shown;

/// Why an output folder and its ledger cannot be taken.
#[derive(Debug, thiserror::Error)]
pub enum TakeError {
    /// Another process has them, or they cannot be locked.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// The ledger cannot be used.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
}

/// Why the ledger cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum LedgerError {
    /// Its folder or file cannot be created or moved.
    #[error("the ledger {}: {source}", Shown(path))]
    File {
        /// The folder or file.
        path: PathBuf,
        /// The I/O error.
        source: io::Error,
    },
    /// A user without write permission cannot read it while no service has it open.
    #[error(
        "the ledger {} was left by a process that was killed, and cannot be read without write permission; run this as its owner",
        Shown(.0)
    )]
    NotOurs(PathBuf),
    /// The user may not read it.
    #[error("the ledger {} cannot be read: {source}; run this as the user of the service", Shown(path))]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The I/O error.
        source: io::Error,
    },
    /// It is an older version's, and a reader does not update it.
    #[error("the ledger {} was written by an older histeqd; the next --watch or --resume upgrades it", Shown(.0))]
    OlderVersion(PathBuf),
    /// It is another version's, and only that version can read it.
    #[error("the ledger {} was written by an incompatible version of histeqd; read it with that version", Shown(.0))]
    OtherVersion(PathBuf),
    /// It is damaged, and a reader does not replace it.
    #[error(
        "the ledger {} is damaged ({source}); the next --watch or --resume sets it aside and starts another",
        Shown(path)
    )]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The database's error.
        source: rusqlite::Error,
    },
    /// A call of the database failed.
    #[error("the ledger: {error}{remedy}", error = .0, remedy = remedy(.0))]
    Database(#[from] rusqlite::Error),
}

impl LedgerError {
    /// Returns whether the ledger itself is faulty.
    pub(super) fn is_damage(&self) -> bool {
        match self {
            Self::Database(error) => is_unusable(error),
            Self::Damaged { .. } => true,
            _ => false,
        }
    }

    /// Returns whether the same call may succeed later: the fault is in the system around the
    /// ledger.
    pub fn may_pass(&self) -> bool {
        matches!(
            self,
            Self::Database(error) if matches!(
                error.sqlite_error_code(),
                Some(
                    ErrorCode::DiskFull
                        | ErrorCode::DatabaseBusy
                        | ErrorCode::DatabaseLocked
                        | ErrorCode::SystemIoFailure
                        | ErrorCode::ReadOnly
                        | ErrorCode::CannotOpen
                        | ErrorCode::PermissionDenied
                        | ErrorCode::FileLockingProtocolFailed
                )
            )
        )
    }

    /// Returns the same error for a reader of the ledger `file`, who cannot mend it.
    pub(super) fn for_reader_of(self, file: &Path) -> Self {
        match self {
            Self::Database(source) if is_unusable(&source) => Self::Damaged { path: file.to_owned(), source },
            other => other,
        }
    }
}

fn remedy(error: &rusqlite::Error) -> &'static str {
    match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => "; free some space",
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => " by another program; end that",
        _ => "",
    }
}

/// Returns the error of a database that holds something else than a ledger.
pub(super) fn unusable(message: String) -> rusqlite::Error {
    rusqlite::Error::SqliteFailure(rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_NOTADB), Some(message))
}

/// Returns whether the file itself is faulty, not the system around it.
pub(super) fn is_unusable(error: &rusqlite::Error) -> bool {
    match error.sqlite_error_code() {
        Some(ErrorCode::NotADatabase | ErrorCode::DatabaseCorrupt) => true,
        // A different schema under our version number.
        Some(ErrorCode::Unknown) => error.to_string().contains("no such"),
        _ => false,
    }
}
