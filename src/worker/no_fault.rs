//! In builds without the feature `faults`, workers do not fail on request.

use codec::CompressedJpeg;
use lanes::{EngineError, LaneError};

/// No failure.
pub(super) struct Faults;

impl Faults {
    pub(super) fn from_environment(_life: u32) -> Result<Self, String> {
        Ok(Self)
    }

    pub(super) fn refuse(&self, _life: u32) -> Result<(), EngineError> {
        Ok(())
    }

    pub(super) fn strike(
        &self,
        _bytes: &mut [u8],
        _trap: impl FnOnce() -> Result<(), EngineError>,
    ) -> Result<(), LaneError> {
        Ok(())
    }

    pub(super) fn pretend(&self, _slot: &mut [u8], _planes: u64, _jpeg: &CompressedJpeg) -> Option<u64> {
        None
    }
}
