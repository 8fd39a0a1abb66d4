//! The last step before encoding: levels of the output's depth, and no-data values.
//!
//! Only missing data become no-data values.

use crate::samples::eight::{to_eight, to_eight_bits};
use crate::samples::no_data::Reserved;
use crate::samples::pixels_of;
use crate::{Decoded, Target};
use equalize::{Depth, Layout};

impl Target {
    /// Returns the layout in which pixels of this one are written.
    pub(crate) fn layout_for(&self, layout: Layout) -> Layout {
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
        let says_top = target.format_for(self.format).states_top() && self.restored().is_none();
        self.keep_data_apart(slot, says_top, is_reduced);
        if let Some(mapped) = &mut self.mapped {
            self.layout = mapped.present(slot, self.layout);
        }
        let written = target.layout_for(self.layout);
        self.scale.present(slot, &self.layout, says_top, is_reduced);
        if is_reduced {
            to_eight_bits(pixels_of(&self.layout, slot));
            self.native.reduce_depth();
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
