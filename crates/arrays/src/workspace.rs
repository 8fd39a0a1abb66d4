//! What a call needs in device memory besides the pictures.
#![allow(unsafe_code)]

use cuda::{Address, Result};

use crate::gpu::Stream;

/// Where a piece of memory begins is a multiple of this.
const ALIGNMENT: u64 = 256;

/// How large the pieces of a workspace are, in order, and so where they begin.
#[derive(Default)]
pub(crate) struct Pieces {
    bytes: u64,
}

impl Pieces {
    /// Adds a piece and returns where it begins, from the beginning of the workspace.
    pub(crate) fn add(&mut self, bytes: u64) -> u64 {
        let at = self.bytes;
        self.bytes += bytes.next_multiple_of(ALIGNMENT);
        at
    }

    /// Returns how large they are together.
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
    /// Allocates the pieces; the first `zeroed` bytes are made zero.
    pub(crate) fn new(stream: &'s Stream, pieces: &Pieces, zeroed: u64) -> Result<Self> {
        let workspace = Self { stream, at: stream.gpu.pool.allocate(stream, pieces.bytes)? };
        if zeroed > 0 {
            // SAFETY: the memory was just allocated, and is so large.
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
        // SAFETY: whatever uses it is in this stream. An error here stems from an earlier operation.
        let _ = unsafe { self.stream.free(self.at) };
    }
}
