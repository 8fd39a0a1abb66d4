//! Errors of one picture and of the whole run, and the exit codes.

mod picture;
mod refusal;

use std::io;

use crate::config::ConfigError;
use crate::ledger::{LedgerError, LockError, TakeError};
use crate::publish::PublishError;

pub use picture::{PictureError, Undivided};
pub use refusal::Refusal;

/// Why a run or a command could not start, or not go on.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The command line is invalid.
    #[error("{0}")]
    Usage(String),
    /// The configuration file cannot be used.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The command is valid, but the machine cannot carry it out.
    #[error("{0}")]
    CannotRun(String),
    /// Another process uses the output folder or the ledger, or they cannot be locked.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// The ledger cannot be used.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    /// An output that the run as a whole needs cannot be written.
    #[error(transparent)]
    Publish(#[from] PublishError),
    /// The requested output cannot be written.
    #[error("{what} cannot be written: {source}")]
    Unwritten {
        /// The name of the output, or of its file.
        what: String,
        /// The error of the operating system.
        source: io::Error,
    },
}

impl From<TakeError> for Error {
    fn from(error: TakeError) -> Self {
        match error {
            TakeError::Lock(error) => Self::Lock(error),
            TakeError::Ledger(error) => Self::Ledger(error),
        }
    }
}

impl Error {
    /// Converts the error of a thread that could not be started.
    #[expect(clippy::needless_pass_by_value, reason = "fits map_err")]
    pub fn thread(error: io::Error) -> Self {
        Self::CannotRun(format!(
            "cannot start a thread: {error}; lower --threads or raise the limit on processes"
        ))
    }

    /// Returns whether the reader of the output has closed it, as `head` does when it has enough;
    /// an error message would be noise.
    pub fn is_broken_pipe(&self) -> bool {
        matches!(self, Self::Unwritten { source, .. } if source.kind() == io::ErrorKind::BrokenPipe)
    }

    /// Returns the exit code for the shell.
    pub fn exit(&self) -> Exit {
        match self {
            Self::Usage(_) | Self::Config(_) => Exit::Usage,
            Self::Unwritten { .. } if self.is_broken_pipe() => Exit::Done,
            Self::CannotRun(_)
            | Self::Lock(_)
            | Self::Ledger(_)
            | Self::Publish(_)
            | Self::Unwritten { .. } => Exit::CannotRun,
        }
    }
}

/// The end of the process. Scripts may rely on the numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    /// Everything was done.
    Done = 0,
    /// Some pictures failed.
    SomeFailed = 1,
    /// Wrong usage or configuration.
    Usage = 2,
    /// It could not run at all.
    CannotRun = 3,
    /// The user stopped it.
    Stopped = 130,
}

impl From<Exit> for std::process::ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use crate::config::Durability;
    use crate::publish::Publisher;
    use codec::CodecError;

    #[test]
    fn exit_codes_are_the_promised_ones() {
        let codes = [Exit::Done, Exit::SomeFailed, Exit::Usage, Exit::CannotRun, Exit::Stopped];
        assert_eq!(codes.map(|code| code as u8), [0, 1, 2, 3, 130]);
        assert_eq!(Error::Usage(String::new()).exit(), Exit::Usage);
        assert_eq!(Error::CannotRun(String::new()).exit(), Exit::CannotRun);
        assert_eq!(Error::from(LedgerError::NotOurs(PathBuf::new())).exit(), Exit::CannotRun);
    }

    #[test]
    fn an_encoder_s_failed_write_is_the_output_s_fault_and_nothing_else_is() {
        let folder = tempfile::tempdir().unwrap();
        let publisher = Publisher::new(Durability::Fast);
        let output = publisher.begin(folder.path(), &folder.path().join("c.png")).unwrap();
        let of = |error| PictureError::of_encoder(error, |source| output.unwritten(source));
        let full = of(CodecError::Io(io::ErrorKind::StorageFull.into()));
        assert!(matches!(full, PictureError::Publish(_)) && full.affects_all_outputs());
        assert!(of(CodecError::NotAPicture).is_not_a_picture());
    }

    #[test]
    fn a_reader_that_has_enough_is_no_error_and_a_full_disk_is() {
        let unwritten =
            |kind: io::ErrorKind| Error::Unwritten { what: "the list".into(), source: kind.into() };
        let unheard = unwritten(io::ErrorKind::BrokenPipe);
        assert_eq!((unheard.is_broken_pipe(), unheard.exit()), (true, Exit::Done));
        let full = unwritten(io::ErrorKind::StorageFull);
        assert_eq!((full.is_broken_pipe(), full.exit()), (false, Exit::CannotRun));
        assert_eq!(full.to_string(), "the list cannot be written: no storage space");
    }
}
