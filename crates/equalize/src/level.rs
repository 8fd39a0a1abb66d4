//! The two sample types.

use std::ops::{BitAnd, BitOr};

use bytemuck::Pod;

use crate::Depth;

/// A sample of a picture, `u8` or `u16`, as a level.
///
/// The arithmetic is written once, over this trait.
pub trait Level:
    Pod + Ord + BitAnd<Output = Self> + BitOr<Output = Self> + Send + Sync + private::Sealed
{
    /// The depth.
    const DEPTH: Depth;
    /// The number of levels: 256 or 65536.
    const LEVELS: usize = Self::DEPTH.levels();

    /// Returns the sample as an index into a histogram or a LUT.
    fn level(self) -> usize;

    /// Returns the sample of a level below [`Self::LEVELS`].
    fn from_level(level: u32) -> Self;

    /// Adds, saturating at the highest level.
    fn plus(self, other: Self) -> Self;

    /// Subtracts, saturating at 0.
    fn minus(self, other: Self) -> Self;
}

impl Level for u8 {
    const DEPTH: Depth = Depth::Eight;

    #[inline(always)]
    fn level(self) -> usize {
        usize::from(self)
    }

    #[inline(always)]
    fn from_level(level: u32) -> Self {
        debug_assert!(level < 256);
        level as Self
    }

    #[inline(always)]
    fn plus(self, other: Self) -> Self {
        self.saturating_add(other)
    }

    #[inline(always)]
    fn minus(self, other: Self) -> Self {
        self.saturating_sub(other)
    }
}

impl Level for u16 {
    const DEPTH: Depth = Depth::Sixteen;

    #[inline(always)]
    fn level(self) -> usize {
        usize::from(self)
    }

    #[inline(always)]
    fn from_level(level: u32) -> Self {
        debug_assert!(level < 65536);
        level as Self
    }

    #[inline(always)]
    fn plus(self, other: Self) -> Self {
        self.saturating_add(other)
    }

    #[inline(always)]
    fn minus(self, other: Self) -> Self {
        self.saturating_sub(other)
    }
}

mod private {
    pub trait Sealed {}
    impl Sealed for u8 {}
    impl Sealed for u16 {}
}
