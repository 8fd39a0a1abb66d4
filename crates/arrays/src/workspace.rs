//! The memory of a call in addition to the pictures.
#![allow(unsafe_code)]

use cuda::{Address, Result};

use crate::gpu::Stream;

/// The alignment of each piece of memory.
const ALIGNMENT: u64 = 256;

/// The sizes of the pieces of a workspace, in order, which give their offsets.
#[derive(Default)]
pub(crate) struct Pieces {
    bytes: u64,
}

impl Pieces {
    /// Adds a piece and returns its offset in the workspace.
    pub(crate) fn add(&mut self, bytes: u64) -> u64 {
        let at = self.bytes;
        self.bytes += bytes.next_multiple_of(ALIGNMENT);
        at
    }

    /// Returns the size of all pieces.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }
}

/// Memory that is freed, in the order of the stream, when this is dropped.
pub(crate) struct Workspace<'s> {
    stream: &'s Stream,
    at: Address,
}

impl<'s> Workspace<'s> {
    /// Allocates the pieces and zeroes the first `zeroed` bytes.
    pub(crate) fn new(stream: &'s Stream, pieces: &Pieces, zeroed: u64) -> Result<Self> {
        let workspace = Self { stream, at: stream.gpu.pool.allocate(stream, pieces.bytes)? };
        if zeroed > 0 {
            // SAFETY: the memory was just allocated, with at least this size.
            unsafe { stream.zero(workspace.at, zeroed)? };
        }
        Ok(workspace)
    }

    /// Returns the address of a piece.
    pub(crate) fn at(&self, piece: u64) -> Address {
        self.at + piece
    }
}

impl Drop for Workspace<'_> {
    fn drop(&mut self) {
        // SAFETY: all work that uses it is in this stream. An error here stems from an earlier
        // operation.
        let _ = unsafe { self.stream.free(self.at) };
    }
}
