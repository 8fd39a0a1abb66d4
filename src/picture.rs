//! What is said of pictures and written beside them, without their pixels: of which kind they are, what was counted in them, the LUTs made of
//! that, their masks, and the record and the recipe on an output; and the objects that an image in object storage consists of.
//!
//! It knows neither slots nor devices nor runs.

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
