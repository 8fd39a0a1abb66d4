//! The layouts that the formats can hold.

use super::{CodecError, Format};
use equalize::{Depth, Layout};

impl Format {
    /// Checks that the format can hold pixels of this layout.
    ///
    /// # Errors
    /// [`CodecError::CannotRepresent`], which names formats that can.
    pub fn check(self, layout: &Layout) -> Result<(), CodecError> {
        let eight_bit_only = matches!(self, Self::Jpeg | Self::Bmp | Self::WebP | Self::Gif);
        let (what, remedy) = if !self.is_written() {
            ("a picture that is written here".to_owned(), "use another --format")
        } else if eight_bit_only && layout.depth == Depth::Sixteen {
            ("16-bit samples".to_owned(), "use --depth 8, or --format png, tiff or pnm")
        } else if self == Self::Jpeg && layout.pixel.has_alpha() {
            ("transparency".to_owned(), "use --format png, tiff, webp or pnm")
        } else if layout.width.max(layout.height) > self.max_side() {
            (format!("{}x{} pixels", layout.width, layout.height), "use --format png, tiff or pnm")
        } else {
            return Ok(());
        };
        Err(CodecError::cannot_represent(self, what, remedy))
    }

    /// Returns the largest width and height, in pixels.
    const fn max_side(self) -> u32 {
        match self {
            Self::Jpeg => 65500, // libjpeg's limit, a little below the standard's
            Self::WebP => 16383,
            Self::Gif => u16::MAX as u32,
            Self::Png | Self::Bmp => i32::MAX as u32,
            Self::Dicom => u16::MAX as u32,
            Self::Tiff | Self::Pnm | Self::JpegXl | Self::Jpeg2000 | Self::Zarr => u32::MAX,
        }
    }
}
