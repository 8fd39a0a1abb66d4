//! What files say of the levels of their samples.

/// What a file says of the levels of its samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stated {
    /// The highest level.
    pub(super) top: u16,
    pub(super) place: Place,
}

impl Stated {
    /// Returns what a format says whose samples have 1 to 16 bits, multiplied to fill the range.
    pub(super) const fn spread(bits: u32) -> Self {
        Self { top: ((1_u32 << bits) - 1) as u16, place: Place::Spread }
    }
}

/// How levels lie in the samples that a decoder delivers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// Multiplied to fill the range.
    Spread,
    /// In the lowest bits.
    Low,
    /// Multiplied, as the format demands, or in the lowest bits nevertheless, which the samples tell.
    Either,
    /// In the upper bits: multiplied by a power of two, so that as many bits below them are 0.
    Upper {
        /// How many bits are below them.
        shift: u8,
    },
}
