//! The limits of reading, and the settings of the output.

pub(crate) mod range;
pub(crate) mod window;

use std::fmt;
use std::str::FromStr;

use equalize::Layout;
use equalize::colour::Gray;
use serde::{Deserialize, Serialize};

use crate::error::{CodecError, Limit, MemoryNeeds};
use crate::format::Format;
use crate::target::range::Range;
use crate::target::window::Window;

/// Limits on the size of a picture.
///
/// Checked against its header, before any memory is allocated for its pixels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Width times height, of each page (`--max-pixels`).
    pub max_pixels: u64,
    /// Bytes of a file with one page, and of the decoded pixels of each page (`--max-bytes`).
    pub max_bytes: u64,
}

impl Limits {
    /// Refuses a picture of more pixels, or of more `bytes` of pixels, by one error for both.
    ///
    /// The error has the picture's `needs`.
    pub(crate) fn check(
        &self,
        layout: &Layout,
        bytes: u64,
        needs: impl FnOnce() -> Option<MemoryNeeds>,
    ) -> Result<(), CodecError> {
        let pixels = layout.pixels();
        let has_many = (pixels > self.max_pixels).then(|| Limit::of_pixels(self.max_pixels, pixels));
        let is_long = bytes > self.max_bytes || usize::try_from(bytes).is_err();
        let in_bytes = if is_long { format!(" in {bytes} bytes") } else { String::new() };
        let is_long = is_long.then(|| Limit::of_bytes(self.max_bytes, Some(bytes)));
        let exceeded: Vec<Limit> = has_many.into_iter().chain(is_long).collect();
        if exceeded.is_empty() {
            return Ok(());
        }
        let what = format!("{}x{} pixels{in_bytes}", layout.width, layout.height);
        Err(CodecError::TooLarge { what, exceeded, needs: needs() })
    }
}

/// How JPEG output is quantized.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum JpegQuality {
    /// With the source's own quantization tables; [`JpegQuality::DEFAULT`] if it is not a JPEG.
    Keep,
    /// With the standard's example tables, scaled as in libjpeg: 1 to 100.
    Value(u8),
}

impl JpegQuality {
    /// The quality of a JPEG whose source is not one.
    pub const DEFAULT: u8 = 90;
}

impl FromStr for JpegQuality {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        match text.parse() {
            _ if text.eq_ignore_ascii_case("keep") => Ok(Self::Keep),
            Ok(quality @ 1..=100) => Ok(Self::Value(quality)),
            _ => Err(format!("{text:?} is neither keep nor a number from 1 to 100")),
        }
    }
}

impl fmt::Display for JpegQuality {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Keep => f.write_str("keep"),
            Self::Value(quality) => quality.fmt(f),
        }
    }
}

/// The effort of making PNGs small.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PngLevel {
    /// Least work.
    ///
    /// The Paeth filter for every row, Huffman codes made for every strip, and matches only in
    /// nearly flat blocks.
    Fast,
    /// Half again the work; photographs a twentieth smaller, graphics often by a half.
    ///
    /// A filter for each row, and matches where they pay.
    Balanced,
    /// Five times the work; photographs a tenth smaller.
    ///
    /// A filter for each row, and zlib.
    Small,
}

/// The number of levels that samples are taken to have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LevelCount {
    /// As many as there is room for: 256 or 65,536. Fewer are spread over these.
    Full,
    /// As many as the file states.
    Stated,
    /// As many as the file states, or else as many as fit into the used bits of its 16-bit samples.
    ///
    /// All bits are used that are not 0 in every sample; the fewest are 8.
    ///
    /// A band of a picture has all levels then, and returns the bits that it uses
    /// ([`Decoded::used_bits`](super::Decoded::used_bits)).
    Seen,
    /// A given number, from 2 to 65,535; all of them if there is room for no more.
    Number(u16),
    /// A given number in the upper bits of 16-bit samples, above `shift` bits of 0, from 1 to 15.
    ///
    /// Samples of 8 bits have all of their levels.
    Upper {
        /// The number of levels, from 2 to `65536 >> shift`.
        levels: u16,
        /// The number of bits below them.
        shift: u8,
    },
}

/// The most unused low bits, which are 0 in all samples: cameras have 8 bits and more.
const MOST_UNUSED: u32 = 8;

impl LevelCount {
    /// Returns the levels of 16-bit samples with these bits in use, that is, not 0 in all samples.
    ///
    /// [`Self::Seen`] becomes this.
    pub fn of_used_bits(used: u16) -> Self {
        // Black shows no bits in use.
        let shift = if used == 0 { 0 } else { used.trailing_zeros().min(MOST_UNUSED) };
        match shift {
            0 => Self::Full,
            shift => Self::Upper { levels: (1_u32 << (u16::BITS - shift)) as u16, shift: shift as u8 },
        }
    }

    /// Returns the same for pictures that share one table: their samples are not examined.
    ///
    /// Each may use other bits.
    #[must_use]
    pub const fn of_several(self) -> Self {
        match self {
            Self::Seen => Self::Stated,
            Self::Full | Self::Stated | Self::Number(_) | Self::Upper { .. } => self,
        }
    }

    /// Returns whether a file's own statement about its levels holds.
    pub(crate) const fn is_stated(self) -> bool {
        matches!(self, Self::Stated | Self::Seen)
    }
}

/// The work done on pictures, for formats that record it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Derivation {
    /// A few words of ASCII, such as "CLAHE".
    pub what: &'static str,
    /// A number from 1 to 99 that stands for them.
    pub number: u8,
    /// A hash of all settings, the same on every machine.
    pub settings: u64,
}

/// The form of the output.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Target {
    /// The output format; `None` for the source's.
    ///
    /// `None` also stands for [`Format::written`] if the source's is never written, and for PNG if
    /// it is a GIF that [`Target::adds_colours`].
    pub format: Option<Format>,
    /// Quality of JPEG output.
    pub jpeg_quality: JpegQuality,
    /// Effort of PNG output.
    pub png_level: PngLevel,
    /// Whether 16-bit pictures are written with 8 bits.
    pub eight_bit: bool,
    /// The gray that colours are reduced to, if they are.
    pub gray: Option<Gray>,
    /// Whether colours are needed as RGB, which keeps a JPEG from staying in its own planes.
    pub needs_rgb: bool,
    /// Whether the chroma of a JPEG in its own planes follows its luma, which keeps hues.
    ///
    /// Other JPEGs are then needed as RGB.
    pub keeps_hue: bool,
    /// The values that levels of floats and of integers of more than 16 bits are spread between.
    ///
    /// `None` for the least and the greatest of each picture.
    pub range: Option<Range>,
    /// The values of gray DICOMs that are black to white, if these are equalized as shown.
    pub window: Option<Window>,
    /// The number of levels that samples are taken to have.
    pub levels: LevelCount,
    /// The no-data value.
    ///
    /// Pixels with it in all of their colours do not count, and stay as they are.
    pub no_data: Option<f64>,
    /// Whether pictures may get more colours than they have.
    ///
    /// A GIF then becomes another format unless GIF is asked for.
    pub adds_colours: bool,
    /// Whether each page of a file goes into a file of its own.
    pub splits: bool,
    /// Whether smaller versions of pictures in a TIFF are made again.
    pub overviews: bool,
    /// Whether each plane of an OME-Zarr image is a page; else pages are blocks of chunks.
    ///
    /// Each block is of one channel.
    pub in_planes: bool,
    /// Whether DICOM's segmentations are taken as pictures of their labels.
    pub segmentations: bool,
    /// The work done on the picture, if its file is to record it.
    pub derivation: Option<Derivation>,
}

impl Target {
    /// The file's own format, samples and levels.
    pub const AS_STORED: Self = Self {
        format: None,
        jpeg_quality: JpegQuality::Keep,
        png_level: PngLevel::Balanced,
        eight_bit: false,
        gray: None,
        needs_rgb: false,
        keeps_hue: false,
        range: None,
        window: None,
        levels: LevelCount::Full,
        no_data: None,
        adds_colours: false,
        splits: false,
        overviews: true,
        in_planes: false,
        segmentations: false,
        derivation: None,
    };

    /// Returns the format of the output of a source in this format.
    pub fn format_for(&self, source: Format) -> Format {
        match self.format {
            Some(format) => format,
            None if self.adds_colours => source.recoloured(),
            None => source.written(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quality_is_keep_or_a_percentage() {
        assert_eq!("keep".parse(), Ok(JpegQuality::Keep));
        assert_eq!("92".parse(), Ok(JpegQuality::Value(92)));
        for text in ["0", "101", "256", "-1", "best", "Keep it"] {
            assert!(text.parse::<JpegQuality>().is_err(), "{text}");
        }
    }
}
