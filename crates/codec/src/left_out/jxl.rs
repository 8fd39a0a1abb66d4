//! Stands in for JPEG XL in a build without its feature: files are refused.

use crate::decode::Decode;
use crate::{CodecError, Format, Limits};

pub(super) fn open(_: &[u8], _: &Limits) -> Result<Box<dyn Decode>, CodecError> {
    Err(CodecError::LeftOut { format: Format::JpegXl, feature: "jxl" })
}
