//! Facts about pictures, without their pixels: their kind, counts, LUTs, masks, the record and the
//! recipe on an output, and the objects that make up an image in object storage.
//!
//! The module does not know slots, devices and runs.

pub mod band_tiles;
pub mod boxes;
pub mod counts;
pub(crate) mod kind;
pub mod luts;
pub mod mask;
pub(crate) mod preview;
pub mod recipe;
pub mod record;
pub mod reference;
pub mod remark;
pub(crate) mod stored_image;
pub mod unused;
