//! A new luma that keeps the hue, in plain Rust.
//!
//! Luma becomes `k`, and the difference of a channel from the exact luma is scaled by the greatest
//! factor that is at most the ratio of new to old luma, lets the greatest channel reach the highest
//! level, and is at most [`MOST_CHROMA`] (after M. Nikolova and G. Steidl, *Fast Hue and Range
//! Preserving Histogram Specification*, 2014). No channel clips. The factor is also at most the
//! ratio with [`DARK_OFFSET`] added to both lumas, which is near 1 where both are dark: the chroma
//! of nearly black pixels is noise. In exact arithmetic, with `s` the luma in 65536ths, a channel
//! `c` becomes `k + floor((c - s / 65536) * factor + 1/2)`.
//!
//! Floats of 64 bits give the same. The factor is `n / d` with integers below 2¹⁶ + 1028 and 2³² +
//! 2²⁶·⁰¹, and `65536 c - s` is one below 2³²; a result plus a half is therefore a multiple of `1 /
//! 2d`, at least 2⁻³³·⁰³ below the next integer unless it is one. The computed value differs from
//! it by less than 2⁻³⁵·⁴: at most 2⁻³⁷ by each rounding of factor, product and sum, of values
//! below 2¹⁶. [`TIE`] makes halves go up, and is too small to round anything else up.

use crate::level::Level;
use crate::portable::WEIGHTS;

/// Greatest factor by which the chroma of a colour may grow.
///
/// Without a limit the noise of dark pixels becomes vivid.
pub const MOST_CHROMA: f64 = 4.0;

/// Levels of 256 added to the new and the old luma where luma grows.
///
/// The colour of dark pixels then grows less.
pub const DARK_OFFSET: u32 = 4;

/// Returns the dark offset for samples up to this level.
#[inline(always)]
pub(crate) fn offset(highest: u32) -> u32 {
    (DARK_OFFSET * highest / 255).max(1)
}

/// A term added before rounding to the nearest, to round halves up.
const TIE: f64 = 1.0 / (1_u64 << 34) as f64;

/// 2⁵², from which on a float has no fraction bits.
///
/// Adding it rounds and leaves the integer in the lowest bits.
const ROUND: f64 = (1_u64 << 52) as f64;

/// Pixels taken apart at a time: the arithmetic then runs over consecutive values.
const STEP: usize = 32;

/// [`crate::Sample::keep_hue`] in plain Rust.
#[inline(always)]
pub(crate) fn keep_hue_portable<S: Level, const C: usize>(
    pixels: &mut [S],
    from: &[S],
    to: &[S],
    highest: S,
) {
    let steps = pixels.chunks_mut(STEP * C).zip(from.chunks(STEP)).zip(to.chunks(STEP));
    for ((pixels, from), to) in steps {
        let whole = (pixels.as_chunks_mut(), from.as_chunks(), to.as_chunks());
        if let ((pixels, _), ([from], _), ([to], _)) = whole {
            let pixels = pixels.first_chunk_mut().expect("as many pixels as lumas");
            keep_hue_step::<S, C>(pixels, from, to, highest);
        } else {
            let mut padded = ([[S::zeroed(); C]; STEP], [S::zeroed(); STEP], [S::zeroed(); STEP]);
            padded.0.as_flattened_mut()[..pixels.len()].copy_from_slice(pixels);
            padded.1[..from.len()].copy_from_slice(from);
            padded.2[..to.len()].copy_from_slice(to);
            keep_hue_step::<S, C>(&mut padded.0, &padded.1, &padded.2, highest);
            pixels.copy_from_slice(&padded.0.as_flattened()[..pixels.len()]);
        }
    }
}

/// [`keep_hue_portable`] for one pixel with a new luma.
pub(crate) fn keep_hue_of_pixel<S: Level>(colours: [S; 3], to: S, highest: S) -> [S; 3] {
    let (exact, luma) = (exact_luma(colours.map(float)), float(to.min(highest)));
    let factor = factor(colours, exact, luma, float(highest));
    colours.map(|sample| kept(sample, exact, factor, luma))
}

#[inline(always)]
fn keep_hue_step<S: Level, const C: usize>(
    pixels: &mut [[S; C]; STEP],
    from: &[S; STEP],
    to: &[S; STEP],
    highest: S,
) {
    let mut colours = [[S::zeroed(); STEP]; 3];
    for (channel, values) in colours.iter_mut().enumerate() {
        for (value, pixel) in values.iter_mut().zip(&*pixels) {
            *value = pixel[channel];
        }
    }
    let (mut lumas, mut exact, mut factors) = ([0.0; STEP], [0.0; STEP], [0.0; STEP]);
    for at in 0..STEP {
        let of_pixel = [colours[0][at], colours[1][at], colours[2][at]];
        // Only a LUT with entries above the highest level needs the limit.
        lumas[at] = float(to[at].min(highest));
        exact[at] = exact_luma(of_pixel.map(float));
        factors[at] = factor(of_pixel, exact[at], lumas[at], float(highest));
    }
    let mut results = [[S::zeroed(); STEP]; 3];
    for (results, values) in results.iter_mut().zip(&colours) {
        for (at, result) in results.iter_mut().enumerate() {
            let kept = kept(values[at], exact[at], factors[at], lumas[at]);
            *result = if from[at] == to[at] { values[at] } else { kept };
        }
    }
    for (at, pixel) in pixels.iter_mut().enumerate() {
        for (channel, results) in results.iter().enumerate() {
            pixel[channel] = results[at];
        }
    }
}

/// Returns the luma in 65536ths, which is below 2³².
#[inline(always)]
fn exact_luma([red, green, blue]: [f64; 3]) -> f64 {
    let [of_red, of_green, of_blue] = WEIGHTS;
    f64::from(of_red) * red + f64::from(of_green) * green + f64::from(of_blue) * blue
}

/// Returns the factor for 65536ths of the difference from luma.
#[inline(always)]
fn factor<S: Level>([red, green, blue]: [S; 3], exact: f64, luma: f64, highest: f64) -> f64 {
    let greatest = float(red.max(green).max(blue));
    let (room, above) = (65536.0 * greatest - exact, highest - luma);
    // The ratio with an offset is the lesser of the two where luma grows.
    let offset = if 65536.0 * luma > exact { f64::from(offset(highest as u32)) } else { 0.0 };
    let (new, old) = (luma + offset, exact + 65536.0 * offset);
    // Both products are below 2⁴⁹, so the comparison of the two quotients is exact.
    let is_darker = new * room < above * old;
    let (numerator, denominator) = if is_darker { (new, old) } else { (above, room) };
    // The denominator may be 0 for gray pixels, for which the factor has no effect; the comparison
    // is then false.
    let ratio = numerator / denominator;
    if ratio < MOST_CHROMA / 65536.0 { ratio } else { MOST_CHROMA / 65536.0 }
}

#[inline(always)]
fn float<S: Level>(sample: S) -> f64 {
    // Signed, because more processors convert signed integers.
    f64::from(sample.level() as i32)
}

/// Returns the new sample of a channel.
#[inline(always)]
fn kept<S: Level>(sample: S, exact: f64, factor: f64, luma: f64) -> S {
    let value = (65536.0 * float(sample) - exact) * factor + (luma + TIE);
    S::from_level(((value + ROUND).to_bits() - ROUND.to_bits()) as u32)
}
