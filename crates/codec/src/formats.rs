//! The formats, a room each, and the registry of all of them.

mod bmp;
#[cfg(feature = "dicom")]
mod dicom;
mod elements;
pub(crate) mod foreign;
pub(crate) mod gif;
pub(crate) mod jpeg;
#[cfg_attr(not(feature = "jpeg2000"), path = "formats/jpeg2000/left_out.rs")]
pub(crate) mod jpeg2000;
#[cfg(feature = "jxl")]
mod jxl;
pub(crate) mod png;
mod pnm;
mod registry;
mod tiff;
mod webp;
#[cfg(feature = "zarr")]
mod zarr;

pub use registry::may_have_pages;
pub(crate) use registry::{Encoding, open_folder, sink_of_pages};
