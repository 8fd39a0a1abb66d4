//! The parts of a picture: bands of rows, and the slices of volumes.

pub(crate) mod banded;
pub(crate) mod bands;
pub(crate) mod opening;
pub(crate) mod pages;
pub(crate) mod slice;
pub(crate) mod volumes;
