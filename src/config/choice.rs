//! The types of the keys that are choices or parameters of methods, and how their values are spelled.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use clap::ValueEnum;

use super::local::refuse_url;
use crate::selection::Links;
use codec::{Format, PngLevel};

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

/// What pictures are of, for which there is a set of keys.
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
    /// Pictures of microscopes.
    Microscopy,
    /// Satellite scenes.
    Satellite,
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
    /// Each into a file of its own.
    Split,
}

/// What becomes of smaller versions of pictures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum OverviewsChoice {
    /// They are made again.
    Keep,
    /// They are left out.
    Drop,
}

/// CLAHE's clip limit: how high a peak of a tile's histogram may be, as a multiple of the mean; 0 for no limit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ClipLimit(pub f64);

impl FromStr for ClipLimit {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        match text.trim().parse() {
            Ok(limit) if (0.0..=1e6).contains(&limit) => Ok(Self(limit)),
            _ => Err(format!("{text:?} is not a number from 0 (no limit) to 1000000")),
        }
    }
}

impl fmt::Display for ClipLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A share of the samples of a picture, in parts per million, below all of them. It is written in percent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Percent(pub u32);

impl Percent {
    /// All samples.
    pub(super) const ALL: u32 = 1_000_000;
}

impl FromStr for Percent {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let (whole, part) = text.trim().split_once('.').unwrap_or((text.trim(), "0"));
        let are_digits = [whole, part]
            .iter()
            .all(|digits| !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit()));
        let millionths = format!("{whole}{part:0<4}").parse().ok();
        millionths
            .filter(|&millionths| are_digits && part.len() <= 4 && millionths < Self::ALL)
            .map(Self)
            .ok_or_else(|| {
                format!("{text:?} is not a number of percent below 100 with at most four decimals")
            })
    }
}

impl fmt::Display for Percent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = format!("{}.{:04}", self.0 / 10_000, self.0 % 10_000);
        f.write_str(text.trim_end_matches('0').trim_end_matches('.'))
    }
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

/// CLAHE's grid of tiles, at least one in each direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grid {
    /// Tiles across.
    pub x: u32,
    /// Tiles down.
    pub y: u32,
    /// Tiles along a stack, if they are boxes.
    pub z: Option<u32>,
}

impl Grid {
    /// More tiles than anyone needs in one direction; each costs a table.
    const MAX: u32 = 1024;

    /// Returns the number of tiles in one direction, if it is allowed.
    fn tiles(text: &str) -> Option<u32> {
        text.trim().parse().ok().filter(|tiles| (1..=Self::MAX).contains(tiles))
    }
}

impl FromStr for Grid {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let sides: Vec<_> = text.split(['x', 'X']).map(Self::tiles).collect();
        match sides[..] {
            [Some(x), Some(y)] => Ok(Self { x, y, z: None }),
            [Some(x), Some(y), z @ Some(_)] => Ok(Self { x, y, z }),
            _ => Err(format!(
                "{text:?} is not a grid of tiles such as 8x8, or 8x8x4 for stacks, with 1 to {} each way",
                Self::MAX
            )),
        }
    }
}

impl fmt::Display for Grid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}x{}", self.x, self.y)?;
        self.z.map_or(Ok(()), |z| write!(f, "x{z}"))
    }
}

/// CLAHE's tile size: squares of about this many pixels a side, whatever the picture's size; or off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TileSize {
    /// The tiles are given by their number, as a [`Grid`].
    Off,
    /// The tiles are squares of about this side.
    Pixels(u32),
}

impl TileSize {
    /// Smaller tiles have too few pixels for a histogram.
    const LEAST: u32 = 4;
}

impl FromStr for TileSize {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        match text.trim().parse() {
            _ if text.trim().eq_ignore_ascii_case("off") => Ok(Self::Off),
            Ok(side @ Self::LEAST..) => Ok(Self::Pixels(side)),
            _ => Err(format!("{text:?} is neither off nor a number of pixels, at least {}", Self::LEAST)),
        }
    }
}

impl fmt::Display for TileSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Off => f.write_str("off"),
            Self::Pixels(side) => side.fmt(f),
        }
    }
}

/// What is equalized in a colour picture.
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
    /// The brightness, and nothing else is written.
    Gray,
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
            // They are not written, or only of their own kind.
            Format::JpegXl | Format::Jpeg2000 | Format::Zarr => Self::Keep,
            Format::Dicom => Self::Dicom,
        }
    }
}

/// How much work goes into making PNGs small. (The first paragraphs are what shell completions say.)
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

/// The permissions of an output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Permissions {
    /// Those of any new file.
    New,
    /// Those of its input.
    Keep,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tiles_are_two_or_three_numbers_or_a_size() {
        assert_eq!("8x4".parse(), Ok(Grid { x: 8, y: 4, z: None }));
        assert_eq!("8x4x2".parse(), Ok(Grid { x: 8, y: 4, z: Some(2) }));
        assert_eq!(Grid { x: 8, y: 4, z: Some(1) }.to_string(), "8x4x1");
        for text in ["8", "8x", "0x8", "8x1025", "axb", "8x8x0", "8x8x8x8", "8x8x"] {
            assert!(text.parse::<Grid>().is_err(), "{text}");
        }
        assert_eq!("32".parse(), Ok(TileSize::Pixels(32)));
        assert_eq!("off".parse(), Ok(TileSize::Off));
        for text in ["0", "3", "32px", "-32"] {
            assert!(text.parse::<TileSize>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_share_is_a_percentage_with_at_most_four_decimals() {
        for (text, millionths) in
            [("0", 0), ("0.175", 1_750), (" 2 ", 20_000), ("99.9999", 999_999), ("0.0001", 1)]
        {
            let share = text.parse::<Percent>().unwrap();
            assert_eq!((share, share.to_string().as_str()), (Percent(millionths), text.trim()));
        }
        for text in ["", ".", "1.", ".5", "100", "-1", "0.12345", "1%", "much", "1e1"] {
            let why = text.parse::<Percent>().unwrap_err();
            assert_eq!(
                why,
                format!("{text:?} is not a number of percent below 100 with at most four decimals")
            );
        }
    }

    #[test]
    fn a_clip_limit_is_a_finite_number_that_is_not_negative() {
        assert_eq!("2.5".parse(), Ok(ClipLimit(2.5)));
        assert_eq!("0".parse(), Ok(ClipLimit(0.0)));
        for text in ["-1", "inf", "NaN", "1e9", "much"] {
            assert!(text.parse::<ClipLimit>().is_err(), "{text}");
        }
    }
}
