//! The two sample types, and the hot loops, which have vectorized versions for 8-bit samples.

use bytemuck::Pod;

use super::clahe::{self, Corners};
use super::{Buffers, Scratch, colour, histogram, simd};

/// A sample of a picture: `u8` or `u16`. The arithmetic is written once, over this trait.
///
/// Its provided methods are the hot loops in plain Rust; `u8` overrides them with vectorized versions that give the same bytes.
pub trait Sample: Pod + Ord + Send + Sync + private::Sealed {
    /// The number of levels: 256 or 65536.
    const LEVELS: usize;

    /// Returns the sample as an index into a histogram or a LUT.
    fn level(self) -> usize;

    /// Returns the sample of a level below [`Self::LEVELS`].
    fn from_level(level: u32) -> Self;

    /// Adds, saturating at the highest level.
    fn plus(self, other: Self) -> Self;

    /// Subtracts, saturating at 0.
    fn minus(self, other: Self) -> Self;

    /// Adds samples to the tables of a [`histogram::Tally`]; `width` is as in [`histogram::Tally::add_rows`].
    #[doc(hidden)]
    fn count(samples: &[Self], width: usize, tables: &mut [u32]);

    /// Replaces each sample with its entry in `lut`, which has [`Self::LEVELS`] entries.
    fn map(samples: &mut [Self], lut: &[Self]) {
        map(samples, lut);
    }

    /// Changes the luma of pixels of `C` channels, which are 3 colours and perhaps alpha, as in [`colour::shift_luma`].
    fn shift_luma<const C: usize>(pixels: &mut [Self], from: &[Self], to: &[Self]) {
        simd::vectorized!(colour::relight_portable::<Self, C>(pixels, from, to));
    }

    /// Replaces each value with an interpolation, in float32, of its entries in the four corners' LUTs: from left to right by the
    /// value's own entry of `right_weights`, from top to bottom by `bottom_weight`.
    fn blend(values: &mut [Self], corners: &Corners<'_, Self>, right_weights: &[f32], bottom_weight: f32) {
        simd::vectorized!(clahe::blend_portable(values, corners, right_weights, bottom_weight));
    }

    /// Returns the reusable buffers for this depth.
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

    fn shift_luma<const C: usize>(pixels: &mut [Self], from: &[Self], to: &[Self]) {
        simd::shift_luma::<C>(pixels, from, to);
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
