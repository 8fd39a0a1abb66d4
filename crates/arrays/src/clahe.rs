//! CLAHE of batches.
#![allow(unsafe_code)]

use cuda::{Address, Result};
use equalize::{ByteOrders, Clahe, Layout, Operation, Pixel};

use crate::batch::{Batch, BatchPlanes, Counts, Luts, Pictures};
use crate::colours::{Colouring, Relight, Relighting};
use crate::exposure::ExposureTables;
use crate::gpu::Stream;
use crate::kernels::Kernels;
use crate::rule::colours;
use crate::tables::Planes;
use crate::tiles::Tiles;
use crate::workspace::{Pieces, Workspace};

/// Bytes of a workspace that a call may take for a part of a batch.
const MOST: u64 = 1 << 30;

/// The most pictures of a launch: a grid has at most 65,535 rows.
const MOST_PICTURES: u64 = 65_535;

/// CLAHE of pictures of one layout.
#[derive(Clone, Copy, Debug)]
pub struct ClaheTask {
    tiles: Tiles,
    operation: Operation,
    relight: Option<Relight>,
    is_gray: bool,
    layout: Layout,
    /// The bytes of a plane, and the number of planes of each picture kept in memory.
    plane: u64,
    planes: u64,
}

/// The address of each piece of a task's memory.
struct Memory {
    /// The old planes and the new ones, possibly in the same place.
    old: Pictures,
    new: Pictures,
    /// The counts for exposure, 32 bits each, and the tables of exposure.
    counts: Address,
    tables: Address,
    /// The memory for tiles.
    tiles: Address,
}

impl ClaheTask {
    /// Returns the launches and the memory for such pictures.
    ///
    /// `relight`: [`Relight::new`] of them.
    pub fn new(
        kernels: &Kernels,
        layout: &Layout,
        clahe: &Clahe,
        operation: &Operation,
        relight: Option<Relight>,
    ) -> Self {
        let tiles = Tiles::new(kernels, layout, clahe, operation);
        let is_gray = layout.pixel == Pixel::Gray;
        Self {
            tiles,
            operation: *operation,
            relight,
            is_gray,
            layout: *layout,
            plane: (layout.pixels() * layout.depth.bytes() as u64).next_multiple_of(16),
            planes: u64::from(tiles.go_elsewhere()) + u64::from(!is_gray),
        }
    }

    /// Returns the bytes of memory that [`Kernels::clahe`] needs for so many pictures.
    pub fn bytes(&self, kernels: &Kernels, number: u32) -> u64 {
        let mut pieces = Pieces::default();
        self.add_memory(number, 0, &mut pieces);
        pieces.bytes() + self.tiles.bytes(kernels, number)
    }

    /// Adds the memory for so many pictures, from `at` on, without that of their tiles.
    fn add_memory(&self, number: u32, at: Address, pieces: &mut Pieces) -> Memory {
        let bytes = u64::from(number) * self.plane;
        let old = pieces.add(if self.planes > 0 { bytes } else { 0 });
        let new = if self.planes > 1 { pieces.add(bytes) } else { old };
        let exposed = if self.operation.exposure.is_some() { u64::from(number) * self.entries() } else { 0 };
        let counts = pieces.add(exposed * 4);
        let tables = pieces.add(exposed * self.layout.depth.bytes() as u64);
        let planes = |piece| Pictures { at: at + piece, pitch: self.plane };
        Memory {
            old: planes(old),
            new: planes(new),
            counts: at + counts,
            tables: at + tables,
            tiles: at + pieces.bytes(),
        }
    }

    /// Returns the way in which planes are read.
    const fn colouring(&self) -> Colouring {
        Colouring { per_channel: self.operation.is_per_channel(), relight: self.relight }
    }

    /// Returns the number of equalized planes of a picture.
    fn equalized(&self) -> usize {
        Planes::equalized(self.colouring()).number(self.layout.pixel)
    }

    /// Returns the number of entries of a picture's tables.
    fn entries(&self) -> u64 {
        (self.equalized() * self.layout.depth.levels()) as u64
    }

    /// Returns the layout of a plane.
    const fn plane_layout(&self) -> Layout {
        Layout { pixel: Pixel::Gray, ..self.layout }
    }
}

impl Kernels {
    /// Applies CLAHE to pictures, with memory at `at`.
    ///
    /// # Safety
    /// The memory must be as described, and for this stream alone until it is done; pictures of one
    /// channel must be readable in whole 16-byte words.
    pub unsafe fn clahe(
        &self,
        stream: &cuda::Stream,
        batch: &Batch,
        task: &ClaheTask,
        at: Address,
    ) -> Result<()> {
        let memory = task.add_memory(batch.number, at, &mut Pieces::default());
        // SAFETY: guaranteed by the caller; there is room for the planes, the counts and the
        // tables.
        unsafe {
            if let Some(exposure) = task.operation.exposure {
                stream.zero(memory.counts, u64::from(batch.number) * task.entries() * 4)?;
                self.count(stream, batch, Planes::equalized(task.colouring()), None, memory.counts)?;
                let counts = Counts { at: memory.counts, are_wide: false };
                let planes = BatchPlanes::of(batch, task.equalized());
                let tables = ExposureTables { at: memory.tables, mapped: None };
                self.expose(stream, counts, planes, task.tiles.levels(), exposure, tables)?;
            }
            match task.is_gray {
                true => self.clahe_of_gray(stream, batch, task, &memory),
                false => self.clahe_of_channels(stream, batch, task, &memory),
            }
        }
    }

    /// Sends planes through the tables of their exposure, if any.
    ///
    /// They are the planes with this `number` of each picture.
    ///
    /// # Safety
    /// As [`Kernels::clahe`].
    unsafe fn expose_planes(
        &self,
        stream: &cuda::Stream,
        planes: &Batch,
        task: &ClaheTask,
        memory: &Memory,
        number: u32,
    ) -> Result<()> {
        if task.operation.exposure.is_none() {
            return Ok(());
        }
        let depth = task.layout.depth;
        let at = memory.tables + u64::from(number) * (depth.levels() * depth.bytes()) as u64;
        let luts = Luts { at, stride: task.entries() as u32 };
        // SAFETY: guaranteed by the caller.
        unsafe { self.map(stream, planes, Colouring::LUMA, luts) }
    }

    /// # Safety
    /// As [`Kernels::clahe`]; the old planes, which are copies, must have room.
    unsafe fn clahe_of_gray(
        &self,
        stream: &cuda::Stream,
        batch: &Batch,
        task: &ClaheTask,
        memory: &Memory,
    ) -> Result<()> {
        let (tiles, copies) = (&task.tiles, memory.old);
        // SAFETY: guaranteed by the caller.
        unsafe {
            if task.operation.exposure.is_some() {
                let exposed = if tiles.go_elsewhere() { copies } else { batch.to };
                let ByteOrders { from, to } = batch.byte_orders;
                let native = ByteOrders::NATIVE;
                let read = Batch { to: exposed, byte_orders: ByteOrders { from, ..native }, ..*batch };
                self.expose_planes(stream, &read, task, memory, 0)?;
                let written = Batch { from: exposed, byte_orders: ByteOrders { to, ..native }, ..*batch };
                return self.clahe_of_planes(stream, &written, tiles, memory.tiles);
            }
            if batch.from.at != batch.to.at || !tiles.go_elsewhere() {
                return self.clahe_of_planes(stream, batch, tiles, memory.tiles);
            }
            for number in 0..batch.number {
                let (original, copy) = (batch.from.skip(number), copies.skip(number));
                stream.copy(original.at, copy.at, batch.bytes())?;
            }
            self.clahe_of_planes(stream, &Batch { from: copies, ..*batch }, tiles, memory.tiles)
        }
    }

    /// # Safety
    /// As [`Kernels::clahe`]; the planes must have room.
    unsafe fn clahe_of_channels(
        &self,
        stream: &cuda::Stream,
        batch: &Batch,
        task: &ClaheTask,
        memory: &Memory,
    ) -> Result<()> {
        let &Memory { old, new, .. } = memory;
        let exposed = Batch::to_read(task.plane_layout(), batch.number, old);
        let planes = Batch { to: new, ..exposed };
        if let Some(relight) = task.relight {
            // SAFETY: guaranteed by the caller.
            return unsafe {
                match relight {
                    Relight::Hue { .. } => self.extract(stream, batch, old, None)?,
                    Relight::Lab { tables } => self.extract_lightness(stream, batch, old, tables)?,
                }
                self.expose_planes(stream, &exposed, task, memory, 0)?;
                self.clahe_of_planes(stream, &planes, &task.tiles, memory.tiles)?;
                self.insert_brightness(stream, batch, new, relight)
            };
        }
        let is_per_channel = task.operation.is_per_channel();
        let has_luma = matches!(batch.layout.pixel, Pixel::Rgb | Pixel::Rgba) && !is_per_channel;
        let channels = colours(batch.layout.pixel, is_per_channel) as u32;
        let ByteOrders { from, to } = batch.byte_orders;
        for number in 0..channels {
            let channel = if has_luma { None } else { Some(number) };
            // Each insertion writes all channels; the first one also moves them to the results.
            let source = if number == 0 { batch.from } else { batch.to };
            let to = if number + 1 == channels { to } else { from };
            let batch = Batch { from: source, byte_orders: ByteOrders { from, to }, ..*batch };
            // SAFETY: guaranteed by the caller.
            unsafe {
                self.extract(stream, &batch, old, channel)?;
                self.expose_planes(stream, &exposed, task, memory, number)?;
                self.clahe_of_planes(stream, &planes, &task.tiles, memory.tiles)?;
                self.insert(stream, &batch, new, channel)?;
            }
        }
        Ok(())
    }
}

impl Stream {
    /// Applies CLAHE to pictures.
    ///
    /// # Safety
    /// As [`Stream::equalize`].
    pub(crate) unsafe fn clahe(&self, batch: &Batch, clahe: &Clahe, operation: &Operation) -> Result<()> {
        let kernels = &self.gpu.kernels;
        let relighting = Relighting::new(self, operation, &batch.layout)?;
        let task = ClaheTask::new(kernels, &batch.layout, clahe, operation, relighting.colouring.relight);
        for (_, part) in batch.parts((MOST / task.bytes(kernels, 1)).min(MOST_PICTURES)) {
            let mut pieces = Pieces::default();
            pieces.add(task.bytes(kernels, part.number));
            let held = Workspace::new(self, &pieces, 0)?;
            // SAFETY: guaranteed by the caller; the workspace has as much room as the task needs.
            unsafe { kernels.clahe(self, &part, &task, held.at(0))? };
        }
        Ok(())
    }
}
