//! Small versions of pictures, as JPEGs.

use std::borrow::Cow;

use super::encode_packed;
use crate::{CodecError, Metadata, Preview};
use equalize::{Layout, Pixel};

impl Preview {
    /// Returns it as a JPEG, with transparent parts on white.
    ///
    /// # Errors
    /// If it cannot be encoded.
    pub fn to_jpeg(&self, quality: u8) -> Result<Vec<u8>, CodecError> {
        let pixel = self.layout.pixel;
        let (channels, colours) = (pixel.channels(), pixel.colour_channels());
        let opaque = if pixel.has_alpha() {
            let on_white = |sample: u8, alpha: u32| {
                ((u32::from(sample) * alpha + 255 * (255 - alpha) + 127) / 255) as u8
            };
            let pixels = self.samples.chunks_exact(channels);
            let opaque = pixels.flat_map(|pixel| {
                let alpha = pixel[colours].into();
                pixel[..colours].iter().map(move |&sample| on_white(sample, alpha))
            });
            Cow::Owned(opaque.collect())
        } else {
            Cow::Borrowed(&self.samples[..])
        };
        let layout = Layout { pixel: if colours == 1 { Pixel::Gray } else { Pixel::Rgb }, ..self.layout };
        let metadata = Metadata { icc: self.profile.clone(), ..Metadata::default() };
        encode_packed(&layout, &opaque, quality, &metadata)
    }
}
