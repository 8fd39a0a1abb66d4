//! 8-bit pictures: counting planes, applying LUTs, and both in one launch.
#![allow(unsafe_code)]

use std::ffi::c_void;

use cuda::{Address, Launch, Result, Stream, arguments};
use equalize::Pixel;
use histeqd_kernels::GLOBAL8;

use crate::batch::{Batch, Luts, Mask};
use crate::kernels::{Kernels, kind};
use crate::rule::{Rule, colours};

/// Threads of a block, for which the kernels are compiled.
const THREADS: u32 = 512;

/// Blocks that a multiprocessor runs at once, if shared memory has room for them.
///
/// While one waits, the other goes on.
const BLOCKS: u32 = 2;

/// Shared memory of a block in addition to its tables, rounded up.
///
/// The kernels take some statically, and the driver reserves some.
const TAKEN: u32 = 6 << 10;

/// The fewest bytes of a part: enough to make clearing and adding up tables worthwhile.
const LEAST: u64 = 16 << 10;

/// Mirrors `Tickets` in `kernels/global8.cu`.
#[repr(C)]
#[derive(Clone, Copy)]
struct Tickets {
    number: u32,
    parts: u32,
    lead: u32,
    copies: u32,
    taken: Address,
    counted: Address,
    counts: Address,
}

/// The shared memory of a block for pictures of one kind.
struct Tables {
    kind: &'static str,
    /// The number of copies of the counters and of the LUTs.
    copies: u32,
    /// The size in bytes.
    bytes: u32,
}

impl Tables {
    /// Returns the tables of such pictures; `shared` is the most shared memory of a block.
    fn new(shared: u32, pixel: Pixel, per_channel: bool) -> Self {
        let planes = colours(pixel, per_channel) as u32;
        let exchanged = if pixel == Pixel::Rgb && planes == 1 { 48 * THREADS } else { 0 };
        let bytes = |copies| planes * 1024 * copies + exchanged;
        let wanted = if planes == 1 { 32 } else { 16 };
        let copies = [wanted, 16].into_iter().find(|&copies| bytes(copies) + TAKEN <= shared).unwrap_or(8);
        Self { kind: kind(pixel, per_channel), copies, bytes: bytes(copies) }
    }
}

/// Returns the number of parts into which to divide each picture.
///
/// A part has `a_part` bytes, or less if there would be fewer than `enough` parts in all.
fn parts(batch: &Batch, a_part: u64, enough: u32) -> u32 {
    let least = batch.bytes().div_ceil(LEAST).min((enough / batch.number).into());
    batch.bytes().div_ceil(a_part).max(least).clamp(1, 1 << 16) as u32
}

/// Returns a few more parts if all blocks then count equally many of them.
///
/// The blocks do so in step.
fn evened(parts: u32, number: u32, blocks: u32) -> u32 {
    let all = parts * number;
    if all < 2 * blocks { parts } else { all.next_multiple_of(blocks) / number }
}

impl Kernels {
    /// Returns a grid of parts along x and pictures along y.
    ///
    /// It has at most `blocks` blocks per multiprocessor in all.
    fn grid8(&self, batch: &Batch, a_part: u64, blocks: u32) -> (u32, u32, u32) {
        let most = (blocks * self.multiprocessors / batch.number).max(1);
        (parts(batch, a_part, self.multiprocessors).min(most), batch.number, 1)
    }

    /// Adds to the counts of each picture's planes, 32 bits each.
    ///
    /// The counts of two pictures are `stride` apart.
    ///
    /// # Safety
    /// As [`Kernels::count`].
    pub(crate) unsafe fn count8(
        &self,
        stream: &Stream,
        batch: &Batch,
        per_channel: bool,
        mask: Option<Mask>,
        counts: Address,
        stride: u32,
    ) -> Result<()> {
        let tables = Tables::new(self.shared, batch.layout.pixel, per_channel);
        let (mask_at, mask_pitch) = mask.map_or((0, 0), |mask| (mask.at, mask.pitch));
        let (pictures, copies) = (Batch { to: batch.from, ..*batch }.argument(), tables.copies);
        let grid = self.grid8(batch, 32 << 10, 3);
        let arguments = arguments![pictures, copies, mask_at, mask_pitch, counts, stride];
        // SAFETY: the arguments match the parameters of count8_*; the rest is guaranteed by the
        // caller.
        unsafe { self.launch8(stream, "count8", &tables, grid, arguments) }
    }

    /// Sends pictures through LUTs.
    ///
    /// # Safety
    /// As [`Kernels::map`].
    pub(crate) unsafe fn map8(
        &self,
        stream: &Stream,
        batch: &Batch,
        per_channel: bool,
        Luts { at, stride }: Luts,
    ) -> Result<()> {
        let tables = Tables::new(self.shared, batch.layout.pixel, per_channel);
        let (pictures, copies) = (batch.argument(), tables.copies);
        let grid = self.grid8(batch, 96 << 10, BLOCKS);
        let arguments = arguments![pictures, copies, at, stride];
        // SAFETY: the arguments match the parameters of map8_*; the rest is guaranteed by the
        // caller.
        unsafe { self.launch8(stream, "map8", &tables, grid, arguments) }
    }

    /// Sends an 8-bit picture through the LUTs that follow from its counts.
    ///
    /// `next` are the counts of three planes of the next picture, which are zeroed.
    ///
    /// # Safety
    /// As [`Kernels::map`].
    pub unsafe fn apply8(
        &self,
        stream: &Stream,
        batch: &Batch,
        per_channel: bool,
        rule: Rule,
        [counts, next]: [Address; 2],
    ) -> Result<()> {
        let tables = Tables::new(self.shared, batch.layout.pixel, per_channel);
        let (pictures, copies) = (batch.argument(), tables.copies);
        let grid = self.grid8(batch, 96 << 10, BLOCKS);
        let arguments = arguments![pictures, copies, rule, counts, next];
        // SAFETY: the arguments match the parameters of apply8_*; the rest is guaranteed by the
        // caller.
        unsafe { self.launch8(stream, "apply8", &tables, grid, arguments) }
    }

    /// Returns the bytes of memory that [`Kernels::equalize8`] takes.
    ///
    /// It is for so many pictures with so many planes.
    pub(crate) const fn equalize8_bytes(number: u32, planes: usize) -> u64 {
        4 + number as u64 * 4 * (1 + 256 * planes as u64)
    }

    /// Counts 8-bit pictures and sends them through the LUTs that follow.
    ///
    /// `memory` must be zero.
    ///
    /// # Safety
    /// The memory must be as described, and for this stream alone until it is done.
    pub(crate) unsafe fn equalize8(
        &self,
        stream: &Stream,
        batch: &Batch,
        per_channel: bool,
        rule: Rule,
        memory: Address,
    ) -> Result<()> {
        let tables = Tables::new(self.shared, batch.layout.pixel, per_channel);
        let (number, pictures, counted) = (batch.number, batch.argument(), memory + 4);
        // Tables of three planes take longer to clear, to add up and to make.
        let a_part = if colours(batch.layout.pixel, per_channel) == 1 { 64 << 10 } else { 96 << 10 };
        let blocks = BLOCKS * self.multiprocessors;
        let parts = evened(parts(batch, a_part, 3 * self.multiprocessors), number, blocks);
        let tickets = Tickets {
            number,
            parts,
            lead: blocks,
            copies: tables.copies,
            taken: memory,
            counted,
            counts: counted + u64::from(number) * 4,
        };
        let arguments = arguments![pictures, rule, tickets];
        let grid = (blocks.min(2 * parts * number), 1, 1);
        // SAFETY: the arguments match the parameters of equalize8_*; the rest is guaranteed by the
        // caller.
        unsafe { self.launch8(stream, "equalize8", &tables, grid, arguments) }
    }

    /// # Safety
    /// As [`cuda::LoadedKernels::launch`].
    unsafe fn launch8(
        &self,
        stream: &Stream,
        name: &'static str,
        tables: &Tables,
        grid: (u32, u32, u32),
        arguments: &mut [*mut c_void],
    ) -> Result<()> {
        let launch = Launch { grid, block: (THREADS, 1, 1), shared: tables.bytes };
        // SAFETY: guaranteed by the caller.
        unsafe { self.loaded.launch(stream, &GLOBAL8, (name, tables.kind), launch, arguments) }
    }
}

#[cfg(test)]
mod tests {
    use equalize::{Depth, Layout};

    use super::*;
    use crate::batch::Pictures;

    #[test]
    fn small_pictures_are_shared_out_among_all_multiprocessors() {
        for ((width, height), number, expected) in [
            ((4096, 3072), 8, 192),
            ((4096, 3072), 1, 396),
            ((1920, 1080), 32, 32),
            ((512, 512), 64, 6),
            ((512, 512), 1, 16),
            ((1, 1), 1000, 1),
        ] {
            let layout = Layout { width, height, pixel: Pixel::Gray, depth: Depth::Eight };
            let batch = Batch::to_read(layout, number, Pictures { at: 0, pitch: layout.bytes() });
            assert_eq!(parts(&batch, 64 << 10, 396), expected, "{number} of {width}x{height}");
        }
    }

    #[test]
    fn blocks_count_equally_many_parts() {
        for ((parts, number), expected) in [((192, 8), 198), ((32, 32), 33), ((6, 64), 6), ((396, 1), 396)] {
            assert_eq!(evened(parts, number, 264), expected, "{parts} of {number}");
        }
    }

    #[test]
    fn tables_fit_into_what_shared_memory_there_is() {
        for (shared, pixel, per_channel, copies) in [
            (227 << 10, Pixel::Gray, false, 32),
            (227 << 10, Pixel::Rgb, true, 16),
            (48 << 10, Pixel::Gray, false, 32),
            (48 << 10, Pixel::Rgb, false, 16),
            (48 << 10, Pixel::Rgba, true, 8),
        ] {
            let tables = Tables::new(shared, pixel, per_channel);
            assert_eq!(tables.copies, copies, "{pixel:?} {per_channel} in {shared}");
            assert!(tables.bytes + TAKEN <= shared, "{pixel:?} {per_channel} in {shared}");
        }
    }
}
