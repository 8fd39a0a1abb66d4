//! Compressed streams that several formats share, and the devices that may code them.

pub(crate) mod codestream;
pub(crate) mod compressed;
pub(crate) mod deflate;
pub(crate) mod inflate;
pub(crate) mod streams;
