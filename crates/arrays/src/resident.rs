//! Global equalization at depth 8 in one launch: blocks keep what they have counted in shared memory until the LUT is there.
#![allow(unsafe_code)]

use cuda::{Address, Launch, Result, arguments};
use equalize::Pixel;
use histeqd_kernels::BATCH_GLOBAL8;

use crate::batch::Batch;
use crate::gpu::Stream;
use crate::kernels::{Kernels, kind};
use crate::rule::{Rule, colours};
use crate::workspace::{Pieces, Workspace};

/// Returns the threads of a block, and the blocks of a multiprocessor: while some wait, the others go on.
const fn threads_and_blocks(by_channel: bool) -> (u32, u32) {
    if by_channel { (512, 2) } else { (384, 3) }
}

/// What the L2 cache keeps of what has been counted until it is read again, in bytes. That of an H100 has 50 MB.
const CACHED: u64 = 24 << 20;

/// Shared memory that the driver keeps for itself in each block.
const RESERVED: u32 = 1024;

/// Returns the shared memory that the kernels take statically, rounded up.
const fn taken(by_channel: bool) -> u32 {
    if by_channel { 5 << 10 } else { 3 << 10 }
}

/// What a part costs besides its packs, in packs.
const WAIT: u64 = 1000;

/// How the pictures are shared out among blocks.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Plan {
    blocks: u32,
    /// Parts of a picture, and packs of a part.
    parts: u32,
    packs: u32,
    threads: u32,
    /// Rounds of a part that stay in shared memory.
    kept: u32,
    /// Whether the blocks of a picture begin when those of the one before have counted.
    staggered: bool,
    shared: u32,
}

/// Mirrors `Sharing` in `kernels/batch_global8.cu`.
#[repr(C)]
#[derive(Clone, Copy)]
struct Sharing {
    number: u32,
    parts: u32,
    packs: u32,
    kept: u32,
    staggered: u32,
    counts: Address,
    arrived: Address,
}

impl Plan {
    /// Returns a plan for these pictures; nothing if the GPU cannot do it, or some cannot be read 16 bytes at a time. The luma of RGB, whose pixels
    /// lie across words, has no such kernel.
    pub(crate) fn new(kernels: &Kernels, batch: &Batch, per_channel: bool) -> Option<Self> {
        let is_luma_of_rgb = batch.layout.pixel == Pixel::Rgb && !per_channel;
        if !kernels.has_grids || !batch.has_packs() || is_luma_of_rgb {
            return None;
        }
        Self::for_size(
            (kernels.multiprocessors, kernels.shared),
            (batch.layout.pixel, colours(batch.layout.pixel, per_channel)),
            (batch.bytes(), u64::from(batch.number)),
        )
    }

    /// `gpu`: its multiprocessors, and the most shared memory of a block. `planes`: those that are equalized. `size`: bytes of a picture, and how
    /// many there are.
    fn for_size(
        (multiprocessors, shared): (u32, u32),
        (pixel, planes): (Pixel, usize),
        (bytes, number): (u64, u64),
    ) -> Option<Self> {
        // 16-byte words, of which each thread takes one in a round.
        let words = if pixel == Pixel::Rgb { 3 } else { 1 };
        let (threads, blocks) = threads_and_blocks(planes == 3);
        let round = threads * 16;
        let table = if planes == 3 { 48 << 10 } else { 32 << 10 };
        let most = ((shared + RESERVED) / blocks).checked_sub(RESERVED + taken(planes == 3))?;
        let room = most.checked_sub(table)? / round;
        let (blocks, threads_of_block) = (u64::from(blocks * multiprocessors), u64::from(threads));
        // Pictures on the way at a time have to fit in shared memory and cache.
        let held = blocks * u64::from(room * round) + CACHED;
        let packs = (bytes / (words * 16)).max(1);
        let most_parts = blocks.min(packs.div_ceil(threads_of_block));
        let fits = |parts: u64| parts == most_parts || blocks.div_ceil(parts) * bytes <= held;
        let cost = |parts: u64| (number * parts).div_ceil(blocks) * (packs.div_ceil(parts) + WAIT);
        let of_one = u64::from(multiprocessors);
        let parts = if number > 1 && packs >= of_one * 4 * threads_of_block && fits(of_one) {
            of_one
        } else {
            (1..=most_parts).filter(|&parts| fits(parts)).min_by_key(|&parts| cost(parts))?
        };
        let packs_a_part = packs.div_ceil(parts);
        let parts = packs.div_ceil(packs_a_part);
        let kept = room.min((packs_a_part * words).div_ceil(threads_of_block) as u32);
        Some(Self {
            blocks: (parts * number).min(blocks) as u32,
            parts: u32::try_from(parts).ok().filter(|_| u32::try_from(parts * number).is_ok())?,
            packs: u32::try_from(packs_a_part).ok()?,
            threads,
            kept,
            staggered: number > 1 && parts < blocks && parts >= of_one / 2,
            shared: table + kept * round,
        })
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
        let held = Workspace::new(self, &pieces, arrived + number * 4)?;
        let sharing = Sharing {
            number: batch.number,
            parts: plan.parts,
            packs: plan.packs,
            kept: plan.kept,
            staggered: plan.staggered.into(),
            counts: held.at(counts),
            arrived: held.at(arrived),
        };
        let launch = Launch { grid: (plan.blocks, 1, 1), block: (plan.threads, 1, 1), shared: plan.shared };
        let name = ("batch_equalize8", kind(batch.layout.pixel, per_channel));
        let pictures = batch.argument();
        let arguments = arguments![pictures, rule, sharing];
        // SAFETY: the arguments match the parameters of batch_equalize8; the rest is guaranteed by the caller.
        unsafe { self.gpu.kernels.loaded.launch_together(self, (&BATCH_GLOBAL8, name), launch, arguments) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An H100 or H200.
    const HOPPER: (u32, u32) = (132, 227 << 10);
    const GRAY: (Pixel, usize) = (Pixel::Gray, 1);

    #[test]
    fn several_pictures_are_on_the_way_if_they_fit() {
        let plan = Plan::for_size(HOPPER, GRAY, (4096 * 3072, 8)).unwrap();
        assert_eq!((plan.blocks, plan.parts, plan.staggered), (396, 132, true));
        let plan = Plan::for_size(HOPPER, (Pixel::Rgb, 3), (4096 * 3072 * 3, 8)).unwrap();
        assert_eq!((plan.blocks, plan.parts, plan.staggered), (264, 264, false));
    }

    #[test]
    fn every_pack_belongs_to_a_part() {
        for bytes in [1, 16, 8192, 8208, 99_999, 1920 * 1080, 4096 * 3072, 16_384 * 16_384] {
            for number in [1, 2, 7, 64, 1000] {
                for kind in [GRAY, (Pixel::Rgb, 3), (Pixel::Rgba, 1), (Pixel::Rgba, 3)] {
                    let plan = Plan::for_size(HOPPER, kind, (bytes, number)).unwrap();
                    let vectors = if kind.0 == Pixel::Rgb { 3 } else { 1 };
                    assert!(u64::from(plan.parts) * u64::from(plan.packs) >= bytes / (16 * vectors));
                    assert!(plan.blocks <= 396 && plan.shared <= plan.shared, "{plan:?}");
                }
            }
        }
    }

    #[test]
    fn a_gpu_with_little_shared_memory_has_no_plan() {
        assert_eq!(Plan::for_size((13, 48 << 10), GRAY, (4096 * 3072, 8)), None);
        assert!(Plan::for_size((108, 163 << 10), GRAY, (4096 * 3072, 8)).is_some());
    }
}
