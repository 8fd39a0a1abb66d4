//! What all targets have in common.

use histeqd_fuzz_targets::PeakAlloc;

pub use histeqd_fuzz_targets::{run, silence_contained_panics};

#[global_allocator]
static ALLOCATED: PeakAlloc = PeakAlloc;
