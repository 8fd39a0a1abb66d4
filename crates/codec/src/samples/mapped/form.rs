//! The pixels of a file with samples that are not levels, and their no-data values.

use super::kind::{Kind, Value};
use crate::samples::levels::beyond;
use crate::samples::size::Size;
use crate::{CodecError, LevelCount};
use equalize::{Layout, Levels, Pixel};

/// The pixels for each entry of a table from which on it pays.
pub(super) const PIXELS_EACH: u64 = 4;

/// The relation of alpha to the colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Alpha {
    /// The colours are as they are.
    Straight,
    /// The colours have been multiplied by it.
    Premultiplied,
}

/// The no-data values of samples.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct NoData {
    pub(super) least: f64,
    greatest: f64,
}

impl NoData {
    /// That value alone.
    pub(crate) fn value(value: f64) -> Self {
        Self::between(value, value)
    }

    /// All values from one to the other, whichever is less.
    pub(crate) fn between(one: f64, other: f64) -> Self {
        Self { least: one.min(other), greatest: one.max(other) }
    }

    #[inline(always)]
    pub(crate) fn has(self, value: f64) -> bool {
        self.least <= value && value <= self.greatest
    }

    /// Returns the value, if there is only one.
    pub(crate) fn only(self) -> Option<f64> {
        (!self.are_several()).then_some(self.least)
    }

    /// Returns whether there is more than one.
    fn are_several(self) -> bool {
        self.least < self.greatest
    }
}

/// Returns the value of a sample that has been multiplied by this share.
#[inline(always)]
pub(super) fn of_share<V: Value>(sample: &[u8], share: f64) -> f64 {
    let value = bytemuck::pod_read_unaligned::<V>(sample).value();
    if share == 0.0 { value } else { value / share }
}

/// The pixels of a file with samples that are not levels.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Form {
    pub(crate) kind: Kind,
    /// The samples of a pixel that are colours: 1 or 3.
    pub(crate) colours: usize,
    /// The kind of alpha, if the first sample after them is alpha.
    pub(crate) alpha: Option<Alpha>,
    /// The number of samples after those, of any meaning.
    pub(crate) others: usize,
    /// Whether the least value is white.
    pub(crate) inverted: bool,
    /// The no-data values.
    pub(crate) no_data: Option<NoData>,
    /// The values of the lowest and the highest level, if they are not the picture's extremes.
    pub(crate) ends: Option<(f64, f64)>,
    /// The number of levels that the file states.
    pub(crate) stated: Option<u32>,
    /// The number of levels.
    pub(crate) levels: Levels,
    /// The distance between the values of neighbouring levels, if other values are refused.
    pub(crate) step: Option<f64>,
    /// Whether they are those of some rows of a picture.
    ///
    /// All of these may be hidden while most of the picture is not.
    pub(crate) is_part: bool,
}

impl Form {
    /// Returns the form of one gray sample a pixel, with no other properties.
    pub(crate) const fn of(kind: Kind) -> Self {
        Self {
            kind,
            colours: 1,
            alpha: None,
            others: 0,
            inverted: false,
            no_data: None,
            ends: None,
            stated: None,
            levels: Levels::All,
            step: None,
            is_part: false,
        }
    }

    /// Returns the form with `count` levels, one for each value or each multiple of a power of 2.
    ///
    /// It stays the same if samples are floats or long, or there are as many levels as they have
    /// room for.
    pub(crate) fn with_levels(self, count: LevelCount) -> Self {
        let number = match count {
            LevelCount::Full => None,
            LevelCount::Stated | LevelCount::Seen => self.stated,
            LevelCount::Number(levels) => Some(levels.into()),
            LevelCount::Upper { levels, .. } => (self.kind.bytes() == 2).then_some(levels.into()),
        };
        let is_short = self.kind.bytes() <= 2 && !self.kind.is_float();
        let Some(number) = number.filter(|_| is_short) else { return self };
        let step = if let LevelCount::Upper { shift, .. } = count { f64::from(1_u16 << shift) } else { 1.0 };
        let number = number.min(self.kind.depth().levels() as u32);
        let least = if self.kind.is_signed() { -f64::from(number / 2) } else { 0.0 };
        let levels = Levels::first(number, self.kind.depth());
        let ends = Some((least * step, (least + f64::from(number - 1)) * step));
        Self { ends, levels, step: Some(step), ..self }
    }

    /// Returns the highest level.
    pub(super) fn top(&self) -> u16 {
        (self.levels.number(self.kind.depth()) - 1) as u16
    }

    /// Returns whether a value is refused because there is no level for it.
    #[inline(always)]
    pub(super) fn refuses(&self, value: f64) -> bool {
        self.step.is_some_and(|step| self.is_beyond(value) || step > 1.0 && value % step != 0.0)
            && self.counts(value)
    }

    /// Returns the reason why a value is refused.
    pub(super) fn refusal(&self, value: f64) -> CodecError {
        match self.step {
            Some(step) if !self.is_beyond(value) => {
                CodecError::LowerBits { sample: value, shift: step.log2() as u8 }
            }
            _ => beyond(value, usize::from(self.top()) + 1),
        }
    }

    #[inline(always)]
    fn is_beyond(&self, value: f64) -> bool {
        self.ends.is_some_and(|(low, high)| value < low || value > high)
    }

    /// Returns whether a value is one that counts.
    #[inline(always)]
    pub(super) fn counts(&self, value: f64) -> bool {
        value.is_finite() && !self.no_data.is_some_and(|no_data| no_data.has(value))
    }

    /// Returns the values of a pixel's colours, divided by the alpha in them.
    #[inline(always)]
    pub(super) fn colours_of<V: Value>(&self, pixel: &[u8]) -> impl Iterator<Item = f64> {
        let share = self.share_of::<V>(pixel);
        pixel.chunks_exact(size_of::<V>()).take(self.colours).map(move |sample| of_share::<V>(sample, share))
    }

    /// Returns the share that a pixel's colours have been multiplied by.
    #[inline(always)]
    pub(super) fn share_of<V: Value>(&self, pixel: &[u8]) -> f64 {
        if self.alpha == Some(Alpha::Premultiplied) { self.alpha_of::<V>(pixel) / V::OPAQUE } else { 1.0 }
    }

    /// Returns the value of a pixel's alpha.
    #[inline(always)]
    pub(super) fn alpha_of<V: Value>(&self, pixel: &[u8]) -> f64 {
        let at = self.colours * size_of::<V>();
        bytemuck::pod_read_unaligned::<V>(&pixel[at..at + size_of::<V>()]).value()
    }

    /// Returns the bytes of a pixel in the file.
    pub(crate) fn pixel_bytes(&self) -> usize {
        (self.colours + self.behind()) * self.kind.bytes()
    }

    /// Returns the number of samples after the colours. They come back as they were.
    pub(super) fn behind(&self) -> usize {
        usize::from(self.alpha.is_some()) + self.others
    }

    /// Returns the layout of the levels in the slot, as if some pixels had to stay as they are.
    pub(crate) fn layout(&self, size: Size) -> Layout {
        let layout = self.visible(size);
        let pixel = match layout.pixel {
            Pixel::Gray if self.may_mask() => Pixel::GrayAlpha,
            Pixel::Rgb if self.may_mask() => Pixel::Rgba,
            pixel => pixel,
        };
        Layout { pixel, ..layout }
    }

    /// Returns the layout of the levels without a mask.
    pub(crate) fn visible(&self, size: Size) -> Layout {
        let pixel = match (self.colours, self.alpha) {
            (1, Some(_)) => Pixel::GrayAlpha,
            (1, None) => Pixel::Gray,
            (_, Some(_)) => Pixel::Rgba,
            (_, None) => Pixel::Rgb,
        };
        Layout { width: size.width, height: size.height, pixel, depth: self.kind.depth() }
    }

    /// Returns whether pixels may have to stay as they are.
    pub(super) fn may_mask(&self) -> bool {
        self.kind.is_float() || self.no_data.is_some()
    }

    /// Returns the bytes of a row of samples, if pixels have the colours of a layout.
    pub(crate) fn row_bytes(&self, layout: &Layout) -> u64 {
        let samples = layout.pixel.colour_channels() + self.behind();
        u64::from(layout.width) * (samples * self.kind.bytes()) as u64
    }

    /// Returns the most bytes of heap until the picture is encoded, for this many pixels.
    pub(crate) fn kept_bytes(&self, pixels: u64) -> u64 {
        let behind = pixels.saturating_mul((self.behind() * self.kind.bytes()) as u64);
        let samples = self.samples_bytes(pixels) as u64;
        behind.saturating_add(self.hidden_bytes(pixels)).saturating_add(samples)
    }

    /// Returns the bytes of the table of samples by levels, if it pays for so many pixels.
    pub(super) fn samples_bytes(&self, pixels: u64) -> usize {
        let levels = usize::from(self.top()) + 1;
        if pixels < PIXELS_EACH * levels as u64 { 0 } else { levels * self.kind.bytes() }
    }

    /// Returns the most bytes that hidden pixels may take.
    ///
    /// It is enough for any picture unless nearly every pixel differs from the one before, or for
    /// any at all if there are several no-data values, or it is a part of a picture.
    pub(super) fn hidden_bytes(&self, pixels: u64) -> u64 {
        const FEW: u64 = 4 << 10;
        const RUN: u64 = size_of::<u32>() as u64;
        let colours = (self.colours * self.kind.bytes()) as u64;
        let has_hidden = self.may_mask() || self.alpha.is_some();
        let may_all_differ = self.is_part || self.no_data.is_some_and(NoData::are_several);
        match may_all_differ {
            _ if !has_hidden => 0,
            true => pixels.saturating_mul(colours + RUN) + FEW,
            false => pixels.saturating_mul(colours) / 2 + FEW,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::mapped::mapping::Mapping;

    #[test]
    fn values_in_the_upper_bits_have_a_level_each_and_others_are_refused() {
        let form = |kind| {
            let form = Form { no_data: Some(NoData::value(-1.0)), ..Form::of(kind) };
            form.with_levels(LevelCount::Upper { levels: 4096, shift: 4 })
        };
        for (kind, least) in [(Kind::Unsigned16, 0.0), (Kind::Signed16, -32_768.0)] {
            let form = form(kind);
            let (low, high) = form.ends.unwrap();
            let mapping = Mapping::between(form.top(), low, high);
            for level in 0..4096 {
                let value = least + 16.0 * f64::from(level);
                assert_eq!(
                    (mapping.level(value), mapping.value(level), form.refuses(value)),
                    (level, value, false)
                );
            }
            assert!(form.refuses(8.0) && form.refuses(least - 16.0) && form.refuses(least + 65_536.0));
            assert!(!form.refuses(-1.0), "no data is no level");
            let why = form.refusal(8.0).to_string();
            assert!(why.starts_with("sample 8 has data in its 4 unused low bits"), "{why}");
        }
        for kind in [Kind::Signed8, Kind::Float32, Kind::Signed32] {
            assert_eq!(form(kind).step, None);
        }
    }
}
