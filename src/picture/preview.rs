//! Small versions of pictures with their histograms, for people to look at.

use std::fs::File;

use codec::{Budget, CodecError, Cores, Limits, Target};
use equalize::{Colour, Depth, Layout, Pixel, Scratch, count};
use serde::Serialize;

/// The bins of a histogram.
const BINS: usize = 64;

/// A small version of a picture.
#[derive(Debug)]
pub(crate) struct Preview {
    width: u32,
    height: u32,
    pixel: Pixel,
    /// Of 8 bits.
    samples: Vec<u8>,
    pub(crate) facts: Facts,
}

/// What is told of a preview.
#[derive(Debug, Serialize)]
pub(crate) struct Facts {
    /// How many pixels have a brightness in each bin, from dark to light.
    pub(crate) histogram: Vec<u64>,
    /// The pages of the file, of which the first is shown.
    pub(crate) pages: usize,
    /// The frames of the animation, of which the first is shown.
    pub(crate) frames: usize,
}

/// Why there is no preview.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PreviewError {
    /// It is another file than the one that was done.
    #[error("it has changed since")]
    Changed,
    /// Nothing may be held for it now.
    #[error("it needs more memory than is free")]
    Memory,
    /// The picture cannot be decoded.
    #[error(transparent)]
    Codec(CodecError),
    /// The small version cannot be encoded.
    #[error("{0}")]
    Encoder(String),
}

impl From<CodecError> for PreviewError {
    fn from(error: CodecError) -> Self {
        match error {
            CodecError::LargerThanMemory { .. } => Self::Memory,
            error => Self::Codec(error),
        }
    }
}

impl Preview {
    /// Makes the preview of a file that has so many bytes, unless it is another by now: no side is longer than `longest`, and all that it takes meanwhile is held in the budget, which is asked twice.
    ///
    /// # Errors
    /// If the file is no picture within the limits, or needs more than may be held.
    pub(crate) fn of(
        (file, bytes): (&mut File, u64),
        longest: u32,
        limits: &Limits,
        budget: &mut impl Budget,
    ) -> Result<Self, PreviewError> {
        if !file.metadata().is_ok_and(|now| now.is_file() && now.len() == bytes) {
            return Err(PreviewError::Changed);
        }
        let mut buffer = Vec::new();
        let target = Target::AS_STORED;
        let mut opened = codec::open_within(budget, file, &mut buffer, limits, &target)?;
        let pages = opened.take_pages().map_or(1, |pages| pages.len());
        let (layout, slot_bytes) = (opened.layout(), opened.slot_bytes());
        let counts_bytes = count::length(&layout) * size_of::<u64>();
        let needed =
            slot_bytes as u64 + opened.heap_bytes() + opened.workspace().beside + counts_bytes as u64;
        budget.hold(needed).map_err(|_| PreviewError::Memory)?;
        // Words, so that samples of 16 bits lie where they may.
        let mut words = vec![0_u64; slot_bytes.div_ceil(size_of::<u64>())];
        let pixels = &mut bytemuck::cast_slice_mut(&mut words)[..slot_bytes];
        let mut decoded = opened.decode(pixels, Vec::new(), &Cores::none())?;
        decoded.reduce_depth(pixels, &target);
        // Only the decoder knows whether pixels are hidden, so the layout may be another than was expected.
        let layout = decoded.layout;
        // The frames of an animation lie below each other; the first stands for all.
        let frames = decoded.frames().max(1);
        let first = Layout { height: layout.height / frames as u32, ..layout };
        let pixels = &pixels[..first.bytes() as usize];
        let facts = Facts { histogram: histogram(pixels, &first).to_vec(), pages, frames };
        Ok(Self::small(pixels, &first, longest, facts))
    }

    /// Makes a picture small. Samples of 16 bits are spread from the least to the greatest, as viewers do.
    fn small(pixels: &[u8], layout: &Layout, longest: u32, facts: Facts) -> Self {
        let step = layout.width.max(layout.height).div_ceil(longest).max(1);
        let samples = match layout.depth {
            Depth::Eight => means(pixels, layout, step).into_iter().map(|mean| mean as u8).collect(),
            Depth::Sixteen => spread(&means::<u16>(bytemuck::cast_slice(pixels), layout, step), layout.pixel),
        };
        let (width, height) = (layout.width.div_ceil(step), layout.height.div_ceil(step));
        Self { width, height, pixel: layout.pixel, samples, facts }
    }

    /// Returns it as a PNG.
    ///
    /// # Errors
    /// If it cannot be encoded.
    pub(crate) fn to_png(&self) -> Result<Vec<u8>, PreviewError> {
        let mut png = Vec::new();
        let mut encoder = png::Encoder::new(&mut png, self.width, self.height);
        encoder.set_color(match self.pixel {
            Pixel::Gray => png::ColorType::Grayscale,
            Pixel::GrayAlpha => png::ColorType::GrayscaleAlpha,
            Pixel::Rgb => png::ColorType::Rgb,
            Pixel::Rgba => png::ColorType::Rgba,
        });
        encoder.set_depth(png::BitDepth::Eight);
        encoder.set_compression(png::Compression::Fast);
        let written = encoder.write_header().and_then(|mut writer| writer.write_image_data(&self.samples));
        written.map_err(|error| PreviewError::Encoder(error.to_string()))?;
        Ok(png)
    }

    /// Returns it as a JPEG, with what is transparent on white.
    ///
    /// # Errors
    /// If it cannot be encoded.
    pub(crate) fn to_jpeg(&self, quality: u8) -> Result<Vec<u8>, PreviewError> {
        let channels = self.pixel.channels();
        let colours = self.pixel.colour_channels();
        let mut opaque = Vec::with_capacity(self.samples.len() / channels * colours);
        for pixel in self.samples.chunks_exact(channels) {
            let alpha = if self.pixel.has_alpha() { u32::from(pixel[colours]) } else { 255 };
            let on_white = |&sample: &u8| ((u32::from(sample) * alpha + 255 * (255 - alpha)) / 255) as u8;
            opaque.extend(pixel[..colours].iter().map(on_white));
        }
        let color = if colours == 1 { jpeg_encoder::ColorType::Luma } else { jpeg_encoder::ColorType::Rgb };
        let mut jpeg = Vec::new();
        jpeg_encoder::Encoder::new(&mut jpeg, quality)
            .encode(&opaque, self.width as u16, self.height as u16, color)
            .map_err(|error| PreviewError::Encoder(error.to_string()))?;
        Ok(jpeg)
    }
}

fn histogram(pixels: &[u8], layout: &Layout) -> [u64; BINS] {
    let mut counts = vec![0; count::length(layout)];
    count::count(pixels, layout, &mut counts, &mut Scratch::default());
    let levels = layout.depth.levels();
    let brightness = count::of_equalized(&counts, layout, Colour::Luma);
    let mut bins = [0; BINS];
    brightness.iter().enumerate().for_each(|(level, count)| bins[level * BINS / levels] += count);
    bins
}

/// Returns the means of squares of `step` pixels, channel by channel.
fn means<S: Copy + Into<u64>>(samples: &[S], layout: &Layout, step: u32) -> Vec<u16> {
    let (channels, width, step) = (layout.pixel.channels(), layout.width as usize, step as usize);
    let row = width * channels;
    let mut means = Vec::new();
    for rows in samples.chunks(row * step) {
        let mut sums = vec![0_u64; width.div_ceil(step) * channels];
        let mut counts = vec![0_u64; width.div_ceil(step)];
        for pixels in rows.chunks_exact(row) {
            for (x, pixel) in pixels.chunks_exact(channels).enumerate() {
                counts[x / step] += 1;
                let sums = &mut sums[x / step * channels..][..channels];
                sums.iter_mut().zip(pixel).for_each(|(sum, &sample)| *sum += sample.into());
            }
        }
        means.extend(sums.iter().enumerate().map(|(at, sum)| (sum / counts[at / channels]) as u16));
    }
    means
}

/// Spreads colours over 8 bits, from the least to the greatest. Alpha stays what it is.
fn spread(means: &[u16], pixel: Pixel) -> Vec<u8> {
    let channels = pixel.channels();
    let is_alpha = |at: usize| pixel.has_alpha() && at % channels == channels - 1;
    let colours = || means.iter().enumerate().filter(|(at, _)| !is_alpha(*at)).map(|(_, &mean)| mean);
    let (least, greatest) = (colours().min().unwrap_or(0), colours().max().unwrap_or(0));
    let range = u32::from(greatest - least).max(1);
    let spread = means.iter().enumerate().map(|(at, &mean)| match is_alpha(at) {
        true => (mean >> 8) as u8,
        false => (u32::from(mean - least) * 255 / range) as u8,
    });
    spread.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use codec::Unbounded;
    use std::io::{Cursor, Seek, Write};

    const LIMITS: Limits = Limits { max_pixels: 1 << 20, max_bytes: 1 << 30 };

    fn made(bytes: &[u8]) -> Preview {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(bytes).unwrap();
        file.rewind().unwrap();
        Preview::of((&mut file, bytes.len() as u64), 480, &LIMITS, &mut Unbounded).unwrap()
    }

    fn floats(samples: [f32; 3]) -> Preview {
        let samples = samples.into_iter().flat_map(f32::to_le_bytes);
        made(&b"Pf 3 1 -1.0\n".iter().copied().chain(samples).collect::<Vec<u8>>())
    }

    #[test]
    fn a_preview_has_the_means_of_squares_and_the_counts_of_all_pixels() {
        let (width, height) = (1000, 3);
        let mut file = format!("P5 {width} {height} 255\n").into_bytes();
        file.extend((0..width * height).map(|at| if at % 3 == 0 { 250 } else { 10 }));
        let preview = made(&file);
        assert_eq!((preview.width, preview.height), (334, 1));
        assert_eq!(preview.samples[..333], [90; 333]);
        assert_eq!((preview.facts.histogram[62], preview.facts.histogram[2]), (1000, 2000));
        let mut reader = png::Decoder::new(Cursor::new(preview.to_png().unwrap())).read_info().unwrap();
        let mut samples = vec![0; 334];
        reader.next_frame(&mut samples).unwrap();
        assert_eq!(samples, preview.samples);
    }

    #[test]
    fn sixteen_bits_are_spread_over_eight() {
        let preview = made(b"P5 2 1 65535 \x10\x00\x10\x08");
        assert_eq!(preview.samples, [0, 255]);
        assert_eq!(preview.facts.histogram[4], 2);
        assert_eq!((preview.facts.pages, preview.facts.frames), (1, 1));
    }

    #[test]
    fn samples_that_are_no_levels_are_shown_as_the_levels_that_they_become() {
        let preview = floats([0.5, 0.75, 1.0]);
        assert_eq!((&*preview.samples, preview.facts.histogram[BINS - 1]), (&[0, 127, 255][..], 1));
        // What is no number is transparent.
        let Preview { width, samples, .. } = floats([0.5, f32::NAN, 1.0]);
        assert_eq!((width, samples.len(), samples[3]), (3, 6, 0));
        assert_eq!([samples[0], samples[1], samples[4], samples[5]], [0, 255, 255, 255]);
    }

    #[test]
    fn a_jpeg_shows_what_is_transparent_as_white() {
        let preview = floats([0.0, f32::NAN, 1.0]);
        let again = made(&preview.to_jpeg(100).unwrap());
        assert!(again.samples[0] < 8 && again.samples[1] > 247, "{:?}", again.samples);
    }
}
