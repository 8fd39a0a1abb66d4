//! Stands in for DICOM in a build without it: files are refused, other types have no values.

use std::convert::Infallible;
use std::fs::File;

use crate::budget::Budget;
use crate::cores::Cores;
use crate::decode::Decode;
use crate::volumes::{NoVolumes, Volumes};
use crate::{CodecError, Decoded, Format, Limits, Slice, Target};

const LEFT_OUT: CodecError = CodecError::LeftOut { format: Format::Dicom, feature: "dicom" };

/// A type without values.
#[derive(Clone, Debug)]
pub(super) struct Absent(Infallible);

pub(super) type Frames = Absent;
pub(super) type Native = Absent;
pub(super) type Place = Absent;
pub(super) type Writer = Absent;

type Opened<'a> = (Box<dyn Decode + 'a>, Option<Frames>);

pub(super) fn open<'a>(
    _: &'a mut File,
    _: &'a mut Vec<u8>,
    _: &Limits,
    _: &mut dyn Budget,
    _: &Target,
    _: Option<Place>,
) -> Result<Opened<'a>, CodecError> {
    Err(LEFT_OUT)
}

pub(super) fn slice_of(
    _: &mut File,
    _: &mut Vec<u8>,
    _: &Limits,
    _: &mut dyn Budget,
) -> Result<Option<Slice>, CodecError> {
    Err(LEFT_OUT)
}

pub(super) fn encode(
    _: &Decoded,
    _: &mut [u8],
    _: &Target,
    _: &Cores,
    _: &mut File,
) -> Result<u64, CodecError> {
    Err(LEFT_OUT)
}

impl Absent {
    pub(super) fn count(&self) -> usize {
        match self.0 {}
    }

    pub(super) fn place(&self, _: usize) -> Place {
        match self.0 {}
    }

    pub(super) fn volumes(&self) -> Result<Volumes, NoVolumes> {
        match self.0 {}
    }

    pub(super) fn writer(&self) -> Writer {
        match self.0 {}
    }

    pub(super) fn metadata_bytes(&self) -> u64 {
        match self.0 {}
    }

    pub(super) fn is_shown(&self) -> bool {
        match self.0 {}
    }

    pub(super) fn rescale(&self) -> Option<[f64; 2]> {
        match self.0 {}
    }

    pub(super) fn write(
        &self,
        _: usize,
        _: &Decoded,
        _: &mut [u8],
        _: &Target,
        _: &Cores,
        _: &File,
    ) -> Result<Option<u64>, CodecError> {
        match self.0 {}
    }
}
