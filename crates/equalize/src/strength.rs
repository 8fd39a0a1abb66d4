//! The share of the way from a picture's own levels to the equalized ones.

use std::fmt;
use std::str::FromStr;

use super::level::Level;
use super::simd;

/// A share of the way from a picture to its equalized form, in thousandths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Strength(u16);

impl Strength {
    /// All the way.
    pub const FULL: Self = Self(1000);

    /// Returns this many thousandths, at most 1000.
    pub const fn thousandths(thousandths: u16) -> Option<Self> {
        if thousandths <= Self::FULL.0 { Some(Self(thousandths)) } else { None }
    }

    /// Returns the thousandths.
    pub const fn in_thousandths(self) -> u32 {
        self.0 as u32
    }

    /// Returns the level at this share of the way from `old` to `new`.
    ///
    /// It is rounded to the nearest, halves up: in exact arithmetic `old + floor((new - old) *
    /// strength + 1/2)`.
    #[inline(always)]
    pub fn between(self, old: u32, new: u32) -> u32 {
        // A weighted mean, which is never negative; below 2²⁶ + 500 for 16 bits.
        let full = Self::FULL.in_thousandths();
        (old * (full - self.in_thousandths()) + new * self.in_thousandths() + full / 2) / full
    }

    /// Replaces each new value by the one at this share of the way from the old value.
    pub(super) fn weaken<S: Level>(self, old: &[S], new: &mut [S]) {
        #[inline(always)]
        fn portable<S: Level>(old: &[S], new: &mut [S], strength: Strength) {
            for (new, old) in new.iter_mut().zip(old) {
                *new = S::from_level(strength.between(old.level() as u32, new.level() as u32));
            }
        }
        if self != Self::FULL {
            simd::vectorized!(portable(old, new, self));
        }
    }

    /// Weakens a LUT: its entries are the new levels.
    pub(super) fn weaken_lut<S: Level>(self, lut: &mut [S]) {
        if self != Self::FULL {
            for (old, new) in (0..).zip(lut) {
                *new = S::from_level(self.between(old, new.level() as u32));
            }
        }
    }
}

impl FromStr for Strength {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let digits = text.trim();
        let (whole, part) = digits.split_once('.').unwrap_or((digits, ""));
        let is_number = digits.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.') && digits != ".";
        let thousandths = format!("{whole}{part:0<3}").parse().ok().and_then(Self::thousandths);
        thousandths
            .filter(|_| is_number && !digits.is_empty() && part.len() <= 3)
            .ok_or_else(|| format!("{text:?} is not a number from 0 to 1 with at most three decimals"))
    }
}

impl fmt::Display for Strength {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = format!("{}.{:03}", self.0 / 1000, self.0 % 1000);
        f.write_str(text.trim_end_matches('0').trim_end_matches('.'))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_strength_has_at_most_three_decimals() {
        for (text, thousandths) in
            [("1", 1000), ("0", 0), ("0.5", 500), (" .25", 250), ("1.000", 1000), ("0.001", 1), ("00.7", 700)]
        {
            assert_eq!(text.parse(), Ok(Strength(thousandths)), "{text}");
        }
        for text in ["", ".", "1.001", "2", "-0.5", "0.1234", "half", "50%", "1e-1", "0.5.5", "+1", "NaN"] {
            let why = text.parse::<Strength>().unwrap_err();
            assert_eq!(why, format!("{text:?} is not a number from 0 to 1 with at most three decimals"));
        }
        for text in ["1", "0", "0.5", "0.125", "0.001"] {
            assert_eq!(text.parse::<Strength>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn halves_go_up_whichever_way_the_level_moves() {
        let half = Strength(500);
        assert_eq!((half.between(10, 13), half.between(13, 10)), (12, 12));
        assert_eq!((half.between(0, 65_535), half.between(65_535, 0)), (32_768, 32_768));
        for (old, new) in [(0, 255), (255, 0), (7, 7), (65_535, 65_534)] {
            assert_eq!((Strength(0).between(old, new), Strength::FULL.between(old, new)), (old, new));
        }
        // Against the definition, with floor division of negative numbers.
        for strength in (0..=1000).step_by(7) {
            for (old, new) in [(0_i64, 65_535_i64), (65_535, 0), (200, 3), (3, 200), (40_000, 41_001)] {
                let exact = old + ((new - old) * i64::from(strength) + 500).div_euclid(1000);
                assert_eq!(i64::from(Strength(strength).between(old as u32, new as u32)), exact);
            }
        }
    }
}
