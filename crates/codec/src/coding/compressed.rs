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
    /// More contrast takes more bits, and so may another quality. A picture with an output that
    /// does not fit is left to the CPU: at quality 90, grain of quality 80 takes up to 4.5 times
    /// the bits of the file once its contrast is enhanced.
    pub const fn slot_bytes(&self) -> u64 {
        let pixels_of_byte = match self.quality {
            JpegQuality::Keep => 8,
            JpegQuality::Value(_) => 4,
        };
        2 * self.bytes + self.layout.pixels() / pixels_of_byte + (64 << 10)
    }
}
