//! CLAHE of large tiles: every tile has a LUT.
//!
//! Blocks of pixels with tables that stay in cache are processed one after another. Where many
//! pixels lie between the same four tiles, the entries of the four LUTs are first packed into
//! quads, for one load per pixel.

use std::ops::Range;

use super::STEP;
use super::Thread;
use super::bands::{Block, Cut, Task, TileRow};
use super::plane::{PaddedPlane, fit};
use super::survey::Interval;
use super::tiles::{Geometry, Run, group};
use crate::clip::Count;
use crate::histogram::Tally;
use crate::portable::{self, Corners, Quad, quantize};
use crate::sample::Sample;
use crate::simd;

/// Bytes of tables in which the pixels of a block are looked up.
///
/// Larger tables of the same four tiles are an exception.
const BLOCK_BYTES: usize = 512 << 10;

/// Tables are packed if they have fewer entries than this many times the pixels between them.
const WORTH_PACKING: usize = 4;

/// Pixels for each table entry above which the cost of packing it once more hardly matters.
const PIXELS_A_PACKED_ENTRY: usize = 32;

/// The LUTs of a row of tiles.
pub(super) struct LutRow<S> {
    /// The LUTs, one after another.
    entries: Vec<S>,
    /// For each tile, the start of its LUT and the range of its slots.
    tiles: Vec<(usize, Interval)>,
}

impl<S> Default for LutRow<S> {
    fn default() -> Self {
        Self { entries: Vec::new(), tiles: Vec::new() }
    }
}

impl<S: Sample> LutRow<S> {
    /// Returns the bytes that a row of so many entries grows to.
    pub(super) fn bytes_for(tiles: &Geometry, entries: usize) -> usize {
        entries * size_of::<S>() + tiles.columns * size_of::<(usize, Interval)>()
    }

    /// Returns the bytes that the row takes.
    pub(super) fn bytes(&self) -> usize {
        self.entries.capacity() * size_of::<S>() + self.tiles.capacity() * size_of::<(usize, Interval)>()
    }

    /// Returns the entries of some of a tile's slots.
    fn lut(&self, column: usize, slots: Interval) -> &[S] {
        let (start, has) = self.tiles[column];
        &self.entries[start + (slots.lowest - has.lowest) as usize..][..slots.length()]
    }
}

/// Returns the bytes that the packed tables of a thread, and its list of places, grow to.
pub(super) fn packed_bytes<S: Sample>(tiles: &Geometry) -> usize {
    let quads = if S::QUADS { BLOCK_BYTES.max(S::LEVELS * size_of::<Quad>()) } else { 0 };
    (tiles.columns + 1) * size_of::<Place<'_, S>>() + quads
}

/// Neighbouring tiles of a row, and the memory for their LUTs.
pub(super) struct Part<'t, S> {
    row: usize,
    columns: Range<usize>,
    entries: &'t mut [S],
}

impl<S: Sample> TileRow<S> for LutRow<S> {
    type Part<'t> = Part<'t, S>;

    fn most_bytes(task: &Task<'_, S>) -> usize {
        Self::bytes_for(&task.tiles, task.survey.most_entries(&task.tiles))
    }

    fn parts<'t>(&'t mut self, task: &Task<'_, S>, row: usize, pixels: usize) -> Vec<Part<'t, S>> {
        let needed = task.survey.tiles(row, &task.tiles);
        self.tiles.clear();
        self.tiles.reserve_exact(needed.len());
        let mut end = 0;
        for &slots in needed {
            self.tiles.push((end, slots));
            end += slots.length();
        }
        let mut rest = fit(&mut self.entries, end);
        let at_once = (pixels / task.tiles.area() as usize).max(1);
        let mut parts = Vec::with_capacity(needed.len().div_ceil(at_once));
        for first in (0..needed.len()).step_by(at_once) {
            let columns = first..(first + at_once).min(needed.len());
            let length = needed[columns.clone()].iter().map(|slots| slots.length()).sum();
            let entries = rest.split_off_mut(..length).unwrap_or_default();
            parts.push(Part { row, columns, entries });
        }
        parts
    }

    fn count(part: Part<'_, S>, task: &Task<'_, S>, plane: &PaddedPlane<'_, S>, thread: &mut Thread<S>) {
        let Part { row, columns, entries: mut rest } = part;
        let needed = task.survey.tiles(row, &task.tiles);
        let Thread { tally, rows, .. } = thread;
        let tally = tally.get_or_insert_with(|| Tally::new(S::LEVELS));
        for column in columns {
            let slots = needed[column];
            let counted = count_tile(task, plane, row, column, &mut rows.before, tally);
            let counted = task.slots.join_counts(tally, counted);
            let lut = rest.split_off_mut(..slots.length()).unwrap_or_default();
            if task.tiles.area() <= i32::MAX as u64 {
                simd::vectorized!(fill_lut::<S, u32>(tally, task, counted, slots, lut));
            } else {
                simd::vectorized!(fill_lut::<S, u64>(tally, task, counted, slots, lut));
            }
            tally.clear_range(counted.lowest as usize..counted.highest as usize + 1);
        }
    }

    fn cut(task: &Task<'_, S>, band: usize, pixels: usize) -> Cut {
        let rows = task.axes.down.runs[band].pixels.len();
        let places = task.survey.places(band, &task.axes.across);
        let mut runs = Vec::new();
        for columns in group(&task.axes.across.runs, pixels / rows) {
            let mut first = columns.start;
            while first < columns.end {
                let end = first + places_in_block(&places[first..columns.end]);
                runs.push(first..end);
                first = end;
            }
        }
        let widest = runs.iter().map(|runs| task.columns(runs).len()).max().unwrap_or(1);
        let repaid = task
            .axes
            .across
            .runs
            .iter()
            .zip(places)
            .map(|(run, slots)| slots.length() * PIXELS_A_PACKED_ENTRY / run.pixels.len());
        let least = if S::QUADS { repaid.max().unwrap_or(1) } else { 1 };
        Cut { rows: (pixels / widest).max(least).clamp(1, rows), runs }
    }

    fn equalize(
        [above, below]: [&Self; 2],
        task: &Task<'_, S>,
        block: &mut Block<'_, S>,
        thread: &mut Thread<S>,
    ) {
        let places = task.survey.places(block.band, &task.axes.across);
        let places = task.axes.across.runs.iter().zip(places).take(block.runs.end).skip(block.runs.start);
        let places: Vec<_> = places
            .map(|(run, &slots)| {
                let corners =
                    [above, below].map(|row| [run.first, run.second].map(|column| row.lut(column, slots)));
                let [top, bottom] = corners;
                Place { run, slots, corners: Corners { top, bottom } }
            })
            .collect();
        equalize_block(task, block, &places, thread);
    }
}

/// The pixels of a band between the same four tiles, and the entries for their slots.
struct Place<'a, S> {
    run: &'a Run,
    slots: Interval,
    corners: Corners<'a, S>,
}

impl<S: Sample> Place<'_, S> {
    /// Returns whether packing the entries pays off for `rows` rows of pixels.
    fn is_worth_packing(&self, rows: usize) -> bool {
        S::QUADS && self.run.pixels.len() * rows * WORTH_PACKING > self.slots.length()
    }
}

/// Returns how many of these places, at least one, have tables that stay in cache together.
fn places_in_block(places: &[Interval]) -> usize {
    let mut bytes = 0;
    let fit = places.iter().take_while(|slots| {
        bytes += slots.length() * size_of::<Quad>();
        bytes <= BLOCK_BYTES
    });
    fit.count().max(1)
}

/// Counts the slots of a tile, and returns their range.
fn count_tile<S: Sample>(
    task: &Task<'_, S>,
    plane: &PaddedPlane<'_, S>,
    row: usize,
    column: usize,
    buffer: &mut Vec<S>,
    tally: &mut Tally,
) -> Interval {
    let Geometry { tile_width, tile_height, .. } = task.tiles;
    let across = column * tile_width..(column + 1) * tile_width;
    let mut counted = Interval::EMPTY;
    for y in row * tile_height..(row + 1) * tile_height {
        if task.slots.are_levels() {
            let values = plane.values(y, across.clone(), buffer);
            counted = counted.with(Interval::of(values));
            tally.add(values);
        } else {
            let values = plane.copy(y, across.clone(), buffer);
            task.slots.replace(values, 0);
            counted = counted.with(Interval::of(values));
            tally.add(values);
        }
    }
    counted
}

/// Equalizes a block with these places.
fn equalize_block<S: Sample>(
    task: &Task<'_, S>,
    block: &mut Block<'_, S>,
    places: &[Place<'_, S>],
    thread: &mut Thread<S>,
) {
    let Thread { rows, quads, .. } = thread;
    let height = block.rows().len();
    let packed = || places.iter().filter(|place| place.is_worth_packing(height));
    let quads = fit(quads, packed().map(|place| place.slots.length()).sum());
    let mut rest = &mut *quads;
    for place in packed() {
        let own = rest.split_off_mut(..place.slots.length()).unwrap_or_default();
        simd::vectorized!(portable::pack(&place.corners, own));
    }
    let columns = task.columns(&block.runs);
    for y in block.rows() {
        let below = task.axes.down.weights[y];
        block.change(task, y, columns.clone(), rows, |values| {
            let mut quads = &*quads;
            for place in places {
                let run = &place.run.pixels;
                let values = &mut values[run.start - columns.start..run.end - columns.start];
                let weights = &task.axes.across.weights[run.clone()];
                task.slots.replace(values, place.slots.lowest);
                if place.is_worth_packing(height) {
                    let own = quads.split_off(..place.slots.length()).unwrap_or_default();
                    S::blend_quads(values, own, weights, below);
                } else {
                    S::blend(values, &place.corners, weights, below);
                }
            }
        });
    }
}

/// Makes the LUT of a tile, for some of its slots, from its counts.
///
/// Clips them, spreads the excess, and scales the running sum.
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
    // Levels below the LUT's first occur only in the padding.
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
    if task.clipping.full_span > 0 {
        weaken(tally, task, counted, levels, lut);
    }
}

/// Weakens the LUT of a tile if the tile spans few levels.
///
/// `levels` are the levels of the LUT's entries.
fn weaken<S: Sample>(tally: &Tally, task: &Task<'_, S>, counted: Interval, levels: &[S], lut: &mut [S]) {
    let slots = counted.lowest as usize..counted.highest as usize + 1;
    let counts = slots.map(|slot| {
        let level = task.slots.levels()[slot].level() as u32;
        (level, tally.sum::<u64>(slot..slot + 1, &mut [0])[0])
    });
    task.clipping.strength(task.tiles.area(), counts).weaken(levels, lut);
}
