//! The common part of all targets.

use histeqd_fuzz_targets::PeakAlloc;

pub use histeqd_fuzz_targets::{run, silence_contained_panics};

#[global_allocator]
static ALLOCATED: PeakAlloc = PeakAlloc;
