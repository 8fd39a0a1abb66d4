//! CLAHE of batches.
#![allow(unsafe_code)]

use cuda::{Address, Result};
use equalize::clahe::Geometry;
use equalize::{ByteOrders, Clahe, Layout, Operation, Pixel, Strength};

use crate::batch::{Batch, Pictures};
use crate::colours::{Relight, Relighting};
use crate::gpu::Stream;
use crate::kernels::Kernels;
use crate::rule::colours;
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
    /// The bytes of a plane, and how many planes of each picture are kept besides it.
    plane: u64,
    planes: u64,
}

impl ClaheTask {
    /// Returns how such pictures go through the kernels. `relight`: [`Relight::new`] of them.
    pub fn new(
        kernels: &Kernels,
        layout: &Layout,
        clahe: &Clahe,
        (operation, relight): (&Operation, Option<Relight>),
    ) -> Self {
        let levels = operation.levels.number(layout.depth);
        let geometry = Geometry::new(layout, clahe).with_levels(levels);
        let tiles = Tiles::new(kernels, layout, &geometry, (clahe.clip_limit, levels));
        let is_gray = layout.pixel == Pixel::Gray;
        Self {
            tiles,
            operation: *operation,
            relight,
            is_gray,
            plane: (layout.pixels() * layout.depth.bytes() as u64).next_multiple_of(16),
            planes: u64::from(tiles.go_elsewhere()) + u64::from(!is_gray),
        }
    }

    /// Returns the bytes of memory that [`Kernels::clahe`] needs for so many pictures.
    pub fn bytes(&self, kernels: &Kernels, number: u32) -> u64 {
        let mut pieces = Pieces::default();
        self.add_planes(number, &mut pieces);
        pieces.add(self.tiles.bytes(kernels, number));
        pieces.bytes()
    }

    /// Adds room for the planes of so many pictures: the old ones, and the new ones, which may have the same place.
    fn add_planes(&self, number: u32, pieces: &mut Pieces) -> (u64, u64) {
        let bytes = u64::from(number) * self.plane;
        let old = pieces.add(if self.planes > 0 { bytes } else { 0 });
        (old, if self.planes > 1 { pieces.add(bytes) } else { old })
    }
}

impl Kernels {
    /// Applies CLAHE to pictures, with memory at `at`.
    ///
    /// # Safety
    /// The memory must be as described, and for this stream alone until it is done; pictures of one channel must be readable in whole 16-byte words.
    pub unsafe fn clahe(
        &self,
        stream: &cuda::Stream,
        batch: &Batch,
        task: &ClaheTask,
        at: Address,
    ) -> Result<()> {
        let mut pieces = Pieces::default();
        let (old, new) = task.add_planes(batch.number, &mut pieces);
        let [old, new] = [old, new].map(|piece| Pictures { at: at + piece, pitch: task.plane });
        let memory = at + pieces.bytes();
        // SAFETY: guaranteed by the caller; there is room for the planes.
        unsafe {
            match task.is_gray {
                true => self.clahe_of_gray(stream, batch, task, old, memory),
                false => self.clahe_of_channels(stream, batch, task, (old, new), memory),
            }
        }
    }

    /// # Safety
    /// As [`Kernels::clahe`]; the copies must have room.
    unsafe fn clahe_of_gray(
        &self,
        stream: &cuda::Stream,
        batch: &Batch,
        task: &ClaheTask,
        copies: Pictures,
        memory: Address,
    ) -> Result<()> {
        let how = (&task.tiles, task.operation.strength);
        // SAFETY: guaranteed by the caller.
        unsafe {
            if batch.from.at != batch.to.at || !task.tiles.go_elsewhere() {
                return self.clahe_of_planes(stream, batch, how, memory);
            }
            for number in 0..batch.number {
                let (original, copy) = (batch.from.skip(number), copies.skip(number));
                stream.copy(original.at, copy.at, batch.bytes())?;
            }
            self.clahe_of_planes(stream, &Batch { from: copies, ..*batch }, how, memory)
        }
    }

    /// # Safety
    /// As [`Kernels::clahe`]; the planes must have room.
    unsafe fn clahe_of_channels(
        &self,
        stream: &cuda::Stream,
        batch: &Batch,
        task: &ClaheTask,
        (old, new): (Pictures, Pictures),
        memory: Address,
    ) -> Result<()> {
        let layout = Layout { pixel: Pixel::Gray, ..batch.layout };
        let planes = Batch { to: new, ..Batch::to_read(layout, batch.number, old) };
        if let Some(relight) = task.relight {
            // SAFETY: guaranteed by the caller.
            return unsafe { self.clahe_of_brightness(stream, batch, task, (old, &planes, relight), memory) };
        }
        let is_per_channel = task.operation.is_per_channel();
        let has_luma = matches!(batch.layout.pixel, Pixel::Rgb | Pixel::Rgba) && !is_per_channel;
        let channels = colours(batch.layout.pixel, is_per_channel) as u32;
        let ByteOrders { from, to } = batch.byte_orders;
        for number in 0..channels {
            let channel = if has_luma { None } else { Some(number) };
            // Each insertion writes all channels, the first of them to where the results go.
            let source = if number == 0 { batch.from } else { batch.to };
            let to = if number + 1 == channels { to } else { from };
            let batch = Batch { from: source, byte_orders: ByteOrders { from, to }, ..*batch };
            // SAFETY: guaranteed by the caller.
            unsafe {
                self.extract(stream, &batch, old, channel)?;
                self.clahe_of_planes(stream, &planes, (&task.tiles, Strength::FULL), memory)?;
                self.insert(stream, &batch, new, channel, task.operation.strength)?;
            }
        }
        Ok(())
    }

    /// # Safety
    /// As [`Kernels::clahe_of_channels`].
    unsafe fn clahe_of_brightness(
        &self,
        stream: &cuda::Stream,
        batch: &Batch,
        task: &ClaheTask,
        (old, planes, relight): (Pictures, &Batch, Relight),
        memory: Address,
    ) -> Result<()> {
        // SAFETY: guaranteed by the caller.
        unsafe {
            match relight {
                Relight::Hue { .. } => self.extract(stream, batch, old, None)?,
                Relight::Lab { tables } => self.extract_lightness(stream, batch, old, tables)?,
            }
            self.clahe_of_planes(stream, planes, (&task.tiles, Strength::FULL), memory)?;
            self.insert_brightness(stream, batch, planes.to, relight, task.operation.strength)
        }
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
        let task = ClaheTask::new(kernels, &batch.layout, clahe, (operation, relighting.how));
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
