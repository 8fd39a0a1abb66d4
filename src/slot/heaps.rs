//! What the heaps of decoders and encoders keep, which no slot counts.
#![allow(unsafe_code)]

/// Which part of the memory for pictures the heaps of all decoders and encoders may keep of what is freed, unless that is less than a
/// MiB for each.
const HEAPS_KEEP: u64 = 8;

/// Bounds what the heaps of so many decoders, and as many encoders, keep of what is freed, beside `memory` bytes for pictures: glibc would
/// keep up to 64 MiB for each thread. To keep too little has every picture wait for new pages, for which the threads wait for each other: a
/// twentieth of a JPEG's time with two threads, and half of it with 64 that kept a MiB each.
pub fn bound_heaps(memory: u64, threads: usize) {
    let keep = (memory / HEAPS_KEEP / threads.max(1).saturating_mul(2) as u64).clamp(1 << 20, 8 << 20)
        as libc::c_int;
    #[cfg(target_env = "gnu")]
    // SAFETY: mallopt only sets a number of the allocator, under the allocator's own lock.
    unsafe {
        libc::mallopt(libc::M_TRIM_THRESHOLD, keep);
        libc::mallopt(libc::M_MMAP_THRESHOLD, keep / 2);
    }
    #[cfg(not(target_env = "gnu"))]
    let _ = keep;
}
