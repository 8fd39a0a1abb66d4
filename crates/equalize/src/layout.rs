//! The layout of a decoded picture: its size, its samples and how they are arranged in memory.

/// Bits per sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Depth {
    /// One byte per sample, levels 0 to 255.
    Eight,
    /// Two bytes per sample, levels 0 to 65535.
    Sixteen,
}

impl Depth {
    /// Returns the bytes per sample.
    pub const fn bytes(self) -> usize {
        match self {
            Self::Eight => 1,
            Self::Sixteen => 2,
        }
    }

    /// Returns the number of levels of a sample: the length of a histogram and of a LUT.
    pub const fn levels(self) -> usize {
        match self {
            Self::Eight => 256,
            Self::Sixteen => 65536,
        }
    }
}

/// The channels of a pixel, in the order in which they are interleaved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Pixel {
    /// Gray alone.
    Gray,
    /// Gray, then alpha.
    GrayAlpha,
    /// Red, green, blue.
    Rgb,
    /// Red, green, blue, alpha.
    Rgba,
}

impl Pixel {
    /// Returns the samples per pixel, including alpha.
    pub const fn channels(self) -> usize {
        match self {
            Self::Gray => 1,
            Self::GrayAlpha => 2,
            Self::Rgb => 3,
            Self::Rgba => 4,
        }
    }

    /// Returns the samples per pixel without alpha: 1 or 3.
    pub const fn colour_channels(self) -> usize {
        match self {
            Self::Gray | Self::GrayAlpha => 1,
            Self::Rgb | Self::Rgba => 3,
        }
    }

    /// Returns whether a pixel has alpha, which is then its last sample.
    pub const fn has_alpha(self) -> bool {
        matches!(self, Self::GrayAlpha | Self::Rgba)
    }
}

/// The size and sample layout of a picture.
///
/// Rows go from top to bottom without padding, pixels from left to right, with channels
/// interleaved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Layout {
    /// Pixels per row, at least 1.
    pub width: u32,
    /// Rows, at least 1.
    pub height: u32,
    /// The channels of a pixel.
    pub pixel: Pixel,
    /// The depth of a sample.
    pub depth: Depth,
}

impl Layout {
    /// Returns the number of pixels.
    pub const fn pixels(&self) -> u64 {
        self.width as u64 * self.height as u64
    }

    /// Returns the bytes per pixel.
    pub const fn pixel_bytes(&self) -> usize {
        self.pixel.channels() * self.depth.bytes()
    }

    /// Returns the layout of one of `frames` frames of equal height, stacked vertically.
    #[must_use]
    pub const fn frame(&self, frames: u32) -> Self {
        let frames = if frames == 0 { 1 } else { frames };
        Self { height: self.height / frames, ..*self }
    }

    /// Returns the bytes of the whole picture.
    ///
    /// Saturates instead of overflowing; the decoding limits reject such sizes.
    pub const fn bytes(&self) -> u64 {
        self.pixels().saturating_mul(self.pixel_bytes() as u64)
    }
}
