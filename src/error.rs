//! What can go wrong: for one picture, and for the whole run; and the exit codes.

use std::io;
use std::path::PathBuf;

use crate::codec::CodecError;
use crate::config::ConfigError;
use crate::files::WithRemedy;
use crate::paths::Shown;
use crate::publish::PublishError;
use crate::slot::SlotError;

/// Why one picture failed. The others go on.
#[derive(Debug, thiserror::Error)]
pub enum PictureError {
    /// Its file could not be read.
    #[error("cannot be read: {}", WithRemedy(.0))]
    Read(#[source] io::Error),
    /// Its file was written to, replaced or removed while it was read.
    #[error("it changed while it was being read")]
    Changed,
    /// Its content could not be understood, or not be written in the format that was asked for.
    #[error(transparent)]
    Codec(CodecError),
    /// There was no memory for it.
    #[error(transparent)]
    Slot(#[from] SlotError),
    /// Its output could not be written.
    #[error(transparent)]
    Publish(#[from] PublishError),
    /// It has fewer levels than its histogram is to have bins.
    #[error("its samples have {levels} levels, which make no {bins} bins; lower --bins")]
    TooManyBins {
        /// Levels of its samples.
        levels: usize,
        /// Bins that were asked for.
        bins: usize,
    },
    /// Its plot could not be drawn.
    #[error("its plot cannot be drawn: {0}")]
    Plot(String),
    /// It was not attempted, so that nothing is lost.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The code that handled it broke one of its own promises.
    #[error("histeqd has a bug here, please report it: {0}")]
    Bug(String),
}

impl PictureError {
    /// Whether the content, and nothing else, says that the file is no picture.
    pub fn is_no_picture(&self) -> bool {
        matches!(self, Self::Codec(CodecError::NotAPicture | CodecError::Empty))
    }

    /// Whether the same file may do at another time, or with more memory: what is in the way is not in the picture.
    pub fn can_pass(&self) -> bool {
        match self {
            Self::Read(error) => {
                !matches!(error.kind(), io::ErrorKind::UnexpectedEof | io::ErrorKind::InvalidData)
            }
            Self::Codec(error) => matches!(error, CodecError::Io(_) | CodecError::OutOfMemory { .. }),
            Self::Publish(error) => error.can_pass(),
            Self::Slot(_) | Self::Changed | Self::Refused(Refusal::SharedOutput { .. }) => true,
            Self::Refused(_) | Self::TooManyBins { .. } | Self::Plot(_) | Self::Bug(_) => false,
        }
    }

    /// What it says in a service, which tries again by itself.
    pub fn in_service(&self) -> String {
        match self {
            Self::Publish(error) => error.in_service(),
            error => error.to_string(),
        }
    }

    /// Whether no other picture's output could be written either.
    pub fn concerns_all_outputs(&self) -> bool {
        matches!(self, Self::Publish(error) if error.concerns_all())
    }
}

/// Of a decoder: its input is what it could not read. An encoder's error becomes one by [`Unpublished::failed`].
///
/// [`Unpublished::failed`]: crate::publish::Unpublished::failed
impl From<CodecError> for PictureError {
    fn from(error: CodecError) -> Self {
        match error {
            CodecError::Io(error) => Self::Read(error),
            error => Self::Codec(error),
        }
    }
}

/// Why a picture was not attempted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// Another input has the same output.
    #[error(
        "{} would have the same output, {}; rename one, or do them in two runs with different output folders",
        Shown(other),
        Shown(output)
    )]
    SharedOutput {
        /// The other input, or the first of several.
        other: PathBuf,
        /// The output.
        output: PathBuf,
    },
    /// Its output would replace an input.
    #[error("its output {} would replace an input; choose another --out", Shown(output))]
    ReplacesInput {
        /// The output.
        output: PathBuf,
    },
    /// It is something that has no content to read: a socket, a pipe, a device.
    #[error("not a regular file")]
    NotAFile,
}

/// Why nothing, or nothing more, could be done at all.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The command line makes no sense.
    #[error("{0}")]
    Usage(String),
    /// The configuration file cannot be used.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The command is right, but the machine cannot do it.
    #[error("{0}")]
    CannotRun(String),
    /// What was asked for cannot be written to where it was to go.
    #[error("{what} cannot be written: {source}")]
    Unwritten {
        /// What was asked for, or the file that it was to be.
        what: String,
        /// What the system said.
        source: io::Error,
    },
}

impl Error {
    /// The system gives no thread.
    #[expect(clippy::needless_pass_by_value, reason = "fits map_err")]
    pub fn thread(error: io::Error) -> Self {
        Self::CannotRun(format!(
            "the system gives no thread: {error}; lower --threads or raise the limit on processes"
        ))
    }

    /// Whether there is nobody to tell: the reader of the output went away, as `head` does when it has enough.
    pub fn is_unheard(&self) -> bool {
        matches!(self, Self::Unwritten { source, .. } if source.kind() == io::ErrorKind::BrokenPipe)
    }

    /// The exit code that tells the shell.
    pub fn exit(&self) -> Exit {
        match self {
            Self::Usage(_) | Self::Config(_) => Exit::Usage,
            Self::Unwritten { .. } if self.is_unheard() => Exit::Done,
            Self::CannotRun(_) | Self::Unwritten { .. } => Exit::CannotRun,
        }
    }
}

/// How the process ends. The numbers are a promise to scripts.
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
    use super::*;

    #[test]
    fn exit_codes_are_the_promised_ones() {
        let codes = [Exit::Done, Exit::SomeFailed, Exit::Usage, Exit::CannotRun, Exit::Stopped];
        assert_eq!(codes.map(|code| code as u8), [0, 1, 2, 3, 130]);
        assert_eq!(Error::Usage(String::new()).exit(), Exit::Usage);
        assert_eq!(Error::CannotRun(String::new()).exit(), Exit::CannotRun);
    }

    #[test]
    fn a_reader_that_has_enough_is_no_error_and_a_full_disk_is() {
        let unwritten =
            |kind: io::ErrorKind| Error::Unwritten { what: "the list".into(), source: kind.into() };
        let unheard = unwritten(io::ErrorKind::BrokenPipe);
        assert_eq!((unheard.is_unheard(), unheard.exit()), (true, Exit::Done));
        let full = unwritten(io::ErrorKind::StorageFull);
        assert_eq!((full.is_unheard(), full.exit()), (false, Exit::CannotRun));
        assert_eq!(full.to_string(), "the list cannot be written: no storage space");
    }
}
