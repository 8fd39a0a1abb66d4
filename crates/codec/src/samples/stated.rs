//! Levels of samples as files state them.

/// The levels of a file's samples, as it states them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stated {
    /// The highest level.
    pub(crate) top: u16,
    pub(crate) place: Place,
}

impl Stated {
    /// Returns the levels of samples of 1 to 16 bits, multiplied by their format to fill the range.
    pub(crate) const fn spread(bits: u32) -> Self {
        Self { top: ((1_u32 << bits) - 1) as u16, place: Place::Spread }
    }
}

/// The place of levels in the samples that a decoder delivers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// Multiplied to fill the range.
    Spread,
    /// In the lowest bits.
    Low,
    /// Multiplied, as the format demands, or in the lowest bits nevertheless; the samples decide.
    Either,
    /// In the upper bits: multiplied by a power of two, with as many bits of 0 below them.
    Upper {
        /// The number of bits below them.
        shift: u8,
    },
}
