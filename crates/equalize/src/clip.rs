//! The clip limit of a tile's histogram, and the redistribution of the excess.

use std::ops::{Add, Mul, Range, Sub};

use crate::portable::round;
use crate::{Depth, Strength};

/// CLAHE's clip limit, as requested.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum ClipLimit {
    /// [`ClipLimit::USUAL`], by the levels that occur.
    ///
    /// With more than 256 levels, the result is as if a plane had only the levels that occur in it,
    /// however many a file may have: see [`Clipping::of_levels`].
    Auto,
    /// The highest count allowed, as a multiple of the mean over all levels; 0 means no limit.
    ///
    /// This is OpenCV's `clipLimit`.
    Times(f64),
}

impl ClipLimit {
    /// A limit that suits most pictures of 8 bits.
    pub const USUAL: u64 = 2;

    /// Returns whether the limit depends on the levels that occur in a plane of `levels` levels.
    pub const fn needs_levels(self, levels: usize) -> bool {
        matches!(self, Self::Auto) && levels > Depth::Eight.levels()
    }
}

/// The levels that occur in a plane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LevelsInUse {
    /// The lowest.
    pub lowest: u32,
    /// The highest.
    pub highest: u32,
    /// The number of different levels.
    pub number: u32,
}

impl LevelsInUse {
    /// Returns the levels that occur.
    ///
    /// `occurs` has an entry for every level from 0 on. At least one must occur.
    pub fn new(occurs: impl DoubleEndedIterator<Item = bool> + ExactSizeIterator + Clone) -> Self {
        let levels = occurs.len() as u32;
        let lowest = occurs.clone().position(|occurs| occurs).unwrap_or(0) as u32;
        let above = occurs.clone().rev().position(|occurs| occurs).unwrap_or(0) as u32;
        Self { lowest, highest: levels - 1 - above, number: occurs.filter(|&occurs| occurs).count() as u32 }
    }
}

/// The clipping of the histograms of a plane's tiles.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Clipping {
    /// The count at which a bin is clipped; `None` means no limit.
    pub most: Option<u64>,
    /// The levels over which the excess is spread.
    pub spread: Range<u32>,
    /// Span of levels at which a LUT has its full effect; 0 for LUTs as they are.
    ///
    /// It is the span of the middle four fifths of a tile's samples; a tile that spans fewer levels
    /// gains in proportion less.
    pub full_span: u32,
}

impl Clipping {
    /// Returns OpenCV's clipping of tiles of `area` pixels of `levels` levels.
    ///
    /// [`ClipLimit::Auto`] is [`ClipLimit::USUAL`] here, as it is for up to 256 levels.
    pub fn new(limit: ClipLimit, area: u64, levels: usize) -> Self {
        let times = match limit {
            ClipLimit::Auto => ClipLimit::USUAL as f64,
            ClipLimit::Times(times) => times,
        };
        let most = (times > 0.0).then(|| ((times * area as f64 / levels as f64) as u64).max(1));
        Self { most, spread: 0..levels as u32, full_span: 0 }
    }

    /// Returns the clipping of [`ClipLimit::Auto`] for tiles of `area` pixels.
    ///
    /// `in_use` are the plane's levels; `None` if there is only one, which leaves no contrast to
    /// enhance.
    ///
    /// A bin may have [`ClipLimit::USUAL`] times the mean over the levels that occur; at least 256
    /// are assumed, as in an 8-bit picture of few levels. The excess is spread between the lowest
    /// and the highest level, in proportion to the distance from the lowest: the tables then lead
    /// from the bottom of the range to its top.
    pub fn of_levels(in_use: LevelsInUse, area: u64) -> Option<Self> {
        let LevelsInUse { lowest, highest, number } = in_use;
        let assumed = u64::from(number).max(Depth::Eight.levels() as u64);
        let most = (ClipLimit::USUAL * area / assumed).max(1);
        (lowest < highest).then_some(Self { most: Some(most), spread: lowest + 1..highest + 1, full_span: 0 })
    }
}

impl Clipping {
    /// Returns the same clipping with less gain for tiles that span fewer levels than `noise`.
    ///
    /// `noise` is in levels of 256; `levels` is the number of levels.
    #[must_use]
    pub fn with_noise(self, noise: u8, levels: usize) -> Self {
        let full_span = u32::from(noise) * (levels as u32 - 1) / 255;
        Self { full_span: if noise == 0 { 0 } else { full_span.max(1) }, ..self }
    }

    /// Returns the strength of the LUT of a tile of `area` samples.
    ///
    /// `counts` are the tile's levels, in ascending order, each with its count.
    pub(super) fn strength(&self, area: u64, counts: impl Iterator<Item = (u32, u64)>) -> Strength {
        if self.full_span == 0 {
            return Strength::FULL;
        }
        let (mut running, mut first, mut last) = (0, None, 0);
        for (level, count) in counts {
            running += count;
            if 10 * running > area {
                first.get_or_insert(level);
            }
            if 10 * running >= 9 * area {
                last = level;
                break;
            }
        }
        let span = last - first.unwrap_or(last);
        let thousandths = 1000 * u64::from(span.min(self.full_span)) / u64::from(self.full_span);
        Strength::thousandths(thousandths as u16).unwrap_or(Strength::FULL)
    }

    /// Returns the distribution of `excess` samples over the levels of a tile.
    pub(super) fn spread(&self, excess: u64) -> Spread {
        let Range { start: first, end } = self.spread;
        let bins = end - first;
        let extras = (excess % u64::from(bins)) as u32;
        let step = (bins / extras.max(1)).max(1);
        Spread {
            first,
            bins,
            share: excess / u64::from(bins),
            extras,
            half_step: (step - 1) as f32 / 2.0,
            inverse_step: 1.0 / step as f32,
        }
    }
}

/// A number of samples in a tile: `u32` if all are less than 2³¹, because it is faster.
pub(super) trait Count:
    Copy + Ord + Add<Output = Self> + Sub<Output = Self> + Mul<Output = Self> + From<u32> + Into<u64>
{
    const ZERO: Self;

    /// Returns the number, or the greatest possible one if it is greater.
    fn at_most(number: u64) -> Self;

    /// Returns the nearest float.
    fn to_float(self) -> f32;
}

impl Count for u32 {
    const ZERO: Self = 0;

    #[inline(always)]
    fn at_most(number: u64) -> Self {
        number.min(u64::from(Self::MAX)) as Self
    }

    #[inline(always)]
    fn to_float(self) -> f32 {
        // Signed integers are converted faster.
        self as i32 as f32
    }
}

impl Count for u64 {
    const ZERO: Self = 0;

    #[inline(always)]
    fn at_most(number: u64) -> Self {
        number
    }

    #[inline(always)]
    fn to_float(self) -> f32 {
        self as f32
    }
}

/// The excess of one tile, as spread over its levels.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Spread {
    /// The first level with a share.
    first: u32,
    /// The number of levels with a share.
    bins: u32,
    share: u64,
    /// The remainder: one each for the levels 0, step, 2 step, … of those with a share.
    extras: u32,
    half_step: f32,
    inverse_step: f32,
}

impl Spread {
    /// Returns the sum of the shares of the levels from 0 to this one.
    #[inline(always)]
    pub(super) fn up_to<C: Count>(&self, level: u32) -> C {
        let bins = (level + 1).clamp(self.first, self.first + self.bins) - self.first;
        // The quotient of `bins` and the step, rounded up: that of `bins + (step - 1) / 2` and the
        // step, rounded to the nearest. It is exact: it is at least half of an inverse step away
        // from where the rounding changes, and off by less than 2⁻⁵ of that.
        let steps = round((bins as i32 as f32 + self.half_step) * self.inverse_step);
        C::at_most(self.share) * C::from(bins) + C::from(steps.min(self.extras))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_usual_limit_is_opencvs() {
        for (area, most) in [(1, 1), (127, 1), (128, 1), (256, 2), (192_000, 1500)] {
            let [auto, two] =
                [ClipLimit::Auto, ClipLimit::Times(2.0)].map(|limit| Clipping::new(limit, area, 256));
            assert_eq!((auto.most, auto.spread.clone()), (Some(most), 0..256));
            assert_eq!(auto, two);
        }
        assert_eq!(Clipping::new(ClipLimit::Times(0.0), 5000, 65_536).most, None);
        assert_eq!(Clipping::new(ClipLimit::Times(2.5), 40_000, 65_536).most, Some(1));
    }

    #[test]
    fn auto_goes_by_the_levels_that_occur_where_there_are_more_than_of_8_bits() {
        let needs = |limit: ClipLimit| [2, 256, 257, 4096, 65_536].map(|levels| limit.needs_levels(levels));
        assert_eq!(needs(ClipLimit::Auto), [false, false, true, true, true]);
        assert_eq!(needs(ClipLimit::Times(2.0)), [false; 5]);
        // Independent of the number of possible levels.
        let of = |levels: u32| {
            let occurs: Vec<_> = (0..levels).map(|level| (1729..2066).contains(&level)).collect();
            Clipping::of_levels(LevelsInUse::new(occurs.into_iter()), 16_384)
        };
        assert_eq!(of(4096), Some(Clipping { most: Some(97), spread: 1730..2066, full_span: 0 }));
        assert_eq!(of(65_536), of(4096));
    }

    #[test]
    fn levels_in_use_decide_the_rest() {
        let of = |lowest: usize, highest: usize, step: usize, area| {
            let mut occurs = vec![false; 65_536];
            (lowest..=highest).step_by(step).for_each(|level| occurs[level] = true);
            Clipping::of_levels(LevelsInUse::new(occurs.iter().copied()), area)
        };
        assert_eq!(of(700, 700, 1, 4096), None);
        // Few levels count as 256.
        let two_levels = Some(Clipping { most: Some(32), spread: 1..65_536, full_span: 0 });
        assert_eq!(of(0, 65_535, 65_535, 4096), two_levels);
        for (area, most) in [(192_000, 96), (1000, 1)] {
            let clipping = |spread| Some(Clipping { most: Some(most), spread, full_span: 0 });
            assert_eq!(of(100, 4099, 1, area), clipping(101..4100));
            // The same 4000 levels, further apart.
            assert_eq!(of(1500, 1500 + 16 * 3999, 16, area).map(|clipping| clipping.most), Some(Some(most)));
        }
    }

    #[test]
    fn tiles_that_span_few_levels_gain_less() {
        let clipping = Clipping::new(ClipLimit::Auto, 1000, 256).with_noise(96, 256);
        let of = |counts: &[(u32, u64)]| {
            clipping
                .strength(counts.iter().map(|&(_, count)| count).sum(), counts.iter().copied())
                .in_thousandths()
        };
        assert_eq!(of(&[(10, 1000)]), 0);
        // A tenth at each end is ignored.
        assert_eq!(of(&[(10, 100), (60, 800), (110, 100)]), 0);
        assert_eq!(of(&[(10, 101), (60, 798), (110, 101)]), 1000);
        assert_eq!(of(&[(0, 500), (48, 500)]), 500);
        assert_eq!(of(&[(0, 500), (200, 500)]), 1000);
        assert_eq!(Clipping::new(ClipLimit::Auto, 9, 65_536).with_noise(96, 65_536).full_span, 24_672);
        assert_eq!(Clipping::new(ClipLimit::Auto, 9, 8).with_noise(1, 8).full_span, 1);
        assert_eq!(
            Clipping::new(ClipLimit::Auto, 9, 256).with_noise(0, 256).strength(9, [(0, 9)].into_iter()),
            Strength::FULL
        );
    }

    #[test]
    fn the_closed_form_of_an_excess_adds_up_what_every_level_has() {
        for spread in [0..256, 0..65_536, 1..65_536, 17..18, 101..4100, 65_000..65_536, 3..40_003] {
            let bins = u64::from(spread.end - spread.start);
            let clipping = Clipping { most: Some(1), spread: spread.clone(), full_span: 0 };
            let few = [0, 1, 2, 3, 5, 100, bins / 3, bins / 2, bins / 2 + 1, bins - 1];
            for excess in few.into_iter().flat_map(|few| [few, few + bins, few + 1000 * bins]) {
                let closed = clipping.spread(excess);
                let (share, residual) = (excess / bins, excess % bins);
                let step = (bins / residual.max(1)).max(1);
                let mut extras =
                    (0..residual).map(|number| u64::from(spread.start) + number * step).peekable();
                let mut sum = 0;
                for level in 0..65_536 {
                    sum += if spread.contains(&level) { share } else { 0 };
                    sum += u64::from(extras.next_if_eq(&u64::from(level)).is_some());
                    assert_eq!(closed.up_to::<u64>(level), sum, "{spread:?}, {excess}, level {level}");
                }
                assert_eq!(sum, excess);
            }
        }
    }
}
