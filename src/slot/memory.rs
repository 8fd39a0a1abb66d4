//! The memory of slots.
#![allow(unsafe_code)]

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};

use memmap2::{Advice, MmapMut, MmapOptions, RemapOptions};
use rustix::fs::{FallocateFlags, MemfdFlags, SealFlags, fallocate};
use rustix::io::{Errno, retry_on_intr};

/// Memory of a fixed size, mapped into this process.
pub struct Memory {
    /// A number that tells this memory from any that the slot had before.
    pub generation: u64,
    map: MmapMut,
    /// The memfd through which the memory is shared, if it is.
    file: Option<File>,
    /// Whether no touch can find the system without a page.
    has_pages: bool,
}

impl Memory {
    /// Allocates zeroed memory for this process alone; pages are taken when they are first touched.
    ///
    /// # Errors
    /// The system's error, if it has no memory left.
    pub fn private(bytes: usize) -> io::Result<Self> {
        let map = MmapOptions::new().len(bytes).map_anon()?;
        // Without huge pages it is slower, nothing worse.
        let _ = map.advise(Advice::HugePage);
        Ok(Self { generation: next_generation(), map, file: None, has_pages: true })
    }

    /// Resizes private memory; the bytes at its front are kept.
    ///
    /// # Errors
    /// The system's error, if it has no memory left.
    ///
    /// # Panics
    /// If the memory is shared.
    pub fn resized(mut self, bytes: usize) -> io::Result<Self> {
        assert!(self.is_private(), "shared memory has a sealed size");
        // SAFETY: there is no file behind the memory that could be shorter, and nobody else has the mapping.
        unsafe { self.map.remap(bytes, RemapOptions::new().may_move(true))? };
        Ok(Self { generation: next_generation(), ..self })
    }

    /// Returns whether the memory is this process's alone.
    pub fn is_private(&self) -> bool {
        self.file.is_none()
    }

    /// Allocates zeroed memory that another process can map. It must not be touched before [`Memory::take_pages`].
    ///
    /// # Errors
    /// The system's error, if it has no file descriptor or address space left.
    pub fn shared(bytes: usize) -> io::Result<Self> {
        let fd = rustix::fs::memfd_create("histeqd-slot", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
        rustix::fs::ftruncate(&fd, bytes as u64)?;
        rustix::fs::fcntl_add_seals(&fd, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
        Ok(Self { has_pages: false, ..Self::map(fd, bytes, next_generation())? })
    }

    /// Takes all pages of shared memory, which takes milliseconds: a touch that the system has no page for would end the process.
    ///
    /// # Errors
    /// The system's error, if it has no memory left.
    pub fn take_pages(&mut self) -> io::Result<()> {
        let Some(file) = self.file.as_ref().filter(|_| !self.has_pages) else { return Ok(()) };
        // A signal interrupts it, and a file system without room is a machine without memory.
        let taken = retry_on_intr(|| fallocate(file, FallocateFlags::empty(), 0, self.map.len() as u64));
        taken.map_err(|errno| if errno == Errno::NOSPC { Errno::NOMEM } else { errno })?;
        self.has_pages = true;
        Ok(())
    }

    /// Maps memory that another process made with [`Memory::shared`], and whose pages it has taken.
    ///
    /// # Errors
    /// `InvalidData` if the descriptor is not sealed memory of that size, otherwise the system's error.
    pub fn from_fd(fd: OwnedFd, bytes: usize, generation: u64) -> io::Result<Self> {
        let sealed = rustix::fs::fcntl_get_seals(&fd)?.contains(SealFlags::SHRINK | SealFlags::GROW);
        if !sealed || rustix::fs::fstat(&fd)?.st_size as u64 != bytes as u64 {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "the descriptor is not a slot's memory"));
        }
        Self::map(fd, bytes, generation)
    }

    fn map(fd: OwnedFd, bytes: usize, generation: u64) -> io::Result<Self> {
        let file = File::from(fd);
        // SAFETY: the file is an anonymous memfd whose size is sealed, and whose pages have all been taken before a slot hands it out, so no
        // access can fault. The only other mapping is a worker's, which touches the bytes only between the message that lends it the slot and
        // its answer (or its death); the supervisor gives the slot to nobody else for that time.
        let map = unsafe { MmapOptions::new().len(bytes).map_mut(&file)? };
        Ok(Self { generation, map, file: Some(file), has_pages: true })
    }

    /// Returns the bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.map
    }

    /// Returns the bytes for writing.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.map
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
        self.file.as_ref().expect("only shared memory is handed to workers").as_fd()
    }
}
