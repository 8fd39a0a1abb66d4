//! What can go wrong, for one picture and for the whole run; and the exit codes.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use crate::config::{ConfigError, FolderError};
use crate::fs::files::WithRemedy;
use crate::fs::input::{Outside, outside};
use crate::fs::paths::Shown;
use crate::ledger::{LedgerError, LockError, TakeError};
use crate::picture::mask::MaskError;
use crate::picture::reference::Unlike;
use crate::publish::PublishError;
use crate::slot::SlotError;
use codec::{CodecError, Object};

/// Why one picture failed. The others go on.
#[derive(Debug, thiserror::Error)]
pub enum PictureError {
    /// Its file could not be read.
    #[error("cannot be read: {}", WithRemedy(.0))]
    Read(#[source] io::Error),
    /// Its file was written to, replaced or removed before its output was published.
    #[error("it changed while it was being read")]
    Changed,
    /// Its content could not be decoded, or not be encoded in the requested format.
    #[error(transparent)]
    Codec(CodecError),
    /// There was no memory for it.
    #[error(transparent)]
    Slot(#[from] SlotError),
    /// Its output could not be written.
    #[error(transparent)]
    Publish(#[from] PublishError),
    /// It has fewer levels than bins were requested for its histogram.
    #[error("its samples have only {levels} levels, which is fewer than {bins} bins; lower --bins")]
    TooManyBins {
        /// Levels of its samples.
        levels: usize,
        /// Bins that were requested.
        bins: usize,
    },
    /// Its levels stand for other values than those of other pictures.
    #[error(
        "its samples are spread over levels between its own least and greatest value, so they cannot be counted together with others; \
         give the range of all with --range LOW..HIGH"
    )]
    OwnRange,
    /// Its levels stand for other values than those of others in its group, because stored values are rescaled otherwise.
    #[error(
        "stored values of its group are rescaled in different ways (RescaleSlope, RescaleIntercept), so that equal levels would be other values; \
         give the range of all in their unit, as in --range -1000hu..400hu or 0..30000bqml, or equalize each for itself"
    )]
    OtherRescale,
    /// It has pages whose histograms cannot be added.
    #[error(
        "its pages are not of one kind, so their histograms cannot be added; split it into single pictures first"
    )]
    PagesDiffer,
    /// Its plot could not be drawn.
    #[error("its plot cannot be drawn: {0}")]
    Plot(String),
    /// The settings of its folder cannot be used.
    #[error("its folder's settings cannot be used: {0}")]
    Folder(Arc<FolderError>),
    /// It cannot have its mask.
    #[error(transparent)]
    Mask(Box<MaskError>),
    /// It was not attempted, so that nothing is lost.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// One of its pages failed.
    #[error("page {number}: {error}")]
    Page {
        /// The number of the page, from 1.
        number: usize,
        /// Why it failed.
        error: Box<Self>,
    },
    /// A bug: the code that processed it panicked.
    #[error("histeqd has a bug here, please report it: {0}")]
    Bug(String),
}

impl PictureError {
    /// Returns whether the only thing wrong is that the file's content is not a picture.
    pub fn is_not_a_picture(&self) -> bool {
        matches!(self, Self::Codec(CodecError::NotAPicture | CodecError::Empty))
    }

    /// Returns what the file is, if it is a DICOM object that is no picture.
    pub fn object(&self) -> Option<Object> {
        if let Self::Codec(CodecError::NoPicture(object)) = self { Some(*object) } else { None }
    }

    /// Returns whether the file has content, and nothing in it says what that is.
    pub fn is_of_no_known_format(&self) -> bool {
        matches!(self, Self::Codec(CodecError::NotAPicture))
    }

    /// Returns whether it needs more memory in all than `--memory` allows, so that it fails until there is more.
    pub fn exceeds_memory(&self) -> bool {
        match self {
            Self::Slot(SlotError::LargerThanMemory { .. })
            | Self::Codec(CodecError::LargerThanMemory { .. }) => true,
            Self::Page { error, .. } => error.exceeds_memory(),
            _ => false,
        }
    }

    /// Returns whether the same file may succeed at another time: the obstacle is not in the picture.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Read(error) => {
                !matches!(error.kind(), io::ErrorKind::UnexpectedEof | io::ErrorKind::InvalidData)
            }
            Self::Codec(error) => matches!(error, CodecError::Io(_) | CodecError::OutOfMemory { .. }),
            Self::Publish(error) => error.is_transient(),
            Self::Slot(error) => !matches!(error, SlotError::LargerThanMemory { .. }),
            // Where inputs and outputs may go can change without the picture.
            Self::Changed | Self::Folder(_) => true,
            Self::Refused(refusal) => !matches!(
                refusal,
                Refusal::NotAFile
                    | Refusal::ObjectName { .. }
                    | Refusal::OutputName { .. }
                    | Refusal::Outside(_)
                    | Refusal::KillsProcess { .. }
                    | Refusal::Animation { .. }
                    | Refusal::DeepLab
                    | Refusal::Unlike(_)
                    | Refusal::Uncounted { .. }
            ),
            Self::Page { error, .. } => error.is_transient(),
            Self::Mask(error) => error.is_transient(),
            Self::TooManyBins { .. }
            | Self::PagesDiffer
            | Self::OwnRange
            | Self::OtherRescale
            | Self::Plot(_)
            | Self::Bug(_) => false,
        }
    }

    /// Returns whether the rest of a file that is still being written could mend this.
    pub fn may_be_incomplete(&self) -> bool {
        match self {
            Self::Codec(error) => error.may_be_incomplete(),
            Self::Page { error, .. } => error.may_be_incomplete(),
            // The end is missing, or a decoder was not prepared for that.
            Self::Read(_) | Self::Bug(_) => true,
            Self::Changed
            | Self::Slot(_)
            | Self::Publish(_)
            | Self::TooManyBins { .. }
            | Self::PagesDiffer
            | Self::OwnRange
            | Self::OtherRescale
            | Self::Plot(_)
            | Self::Folder(_)
            | Self::Mask(_)
            | Self::Refused(_) => false,
        }
    }

    /// Returns the message for a service, which tries again by itself.
    pub fn in_service(&self) -> String {
        match self {
            Self::Publish(error) => error.in_service(),
            error => error.to_string(),
        }
    }

    /// Returns the reason without what differs from picture to picture, by which failures are grouped.
    pub fn kind(&self) -> String {
        match self {
            Self::Codec(error) => error.kind(),
            Self::Page { error, .. } => error.kind(),
            Self::Publish(error) => error.kind(),
            Self::Refused(Refusal::SharedOutput { separable, .. }) => {
                format!("another input would have the same output; {}", remedy_for_sharers(*separable))
            }
            Self::Refused(Refusal::ReplacesInput { .. }) => {
                "its output would replace an input; choose another --out".into()
            }
            Self::Refused(Refusal::InInputFolder { .. }) => {
                "its output would lie in an input folder; choose another --out".into()
            }
            error => error.to_string(),
        }
    }

    /// Names the page, numbered from 0, that is at fault, unless none is.
    pub fn on_page(self, index: usize) -> Self {
        match self {
            error @ (Self::Codec(_) | Self::Bug(_)) => {
                Self::Page { number: index + 1, error: Box::new(error) }
            }
            error => error,
        }
    }

    /// Returns what an encoder's error means for the picture: if writing failed, the output is to blame.
    pub fn of_encoder(error: CodecError, unwritten: impl FnOnce(io::Error) -> PublishError) -> Self {
        match error {
            CodecError::Io(source) => unwritten(source).into(),
            error => Self::Codec(error),
        }
    }

    /// Returns whether no output of any other picture could be made either: none can be written, or the bucket of the inputs is gone.
    pub fn affects_all_outputs(&self) -> bool {
        match self {
            Self::Publish(error) => error.affects_all(),
            Self::Read(error) => of_store(error).is_some_and(store::Error::concerns_bucket),
            _ => false,
        }
    }

    /// Returns what it means that an input cannot be opened.
    pub(crate) fn of_input(error: io::Error) -> Self {
        match outside(&error) {
            Some(outside) => Refusal::Outside(outside.clone()).into(),
            None => Self::Read(error),
        }
    }

    /// Returns what it means that an object cannot be read.
    pub(crate) fn of_store(error: store::Error) -> Self {
        if error.is_precondition() { Self::Changed } else { Self::Read(io::Error::other(error)) }
    }
}

/// Returns the error of object storage that a system error stands for, if it does.
pub(crate) fn of_store(error: &io::Error) -> Option<&store::Error> {
    error.get_ref()?.downcast_ref()
}

/// For errors of decoders: what they could not read is the input. See [`PictureError::of_encoder`] for those of encoders.
impl From<CodecError> for PictureError {
    fn from(error: CodecError) -> Self {
        match error {
            CodecError::Io(error) => Self::Read(error),
            error => Self::Codec(error),
        }
    }
}

impl From<MaskError> for PictureError {
    fn from(error: MaskError) -> Self {
        Self::Mask(Box::new(error))
    }
}

/// Why a picture was not attempted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// Another input has the same output.
    #[error("{} would have the same output, {}; {}", Shown(other), Shown(output), remedy_for_sharers(*separable))]
    SharedOutput {
        /// The other input, or the first of several.
        other: PathBuf,
        /// The output.
        output: PathBuf,
        /// Whether `--prefix-folder` would give them outputs of their own.
        separable: bool,
    },
    /// There is an output of an earlier input, which is not to be replaced.
    #[error(
        "there is {} already, from an earlier input; take it away, or use --on-collision number to keep both",
        Shown(output)
    )]
    FormerOutput {
        /// The output.
        output: PathBuf,
    },
    /// Its output would replace an input.
    #[error("its output {} would replace an input; choose another --out", Shown(output))]
    ReplacesInput {
        /// The output.
        output: PathBuf,
    },
    /// Its output would lie in an input folder, where a file that was not selected, or is yet to come, might have its name.
    #[error(
        "its output {} would lie in the input folder {}; choose another --out",
        Shown(output),
        Shown(folder)
    )]
    InInputFolder {
        /// The output.
        output: PathBuf,
        /// The input folder.
        folder: PathBuf,
    },
    /// Its output would lie in a folder for finished inputs, or for the service's state, and might replace what is there.
    #[error(
        "its output {} would lie in a folder of --after, --failed or --state; rename its folder, or use another folder there",
        Shown(output)
    )]
    AmongInputs {
        /// The output.
        output: PathBuf,
    },
    /// It does not exist, and its name is a glob.
    #[error(
        "does not exist; the shell replaces a glob by names unless it is quoted or matches nothing: \
         give the folder, and this to --include if need be"
    )]
    Glob,
    /// It is on the list of files, and in no input folder.
    #[error("it is listed, and lies in no input folder; name the folder that it lies in as INPUT")]
    OutsideInputs,
    /// It is an animation, whose frames have one histogram, and tiles would lie across them.
    #[error(
        "CLAHE cannot do an animation, whose {frames} frames are one picture; use --method global, or extract the frames first"
    )]
    Animation {
        /// Its frames.
        frames: usize,
    },
    /// Colours of 16 bits, which have no place in OpenCV's L\*a\*b\* of bytes.
    #[error("--color lab is for colours of 8 bits, and these have 16; --color hue takes both")]
    DeepLab,
    /// It is not like the reference that it is to get its levels from.
    #[error(transparent)]
    Unlike(#[from] Unlike),
    /// The table of levels is made of given counts, and none are of pictures like it.
    #[error(
        "the files of --lut have no counts of pictures like it ({kind}); count some with `histeqd histogram --counts FILE`"
    )]
    Uncounted {
        /// Its kind.
        kind: String,
    },
    /// There is no object with the URL that the user gave.
    #[error(
        "there is no such object; a URL whose name is not that of a picture, or has a slash at its end, stands for a folder"
    )]
    NoObject,
    /// It is an object whose name cannot be used.
    #[error("{why}; copy it under another name")]
    ObjectName {
        /// Why, as a sentence about such names.
        why: &'static str,
    },
    /// Its output would be an object whose name cannot be used.
    #[error("its output cannot be written: {why}; rename it")]
    OutputName {
        /// Why, as a sentence that names the output.
        why: String,
    },
    /// A link leads to it from the folders that may be read, and it lies in none of these.
    #[error("{0}; --links follow takes it")]
    Outside(Outside),
    /// It has no content to read: it is a socket, a pipe or a device.
    #[error("not a regular file")]
    NotAFile,
    /// Its process was killed too often while it was in progress.
    #[error(
        "histeqd was killed {starts} times in a row while it was in progress (the kernel's log says if memory ran out), so it is left \
         out; `histeqd retry` takes it up again"
    )]
    KillsProcess {
        /// How often it was begun.
        starts: u32,
    },
}

fn remedy_for_sharers(separable: bool) -> &'static str {
    if separable {
        "use --prefix-folder, which gives each input folder a folder of its own there, or rename one"
    } else {
        "rename one, or use different output folders"
    }
}

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
        /// What could not be written: the output, or its file.
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

    /// Converts the error of a trace that cannot be written to this file.
    pub(crate) fn trace((path, source): (PathBuf, io::Error)) -> Self {
        Self::Unwritten { what: format!("the trace {}", Shown(&path)), source }
    }

    /// Returns whether there is nobody to tell: the reader of the output went away, as `head` does when it has enough.
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

/// How the process ends. Scripts may rely on the numbers.
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
    use crate::config::Durability;
    use crate::publish::Publisher;

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
