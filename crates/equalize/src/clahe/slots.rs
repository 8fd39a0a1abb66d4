//! The levels of a plane, numbered without most of the levels that do not occur.
//!
//! Tables then have only as many entries as they need. A slot is a level without its lowest bits,
//! counted from the lowest that occurs; as many bits are left out as possible without two levels
//! that occur sharing a slot. A picture of 12 bits therefore has 4096 slots at most, in whichever
//! bits they are, also where they were multiplied to fill the range. Finding the slot of a sample
//! takes a subtraction and a shift, and slots have the order of their levels.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};

use super::Thread;
use super::plane::PaddedPlane;
use super::survey::{Interval, Seen, mark, marked};
use crate::executor::{Executor, Pool, Team};
use crate::histogram::Tally;
use crate::level::Level;
use crate::sample::Sample;
use crate::simd;

/// Pixels marked before each decision whether to go on.
const GLANCE: usize = 1 << 16;

/// Number of slots above which marking every level, to find fewer, pays off.
const MANY: usize = 8192;

/// The slots of the levels that occur in a plane.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Slots<S> {
    /// The number of lowest bits that are left out.
    shift: u32,
    /// The lowest level without these bits.
    lowest: u32,
    /// The level of each slot, after its exposure: the one that occurs, if any.
    levels: Vec<S>,
    /// The runs of slots with equal levels after their exposure.
    ///
    /// Their counts are kept with their first slots.
    equal: Vec<Range<u32>>,
}

impl<S> Default for Slots<S> {
    fn default() -> Self {
        Self { shift: 0, lowest: 0, levels: Vec::new(), equal: Vec::new() }
    }
}

impl<S: Sample> Slots<S> {
    /// Returns the level of each slot, in ascending order.
    pub(super) fn levels(&self) -> &[S] {
        &self.levels
    }

    /// Returns whether every level is its own slot.
    pub(super) const fn are_levels(&self) -> bool {
        self.shift == 0 && self.lowest == 0
    }

    /// Returns the slot of a level that occurs.
    pub(super) const fn slot(&self, level: u32) -> u32 {
        (level >> self.shift) - self.lowest
    }

    /// Replaces each sample with its slot counted from `first`; no slot is below `first`.
    pub(super) fn replace(&self, samples: &mut [S], first: u32) {
        #[inline(always)]
        fn portable<S: Level>(samples: &mut [S], shift: u32, lowest: S) {
            for sample in samples {
                *sample = S::from_level(sample.level() as u32 >> shift).minus(lowest);
            }
        }
        let (shift, lowest) = (self.shift, self.lowest + first);
        if (shift, lowest) != (0, 0) {
            simd::vectorized!(portable(samples, shift, S::from_level(lowest)));
        }
    }

    /// Replaces the slots of each run of equal levels by its first slot.
    pub(super) fn join(&self, slots: &mut [S]) {
        for equal in &self.equal {
            let [first, last] = [equal.start, equal.end - 1].map(S::from_level);
            for slot in slots.iter_mut().filter(|slot| (first..=last).contains(*slot)) {
                *slot = first;
            }
        }
    }

    /// Moves the counts of each run of equal levels to its first slot.
    ///
    /// Returns the range of slots with counts; `counted` is the range before.
    pub(super) fn join_counts(&self, tally: &mut Tally, counted: Interval) -> Interval {
        let mut joined = counted;
        for equal in &self.equal {
            let from = equal.start.max(counted.lowest)..equal.end.min(counted.highest + 1);
            if !from.is_empty() {
                tally.join(from.start as usize..from.end as usize, equal.start as usize);
                joined.lowest = joined.lowest.min(equal.start);
            }
        }
        joined
    }

    /// Exposes the levels of the slots.
    ///
    /// The slots must be set before.
    pub(super) fn expose(&mut self, table: &[S]) {
        self.levels.iter_mut().for_each(|level| *level = table[level.level()]);
        let mut first = 0;
        for equal in self.levels.chunk_by(|a, b| a == b) {
            let run = first..first + equal.len() as u32;
            first = run.end;
            if equal.len() > 1 {
                self.equal.push(run);
            }
        }
    }

    /// Makes every level its own slot.
    pub(super) fn set_all(&mut self) {
        self.set(0, Interval { lowest: 0, highest: S::LEVELS as u32 - 1 }, 0);
    }

    /// Makes the slots of a range of levels.
    ///
    /// `low_bits` are the bits below `shift` of the levels that occur.
    fn set(&mut self, shift: u32, range: Interval, low_bits: u32) {
        (self.shift, self.lowest) = (shift, range.lowest >> shift);
        let levels = (self.lowest..(range.highest >> shift) + 1).map(|slot| slot << shift | low_bits);
        self.equal.clear();
        self.levels.clear();
        self.levels.reserve_exact(levels.len());
        self.levels.extend(levels.map(S::from_level));
    }

    /// Makes the slots of the levels that occur.
    ///
    /// `occurs` has an entry for every level. At least one must occur.
    pub(super) fn set_occurring(&mut self, occurs: &[bool]) {
        let occurring = || (0_u32..).zip(occurs).filter(|&(_, &occurs)| occurs).map(|(level, _)| level);
        // Neighbours remain distinct as long as their highest different bit stays.
        let shift = occurring().zip(occurring().skip(1)).map(|(level, next)| (level ^ next).ilog2()).min();
        let lowest = occurring().next().unwrap_or(0);
        let highest = occurring().last().unwrap_or(0);
        self.set(shift.unwrap_or(0), Interval { lowest, highest }, 0);
        for level in occurring() {
            let slot = self.slot(level);
            self.levels[slot as usize] = S::from_level(level);
        }
    }

    /// Makes the slots of a plane from the summary of its levels.
    pub(super) fn set_seen<E: Executor>(
        &mut self,
        seen: &Seen,
        plane: &PaddedPlane<'_, S>,
        threads: &mut Pool<Thread<S>>,
        team: &Team<'_, E>,
    ) {
        let shift = seen.same_bits();
        self.set(shift, seen.range, seen.range.lowest & ((1 << shift) - 1));
        if shift == 0
            && self.levels.len() > MANY
            && let Some(occurs) = occurring(plane, threads, team)
        {
            self.set_occurring(&occurs);
        }
    }
}

/// Returns for every level whether it occurs; `None` as soon as two levels leave no bit out.
fn occurring<S: Sample, E: Executor>(
    plane: &PaddedPlane<'_, S>,
    threads: &mut Pool<Thread<S>>,
    team: &Team<'_, E>,
) -> Option<Vec<bool>> {
    let (width, height) = (plane.shape.width, plane.shape.height);
    let at_once = (GLANCE / width).max(1);
    let hopeless = AtomicBool::new(false);
    let glance = |from: usize| {
        if hopeless.load(Ordering::Relaxed) {
            return;
        }
        threads.with(|Thread { rows, occurs, .. }| {
            for y in from..(from + at_once).min(height) {
                mark(plane.values(y, 0..width, &mut rows.before), occurs);
            }
            let (pairs, _) = occurs.as_chunks::<2>();
            hopeless.fetch_or(pairs.iter().any(|pair| pair[0] & pair[1]), Ordering::Relaxed);
        });
    };
    // Mostly one glance is enough to find that no bit can be left out.
    glance(0);
    team.for_each((at_once..height).step_by(at_once).collect(), glance);
    let occurs = marked(threads);
    (!hopeless.into_inner()).then_some(occurs)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(occurring: impl IntoIterator<Item = u16>) -> Slots<u16> {
        let (mut slots, mut occurs) = (Slots::default(), vec![false; 65_536]);
        occurring.into_iter().for_each(|level| occurs[usize::from(level)] = true);
        slots.set_occurring(&occurs);
        slots
    }

    fn assert_slots(levels: &[u16], shift: u32, number: usize) {
        let slots = of(levels.iter().copied());
        assert_eq!((slots.shift, slots.levels().len()), (shift, number));
        for &level in levels {
            assert_eq!(slots.levels()[slots.slot(u32::from(level)) as usize], level);
        }
        let mut replaced = levels.to_vec();
        slots.replace(&mut replaced, 0);
        assert!(replaced.iter().zip(levels).all(|(&slot, &level)| slots.slot(level.into()) == slot.into()));
    }

    #[test]
    fn as_many_bits_are_left_out_as_keep_levels_apart() {
        let twelve_bits: Vec<u16> = (0..4096).collect();
        assert_slots(&twelve_bits, 0, 4096);
        assert_slots(&twelve_bits.iter().map(|level| level << 4).collect::<Vec<_>>(), 4, 4096);
        assert_slots(&twelve_bits.iter().map(|level| level << 4 | level >> 8).collect::<Vec<_>>(), 4, 4096);
        assert_slots(
            &twelve_bits
                .iter()
                .map(|&level| (f64::from(level) * 65_535.0 / 4095.0) as u16)
                .collect::<Vec<_>>(),
            4,
            4096,
        );
        assert_slots(&[700], 0, 1);
        assert_slots(&[0, 65_535], 15, 2);
        assert_slots(&[1000, 1001, 1500], 0, 501);
    }
}
