//! Contrast-limited adaptive histogram equalization, byte for byte the same as OpenCV's x86-64 builds.
//!
//! The picture is divided into tiles. Each has its own LUT, made from a histogram whose peaks are cut at the clip limit and spread
//! over all levels; each pixel is interpolated between the LUTs of the four tiles whose centres surround it (K. Zuiderveld, *Contrast
//! Limited Adaptive Histogram Equalization*, Graphics Gems IV, 1994). Where implementations differ (padding, clipping in a single
//! pass, the order of the float32 operations, no fused multiply-add), this one follows `cv::CLAHE`.
//!
//! It works in place: only two rows of tile LUTs exist at a time, and the pixels of a row of tiles are counted before the
//! interpolation reaches them.

use std::ops::Range;

use super::clip::{ClipLimit, Clipping, LevelsInUse};
use super::colour::{self, Plane};
use super::histogram::Tally;
use super::level::Level;
pub use super::portable::Corners;
use super::portable::quantize;
use super::sample::Sample;
use super::strength::Strength;
use crate::{Layout, Pixel};

/// The settings of CLAHE.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Clahe {
    /// How high the peaks of a tile's histogram may be.
    pub clip_limit: ClipLimit,
    /// How the picture is divided into tiles.
    pub tiles: Tiles,
}

/// How a picture is divided into tiles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Tiles {
    /// A fixed number of tiles across and down, whatever the size of the picture.
    Grid {
        /// Tiles across; 0 counts as 1.
        x: u32,
        /// Tiles down; 0 counts as 1.
        y: u32,
    },
    /// Tiles as close as possible to squares with sides of this many pixels; 0 counts as 1.
    Pixels(u32),
}

impl Tiles {
    /// Returns the number of tiles across and down a picture of this size.
    pub fn grid(self, width: u32, height: u32) -> (u32, u32) {
        match self {
            Self::Grid { x, y } => (x.max(1), y.max(1)),
            Self::Pixels(side) => {
                let side = u64::from(side.max(1));
                let along = |length: u32| ((u64::from(length) + side / 2) / side).max(1) as u32;
                (along(width), along(height))
            }
        }
    }
}

/// The tiles of one picture, as every backend derives them from the settings and the layout before it touches a pixel.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Geometry {
    /// Columns of tiles that pixels take values from: not those whose tiles lie in the padding, except the first of them.
    pub columns: usize,
    /// The same for rows of tiles.
    pub rows: usize,
    /// Width of a tile in pixels.
    pub tile_width: usize,
    /// Height of a tile in pixels.
    pub tile_height: usize,
    /// The factor from a tile's cumulative count to a level.
    pub scale: f32,
}

impl Geometry {
    /// Returns the tiles of a picture. Unless the grid divides both its width and its height, both are padded, on the right and at
    /// the bottom, by reflection without repeating the edge. If the grid divides one of them, that one is padded by a pixel per tile.
    pub fn new(layout: &Layout, clahe: &Clahe) -> Self {
        let (columns, rows) = clahe.tiles.grid(layout.width, layout.height);
        let fits = layout.width.is_multiple_of(columns) && layout.height.is_multiple_of(rows);
        let side = |length: u32, tiles: u32| length as usize / tiles as usize + usize::from(!fits);
        let (tile_width, tile_height) = (side(layout.width, columns), side(layout.height, rows));
        let area = tile_width as u64 * tile_height as u64;
        let scale = (layout.depth.levels() - 1) as f32 / area as f32;
        let columns = tiles_used(layout.width, tile_width, columns);
        let rows = tiles_used(layout.height, tile_height, rows);
        Self { columns, rows, tile_width, tile_height, scale }
    }

    /// Returns the pixels of a tile.
    pub const fn area(&self) -> u64 {
        self.tile_width as u64 * self.tile_height as u64
    }

    /// Bytes that a [`super::Scratch`] grows to for this picture: two rows of tile LUTs, the padding below, two rows of samples and a row
    /// of weights.
    pub fn scratch_bytes(&self, layout: &Layout) -> u64 {
        let sample = layout.depth.bytes();
        let luts = 2 * self.columns * layout.depth.levels() * sample;
        let rows =
            (self.rows * self.tile_height - layout.height as usize + 2) * layout.width as usize * sample;
        let columns = layout.width as usize * size_of::<f32>();
        (luts + rows + columns) as u64
    }
}

/// Returns how many of `tiles` tiles of `side` pixels the pixels along `length` take values from. A grid finer than the picture has many
/// more, all in the padding.
fn tiles_used(length: u32, side: usize, tiles: u32) -> usize {
    let last = length as usize - 1;
    let covered = last / side;
    Between::new(last, side, tiles as usize).second.max(covered) + 1
}

/// Maps a coordinate beyond the end of `length` samples to the sample it is padded with: reflected without repeating the edge, and
/// back and forth if the padding is longer than the picture.
pub fn reflect(at: usize, length: usize) -> usize {
    if length == 1 {
        return 0;
    }
    let folded = at % (2 * length - 2);
    if folded < length { folded } else { 2 * length - 2 - folded }
}

/// The two neighbouring tiles (at the edges, the same tile twice) between whose centres a pixel lies, and how far along it lies.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Between {
    /// The tile to the left or above.
    pub first: usize,
    /// The tile to the right or below.
    pub second: usize,
    /// The weight of the second tile, in `0.0..1.0`; the first has the rest.
    pub weight: f32,
}

impl Between {
    /// Returns the tiles around one coordinate, among `tiles` tiles of `side` pixels.
    pub fn new(at: usize, side: usize, tiles: usize) -> Self {
        let centred = at as f32 * (1.0 / side as f32) - 0.5;
        let floor = centred.floor();
        let clamp = |tile: f32| (tile.max(0.0) as usize).min(tiles - 1);
        Self { first: clamp(floor), second: clamp(floor + 1.0), weight: centred - floor }
    }
}

/// A range of pixel columns that lie between the centres of the same two columns of tiles.
struct Run {
    pixels: Range<usize>,
    first: usize,
    second: usize,
}

/// Bytes of LUTs that are kept from picture to picture: 32 tiles across of 16 bits.
const LUTS_KEPT: usize = 8 << 20;

/// The buffers that are reused from picture to picture.
pub(super) struct Buffers<S> {
    /// Two rows of tile LUTs; those of tile row `j` are in half `j % 2`.
    luts: Vec<S>,
    /// For each pixel column, the weight of the right one of its two tile columns.
    weights: Vec<f32>,
    runs: Vec<Run>,
    /// The rows of the padded plane below the picture.
    padding: Vec<S>,
    /// A row of the plane before interpolation.
    before: Vec<S>,
    /// The same row after interpolation.
    after: Vec<S>,
}

impl<S> Default for Buffers<S> {
    fn default() -> Self {
        Self {
            luts: Vec::new(),
            weights: Vec::new(),
            runs: Vec::new(),
            padding: Vec::new(),
            before: Vec::new(),
            after: Vec::new(),
        }
    }
}

/// Equalizes one plane of a picture with CLAHE, in place.
pub(super) fn equalize<S: Sample>(
    samples: &mut [S],
    layout: &Layout,
    plane: Plane,
    (clahe, strength): (&Clahe, Strength),
    buffers: &mut Buffers<S>,
    tally: &mut Tally,
) {
    let tiles = Geometry::new(layout, clahe);
    let mut view = View { samples, width: layout.width as usize, pixel: layout.pixel, plane };
    let clipping = match clahe.clip_limit {
        limit if limit.needs_levels(layout.depth) => {
            buffers.before.resize(view.width, S::zeroed());
            Clipping::of_levels(view.levels_in_use(&mut buffers.before), tiles.area())
        }
        limit => Some(Clipping::new(limit, tiles.area(), layout.depth)),
    };
    let Some(clipping) = clipping else { return };
    buffers.prepare(&view, &tiles);
    let mut counted = 0;
    for y in 0..layout.height as usize {
        let down = Between::new(y, tiles.tile_height, tiles.rows);
        while counted <= down.second {
            buffers.fill_luts(&view, (&tiles, &clipping), counted, tally);
            counted += 1;
        }
        buffers.interpolate(&mut view, &tiles, y, down, strength);
    }
    if size_of_val(&*buffers.luts) > LUTS_KEPT {
        buffers.luts = Vec::new();
    }
}

impl<S: Sample> Buffers<S> {
    /// Computes what is the same for all rows, and saves the padding before the rows it is copied from are overwritten.
    fn prepare(&mut self, view: &View<'_, S>, tiles: &Geometry) {
        let (width, height) = (view.width, view.height());
        self.luts.resize(2 * tiles.columns * S::LEVELS, S::zeroed());
        self.before.resize(width, S::zeroed());
        self.after.resize(width, S::zeroed());
        self.padding.resize((tiles.rows * tiles.tile_height - height) * width, S::zeroed());
        for (row, y) in self.padding.chunks_exact_mut(width).zip(height..) {
            view.read(reflect(y, height), 0, row);
        }
        self.weights.clear();
        self.runs.clear();
        for x in 0..width {
            let across = Between::new(x, tiles.tile_width, tiles.columns);
            self.weights.push(across.weight);
            match self.runs.last_mut() {
                Some(run) if (run.first, run.second) == (across.first, across.second) => {
                    run.pixels.end = x + 1;
                }
                _ => {
                    self.runs.push(Run { pixels: x..x + 1, first: across.first, second: across.second });
                }
            }
        }
    }

    /// Counts the pixels of one row of tiles and makes their LUTs.
    fn fill_luts(
        &mut self,
        view: &View<'_, S>,
        (tiles, clipping): (&Geometry, &Clipping),
        row: usize,
        tally: &mut Tally,
    ) {
        let half = tiles.columns * S::LEVELS;
        let luts = &mut self.luts[row % 2 * half..][..half];
        for (column, lut) in luts.chunks_exact_mut(S::LEVELS).enumerate() {
            tally.clear();
            let across = column * tiles.tile_width..(column + 1) * tiles.tile_width;
            for y in row * tiles.tile_height..(row + 1) * tiles.tile_height {
                count_row(view, &self.padding, y, &across, &mut self.before, tally);
            }
            fill_lut(tally.counts(), clipping, tiles.scale, lut);
        }
    }

    /// Applies the LUTs of the surrounding tiles to one row of pixels.
    fn interpolate(
        &mut self,
        view: &mut View<'_, S>,
        tiles: &Geometry,
        y: usize,
        down: Between,
        strength: Strength,
    ) {
        let lut = |row: usize, column: usize| {
            &self.luts[(row % 2 * tiles.columns + column) * S::LEVELS..][..S::LEVELS]
        };
        let blend = |values: &mut [S]| {
            for run in &self.runs {
                let corners = Corners {
                    top: [lut(down.first, run.first), lut(down.first, run.second)],
                    bottom: [lut(down.second, run.first), lut(down.second, run.second)],
                };
                let pixels = run.pixels.clone();
                S::blend(&mut values[pixels.clone()], &corners, &self.weights[pixels], down.weight);
            }
        };
        if view.pixel == Pixel::Gray && strength == Strength::FULL {
            return blend(view.row_mut(y));
        }
        view.read(y, 0, &mut self.before);
        self.after.copy_from_slice(&self.before);
        blend(&mut self.after);
        strength.weaken(&self.before, &mut self.after);
        let (pixel, plane) = (view.pixel, view.plane);
        colour::write(view.row_mut(y), pixel, plane, &self.before, &self.after);
    }
}

/// Counts the columns `across` of row `y` of the padded plane.
fn count_row<S: Sample>(
    view: &View<'_, S>,
    padding: &[S],
    y: usize,
    across: &Range<usize>,
    buffer: &mut [S],
    tally: &mut Tally,
) {
    let width = view.width;
    let inside = across.start.min(width)..across.end.min(width);
    let beyond = across.start.max(width)..across.end;
    if let Some(below) = y.checked_sub(view.height()) {
        let row = &padding[below * width..][..width];
        tally.add(&row[inside]);
        beyond.for_each(|x| tally.add(&[row[reflect(x, width)]]));
    } else {
        tally.add(view.segment(y, inside, buffer));
        for x in beyond {
            let mut value = S::zeroed();
            view.read(y, reflect(x, width), std::slice::from_mut(&mut value));
            tally.add(&[value]);
        }
    }
}

/// One plane of interleaved samples.
struct View<'a, S> {
    samples: &'a mut [S],
    width: usize,
    pixel: Pixel,
    plane: Plane,
}

impl<S: Sample> View<'_, S> {
    fn stride(&self) -> usize {
        self.width * self.pixel.channels()
    }

    fn height(&self) -> usize {
        self.samples.len() / self.stride()
    }

    fn row_mut(&mut self, y: usize) -> &mut [S] {
        let stride = self.stride();
        &mut self.samples[y * stride..][..stride]
    }

    /// Copies the values of consecutive pixels of row `y`, from column `x` on.
    fn read(&self, y: usize, x: usize, values: &mut [S]) {
        let channels = self.pixel.channels();
        let from = &self.samples[y * self.stride() + x * channels..][..values.len() * channels];
        colour::read(from, self.pixel, self.plane, values);
    }

    /// Returns the levels that occur in the plane. `buffer` has room for a row.
    fn levels_in_use(&self, buffer: &mut [S]) -> LevelsInUse {
        let mut occurs = vec![false; S::LEVELS];
        for y in 0..self.height() {
            let values = self.segment(y, 0..self.width, buffer);
            values.iter().for_each(|value| occurs[value.level()] = true);
        }
        LevelsInUse::new(occurs.iter().copied())
    }

    /// Returns the values of consecutive pixels of one row: the samples themselves if gray, or a copy at the front of `buffer`.
    fn segment<'a>(&'a self, y: usize, pixels: Range<usize>, buffer: &'a mut [S]) -> &'a [S] {
        if self.pixel == Pixel::Gray {
            return &self.samples[y * self.width..][pixels];
        }
        let values = &mut buffer[..pixels.len()];
        self.read(y, pixels.start, values);
        values
    }
}

/// Makes the LUT of a tile from its counts: clips them, spreads the excess in one pass, and scales the running sum.
pub fn fill_lut<S: Level>(counts: &[u64], clipping: &Clipping, scale: f32, lut: &mut [S]) {
    let first = u64::from(clipping.spread.start);
    let bins = u64::from(clipping.spread.end) - first;
    let clip = clipping.most.unwrap_or(u64::MAX);
    let excess: u64 = counts.iter().map(|&n| n.saturating_sub(clip)).sum();
    let (batch, residual) = (excess / bins, excess % bins);
    // Bins 0, step, 2 step, … of those that share the excess get one more each until the residual is used up.
    let step = (bins / residual.max(1)).max(1);
    let mut extras = (0..residual).map(|n| first + n * step).peekable();
    let mut running = 0;
    for ((level, entry), &count) in (0..).zip(lut).zip(counts) {
        let share = if (first..first + bins).contains(&level) { batch } else { 0 };
        running += count.min(clip) + share + u64::from(extras.next_if_eq(&level).is_some());
        *entry = quantize(running as f32 * scale);
    }
}
