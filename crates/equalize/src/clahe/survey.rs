//! The levels that occur in each part of a plane, found before its tiles are counted.
//!
//! The pixels between the same four tiles are a place. Each tile's LUT is needed only for the
//! levels of the places around it, which in most pictures are a small part of all.

use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use super::Thread;
use super::plane::PaddedPlane;
use super::tiles::{Axes, Axis, Geometry, Run, group};
use crate::executor::{Executor, Pool, Team};
use crate::level::Level;
use crate::sample::Sample;
use crate::simd;

/// A range of levels, or of slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Interval {
    pub(super) lowest: u32,
    pub(super) highest: u32,
}

impl Interval {
    /// The empty range.
    pub(super) const EMPTY: Self = Self { lowest: u32::MAX, highest: 0 };

    /// Returns the range of some samples.
    pub(super) fn of<S: Level>(samples: &[S]) -> Self {
        simd::vectorized!(Seen::in_samples(samples).range)
    }

    /// Returns the smallest range that holds both.
    pub(super) fn with(self, other: Self) -> Self {
        Self { lowest: self.lowest.min(other.lowest), highest: self.highest.max(other.highest) }
    }

    /// Returns the number of levels from its lowest to its highest.
    pub(super) const fn length(self) -> usize {
        if self.lowest > self.highest { 0 } else { (self.highest - self.lowest + 1) as usize }
    }
}

/// The levels of some samples, in summary.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seen {
    pub(super) range: Interval,
    /// The bits that are 1 in some level.
    ones: u32,
    /// The bits that are 0 in some level.
    zeros: u32,
}

impl Seen {
    const NOTHING: Self = Self { range: Interval::EMPTY, ones: 0, zeros: 0 };

    #[inline(always)]
    fn in_samples<S: Level>(samples: &[S]) -> Self {
        // Several at a time, for the compiler to vectorize; then fewer, because rows of small tiles
        // are shorter.
        let (wide, rest) = samples.as_chunks::<64>();
        let (narrow, rest) = rest.as_chunks::<16>();
        let (single, _) = rest.as_chunks::<1>();
        Self::in_groups(wide).with(Self::in_groups(narrow)).with(Self::in_groups(single))
    }

    #[inline(always)]
    fn in_groups<S: Level, const LANES: usize>(groups: &[[S; LANES]]) -> Self {
        let Some(first) = groups.first() else { return Self::NOTHING };
        let [mut lowest, mut highest, mut some, mut all] = [*first; 4];
        for group in groups {
            for (at, &sample) in group.iter().enumerate() {
                lowest[at] = lowest[at].min(sample);
                highest[at] = highest[at].max(sample);
                some[at] = some[at] | sample;
                all[at] = all[at] & sample;
            }
        }
        let (any, level) = (first[0], |sample: S| sample.level() as u32);
        Self {
            range: Interval {
                lowest: level(lowest.into_iter().fold(any, S::min)),
                highest: level(highest.into_iter().fold(any, S::max)),
            },
            ones: level(some.into_iter().fold(any, |some, sample| some | sample)),
            zeros: !level(all.into_iter().fold(any, |all, sample| all & sample)),
        }
    }

    fn with(self, other: Self) -> Self {
        Self {
            range: self.range.with(other.range),
            ones: self.ones | other.ones,
            zeros: self.zeros | other.zeros,
        }
    }

    /// Returns the number of lowest bits that are the same in all levels.
    pub(super) const fn same_bits(&self) -> u32 {
        match self.ones & self.zeros {
            0 => 0,
            different => different.trailing_zeros(),
        }
    }
}

/// The levels of a plane's places.
#[derive(Default)]
pub(super) struct Survey {
    /// The range of each place, row by row; [`Survey::in_slots`] turns levels into slots.
    places: Vec<Interval>,
    /// The range of each tile's LUT, in the same way.
    tiles: Vec<Interval>,
}

impl Survey {
    /// Returns the bytes that the survey grows to.
    pub(super) fn bytes(tiles: &Geometry) -> usize {
        ((tiles.columns + 1) * (tiles.rows + 1) + tiles.columns * tiles.rows) * size_of::<Interval>()
    }

    /// Returns the bytes that the survey takes.
    #[cfg(test)]
    pub(super) fn bytes_taken(&self) -> usize {
        (self.places.capacity() + self.tiles.capacity()) * size_of::<Interval>()
    }

    /// Looks at a plane, and returns the summary of its levels.
    ///
    /// With `occurs`, the threads also note for every level whether it occurs.
    pub(super) fn look<S: Sample, E: Executor>(
        &mut self,
        plane: &PaddedPlane<'_, S>,
        axes: &Axes,
        occurs: bool,
        threads: &Pool<Thread<S>>,
        team: &Team<'_, E>,
    ) -> Seen {
        self.assume(Interval::EMPTY, axes);
        let Axes { across, down } = axes;
        let pixels = team.piece(plane.shape.width * plane.shape.height);
        let mut parts = Vec::new();
        for (band, mut rest) in down.runs.iter().zip(self.places.chunks_exact_mut(across.runs.len())) {
            for runs in group(&across.runs, pixels / band.pixels.len()) {
                let places = rest.split_off_mut(..runs.len()).unwrap_or_default();
                parts.push(Part { rows: band.pixels.clone(), runs: &across.runs[runs], places });
            }
        }
        let all = Mutex::new(Seen::NOTHING);
        team.for_each(parts, |part| {
            let seen = threads.with(|thread| part.look(plane, occurs, thread));
            let mut all = all.lock().unwrap_or_else(PoisonError::into_inner);
            *all = all.with(seen);
        });
        all.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives every place this range, without looking.
    pub(super) fn assume(&mut self, range: Interval, Axes { across, down }: &Axes) {
        self.places.clear();
        self.places.reserve_exact(across.runs.len() * down.runs.len());
        self.places.resize(across.runs.len() * down.runs.len(), range);
    }

    /// Translates all levels into slots, and finds the range of each tile's LUT.
    pub(super) fn in_slots(
        &mut self,
        tiles: &Geometry,
        Axes { across, down }: &Axes,
        slot: impl Fn(u32) -> u32,
    ) {
        for place in &mut self.places {
            *place = Interval { lowest: slot(place.lowest), highest: slot(place.highest) };
        }
        self.tiles.clear();
        self.tiles.reserve_exact(tiles.columns * tiles.rows);
        self.tiles.resize(tiles.columns * tiles.rows, Interval::EMPTY);
        for (band, places) in down.runs.iter().zip(self.places.chunks_exact(across.runs.len())) {
            for row in [band.first, band.second] {
                let tiles = &mut self.tiles[row * tiles.columns..][..tiles.columns];
                for (run, &place) in across.runs.iter().zip(places) {
                    for column in [run.first, run.second] {
                        tiles[column] = tiles[column].with(place);
                    }
                }
            }
        }
    }

    /// Returns the slots of the places of a band.
    pub(super) fn places(&self, band: usize, across: &Axis) -> &[Interval] {
        &self.places[band * across.runs.len()..][..across.runs.len()]
    }

    /// Returns the slots that the LUTs of a row of tiles need.
    pub(super) fn tiles(&self, row: usize, tiles: &Geometry) -> &[Interval] {
        &self.tiles[row * tiles.columns..][..tiles.columns]
    }

    /// Returns the most entries of the LUTs of a row of tiles.
    pub(super) fn most_entries(&self, tiles: &Geometry) -> usize {
        let entries = |row: &[Interval]| row.iter().map(|tile| tile.length()).sum();
        self.tiles.chunks_exact(tiles.columns).map(entries).max().unwrap_or(0)
    }
}

/// Neighbouring places, in some rows of pixels.
struct Part<'p> {
    rows: Range<usize>,
    runs: &'p [Run],
    places: &'p mut [Interval],
}

impl Part<'_> {
    fn look<S: Sample>(self, plane: &PaddedPlane<'_, S>, occurs: bool, thread: &mut Thread<S>) -> Seen {
        let Self { rows, runs, places } = self;
        let start = runs[0].pixels.start;
        let columns = start..runs[runs.len() - 1].pixels.end;
        let mut all = Seen::NOTHING;
        for y in rows {
            let values = plane.values(y, columns.clone(), &mut thread.rows.before);
            if occurs {
                mark(values, &mut thread.occurs);
            }
            for (place, run) in places.iter_mut().zip(runs) {
                let values = &values[run.pixels.start - start..run.pixels.end - start];
                let seen = simd::vectorized!(Seen::in_samples(values));
                *place = place.with(seen.range);
                all = all.with(seen);
            }
        }
        all
    }
}

/// Notes which levels occur: one entry per level, or an empty list before the first call.
pub(super) fn mark<S: Sample>(values: &[S], occurs: &mut Vec<bool>) {
    occurs.resize(S::LEVELS, false);
    values.iter().for_each(|value| occurs[value.level()] = true);
}

/// Returns for every level whether a thread noted it, and clears the threads' notes.
pub(super) fn marked<S: Sample>(threads: &mut Pool<Thread<S>>) -> Vec<bool> {
    let mut all = vec![false; S::LEVELS];
    for thread in threads.all() {
        all.iter_mut().zip(&thread.occurs).for_each(|(any, &occurs)| *any |= occurs);
        thread.occurs.clear();
    }
    all
}
