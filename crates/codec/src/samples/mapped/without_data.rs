//! Pixels without a value, where samples are made again, or where levels are written.

use crate::samples::pixels_of;
use equalize::Layout;

use super::super::no_data::Reserved;
use super::Mapped;
use super::hidden::is_hidden;
use super::kind::{Value, with_values};
use crate::samples::eight::to_eight;

impl Mapped {
    /// Returns the levels that would be written as the no-data value.
    pub(crate) fn reserved(&self) -> Option<Reserved> {
        self.form.no_data?;
        Reserved::find(self.form.top(), self.form.inverted, |level| {
            !self.form.counts(with_values!(self.form.kind, value_of(self, level)))
        })
    }

    /// Returns the level of pixels without data in a format for levels, unless alpha marks them.
    ///
    /// It is the level nearest to the no-data value, or to the least of several.
    pub(crate) fn level_without_data(&self, layout: &Layout) -> Option<u16> {
        let none = self.form.no_data.filter(|_| self.form.alpha.is_none())?;
        let level = self.spread.mapping.level(none.least);
        let level = if self.form.inverted { self.form.top() - level } else { level };
        let is_reduced = layout.depth != self.form.kind.depth();
        Some(if is_reduced { to_eight(level).into() } else { level })
    }

    /// Makes the levels at the front of `slot` presentable in a format without the samples' type.
    ///
    /// Removes a mask, and gives all pixels without a value one level, which is black if there is
    /// no level for the no-data value. Returns their layout.
    pub(crate) fn present(&mut self, slot: &mut [u8], layout: Layout) -> Layout {
        if !self.is_masked || self.restores {
            return layout;
        }
        let slot = pixels_of(&layout, slot);
        let none = self.level_without_data(&layout).unwrap_or(0);
        let bytes = layout.depth.bytes();
        let sample = if bytes == 1 { [none as u8, 0] } else { none.to_ne_bytes() };
        for pixel in slot.chunks_exact_mut(layout.pixel_bytes()).filter(|pixel| is_hidden(pixel, bytes)) {
            pixel.chunks_exact_mut(bytes).for_each(|to| to.copy_from_slice(&sample[..bytes]));
        }
        self.unmask(slot, layout)
    }
}

fn value_of<V: Value>(mapped: &Mapped, level: u16) -> f64 {
    mapped.sample::<V>(level).value()
}
