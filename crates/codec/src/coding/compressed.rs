//! Compressed JPEGs that devices may decode, equalize and encode.

use serde::{Deserialize, Serialize};

use crate::JpegQuality;
use equalize::Layout;

/// A compressed JPEG at the start of a slot, for a GPU to decode, equalize and encode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CompressedJpeg {
    /// Bytes of the file.
    pub bytes: u64,
    /// The layout of the pixels that are equalized: its luma, or RGB.
    pub layout: Layout,
    /// The quantization of the output.
    pub quality: JpegQuality,
}

impl CompressedJpeg {
    /// Returns the bytes of its slot: room for the file, and for nearly every output.
    ///
    /// (More contrast takes more bits. A picture with an output that does not fit is left to the
    /// CPU.)
    pub const fn slot_bytes(&self) -> u64 {
        2 * self.bytes + self.layout.pixels() / 8 + (64 << 10)
    }
}
