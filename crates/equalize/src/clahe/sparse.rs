//! CLAHE of small tiles, with fewer pixels than a LUT has entries.
//!
//! Its time grows with the pixels alone. Instead of a LUT each tile has the slots that occur in it,
//! in ascending order, and the running sum at each. The sum at any other slot is that of the next
//! lower one, and the share of the excess has a closed form. A slot is found in its bucket of a few
//! neighbours, all compared at once.

use super::Thread;
use super::bands::{Block, Cut, Task, TileRow};
use super::plane::PaddedPlane;
use super::slots::Slots;
use super::tiles::{Geometry, Weights};
use crate::clip::{Clipping, Spread};
use crate::level::Level;
use crate::portable::{interpolate, quantize};
use crate::sample::Sample;
use crate::simd::{self, WINDOW};
use crate::strength::Strength;

/// Bytes of the lists of a row of tiles in which the pixels of a block are looked up.
const BLOCK_BYTES: usize = 16 << 10;

/// The average number of slots of a bucket, if they are spread evenly.
const BUCKET: usize = 8;

/// A tile, and the start of its part of each list.
#[derive(Debug)]
struct Tile {
    /// Start in the lists of slots and of sums.
    start: usize,
    /// The number of slots that occur.
    slots: usize,
    /// Start in the list of buckets.
    buckets: usize,
    /// The number of its last bucket.
    last_bucket: usize,
    /// The lowest slot that occurs.
    lowest: usize,
    /// The shift from a slot, counted from the lowest, to its bucket.
    shift: u32,
    spread: Spread,
    /// The strength of its entries.
    strength: Strength,
}

impl Tile {
    /// Returns the entry that a LUT would have for a level with this running sum.
    #[inline(always)]
    fn entry<S: Level>(&self, sum: u16, level: u32, scale: f32) -> f32 {
        let sum = u32::from(sum) + self.spread.up_to::<u32>(level);
        let entry = quantize::<S>(sum as i32 as f32 * scale).level() as u32;
        let entry = if self.strength == Strength::FULL { entry } else { self.strength.between(level, entry) };
        entry as i32 as f32
    }
}

/// The lists of a row of tiles.
///
/// The tiles are so small that 16 bits suffice for counts.
#[derive(Debug)]
pub(super) struct SlotRow<S> {
    tiles: Vec<Tile>,
    /// The slots that occur, tile by tile.
    ///
    /// Each tile's slots are followed by enough copies of the highest for comparisons to run over
    /// the end.
    slots: Vec<S>,
    /// The sum of the counts below each slot, and below the end.
    sums: Vec<u16>,
    /// The number of the tile's slots in lower buckets.
    buckets: Vec<u16>,
}

impl<S> Default for SlotRow<S> {
    fn default() -> Self {
        Self { tiles: Vec::new(), slots: Vec::new(), sums: Vec::new(), buckets: Vec::new() }
    }
}

/// The pixels of a tile, and room to sort them: the buffers of a thread.
pub(super) struct Sorting<S> {
    values: Vec<S>,
    spare: Vec<S>,
}

impl<S> Default for Sorting<S> {
    fn default() -> Self {
        Self { values: Vec::new(), spare: Vec::new() }
    }
}

impl<S> Sorting<S> {
    /// Returns the bytes that the buffers grow to.
    pub(super) fn bytes_for(tiles: &Geometry) -> usize {
        2 * tiles.tile_width * tiles.tile_height * size_of::<S>()
    }

    /// Returns the bytes that the buffers take.
    #[cfg(test)]
    pub(super) fn bytes(&self) -> usize {
        (self.values.capacity() + self.spare.capacity()) * size_of::<S>()
    }
}

/// A whole row of tiles, because their lists grow one after another.
pub(super) struct WholeRow<'t, S> {
    row: usize,
    lists: &'t mut SlotRow<S>,
}

impl<S: Sample> TileRow<S> for SlotRow<S> {
    type Part<'t> = WholeRow<'t, S>;

    fn most_bytes(task: &Task<'_, S>) -> usize {
        Self::bytes_for(&task.tiles)
    }

    fn parts<'t>(&'t mut self, _task: &Task<'_, S>, row: usize, _pixels: usize) -> Vec<WholeRow<'t, S>> {
        vec![WholeRow { row, lists: self }]
    }

    fn count(
        WholeRow { row, lists }: WholeRow<'_, S>,
        task: &Task<'_, S>,
        plane: &PaddedPlane<'_, S>,
        thread: &mut Thread<S>,
    ) {
        lists.fill(&task.tiles, &task.clipping, task.slots, plane, row, thread);
    }

    fn cut(task: &Task<'_, S>, band: usize, pixels: usize) -> Cut {
        let rows = task.axes.down.runs[band].pixels.len();
        let all = 0..task.axes.across.runs.len();
        Cut { rows: (pixels / task.shape.width).clamp(1, rows), runs: vec![all] }
    }

    fn equalize(
        [above, below]: [&Self; 2],
        task: &Task<'_, S>,
        block: &mut Block<'_, S>,
        thread: &mut Thread<S>,
    ) {
        let tile_bytes = task.tiles.area() as usize * size_of::<(S, u16)>();
        let at_once = (BLOCK_BYTES / tile_bytes).max(1);
        for first in block.runs.clone().step_by(at_once) {
            let runs = first..(first + at_once).min(block.runs.end);
            let columns = task.columns(&runs);
            for y in block.rows() {
                block.change(task, y, columns.clone(), &mut thread.rows, |values| {
                    task.slots.replace(values, 0);
                    for run in &task.axes.across.runs[runs.clone()] {
                        let between = [run.first, run.second];
                        let values =
                            &mut values[run.pixels.start - columns.start..run.pixels.end - columns.start];
                        let weights = task.axes.weights(run.pixels.clone(), y);
                        let (slots, scale, rows) = (task.slots, task.tiles.scale, [above, below]);
                        simd::vectorized!(blend(slots, scale, values, rows, between, weights));
                    }
                });
            }
        }
    }
}

/// Returns the most slots and buckets of a tile.
fn most_in_tile(tiles: &Geometry, levels: usize) -> (usize, usize) {
    let slots = (tiles.tile_width * tiles.tile_height).min(levels);
    (slots + WINDOW, slots / BUCKET + 1)
}

impl<S: Sample> SlotRow<S> {
    /// Returns the bytes that a row of tiles grows to.
    pub(super) fn bytes_for(tiles: &Geometry) -> usize {
        let (slots, buckets) = most_in_tile(tiles, S::LEVELS);
        let tile = slots * size_of::<(S, u16)>() + buckets * size_of::<u16>() + size_of::<Tile>();
        tiles.columns * tile
    }

    /// Returns the bytes that the row takes.
    pub(super) fn bytes(&self) -> usize {
        self.tiles.capacity() * size_of::<Tile>()
            + self.slots.capacity() * size_of::<S>()
            + (self.sums.capacity() + self.buckets.capacity()) * size_of::<u16>()
    }

    /// Makes room for all tiles at once: lists that grow step by step take up to twice the memory.
    fn reserve(&mut self, tiles: &Geometry) {
        let (slots, buckets) = most_in_tile(tiles, S::LEVELS);
        self.tiles.reserve_exact(tiles.columns);
        self.slots.reserve_exact(tiles.columns * slots);
        self.sums.reserve_exact(tiles.columns * slots);
        self.buckets.reserve_exact(tiles.columns * buckets);
    }

    fn clear(&mut self) {
        self.tiles.clear();
        self.slots.clear();
        self.sums.clear();
        self.buckets.clear();
    }

    /// Makes the lists of a row of tiles of a plane.
    pub(super) fn fill(
        &mut self,
        tiles: &Geometry,
        clipping: &Clipping,
        slots: &Slots<S>,
        plane: &PaddedPlane<'_, S>,
        row: usize,
        thread: &mut Thread<S>,
    ) {
        let Thread { rows, sorting: Sorting { values, spare }, .. } = thread;
        let Geometry { columns, tile_width, tile_height, .. } = *tiles;
        self.clear();
        self.reserve(tiles);
        for column in 0..columns {
            values.clear();
            values.reserve_exact(tile_width * tile_height);
            for y in row * tile_height..(row + 1) * tile_height {
                let across = column * tile_width..(column + 1) * tile_width;
                values.extend_from_slice(plane.values(y, across, &mut rows.before));
            }
            slots.replace(values, 0);
            slots.join(values);
            sort(values, spare);
            self.push(clipping, values, |slot| slots.levels()[slot.level()].level() as u32);
        }
    }

    /// Appends a tile with these slots, in ascending order.
    ///
    /// `level` returns the level of a slot.
    fn push(&mut self, clipping: &Clipping, sorted: &[S], level: impl Fn(S) -> u32) {
        let clip = clipping.most.unwrap_or(u64::MAX);
        let (start, buckets) = (self.slots.len(), self.buckets.len());
        let (mut sum, mut excess) = (0, 0);
        for same in sorted.chunk_by(|a, b| a == b) {
            self.slots.push(same[0]);
            self.sums.push(sum);
            let kept = clip.min(same.len() as u64);
            sum += kept as u16;
            excess += same.len() as u64 - kept;
        }
        let slots = self.slots.len() - start;
        let (lowest, highest) = (sorted[0].level(), sorted[sorted.len() - 1].level());
        let most_buckets = slots / BUCKET + 1;
        let shift = (0..).find(|shift| (highest - lowest) >> shift < most_buckets).unwrap_or(0);
        let last_bucket = (highest - lowest) >> shift;
        for (number, slot) in (0..).zip(&self.slots[start..]) {
            let bucket = (slot.level() - lowest) >> shift;
            while self.buckets.len() - buckets <= bucket {
                self.buckets.push(number);
            }
        }
        self.slots.extend([S::from_level(S::LEVELS as u32 - 1); WINDOW]);
        self.sums.extend([sum; WINDOW]);
        let (spread, area) = (clipping.spread(excess), sorted.len() as u64);
        let counts = sorted.chunk_by(|a, b| a == b).map(|same| (level(same[0]), same.len() as u64));
        let strength = clipping.strength(area, counts);
        self.tiles.push(Tile { start, slots, buckets, last_bucket, lowest, shift, spread, strength });
    }

    /// Returns the running sum of a tile at a slot.
    #[inline(always)]
    fn sum(&self, tile: &Tile, slot: S) -> u16 {
        let bucket = (slot.level().saturating_sub(tile.lowest) >> tile.shift).min(tile.last_bucket);
        let end = tile.start + tile.slots;
        let mut at = tile.start + self.buckets[tile.buckets + bucket] as usize;
        loop {
            let window: &[S; WINDOW] = self.slots[at..].first_chunk().expect("more slots than compared");
            let not_above = slot.not_below(window);
            at += not_above;
            // The padding after the last slot counts as not above the highest, but the sums end
            // there.
            if not_above < WINDOW || at >= end {
                return self.sums[at.min(end)];
            }
        }
    }
}

/// Values looked up at a time.
///
/// The lookups are scalar; the arithmetic is for all of them, with or without a value, in vectors.
const STEP: usize = 32;

/// Number of values below which one by one is faster.
const FEW_VALUES: usize = 6;

/// Replaces slots by the interpolation between the entries of four tiles.
///
/// `scale` leads from a running sum to a level.
#[inline(always)]
pub(super) fn blend<S: Sample>(
    slots: &Slots<S>,
    scale: f32,
    values: &mut [S],
    rows: [&SlotRow<S>; 2],
    columns: [usize; 2],
    weights: Weights<'_>,
) {
    let Weights { right: right_weights, bottom: bottom_weight } = weights;
    let corner = |number: usize| (rows[number / 2], &rows[number / 2].tiles[columns[number % 2]]);
    let level = |slot: S| slots.levels()[slot.level()].level() as u32;
    if values.len() < FEW_VALUES {
        for (value, &right) in values.iter_mut().zip(right_weights) {
            let entry = |number| {
                let (row, tile) = corner(number);
                tile.entry::<S>(row.sum(tile, *value), level(*value), scale)
            };
            *value = interpolate(entry, right, bottom_weight);
        }
        return;
    }
    for (values, rights) in values.chunks_mut(STEP).zip(right_weights.chunks(STEP)) {
        let (mut levels, mut weights) = ([0; STEP], [0.0; STEP]);
        levels.iter_mut().zip(&*values).for_each(|(found, value)| *found = level(*value));
        weights[..rights.len()].copy_from_slice(rights);
        let mut entries = [[0.0; STEP]; 4];
        for (number, entries) in entries.iter_mut().enumerate() {
            let (row, tile) = corner(number);
            let mut sums = [0; STEP];
            sums.iter_mut().zip(&*values).for_each(|(sum, value)| *sum = row.sum(tile, *value));
            for ((entry, sum), level) in entries.iter_mut().zip(sums).zip(levels) {
                *entry = tile.entry::<S>(sum, level, scale);
            }
        }
        let mut results = [S::zeroed(); STEP];
        for (at, (result, right)) in results.iter_mut().zip(weights).enumerate() {
            *result = interpolate(|number| entries[number][at], right, bottom_weight);
        }
        values.copy_from_slice(&results[..values.len()]);
    }
}

/// Number of samples below which a comparison sort is faster.
const FEW: usize = 64;

/// Sorts samples, by their lower and then by their higher digits.
fn sort<S: Level>(samples: &mut Vec<S>, spare: &mut Vec<S>) {
    if samples.len() < FEW {
        return samples.sort_unstable();
    }
    spare.reserve_exact(samples.len().saturating_sub(spare.len()));
    spare.resize(samples.len(), S::zeroed());
    for digit in 0..S::LEVELS.ilog2() / u8::BITS {
        let digit = |sample: S| (sample.level() >> (digit * u8::BITS)) as u8 as usize;
        let mut places = [0_usize; 256];
        samples.iter().for_each(|&sample| places[digit(sample)] += 1);
        let mut next = 0;
        for place in &mut places {
            next += std::mem::replace(place, next);
        }
        for &sample in &*samples {
            let place = &mut places[digit(sample)];
            spare[*place] = sample;
            *place += 1;
        }
        std::mem::swap(samples, spare);
    }
}
