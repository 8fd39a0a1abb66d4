//! The settings of CLAHE, and the tiles that follow from them.
//!
//! They include the pixels of each tile, and the tiles around each pixel.

use std::ops::Range;

use crate::clip::ClipLimit;
use crate::layout::Layout;

/// The settings of CLAHE.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Clahe {
    /// The limit on the peaks of a tile's histogram.
    pub clip_limit: ClipLimit,
    /// The division of the picture into tiles.
    pub tiles: Tiles,
    /// Span of levels, of 256, at which a tile gains all of its contrast.
    ///
    /// It is the span of the middle four fifths of the tile's samples. A tile that spans fewer
    /// levels gains in proportion less, which keeps noise in flat places low. 0 for all tiles
    /// alike, as in OpenCV.
    pub noise: u8,
}

/// The division of a picture into tiles.
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
    /// A fixed number of boxes in each direction of a stack ([`Volume`](super::Volume)).
    ///
    /// A single picture has the tiles of the same grid.
    Boxes {
        /// Tiles across; 0 counts as 1.
        x: u32,
        /// Tiles down; 0 counts as 1.
        y: u32,
        /// Tiles along the stack; 0 counts as 1.
        z: u32,
    },
    /// Tiles as close as possible to squares with sides of this many pixels; 0 counts as 1.
    Pixels(u32),
}

impl Tiles {
    /// Returns the number of tiles across and down a picture of this size.
    pub fn grid(self, width: u32, height: u32) -> (u32, u32) {
        match self {
            Self::Grid { x, y } | Self::Boxes { x, y, .. } => (x.max(1), y.max(1)),
            Self::Pixels(side) => {
                let side = u64::from(side.max(1));
                let along = |length: u32| ((u64::from(length) + side / 2) / side).max(1) as u32;
                (along(width), along(height))
            }
        }
    }

    /// Returns the number of tiles along a stack; without boxes it is 1.
    pub fn layers(self) -> u32 {
        match self {
            Self::Grid { .. } | Self::Pixels(_) => 1,
            Self::Boxes { z, .. } => z.max(1),
        }
    }
}

/// The tiles of one picture.
///
/// Every backend derives them from the settings and the layout before it touches a pixel.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Geometry {
    /// Columns of tiles that pixels take values from.
    ///
    /// Tiles in the padding are not among them, except the first.
    pub columns: usize,
    /// Rows of tiles, in the same way.
    pub rows: usize,
    /// Width of a tile in pixels.
    pub tile_width: usize,
    /// Height of a tile in pixels.
    pub tile_height: usize,
    /// The factor from a tile's cumulative count to a level.
    pub scale: f32,
}

impl Geometry {
    /// Returns the tiles of a picture with all levels.
    ///
    /// Unless the grid divides both its width and its height, both are padded, on the right and at
    /// the bottom, by reflection without repeating the edge. If the grid divides one of them, that
    /// one is padded by a pixel per tile.
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

    /// Returns the same tiles for samples of `levels` levels.
    #[must_use]
    pub fn with_levels(self, levels: usize) -> Self {
        Self { scale: (levels - 1) as f32 / self.area() as f32, ..self }
    }

    /// Returns the number of pixels of a tile.
    pub const fn area(&self) -> u64 {
        self.tile_width as u64 * self.tile_height as u64
    }
}

/// Returns the number of tiles that the pixels along `length` take values from.
///
/// There are `tiles` tiles of `side` pixels. A grid finer than the picture has many more, all in
/// the padding.
pub(super) fn tiles_used(length: u32, side: usize, tiles: u32) -> usize {
    let last = length as usize - 1;
    let covered = last / side;
    Between::new(last, side, tiles as usize).second.max(covered) + 1
}

/// Maps a coordinate beyond the end of `length` samples to the sample it is padded with.
///
/// It is reflected without repeating the edge, and back and forth if the padding is longer than the
/// picture.
pub fn reflect(at: usize, length: usize) -> usize {
    if length == 1 {
        return 0;
    }
    let folded = at % (2 * length - 2);
    if folded < length { folded } else { 2 * length - 2 - folded }
}

/// The two tiles with centres around a pixel, and its weight between them.
///
/// At the edges both are the same tile.
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

/// Consecutive pixel columns, or rows, that lie between the centres of the same two tiles.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Run {
    pub(super) pixels: Range<usize>,
    /// The tile to the left or above.
    pub(super) first: usize,
    /// The tile to the right or below.
    pub(super) second: usize,
}

/// The pixels along one side of a picture, grouped by the tiles around them.
#[derive(Default)]
pub(super) struct Axis {
    /// The weight of the second of its two tiles, for each pixel.
    pub(super) weights: Vec<f32>,
    /// All pixels, in order.
    pub(super) runs: Vec<Run>,
}

impl Axis {
    /// Describes `length` pixels among `tiles` tiles of `side` pixels.
    pub(super) fn set(&mut self, length: usize, side: usize, tiles: usize) {
        self.weights.clear();
        self.runs.clear();
        self.weights.reserve_exact(length);
        self.runs.reserve_exact(length.min(tiles + 1));
        for at in 0..length {
            let Between { first, second, weight } = Between::new(at, side, tiles);
            self.weights.push(weight);
            match self.runs.last_mut() {
                Some(run) if (run.first, run.second) == (first, second) => run.pixels.end = at + 1,
                _ => self.runs.push(Run { pixels: at..at + 1, first, second }),
            }
        }
    }

    /// Returns the bytes that the axis takes.
    #[cfg(test)]
    pub(super) fn bytes_taken(&self) -> usize {
        self.weights.capacity() * size_of::<f32>() + self.runs.capacity() * size_of::<Run>()
    }

    /// Returns the bytes that an axis grows to.
    pub(super) fn bytes(length: usize, tiles: usize) -> usize {
        length * size_of::<f32>() + length.min(tiles + 1) * size_of::<Run>()
    }
}

/// Both axes of a picture.
#[derive(Default)]
pub(super) struct Axes {
    /// The columns of pixels.
    pub(super) across: Axis,
    /// The rows of pixels.
    pub(super) down: Axis,
}

impl Axes {
    /// Describes the pixels of a picture of this layout among tiles.
    pub(super) fn set(&mut self, layout: &Layout, tiles: &Geometry) {
        self.across.set(layout.width as usize, tiles.tile_width, tiles.columns);
        self.down.set(layout.height as usize, tiles.tile_height, tiles.rows);
    }

    /// Returns the weights for some pixels of row `y`.
    pub(super) fn weights(&self, columns: Range<usize>, y: usize) -> Weights<'_> {
        Weights { right: &self.across.weights[columns], bottom: self.down.weights[y] }
    }
}

/// The weights of the tiles around pixels of a row.
#[derive(Clone, Copy)]
pub(super) struct Weights<'a> {
    /// The weight of the tile to the right, for each pixel.
    pub(super) right: &'a [f32],
    /// The weight of the tile below.
    pub(super) bottom: f32,
}

/// Divides consecutive runs into groups of about so many columns, at least one run each.
pub(super) fn group(runs: &[Run], columns: usize) -> Vec<Range<usize>> {
    let mut groups: Vec<Range<usize>> = Vec::new();
    for (number, run) in runs.iter().enumerate() {
        match groups.last_mut() {
            Some(group) if run.pixels.end - runs[group.start].pixels.start <= columns => {
                group.end = number + 1;
            }
            _ => groups.push(number..number + 1),
        }
    }
    groups
}
