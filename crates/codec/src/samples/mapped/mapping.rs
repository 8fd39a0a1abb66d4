//! The line between values and levels.

use crate::target::range::Range;

/// The least and the greatest value so far; infinities without values.
#[derive(Clone, Copy, Debug)]
pub(super) struct Extremes {
    pub(super) least: f64,
    pub(super) greatest: f64,
}

impl Default for Extremes {
    /// Returns those of an empty set of values.
    fn default() -> Self {
        Self { least: f64::INFINITY, greatest: f64::NEG_INFINITY }
    }
}

impl Extremes {
    /// Returns their distance.
    pub(super) fn width(self) -> f64 {
        self.greatest - self.least
    }

    #[inline(always)]
    pub(super) fn add(&mut self, value: f64) {
        self.least = if value < self.least { value } else { self.least };
        self.greatest = if value > self.greatest { value } else { self.greatest };
    }

    /// Adds those of other values, if there are any.
    #[inline(always)]
    pub(super) fn join(&mut self, other: Self) {
        self.least = self.least.min(other.least);
        self.greatest = self.greatest.max(other.greatest);
    }
}

/// The line from the values of a picture to its levels, and back.
///
/// `level = floor((value - low) / (high - low) * top + 0.5)`, and
/// `value = low + level / top * (high - low)`, in 64-bit floats.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mapping {
    low: f64,
    high: f64,
    /// The factor of all operands: 1/2 if `high - low` is beyond 64-bit floats, and otherwise 1.
    scale: f64,
    /// The highest level.
    top: f64,
}

impl Mapping {
    pub(super) fn of_range(top: u16, range: Range) -> Self {
        Self::between(top, range.low, range.high)
    }

    pub(super) fn of_extremes(top: u16, extremes: Extremes) -> Self {
        if extremes.least <= extremes.greatest {
            Self::between(top, extremes.least, extremes.greatest)
        } else {
            // There are no values: any mapping will do.
            Self::between(top, 0.0, 0.0)
        }
    }

    /// Returns the mapping with these values of the lowest and the highest level.
    pub(super) fn between(top: u16, low: f64, high: f64) -> Self {
        let scale = if (high - low).is_finite() { 1.0 } else { 0.5 };
        Self { low: low * scale, high: high * scale, scale, top: top.into() }
    }

    /// Returns the level of a value, clamped to the range.
    ///
    /// A value that is not a number has level 0.
    #[inline(always)]
    pub(super) fn level(&self, value: f64) -> u16 {
        let value = (value * self.scale).max(self.low).min(self.high);
        // In a constant picture this is 0 / 0, which converts to 0.
        ((value - self.low) / (self.high - self.low) * self.top + 0.5) as u16
    }

    /// Returns the value of a level.
    #[inline(always)]
    pub(super) fn value(&self, level: u16) -> f64 {
        (self.low + f64::from(level) / self.top * (self.high - self.low)) / self.scale
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::mapped::Kind;

    fn between(low: f64, high: f64) -> Mapping {
        Mapping::of_range(u16::MAX, Range::new(low, high).unwrap())
    }

    #[test]
    fn levels_are_spread_from_the_least_to_the_greatest_and_come_back() {
        let line = between(-3.0, 7.0);
        let levels = [-4.0, -3.0, 2.0, 7.0, 8.0, f64::NEG_INFINITY, f64::INFINITY, f64::NAN];
        assert_eq!(levels.map(|value| line.level(value)), [0, 0, 32_768, 65_535, 65_535, 0, 65_535, 0]);
        assert_eq!([0, 65_535].map(|level| line.value(level)), [-3.0, 7.0]);
        for line in [line, between(0.0, 1e-310), between(-f64::MAX, f64::MAX), between(-1e300, 3.0)] {
            for level in 0..=u16::MAX {
                assert_eq!(line.level(line.value(level)), level, "{line:?}");
            }
        }
    }

    #[test]
    fn levels_of_short_integers_are_exact() {
        let whole = |kind: Kind| {
            let top = (kind.depth().levels() - 1) as u16;
            let (low, high) = kind.whole_range().unwrap();
            Mapping::between(top, low, high)
        };
        let eight = whole(Kind::Signed8);
        for sample in i8::MIN..=i8::MAX {
            let level = eight.level(f64::from(sample));
            assert_eq!(i32::from(level), i32::from(sample) + 128);
            assert_eq!((eight.value(level) + 0.5).floor(), f64::from(sample));
        }
        let sixteen = whole(Kind::Signed16);
        for sample in i16::MIN..=i16::MAX {
            let level = sixteen.level(f64::from(sample));
            assert_eq!(i32::from(level), i32::from(sample) + 32_768);
            assert_eq!((sixteen.value(level) + 0.5).floor(), f64::from(sample));
        }
        assert!(Kind::Float32.whole_range().is_none());
    }

    #[test]
    fn a_constant_picture_has_one_level_and_keeps_its_value() {
        for value in [0.0, -5.5, 1e308, 5e-324] {
            let mut extremes = Extremes::default();
            extremes.add(value);
            let line = Mapping::of_extremes(u16::MAX, extremes);
            assert_eq!((line.level(value), line.value(0)), (0, value));
        }
        let nothing = Mapping::of_extremes(u16::MAX, Extremes::default());
        assert_eq!((nothing.level(f64::NAN), nothing.value(0)), (0, 0.0));
    }
}
