//! The hot loops over samples, mostly with vectorized versions for 8 bits.

use super::hue::keep_hue_portable;
use super::lab;
use super::level::Level;
use super::portable::{self, Corners, Quad};
use super::simd;

/// A sample of a picture, `u8` or `u16`, with the hot loops over many of them.
///
/// The provided methods are plain Rust; `u8` overrides them with vectorized versions that give the
/// same bytes.
pub trait Sample: Level {
    /// Adds samples to the tables of a [`crate::histogram::Tally`].
    ///
    /// `width` is as in [`crate::histogram::Tally::add_rows`].
    #[doc(hidden)]
    fn count(samples: &[Self], width: usize, tables: &mut [u32]);

    /// Replaces each sample with its entry in `lut`, which has [`Level::LEVELS`] entries.
    fn map(samples: &mut [Self], lut: &[Self]) {
        portable::map(samples, lut);
    }

    /// Changes the luma of pixels of `C` channels, as in [`crate::colour::shift_luma`].
    ///
    /// The channels are 3 colours and perhaps alpha.
    fn shift_luma<const C: usize>(pixels: &mut [Self], from: &[Self], to: &[Self]) {
        simd::vectorized!(portable::relight_portable::<Self, C>(pixels, from, to));
    }

    /// Changes the luma of pixels of `C` channels and keeps their hue ([`crate::Colour::Hue`]).
    ///
    /// The channels are 3 colours and perhaps alpha.
    fn keep_hue<const C: usize>(pixels: &mut [Self], from: &[Self], to: &[Self], highest: Self) {
        simd::vectorized!(keep_hue_portable::<Self, C>(pixels, from, to, highest));
    }

    /// Reads the L of pixels of `C` channels in L\*a\*b\* ([`crate::Colour::Lab`]).
    ///
    /// Only samples of 8 bits have one.
    fn lightness<const C: usize>(_pixels: &[Self], _lightness: &mut [Self]) {
        unreachable!("only samples of 8 bits have a lightness");
    }

    /// Gives pixels of `C` channels a new L, and leaves their a and b.
    fn change_lightness<const C: usize>(_pixels: &mut [Self], _lightness: &[Self]) {
        unreachable!("only samples of 8 bits have a lightness");
    }

    /// Replaces each value with an interpolation of its entries in the four corners' LUTs.
    ///
    /// It is computed in float32. The weights are the value's own entry of `right_weights` from
    /// left to right, and `bottom_weight` from top to bottom.
    fn blend(values: &mut [Self], corners: &Corners<'_, Self>, right_weights: &[f32], bottom_weight: f32) {
        simd::vectorized!(portable::blend_portable(values, corners, right_weights, bottom_weight));
    }

    /// Whether many values are blended faster with [`Sample::blend_quads`].
    #[doc(hidden)]
    const QUADS: bool;

    /// [`Sample::blend`] with the entries of the four corners packed into quads.
    #[doc(hidden)]
    fn blend_quads(values: &mut [Self], quads: &[Quad], right_weights: &[f32], bottom_weight: f32) {
        simd::vectorized!(portable::blend_quads(values, quads, right_weights, bottom_weight));
    }

    /// Returns how many of the samples, in ascending order, are not above this one.
    #[doc(hidden)]
    fn not_below(self, sorted: &[Self; simd::WINDOW]) -> usize;
}

impl Sample for u8 {
    const QUADS: bool = false;

    fn count(samples: &[Self], width: usize, tables: &mut [u32]) {
        simd::count(samples, width, tables);
    }

    fn map(samples: &mut [Self], lut: &[Self]) {
        simd::map(samples, lut.try_into().expect("a LUT has one entry a level"));
    }

    fn shift_luma<const C: usize>(pixels: &mut [Self], from: &[Self], to: &[Self]) {
        simd::shift_luma::<C>(pixels, from, to);
    }

    fn keep_hue<const C: usize>(pixels: &mut [Self], from: &[Self], to: &[Self], highest: Self) {
        simd::keep_hue::<C>(pixels, from, to, highest);
    }

    fn lightness<const C: usize>(pixels: &[Self], lightness: &mut [Self]) {
        lab::read::<C>(pixels, lightness);
    }

    fn change_lightness<const C: usize>(pixels: &mut [Self], lightness: &[Self]) {
        lab::write::<C>(pixels, lightness);
    }

    fn blend(values: &mut [Self], corners: &Corners<'_, Self>, right_weights: &[f32], bottom_weight: f32) {
        simd::blend(values, corners, right_weights, bottom_weight);
    }

    #[inline(always)]
    fn not_below(self, sorted: &[Self; simd::WINDOW]) -> usize {
        simd::not_above_8(sorted, self)
    }
}

impl Sample for u16 {
    const QUADS: bool = true;

    fn count(samples: &[Self], _width: usize, tables: &mut [u32]) {
        portable::count_16(samples, tables);
    }

    #[inline(always)]
    fn not_below(self, sorted: &[Self; simd::WINDOW]) -> usize {
        simd::not_above_16(sorted, self)
    }
}
