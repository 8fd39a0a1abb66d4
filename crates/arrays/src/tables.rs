//! The counts of planes, the LUTs that follow from them, and their application to pictures.
#![allow(unsafe_code)]

use cuda::{Address, Launch, Result, Stream, arguments};
use equalize::{Depth, Pixel, Strength};
use histeqd_kernels::{GLOBAL8, GLOBAL16};

use crate::batch::{Batch, BatchPlanes, Counts, Luts, Mask};
use crate::colours::{Colouring, Relight};
use crate::kernels::{Kernels, blocks, kind, threads};
use crate::rule::{Preparation, Rule, colours};

/// The size of 65536 16-bit LUT entries or counters, in bytes.
const LEVELS16_BYTES: u32 = 128 << 10;

/// Pixels per block that holds such a table: enough to make filling it worthwhile.
///
/// LUTs are in shared memory only for pictures with more.
pub const PIXELS_A_TABLE: u64 = 5 << 16;

/// The most pixels of a picture that a block equalizes by itself.
const MOST_OF_A_BLOCK: u64 = 1 << 19;

/// Returns the most shared memory that kernels with such a table take statically, in bytes.
const fn stage_bytes(pixel: Pixel) -> u32 {
    if matches!(pixel, Pixel::Rgb) { 25 << 10 } else { 1 << 10 }
}

/// The planes that are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Planes {
    /// Each channel, including alpha.
    Channels,
    /// The equalized planes.
    Equalized {
        /// Whether each channel is a plane.
        per_channel: bool,
    },
    /// The L of colours in L\*a\*b\*.
    Lightness {
        /// The address of [`equalize::lab_tables`].
        tables: Address,
    },
}

impl Planes {
    /// Returns the equalized planes: channels, luma or lightness.
    pub fn equalized(colouring: Colouring) -> Self {
        match colouring.relight {
            Some(Relight::Lab { tables }) => Self::Lightness { tables },
            Some(Relight::Hue { .. }) | None => Self::Equalized { per_channel: colouring.per_channel },
        }
    }

    /// Returns the number of planes.
    pub const fn number(self, pixel: Pixel) -> usize {
        match self {
            Self::Channels => pixel.channels(),
            Self::Equalized { per_channel } => colours(pixel, per_channel),
            Self::Lightness { .. } => 1,
        }
    }
}

impl Kernels {
    /// Adds to the counts of each picture's planes, 32 bits each.
    ///
    /// The planes' counts follow one another.
    ///
    /// # Safety
    /// The memory must be as described, and for this stream alone until it is done.
    pub unsafe fn count(
        &self,
        stream: &Stream,
        batch: &Batch,
        planes: Planes,
        mask: Option<Mask>,
        counts: Address,
    ) -> Result<()> {
        let layout = &batch.layout;
        let (mask_at, mask_pitch) = mask.map_or((0, 0), |mask| (mask.at, mask.pitch));
        let pictures = Batch { to: batch.from, ..*batch }.argument();
        let stride = (planes.number(layout.pixel) * layout.depth.levels()) as u32;
        let per_channel = match planes {
            Planes::Channels => true,
            Planes::Equalized { per_channel } => per_channel,
            // SAFETY: guaranteed by the caller.
            Planes::Lightness { tables } => unsafe {
                return self.count_lightness(stream, batch, tables, mask, counts);
            },
        };
        let kind = kind(layout.pixel, per_channel);
        let (pixels, threads) = (layout.pixels(), threads(layout.pixel));
        // SAFETY: the arguments match the parameters of count*; the rest is guaranteed by the
        // caller.
        unsafe {
            match layout.depth {
                Depth::Eight => self.count8(stream, batch, per_channel, mask, counts, stride)?,
                Depth::Sixteen => {
                    let taken = stage_bytes(layout.pixel);
                    let range = self.range16(taken);
                    let planes = colours(layout.pixel, per_channel) as u32;
                    let (x, ..) = self.spread(pixels, batch.number * planes, PIXELS_A_TABLE, 1);
                    let launch = Launch {
                        grid: (x, 65_536 / range, batch.number * planes),
                        block: (threads, 1, 1),
                        shared: range * 2,
                    };
                    let arguments = arguments![pictures, mask_at, mask_pitch, counts, stride, range];
                    self.loaded.launch(stream, &GLOBAL16, ("count16", kind), launch, arguments)?;
                }
            }
            if planes != Planes::Channels || !layout.pixel.has_alpha() {
                return Ok(());
            }
            let channels = layout.pixel.channels() as u32;
            let counts = counts + u64::from(channels - 1) * layout.depth.levels() as u64 * 4;
            let grid = self.spread(pixels, batch.number, 1 << 14, 2);
            let launch = Launch { grid, block: (1024, 1, 1), shared: 0 };
            let arguments = arguments![pictures, channels, mask_at, mask_pitch, counts, stride];
            let (module, name) = match layout.depth {
                Depth::Eight => (&GLOBAL8, ("count_alpha8", "")),
                Depth::Sixteen => (&GLOBAL16, ("count_alpha16", "")),
            };
            self.loaded.launch(stream, module, name, launch, arguments)
        }
    }

    /// Returns whether a single block can and should equalize each picture.
    ///
    /// Such pictures are small and many: see [`Kernels::equalize16`].
    pub(crate) fn are_made_by_blocks(&self, batch: &Batch, per_channel: bool) -> bool {
        batch.layout.depth == Depth::Sixteen
            && colours(batch.layout.pixel, per_channel) == 1
            && batch.layout.pixels() <= MOST_OF_A_BLOCK
            && batch.number >= self.multiprocessors / 4
            && self.shared >= LEVELS16_BYTES + stage_bytes(batch.layout.pixel)
    }

    /// Equalizes 16-bit pictures, with one block for each.
    ///
    /// `spill` are 65536 counts for each, which must be zero.
    ///
    /// # Safety
    /// The memory must be as described, and for this stream alone until it is done.
    pub(crate) unsafe fn equalize16(
        &self,
        stream: &Stream,
        batch: &Batch,
        strength: Strength,
        spill: Address,
    ) -> Result<()> {
        let (pictures, strength) = (batch.argument(), strength.in_thousandths());
        let (block, grid) = ((threads(batch.layout.pixel), 1, 1), (1, batch.number, 1));
        let launch = Launch { grid, block, shared: LEVELS16_BYTES };
        let name = ("equalize16", kind(batch.layout.pixel, false));
        // SAFETY: the arguments match the parameters of equalize16; the rest is guaranteed by the
        // caller.
        unsafe { self.loaded.launch(stream, &GLOBAL16, name, launch, arguments![pictures, strength, spill]) }
    }

    /// Prepares the counts of planes for LUTs, 64 bits each.
    ///
    /// They are `number` planes, or as many pictures if each one's planes are added up.
    ///
    /// # Safety
    /// The memory must be as described, and for this stream alone until it is done.
    pub(crate) unsafe fn prepare(
        &self,
        stream: &Stream,
        counts: Counts,
        number: usize,
        levels: u32,
        preparation: Preparation,
        to: Address,
    ) -> Result<()> {
        let launch = Launch { grid: (number as u32, 1, 1), block: (1024, 1, 1), shared: 0 };
        let name = (if counts.are_wide { "prepare_sums" } else { "prepare_counts" }, "");
        let (counts, Preparation { added, copies, share }) = (counts.at, preparation);
        let arguments = arguments![counts, added, copies, levels, share, to];
        // SAFETY: the arguments match the parameters of prepare_*; the rest is guaranteed by the
        // caller.
        unsafe { self.loaded.launch(stream, &GLOBAL16, name, launch, arguments) }
    }

    /// Makes the LUTs of planes from their counts.
    ///
    /// # Safety
    /// The memory must be as described, and for this stream alone until it is done.
    pub unsafe fn make_luts(
        &self,
        stream: &Stream,
        counts: Counts,
        planes: BatchPlanes,
        rule: Rule,
        luts: Address,
    ) -> Result<()> {
        let BatchPlanes { number, of_picture, depth } = planes;
        let (number, planes) = (number as u32, of_picture as u32);
        let Counts { at: counts, are_wide } = counts;
        if depth == Depth::Eight {
            let launch = Launch { grid: (number, 1, 1), block: (256, 1, 1), shared: 0 };
            let name = (if are_wide { "luts8_of_sums" } else { "luts8_of_counts" }, "");
            let arguments = arguments![counts, rule, planes, luts];
            // SAFETY: the arguments match the parameters of luts8; the rest is guaranteed by the
            // caller.
            return unsafe { self.loaded.launch(stream, &GLOBAL8, name, launch, arguments) };
        }
        // Two blocks per multiprocessor in all; those of a plane share the 16 parts of its LUT.
        let blocks = (2 * self.multiprocessors / number.max(1)).clamp(1, 16);
        let launch = Launch { grid: (blocks, number, 1), block: (1024, 1, 1), shared: 0 };
        let name = (if are_wide { "luts16_of_sums" } else { "luts16_of_counts" }, "");
        let arguments = arguments![counts, rule, planes, luts];
        // SAFETY: the arguments match the parameters of luts16; the rest is guaranteed by the
        // caller.
        unsafe { self.loaded.launch(stream, &GLOBAL16, name, launch, arguments) }
    }

    /// Sends pictures through LUTs, channel by channel or with all colours following.
    ///
    /// # Safety
    /// The memory must be as described, and for this stream alone until it is done.
    pub unsafe fn map(&self, stream: &Stream, batch: &Batch, colouring: Colouring, luts: Luts) -> Result<()> {
        let Colouring { per_channel, relight } = colouring;
        if let Some(relight) = relight {
            // SAFETY: guaranteed by the caller.
            return unsafe { self.relight(stream, batch, relight, luts) };
        }
        let layout = &batch.layout;
        if layout.depth == Depth::Eight {
            // SAFETY: guaranteed by the caller.
            return unsafe { self.map8(stream, batch, per_channel, luts) };
        }
        let (pictures, Luts { at, stride }) = (batch.argument(), luts);
        let (pixels, threads) = (layout.pixels(), threads(layout.pixel));
        let kind = kind(layout.pixel, per_channel);
        let taken = stage_bytes(layout.pixel);
        let fits = self.shared >= LEVELS16_BYTES + taken && colours(layout.pixel, per_channel) == 1;
        let arguments = arguments![pictures, at, stride];
        let (name, grid, shared) = if fits && pixels > PIXELS_A_TABLE {
            ("map16_shared", self.spread(pixels, batch.number, PIXELS_A_TABLE, 1), LEVELS16_BYTES)
        } else {
            ("map16", self.spread(pixels, batch.number, 1 << 13, blocks(layout.pixel)), 0)
        };
        let launch = Launch { grid, block: (threads, 1, 1), shared };
        // SAFETY: the arguments match the parameters of map16*; the rest is guaranteed by the
        // caller.
        unsafe { self.loaded.launch(stream, &GLOBAL16, (name, kind), launch, arguments) }
    }
}
