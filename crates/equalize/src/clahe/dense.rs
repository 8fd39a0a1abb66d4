//! CLAHE of large tiles: every tile has a LUT.
//!
//! Blocks of pixels whose tables stay in cache are done one after another. Where many pixels lie between the same four tiles, the entries
//! of the four LUTs are first put side by side, so that one load finds a pixel's four.

use super::bands::{Band, Task, TileRows};
use super::plane::{PaddedPlane, fit};
use super::survey::Interval;
use super::tiles::{Geometry, Run};
use crate::clip::Count;
use crate::histogram::Tally;
use crate::portable::{self, Corners, Quad, quantize};
use crate::sample::Sample;
use crate::simd;

/// Bytes of tables that the pixels of a block are looked up in, unless those between the same four tiles have larger ones.
const BLOCK_BYTES: usize = 512 << 10;

/// Tables are put side by side if they have fewer entries than this many times the pixels between them.
const WORTH_PACKING: usize = 4;

/// Entries of a LUT that are made at a time.
const STEP: usize = 256;

/// The LUTs of a row of tiles, one after another.
struct LutRow<S> {
    entries: Vec<S>,
    /// For each tile, where its LUT begins, and the slots that it has entries for.
    tiles: Vec<(usize, Interval)>,
}

impl<S> Default for LutRow<S> {
    fn default() -> Self {
        Self { entries: Vec::new(), tiles: Vec::new() }
    }
}

impl<S> LutRow<S> {
    /// Returns the entries of some of a tile's slots.
    fn lut(&self, column: usize, slots: Interval) -> &[S] {
        let (start, has) = self.tiles[column];
        &self.entries[start + (slots.lowest - has.lowest) as usize..][..slots.length()]
    }
}

/// The buffers that are reused from picture to picture.
pub(super) struct Luts<S> {
    /// Two rows of tiles; row `j` is in half `j % 2`.
    rows: [LutRow<S>; 2],
    /// For each place in a block, the entries of its four tiles side by side.
    quads: Vec<Quad>,
}

impl<S> Default for Luts<S> {
    fn default() -> Self {
        Self { rows: Default::default(), quads: Vec::new() }
    }
}

impl<S: Sample> Luts<S> {
    /// Bytes that they grow to if no row of tiles has more entries than these.
    pub(super) fn bytes_for(tiles: &Geometry, entries: usize) -> usize {
        let quads = if S::QUADS { BLOCK_BYTES.max(S::LEVELS * size_of::<Quad>()) } else { 0 };
        let places = (tiles.columns + 1) * size_of::<Place<'_, S>>();
        2 * (entries * size_of::<S>() + tiles.columns * size_of::<(usize, Interval)>()) + places + quads
    }

    /// Bytes that they take.
    pub(super) fn bytes(&self) -> usize {
        let row = |row: &LutRow<S>| {
            row.entries.capacity() * size_of::<S>() + row.tiles.capacity() * size_of::<(usize, Interval)>()
        };
        self.rows.iter().map(row).sum::<usize>() + self.quads.capacity() * size_of::<Quad>()
    }
}

/// The LUTs, and what counts the tiles.
pub(super) struct Dense<'a, S>(pub(super) &'a mut Luts<S>, pub(super) &'a mut Tally);

impl<S: Sample> TileRows<S> for Dense<'_, S> {
    fn count(&mut self, task: &Task<'_, S>, plane: &mut PaddedPlane<'_, S>, row: usize) {
        let Self(luts, tally) = self;
        let LutRow { entries, tiles } = &mut luts.rows[row % 2];
        let needed = task.survey.tiles(row, &task.tiles);
        tiles.clear();
        tiles.reserve_exact(needed.len());
        let mut end = 0;
        for &slots in needed {
            tiles.push((end, slots));
            end += slots.length();
        }
        fit(entries, end);
        let mut rest = &mut entries[..];
        for (column, slots) in needed.iter().enumerate() {
            let counted = count_tile(task, plane, (row, column), tally);
            let (lut, later) = rest.split_at_mut(slots.length());
            rest = later;
            if task.tiles.area() <= i32::MAX as u64 {
                simd::vectorized!(fill_lut::<S, u32>(tally, task, counted, *slots, lut));
            } else {
                simd::vectorized!(fill_lut::<S, u64>(tally, task, counted, *slots, lut));
            }
            tally.clear_range(counted.lowest as usize..counted.highest as usize + 1);
        }
    }

    fn equalize(&mut self, task: &Task<'_, S>, plane: &mut PaddedPlane<'_, S>, band: &Band<'_>) {
        let Self(Luts { rows, quads }, _) = self;
        let places: Vec<_> = task
            .across
            .runs
            .iter()
            .zip(task.survey.places(band.number, task.across))
            .map(|(run, &slots)| {
                let [top, bottom] = [band.run.first, band.run.second]
                    .map(|row| [run.first, run.second].map(|column| rows[row % 2].lut(column, slots)));
                Place { run, slots, corners: Corners { top, bottom } }
            })
            .collect();
        let mut rest = &places[..];
        while !rest.is_empty() {
            let (block, later) = rest.split_at(places_in_block(rest));
            rest = later;
            equalize_block(task, plane, band.run, block, quads);
        }
    }
}

/// The pixels of a band between the same four tiles, and the entries for their slots.
struct Place<'a, S> {
    run: &'a Run,
    slots: Interval,
    corners: Corners<'a, S>,
}

impl<S: Sample> Place<'_, S> {
    /// Returns whether it pays to put the entries side by side for `rows` rows of pixels.
    fn is_worth_packing(&self, rows: usize) -> bool {
        S::QUADS && self.run.pixels.len() * rows * WORTH_PACKING > self.slots.length()
    }
}

/// Returns how many of these places, at least one, have tables that stay in cache together.
fn places_in_block<S>(places: &[Place<'_, S>]) -> usize {
    let mut bytes = 0;
    let fit = places.iter().take_while(|place| {
        bytes += place.slots.length() * size_of::<Quad>();
        bytes <= BLOCK_BYTES
    });
    fit.count().max(1)
}

/// Counts the slots of a tile, and returns their range.
fn count_tile<S: Sample>(
    task: &Task<'_, S>,
    plane: &mut PaddedPlane<'_, S>,
    (row, column): (usize, usize),
    tally: &mut Tally,
) -> Interval {
    let Geometry { tile_width, tile_height, .. } = task.tiles;
    let across = column * tile_width..(column + 1) * tile_width;
    let mut counted = Interval::EMPTY;
    for y in row * tile_height..(row + 1) * tile_height {
        if task.slots.are_levels() {
            let values = plane.values(y, across.clone());
            counted = counted.with(Interval::of(values));
            tally.add(values);
        } else {
            let values = plane.copy(y, across.clone());
            task.slots.replace(values, 0);
            counted = counted.with(Interval::of(values));
            tally.add(values);
        }
    }
    counted
}

/// Equalizes the pixels of some neighbouring places.
fn equalize_block<S: Sample>(
    task: &Task<'_, S>,
    plane: &mut PaddedPlane<'_, S>,
    band: &Run,
    places: &[Place<'_, S>],
    quads: &mut Vec<Quad>,
) {
    let rows = band.pixels.len();
    quads.clear();
    for place in places.iter().filter(|place| place.is_worth_packing(rows)) {
        let packed = quads.len();
        fit(quads, packed + place.slots.length());
        simd::vectorized!(portable::pack(&place.corners, &mut quads[packed..]));
    }
    let start = places[0].run.pixels.start;
    let pixels = start..places[places.len() - 1].run.pixels.end;
    for y in band.pixels.clone() {
        let below = task.down.weights[y];
        plane.change(y, pixels.clone(), task.strength, |values| {
            let mut quads = &quads[..];
            for place in places {
                let values = &mut values[place.run.pixels.start - start..place.run.pixels.end - start];
                let weights = &task.across.weights[place.run.pixels.clone()];
                task.slots.replace(values, place.slots.lowest);
                if place.is_worth_packing(rows) {
                    let (own, later) = quads.split_at(place.slots.length());
                    quads = later;
                    S::blend_quads(values, own, weights, below);
                } else {
                    S::blend(values, &place.corners, weights, below);
                }
            }
        });
    }
}

/// Makes the LUT of a tile for some of its slots from its counts: clips them, spreads the excess, and scales the running sum.
#[inline(always)]
fn fill_lut<S: Sample, C: Count>(
    tally: &Tally,
    task: &Task<'_, S>,
    counted: Interval,
    slots: Interval,
    lut: &mut [S],
) {
    let clip = C::at_most(task.clipping.most.unwrap_or(u64::MAX));
    let mut counts = [C::ZERO; STEP];
    let (mut excess, mut running) = (0, C::ZERO);
    let mut first = counted.lowest as usize;
    while first <= counted.highest as usize {
        let end = (first + STEP).min(counted.highest as usize + 1);
        let counts = tally.sum(first..end, &mut counts);
        let mut cut = C::ZERO;
        counts.iter().for_each(|&count| cut = cut + (count - count.min(clip)));
        excess += cut.into();
        first = end;
    }
    // Only in the padding are there levels below those that the LUT is needed for.
    for slot in counted.lowest..slots.lowest.min(counted.highest + 1) {
        running = running + tally.sum(slot as usize..slot as usize + 1, &mut counts)[0].min(clip);
    }
    let spread = task.clipping.spread(excess);
    let levels = &task.slots.levels()[slots.lowest as usize..];
    let starts = (slots.lowest as usize..).step_by(STEP);
    for ((entries, levels), first) in lut.chunks_mut(STEP).zip(levels.chunks(STEP)).zip(starts) {
        let counts = tally.sum(first..first + entries.len(), &mut counts);
        for count in &mut *counts {
            running = running + (*count).min(clip);
            *count = running;
        }
        for ((entry, &mut sum), level) in entries.iter_mut().zip(counts).zip(levels) {
            *entry = quantize((sum + spread.up_to::<C>(level.level() as u32)).to_float() * task.tiles.scale);
        }
    }
}
