//! Colours that follow from a new brightness by another rule than a shift.
//!
//! Their hue stays, or their a and b in L\*a\*b\*.
#![allow(unsafe_code)]

use cuda::{Address, Launch, Result, Stream, arguments};
use equalize::{Colour, Depth, Layout, Operation, Pixel};
use histeqd_kernels::COLOURS;

use crate::batch::{Batch, Luts, Mask, Pictures};
use crate::gpu;
use crate::kernels::Kernels;
use crate::workspace::{Pieces, Workspace};

/// Threads of a block of the kernels with LUTs, and blocks of a multiprocessor.
///
/// The threads are `THREADS` in the kernels.
const THREADS: u32 = 256;
const BLOCKS: u32 = 4;

/// The rule by which colours follow from a new brightness, as an argument of kernels.
#[derive(Clone, Copy, Debug)]
pub enum Relight {
    /// As in [`Colour::Hue`].
    Hue {
        /// The highest level.
        highest: u32,
    },
    /// As in [`Colour::Lab`].
    Lab {
        /// The address of [`equalize::lab_tables`].
        tables: Address,
    },
}

impl Relight {
    /// Returns the rule for the colours of such pictures.
    ///
    /// `None` if they have no colours, or these change by as much as luma, or each channel by
    /// itself. `tables` is the address of [`equalize::lab_tables`], if the operation needs them.
    pub fn new(operation: &Operation, layout: &Layout, tables: Address) -> Option<Self> {
        match operation.colour {
            _ if layout.pixel.colour_channels() == 1 => None,
            Colour::Luma | Colour::PerChannel | Colour::Linked => None,
            Colour::Hue => Some(Self::Hue { highest: operation.levels.number(layout.depth) as u32 - 1 }),
            Colour::Lab => Some(Self::Lab { tables }),
        }
    }

    /// Returns the arguments of kernels: the highest level, or the tables.
    const fn arguments(self) -> (u32, Address) {
        match self {
            Self::Hue { highest } => (highest, 0),
            Self::Lab { tables } => (0, tables),
        }
    }
}

/// The way in which colours are read and changed.
#[derive(Clone, Copy, Debug)]
pub struct Colouring {
    /// Whether each channel is a plane.
    pub per_channel: bool,
    /// The rule for colours that follow by another rule than a shift.
    pub relight: Option<Relight>,
}

impl Colouring {
    /// Colours follow from luma by a shift.
    pub const LUMA: Self = Self { per_channel: false, relight: None };

    /// Returns the way for such pictures; `tables` is as for [`Relight::new`].
    pub fn new(operation: &Operation, layout: &Layout, tables: Address) -> Self {
        let relight = Relight::new(operation, layout, tables);
        Self { per_channel: operation.maps_channels(), relight }
    }
}

/// A [`Colouring`], with its memory, which is freed in the order of a stream.
pub(crate) struct Relighting<'s> {
    pub(crate) colouring: Colouring,
    _tables: Option<Workspace<'s>>,
}

impl<'s> Relighting<'s> {
    pub(crate) fn new(stream: &'s gpu::Stream, operation: &Operation, layout: &Layout) -> Result<Self> {
        let tables = match Relight::new(operation, layout, 0) {
            Some(Relight::Lab { .. }) => {
                let mut pieces = Pieces::default();
                let at = pieces.add(equalize::lab_tables().len() as u64);
                let held = Workspace::new(stream, &pieces, 0)?;
                // SAFETY: the workspace was just allocated, and has room for them; they stay as
                // they are.
                unsafe { stream.upload(equalize::lab_tables(), held.at(at))? };
                Some(held)
            }
            Some(Relight::Hue { .. }) | None => None,
        };
        let at = tables.as_ref().map_or(0, |held| held.at(0));
        Ok(Self { colouring: Colouring::new(operation, layout, at), _tables: tables })
    }
}

/// Returns the second part of kernels' names.
const fn kind(pixel: Pixel) -> &'static str {
    if pixel.has_alpha() { "_rgba" } else { "_rgb" }
}

impl Kernels {
    /// Adds to the counts of the L of each picture.
    ///
    /// `tables` is the address of [`equalize::lab_tables`].
    ///
    /// # Safety
    /// The memory must be as described, and for this stream alone until it is done.
    pub(crate) unsafe fn count_lightness(
        &self,
        stream: &Stream,
        batch: &Batch,
        tables: Address,
        mask: Option<Mask>,
        counts: Address,
    ) -> Result<()> {
        let (mask_at, mask_pitch) = mask.map_or((0, 0), |mask| (mask.at, mask.pitch));
        let pictures = Batch { to: batch.from, ..*batch }.argument();
        let stride = Depth::Eight.levels() as u32;
        let grid = self.spread(batch.layout.pixels(), batch.number, 1 << 16, BLOCKS);
        let launch = Launch { grid, block: (THREADS, 1, 1), shared: 0 };
        let name = ("count_lightness", kind(batch.layout.pixel));
        let arguments = arguments![pictures, mask_at, mask_pitch, counts, stride, tables];
        // SAFETY: the arguments match the parameters of count_lightness; the rest is guaranteed by
        // the caller.
        unsafe { self.loaded.launch(stream, &COLOURS, name, launch, arguments) }
    }

    /// Sends the brightness of pictures through LUTs.
    ///
    /// # Safety
    /// As [`Kernels::map`].
    pub(crate) unsafe fn relight(
        &self,
        stream: &Stream,
        batch: &Batch,
        relight: Relight,
        Luts { at, stride }: Luts,
    ) -> Result<()> {
        let pictures = batch.argument();
        let grid = self.spread(batch.layout.pixels(), batch.number, 1 << 13, BLOCKS);
        let launch = Launch { grid, block: (THREADS, 1, 1), shared: 0 };
        let name = match (relight, batch.layout.depth) {
            (Relight::Hue { .. }, Depth::Eight) => "map_hue8",
            (Relight::Hue { .. }, Depth::Sixteen) => "map_hue16",
            (Relight::Lab { .. }, _) => "map_lightness",
        };
        let (highest, tables) = relight.arguments();
        let arguments = match relight {
            Relight::Hue { .. } => arguments![pictures, at, stride, highest],
            Relight::Lab { .. } => arguments![pictures, at, stride, tables],
        };
        let name = (name, kind(batch.layout.pixel));
        // SAFETY: the arguments match the parameters of these kernels; the rest is guaranteed by
        // the caller.
        unsafe { self.loaded.launch(stream, &COLOURS, name, launch, arguments) }
    }

    /// Copies the L of pictures into planes.
    ///
    /// `tables` is the address of [`equalize::lab_tables`].
    ///
    /// # Safety
    /// As [`Kernels::extract`].
    pub(crate) unsafe fn extract_lightness(
        &self,
        stream: &Stream,
        batch: &Batch,
        planes: Pictures,
        tables: Address,
    ) -> Result<()> {
        let (pictures, Pictures { at, pitch }) = (batch.argument(), planes);
        let (name, launch) = (("extract_lightness", kind(batch.layout.pixel)), self.exchanging(batch));
        let arguments = arguments![pictures, at, pitch, tables];
        // SAFETY: the arguments match the parameters of extract_lightness; the rest is guaranteed
        // by the caller.
        unsafe { self.loaded.launch(stream, &COLOURS, name, launch, arguments) }
    }

    /// Gives pictures the new brightness in planes.
    ///
    /// # Safety
    /// As [`Kernels::extract`].
    pub(crate) unsafe fn insert_brightness(
        &self,
        stream: &Stream,
        batch: &Batch,
        planes: Pictures,
        relight: Relight,
    ) -> Result<()> {
        let (pictures, Pictures { at, pitch }) = (batch.argument(), planes);
        let pitch = pitch / batch.layout.depth.bytes() as u64;
        let name = match (relight, batch.layout.depth) {
            (Relight::Hue { .. }, Depth::Eight) => "insert_hue8",
            (Relight::Hue { .. }, Depth::Sixteen) => "insert_hue16",
            (Relight::Lab { .. }, _) => "insert_lightness",
        };
        let (highest, tables) = relight.arguments();
        let arguments = match relight {
            Relight::Hue { .. } => arguments![pictures, at, pitch, highest],
            Relight::Lab { .. } => arguments![pictures, at, pitch, tables],
        };
        let (name, launch) = ((name, kind(batch.layout.pixel)), self.exchanging(batch));
        // SAFETY: the arguments match the parameters of these kernels; the rest is guaranteed by
        // the caller.
        unsafe { self.loaded.launch(stream, &COLOURS, name, launch, arguments) }
    }
}
