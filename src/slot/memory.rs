//! The memory of slots.
#![allow(unsafe_code)]

mod aligned;

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};

use memmap2::{Advice, MmapMut, MmapOptions, RemapOptions};
use rustix::fs::{FallocateFlags, MemfdFlags, SealFlags, fallocate};
use rustix::io::{Errno, retry_on_intr};
use tracing::trace_span;

use aligned::{AlignedMap, HUGE_PAGE};

/// Memory of a fixed size, mapped into this process.
pub struct Memory {
    /// A number that distinguishes this memory from earlier memory of the slot.
    pub generation: u64,
    map: Map,
}

enum Map {
    Private(MmapMut),
    Shared {
        map: AlignedMap,
        /// The memfd through which the memory is shared.
        file: File,
        /// Whether all pages are allocated, and a touch cannot fail for lack of one.
        has_pages: bool,
    },
}

impl Memory {
    /// Allocates zeroed memory for this process alone; pages are taken when they are first touched.
    ///
    /// # Errors
    /// The system's error, if it has no memory left.
    pub fn private(bytes: usize) -> io::Result<Self> {
        let map = MmapOptions::new().len(bytes).map_anon()?;
        // Without huge pages it is slower, but still works.
        let _ = map.advise(Advice::HugePage);
        Ok(Self { generation: next_generation(), map: Map::Private(map) })
    }

    /// Resizes private memory; the bytes at its front are kept.
    ///
    /// # Errors
    /// The system's error, if it has no memory left.
    ///
    /// # Panics
    /// If the memory is shared.
    pub fn resized(self, bytes: usize) -> io::Result<Self> {
        let Map::Private(mut map) = self.map else { panic!("shared memory has a sealed size") };
        // SAFETY: the memory has no file that could be shorter, and this value alone has the
        // mapping.
        unsafe { map.remap(bytes, RemapOptions::new().may_move(true))? };
        Ok(Self { generation: next_generation(), map: Map::Private(map) })
    }

    /// Returns whether the memory is this process's alone.
    pub fn is_private(&self) -> bool {
        matches!(self.map, Map::Private(_))
    }

    /// Allocates zeroed memory that another process can map. It must not be touched before
    /// [`Memory::take_pages`].
    ///
    /// # Errors
    /// The system's error, if it has no file descriptor or address space left.
    pub fn shared(bytes: usize) -> io::Result<Self> {
        let fd = rustix::fs::memfd_create("histeqd-slot", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
        rustix::fs::ftruncate(&fd, bytes as u64)?;
        rustix::fs::fcntl_add_seals(&fd, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
        Self::map(fd, bytes, next_generation(), false)
    }

    /// Allocates all pages of shared memory: touching one that the system cannot provide would end
    /// the process.
    ///
    /// # Errors
    /// The system's error, if it has no memory left.
    pub fn take_pages(&mut self) -> io::Result<()> {
        let Map::Shared { map, file, has_pages } = &mut self.map else { return Ok(()) };
        if *has_pages {
            return Ok(());
        }
        let _span = trace_span!("pages of a slot").entered();
        let take = |start: usize, bytes: usize| {
            // A signal interrupts it, and a file system without room is a machine without memory.
            retry_on_intr(|| fallocate(&*file, FallocateFlags::empty(), start as u64, bytes as u64))
                .map_err(|errno| if errno == Errno::NOSPC { Errno::NOMEM } else { errno })
        };
        let bytes = map.bytes().len();
        // The rest of a huge page comes with one small page of it. Small pages of large memory take
        // twenty times as long, here and in the worker. But a request for huge ones makes all cores
        // empty their lists of pages, one after the other: with 64 busy cores a slot for a
        // photograph's file took 119 ms, and takes 4 to 8 with small ones.
        if bytes.is_multiple_of(HUGE_PAGE) {
            let starts = (0..bytes / HUGE_PAGE).map(|number| number * HUGE_PAGE);
            starts.clone().try_for_each(|start| take(start, 1))?;
            map.take_huge_pages();
        }
        take(0, bytes)?;
        *has_pages = true;
        Ok(())
    }

    /// Maps memory that another process made with [`Memory::shared`] and took the pages of.
    ///
    /// # Errors
    /// `InvalidData` if the descriptor is not sealed memory of that size, otherwise the system's
    /// error.
    pub fn from_fd(fd: OwnedFd, bytes: usize, generation: u64) -> io::Result<Self> {
        let sealed = rustix::fs::fcntl_get_seals(&fd)?.contains(SealFlags::SHRINK | SealFlags::GROW);
        if !sealed || rustix::fs::fstat(&fd)?.st_size as u64 != bytes as u64 {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "the descriptor is not a slot's memory"));
        }
        Self::map(fd, bytes, generation, true)
    }

    fn map(fd: OwnedFd, bytes: usize, generation: u64, has_pages: bool) -> io::Result<Self> {
        let file = File::from(fd);
        // SAFETY: the file is an anonymous memfd with a sealed size, and all its pages have been
        // allocated before a slot hands it out: no access can fault. The only other mapping is a
        // worker's, which touches the bytes only between the message that lends it the slot and its
        // answer (or its death); the supervisor gives the slot to no other user for that time.
        let map = unsafe { AlignedMap::new(&file, bytes)? };
        Ok(Self { generation, map: Map::Shared { map, file, has_pages } })
    }

    /// Returns the bytes.
    pub fn bytes(&self) -> &[u8] {
        match &self.map {
            Map::Private(map) => map,
            Map::Shared { map, .. } => map.bytes(),
        }
    }

    /// Returns the bytes for writing.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        match &mut self.map {
            Map::Private(map) => map,
            Map::Shared { map, .. } => map.bytes_mut(),
        }
    }
}

fn next_generation() -> u64 {
    static GENERATION: AtomicU64 = AtomicU64::new(1);
    GENERATION.fetch_add(1, Ordering::Relaxed)
}

impl AsFd for Memory {
    /// # Panics
    /// If the memory is private.
    fn as_fd(&self) -> BorrowedFd<'_> {
        let Map::Shared { file, .. } = &self.map else { panic!("only shared memory is handed to workers") };
        file.as_fd()
    }
}
