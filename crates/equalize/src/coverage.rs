//! The share of the range that the levels of a picture cover.

use super::simd;
use crate::{ByteOrder, Depth, Layout, Pixel};

/// Divisor of the range below which a picture looks like a single level.
///
/// Where 12-bit samples have 16 bits, for example, that level is black.
pub const NARROW: u32 = 6;

/// Samples looked at between two checks whether the picture covers enough.
const BLOCK: usize = 1 << 14;

/// Returns whether the colours of a 16-bit picture cover less than a sixth of the range.
///
/// `order` is the byte order of `pixels`.
///
/// # Panics
/// If the length of `pixels` is not [`Layout::bytes`], or if it holds 16-bit samples at an odd
/// address.
pub fn is_narrow(pixels: &[u8], layout: &Layout, order: ByteOrder) -> bool {
    assert_eq!(pixels.len() as u64, layout.bytes(), "the pixels of this layout");
    if layout.depth != Depth::Sixteen {
        return false;
    }
    let channels = layout.pixel.channels();
    let (mut least, mut most) = (u16::MAX, u16::MIN);
    for block in bytemuck::cast_slice::<_, u16>(pixels).chunks(BLOCK * channels) {
        let [low, high] = match order {
            ByteOrder::Native => extremes_of(block, layout.pixel, |sample| sample),
            ByteOrder::Swapped => extremes_of(block, layout.pixel, u16::swap_bytes),
        };
        (least, most) = (least.min(low), most.max(high));
        if (u32::from(most - least) + 1) * NARROW >= Depth::Sixteen.levels() as u32 {
            return false;
        }
    }
    true
}

/// Returns the lowest and the highest colour level of some pixels.
///
/// `level` reads a level from a sample.
fn extremes_of(block: &[u16], pixel: Pixel, level: impl Fn(u16) -> u16 + Copy) -> [u16; 2] {
    let (channels, colours) = (pixel.channels(), pixel.colour_channels());
    match channels == colours {
        true => simd::vectorized!(extremes(block.iter(), level)),
        false => extremes(block.chunks_exact(channels).flat_map(|pixel| &pixel[..colours]), level),
    }
}

#[inline(always)]
fn extremes<'s>(samples: impl Iterator<Item = &'s u16>, level: impl Fn(u16) -> u16) -> [u16; 2] {
    samples.fold([u16::MAX, u16::MIN], |[low, high], &sample| {
        let level = level(sample);
        [low.min(level), high.max(level)]
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sixth_of_the_range_is_enough() {
        let narrow = |samples: &[u16], pixel| {
            let width = (samples.len() / Pixel::channels(pixel)) as u32;
            let layout = Layout { width, height: 1, pixel, depth: Depth::Sixteen };
            let swapped: Vec<u16> = samples.iter().map(|sample| sample.swap_bytes()).collect();
            let is = |samples, order| is_narrow(bytemuck::cast_slice(samples), &layout, order);
            let narrow = is(samples, ByteOrder::Native);
            assert_eq!(is(&swapped, ByteOrder::Swapped), narrow);
            narrow
        };
        assert!(narrow(&[1000, 11_921], Pixel::Gray));
        assert!(!narrow(&[1000, 11_922], Pixel::Gray));
        // Alpha does not count, and samples of different channels do together.
        assert!(narrow(&[7, 65_535, 9, 0], Pixel::GrayAlpha));
        assert!(narrow(&[0, 5, 9, 65_535], Pixel::Rgba));
        assert!(!narrow(&[0, 40_000, 0], Pixel::Rgb));
        let mut late = vec![0; 3 * BLOCK];
        assert!(narrow(&late, Pixel::Gray));
        *late.last_mut().unwrap() = 65_535;
        assert!(!narrow(&late, Pixel::Gray));
        let eight = Layout { width: 2, height: 1, pixel: Pixel::Gray, depth: Depth::Eight };
        assert!(!is_narrow(&[0, 1], &eight, ByteOrder::Native));
    }
}
