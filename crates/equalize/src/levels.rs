//! The number of levels of samples.

use crate::{ByteOrder, Depth, Layout, Pixel, Sample, swap_bytes};

/// The number of levels that the samples of a picture have, from 0 on.
///
/// Data of 12 bits are mostly stored in 16. A method then counts and writes 4096 levels, with the
/// same result as for samples of 12 bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Levels {
    /// As many as a sample has room for: 256 or 65536.
    #[default]
    All,
    /// This number of levels, at least 2.
    First(u16),
}

impl Levels {
    /// Returns this number of levels for samples of this depth; `All` if the depth has no more.
    pub fn first(number: u32, depth: Depth) -> Self {
        match u16::try_from(number) {
            Ok(number) if usize::from(number) < depth.levels() => Self::First(number.max(2)),
            _ => Self::All,
        }
    }

    /// Returns the number at this depth.
    pub const fn number(self, depth: Depth) -> usize {
        match self {
            Self::First(number) if (number as usize) < depth.levels() => number as usize,
            _ => depth.levels(),
        }
    }

    /// Returns whether there are fewer than a sample of this depth has room for.
    pub const fn are_fewer(self, depth: Depth) -> bool {
        self.number(depth) < depth.levels()
    }

    /// Clamps the colours of a picture to the highest level.
    ///
    /// Colours may have gone beyond it with a new luma. `order` is the byte order of `pixels`.
    ///
    /// # Panics
    /// If the length of `pixels` is not [`Layout::bytes`], or if it holds 16-bit samples at an odd
    /// address.
    pub fn clamp(self, pixels: &mut [u8], layout: &Layout, order: ByteOrder) {
        assert_eq!(pixels.len() as u64, layout.bytes(), "the pixels of this layout");
        if !self.are_fewer(layout.depth) {
            return;
        }
        let highest = (self.number(layout.depth) - 1) as u16;
        match layout.depth {
            Depth::Eight => clamp_samples(pixels, layout.pixel, highest as u8),
            Depth::Sixteen if order == ByteOrder::Native => {
                clamp_samples::<u16>(bytemuck::cast_slice_mut(pixels), layout.pixel, highest);
            }
            Depth::Sixteen => {
                swap_bytes(pixels);
                clamp_samples::<u16>(bytemuck::cast_slice_mut(pixels), layout.pixel, highest);
                swap_bytes(pixels);
            }
        }
    }
}

pub(super) fn clamp_samples<S: Sample>(samples: &mut [S], pixel: Pixel, highest: S) {
    let (channels, colours) = (pixel.channels(), pixel.colour_channels());
    for pixel in samples.chunks_exact_mut(channels) {
        pixel[..colours].iter_mut().for_each(|sample| *sample = highest.min(*sample));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Pixel;

    #[test]
    fn a_depth_has_no_more_levels_than_it_has_room_for() {
        assert_eq!(Levels::first(4096, Depth::Eight), Levels::All);
        assert_eq!(Levels::first(65_536, Depth::Sixteen), Levels::All);
        assert_eq!(Levels::first(65_535, Depth::Sixteen), Levels::First(65_535));
        assert_eq!(Levels::First(4096).number(Depth::Eight), 256);
        assert_eq!(Levels::First(4096).number(Depth::Sixteen), 4096);
        assert!(!Levels::First(256).are_fewer(Depth::Eight));
    }

    #[test]
    fn colours_are_clamped_and_alpha_is_not() {
        let layout = Layout { width: 1, height: 1, pixel: Pixel::Rgba, depth: Depth::Sixteen };
        let mut pixel = [4095_u16, 4096, 7, 65_535];
        Levels::First(4096).clamp(bytemuck::cast_slice_mut(&mut pixel), &layout, ByteOrder::Native);
        assert_eq!(pixel, [4095, 4095, 7, 65_535]);
        let mut swapped = [4096_u16, 1, 2, 65_535].map(u16::swap_bytes);
        Levels::First(4096).clamp(bytemuck::cast_slice_mut(&mut swapped), &layout, ByteOrder::Swapped);
        assert_eq!(swapped.map(u16::swap_bytes), [4095, 1, 2, 65_535]);
    }
}
