//! Where tests may make workers fail.

use codec::CompressedJpeg;
use lanes::{EngineError, LaneError};

/// What a worker does wrong on purpose, so that tests can show what happens to the pictures. By default, nothing.
pub trait Faults: Sync {
    /// Refuses to work.
    ///
    /// # Errors
    /// If it refuses.
    fn refuse(&self) -> Result<(), EngineError> {
        Ok(())
    }

    /// Fails with the picture in these bytes. `trap` has a kernel of the GPU fail.
    ///
    /// # Errors
    /// The failure.
    fn strike(
        &self,
        _bytes: &mut [u8],
        _trap: &mut dyn FnMut() -> Result<(), EngineError>,
    ) -> Result<(), LaneError> {
        Ok(())
    }

    /// Puts a false result in the slot of a JPEG; returns the length to report, or `None` for an honest one.
    fn pretend(&self, _slot: &mut [u8], _jpeg: &CompressedJpeg) -> Option<u64> {
        None
    }
}

/// Makes the faults of a device's worker number N, counted from 0.
pub type MakeFaults = fn(u32) -> Result<Box<dyn Faults>, String>;

/// A worker that works.
pub struct NoFaults;

impl Faults for NoFaults {}
