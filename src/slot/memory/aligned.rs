//! Mappings of files at addresses aligned to huge pages. The kernel aligns them itself only where
//! huge pages for shared memory are configured, which they hardly are.
#![allow(unsafe_code)]

use std::fs::File;
use std::io;
use std::ptr::null_mut;
use std::slice;

use rustix::mm::{MapFlags, ProtFlags, mmap, mmap_anonymous, munmap};

/// The bytes of a huge page.
pub(super) const HUGE_PAGE: usize = 2 << 20;

/// A shared mapping of a file, within reserved addresses.
pub(super) struct AlignedMap {
    /// The first reserved address.
    reserved: *mut libc::c_void,
    /// The number of bytes of reserved addresses.
    size: usize,
    /// The first address of the mapping.
    start: *mut u8,
    bytes: usize,
}

// SAFETY: the addresses are this value's alone, whichever thread has it, and are written to only
// through a unique reference.
unsafe impl Send for AlignedMap {}
// SAFETY: as above.
unsafe impl Sync for AlignedMap {}

impl AlignedMap {
    /// Maps the front of a file.
    ///
    /// # Errors
    /// The system's error, if it has no address space left.
    ///
    /// # Safety
    /// As long as the mapping exists, the file must be at least this long, and bytes that are being
    /// accessed through it must not be accessed otherwise.
    pub(super) unsafe fn new(file: &File, bytes: usize) -> io::Result<Self> {
        let size = bytes.checked_add(HUGE_PAGE).ok_or(io::ErrorKind::OutOfMemory)?;
        let (private, shared) = (MapFlags::PRIVATE | MapFlags::NORESERVE, MapFlags::SHARED | MapFlags::FIXED);
        // SAFETY: the system chooses the addresses, which are therefore unused.
        let reserved = unsafe { mmap_anonymous(null_mut(), size, ProtFlags::empty(), private)? };
        let start = reserved.wrapping_byte_add(reserved.addr().next_multiple_of(HUGE_PAGE) - reserved.addr());
        let map = Self { reserved, size, start: start.cast(), bytes };
        if bytes > 0 {
            // SAFETY: these addresses are among the reserved ones, which are unused.
            unsafe { mmap(start, bytes, ProtFlags::READ | ProtFlags::WRITE, shared, file, 0)? };
        }
        Ok(map)
    }

    pub(super) fn bytes(&self) -> &[u8] {
        // SAFETY: this many bytes are mapped there as long as this value exists, and the caller of
        // `new` has promised that the file has them and that they are not written to meanwhile.
        unsafe { slice::from_raw_parts(self.start, self.bytes) }
    }

    pub(super) fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above; and this value is borrowed uniquely.
        unsafe { slice::from_raw_parts_mut(self.start, self.bytes) }
    }

    /// Asks for huge pages where the file has at least one page of each, whatever is configured for
    /// shared memory. Without them, which Linux gives since 6.1, it is slower, but still works.
    pub(super) fn take_huge_pages(&mut self) {
        let bytes = self.bytes / HUGE_PAGE * HUGE_PAGE;
        // SAFETY: they are mapped, and keep their content.
        let _ = unsafe { libc::madvise(self.start.cast(), bytes, libc::MADV_COLLAPSE) };
    }
}

impl Drop for AlignedMap {
    fn drop(&mut self) {
        // SAFETY: this value reserved them, and no reference into them outlives it. It cannot fail.
        let _ = unsafe { munmap(self.reserved, self.size) };
    }
}
