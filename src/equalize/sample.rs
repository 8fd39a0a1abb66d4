//! The two sample types, and the loops that have vector forms for one of them.

use bytemuck::Pod;

use super::clahe::{self, Corners};
use super::{Buffers, Scratch, colour, histogram, simd};

/// A sample of a picture: `u8` or `u16`. The arithmetic is written once, over this trait.
///
/// Its provided methods are the hot loops in plain Rust; `u8` replaces them by vector forms that give the same bytes.
pub trait Sample: Pod + Ord + Send + Sync + private::Sealed {
    /// How many levels there are: 256 or 65536.
    const LEVELS: usize;

    /// The sample as an index into a histogram or a LUT.
    fn level(self) -> usize;

    /// The sample of a level below [`Self::LEVELS`].
    fn from_level(level: u32) -> Self;

    /// The sum, at most the highest level.
    fn plus(self, other: Self) -> Self;

    /// The difference, at least 0.
    fn minus(self, other: Self) -> Self;

    /// Adds samples to the tables of a [`histogram::Tally`]. `width`: as in [`histogram::Tally::add_rows`].
    #[doc(hidden)]
    fn count(samples: &[Self], width: usize, tables: &mut [u32]);

    /// Replaces each sample by its entry of `lut` ([`Self::LEVELS`] entries).
    fn map(samples: &mut [Self], lut: &[Self]) {
        map(samples, lut);
    }

    /// Moves pixels of `C` channels, 3 colours and perhaps alpha, from one luma to another, as in [`colour::relight`].
    fn relight<const C: usize>(pixels: &mut [Self], from: &[Self], to: &[Self]) {
        simd::vectorized!(colour::relight_portable::<Self, C>(pixels, from, to));
    }

    /// Replaces each value by the four corners' entries for it, interpolated in float32: between left and right by its own
    /// weight of the right, between top and bottom by the bottom's weight.
    fn blend(values: &mut [Self], corners: &Corners<'_, Self>, right_weights: &[f32], bottom_weight: f32) {
        simd::vectorized!(clahe::blend_portable(values, corners, right_weights, bottom_weight));
    }

    /// The reusable buffers of this depth.
    fn buffers(scratch: &mut Scratch) -> &mut Buffers<Self>;
}

/// [`Sample::map`] in plain Rust.
pub(super) fn map<S: Sample>(samples: &mut [S], lut: &[S]) {
    assert_eq!(lut.len(), S::LEVELS, "a LUT has one entry a level");
    for sample in samples {
        *sample = lut[sample.level()];
    }
}

impl Sample for u8 {
    const LEVELS: usize = 256;

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

    fn count(samples: &[Self], width: usize, tables: &mut [u32]) {
        simd::count(samples, width, tables);
    }

    fn map(samples: &mut [Self], lut: &[Self]) {
        simd::map(samples, lut.try_into().expect("a LUT has one entry a level"));
    }

    fn relight<const C: usize>(pixels: &mut [Self], from: &[Self], to: &[Self]) {
        simd::relight::<C>(pixels, from, to);
    }

    fn blend(values: &mut [Self], corners: &Corners<'_, Self>, right_weights: &[f32], bottom_weight: f32) {
        simd::blend(values, corners, right_weights, bottom_weight);
    }

    fn buffers(scratch: &mut Scratch) -> &mut Buffers<Self> {
        &mut scratch.eight
    }
}

impl Sample for u16 {
    const LEVELS: usize = 65536;

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

    fn count(samples: &[Self], _width: usize, tables: &mut [u32]) {
        histogram::count_16(samples, tables);
    }

    fn buffers(scratch: &mut Scratch) -> &mut Buffers<Self> {
        &mut scratch.sixteen
    }
}

mod private {
    pub trait Sealed {}
    impl Sealed for u8 {}
    impl Sealed for u16 {}
}
