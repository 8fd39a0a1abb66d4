//! The no-data level: pixels without data keep it, and no other pixel gets it.
//!
//! A method may map any level to it, and rounding to fewer bits or to floats may map further ones.
//! This is therefore the last step before levels become samples of the output: levels that would be
//! written as the no-data value become the next level up, or the next down from the top.

use std::ops::RangeInclusive;

use super::uncounted::Fate;
use crate::samples::pixels_of;
use equalize::{Depth, Layout, Pixel};

/// The levels that are written as the no-data value, and their substitute in pixels with data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Reserved {
    levels: RangeInclusive<u16>,
    instead: u16,
}

impl Reserved {
    /// Finds the levels up to `top` that are written as the no-data value, where `is_none` holds.
    ///
    /// A higher level is written as a greater sample, or as a smaller one if levels are `inverted`.
    /// Returns `None` if there are no such levels, or no others.
    pub(crate) fn find(top: u16, inverted: bool, is_none: impl Fn(u16) -> bool) -> Option<Self> {
        let first = (0..=top).find(|&level| is_none(level))?;
        let last = (first..=top).take_while(|&level| is_none(level)).last()?;
        let (below, above) = (first.checked_sub(1), last.checked_add(1).filter(|&level| level <= top));
        let instead = if inverted { below.or(above) } else { above.or(below) }?;
        Some(Self { levels: first..=last, instead })
    }

    /// Replaces the reserved levels in pixels with data at the front of `slot`.
    ///
    /// `fates` are the pixels' fates, if they differ: a pixel that does not count, or that had the
    /// level in some of its colours, may have it in some of them again.
    pub(crate) fn avoid(&self, slot: &mut [u8], layout: &Layout, fates: Option<&[Fate]>) {
        let pixels = pixels_of(layout, slot);
        match layout.depth {
            Depth::Eight => self.avoid_in(
                pixels.as_chunks_mut().0,
                layout.pixel,
                fates,
                |[level]| level.into(),
                |level| [level as u8],
            ),
            Depth::Sixteen => self.avoid_in(
                pixels.as_chunks_mut().0,
                layout.pixel,
                fates,
                u16::from_ne_bytes,
                u16::to_ne_bytes,
            ),
        }
    }

    fn avoid_in<const BYTES: usize>(
        &self,
        samples: &mut [[u8; BYTES]],
        pixel: Pixel,
        fates: Option<&[Fate]>,
        level_of: impl Fn([u8; BYTES]) -> u16,
        sample_of: impl Fn(u16) -> [u8; BYTES],
    ) {
        let is_none = |sample: &[u8; BYTES]| self.levels.contains(&level_of(*sample));
        let instead = sample_of(self.instead);
        let mut fates = fates.into_iter().flatten();
        for pixel_samples in samples.chunks_exact_mut(pixel.channels()) {
            let colours = &mut pixel_samples[..pixel.colour_channels()];
            let changes = match fates.next().unwrap_or(&Fate::Counts) {
                Fate::Counts => true,
                Fate::Partly | Fate::Changes => colours.iter().all(is_none),
                Fate::Stays => false,
            };
            if changes {
                colours.iter_mut().filter(|sample| is_none(sample)).for_each(|sample| *sample = instead);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reserved(levels: RangeInclusive<u16>, instead: u16) -> Option<Reserved> {
        Some(Reserved { levels, instead })
    }

    #[test]
    fn the_next_level_up_takes_its_place_or_the_next_down_from_the_top() {
        let of = |top, inverted, none: &[u16]| Reserved::find(top, inverted, |level| none.contains(&level));
        assert_eq!(of(255, false, &[0]), reserved(0..=0, 1));
        assert_eq!(of(255, false, &[255]), reserved(255..=255, 254));
        assert_eq!(of(65_535, false, &[65_535]), reserved(65_535..=65_535, 65_534));
        assert_eq!(of(255, false, &[7, 8, 9]), reserved(7..=9, 10));
        assert_eq!(of(9, false, &[7, 8, 9]), reserved(7..=9, 6));
        assert_eq!(of(255, true, &[255]), reserved(255..=255, 254));
        assert_eq!(of(255, true, &[0]), reserved(0..=0, 1));
        assert_eq!(of(255, true, &[9]), reserved(9..=9, 8));
        assert_eq!(of(255, false, &[]), None);
        assert_eq!(of(1, false, &[0, 1]), None);
    }

    #[test]
    fn pixels_with_data_get_another_level_in_every_colour() {
        let layout = Layout { width: 5, height: 1, pixel: Pixel::Rgba, depth: Depth::Eight };
        let mut slot = [[0, 0, 0, 0], [0, 0, 0, 9], [0, 5, 0, 9], [0, 5, 0, 9], [0, 0, 0, 9]].concat();
        let fates = [Fate::Stays, Fate::Counts, Fate::Counts, Fate::Partly, Fate::Partly];
        reserved(0..=0, 1).unwrap().avoid(&mut slot, &layout, Some(&fates));
        assert_eq!(slot, [[0, 0, 0, 0], [1, 1, 1, 9], [1, 5, 1, 9], [0, 5, 0, 9], [1, 1, 1, 9]].concat());
    }

    #[test]
    fn samples_of_16_bits_are_changed_whole() {
        let layout = Layout { width: 3, height: 1, pixel: Pixel::Gray, depth: Depth::Sixteen };
        let mut slot: Vec<u8> = [0x0101_u16, 0x0100, 0x0102].into_iter().flat_map(u16::to_ne_bytes).collect();
        reserved(0x0100..=0x0101, 0x0102).unwrap().avoid(&mut slot, &layout, None);
        assert_eq!(slot, [0x0102_u16; 3].into_iter().flat_map(u16::to_ne_bytes).collect::<Vec<_>>());
    }
}
