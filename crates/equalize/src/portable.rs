//! The arithmetic of single samples, and the hot loops in plain Rust.
//!
//! Every vectorized version gives the same bytes.

use crate::level::Level;

/// Number of tables that take turns when a small number of 8-bit samples is counted.
///
/// A run of equal samples then need not wait for its own last increment to be stored. With eight,
/// noise, ramps and constants cost the same.
pub(crate) const TABLES_8: usize = 8;

/// Number of tables that take turns for 16-bit samples.
///
/// These tables are 256 KiB each and cost time to clear and to add up.
pub(crate) const TABLES_16: usize = 2;

/// The weights of red, green and blue in luma, in units of 1/65536.
///
/// They are 0.299, 0.587 and 0.114 of ITU-R BT.601, which JPEG uses too.
pub(crate) const WEIGHTS: [u32; 3] = [19595, 38470, 7471];

/// Returns the luma of one pixel, halves rounded up.
#[inline(always)]
pub fn luma<S: Level>(red: S, green: S, blue: S) -> S {
    // The weights add up to 65536, so even 16-bit white plus the half stays below 2³².
    let [of_red, of_green, of_blue] = WEIGHTS;
    let sum = of_red * red.level() as u32 + of_green * green.level() as u32 + of_blue * blue.level() as u32;
    S::from_level((sum + 32768) >> 16)
}

/// Adds `to - from` to a colour sample, clamped to the levels.
///
/// Changing only a pixel's luma shifts R, G and B by the same amount.
#[inline(always)]
pub fn shift_luma<S: Level>(sample: S, from: S, to: S) -> S {
    let moved = sample.level() as i32 + to.level() as i32 - from.level() as i32;
    S::from_level(moved.clamp(0, S::LEVELS as i32 - 1) as u32)
}

/// [`crate::Sample::shift_luma`] for pixels of `C` channels, in plain Rust.
#[inline(always)]
pub(crate) fn relight_portable<S: Level, const C: usize>(pixels: &mut [S], from: &[S], to: &[S]) {
    // The differences are repeated for each channel first: the arithmetic then runs over
    // consecutive samples.
    const STEP: usize = 64;
    let mut up = [[S::zeroed(); C]; STEP];
    let mut down = [[S::zeroed(); C]; STEP];
    for ((pixels, from), to) in pixels.chunks_mut(STEP * C).zip(from.chunks(STEP)).zip(to.chunks(STEP)) {
        for (((up, down), &from), &to) in up.iter_mut().zip(&mut down).zip(from).zip(to) {
            up[..3].fill(to.minus(from));
            down[..3].fill(from.minus(to));
        }
        let (up, down) = (up.as_flattened(), down.as_flattened());
        for ((sample, &up), &down) in pixels.iter_mut().zip(up).zip(down) {
            *sample = sample.plus(up).minus(down);
        }
    }
}

/// [`luma`] for pixels of `C` channels, in plain Rust.
#[inline(always)]
pub(crate) fn luma_portable<S: Level, const C: usize>(pixels: &[S], values: &mut [S]) {
    for (value, pixel) in values.iter_mut().zip(pixels.as_chunks::<C>().0) {
        *value = luma(pixel[0], pixel[1], pixel[2]);
    }
}

/// [`crate::Sample::map`] in plain Rust.
pub(crate) fn map<S: Level>(samples: &mut [S], lut: &[S]) {
    assert_eq!(lut.len(), S::LEVELS, "a LUT has one entry a level");
    for sample in samples {
        *sample = lut[sample.level()];
    }
}

/// Adds 16-bit samples to the tables of a [`crate::histogram::Tally`].
pub(crate) fn count_16(samples: &[u16], tables: &mut [u32]) {
    let tables: &mut [[u32; u16::LEVELS]; TABLES_16] =
        tables.as_chunks_mut().0.try_into().expect("a tally of 16-bit samples has so many tables");
    let (groups, rest) = samples.as_chunks::<TABLES_16>();
    for group in groups {
        tables.iter_mut().zip(group).for_each(|(table, sample)| table[sample.level()] += 1);
    }
    rest.iter().for_each(|sample| tables[0][sample.level()] += 1);
}

/// The LUTs of the four tiles around some pixels, each pair from left to right.
pub struct Corners<'a, S> {
    /// The LUTs of the tiles above.
    pub top: [&'a [S]; 2],
    /// The LUTs of the tiles below.
    pub bottom: [&'a [S]; 2],
}

/// Values looked up at a time.
///
/// The lookups are scalar; keeping them apart from the arithmetic lets the compiler vectorize the
/// latter.
const STEP: usize = 32;

/// [`crate::Sample::blend`] in plain Rust.
#[inline(always)]
pub(crate) fn blend_portable<S: Level>(
    values: &mut [S],
    corners: &Corners<'_, S>,
    right_weights: &[f32],
    bottom_weight: f32,
) {
    let luts = [corners.top[0], corners.top[1], corners.bottom[0], corners.bottom[1]];
    for (values, rights) in values.chunks_mut(STEP).zip(right_weights.chunks(STEP)) {
        let mut found = [[S::zeroed(); STEP]; 4];
        for (found, lut) in found.iter_mut().zip(luts) {
            for (found, value) in found.iter_mut().zip(&*values) {
                *found = lut[value.level()];
            }
        }
        let mut results = [S::zeroed(); STEP];
        let mut weights = [0.0; STEP];
        weights[..rights.len()].copy_from_slice(rights);
        for (at, (result, right)) in results.iter_mut().zip(weights).enumerate() {
            *result = interpolate(|number| found[number][at].level() as f32, right, bottom_weight);
        }
        values.copy_from_slice(&results[..values.len()]);
    }
}

/// Replaces each value with an interpolation of its entries in the LUTs of eight boxes.
///
/// The four boxes in front and the four at the back are blended as [`crate::Sample::blend`] does,
/// and then from front to back by `back_weight`.
#[inline(always)]
pub(crate) fn blend_boxes<S: Level>(
    values: &mut [S],
    [front, back]: [&Corners<'_, S>; 2],
    right_weights: &[f32],
    bottom_weight: f32,
    back_weight: f32,
) {
    let corners = [front.top, front.bottom, back.top, back.bottom];
    for (values, rights) in values.chunks_mut(STEP).zip(right_weights.chunks(STEP)) {
        let mut found = [[[S::zeroed(); STEP]; 2]; 4];
        for (found, luts) in found.iter_mut().zip(corners) {
            for (found, lut) in found.iter_mut().zip(luts) {
                for (found, value) in found.iter_mut().zip(&*values) {
                    *found = lut[value.level()];
                }
            }
        }
        let mut weights = [0.0; STEP];
        weights[..rights.len()].copy_from_slice(rights);
        let mut sides = [[0.0; STEP]; 4];
        for (side, [left, right]) in sides.iter_mut().zip(&found) {
            for (((side, left), right), weight) in side.iter_mut().zip(left).zip(right).zip(weights) {
                *side = left.level() as f32 * (1.0 - weight) + right.level() as f32 * weight;
            }
        }
        let mut results = [S::zeroed(); STEP];
        for (at, result) in results.iter_mut().enumerate() {
            let front = sides[0][at] * (1.0 - bottom_weight) + sides[1][at] * bottom_weight;
            let back = sides[2][at] * (1.0 - bottom_weight) + sides[3][at] * bottom_weight;
            *result = quantize(front * (1.0 - back_weight) + back * back_weight);
        }
        values.copy_from_slice(&results[..values.len()]);
    }
}

/// The entries of one level in the LUTs of four corners: above, then below.
///
/// The left entry is in the lower half of each word.
pub(crate) type Quad = [u32; 2];

/// Packs the entries of the four corners into quads.
#[inline(always)]
pub(crate) fn pack<S: Level>(corners: &Corners<'_, S>, quads: &mut [Quad]) {
    let [top, bottom] = [corners.top, corners.bottom].map(|[left, right]| left.iter().zip(right));
    let word = |(left, right): (&S, &S)| left.level() as u32 | (right.level() as u32) << 16;
    for (quad, (top, bottom)) in quads.iter_mut().zip(top.zip(bottom)) {
        *quad = [word(top), word(bottom)];
    }
}

/// [`blend_portable`] with the entries of the four corners packed into quads.
#[inline(always)]
pub(crate) fn blend_quads<S: Level>(
    values: &mut [S],
    quads: &[Quad],
    right_weights: &[f32],
    bottom_weight: f32,
) {
    let (blocks, tail) = values.as_chunks_mut();
    let (weights, tail_weights) = right_weights.as_chunks();
    for (block, weights) in blocks.iter_mut().zip(weights) {
        blend_block(block, quads, weights, bottom_weight);
    }
    if !tail.is_empty() {
        let (mut block, mut weights) = ([tail[0]; QUADS_STEP], [0.0; QUADS_STEP]);
        block[..tail.len()].copy_from_slice(tail);
        weights[..tail.len()].copy_from_slice(tail_weights);
        blend_block(&mut block, quads, &weights, bottom_weight);
        tail.copy_from_slice(&block[..tail.len()]);
    }
}

/// [`blend_quads`] of one block.
#[inline(always)]
fn blend_block<S: Level>(
    values: &mut [S; QUADS_STEP],
    quads: &[Quad],
    right_weights: &[f32; QUADS_STEP],
    bottom_weight: f32,
) {
    let mut found = [[0; 2]; QUADS_STEP];
    for (found, value) in found.iter_mut().zip(&*values) {
        *found = quads[value.level()];
    }
    let mut weights = [[0.0; 2]; QUADS_STEP];
    for (pair, &right) in weights.iter_mut().zip(right_weights) {
        *pair = [right; 2];
    }
    // Above and below together: the same arithmetic as in `interpolate`.
    let mut sides = [[0.0; 2]; QUADS_STEP];
    let words = found.as_flattened().iter().zip(weights.as_flattened());
    for (side, (word, right)) in sides.as_flattened_mut().iter_mut().zip(words) {
        let [left_entry, right_entry] = [word & 0xffff, word >> 16].map(|entry| entry as i32 as f32);
        *side = left_entry * (1.0 - right) + right_entry * right;
    }
    for (value, [top, bottom]) in values.iter_mut().zip(sides) {
        *value = quantize(top * (1.0 - bottom_weight) + bottom * bottom_weight);
    }
}

/// Values looked up at a time in packed tables.
const QUADS_STEP: usize = 64;

/// The fewest values for which packing four LUTs into one pays off.
const WORTH_PACKING: usize = 64;

/// [`blend_portable`] for 8-bit values, with the four entries of a level packed into one word.
///
/// One lookup then finds them all.
#[inline(always)]
pub(crate) fn blend_bytes(
    values: &mut [u8],
    corners: &Corners<'_, u8>,
    right_weights: &[f32],
    bottom_weight: f32,
) {
    if values.len() < WORTH_PACKING {
        return blend_portable(values, corners, right_weights, bottom_weight);
    }
    let [top, bottom] = [corners.top, corners.bottom].map(|side| side.map(|lut| &lut[..256]));
    let mut entries = [0; 256];
    for (level, entry) in entries.iter_mut().enumerate() {
        *entry = u32::from_le_bytes([top[0][level], top[1][level], bottom[0][level], bottom[1][level]]);
    }
    for (values, rights) in values.chunks_mut(STEP).zip(right_weights.chunks(STEP)) {
        let (mut found, mut weights) = ([0; STEP], [0.0; STEP]);
        found.iter_mut().zip(&*values).for_each(|(found, &value)| *found = entries[usize::from(value)]);
        weights[..rights.len()].copy_from_slice(rights);
        let mut results = [0; STEP];
        for ((result, entry), right) in results.iter_mut().zip(found).zip(weights) {
            *result = interpolate(|number| f32::from((entry >> (8 * number)) as u8), right, bottom_weight);
        }
        values.copy_from_slice(&results[..values.len()]);
    }
}

/// Returns how many of 16 samples in ascending order are not above `sample`.
#[cfg(any(not(target_arch = "x86_64"), test))]
#[inline(always)]
pub(crate) fn not_above<S: Level>(sorted: &[S; 16], sample: S) -> usize {
    sorted.iter().map(|&other| usize::from(other <= sample)).sum()
}

/// Interpolates between the corners' entries.
///
/// They are numbered top left, top right, bottom left, bottom right.
#[inline(always)]
pub(crate) fn interpolate<S: Level>(corner: impl Fn(usize) -> f32, right: f32, bottom_weight: f32) -> S {
    let top = corner(0) * (1.0 - right) + corner(1) * right;
    let bottom = corner(2) * (1.0 - right) + corner(3) * right;
    quantize(top * (1.0 - bottom_weight) + bottom * bottom_weight)
}

/// A table of 16-bit entries for bytes.
pub(crate) struct Words {
    pub(crate) entries: [u16; 256],
    /// Their lower and their upper bytes, for looking up many at a time.
    #[cfg_attr(not(target_arch = "x86_64"), expect(dead_code, reason = "only AVX-512 takes them"))]
    pub(crate) halves: [[u8; 256]; 2],
}

/// Looks bytes up.
#[inline(always)]
pub(crate) fn look_up_words(bytes: &[u8], table: &Words, found: &mut [u16]) {
    for (found, &byte) in found.iter_mut().zip(bytes) {
        *found = table.entries[usize::from(byte)];
    }
}

/// Rounds to the nearest level, halves to even.
///
/// `value` must not be negative, and must be less than 2²².
#[inline(always)]
pub(crate) fn quantize<S: Level>(value: f32) -> S {
    S::from_level(round(value).min(S::LEVELS as u32 - 1))
}

/// Rounds to the nearest integer, halves to even.
///
/// `value` must not be negative, and must be less than 2²².
#[inline(always)]
pub(crate) fn round(value: f32) -> u32 {
    // From 2²³ on a float has no fraction bits, so the addition itself rounds and leaves the
    // integer in the lowest bits.
    const ROUND: f32 = 8_388_608.0;
    (value + ROUND).to_bits() - ROUND.to_bits()
}
