//! The memory that decoders take, against their forecasts.

use peak_alloc::PeakAlloc;

/// Bytes that may be taken without being counted.
const UNCOUNTED: u64 = 4 << 20;

/// Memory in use, from a moment on.
///
/// It is 0 where [`PeakAlloc`] is not the allocator of the program.
pub(crate) struct Watched {
    before: usize,
}

impl Watched {
    pub(crate) fn begin() -> Self {
        PeakAlloc.reset_peak_usage();
        Self { before: PeakAlloc.current_usage() }
    }

    /// Checks that no more was taken than `counted` bytes and small change.
    ///
    /// # Panics
    /// If it was more.
    pub(crate) fn check(self, counted: u64) {
        let taken = PeakAlloc.peak_usage().saturating_sub(self.before) as u64;
        assert!(
            taken <= counted.saturating_add(UNCOUNTED),
            "it took {taken} bytes, and {counted} were counted"
        );
    }
}
