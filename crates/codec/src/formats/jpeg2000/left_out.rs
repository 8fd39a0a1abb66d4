//! Stands in for JPEG 2000 in a build without it: files, and frames of DICOM, are refused.

use crate::coding::codestream::{Codestream, CodestreamDecoder};
use crate::picture::decode::Decode;
use crate::{CodecError, Format, Limits, Size};

const LEFT_OUT: CodecError = CodecError::LeftOut { format: Format::Jpeg2000, feature: "jpeg2000" };

pub(super) fn open(_: &[u8], _: &Limits) -> Result<Box<dyn Decode>, CodecError> {
    Err(LEFT_OUT)
}

pub(super) fn decode(
    _: Vec<u8>,
    _: Size,
    _: usize,
    _: usize,
    _: Option<&dyn CodestreamDecoder>,
    _: &mut [u8],
) -> Result<(), CodecError> {
    Err(LEFT_OUT)
}

/// Refuses to decode a codestream.
///
/// # Errors
/// [`CodecError::LeftOut`].
pub fn decode_codestream(_: &Codestream, _: &[u8], _: &mut [u8]) -> Result<(), CodecError> {
    Err(LEFT_OUT)
}

#[cfg(feature = "dicom")]
pub(super) fn most_bytes(_: u64) -> u64 {
    0
}
