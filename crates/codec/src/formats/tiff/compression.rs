//! The compression of strips and tiles, and predictors.

pub(crate) mod deflate;
pub(crate) mod fax;
pub(crate) mod inflated;
pub(crate) mod lzw;
pub(crate) mod method;
pub(crate) mod predictor;
pub(crate) mod zstd;
