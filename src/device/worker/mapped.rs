//! The memory of a slot in a worker.

use std::os::fd::OwnedFd;

use tracing::trace_span;

use crate::slot::Memory;
use lanes::{Engine, EngineError};

/// The memory of a slot, which a lane pins for the first picture in it.
///
/// Pinning takes the driver milliseconds, during which messages about other slots are received.
pub(super) struct Mapped {
    memory: Memory,
    is_pinned: bool,
}

impl Mapped {
    /// Maps the memory of a descriptor.
    pub(super) fn new(fd: OwnedFd, bytes: u64, generation: u64) -> Result<Self, EngineError> {
        let memory = Memory::from_fd(fd, bytes as usize, generation)
            .map_err(|error| EngineError(format!("a slot's memory cannot be mapped: {error}")))?;
        Ok(Self { memory, is_pinned: false })
    }

    /// Returns the bytes, pinned.
    pub(super) fn pinned(&mut self, engine: &dyn Engine) -> Result<&mut [u8], EngineError> {
        if !self.is_pinned {
            let _span = trace_span!("pin a slot").entered();
            engine.pin(self.memory.bytes_mut())?;
            self.is_pinned = true;
        }
        Ok(self.memory.bytes_mut())
    }

    /// Undoes the pinning.
    pub(super) fn unpin(&mut self, engine: &dyn Engine) {
        if std::mem::take(&mut self.is_pinned) {
            engine.unpin(self.memory.bytes_mut());
        }
    }
}
