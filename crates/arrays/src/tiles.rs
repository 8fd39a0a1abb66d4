//! CLAHE of planes: the launches and the memory for tiles.
#![allow(unsafe_code)]

use std::ffi::c_void;

use cuda::{Address, Launch, Result, Stream, arguments};
use equalize::clahe::Geometry;
use equalize::clip::Clipping;
use equalize::{Clahe, Depth, Layout, Operation, Strength};
use histeqd_kernels::{CLAHE8, CLAHE16};

use crate::batch::Batch;
use crate::kernels::Kernels;
use crate::workspace::Pieces;

/// Tiles of fewer pixels are interpolated directly from their LUTs, not cell by cell.
const LEAST_CELL: [u64; 2] = [2048, 16_384];

/// Tiles of at most so many pixels are counted by a warp each.
const SMALL_TILE: u64 = 8192;

/// The number of small tiles that a block counts.
const TILES_A_BLOCK: u32 = 8;

/// Tiles of fewer pixels may have ranks instead of LUTs, if blocks have this shared memory.
const RANKS: (u64, u32) = (1 << 16, 64 << 10);

/// A clip limit that depends on the levels of a picture: `AUTO` in the kernels.
const AUTO: u32 = u32::MAX;

/// The size of a `Clipping` in `kernels/clahe16.cu`.
const CLIPPING_BYTES: u64 = 6 * 4;

/// The size of 65536 counts, in bytes.
const COUNTS16_BYTES: u64 = 65_536 * 4;

/// The most 16-bit pixels that blocks count without a look at their counters.
///
/// It is `HalfCounters::BETWEEN`.
const BETWEEN: u32 = 65_535 - 8191;

/// Mirrors `Tiling` in `kernels/clahe.cuh`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Tiling {
    /// Columns of the plane.
    pub width: u32,
    /// Rows of the plane.
    pub height: u32,
    /// Tiles in a row.
    pub tiles_x: u32,
    /// Tiles in a column.
    pub tiles_y: u32,
    /// Columns of a tile.
    pub tile_width: u32,
    /// Rows of a tile.
    pub tile_height: u32,
    clip: u32,
    lut_scale: f32,
    inverse_width: f32,
    inverse_height: f32,
    full_span: u32,
}

impl Tiling {
    /// Returns the tiles of a plane.
    ///
    /// A bin may have at most `clip` counts; 0 for no limit. `full_span` is as in [`Clipping`].
    pub fn new(layout: &Layout, geometry: &Geometry, clip: u32, full_span: u32) -> Self {
        Self {
            width: layout.width,
            height: layout.height,
            tiles_x: geometry.columns as u32,
            tiles_y: geometry.rows as u32,
            tile_width: geometry.tile_width as u32,
            tile_height: geometry.tile_height as u32,
            clip,
            lut_scale: geometry.scale,
            inverse_width: 1.0 / geometry.tile_width as f32,
            inverse_height: 1.0 / geometry.tile_height as f32,
            full_span,
        }
    }

    const fn tiles(&self) -> u32 {
        self.tiles_x * self.tiles_y
    }

    const fn cells(&self) -> u32 {
        (self.tiles_x + 1) * (self.tiles_y + 1)
    }

    /// Returns a grid for `number` pictures.
    ///
    /// A block of the kernel takes 32 columns and 128 rows.
    fn columns(&self, number: u32) -> Launch {
        let grid = (self.width.div_ceil(32), self.height.div_ceil(128).min(65_535), number);
        Launch { grid, block: (32, 8, 1), shared: 0 }
    }
}

/// The kernels for a plane, as far as its tiles decide.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    /// Whether pixels are interpolated cell by cell, between the centres of four tiles.
    ///
    /// Otherwise each one looks for its own four.
    by_cells: bool,
    /// Whether ranks may stand for LUTs.
    may_rank: bool,
    is_small: bool,
    /// The most blocks that may share the counting of a tile.
    most_parts: u64,
}

impl Route {
    /// Returns the route of planes with these tiles.
    pub fn new(geometry: &Geometry, depth: Depth) -> Self {
        let (area, is_deep) = (geometry.area(), depth == Depth::Sixteen);
        let is_small = !is_deep && area <= SMALL_TILE;
        Self {
            by_cells: area >= LEAST_CELL[usize::from(is_deep)],
            may_rank: is_deep && area < RANKS.0,
            is_small,
            most_parts: match is_deep || is_small {
                true => 1,
                false => (geometry.tile_height as u64).min(area / 4096).max(1),
            },
        }
    }

    /// Returns whether the kernels are the same, whatever the number of blocks that share a tile.
    pub fn is_like(self, other: Self) -> bool {
        let Self { most_parts, .. } = other;
        (self.most_parts > 1) == (most_parts > 1) && Self { most_parts, ..self } == other
    }
}

/// The kernels, the settings and the memory for planes of one layout.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tiles {
    tiling: Tiling,
    route: Route,
    depth: Depth,
    /// The levels of a plane.
    levels: u32,
    area: u64,
    strength: Strength,
}

/// The address of each piece of memory for a batch, and the sizes.
struct Memory {
    /// Depth 8: 256 counts for each tile, and the number of blocks that have counted it. Zero
    /// before.
    counts: Address,
    /// Depth 16: bits of the levels that occur in each picture.
    ///
    /// Zero before are these bits, the number of blocks that have looked for them, and the counts
    /// of each block that exceed its shared memory.
    occurs: Address,
    arrived: Address,
    spill: Address,
    clippings: Address,
    steep: Address,
    luts: Address,
    /// The size of the pieces that are zero before, which are the first ones, and of all.
    zeroed: u64,
    bytes: u64,
}

impl Tiles {
    pub(crate) fn new(kernels: &Kernels, layout: &Layout, clahe: &Clahe, operation: &Operation) -> Self {
        let levels = operation.levels.number(layout.depth);
        let geometry = Geometry::new(layout, clahe).with_levels(levels);
        let (depth, area, limit) = (layout.depth, geometry.area(), clahe.clip_limit);
        let clipping = Clipping::new(limit, area, levels).with_noise(clahe.noise, levels);
        let clip = match clipping.most {
            _ if limit.needs_levels(levels) => AUTO,
            Some(most) => u32::try_from(most).unwrap_or(AUTO).min(AUTO - 1),
            None => 0,
        };
        let route = Route::new(&geometry, depth);
        // Ranks do not have the counts of levels.
        let are_enough = matches!(clip, AUTO | 1) && clipping.full_span == 0;
        let may_rank = route.may_rank && are_enough && kernels.shared() > RANKS.1;
        Self {
            tiling: Tiling::new(layout, &geometry, clip, clipping.full_span),
            route: Route { may_rank, ..route },
            depth,
            levels: levels as u32,
            area,
            strength: operation.strength,
        }
    }

    /// Returns the number of levels.
    pub(crate) const fn levels(&self) -> u32 {
        self.levels
    }

    /// Returns whether results must not replace the planes that they are made from.
    ///
    /// Cells of depth 16 may be read more than once.
    pub(crate) fn go_elsewhere(&self) -> bool {
        self.depth == Depth::Sixteen && self.route.by_cells && self.needs_luts()
    }

    /// Returns the bytes of memory that so many planes need.
    pub(crate) fn bytes(&self, kernels: &Kernels, number: u32) -> u64 {
        self.memory(kernels, number, 0).bytes
    }

    /// Returns whether some planes need LUTs, because ranks cannot stand for them.
    fn needs_luts(&self) -> bool {
        !self.route.may_rank || self.tiling.clip == AUTO
    }

    fn tiles(&self) -> u64 {
        self.tiling.tiles().into()
    }

    /// Returns the number of blocks that share a tile at depth 8.
    ///
    /// It is more than one only if there would be fewer blocks than multiprocessors.
    fn parts(&self, kernels: &Kernels, number: u64) -> u64 {
        (u64::from(kernels.multiprocessors()) / (number * self.tiles())).clamp(1, self.route.most_parts)
    }

    /// Returns the number of blocks that make the LUTs of so many planes at depth 16.
    fn blocks16(&self, kernels: &Kernels, number: u64) -> u64 {
        (self.tiles() * number).min(u64::from(kernels.multiprocessors()))
    }

    /// Returns whether counters in shared memory may be too few or too narrow for a tile.
    fn spills(&self, kernels: &Kernels) -> bool {
        let Tiling { tile_width, tile_height, .. } = self.tiling;
        let rows_at_once = (BETWEEN / tile_width).max(1);
        tile_height > rows_at_once || tile_width > BETWEEN || kernels.range16(1 << 10) < 65_536
    }

    /// Returns the memory for so many planes, from `at` on.
    fn memory(&self, kernels: &Kernels, number: u32, at: Address) -> Memory {
        let number = u64::from(number);
        let (is_deep, tiles, mut pieces) =
            (self.depth == Depth::Sixteen, number * self.tiles(), Pieces::default());
        let has_parts = !is_deep && self.parts(kernels, number) > 1;
        let counts = pieces.add(if has_parts { tiles * 1024 } else { 0 });
        let occurs = pieces.add(if is_deep { number * 2048 * 4 } else { 0 });
        let arrived = pieces.add(if is_deep { number } else { tiles } * 4);
        let spills = is_deep && self.spills(kernels);
        let spill = pieces.add(if spills { self.blocks16(kernels, number) * COUNTS16_BYTES } else { 0 });
        let zeroed = if is_deep || has_parts { pieces.bytes() } else { 0 };
        let clippings = pieces.add(if is_deep { number * CLIPPING_BYTES } else { 0 });
        let steep = pieces.add(if is_deep { tiles * 4 } else { 0 });
        let luts = pieces.add(tiles * if is_deep { 65_536 * 2 } else { 256 });
        Memory {
            counts: at + counts,
            occurs: at + occurs,
            arrived: at + arrived,
            spill: at + spill,
            clippings: at + clippings,
            steep: at + steep,
            luts: at + luts,
            zeroed,
            bytes: pieces.bytes(),
        }
    }
}

impl Kernels {
    /// Applies CLAHE to planes, with memory at `at`.
    ///
    /// # Safety
    /// The memory must be as described, and for this stream alone until it is done, and the planes
    /// readable in whole 16-byte words. Results must go elsewhere if [`Tiles::go_elsewhere`].
    pub(crate) unsafe fn clahe_of_planes(
        &self,
        stream: &Stream,
        batch: &Batch,
        tiles: &Tiles,
        at: Address,
    ) -> Result<()> {
        let memory = tiles.memory(self, batch.number, at);
        // SAFETY: guaranteed by the caller.
        unsafe {
            if memory.zeroed > 0 {
                stream.zero(at, memory.zeroed)?;
            }
            match tiles.depth {
                Depth::Eight => self.clahe8(stream, batch, tiles, &memory),
                Depth::Sixteen => self.clahe16(stream, batch, tiles, &memory),
            }
        }
    }

    /// # Safety
    /// As [`Kernels::clahe_of_planes`].
    unsafe fn clahe8(&self, stream: &Stream, batch: &Batch, tiles: &Tiles, memory: &Memory) -> Result<()> {
        let (pictures, t, strength) = (batch.argument(), tiles.tiling, tiles.strength.in_thousandths());
        let &Memory { counts, arrived, luts, .. } = memory;
        let parts = tiles.parts(self, batch.number.into()) as u32;
        let number = tiles.tiling.tiles();
        let (name, blocks, threads) = match tiles.route.is_small {
            true => ("small_tiles8", number.div_ceil(TILES_A_BLOCK), 32 * TILES_A_BLOCK),
            false => ("tiles8", number * parts, 512),
        };
        let launch = Launch { grid: (blocks, batch.number, 1), block: (threads, 1, 1), shared: 0 };
        let arguments = match tiles.route.is_small {
            true => &mut arguments![pictures, t, luts][..],
            false => arguments![pictures, t, parts, counts, arrived, luts],
        };
        // SAFETY: the arguments match the parameters of these kernels; the rest is guaranteed by
        // the caller.
        unsafe { self.loaded.launch(stream, &CLAHE8, (name, ""), launch, arguments)? };
        if !tiles.route.by_cells {
            let (launch, arguments) = (t.columns(batch.number), arguments![pictures, t, luts, strength]);
            // SAFETY: the arguments match the parameters of direct8; the rest is guaranteed by the
            // caller.
            return unsafe { self.loaded.launch(stream, &CLAHE8, ("direct8", ""), launch, arguments) };
        }
        let bands = (tiles.area / 8192).clamp(1, 6) as u32;
        let launch = Launch { grid: (t.cells() * bands, batch.number, 1), block: (32, 8, 1), shared: 0 };
        let arguments = arguments![pictures, t, luts, bands, strength];
        // SAFETY: the arguments match the parameters of cells8; the rest is guaranteed by the
        // caller.
        unsafe { self.loaded.launch(stream, &CLAHE8, ("cells8", ""), launch, arguments) }
    }

    /// # Safety
    /// As [`Kernels::clahe_of_planes`].
    unsafe fn clahe16(&self, stream: &Stream, batch: &Batch, tiles: &Tiles, memory: &Memory) -> Result<()> {
        let (pictures, clip, levels, area) = (batch.argument(), tiles.tiling.clip, tiles.levels, tiles.area);
        let &Memory { occurs, arrived, clippings, .. } = memory;
        let may_rank = u32::from(tiles.route.may_rank);
        let grid = self.spread(batch.layout.pixels(), batch.number, 1 << 15, 2);
        let launch = Launch { grid, block: (1024, 1, 1), shared: 0 };
        let found = arguments![pictures, clip, levels, area, may_rank, occurs, arrived, clippings];
        // SAFETY: the arguments match the parameters of clippings16; the rest is guaranteed by the
        // caller.
        unsafe {
            self.launch16(stream, "clippings16", launch, found)?;
            if tiles.route.may_rank {
                self.by_ranks16(stream, batch, tiles, memory)?;
            }
            if tiles.needs_luts() { self.by_luts16(stream, batch, tiles, memory) } else { Ok(()) }
        }
    }

    /// Maps the planes with ranks instead of LUTs.
    ///
    /// # Safety
    /// As [`Kernels::clahe_of_planes`].
    unsafe fn by_ranks16(
        &self,
        stream: &Stream,
        batch: &Batch,
        tiles: &Tiles,
        memory: &Memory,
    ) -> Result<()> {
        let (pictures, t, number) = (batch.argument(), tiles.tiling, batch.number);
        let (&Memory { clippings, luts, .. }, strength) = (memory, tiles.strength.in_thousandths());
        let by_tile = Launch { grid: (t.tiles(), number, 1), block: (256, 1, 1), shared: 0 };
        let by_cell = Launch { grid: (t.cells(), number, 1), block: (32, 8, 1), shared: RANKS.1 };
        // SAFETY: the arguments match the parameters of these kernels; the rest is guaranteed by
        // the caller.
        unsafe {
            self.launch16(stream, "ranks16", by_tile, arguments![pictures, t, clippings, luts])?;
            let mapped = arguments![pictures, t, clippings, luts, strength];
            self.launch16(stream, "rank_cells16", by_cell, mapped)
        }
    }

    /// Maps the other planes.
    ///
    /// # Safety
    /// As [`Kernels::clahe_of_planes`].
    unsafe fn by_luts16(&self, stream: &Stream, batch: &Batch, tiles: &Tiles, memory: &Memory) -> Result<()> {
        let (pictures, t, number) = (batch.argument(), tiles.tiling, batch.number);
        let &Memory { spill, clippings, steep, luts, .. } = memory;
        let strength = tiles.strength.in_thousandths();
        let (blocks, capacity) = (tiles.blocks16(self, number.into()) as u32, self.range16(1 << 10));
        let launch = Launch { grid: (blocks, 1, 1), block: (1024, 1, 1), shared: capacity * 2 };
        let made = arguments![pictures, number, t, clippings, capacity, spill, luts, steep];
        // SAFETY: the arguments match the parameters of these kernels; the rest is guaranteed by
        // the caller.
        unsafe {
            self.launch16(stream, "tiles16", launch, made)?;
            if !tiles.route.by_cells {
                let mapped = arguments![pictures, t, clippings, luts, strength];
                return self.launch16(stream, "direct16", t.columns(number), mapped);
            }
            let shared = self.shared - (1 << 10);
            let launch = Launch { grid: (t.cells(), number, 1), block: (32, 32, 1), shared };
            let mapped = arguments![pictures, t, clippings, luts, steep, shared, strength];
            self.launch16(stream, "cells16", launch, mapped)
        }
    }

    /// # Safety
    /// As [`cuda::Function::launch`], for this kernel of [`CLAHE16`].
    unsafe fn launch16(
        &self,
        stream: &Stream,
        name: &'static str,
        launch: Launch,
        arguments: &mut [*mut c_void],
    ) -> Result<()> {
        // SAFETY: guaranteed by the caller.
        unsafe { self.loaded.launch(stream, &CLAHE16, (name, ""), launch, arguments) }
    }
}
