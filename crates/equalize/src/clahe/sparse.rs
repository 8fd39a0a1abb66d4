//! CLAHE of small tiles, which have fewer pixels than a LUT would have entries: in a time that grows with the pixels alone.
//!
//! No tile has a LUT. The pixels of a band are visited in ascending order of their levels, and with them the counts of the two rows of tiles
//! that the band lies between. So whenever a pixel is visited, the running sums of its four tiles are those for its level. What the excess
//! adds has a closed form, so levels that do not occur cost nothing.

use super::bands::{Band, Task, TileRows};
use super::plane::PaddedPlane;
use super::tiles::Geometry;
use crate::clip::Spread;
use crate::level::Level;
use crate::portable::{interpolate, quantize};
use crate::sample::Sample;

/// A sample of a band or of a row of tiles: its level in the highest bits, by which it is sorted, and where it is in the others.
type Placed = u64;

/// Bits for the column of a sample, below those for its row.
const COLUMN_BITS: u32 = 32;

/// The lowest bit of the level.
const LEVEL_BIT: u32 = 48;

fn placed<S: Level>(value: S, row: usize, column: usize) -> Placed {
    (value.level() as u64) << LEVEL_BIT | (row as u64) << COLUMN_BITS | column as u64
}

/// The samples of one level in one tile.
#[derive(Clone, Copy)]
struct Rise {
    level: u32,
    column: u32,
    /// How many there are, or as many as are allowed.
    count: u32,
}

/// What is kept of a row of tiles.
#[derive(Default)]
struct TileRow {
    /// In ascending order of levels.
    rises: Vec<Rise>,
    /// For each tile, what its excess adds.
    spreads: Vec<Spread>,
}

/// The buffers that are reused from picture to picture.
pub(super) struct Sparse<S> {
    rows: [TileRow; 2],
    /// For each tile above and below a band, the running sum.
    sums: [Vec<u32>; 2],
    /// The pixels of a row of tiles or of a band.
    pixels: Vec<Placed>,
    /// Room to sort them.
    spare: Vec<Placed>,
    /// The equalized values of a band.
    results: Vec<S>,
}

impl<S> Default for Sparse<S> {
    fn default() -> Self {
        Self {
            rows: Default::default(),
            sums: Default::default(),
            pixels: Vec::new(),
            spare: Vec::new(),
            results: Vec::new(),
        }
    }
}

impl<S: Sample> Sparse<S> {
    /// Bytes that the buffers grow to for a picture `width` pixels wide.
    pub(super) fn bytes_for(tiles: &Geometry, width: usize) -> usize {
        let row = tiles.columns * tiles.tile_width * tiles.tile_height;
        let band = width * tiles.tile_height;
        let counted = row * size_of::<Rise>() + tiles.columns * (size_of::<Spread>() + size_of::<u32>());
        2 * counted + 2 * row.max(band) * size_of::<Placed>() + band * size_of::<S>()
    }

    /// Bytes that the buffers take.
    pub(super) fn bytes(&self) -> usize {
        self.rows.iter().map(|row| size_of_val(&*row.rises)).sum::<usize>()
            + size_of_val(&*self.pixels)
            + size_of_val(&*self.spare)
    }
}

impl<S: Sample> TileRows<S> for Sparse<S> {
    fn count(&mut self, task: &Task<'_, S>, plane: &mut PaddedPlane<'_, S>, row: usize) {
        let Geometry { columns, tile_width, tile_height, .. } = task.tiles;
        self.pixels.clear();
        for column in 0..columns {
            let across = column * tile_width..(column + 1) * tile_width;
            for y in row * tile_height..(row + 1) * tile_height {
                let values = plane.values(y, across.clone());
                self.pixels.extend(values.iter().map(|&value| placed(value, 0, column)));
            }
        }
        sort_by_level::<S>(&mut self.pixels, &mut self.spare);
        let TileRow { rises, spreads } = &mut self.rows[row % 2];
        rises.clear();
        let clip = task.clipping.most.unwrap_or(u64::MAX);
        // The sums serve as the excess of each tile here.
        let excess = &mut self.sums[0];
        excess.clear();
        excess.resize(columns, 0);
        for same in self.pixels.chunk_by(|a, b| a == b) {
            let (level, column) = ((same[0] >> LEVEL_BIT) as u32, same[0] as u32);
            let count = clip.min(same.len() as u64) as u32;
            excess[column as usize] += same.len() as u32 - count;
            rises.push(Rise { level, column, count });
        }
        spreads.clear();
        spreads.extend(excess.iter().map(|&excess| task.clipping.spread(u64::from(excess))));
    }

    fn equalize(&mut self, task: &Task<'_, S>, plane: &mut PaddedPlane<'_, S>, band: &Band<'_>) {
        let band = band.run;
        let width = plane.width();
        self.pixels.clear();
        for (row, y) in band.pixels.clone().enumerate() {
            let values = plane.values(y, 0..width);
            self.pixels.extend((0..).zip(values).map(|(x, &value)| placed(value, row, x)));
        }
        sort_by_level::<S>(&mut self.pixels, &mut self.spare);
        self.results.resize(band.pixels.len() * width, S::zeroed());
        let rows = [band.first, band.second].map(|row| &self.rows[row % 2]);
        for sums in &mut self.sums {
            sums.clear();
            sums.resize(task.tiles.columns, 0);
        }
        let mut rises = rows.map(|row| row.rises.iter().peekable());
        for &pixel in &self.pixels {
            let level = (pixel >> LEVEL_BIT) as u32;
            for (rises, sums) in rises.iter_mut().zip(&mut self.sums) {
                while let Some(rise) = rises.next_if(|rise| rise.level <= level) {
                    sums[rise.column as usize] += rise.count;
                }
            }
            let (row, x) = ((pixel >> COLUMN_BITS) as u16 as usize, pixel as u32 as usize);
            let columns = task.across.tiles[x];
            let entry = |corner: usize| {
                let (side, column) = (corner / 2, columns[corner % 2] as usize);
                let sum = self.sums[side][column] + rows[side].spreads[column].up_to::<u32>(level);
                quantize::<S>(sum as f32 * task.tiles.scale).level() as f32
            };
            let (right, bottom) = (task.across.weights[x], task.down.weights[band.pixels.start + row]);
            self.results[row * width + x] = interpolate(entry, right, bottom);
        }
        for (results, y) in self.results.chunks_exact(width).zip(band.pixels.clone()) {
            plane.change(y, 0..width, task.strength, |values| values.copy_from_slice(results));
        }
    }
}

/// Samples below which a sort by comparison is faster.
const FEW: usize = 128;

/// Sorts samples by level; those of one level keep their order.
fn sort_by_level<S: Level>(samples: &mut Vec<Placed>, spare: &mut Vec<Placed>) {
    if samples.len() < FEW {
        return samples.sort_by_key(|sample| sample >> LEVEL_BIT);
    }
    spare.resize(samples.len(), 0);
    for digit in 0..S::LEVELS.ilog2() / u8::BITS {
        let digit = |sample: Placed| (sample >> (LEVEL_BIT + digit * u8::BITS)) as u8 as usize;
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
