//! From the samples that a decoder delivered to the levels that devices work on.

use super::super::{CodecError, LevelCount};
use crate::picture::decoded::Payload;
use crate::samples::levels::{self, Scale};
use crate::samples::pixels_of;
use crate::samples::stated::Stated;
use crate::samples::uncounted::{self, Mask, Uncounted};
use equalize::Layout;
use equalize::colour::{Gray, to_gray};

/// Facts of decoded samples, and their use.
pub(super) struct DecodedSamples<'o> {
    pub(super) stated: Option<Stated>,
    /// Whether white is 0.
    pub(super) inverted: bool,
    pub(super) count: LevelCount,
    /// The no-data value.
    pub(super) no_data: Option<f64>,
    pub(super) mask: Option<&'o Mask>,
    /// The gray that is made of colours, if any.
    pub(super) gray: Option<Gray>,
    /// Whether the levels of all bands are looked for in them.
    pub(super) are_looked_at: bool,
}

/// Facts of the levels at the front of a slot.
pub(super) struct SlotLevels {
    pub(super) layout: Layout,
    pub(super) scale: Scale,
    /// Whether every pixel is fully transparent, and all are left out of the counts.
    pub(super) is_invisible: bool,
    /// The pixels that do not count.
    pub(super) uncounted: Option<Uncounted>,
    /// The level of pixels without data.
    pub(super) no_data: Option<u16>,
    /// The bits that are not 0 in all samples of a band, if levels are looked for.
    pub(super) used_bits: Option<u16>,
}

impl DecodedSamples<'_> {
    /// Makes levels of the samples at the front of `slot`, which may be levels already.
    pub(super) fn into_levels(
        self,
        payload: &mut Payload,
        slot: &mut [u8],
    ) -> Result<SlotLevels, CodecError> {
        let Self { stated, mask: of_user, are_looked_at, .. } = self;
        let own = Mask::of_both(of_user, payload.native.take_mask())?;
        let mask = own.as_ref().or(of_user);
        let (pixels, depth) = (pixels_of(&payload.layout, slot), payload.layout.depth);
        let no_data = self.no_data.and_then(|value| uncounted::sample_of(value, depth, stated));
        let fates = uncounted::fates(pixels, &payload.layout, mask, no_data)?;
        let used_bits = if are_looked_at { levels::used_bits(pixels, &payload.layout) } else { None };
        let count = if are_looked_at { LevelCount::Full } else { self.count };
        let scale = match &payload.mapped {
            Some(mapped) => Scale::of_mapped(mapped.form().levels, depth, mapped.restores),
            None => Scale::take(count, stated, pixels, &payload.layout, fates.as_deref())?,
        };
        let inverted = self.inverted && payload.mapped.is_none();
        if inverted {
            scale.invert(pixels, &payload.layout);
        }
        let layout = match self.gray {
            Some(gray) => to_gray(slot, &payload.layout, gray),
            None => payload.layout,
        };
        let was_invisible = is_invisible(pixels_of(&layout, slot), &layout);
        let (layout, uncounted) = match fates {
            Some(fates) => {
                let (layout, uncounted) = Uncounted::hide(fates, slot, layout)?;
                (layout, Some(uncounted))
            }
            None => (layout, None),
        };
        // Pixels under a mask can be seen.
        let is_invisible = match of_user {
            Some(_) => was_invisible,
            None => is_invisible(pixels_of(&layout, slot), &layout),
        };
        let no_data = no_data.map(|sample| scale.level_of(sample, depth, inverted));
        Ok(SlotLevels { layout, scale, is_invisible, uncounted, no_data, used_bits })
    }
}

/// Returns whether every pixel is fully transparent.
///
/// The first visible one is mostly the first of all.
fn is_invisible(pixels: &[u8], layout: &Layout) -> bool {
    let alpha = layout.pixel_bytes() - layout.depth.bytes();
    layout.pixel.has_alpha()
        && pixels.chunks_exact(layout.pixel_bytes()).all(|pixel| pixel[alpha..].iter().all(|&byte| byte == 0))
}
