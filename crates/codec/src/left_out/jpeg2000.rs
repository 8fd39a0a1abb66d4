//! Stands in for JPEG 2000 in a build without it: files, and frames of DICOM, are refused.

use crate::decode::Decode;
use crate::{CodecError, Codestream, CodestreamDecoder, Format, Limits};

const LEFT_OUT: CodecError = CodecError::LeftOut { format: Format::Jpeg2000, feature: "jpeg2000" };

pub(super) fn open(_: &[u8], _: &Limits) -> Result<Box<dyn Decode>, CodecError> {
    Err(LEFT_OUT)
}

pub(super) fn decode(
    _: Vec<u8>,
    _: (u32, u32),
    _: usize,
    _: usize,
    _: Option<&dyn CodestreamDecoder>,
    _: &mut [u8],
) -> Result<(), CodecError> {
    Err(LEFT_OUT)
}

pub fn decode_codestream(_: &Codestream, _: &[u8], _: &mut [u8]) -> Result<(), CodecError> {
    Err(LEFT_OUT)
}

#[cfg(feature = "dicom")]
pub(super) fn most_bytes(_: u64) -> u64 {
    0
}

#[cfg(all(test, feature = "dicom"))]
mod tests {
    use std::fs::File;

    use crate::{CodecError, Cores, Format, Limits, Target, open};

    #[test]
    fn a_frame_of_dicom_that_is_jpeg_2000_is_refused_by_that_name() {
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/data/dicom/mr-jpeg-2000.dcm");
        let (mut file, mut buffer) = (File::open(file).unwrap(), Vec::new());
        let limits = Limits { max_pixels: 1 << 20, max_bytes: 1 << 24 };
        let picture = open(&mut file, &mut buffer, &limits, &Target::AS_STORED).unwrap();
        let mut slot = vec![0; picture.slot_bytes()];
        let error = picture.decode(&mut slot, Vec::new(), &Cores::none()).unwrap_err();
        assert!(matches!(error, CodecError::LeftOut { format: Format::Jpeg2000, .. }), "{error}");
    }
}
