//! The last step before encoding: levels of the output's depth, and no-data values.
//!
//! Only missing data become no-data values.

use super::no_data::Reserved;
use super::{Decoded, Format, Native, Target, pixels_of};
use equalize::{Depth, Layout, simd};

impl Target {
    /// Returns the layout in which pixels of this one are written.
    pub(super) fn layout_for(&self, layout: Layout) -> Layout {
        Layout { depth: if self.eight_bit { Depth::Eight } else { layout.depth }, ..layout }
    }
}

impl Decoded {
    /// Turns the pixels at the front of the slot into those of the target.
    ///
    /// They lose alpha that only masks them, and get the target's number of levels, rounded to its
    /// depth, with no data where there were no data before, and nowhere else. It is the last step
    /// before they are encoded, except for [`Decoded::reduce_colours`].
    pub fn reduce_depth(&mut self, slot: &mut [u8], target: &Target) {
        let depth = self.layout.depth;
        let is_reduced = target.layout_for(self.layout).depth != depth;
        let says_top = target.format_for(self.format) == Format::Pnm && self.restored().is_none();
        self.keep_data_apart(slot, says_top, is_reduced);
        if let Some(mapped) = &mut self.mapped {
            self.layout = mapped.present(slot, self.layout);
        }
        let written = target.layout_for(self.layout);
        self.scale.present(slot, &self.layout, says_top, is_reduced);
        if is_reduced {
            to_eight_bits(pixels_of(&self.layout, slot));
            if let Native::Tiff(native) = &mut self.native
                && let Some(other) = &mut native.other
            {
                to_eight_bits(other);
                other.truncate(other.len() / 2);
            }
            self.layout = written;
        }
    }

    /// Restores the pixels that do not count, and keeps pixels with data off the no-data level.
    fn keep_data_apart(&mut self, slot: &mut [u8], says_top: bool, is_reduced: bool) {
        let (scale, depth) = (self.scale, self.layout.depth);
        let written = |level: u16| {
            let sample = scale.presented(level, depth, says_top, is_reduced);
            if is_reduced { to_eight(sample).into() } else { sample }
        };
        let fates = self.uncounted.take().map(|uncounted| {
            let (layout, fates) = uncounted.reveal(slot, self.layout);
            self.layout = layout;
            fates
        });
        let of_levels = self.mapped.as_ref().filter(|mapped| !mapped.restores);
        let of_levels = of_levels.and_then(|mapped| mapped.level_without_data(&self.layout));
        let none = self.no_data.or(of_levels);
        let reserved = match (self.restored(), none) {
            (Some(mapped), _) => mapped.reserved(),
            (None, Some(none)) => {
                let top = (scale.levels.number(depth) - 1) as u16;
                Reserved::find(top, false, |level| written(level) == written(none))
            }
            (None, None) => None,
        };
        if let Some(reserved) = reserved {
            reserved.avoid(slot, &self.layout, fates.as_deref());
        }
        self.no_data = none.map(written);
    }
}

/// Rounds a 16-bit sample to 8 bits.
#[inline(always)]
pub(super) const fn to_eight(sample: u16) -> u8 {
    ((sample as u32 * 255 + 32_767) / 65_535) as u8
}

/// Rounds 16-bit samples to 8 bits, in place: packs them at the front.
pub(super) fn to_eight_bits(samples: &mut [u8]) {
    const BLOCK: usize = 1024;
    #[inline(always)]
    fn round(wide: &[[u8; 2]], narrow: &mut [u8]) {
        for (narrow, wide) in narrow.iter_mut().zip(wide) {
            *narrow = to_eight(u16::from_ne_bytes(*wide));
        }
    }
    let mut block = [0; BLOCK];
    let count = samples.len() / 2;
    for first in (0..count).step_by(BLOCK) {
        let length = BLOCK.min(count - first);
        let (narrow, wide) = (&mut block[..length], samples[2 * first..][..2 * length].as_chunks().0);
        simd::vectorized!(round(wide, narrow));
        // The samples that this overwrites have been read: it begins no later than the block.
        samples[first..][..length].copy_from_slice(narrow);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_level_goes_to_the_nearest_of_8_bits() {
        let mut samples: Vec<u8> = (0..=65_535_u16).flat_map(u16::to_ne_bytes).collect();
        to_eight_bits(&mut samples);
        for (level, &found) in samples[..65_536].iter().enumerate() {
            assert_eq!(f64::from(found), (level as f64 / 257.0).round(), "{level}");
        }
    }
}
