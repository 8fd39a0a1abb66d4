//! What is written, and what is refused before it is read.

pub use crate::codec::{Format, JpegQuality, Limits, PngLevel, Target};
