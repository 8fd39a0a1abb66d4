//! What a decoded picture is: its size, its samples and how they lie in memory.

use serde::{Deserialize, Serialize};

/// Bits a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Depth {
    /// One byte a sample, levels 0 to 255.
    Eight,
    /// Two bytes a sample in the machine's byte order, levels 0 to 65535.
    Sixteen,
}

impl Depth {
    /// Bytes of one sample.
    pub const fn bytes(self) -> usize {
        match self {
            Self::Eight => 1,
            Self::Sixteen => 2,
        }
    }

    /// How many levels a sample can have: the length of a histogram and of a LUT.
    pub const fn levels(self) -> usize {
        match self {
            Self::Eight => 256,
            Self::Sixteen => 65536,
        }
    }
}

/// Which channels a pixel has, in the order in which they are interleaved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Pixel {
    /// One sample.
    Gray,
    /// Gray, then alpha.
    GrayAlpha,
    /// Red, green, blue.
    Rgb,
    /// Red, green, blue, alpha.
    Rgba,
}

impl Pixel {
    /// Samples of one pixel, alpha included.
    pub const fn channels(self) -> usize {
        match self {
            Self::Gray => 1,
            Self::GrayAlpha => 2,
            Self::Rgb => 3,
            Self::Rgba => 4,
        }
    }

    /// Samples of one pixel that carry colour: 1 or 3.
    pub const fn colour_channels(self) -> usize {
        match self {
            Self::Gray | Self::GrayAlpha => 1,
            Self::Rgb | Self::Rgba => 3,
        }
    }

    /// Whether the last sample of a pixel is its alpha.
    pub const fn has_alpha(self) -> bool {
        matches!(self, Self::GrayAlpha | Self::Rgba)
    }
}

/// Size and sample layout of a picture: rows top to bottom without padding, pixels left to right, channels interleaved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Layout {
    /// Pixels a row, at least 1.
    pub width: u32,
    /// Rows, at least 1.
    pub height: u32,
    /// The channels.
    pub pixel: Pixel,
    /// The samples.
    pub depth: Depth,
}

impl Layout {
    /// Width times height.
    pub const fn pixels(&self) -> u64 {
        self.width as u64 * self.height as u64
    }

    /// Bytes of one pixel.
    pub const fn pixel_bytes(&self) -> usize {
        self.pixel.channels() * self.depth.bytes()
    }

    /// Bytes of the whole picture. Saturates instead of overflowing; the limits refuse such sizes.
    pub const fn bytes(&self) -> u64 {
        self.pixels().saturating_mul(self.pixel_bytes() as u64)
    }
}
