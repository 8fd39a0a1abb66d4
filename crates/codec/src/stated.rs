//! What files say of the levels of their samples.

/// What a file says of the levels of its samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stated {
    /// The highest level.
    pub(super) top: u16,
    pub(super) place: Place,
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
}
