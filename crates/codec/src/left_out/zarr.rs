//! Stands in for OME-Zarr in a build without it: images are refused, other types have no values.

use std::convert::Infallible;
use std::fs::File;

use crate::budget::Budget;
use crate::cores::Cores;
use crate::decode::Decode;
use crate::volumes::{NoVolumes, Volumes};
use crate::{CodecError, Decoded, Format, Limits, MediumRef, Target};

/// A type without values.
#[derive(Clone, Debug)]
pub(super) struct Absent(Infallible);

pub(super) type Native = Absent;
pub(super) type Place = Absent;
pub(super) type Stack = Absent;
pub(super) type Writer = Absent;

pub(super) fn open(
    _: MediumRef<'_>,
    _: &Limits,
    _: &dyn Budget,
    _: &Target,
    _: Option<Place>,
) -> Result<(Box<dyn Decode>, Option<Stack>), CodecError> {
    Err(CodecError::LeftOut { format: Format::Zarr, feature: "zarr" })
}

impl Absent {
    pub(super) fn count(&self) -> usize {
        match self.0 {}
    }

    pub(super) fn place(&self, _: usize) -> Place {
        match self.0 {}
    }

    pub(super) fn channel(&self, _: usize) -> usize {
        match self.0 {}
    }

    pub(super) fn volumes(&self) -> Result<Volumes, NoVolumes> {
        match self.0 {}
    }

    pub(super) fn heap_bytes(&self) -> u64 {
        match self.0 {}
    }

    pub(super) fn is_sparse(&self) -> bool {
        match self.0 {}
    }

    pub(super) fn writer(&self) -> Writer {
        match self.0 {}
    }

    pub(super) fn kept(&self, _: usize, _: &File) -> Result<Option<u64>, CodecError> {
        match self.0 {}
    }

    pub(super) fn write(
        &self,
        _: usize,
        _: &Decoded,
        _: &mut [u8],
        _: &Cores,
        _: (MediumRef<'_>, &File),
    ) -> Result<Option<u64>, CodecError> {
        match self.0 {}
    }
}
