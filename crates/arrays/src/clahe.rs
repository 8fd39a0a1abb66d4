//! CLAHE of batches.
#![allow(unsafe_code)]

use cuda::{Address, Launch, Result, arguments};
use equalize::clahe::Geometry;
use equalize::clip::Clipping;
use equalize::{Clahe, Depth, Layout, Operation, Pixel, Strength};
use histeqd_kernels::{BATCH_CLAHE8, BATCH_CLAHE16, BATCH_PLANES};

use crate::batch::{Batch, Pictures};
use crate::gpu::Stream;
use crate::kernels::range16;
use crate::rule::colours;
use crate::workspace::{Pieces, Workspace};

/// Bytes of a workspace that a call may take for a part of a batch.
const MOST: u64 = 1 << 30;

/// The most pictures of a launch: a grid has at most 65,535 rows.
const MOST_PICTURES: u64 = 65_535;

/// Tiles of fewer pixels are interpolated directly from their LUTs, not cell by cell.
const LEAST_CELL: [u64; 2] = [2048, 16_384];

/// The number of luma among the channels. `LUMA` in the kernels.
const LUMA: u32 = u32::MAX;

/// A clip limit that depends on the levels of a picture. `AUTO` in the kernels.
const AUTO: u32 = u32::MAX;

/// The size of a `Clipping` in `kernels/batch_clahe16.cu`.
const CLIPPING_BYTES: u64 = 5 * 4;

/// Mirrors `Tiling` in `kernels/clahe.cuh`.
#[repr(C)]
#[derive(Clone, Copy)]
struct Tiling {
    width: u32,
    height: u32,
    tiles_x: u32,
    tiles_y: u32,
    tile_width: u32,
    tile_height: u32,
    clip: u32,
    lut_scale: f32,
    inverse_width: f32,
    inverse_height: f32,
}

impl Tiling {
    fn new(layout: &Layout, geometry: &Geometry, clip: u32) -> Self {
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
        }
    }

    const fn cells(&self) -> u32 {
        (self.tiles_x + 1) * (self.tiles_y + 1)
    }

    /// Returns the grid of kernels in which a block takes 32 columns and 128 rows, for `number` pictures.
    fn columns(&self, number: u32) -> Launch {
        let grid = (self.width.div_ceil(32), self.height.div_ceil(128).min(65_535), number);
        Launch { grid, block: (32, 8, 1), shared: 0 }
    }
}

/// How planes go through the kernels.
#[derive(Clone, Copy)]
struct Task {
    tiling: Tiling,
    tiles: u64,
    area: u64,
    depth: Depth,
    /// How far to go when a plane is mapped. 1000 where that is done as it is put back.
    strength: u32,
}

impl Task {
    fn by_cells(&self) -> bool {
        self.area >= LEAST_CELL[usize::from(self.depth == Depth::Sixteen)]
    }

    /// Returns the bytes that a picture's LUTs take, and its counts or the levels that occur.
    const fn bytes(&self) -> (u64, u64) {
        match self.depth {
            Depth::Eight => (self.tiles * 256, self.tiles * 257 * 4),
            Depth::Sixteen => (self.tiles * 65_536 * 2, (2048 + 1) * 4 + CLIPPING_BYTES),
        }
    }
}

impl Stream {
    /// Applies CLAHE to pictures.
    ///
    /// # Safety
    /// As [`Stream::equalize`].
    pub(crate) unsafe fn clahe(&self, batch: &Batch, clahe: &Clahe, operation: &Operation) -> Result<()> {
        let layout = &batch.layout;
        let geometry = Geometry::new(layout, clahe);
        let clip = if clahe.clip_limit.needs_levels(layout.depth.levels()) {
            AUTO
        } else {
            let most = Clipping::new(clahe.clip_limit, geometry.area(), layout.depth.levels()).most;
            most.map_or(0, |most| u32::try_from(most).unwrap_or(u32::MAX - 1).min(u32::MAX - 1))
        };
        let is_plane = layout.pixel == Pixel::Gray;
        let strength = if is_plane { operation.strength } else { Strength::FULL };
        let task = Task {
            tiling: Tiling::new(layout, &geometry, clip),
            tiles: geometry.columns as u64 * geometry.rows as u64,
            area: geometry.area(),
            depth: layout.depth,
            strength: strength.in_thousandths(),
        };
        let (luts, counts) = task.bytes();
        let plane = (layout.pixels() * layout.depth.bytes() as u64).next_multiple_of(16);
        let most = (MOST / (luts + counts + 2 * plane)).min(MOST_PICTURES);
        for (_, batch) in batch.parts(most) {
            // SAFETY: guaranteed by the caller.
            unsafe {
                match is_plane {
                    true => self.clahe_of_gray(&batch, &task, plane)?,
                    false => self.clahe_of_channels(&batch, &task, plane, operation)?,
                }
            }
        }
        Ok(())
    }

    /// # Safety
    /// As [`Stream::equalize`], for gray pictures; a plane takes `plane` bytes.
    unsafe fn clahe_of_gray(&self, batch: &Batch, task: &Task, plane: u64) -> Result<()> {
        // Cells of depth 16 may be gone through more than once, so they cannot be changed in place.
        if batch.from.at != batch.to.at || task.depth == Depth::Eight || !task.by_cells() {
            // SAFETY: guaranteed by the caller.
            return unsafe { self.clahe_of_planes(batch, task) };
        }
        let mut pieces = Pieces::default();
        let copies = pieces.add(u64::from(batch.number) * plane);
        let held = Workspace::new(self, &pieces, 0)?;
        let from = Pictures { at: held.at(copies), pitch: plane };
        // SAFETY: guaranteed by the caller; the workspace has room for the copies.
        unsafe {
            for number in 0..batch.number {
                let (original, copy) = (batch.from.skip(number), from.skip(number));
                self.copy(original.at, copy.at, batch.bytes())?;
            }
            self.clahe_of_planes(&Batch { from, ..*batch }, task)
        }
    }

    /// # Safety
    /// As [`Stream::equalize`], for pictures of several channels; a plane takes `plane` bytes.
    unsafe fn clahe_of_channels(
        &self,
        batch: &Batch,
        task: &Task,
        plane: u64,
        operation: &Operation,
    ) -> Result<()> {
        let number = u64::from(batch.number);
        let mut pieces = Pieces::default();
        let (old, new) = (pieces.add(number * plane), pieces.add(number * plane));
        let held = Workspace::new(self, &pieces, 0)?;
        let [old, new] = [old, new].map(|at| Pictures { at: held.at(at), pitch: plane });
        let layout = Layout { pixel: Pixel::Gray, ..batch.layout };
        let planes = Batch { layout, number: batch.number, from: old, to: new };
        let has_luma = matches!(batch.layout.pixel, Pixel::Rgb | Pixel::Rgba) && !operation.is_per_channel();
        let channels = colours(batch.layout.pixel, operation.is_per_channel()) as u32;
        for channel in 0..channels {
            let number = if has_luma { LUMA } else { channel };
            // The first insertion writes all channels.
            let batch = if channel == 0 { *batch } else { batch.in_place() };
            // SAFETY: guaranteed by the caller; the workspace has room for the planes.
            unsafe {
                self.exchange(&batch, old, number, None)?;
                self.clahe_of_planes(&planes, task)?;
                self.exchange(&batch, new, number, Some(operation.strength))?;
            }
        }
        Ok(())
    }

    /// Copies luma or a channel into planes, or, with a strength, writes pictures with those planes' new values.
    ///
    /// # Safety
    /// As [`Stream::equalize`]; the planes must have room.
    unsafe fn exchange(
        &self,
        batch: &Batch,
        planes: Pictures,
        channel: u32,
        insert: Option<Strength>,
    ) -> Result<()> {
        let step = match (insert.is_some(), batch.layout.depth) {
            (false, Depth::Eight) => "batch_extract8",
            (false, Depth::Sixteen) => "batch_extract16",
            (true, Depth::Eight) => "batch_insert8",
            (true, Depth::Sixteen) => "batch_insert16",
        };
        let pixel = match batch.layout.pixel {
            Pixel::Gray | Pixel::GrayAlpha => "_gray_alpha",
            Pixel::Rgb => "_rgb",
            Pixel::Rgba => "_rgba",
        };
        let grid = self.gpu.kernels.spread(batch.layout.pixels(), batch.number, 1 << 13, 4);
        let launch = Launch { grid, block: (512, 1, 1), shared: 0 };
        let (pictures, at) = (batch.argument(), planes.at);
        let pitch = planes.pitch / batch.layout.depth.bytes() as u64;
        let strength = insert.map_or(0, Strength::in_thousandths);
        let arguments = arguments![pictures, at, pitch, channel, strength];
        // `batch_extract*` takes no strength, which is the last argument.
        let arguments = if insert.is_some() { &mut arguments[..] } else { &mut arguments[..4] };
        // SAFETY: the arguments match the parameters of these kernels; the rest is guaranteed by the caller.
        unsafe { self.gpu.kernels.loaded.launch(self, (&BATCH_PLANES, (step, pixel)), launch, arguments) }
    }

    /// # Safety
    /// As [`Stream::equalize`], for gray pictures.
    unsafe fn clahe_of_planes(&self, batch: &Batch, task: &Task) -> Result<()> {
        // SAFETY: guaranteed by the caller.
        unsafe {
            match task.depth {
                Depth::Eight => self.clahe8(batch, task),
                Depth::Sixteen => self.clahe16(batch, task),
            }
        }
    }

    /// # Safety
    /// As [`Stream::equalize`], for gray pictures of 8 bits.
    unsafe fn clahe8(&self, batch: &Batch, task: &Task) -> Result<()> {
        let (kernels, number) = (&self.gpu.kernels, u64::from(batch.number));
        let &Task { tiling, tiles, area, strength, .. } = task;
        let mut pieces = Pieces::default();
        let counts = pieces.add(number * tiles * 1024);
        let arrived = pieces.add(number * tiles * 4);
        let luts = pieces.add(number * tiles * 256);
        // Blocks that share a tile, if there are not enough tiles for all: of 512 threads, so that a multiprocessor takes four.
        let most = u64::from(tiling.tile_height).min(area / 4096).max(1);
        let parts = (u64::from(4 * kernels.multiprocessors) / (number * tiles)).clamp(1, most) as u32;
        let zeroed = if parts > 1 { arrived + number * tiles * 4 } else { 0 };
        let held = Workspace::new(self, &pieces, zeroed)?;
        let (counts, arrived, luts) = (held.at(counts), held.at(arrived), held.at(luts));
        let (pictures, t) = (batch.argument(), tiling);
        let grid = (tiles as u32 * parts, batch.number, 1);
        let launch = Launch { grid, block: (512, 1, 1), shared: 0 };
        let arguments = arguments![pictures, t, parts, counts, arrived, luts];
        // SAFETY: the arguments match the parameters of batch_tiles8; the rest is guaranteed by the caller.
        unsafe { kernels.loaded.launch(self, (&BATCH_CLAHE8, ("batch_tiles8", "")), launch, arguments)? };
        if !task.by_cells() {
            let (launch, arguments) = (t.columns(batch.number), arguments![pictures, t, luts, strength]);
            // SAFETY: the arguments match the parameters of batch_direct8; the rest is guaranteed by the caller.
            return unsafe {
                kernels.loaded.launch(self, (&BATCH_CLAHE8, ("batch_direct8", "")), launch, arguments)
            };
        }
        let bands = (area / 8192).clamp(1, 6) as u32;
        let launch = Launch { grid: (t.cells() * bands, batch.number, 1), block: (32, 8, 1), shared: 0 };
        let arguments = arguments![pictures, t, luts, bands, strength];
        // SAFETY: the arguments match the parameters of batch_cells8; the rest is guaranteed by the caller.
        unsafe { kernels.loaded.launch(self, (&BATCH_CLAHE8, ("batch_cells8", "")), launch, arguments) }
    }

    /// # Safety
    /// As [`Stream::equalize`], for gray pictures of 16 bits; unless tiles are small, the results must go elsewhere.
    unsafe fn clahe16(&self, batch: &Batch, task: &Task) -> Result<()> {
        let (kernels, number) = (&self.gpu.kernels, u64::from(batch.number));
        let &Task { tiling, tiles, area, strength, .. } = task;
        let capacity = range16(kernels.shared, 1 << 10);
        let blocks = (tiles * number).min(u64::from(kernels.multiprocessors));
        let mut pieces = Pieces::default();
        let occurs = pieces.add(number * 2048 * 4);
        let arrived = pieces.add(number * 4);
        // `HalfCounters::BETWEEN`: counters in shared memory cannot overflow in tiles of fewer pixels, and then nothing is spilled.
        let rows_at_once = ((65_535 - 8191) / tiling.tile_width).max(1);
        let spills = tiling.tile_height > rows_at_once || tiling.tile_width > 57_344 || capacity < 65_536;
        let spill = pieces.add(if spills { blocks * 65_536 * 4 } else { 0 });
        let zeroed = if spills { spill + blocks * 65_536 * 4 } else { arrived + number * 4 };
        let clippings = pieces.add(number * CLIPPING_BYTES);
        let luts = pieces.add(number * tiles * 65_536 * 2);
        let held = Workspace::new(self, &pieces, zeroed)?;
        let [occurs, arrived, spill, clippings, luts] =
            [occurs, arrived, spill, clippings, luts].map(|piece| held.at(piece));
        let (pictures, t, clip) = (batch.argument(), tiling, tiling.clip);

        let grid = kernels.spread(batch.layout.pixels(), batch.number, 1 << 15, 2);
        let launch = Launch { grid, block: (1024, 1, 1), shared: 0 };
        let arguments = arguments![pictures, clip, area, occurs, arrived, clippings];
        // SAFETY: the arguments match the parameters of batch_clippings16; the rest is guaranteed by the caller.
        unsafe {
            kernels.loaded.launch(self, (&BATCH_CLAHE16, ("batch_clippings16", "")), launch, arguments)?;
        }

        let launch = Launch { grid: (blocks as u32, 1, 1), block: (1024, 1, 1), shared: capacity * 2 };
        let pictures_in_all = batch.number;
        let arguments = arguments![pictures, pictures_in_all, t, clippings, capacity, spill, luts];
        // SAFETY: the arguments match the parameters of batch_tiles16; the rest is guaranteed by the caller.
        unsafe { kernels.loaded.launch(self, (&BATCH_CLAHE16, ("batch_tiles16", "")), launch, arguments)? };
        if !task.by_cells() {
            let (launch, arguments) = (t.columns(batch.number), arguments![pictures, t, luts, strength]);
            let kernel = (&BATCH_CLAHE16, ("batch_direct16", ""));
            // SAFETY: the arguments match the parameters of batch_direct16; the rest is guaranteed by the caller.
            return unsafe { kernels.loaded.launch(self, kernel, launch, arguments) };
        }
        // SAFETY: guaranteed by the caller.
        unsafe { self.map_cells16(batch, task, (clippings, luts)) }
    }

    /// # Safety
    /// As [`Stream::clahe16`].
    unsafe fn map_cells16(
        &self,
        batch: &Batch,
        task: &Task,
        (clippings, luts): (Address, Address),
    ) -> Result<()> {
        let kernels = &self.gpu.kernels;
        // 8 bytes an entry, an even number of them.
        let shared = (kernels.shared - (1 << 10)).min(192 << 10);
        let capacity = shared / 16 * 2;
        let bands = 1_u32;
        let (pictures, t, strength) = (batch.argument(), task.tiling, task.strength);
        let launch = Launch { grid: (t.cells() * bands, batch.number, 1), block: (32, 32, 1), shared };
        let arguments = arguments![pictures, t, clippings, luts, bands, capacity, strength];
        // SAFETY: the arguments match the parameters of batch_cells16; the rest is guaranteed by the caller.
        unsafe { kernels.loaded.launch(self, (&BATCH_CLAHE16, ("batch_cells16", "")), launch, arguments) }
    }
}
