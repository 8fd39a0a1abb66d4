//! Faults of workers, for tests.

use codec::coders::CompressedJpeg;
use lanes::{EngineError, LaneError};

/// The faults of a worker, by which tests show the fate of the pictures. The default is no fault.
pub trait Faults: Sync {
    /// Refuses to work.
    ///
    /// # Errors
    /// If it refuses.
    fn refuse(&self) -> Result<(), EngineError> {
        Ok(())
    }

    /// Fails with the picture in these bytes. `trap` makes a kernel of the GPU fail.
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

    /// Puts a false result in the slot of a JPEG; returns the length to report.
    ///
    /// `None` for an honest result.
    fn pretend(&self, _slot: &mut [u8], _jpeg: &CompressedJpeg) -> Option<u64> {
        None
    }
}

/// Makes the faults of a device's worker number N, counted from 0.
pub type MakeFaults = fn(u32) -> Result<Box<dyn Faults>, String>;

/// A worker without faults.
pub struct NoFaults;

impl Faults for NoFaults {}
