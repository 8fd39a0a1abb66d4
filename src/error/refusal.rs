//! Why a picture was not attempted.

use std::path::PathBuf;

use crate::fs::input::Outside;
use crate::fs::paths::Shown;
use crate::picture::reference::Unlike;
use codec::volumes::NoVolumes;

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
    /// An earlier input's output has the name, and must not be replaced.
    #[error(
        "{} exists already, from an earlier input; remove it, or use --on-collision number to keep both",
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
    /// Its output would lie in an input folder, where a file that was not selected, or is yet to
    /// come, might have its name.
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
    /// Its output would lie in a folder for finished inputs, or for the service's state, and might
    /// replace a file there.
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
        "does not exist; the shell expands globs unless they are quoted or match nothing: give the folder, and the glob to --include"
    )]
    Glob,
    /// It is on the list of files, but outside the input folders.
    #[error("it is on the list, but in no input folder; give its folder as INPUT")]
    OutsideInputs,
    /// It is an animation: CLAHE equalizes each frame by itself, and the frames are counted as one
    /// picture.
    #[error(
        "the {frames} frames of an animation are counted as one picture, but CLAHE equalizes each alone; count the output of `histeqd --method clahe`"
    )]
    Animation {
        /// Its frames.
        frames: usize,
    },
    /// It is divided into boxes, and is not a stack.
    #[error(
        "--tiles with three numbers divides the pages of a stack into boxes, but this file is one picture; use two, such as 8x8, or --together folder \
         if the files of a folder are slices"
    )]
    NoVolume,
    /// It is to be a slice of a volume, but is the only one.
    #[error(
        "--tiles with three numbers divides the slices of a volume into boxes, but this file is alone in its folder, series or group; use two, such as 8x8"
    )]
    LoneSlice,
    /// It is divided into boxes, but its pages are not slices of volumes.
    #[error(
        "--tiles with three numbers divides volumes into boxes, and {0}; write each volume into a file of its own, or use two numbers, such as 8x8"
    )]
    NoVolumes(#[from] NoVolumes),
    /// It is to be a slice of a volume, and has several pages.
    #[error(
        "its pages are a volume of their own, but --together makes volumes of several files; process it separately, without --together"
    )]
    StackAmongSlices,
    /// It is a slice that differs from another of the same volume.
    #[error(
        "it has {own}, but {}, a slice of the same volume, has {others}; give each volume a folder of its own, or separate them with --together-by",
        Shown(other)
    )]
    SlicesDiffer {
        /// Its size and kind.
        own: String,
        /// The other file.
        other: PathBuf,
        /// Size and kind of the other.
        others: String,
    },
    /// It is a slice of a volume in which two lie at the same place.
    #[error(
        "{} and {}, slices of its volume, lie at the same place; give each volume a folder of its own, or separate them with --together-by",
        Shown(one),
        Shown(other)
    )]
    SamePlace {
        /// A slice.
        one: PathBuf,
        /// One at the same place.
        other: PathBuf,
    },
    /// It is a slice of a volume in which two have one number, and nothing else that orders them.
    #[error(
        "{} and {}, slices of its volume, have the same InstanceNumber, and their positions are not stated (ImagePositionPatient, ImageOrientationPatient); \
         give each volume a folder of its own, or separate them with --together-by",
        Shown(one),
        Shown(other)
    )]
    SameNumber {
        /// A slice.
        one: PathBuf,
        /// One of the same number.
        other: PathBuf,
    },
    /// It is a slice of a volume in which planes have different orientations.
    #[error(
        "{} and {}, slices of its volume, lie in planes of different orientations (ImageOrientationPatient); give each volume a folder of its own, \
         or separate them with --together-by",
        Shown(one),
        Shown(other)
    )]
    Turned {
        /// A slice.
        one: PathBuf,
        /// One of another orientation.
        other: PathBuf,
    },
    /// It is a slice of a volume in which a DICOM file has several frames.
    #[error(
        "{}, of its volume, has several frames, which are a volume or a part of one by themselves (as in a concatenation), and --together makes \
         volumes of files of one frame; leave --together out for such files, or use --tiles of two numbers, such as 8x8",
        Shown(file)
    )]
    FramesAmongSlices {
        /// The file.
        file: PathBuf,
    },
    /// It is a slice of a volume that cannot be made, as another of its files failed.
    #[error("{}, of the same volume, failed; repair or remove it", Shown(slice))]
    BrokenVolume {
        /// The file that failed.
        slice: PathBuf,
    },
    /// A box has more pixels than a count can hold.
    #[error("--tiles makes boxes of more than 4294967295 pixels; use more tiles")]
    LargeBoxes,
    /// It is counted after it is equalized, page by page, and boxes need all of them.
    #[error(
        "--equalized cannot count stacks with --tiles of three numbers; count the output of `histeqd --method clahe`"
    )]
    CountedVolume,
    /// It has colours of 16 bits, which have no place in OpenCV's L\*a\*b\* of bytes.
    #[error("--color lab needs 8-bit colours, and these have 16; use --color hue")]
    DeepLab,
    /// The channel of its pages is unknown.
    #[error(
        "its description does not assign its pages to its channels, which --together channel needs; use --together file or page"
    )]
    UnknownChannels,
    /// Its path does not name a group.
    #[error(
        "--together-by {} does not match its path below the input folder, so it has no group; correct the expression, or leave the picture out with --exclude",
        Shown(pattern)
    )]
    NoGroup {
        /// The expression.
        pattern: String,
    },
    /// It differs in kind from the reference.
    #[error(transparent)]
    Unlike(#[from] Unlike),
    /// The table of levels is made from given counts, and these are of other kinds of pictures.
    #[error(
        "the files of --lut have no counts for its kind of picture ({kind}); count some with `histeqd histogram --counts FILE`"
    )]
    Uncounted {
        /// Its kind.
        kind: String,
    },
    /// There is no object with the URL that the user gave.
    #[error(
        "there is no such object; a URL without the name of a picture, or with a slash at its end, is a folder"
    )]
    NoObject,
    /// It is an object whose name cannot be used.
    #[error("{why}; copy it under another name")]
    ObjectName {
        /// The reason, as a sentence about such names.
        why: &'static str,
    },
    /// Its output would be an object whose name cannot be used.
    #[error("its output cannot be written: {why}; rename it")]
    OutputName {
        /// The reason, as a sentence that names the output.
        why: String,
    },
    /// A link leads to it from the folders that may be read, and it lies outside all of them.
    #[error("{0}; use --links follow to include it")]
    Outside(Outside),
    /// It is an OME-Zarr image, which is a folder, and this input cannot be one.
    #[error("an OME-Zarr image is a folder, and {why}")]
    ImageFolder {
        /// The reason, and the remedy.
        why: &'static str,
    },
    /// It is an OME-Zarr image of labels, by the group that lists it.
    #[error(
        "its group lists it among labels, whose values are no brightness; name the image that they are of, or leave them out with --exclude labels"
    )]
    Labels,
    /// It has no content to read: it is a socket, a pipe or a device.
    #[error("not a regular file")]
    NotAFile,
    /// The process was killed too often while the picture was in progress.
    #[error(
        "histeqd was killed {starts} times in a row while it was in progress (the kernel's log shows whether memory ran out), so it is left out; `histeqd retry` retries it"
    )]
    KillsProcess {
        /// How often it was begun.
        starts: u32,
    },
}

pub(super) fn remedy_for_sharers(separable: bool) -> &'static str {
    if separable {
        "use --prefix-folder to give each input folder its own output folder, or rename one"
    } else {
        "rename one, or use different output folders"
    }
}
