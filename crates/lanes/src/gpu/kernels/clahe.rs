//! The launches of the CLAHE kernels.

use super::{Kernels, Launch, Limits, Selectors, Span, arguments, line, selector};
use crate::gpu::driver::{Address, Result, Stream};
use equalize::clahe::Geometry;
use equalize::clip::Clipping;
use equalize::{Depth, Layout};
use histeqd_kernels::{CLAHE8, CLAHE16};

/// At depth 8, tiles of fewer pixels are interpolated directly from their LUTs.
const LEAST_CELL: usize = 2048;

/// The most cells for which 16-bit LUTs are laid out side by side, at 512 KiB per cell.
const MAX_TABLES: u64 = 400;

/// Mirrors `Tiling` in `kernels/clahe.cuh`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Tiling {
    pub width: u32,
    pub height: u32,
    pub tiles_x: u32,
    pub tiles_y: u32,
    pub tile_width: u32,
    pub tile_height: u32,
    pub clip: u32,
    pub lut_scale: f32,
    pub inverse_width: f32,
    pub inverse_height: f32,
}

/// How a plane goes through the kernels, as far as its tiles decide.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    /// Whether pixels are interpolated cell by cell, between the centres of four tiles; otherwise each one looks for its own four.
    by_cells: bool,
    /// The most blocks that may share the counting of a tile.
    most_parts: u64,
}

impl Route {
    pub fn new(geometry: &Geometry, depth: Depth) -> Self {
        let area = geometry.tile_width * geometry.tile_height;
        match depth {
            Depth::Eight => {
                let most_parts = geometry.tile_height.min(area / 4096).max(1) as u64;
                Self { by_cells: area >= LEAST_CELL, most_parts }
            }
            Depth::Sixteen => Self { by_cells: cells(geometry) <= MAX_TABLES, most_parts: 1 },
        }
    }

    /// Returns whether the kernels are the same, except for how many blocks share a tile if any do.
    pub fn is_like(self, other: Self) -> bool {
        self.by_cells == other.by_cells && (self.most_parts > 1) == (other.most_parts > 1)
    }
}

fn cells(geometry: &Geometry) -> u64 {
    (geometry.columns as u64 + 1) * (geometry.rows as u64 + 1)
}

/// What CLAHE of a plane needs on the device, besides the plane, and how it is shared out there.
#[derive(Clone, Copy)]
pub struct ClaheMemory {
    depth: Depth,
    route: Route,
    pub tiling: Tiling,
    /// The first of the levels over which the excess is spread at depth 16, and how many there are.
    spread: (u32, u32),
    tiles: u64,
    /// Blocks for the tiles' histograms: per tile (depth 8), or in total (depth 16).
    blocks: u32,
    cells: Option<u64>,
}

impl ClaheMemory {
    /// The clipping stays until [`ClaheMemory::with`] changes it.
    pub fn new(layout: &Layout, geometry: &Geometry, clipping: &Clipping, limits: &Limits) -> Self {
        let tiles = geometry.columns as u64 * geometry.rows as u64;
        let route = Route::new(geometry, layout.depth);
        let blocks = match layout.depth {
            Depth::Eight => (u64::from(limits.multiprocessors) / tiles).clamp(1, route.most_parts),
            Depth::Sixteen => u64::from(limits.multiprocessors).min(tiles),
        };
        let side_by_side = layout.depth == Depth::Sixteen && route.by_cells;
        let memory = Self {
            depth: layout.depth,
            route,
            tiling: Tiling {
                width: layout.width,
                height: layout.height,
                tiles_x: geometry.columns as u32,
                tiles_y: geometry.rows as u32,
                tile_width: geometry.tile_width as u32,
                tile_height: geometry.tile_height as u32,
                clip: 0,
                lut_scale: geometry.scale,
                inverse_width: 1.0 / geometry.tile_width as f32,
                inverse_height: 1.0 / geometry.tile_height as f32,
            },
            spread: (0, 0),
            tiles,
            blocks: blocks as u32,
            cells: side_by_side.then(|| cells(geometry)),
        };
        memory.with(clipping)
    }

    /// Returns the same for another clipping.
    pub fn with(self, clipping: &Clipping) -> Self {
        let clip = clipping.most.map_or(0, |most| u32::try_from(most).unwrap_or(u32::MAX));
        let spread = (clipping.spread.start, clipping.spread.end - clipping.spread.start);
        Self { tiling: Tiling { clip, ..self.tiling }, spread, ..self }
    }

    /// Returns the pixels of a tile.
    pub fn area(&self) -> u64 {
        u64::from(self.tiling.tile_width) * u64::from(self.tiling.tile_height)
    }

    /// Returns the size of the counts in bytes. They are zero before and after.
    pub fn counts_bytes(&self) -> u64 {
        match self.depth {
            Depth::Eight => self.tiles * 257 * 4,
            Depth::Sixteen => u64::from(self.blocks) * 65536 * 4,
        }
    }

    /// Returns the size of the LUTs in bytes.
    pub fn luts_bytes(&self) -> u64 {
        self.tile_luts_bytes() + self.cells.map_or(0, |cells| cells * 65536 * 8)
    }

    fn tile_luts_bytes(&self) -> u64 {
        (self.tiles * self.depth.levels() as u64 * self.depth.bytes() as u64).next_multiple_of(256)
    }
}

impl Kernels {
    /// Applies CLAHE to a plane, in place.
    ///
    /// # Safety
    /// Only this stream may use the memory until it is done. `counts` and `luts` must be as large as `memory` says, and so must the plane,
    /// rounded up to 16 bytes.
    pub unsafe fn clahe(
        &self,
        stream: &Stream,
        plane: Span,
        memory: &ClaheMemory,
        counts: Address,
        luts: Address,
    ) -> Result<()> {
        // SAFETY: guaranteed by the caller.
        unsafe {
            match memory.depth {
                Depth::Eight => self.clahe8(stream, plane.at, memory, counts, luts),
                Depth::Sixteen => self.clahe16(stream, plane, memory, counts, luts),
            }
        }
    }

    /// # Safety
    /// As [`Kernels::clahe`].
    unsafe fn clahe8(
        &self,
        stream: &Stream,
        plane: Address,
        memory: &ClaheMemory,
        counts: Address,
        luts: Address,
    ) -> Result<()> {
        let t = memory.tiling;
        let (parts, arrived) = (memory.blocks, counts + memory.tiles * 1024);
        let launch = line(memory.tiles * u64::from(parts), 512);
        let arguments = arguments![plane, t, parts, counts, arrived, luts];
        // SAFETY: the arguments match the parameters of clahe_tiles8; the rest is guaranteed by the caller.
        unsafe { self.loaded.launch(stream, (&CLAHE8, ("clahe_tiles8", "")), launch, arguments)? };
        if !memory.route.by_cells {
            let name = ("clahe_direct8", "");
            // SAFETY: the arguments match the parameters of clahe_direct8; the rest is guaranteed by the caller.
            return unsafe {
                self.loaded.launch(stream, (&CLAHE8, name), columns(&t), arguments![plane, t, luts])
            };
        }
        let area = t.tile_width as usize * t.tile_height as usize;
        let bands = (area / 8192).clamp(1, 6) as u32;
        let cells = (u64::from(t.tiles_x) + 1) * (u64::from(t.tiles_y) + 1) * u64::from(bands);
        let launch = Launch { block: (32, 8, 1), ..line(cells, 256) };
        let arguments = arguments![plane, t, luts, bands];
        // SAFETY: the arguments match the parameters of clahe_cells8; the rest is guaranteed by the caller.
        unsafe { self.loaded.launch(stream, (&CLAHE8, ("clahe_cells8", "")), launch, arguments) }
    }

    /// # Safety
    /// As [`Kernels::clahe`].
    unsafe fn clahe16(
        &self,
        stream: &Stream,
        plane: Span,
        memory: &ClaheMemory,
        counts: Address,
        luts: Address,
    ) -> Result<()> {
        let Span { at, byte_orders, .. } = plane;
        let (from, orders) = (selector(byte_orders.from), Selectors::new(byte_orders));
        let (t, (spread_from, spread)) = (memory.tiling, memory.spread);
        let capacity = self.limits.range16(1 << 10);
        let launch = Launch { shared: capacity * 2, ..line(u64::from(memory.blocks), 1024) };
        let arguments = arguments![at, t, from, spread_from, spread, capacity, counts, luts];
        // SAFETY: the arguments match the parameters of clahe_tiles16; the rest is guaranteed by the caller.
        unsafe { self.loaded.launch(stream, (&CLAHE16, ("clahe_tiles16", "")), launch, arguments)? };
        if memory.cells.is_none() {
            let (name, arguments) = (("clahe_direct16", ""), arguments![at, t, orders, luts]);
            // SAFETY: the arguments match the parameters of clahe_direct16; the rest is guaranteed by the caller.
            return unsafe { self.loaded.launch(stream, (&CLAHE16, name), columns(&t), arguments) };
        }
        let tables = luts + memory.tile_luts_bytes();
        let launch = Launch { grid: (32, t.tiles_x + 1, t.tiles_y + 1), ..line(32, 1024) };
        let name = ("clahe_tables16", "");
        // SAFETY: the arguments match the parameters of clahe_tables16; the rest is guaranteed by the caller.
        unsafe { self.loaded.launch(stream, (&CLAHE16, name), launch, arguments![t, luts, tables])? };
        let (name, arguments) = (("clahe_cells16", ""), arguments![at, t, orders, tables]);
        // SAFETY: the arguments match the parameters of clahe_cells16; the rest is guaranteed by the caller.
        unsafe { self.loaded.launch(stream, (&CLAHE16, name), columns(&t), arguments) }
    }
}

/// Returns a launch with a block for every 32 columns and 128 rows.
fn columns(t: &Tiling) -> Launch {
    let grid = (t.width.div_ceil(32), t.height.div_ceil(128).min(65535), 1);
    Launch { grid, block: (32, 8, 1), shared: 0 }
}
