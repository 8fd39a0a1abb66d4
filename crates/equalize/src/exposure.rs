//! Exposure: a straight line before the method, so that dark and flat pictures use the range.

use std::borrow::Cow;

use crate::level::Level;
use crate::percentiles::Stretch;

/// Greatest factor by which a picture may be brightened.
const BRIGHTER: u64 = 3;

/// The whole range, in the unit of an [`Exposure`].
const ALL: u64 = 1000;

/// Brightening of a picture before the method.
///
/// Let `a` and `b` be the levels between which a stretch would spread the samples. Half of `a` is
/// subtracted, and `b` becomes a share of the range, unless it is above that already or would be
/// more than three times as bright. Haze therefore stays haze, only the darkest levels become
/// darker, and a night picture stays one. In integers, with `k = floor(a / 2)` and `t = max(b,
/// min(floor(top * share), 3 b))`, level `i` becomes `(i - k) / (b - k) * t`, halves up, within the
/// range. If there is no level between `a` and `b`, all levels stay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Exposure {
    /// Share of the range that the brightest samples reach, in thousandths.
    pub share: u16,
    /// Shares of the samples to ignore at both ends.
    pub ends: Stretch,
}

impl Exposure {
    /// Returns the table of a plane with these counts.
    ///
    /// Only the first `levels` levels may occur; higher ones map to themselves.
    pub(crate) fn table<S: Level>(self, levels: usize, counts: &[u64]) -> Vec<S> {
        table(levels, self.line(levels, counts))
    }

    /// Returns the line of a plane with these counts; `None` if all levels stay.
    fn line(self, levels: usize, counts: &[u64]) -> Option<Line> {
        let (darkest, brightest) = self.ends.ends(&counts[..levels])?;
        let (top, brightest) = (levels as u64 - 1, brightest as u64);
        let black = darkest as u64 / 2;
        let white = brightest.max((top * u64::from(self.share) / ALL).min(BRIGHTER * brightest));
        Some(Line { black, width: brightest - black, white })
    }
}

/// A straight line: the level `black` becomes 0, and the one `width` above becomes `white`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Line {
    black: u64,
    width: u64,
    white: u64,
}

/// Returns the table of a line.
fn table<S: Level>(levels: usize, line: Option<Line>) -> Vec<S> {
    let mut table: Vec<S> = (0..S::LEVELS as u32).map(S::from_level).collect();
    let Some(Line { black, width, white }) = line else { return table };
    let (dark, others) = table[..levels].split_at_mut(black as usize);
    dark.fill(S::from_level(0));
    // Halves go up. The remainder is carried along, which saves a division for each entry.
    let (mut exposed, mut left) = (0, width);
    for entry in others {
        *entry = S::from_level(exposed.min(levels as u64 - 1) as u32);
        exposed += white / width;
        left += 2 * (white % width);
        if left >= 2 * width {
            (exposed, left) = (exposed + 1, left - 2 * width);
        }
    }
    table
}

/// Returns the counts of a plane after its levels went through a table.
pub(crate) fn mapped<S: Level, C: Copy + Default + std::ops::AddAssign>(counts: &[C], table: &[S]) -> Vec<C> {
    let mut mapped = vec![C::default(); counts.len()];
    for (&count, level) in counts.iter().zip(table) {
        mapped[level.level()] += count;
    }
    mapped
}

/// Composes two tables: `lut`, for exposed levels, becomes one for the levels before `table`.
pub(crate) fn compose<S: Level>(table: &[S], lut: &mut [S]) {
    let exposed = lut.to_vec();
    lut.iter_mut().zip(table).for_each(|(entry, level)| *entry = exposed[level.level()]);
}

/// Returns for every level whether it occurs after levels went through a table.
///
/// `occurs` is the same before the table, and covers all levels that occur.
pub(crate) fn occurring<'o, S: Level>(occurs: &'o [bool], table: Option<&[S]>) -> Cow<'o, [bool]> {
    let Some(table) = table else { return Cow::Borrowed(occurs) };
    let mut exposed = vec![false; occurs.len()];
    let levels = table.iter().zip(occurs).filter(|(_, occurs)| **occurs);
    levels.for_each(|(level, _)| exposed[level.level()] = true);
    Cow::Owned(exposed)
}

/// The exposure of each equalized plane; empty without an [`Exposure`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Exposures {
    levels: usize,
    lines: Vec<Option<Line>>,
}

impl Exposures {
    /// Returns the exposures of planes with these counts, one count per level.
    pub(crate) fn new<S: Level>(exposure: Option<Exposure>, levels: usize, counts: &[u64]) -> Self {
        let Some(exposure) = exposure else { return Self::default() };
        let lines = counts.chunks_exact(S::LEVELS).map(|counts| exposure.line(levels, counts));
        Self { levels, lines: lines.collect() }
    }

    /// Returns the table of the plane with this number.
    pub(crate) fn of_plane<S: Level>(&self, number: usize) -> Option<Vec<S>> {
        self.lines.get(number).map(|&line| table(self.levels, line))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table8(share: u16, occurring: &[(usize, u64)]) -> Vec<u8> {
        let mut counts = vec![0; 256];
        occurring.iter().for_each(|&(level, count)| counts[level] = count);
        Exposure { share, ends: Stretch { low: 1_750, high: 1_750 } }.table(256, &counts)
    }

    #[test]
    fn the_brightest_level_goes_to_its_share_and_half_of_the_darkest_to_black() {
        let table = table8(800, &[(6, 10), (30, 50), (76, 40)]);
        assert_eq!([0, 3, 6, 30, 76, 255].map(|level: usize| table[level]), [0, 0, 8, 75, 204, 255]);
        let table = table8(800, &[(100, 10), (130, 50), (180, 40)]);
        assert_eq!([50, 100, 130, 180].map(|level: usize| table[level]), [0, 78, 126, 204]);
    }

    #[test]
    fn nothing_becomes_more_than_three_times_as_bright_or_darker_than_it_is() {
        let table = table8(800, &[(0, 60), (20, 30), (60, 10)]);
        assert_eq!((table[20], table[60]), (60, 180));
        let table = table8(800, &[(9, 5), (120, 50), (240, 45)]);
        assert_eq!((table[9], table[120], table[240]), (5, 118, 240));
    }

    #[test]
    fn sixteen_bits_and_fewer_levels() {
        let mut counts = vec![0; 65_536];
        (counts[1000], counts[9000], counts[15_000]) = (10, 50, 40);
        let exposure = Exposure { share: 800, ends: Stretch { low: 1_750, high: 1_750 } };
        let table: Vec<u16> = exposure.table(65_536, &counts);
        assert_eq!((table[1000], table[15_000]), (1552, 45_000));
        let mut counts = vec![0; 65_536];
        (counts[0], counts[2000]) = (1, 1);
        let table: Vec<u16> = exposure.table(4096, &counts);
        assert_eq!((table[2000], table[4095], table[4096]), (3276, 4095, 4096));
    }

    #[test]
    fn nothing_to_spread_changes_nothing() {
        let identity: Vec<u8> = (0..=255).collect();
        assert_eq!(table8(800, &[]), identity);
        assert_eq!(table8(1000, &[(77, 5)]), identity);
    }

    #[test]
    fn counts_go_with_their_levels() {
        let table: Vec<u8> = (0..=255_u8).map(|level| level.saturating_sub(3)).collect();
        let mut counts = vec![0_u64; 256];
        (counts[1], counts[3], counts[9]) = (5, 6, 7);
        let found = mapped(&counts, &table);
        assert_eq!((found[0], found[6], found.iter().sum::<u64>()), (11, 7, 18));
    }
}
