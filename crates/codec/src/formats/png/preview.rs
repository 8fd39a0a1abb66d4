//! Small versions of pictures, as PNGs.

use ::png::{BitDepth, ColorType, Compression, Encoder, Info};

use crate::{CodecError, Format, Preview};
use equalize::{Layout, Pixel};

impl Preview {
    /// Returns it as a PNG.
    ///
    /// # Errors
    /// If it cannot be encoded.
    pub fn to_png(&self) -> Result<Vec<u8>, CodecError> {
        let Layout { width, height, pixel, .. } = self.layout;
        let mut info = Info::with_size(width, height);
        info.bit_depth = BitDepth::Eight;
        info.color_type = match pixel {
            Pixel::Gray => ColorType::Grayscale,
            Pixel::GrayAlpha => ColorType::GrayscaleAlpha,
            Pixel::Rgb => ColorType::Rgb,
            Pixel::Rgba => ColorType::Rgba,
        };
        info.icc_profile = self.profile.as_deref().map(Into::into);
        let mut png = Vec::new();
        let written = Encoder::with_info(&mut png, info).and_then(|mut encoder| {
            encoder.set_compression(Compression::Fast);
            encoder.write_header()?.write_image_data(&self.samples)
        });
        written.map_err(|why| CodecError::encoder(Format::Png, why.to_string()))?;
        Ok(png)
    }
}
