//! Global equalization at depth 8 in one launch: blocks keep what they have counted in shared memory until the LUT is there.
#![allow(unsafe_code)]

use cuda::{Address, Launch, Result};
use equalize::Pixel;

use crate::batch::Batch;
use crate::global::{Rule, colours};
use crate::gpu::Stream;
use crate::kernels::{File, Kernels, arguments, kind};
use crate::workspace::{Pieces, Workspace};

/// Threads of a block.
const THREADS: u32 = 1024;

/// Shared memory that the kernels take statically, rounded up.
const STATIC: u32 = 2304;

/// What a round costs that a block waits for others, in packs.
const WAIT: u64 = 1500;

/// How the pictures are shared out among blocks.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Plan {
    blocks: u32,
    /// Parts of a picture.
    parts: u32,
    /// Rounds of a part that stay in shared memory, and of how many parts.
    kept: u32,
    buffers: u32,
    shared: u32,
    most_shared: u32,
}

/// Mirrors `Sharing` in `kernels/batch_global8.cu`.
#[repr(C)]
#[derive(Clone, Copy)]
struct Sharing {
    number: u32,
    parts: u32,
    kept: u32,
    buffers: u32,
    counts: Address,
    arrived: Address,
    ready: Address,
    luts: Address,
}

impl Plan {
    /// Returns a plan for these pictures; nothing if the GPU cannot do it, or some cannot be read 16 bytes at a time.
    pub(crate) fn new(kernels: &Kernels, batch: &Batch, per_channel: bool) -> Option<Self> {
        let vectors = if batch.layout.pixel == Pixel::Rgb { 3 } else { 1 };
        let table = if colours(batch.layout.pixel, per_channel) == 3 { 24 << 10 } else { 32 << 10 };
        let round = THREADS * vectors * 16;
        let taken = table + if vectors == 1 { 0 } else { round };
        let most_shared = kernels.shared.checked_sub(STATIC)?;
        let room = most_shared.checked_sub(taken)? / round;
        if !kernels.has_grids || !batch.has_packs() || room == 0 {
            return None;
        }
        let packs = batch.bytes() / u64::from(vectors * 16);
        let all = u64::from(kernels.multiprocessors);
        let of_two = u64::from(room / 2 * THREADS);
        let (parts, kept, buffers) = match Self::parts(packs, of_two, u64::from(batch.number), all) {
            Some(parts) if batch.number > 1 => (parts, room / 2, 2),
            _ => (packs.div_ceil(u64::from(THREADS)).clamp(1, all), room, 1),
        };
        let kept = kept.min(packs.div_ceil(parts).div_ceil(u64::from(THREADS)).max(1) as u32);
        let number = parts * u64::from(batch.number);
        Some(Self {
            blocks: number.min(all) as u32,
            parts: u32::try_from(parts).ok().filter(|_| u32::try_from(number).is_ok())?,
            kept,
            buffers,
            shared: taken + kept * buffers * round,
            most_shared,
        })
    }

    /// Returns into how many parts to divide each picture, so that each has at most `room` packs and the blocks have about as much to do; nothing if
    /// more would be needed than there are blocks.
    fn parts(packs: u64, room: u64, number: u64, blocks: u64) -> Option<u64> {
        let least = packs.div_ceil(room.max(1)).max(1);
        let cost = |parts: u64| (number * parts).div_ceil(blocks) * (packs.div_ceil(parts) + WAIT);
        (least..=blocks).min_by_key(|&parts| cost(parts)).filter(|_| room > 0)
    }
}

impl Stream {
    /// Equalizes pictures, by any rule.
    ///
    /// # Safety
    /// As [`Stream::equalize`].
    pub(crate) unsafe fn equalize_resident(
        &self,
        batch: &Batch,
        per_channel: bool,
        rule: Rule,
        plan: &Plan,
    ) -> Result<()> {
        let entries = colours(batch.layout.pixel, per_channel) as u64 * 256;
        let number = u64::from(batch.number);
        let mut pieces = Pieces::default();
        let counts = pieces.add(number * entries * 4);
        let arrived = pieces.add(number * 4);
        let ready = pieces.add(number * 4);
        let luts = pieces.add(number * entries);
        let held = Workspace::new(self, &pieces, ready + number * 4)?;
        let sharing = Sharing {
            number: batch.number,
            parts: plan.parts,
            kept: plan.kept,
            buffers: plan.buffers,
            counts: held.at(counts),
            arrived: held.at(arrived),
            ready: held.at(ready),
            luts: held.at(luts),
        };
        let launch = Launch { grid: (plan.blocks, 1, 1), block: (THREADS, 1, 1), shared: plan.shared };
        let name = ("batch_equalize8", kind(batch.layout.pixel, per_channel));
        let pictures = batch.argument();
        let arguments = arguments![pictures, rule, sharing];
        let (kernels, launch) = (&self.gpu.kernels, (launch, plan.most_shared));
        // SAFETY: the arguments match the parameters of batch_equalize8; the rest is guaranteed by the caller.
        unsafe { kernels.launch_together(self, (File::Global8, name), launch, arguments) }
    }
}
