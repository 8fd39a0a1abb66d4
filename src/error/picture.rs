//! Why one picture failed.

use std::fmt;
use std::io;
use std::sync::Arc;

use super::refusal::{Refusal, remedy_for_sharers};
use crate::config::FolderError;
use crate::fs::files::WithRemedy;
use crate::fs::input::outside;
use crate::picture::mask::MaskError;
use crate::publish::PublishError;
use crate::slot::SlotError;
use codec::{CodecError, Format, Object};

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
    /// It cannot be processed in parts, and needs more than the whole memory bound.
    #[error(
        "the picture needs {needed} bytes of memory, but --memory allows {allowed}; raise --memory to {needed}: \
         it is done as a whole, {why}"
    )]
    WholeTooLarge {
        /// Bytes that it needs.
        needed: u64,
        /// Bytes that `--memory` allows.
        allowed: u64,
        /// Why it cannot be divided.
        why: Undivided,
    },
    /// Its output could not be written.
    #[error(transparent)]
    Publish(#[from] PublishError),
    /// It has fewer levels than bins were requested for its histogram.
    #[error("its samples have only {levels} levels, fewer than {bins} bins; lower --bins")]
    TooManyBins {
        /// Levels of its samples.
        levels: usize,
        /// Bins that were requested.
        bins: usize,
    },
    /// Its levels stand for other values than those of other pictures.
    #[error(
        "its range of values is its own minimum and maximum, so its counts cannot be added to others; give one range for all with --range LOW..HIGH"
    )]
    OwnRange,
    /// Its levels stand for other values than those of others in its group, because its rescaling
    /// of stored values differs.
    #[error(
        "the files of its group differ in RescaleSlope or RescaleIntercept, so equal levels would be different values; give one range for all in rescaled values, as in --range 0..4095rescaled, or equalize each file alone"
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
    /// It was not attempted, to prevent the loss of a file.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// It is a sidecar file that could not be copied.
    #[error("it is not copied: {0}")]
    Sidecar(String),
    /// It has the metadata of a collection of images, and could not be copied.
    #[error("these metadata of a collection are not copied: {0}")]
    Collection(String),
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
    /// Returns whether the only problem is that the file's content is not a picture.
    pub fn is_not_a_picture(&self) -> bool {
        matches!(self, Self::Codec(CodecError::NotAPicture | CodecError::Empty))
    }

    /// Returns the kind of object, for a DICOM file without a picture.
    pub fn object(&self) -> Option<Object> {
        if let Self::Codec(CodecError::NoPicture(object)) = self { Some(*object) } else { None }
    }

    /// Returns whether the file has content of no known format.
    pub fn is_of_no_known_format(&self) -> bool {
        matches!(self, Self::Codec(CodecError::NotAPicture))
    }

    /// Returns whether it needs more memory in all than `--memory` allows: it fails until that is
    /// raised.
    pub fn exceeds_memory(&self) -> bool {
        match self {
            Self::Slot(SlotError::LargerThanMemory { .. })
            | Self::WholeTooLarge { .. }
            | Self::Codec(CodecError::LargerThanMemory { .. }) => true,
            Self::Page { error, .. } => error.exceeds_memory(),
            _ => false,
        }
    }

    /// Returns whether the same file may succeed at another time: the obstacle is not in the
    /// picture.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Read(error) => {
                !matches!(error.kind(), io::ErrorKind::UnexpectedEof | io::ErrorKind::InvalidData)
            }
            Self::Codec(error) => matches!(error, CodecError::Io(_) | CodecError::OutOfMemory { .. }),
            Self::Publish(error) => error.is_transient(),
            Self::Slot(error) => !matches!(error, SlotError::LargerThanMemory { .. }),
            // The rules for input and output paths can change without the picture.
            Self::Changed | Self::Folder(_) | Self::Sidecar(_) | Self::Collection(_) => true,
            Self::Refused(refusal) => !matches!(
                refusal,
                Refusal::NotAFile
                    | Refusal::ImageFolder { .. }
                    | Refusal::Labels
                    | Refusal::ObjectName { .. }
                    | Refusal::OutputName { .. }
                    | Refusal::Outside(_)
                    | Refusal::KillsProcess { .. }
                    | Refusal::Animation { .. }
                    | Refusal::NoVolume
                    | Refusal::LoneSlice
                    | Refusal::NoVolumes(_)
                    | Refusal::StackAmongSlices
                    | Refusal::SlicesDiffer { .. }
                    | Refusal::SamePlace { .. }
                    | Refusal::SameNumber { .. }
                    | Refusal::Turned { .. }
                    | Refusal::FramesAmongSlices { .. }
                    | Refusal::LargeBoxes
                    | Refusal::CountedVolume
                    | Refusal::DeepLab
                    | Refusal::UnknownChannels
                    | Refusal::NoGroup { .. }
                    | Refusal::Unlike(_)
                    | Refusal::Uncounted { .. }
            ),
            Self::Page { error, .. } => error.is_transient(),
            Self::Mask(error) => error.is_transient(),
            Self::TooManyBins { .. }
            | Self::WholeTooLarge { .. }
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
            | Self::WholeTooLarge { .. }
            | Self::Publish(_)
            | Self::TooManyBins { .. }
            | Self::PagesDiffer
            | Self::OwnRange
            | Self::OtherRescale
            | Self::Plot(_)
            | Self::Folder(_)
            | Self::Mask(_)
            | Self::Sidecar(_)
            | Self::Collection(_)
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

    /// Returns the reason without the details of this picture, to group failures by.
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

    /// Adds the number of the page, counted here from 0, to an error that a page can cause.
    pub fn on_page(self, index: usize) -> Self {
        match self {
            error @ (Self::Codec(_) | Self::Bug(_)) => {
                Self::Page { number: index + 1, error: Box::new(error) }
            }
            error => error,
        }
    }

    /// Converts an encoder's error: if writing failed, the output is to blame.
    pub fn of_encoder(error: CodecError, unwritten: impl FnOnce(io::Error) -> PublishError) -> Self {
        match error {
            CodecError::Io(source) => unwritten(source).into(),
            error => Self::Codec(error),
        }
    }

    /// Returns whether all other outputs would fail too: writing is impossible, or the bucket of
    /// the inputs is gone.
    pub fn affects_all_outputs(&self) -> bool {
        match self {
            Self::Publish(error) => error.affects_all(),
            Self::Read(error) => of_store(error).is_some_and(store::Error::concerns_bucket),
            _ => false,
        }
    }

    /// Converts the error of opening an input.
    pub(crate) fn of_input(error: io::Error) -> Self {
        match outside(&error) {
            Some(outside) => Refusal::Outside(outside.clone()).into(),
            None => Self::Read(error),
        }
    }

    /// Converts the error of reading an object.
    pub(crate) fn of_store(error: store::Error) -> Self {
        if error.is_precondition() { Self::Changed } else { Self::Read(io::Error::other(error)) }
    }
}

/// Why a picture is processed as a whole, for people.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Undivided {
    /// It is a slice of a volume.
    Slice,
    /// Its channels are equalized by several devices.
    SplitChannels,
    /// It is counted after it is equalized.
    CountedLater,
    /// Its format, or the way it is stored or written, does not allow bands.
    Format(Format),
}

impl fmt::Display for Undivided {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Slice => "as slices of volumes are, with --tiles of three numbers",
            Self::SplitChannels => "as all are with --split-channels",
            Self::CountedLater => "as all are for histogram --equalized",
            Self::Format(Format::Tiff) => {
                "as this TIFF is stored or with these settings; others are done in bands of rows"
            }
            Self::Format(Format::Pnm) => {
                "as text, PFMs, and with these settings all PNMs are; others are done in bands of rows"
            }
            Self::Format(Format::Png) => {
                "as interlaced and animated PNGs, and with these settings all are; others are done in bands of rows"
            }
            Self::Format(Format::Bmp) => {
                "as run-length encoded BMPs, and with these settings all are; others are done in bands of rows"
            }
            Self::Format(_) => {
                "and only TIFFs, PNGs, BMPs and PNMs that become one of these are done in bands of rows"
            }
        })
    }
}

/// Returns the error of object storage inside a system error, if there is one.
fn of_store(error: &io::Error) -> Option<&store::Error> {
    error.get_ref()?.downcast_ref()
}

/// For decoders, whose I/O errors concern the input. [`PictureError::of_encoder`] is for encoders.
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
