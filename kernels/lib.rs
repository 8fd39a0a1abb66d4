//! The CUDA kernels of histeqd as PTX, which every driver from 384 on compiles for its GPUs, from compute capability 3.7 on. `build.sh`
//! makes it from the sources beside it. There are several modules so that a driver compiles only what a run needs.
//!
//! ```
//! assert!(histeqd_kernels::GLOBAL8.contains(".target sm_37"));
//! ```

/// Global equalization and counting of 8-bit pictures.
pub const GLOBAL8: &str = include_str!("prebuilt/global8.ptx");
/// Global equalization and counting of 16-bit pictures.
pub const GLOBAL16: &str = include_str!("prebuilt/global16.ptx");
/// Planes of interleaved pixels, taken out and put back.
pub const PLANES: &str = include_str!("prebuilt/planes.ptx");
/// CLAHE of 8-bit planes.
pub const CLAHE8: &str = include_str!("prebuilt/clahe8.ptx");
/// CLAHE of 16-bit planes.
pub const CLAHE16: &str = include_str!("prebuilt/clahe16.ptx");
/// The check of a JPEG's entropy-coded data.
pub const JPEG_SCAN: &str = include_str!("prebuilt/jpeg_scan.ptx");
/// A kernel that traps, to test what a failing GPU costs.
pub const TRAP: &str = include_str!("prebuilt/trap.ptx");
/// Published ways of equalization, which the ladder compares with those above.
pub const LADDER: &str = include_str!("prebuilt/ladder.ptx");
