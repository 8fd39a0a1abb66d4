//! CLAHE of small tiles, which have fewer pixels than a LUT would have entries: in a time that grows with the pixels alone.
//!
//! Instead of a LUT each tile has the slots that occur in it, in ascending order, and the running sum at each. The sum at any other slot is
//! that of the next lower one, and what the excess adds has a closed form. A slot is found in its bucket of a few neighbours, all of which
//! are compared at once.

use super::bands::{Band, Task, TileRows};
use super::plane::{PaddedPlane, fit};
use super::tiles::Geometry;
use crate::clip::Spread;
use crate::level::Level;
use crate::portable::{interpolate, quantize};
use crate::sample::Sample;
use crate::simd::{self, WINDOW};

/// Bytes of the lists of a row of tiles that the pixels of a block are looked up in.
const BLOCK_BYTES: usize = 16 << 10;

/// The slots of a bucket, on average, if they are spread evenly.
const BUCKET: usize = 8;

/// A tile, and where its part of each list begins.
struct Tile {
    /// In the lists of slots and of sums.
    start: usize,
    /// How many slots occur.
    slots: usize,
    /// In the list of buckets.
    buckets: usize,
    /// The number of its last bucket.
    last_bucket: usize,
    /// The lowest slot that occurs.
    lowest: usize,
    /// What a slot, counted from the lowest, is shifted by to get its bucket.
    shift: u32,
    spread: Spread,
}

impl Tile {
    /// Returns what a LUT would have for a level at which the running sum is this.
    #[inline(always)]
    fn entry<S: Level>(&self, sum: u16, level: u32, scale: f32) -> f32 {
        let sum = u32::from(sum) + self.spread.up_to::<u32>(level);
        quantize::<S>(sum as i32 as f32 * scale).level() as f32
    }
}

/// What is kept of a row of tiles. They are so small that 16 bits suffice for counts.
struct TileRow<S> {
    tiles: Vec<Tile>,
    /// The slots that occur, tile by tile. After those of each tile there are so many of the highest that comparing may run over the end.
    slots: Vec<S>,
    /// The sum of the counts below each slot, and below the end.
    sums: Vec<u16>,
    /// How many slots of the tile are in lower buckets.
    buckets: Vec<u16>,
}

impl<S> Default for TileRow<S> {
    fn default() -> Self {
        Self { tiles: Vec::new(), slots: Vec::new(), sums: Vec::new(), buckets: Vec::new() }
    }
}

/// The buffers that are reused from picture to picture.
pub(super) struct Sparse<S> {
    rows: [TileRow<S>; 2],
    /// The pixels of a tile, and room to sort them.
    values: Vec<S>,
    spare: Vec<S>,
}

impl<S> Default for Sparse<S> {
    fn default() -> Self {
        Self { rows: Default::default(), values: Vec::new(), spare: Vec::new() }
    }
}

impl<S: Sample> Sparse<S> {
    /// Bytes that the buffers grow to.
    pub(super) fn bytes_for(tiles: &Geometry) -> usize {
        let (slots, buckets) = most_in_tile(tiles, S::LEVELS);
        let tile = slots * size_of::<(S, u16)>() + buckets * size_of::<u16>() + size_of::<Tile>();
        2 * (tiles.columns * tile + tiles.tile_width * tiles.tile_height * size_of::<S>())
    }

    /// Bytes that the buffers take.
    pub(super) fn bytes(&self) -> usize {
        let row = |row: &TileRow<S>| {
            row.tiles.capacity() * size_of::<Tile>()
                + row.slots.capacity() * size_of::<S>()
                + (row.sums.capacity() + row.buckets.capacity()) * size_of::<u16>()
        };
        let values = (self.values.capacity() + self.spare.capacity()) * size_of::<S>();
        self.rows.iter().map(row).sum::<usize>() + values
    }
}

impl<S: Sample> TileRows<S> for Sparse<S> {
    fn count(&mut self, task: &Task<'_, S>, plane: &mut PaddedPlane<'_, S>, row: usize) {
        let Geometry { columns, tile_width, tile_height, .. } = task.tiles;
        let Self { rows, values, spare } = self;
        let tile_row = &mut rows[row % 2];
        tile_row.clear();
        tile_row.reserve(&task.tiles, S::LEVELS);
        for column in 0..columns {
            values.clear();
            values.reserve_exact(tile_width * tile_height);
            for y in row * tile_height..(row + 1) * tile_height {
                values.extend_from_slice(plane.values(y, column * tile_width..(column + 1) * tile_width));
            }
            task.slots.replace(values, 0);
            sort(values, spare);
            tile_row.push(task, values);
        }
    }

    fn equalize(&mut self, task: &Task<'_, S>, plane: &mut PaddedPlane<'_, S>, band: &Band<'_>) {
        let [above, below] = [band.run.first, band.run.second].map(|row| &self.rows[row % 2]);
        let tile_bytes = task.tiles.area() as usize * size_of::<(S, u16)>();
        for runs in task.across.runs.chunks((BLOCK_BYTES / tile_bytes).max(1)) {
            let start = runs[0].pixels.start;
            let pixels = start..runs[runs.len() - 1].pixels.end;
            for y in band.run.pixels.clone() {
                plane.change(y, pixels.clone(), task.strength, |values| {
                    task.slots.replace(values, 0);
                    for run in runs {
                        let columns = [run.first, run.second];
                        let values = &mut values[run.pixels.start - start..run.pixels.end - start];
                        let weights = (&task.across.weights[run.pixels.clone()], task.down.weights[y]);
                        simd::vectorized!(blend(task, values, [above, below], columns, weights));
                    }
                });
            }
        }
    }
}

/// Returns the most slots and buckets that a tile has.
fn most_in_tile(tiles: &Geometry, levels: usize) -> (usize, usize) {
    let slots = (tiles.tile_width * tiles.tile_height).min(levels);
    (slots + WINDOW, slots / BUCKET + 1)
}

impl<S: Sample> TileRow<S> {
    /// Makes room for all tiles at once, for lists that grow by and by take up to twice the memory.
    fn reserve(&mut self, tiles: &Geometry, levels: usize) {
        let (slots, buckets) = most_in_tile(tiles, levels);
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

    /// Appends a tile with these slots, in ascending order.
    fn push(&mut self, task: &Task<'_, S>, sorted: &[S]) {
        let clip = task.clipping.most.unwrap_or(u64::MAX);
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
        let spread = task.clipping.spread(excess);
        self.tiles.push(Tile { start, slots, buckets, last_bucket, lowest, shift, spread });
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
            // The slots after the last are not above the highest, but none follow.
            if not_above < WINDOW || at >= end {
                return self.sums[at.min(end)];
            }
        }
    }
}

/// Values that are looked up at a time. The lookups are scalar; the arithmetic is for all of them, with or without a value, in vectors.
const STEP: usize = 32;

/// Values below which one by one is faster.
const FEW_VALUES: usize = 6;

/// Replaces slots by what is interpolated between the entries of four tiles.
#[inline(always)]
fn blend<S: Sample>(
    task: &Task<'_, S>,
    values: &mut [S],
    rows: [&TileRow<S>; 2],
    columns: [usize; 2],
    (right_weights, bottom_weight): (&[f32], f32),
) {
    let corner = |number: usize| (rows[number / 2], &rows[number / 2].tiles[columns[number % 2]]);
    let level = |slot: S| task.slots.levels()[slot.level()].level() as u32;
    if values.len() < FEW_VALUES {
        for (value, &right) in values.iter_mut().zip(right_weights) {
            let entry = |number| {
                let (row, tile) = corner(number);
                tile.entry::<S>(row.sum(tile, *value), level(*value), task.tiles.scale)
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
                *entry = tile.entry::<S>(sum, level, task.tiles.scale);
            }
        }
        let mut results = [S::zeroed(); STEP];
        for (at, (result, right)) in results.iter_mut().zip(weights).enumerate() {
            *result = interpolate(|number| entries[number][at], right, bottom_weight);
        }
        values.copy_from_slice(&results[..values.len()]);
    }
}

/// Samples below which a sort by comparison is faster.
const FEW: usize = 64;

/// Sorts samples, by their lower and then by their higher digits.
fn sort<S: Level>(samples: &mut Vec<S>, spare: &mut Vec<S>) {
    if samples.len() < FEW {
        return samples.sort_unstable();
    }
    fit(spare, samples.len());
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
