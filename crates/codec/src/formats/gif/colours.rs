//! Fewer colours for frames with more than a GIF holds, where a GIF is asked for.
//!
//! The method is NeuQuant (A. H. Dekker, *Kohonen neural networks for optimal colour quantization*,
//! 1994).

use color_quant::NeuQuant;

use super::write::{Indexed, rgba};
use crate::{Decoded, QuantizationError};
use equalize::Layout;

/// The pixels of a frame that the network is trained with, about.
const SAMPLE: u64 = 1 << 18;

/// The differences of samples, added up.
#[derive(Default)]
struct Differences {
    sum: u64,
    most: u8,
    samples: u64,
}

impl Differences {
    fn add(&mut self, before: u8, after: u8) {
        let difference = before.abs_diff(after);
        self.sum += u64::from(difference);
        self.most = self.most.max(difference);
    }
}

/// Reduces the colours of frames that have too many; returns by how much they changed, if any did.
///
/// Frames with half-transparent pixels are still refused when they are encoded.
pub(crate) fn reduce(decoded: &Decoded, mut pixels: &mut [u8]) -> Option<QuantizationError> {
    let layout = decoded.frame_layout();
    let bytes = usize::try_from(layout.bytes()).ok()?;
    let colours = u64::from(layout.pixel.colour_channels() as u32);
    let mut differences = Differences::default();
    let mut is_reduced = false;
    while let Some(frame) = pixels.split_off_mut(..bytes) {
        if Indexed::of(frame, pixels.get(..bytes), &layout).is_err() {
            quantize(frame, &layout, &mut differences);
            is_reduced = true;
        }
        differences.samples += layout.pixels() * colours;
    }
    is_reduced.then(|| QuantizationError {
        hundredths: (differences.sum * 100).div_ceil(differences.samples.max(1)) as u32,
        most: differences.most,
    })
}

/// Replaces the colours of the visible pixels of a frame with those of a palette.
fn quantize(frame: &mut [u8], layout: &Layout, differences: &mut Differences) {
    let channels = layout.pixel.channels();
    let sample: Vec<u8> = frame.chunks_exact(channels).filter_map(visible).flatten().collect();
    // One colour is left for transparent pixels.
    let most = if layout.pixel.has_alpha() { 255 } else { 256 };
    let one_of = (layout.pixels() / SAMPLE).clamp(1, 30) as i32;
    let network = NeuQuant::new(one_of, most, &sample);
    let palette = network.color_map_rgb();
    drop(sample);
    let mut last = None;
    for pixel in frame.chunks_exact_mut(channels) {
        let Some([red, green, blue, _]) = visible(pixel) else { continue };
        let colour = [red, green, blue];
        let index = match last {
            Some((known, index)) if known == colour => index,
            _ => network.index_of(&[red, green, blue, 255]),
        };
        last = Some((colour, index));
        let entry = &palette[3 * index..][..layout.pixel.colour_channels()];
        for (sample, &new) in pixel.iter_mut().zip(entry) {
            differences.add(*sample, new);
            *sample = new;
        }
    }
}

/// Returns a pixel as RGBA, unless it is transparent.
fn visible(pixel: &[u8]) -> Option<[u8; 4]> {
    Some(rgba(pixel)).filter(|[.., alpha]| *alpha > 0)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use equalize::{Depth, Pixel};

    #[test]
    fn colours_become_few_and_the_error_is_that_of_the_pixels() {
        for (pixel, most) in [(Pixel::Rgb, 256), (Pixel::Rgba, 255)] {
            let layout = Layout { width: 64, height: 64, pixel, depth: Depth::Eight };
            let channels = pixel.channels();
            let mut frame: Vec<u8> = (0..64 * 64 * channels).map(|at| (at * at / 7) as u8).collect();
            frame.chunks_exact_mut(channels).for_each(|pixel| pixel[3..].fill(255));
            let (before, mut found) = (frame.clone(), Differences::default());
            quantize(&mut frame, &layout, &mut found);
            let colours: HashSet<_> = frame.chunks_exact(channels).collect();
            assert!((2..=most).contains(&colours.len()), "{}", colours.len());
            let differences = || before.iter().zip(&frame).map(|(before, after)| before.abs_diff(*after));
            assert_eq!(found.sum, differences().map(u64::from).sum::<u64>());
            assert_eq!(Some(found.most), differences().max());
        }
    }

    #[test]
    fn an_error_is_told_in_levels() {
        let error = QuantizationError { hundredths: 105, most: 40 };
        assert_eq!(error.to_string(), "1.05 levels on average and 40 at most");
        assert_eq!(error.max(QuantizationError { hundredths: 7, most: 41 }).most, 41);
    }
}
