//! Codestreams of JPEG 2000 that devices may decode, and the trait of their decoders.

use std::fmt::Debug;

use serde::{Deserialize, Serialize};

/// The description of a codestream for a device, in addition to its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Codestream {
    /// Bytes of the codestream.
    pub bytes: u64,
    /// Pixels in a row.
    pub width: u32,
    /// Rows.
    pub height: u32,
    /// Samples of a pixel.
    pub components: u32,
    /// Bits of a sample, with its sign.
    pub bits: u32,
    /// Whether samples have a sign.
    pub is_signed: bool,
    /// Bytes of a decoded sample: 1 or 2.
    pub sample_bytes: u32,
    /// How its blocks are coded.
    pub coder: BlockCoder,
}

/// The block coder of a codestream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum BlockCoder {
    /// As in JPEG 2000.
    Usual,
    /// With high throughput (HTJ2K): the CPU does not decode it.
    HighThroughput,
}

impl Codestream {
    /// Returns the samples of the picture.
    pub const fn samples(&self) -> u64 {
        self.width as u64 * self.height as u64 * self.components as u64
    }

    /// Returns the bytes of all samples.
    pub const fn decoded_bytes(&self) -> u64 {
        self.samples() * self.sample_bytes as u64
    }

    /// Returns the bytes of slot that it takes: its samples replace it there.
    pub const fn slot_bytes(&self) -> u64 {
        if self.bytes > self.decoded_bytes() { self.bytes } else { self.decoded_bytes() }
    }
}

/// A device that decodes codestreams instead of this crate, where it can.
pub trait CodestreamDecoder: Debug + Sync {
    /// Decodes a codestream into `into`, of [`Codestream::decoded_bytes`].
    ///
    /// Pixels follow each other, with the low byte of a sample first, and signed samples in two's
    /// complement. Returns whether it did; if not, the CPU does, and `into` holds anything.
    fn decode(&self, codestream: &Codestream, bytes: &[u8], into: &mut [u8]) -> bool;
}
