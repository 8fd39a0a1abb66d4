//! The types of the keys that are choices, and how their values are spelled.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use clap::ValueEnum;

use super::local::refuse_url;
use crate::selection::Links;
use codec::{Format, PngLevel};
use equalize::Colour;
use equalize::colour::Gray;

/// A method of contrast enhancement, without its parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum MethodName {
    /// Histogram equalization of the whole picture.
    Global,
    /// The levels between two percentiles are spread over the whole range.
    Stretch,
    /// The histogram is made like that of a reference.
    Match,
    /// Contrast-limited adaptive histogram equalization.
    Clahe,
}

/// A subject of pictures for which there is a set of keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Preset {
    /// Nothing in particular.
    None,
    /// Photographs.
    Photo,
    /// Documents and old photographs.
    Scan,
    /// X-rays, slices of CT and MR.
    Xray,
    /// DICOM as pictures to look at.
    Dicom,
    /// Pictures of microscopes.
    Microscopy,
    /// Satellite scenes.
    Satellite,
    /// Pictures of thermal cameras.
    Thermal,
    /// Pictures to train on.
    Training,
}

/// The pictures whose levels are counted together, and that have the same LUT.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum TogetherChoice {
    /// Each page for itself, and the channels of an OME-Zarr image.
    Auto,
    /// Each page for itself.
    Page,
    /// The pages of a file.
    File,
    /// The pages of each channel of a file.
    Channel,
    /// The same where each page of a file may have a table with others, and else each page for itself.
    Stack,
    /// The files of a folder, without those of folders in it.
    Folder,
    /// The DICOM files of a series; each other file for itself.
    Series,
    /// All of the run.
    All,
}

/// Where the pages of a file go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum FramesChoice {
    /// Into one file.
    Keep,
    /// Those of a file that has several each into a file of its own.
    Auto,
    /// Each into a file of its own.
    Split,
}

/// Treatment of the smaller versions of pictures that some files have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum OverviewsChoice {
    /// They are made again.
    Keep,
    /// They are left out.
    Drop,
}

/// A file that is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InputFile(pub PathBuf);

impl FromStr for InputFile {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        if text.is_empty() {
            return Err("a file must have a name".into());
        }
        refuse_url(text)?;
        Ok(Self(text.into()))
    }
}

impl fmt::Display for InputFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.display().fmt(f)
    }
}

/// The depth of the pictures that are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum DepthChoice {
    /// The depth of each picture that is read.
    Keep,
    /// 8 bit.
    #[value(name = "8")]
    Eight,
}

impl FromStr for DepthChoice {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        <Self as ValueEnum>::from_str(text.trim(), true)
            .map_err(|_| format!("{text:?} is neither keep nor 8"))
    }
}

impl fmt::Display for DepthChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Keep => "keep",
            Self::Eight => "8",
        })
    }
}

/// The part of a colour picture that is equalized.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Color {
    /// The brightness; red, green and blue change by as much.
    Luma,
    /// The brightness; colours keep their hue, and grow with it.
    Hue,
    /// L of L*a*b*, as OpenCV converts 8 bits.
    Lab,
    /// Each channel by itself.
    PerChannel,
    /// Red, green and blue by one table, of the sum of their counts.
    Linked,
    /// The brightness, and nothing else is written.
    Gray,
    /// Red, and nothing else is written.
    Red,
    /// Green, and nothing else is written.
    Green,
    /// Blue, and nothing else is written.
    Blue,
}

impl Color {
    /// Returns which part of a colour picture is equalized; a picture that becomes gray has no
    /// colours by then.
    pub(super) const fn equalized(self) -> Colour {
        match self {
            Self::Luma | Self::Gray | Self::Red | Self::Green | Self::Blue => Colour::Luma,
            Self::Hue => Colour::Hue,
            Self::Lab => Colour::Lab,
            Self::PerChannel => Colour::PerChannel,
            Self::Linked => Colour::Linked,
        }
    }

    /// Returns the gray that colours are converted to, if they are.
    pub(super) const fn gray(self) -> Option<Gray> {
        match self {
            Self::Luma | Self::Hue | Self::Lab | Self::PerChannel | Self::Linked => None,
            Self::Gray => Some(Gray::Luma),
            Self::Red => Some(Gray::Red),
            Self::Green => Some(Gray::Green),
            Self::Blue => Some(Gray::Blue),
        }
    }
}

/// The format of the outputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum FormatName {
    /// Each picture's own.
    Keep,
    /// PNG.
    Png,
    /// JPEG.
    #[value(alias = "jpg")]
    Jpeg,
    /// TIFF.
    #[value(alias = "tif")]
    Tiff,
    /// PGM, PPM or PAM, whichever holds the picture.
    Pnm,
    /// BMP.
    Bmp,
    /// WebP, without loss.
    #[value(name = "webp")]
    WebP,
    /// GIF, of at most 256 colours a frame.
    Gif,
    /// DICOM, of DICOM only.
    #[value(alias = "dcm")]
    Dicom,
}

impl From<FormatName> for Option<Format> {
    fn from(name: FormatName) -> Self {
        Some(match name {
            FormatName::Keep => return None,
            FormatName::Png => Format::Png,
            FormatName::Jpeg => Format::Jpeg,
            FormatName::Tiff => Format::Tiff,
            FormatName::Pnm => Format::Pnm,
            FormatName::Bmp => Format::Bmp,
            FormatName::WebP => Format::WebP,
            FormatName::Gif => Format::Gif,
            FormatName::Dicom => Format::Dicom,
        })
    }
}

impl From<Format> for FormatName {
    fn from(format: Format) -> Self {
        match format {
            Format::Png => Self::Png,
            Format::Jpeg => Self::Jpeg,
            Format::Tiff => Self::Tiff,
            Format::Pnm => Self::Pnm,
            Format::Bmp => Self::Bmp,
            Format::WebP => Self::WebP,
            Format::Gif => Self::Gif,
            // Not written at all, or only from inputs of the same format.
            Format::JpegXl | Format::Jpeg2000 | Format::Zarr => Self::Keep,
            Format::Dicom => Self::Dicom,
        }
    }
}

/// How much work goes into making PNGs small. (Shell completions show the first paragraph of each.)
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum PngLevelName {
    /// Least work.
    ///
    /// The Paeth filter for every row, Huffman codes made for every strip, and matches only where hardly anything happens.
    Fast,
    /// A filter for each row, and matches where they pay: half again the work; photographs a twentieth smaller, graphics often by a
    /// half.
    Balanced,
    /// Five times the work; photographs a tenth smaller.
    ///
    /// A filter for each row, and zlib.
    Small,
}

impl From<PngLevelName> for PngLevel {
    fn from(name: PngLevelName) -> Self {
        match name {
            PngLevelName::Fast => Self::Fast,
            PngLevelName::Balanced => Self::Balanced,
            PngLevelName::Small => Self::Small,
        }
    }
}

/// Whether the CPU, GPUs or both decode and encode JPEGs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum JpegChoice {
    /// GPUs and the processor, whichever has time.
    Auto,
    /// The processor alone.
    Cpu,
    /// GPUs, as far as they can.
    Gpu,
}

/// Whether the CPU or GPUs compress by deflate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum DeflateChoice {
    /// GPUs as far as they have time, and the processor.
    Auto,
    /// The processor alone.
    Cpu,
}

/// Which links in input folders are followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LinksChoice {
    /// As `inside` in a service, and as `follow` in a single run.
    Auto,
    /// All.
    Follow,
    /// Those that lead to what lies in an input folder.
    Inside,
    /// None.
    Never,
}

impl LinksChoice {
    /// Returns which links are followed, in a service or not.
    pub(super) fn resolve(self, in_service: bool) -> Links {
        match self {
            Self::Auto if in_service => Links::Inside,
            Self::Auto | Self::Follow => Links::Follow,
            Self::Inside => Links::Inside,
            Self::Never => Links::Never,
        }
    }
}

/// When an output counts as written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Durability {
    /// When it is on the disk under its final name.
    Full,
    /// When the system has it.
    Fast,
}

/// The modification time of an output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Times {
    /// When it was written.
    Now,
    /// That of its input.
    Keep,
}

/// The treatment of files beside pictures that belong to them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum SidecarsChoice {
    /// Copies go beside outputs.
    Copy,
    /// They stay where they are.
    Leave,
}

/// The permissions of an output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Permissions {
    /// Those of any new file.
    New,
    /// Those of its input.
    Keep,
}
