//! Stands in for JPEG 2000 in a build without its feature: files are refused, and so are frames of DICOM.

use crate::decode::Decode;
use crate::{CodecError, Format, Limits};

const LEFT_OUT: CodecError = CodecError::LeftOut { format: Format::Jpeg2000, feature: "jpeg2000" };

pub(super) fn open(_: &[u8], _: &Limits) -> Result<Box<dyn Decode>, CodecError> {
    Err(LEFT_OUT)
}

#[cfg(feature = "dicom")]
pub(super) fn decode(_: Vec<u8>, _: (u32, u32), _: usize, _: usize, _: &mut [u8]) -> Result<(), CodecError> {
    Err(LEFT_OUT)
}

#[cfg(feature = "dicom")]
pub(super) fn most_bytes(_: u64) -> u64 {
    0
}
