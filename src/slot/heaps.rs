//! The freed memory that the heaps of decoders and encoders keep, which no slot counts.
#![allow(unsafe_code)]

use rustix::process::{Resource, getrlimit};

/// The freed memory that all heaps together may keep, as a divisor of the memory for pictures; at
/// least 1 MiB per heap.
const HEAPS_KEEP: u64 = 8;

/// Bounds the freed memory that the heaps of `threads` decoders, and as many encoders, keep in
/// addition to the `memory` bytes for pictures: glibc would keep up to 64 MiB per thread.
///
/// If they keep too little, every picture waits for new pages, for which the threads wait for each
/// other: that took a twentieth of a JPEG's time with two threads, and half of it with 64 that kept
/// 1 MiB each.
pub fn limit_heap_retention(memory: u64, threads: usize) {
    let keep = (memory / HEAPS_KEEP / threads.max(1).saturating_mul(2) as u64).clamp(1 << 20, 8 << 20)
        as libc::c_int;
    #[cfg(target_env = "gnu")]
    // SAFETY: mallopt only sets a parameter of the allocator, under the allocator's own lock.
    unsafe {
        libc::mallopt(libc::M_TRIM_THRESHOLD, keep);
        libc::mallopt(libc::M_MMAP_THRESHOLD, keep / 2);
    }
    #[cfg(not(target_env = "gnu"))]
    let _ = keep;
}

/// Makes all threads share one heap if the address space is limited (`ulimit -v`). glibc reserves
/// 64 MiB of it for a heap of each: of 800 MB a service of 19 threads had 57 left, and the next
/// allocation ended it. To be called before there are threads.
pub fn share_heap_in_limited_space() {
    if getrlimit(Resource::As).current.is_none() {
        return;
    }
    #[cfg(target_env = "gnu")]
    // SAFETY: mallopt only sets a parameter of the allocator, under the allocator's own lock.
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, 1);
    }
}
