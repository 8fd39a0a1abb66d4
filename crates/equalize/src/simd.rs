//! The hot loops for 8-bit pictures in vector instructions.
//!
//! Each is selected at run time and has a plain fallback. Every implementation gives the same bytes
//! as the fallback; the tests below check that.

#![allow(unsafe_code)]

use super::bytes;
use super::hue::keep_hue_portable;
use super::portable::{self, Corners, Words};

#[cfg(target_arch = "x86_64")]
mod bits;
#[cfg(target_arch = "x86_64")]
mod hue;
#[cfg(target_arch = "x86_64")]
mod map;

/// Runs a loop in plain Rust, compiled for the widest vectors that the processor has.
///
/// The compiler uses those instructions only for code that it inlines into a function with the
/// target feature. Hence a macro, which can mark the closure `#[inline(always)]`; the loops
/// themselves are marked too.
#[doc(hidden)]
#[macro_export]
macro_rules! vectorized {
    ($plain:expr) => {
        $crate::simd::run_vectorized(
            #[inline(always)]
            || $plain,
        )
    };
}
pub use vectorized;

/// Runs `plain` as [`vectorized`] describes.
#[inline(always)]
pub fn run_vectorized<R>(plain: impl FnOnce() -> R) -> R {
    #[cfg(target_arch = "x86_64")]
    {
        if has_vbmi() {
            // SAFETY: the processor has the instructions that the function is compiled for.
            return unsafe { x86::vectorized_avx512(plain) };
        }
        if is_x86_feature_detected!("avx2") {
            // SAFETY: as above.
            return unsafe { x86::vectorized_avx2(plain) };
        }
    }
    plain()
}

/// Adds samples to the tables of a [`crate::histogram::Tally`].
///
/// `width` is as in [`crate::histogram::Tally::add_rows`].
#[cfg_attr(
    not(target_arch = "x86_64"),
    expect(unused_variables, reason = "only the instructions of x86-64 need the width")
)]
pub(super) fn count(samples: &[u8], width: usize, tables: &mut [u32]) {
    #[cfg(target_arch = "x86_64")]
    if samples.len() >= COUNTED_BY_BITS && has_vbmi() && has_bit_matrices() {
        let (unaligned, samples) = samples.split_at(samples.as_ptr().align_offset(64));
        let (groups, rest) = samples.split_at(samples.len() - samples.len() % (64 * bits::GROUP));
        let (table, _) = tables.as_chunks_mut();
        // SAFETY: the processor has the instructions that the function is compiled for.
        unsafe { bits::count(groups.as_chunks().0, width, &mut table[0]) };
        bytes::count(unaligned, tables);
        return bytes::count(rest, tables);
    }
    bytes::count(samples, tables);
}

/// The fewest samples for which clearing and summing the many counters of [`bits::count`] pays off.
#[cfg(target_arch = "x86_64")]
const COUNTED_BY_BITS: usize = 16 << 10;

/// Samples that [`not_above_8`] and [`not_above_16`] compare at once.
pub(super) const WINDOW: usize = 16;

/// Returns how many of [`WINDOW`] samples in ascending order are not above `sample`.
#[inline(always)]
pub(super) fn not_above_8(sorted: &[u8; WINDOW], sample: u8) -> usize {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every processor of this architecture has SSE2.
    return unsafe { x86::not_above_8(sorted, sample) };
    #[cfg(not(target_arch = "x86_64"))]
    portable::not_above(sorted, sample)
}

/// [`not_above_8`] for 16 bits.
#[inline(always)]
pub(super) fn not_above_16(sorted: &[u16; WINDOW], sample: u16) -> usize {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every processor of this architecture has SSE2.
    return unsafe { x86::not_above_16(sorted, sample) };
    #[cfg(not(target_arch = "x86_64"))]
    portable::not_above(sorted, sample)
}

/// Replaces each sample with its entry in `lut`.
pub(super) fn map(samples: &mut [u8], lut: &[u8; 256]) {
    // Vectors that straddle cache lines cost twice as much.
    let (unaligned, samples) = samples.split_at_mut(samples.as_ptr().align_offset(64).min(samples.len()));
    portable::map(unaligned, lut);
    #[cfg(target_arch = "x86_64")]
    {
        if has_vbmi() {
            // SAFETY: the processor has the instructions that the function is compiled for.
            return unsafe { map::map_vbmi(samples, lut) };
        }
        if is_x86_feature_detected!("avx512bw") {
            // SAFETY: as above.
            return unsafe { map::map_bw(samples, lut) };
        }
        if is_x86_feature_detected!("avx2") {
            // SAFETY: as above.
            return unsafe { map::map_avx2(samples, lut) };
        }
    }
    portable::map(samples, lut);
}

/// Looks bytes up in a table of 16-bit entries.
#[inline(always)]
pub(super) fn look_up_words(bytes: &[u8], table: &Words, found: &mut [u16]) {
    #[cfg(target_arch = "x86_64")]
    if has_vbmi() {
        // SAFETY: the processor has the instructions that the function is compiled for.
        return unsafe { map::look_up_words_vbmi(bytes, table, found) };
    }
    portable::look_up_words(bytes, table, found);
}

/// Shifts the colours of RGB (`C` = 3) or RGBA (`C` = 4) pixels by the difference of two lumas.
pub(super) fn shift_luma<const C: usize>(pixels: &mut [u8], from: &[u8], to: &[u8]) {
    #[cfg(target_arch = "x86_64")]
    {
        if has_vbmi() {
            // SAFETY: the processor has the instructions that the function is compiled for.
            return unsafe { x86::relight_vbmi::<C>(pixels, from, to) };
        }
        if is_x86_feature_detected!("avx2") {
            // SAFETY: as above.
            return unsafe { x86::relight_avx2::<C>(pixels, from, to) };
        }
    }
    portable::relight_portable::<u8, C>(pixels, from, to);
}

/// Gives RGB (`C` = 3) or RGBA (`C` = 4) pixels a new luma that keeps their hue.
pub(super) fn keep_hue<const C: usize>(pixels: &mut [u8], from: &[u8], to: &[u8], highest: u8) {
    #[cfg(target_arch = "x86_64")]
    if highest == u8::MAX && has_vbmi() {
        // SAFETY: the processor has the instructions that the function is compiled for.
        return unsafe { hue::keep_hue_vbmi::<C>(pixels, from, to) };
    }
    vectorized!(keep_hue_portable::<u8, C>(pixels, from, to, highest));
}

/// Replaces each value with the interpolation of its entries in the LUTs of four corners.
pub(super) fn blend(values: &mut [u8], corners: &Corners<'_, u8>, right_weights: &[f32], bottom_weight: f32) {
    #[cfg(target_arch = "x86_64")]
    if has_vbmi() {
        // SAFETY: the processor has the instructions that the function is compiled for.
        return unsafe { x86::blend_vbmi(values, corners, right_weights, bottom_weight) };
    }
    vectorized!(portable::blend_bytes(values, corners, right_weights, bottom_weight));
}

/// Returns whether the processor has the AVX-512 instructions that permute and compare bytes.
#[cfg(target_arch = "x86_64")]
fn has_vbmi() -> bool {
    is_x86_feature_detected!("avx512vbmi")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("avx512dq")
        && is_x86_feature_detected!("avx512vl")
}

/// Returns whether the processor can multiply bit matrices and count bits.
///
/// Both are AVX-512 instructions.
#[cfg(target_arch = "x86_64")]
fn has_bit_matrices() -> bool {
    is_x86_feature_detected!("avx512vpopcntdq") && is_x86_feature_detected!("gfni")
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::*;

    use super::map::{load_lut, look_up};
    use crate::portable::{self, Corners};

    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi")]
    pub(super) fn vectorized_avx512<R>(plain: impl FnOnce() -> R) -> R {
        plain()
    }

    #[target_feature(enable = "avx2")]
    pub(super) fn vectorized_avx2<R>(plain: impl FnOnce() -> R) -> R {
        plain()
    }

    /// Returns a pixel for each byte of `C` consecutive vectors of `LANES` interleaved samples.
    ///
    /// It is the pixel that the byte belongs to, or 0x80 if the byte is alpha.
    const fn spread<const C: usize, const LANES: usize>() -> [[u8; LANES]; C] {
        let mut table = [[0; LANES]; C];
        let mut at = 0;
        while at < C * LANES {
            table[at / LANES][at % LANES] = if at % C == 3 { 0x80 } else { (at / C) as u8 };
            at += 1;
        }
        table
    }

    /// Relights 64 pixels at a time.
    ///
    /// Both saturated differences of the lumas, at least one of which is 0, are repeated for each
    /// colour channel.
    #[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
    pub(super) fn relight_vbmi<const C: usize>(pixels: &mut [u8], from: &[u8], to: &[u8]) {
        let spread = const { spread::<C, 64>() };
        let (from_blocks, from_tail) = from.as_chunks::<64>();
        let (to_blocks, to_tail) = to.as_chunks::<64>();
        let (vectors, _) = pixels.as_chunks_mut::<64>();
        for ((vectors, from), to) in vectors.chunks_exact_mut(C).zip(from_blocks).zip(to_blocks) {
            let (from, to) = (load512(from), load512(to));
            let (up, down) = (_mm512_subs_epu8(to, from), _mm512_subs_epu8(from, to));
            for (vector, pixel) in vectors.iter_mut().zip(&spread) {
                let pixel = load512(pixel);
                let colours = !_mm512_movepi8_mask(pixel);
                let up = _mm512_maskz_permutexvar_epi8(colours, pixel, up);
                let down = _mm512_maskz_permutexvar_epi8(colours, pixel, down);
                store512(vector, _mm512_subs_epu8(_mm512_adds_epu8(load512(vector), up), down));
            }
        }
        portable::relight_portable::<u8, C>(&mut pixels[from_blocks.len() * 64 * C..], from_tail, to_tail);
    }

    /// Relights 16 pixels at a time, as above.
    #[target_feature(enable = "avx2")]
    pub(super) fn relight_avx2<const C: usize>(pixels: &mut [u8], from: &[u8], to: &[u8]) {
        let spread = const { spread::<C, 16>() };
        let (from_blocks, from_tail) = from.as_chunks::<16>();
        let (to_blocks, to_tail) = to.as_chunks::<16>();
        let (vectors, _) = pixels.as_chunks_mut::<16>();
        for ((vectors, from), to) in vectors.chunks_exact_mut(C).zip(from_blocks).zip(to_blocks) {
            let (from, to) = (load128(from), load128(to));
            let (up, down) = (_mm_subs_epu8(to, from), _mm_subs_epu8(from, to));
            for (vector, pixel) in vectors.iter_mut().zip(&spread) {
                let pixel = load128(pixel);
                let (up, down) = (_mm_shuffle_epi8(up, pixel), _mm_shuffle_epi8(down, pixel));
                store128(vector, _mm_subs_epu8(_mm_adds_epu8(load128(vector), up), down));
            }
        }
        portable::relight_portable::<u8, C>(&mut pixels[from_blocks.len() * 16 * C..], from_tail, to_tail);
    }

    /// Blends 64 values at a time.
    #[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
    pub(super) fn blend_vbmi(
        values: &mut [u8],
        corners: &Corners<'_, u8>,
        right_weights: &[f32],
        bottom_weight: f32,
    ) {
        let [top_left, top_right] = corners.top;
        let [bottom_left, bottom_right] = corners.bottom;
        let table = |lut: &[u8]| load_lut(lut.try_into().expect("a LUT has one entry a level"));
        let luts = [table(top_left), table(top_right), table(bottom_left), table(bottom_right)];
        let (blocks, tail) = values.as_chunks_mut::<64>();
        let (weights, tail_weights) = right_weights.as_chunks::<64>();
        for (block, weights) in blocks.iter_mut().zip(weights) {
            blend_block(block, &luts, weights, bottom_weight);
        }
        if !tail.is_empty() {
            // Small tiles have only tails. A copy would make the load of a vector wait for stores
            // of other widths.
            let found = look_up_all(&luts, load_first(tail));
            let weights = tail_weights.chunks(16).map(|weights| load_first_floats(weights));
            let mut results = [[0; 16]; 4];
            for ((at, result), weights) in results.iter_mut().enumerate().zip(weights) {
                store128(result, interpolate_16(&found, at, weights, bottom_weight));
            }
            tail.copy_from_slice(&results.as_flattened()[..tail.len()]);
        }
    }

    /// Looks 64 values up in four LUTs, then interpolates 16 at a time.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
    fn blend_block(block: &mut [u8; 64], luts: &[[__m512i; 4]; 4], weights: &[f32; 64], bottom_weight: f32) {
        let found = look_up_all(luts, load512(block));
        let (results, _) = block.as_chunks_mut::<16>();
        let (weights, _) = weights.as_chunks::<16>();
        for (at, (result, weights)) in results.iter_mut().zip(weights).enumerate() {
            store128(result, interpolate_16(&found, at, load_floats(weights), bottom_weight));
        }
    }

    /// Looks 64 values up in each of four LUTs.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
    fn look_up_all(luts: &[[__m512i; 4]; 4], index: __m512i) -> [[u8; 64]; 4] {
        let mut found = [[0; 64]; 4];
        for (found, lut) in found.iter_mut().zip(luts) {
            store512(found, look_up(lut, index));
        }
        found
    }

    /// Interpolates the group of 16 values with this number between the entries of the four LUTs.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
    fn interpolate_16(found: &[[u8; 64]; 4], at: usize, right: __m512, bottom_weight: f32) -> __m128i {
        let one = _mm512_set1_ps(1.0);
        let below = _mm512_set1_ps(bottom_weight);
        let above = _mm512_sub_ps(one, below);
        let corner = |number: usize| {
            let bytes = load128(&found[number].as_chunks::<16>().0[at]);
            _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(bytes))
        };
        let left = _mm512_sub_ps(one, right);
        let top = _mm512_add_ps(_mm512_mul_ps(corner(0), left), _mm512_mul_ps(corner(1), right));
        let bottom = _mm512_add_ps(_mm512_mul_ps(corner(2), left), _mm512_mul_ps(corner(3), right));
        let value = _mm512_add_ps(_mm512_mul_ps(top, above), _mm512_mul_ps(bottom, below));
        // The conversion rounds in the current mode. Rust leaves it at the default: to nearest,
        // halves to even.
        _mm512_cvtusepi32_epi8(_mm512_cvtps_epi32(value))
    }

    /// Compares 16 at once: a saturated difference is 0 where a sample is not above.
    #[inline]
    #[target_feature(enable = "sse2")]
    pub(super) fn not_above_8(sorted: &[u8; 16], sample: u8) -> usize {
        // SAFETY: 16 readable bytes, which need no alignment.
        let sorted = unsafe { _mm_loadu_si128(sorted.as_ptr().cast()) };
        let not_above =
            _mm_cmpeq_epi8(_mm_subs_epu8(sorted, _mm_set1_epi8(sample as i8)), _mm_setzero_si128());
        _mm_movemask_epi8(not_above).trailing_ones() as usize
    }

    /// The same for 16 bits.
    #[inline]
    #[target_feature(enable = "sse2")]
    pub(super) fn not_above_16(sorted: &[u16; 16], sample: u16) -> usize {
        let sample = _mm_set1_epi16(sample as i16);
        let [low, high] = [0, 8].map(|at| {
            // SAFETY: 8 readable words from 0 or 8 on, which need no alignment.
            let half = unsafe { _mm_loadu_si128(sorted.as_ptr().add(at).cast()) };
            _mm_cmpeq_epi16(_mm_subs_epu16(half, sample), _mm_setzero_si128())
        });
        _mm_movemask_epi8(_mm_packs_epi16(low, high)).trailing_ones() as usize
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    fn load_floats(from: &[f32; 16]) -> __m512 {
        // SAFETY: 16 readable floats, which need no alignment beyond their own.
        unsafe { _mm512_loadu_ps(from.as_ptr()) }
    }

    /// Loads up to 16 floats, followed by zeros.
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn load_first_floats(from: &[f32]) -> __m512 {
        let mask = ((1_u32 << from.len().min(16)) - 1) as u16;
        // SAFETY: only the floats that the mask names are read, and these are readable.
        unsafe { _mm512_maskz_loadu_ps(mask, from.as_ptr()) }
    }

    /// Loads up to 64 bytes, followed by zeros.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw")]
    fn load_first(from: &[u8]) -> __m512i {
        let mask = u64::MAX.checked_shr(64 - from.len().min(64) as u32).unwrap_or(0);
        // SAFETY: only the bytes that the mask names are read, and these are readable.
        unsafe { _mm512_maskz_loadu_epi8(mask, from.as_ptr().cast()) }
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    pub(super) fn load512(from: &[u8; 64]) -> __m512i {
        // SAFETY: 64 readable bytes, which need no alignment.
        unsafe { _mm512_loadu_si512(from.as_ptr().cast()) }
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    pub(super) fn store512(to: &mut [u8; 64], value: __m512i) {
        // SAFETY: 64 writable bytes, which need no alignment.
        unsafe { _mm512_storeu_si512(to.as_mut_ptr().cast(), value) }
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    pub(super) fn load256(from: &[u8; 32]) -> __m256i {
        // SAFETY: 32 readable bytes, which need no alignment.
        unsafe { _mm256_loadu_si256(from.as_ptr().cast()) }
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    pub(super) fn store256(to: &mut [u8; 32], value: __m256i) {
        // SAFETY: 32 writable bytes, which need no alignment.
        unsafe { _mm256_storeu_si256(to.as_mut_ptr().cast(), value) }
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    pub(super) fn store128(to: &mut [u8; 16], value: __m128i) {
        // SAFETY: 16 writable bytes, which need no alignment.
        unsafe { _mm_storeu_si128(to.as_mut_ptr().cast(), value) }
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    pub(super) fn load128(from: &[u8; 16]) -> __m128i {
        // SAFETY: 16 readable bytes, which need no alignment.
        unsafe { _mm_loadu_si128(from.as_ptr().cast()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::portable::TABLES_8;

    /// Returns reproducible pseudorandom bytes (xorshift64).
    fn noise(length: usize, seed: u64) -> Vec<u8> {
        let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let mut next = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 32) as u8
        };
        (0..length).map(|_| next()).collect()
    }

    /// Lengths on both sides of every vector length, and one of several vectors.
    const LENGTHS: [usize; 16] = [0, 1, 2, 7, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 191, 1001];

    /// Runs one step in plain Rust, as selected at run time, and in each implementation.
    ///
    /// The processor's features decide which run; all must give the same bytes.
    macro_rules! same_bytes {
        ($what:expr, $plain:expr, $chosen:expr, $($feature:expr => $leaf:expr),*) => {
            let expected = $plain;
            assert_eq!($chosen, expected, "chosen, {}", $what);
            #[cfg(target_arch = "x86_64")]
            {
                $(if $feature {
                    // SAFETY: the processor has the instructions that the implementation is
                    // compiled for.
                    assert_eq!(unsafe { $leaf }, expected, "{}, {}", stringify!($leaf), $what);
                })*
            }
        };
    }

    /// Returns a copy of `before` after a step.
    fn after(before: &[u8], step: impl FnOnce(&mut [u8])) -> Vec<u8> {
        let mut samples = before.to_vec();
        step(&mut samples);
        samples
    }

    #[test]
    fn every_count_is_the_same() {
        let ramp: Vec<u8> = (0..140_000).map(|at| (at / 300) as u8).collect();
        let equal_words = [3, 1, 4, 15, 92, 65, 35, 89].repeat(20_000);
        let every_level_once = (0..=255).collect();
        for samples in [
            noise(140_000, 12),
            vec![77; 133_333],
            ramp,
            equal_words,
            every_level_once,
            noise(511, 13),
            Vec::new(),
        ] {
            for width in [0, 1, 64, 700, 5_000, 100_000] {
                assert_counts_are_the_same(&samples, width);
            }
        }
    }

    fn assert_counts_are_the_same(samples: &[u8], width: usize) {
        let mut expected = vec![0_u32; 256];
        samples.iter().for_each(|&sample| expected[usize::from(sample)] += 1);
        let by = |count: &dyn Fn(&mut [u32])| -> Vec<u32> {
            let mut tables = vec![0; 256 * TABLES_8];
            count(&mut tables);
            (0..256).map(|level| tables.iter().skip(level).step_by(256).sum()).collect()
        };
        assert_eq!(by(&|tables| bytes::count(samples, tables)), expected, "{} samples", samples.len());
        same_bytes!(
            format!("{} samples in rows of {width}", samples.len()),
            expected,
            by(&|tables| count(samples, width, tables)),
            has_vbmi() && has_bit_matrices() => {
                let (groups, rest) = samples.split_at(samples.len() / 512 * 512);
                let mut table = [0; 256];
                bits::count(groups.as_chunks().0, width, &mut table);
                rest.iter().for_each(|&sample| table[usize::from(sample)] += 1);
                table.to_vec()
            }
        );
    }

    #[test]
    fn every_comparison_gives_the_same_number() {
        for seed in 0..50 {
            let mut bytes: [u8; WINDOW] = noise(WINDOW, seed).try_into().unwrap();
            bytes.sort_unstable();
            let words = bytes.map(|byte| u16::from(byte) * 257);
            for sample in 0..=255 {
                let expected = portable::not_above(&bytes, sample);
                assert_eq!(not_above_8(&bytes, sample), expected);
                assert_eq!(not_above_16(&words, u16::from(sample) * 257), expected);
            }
        }
    }

    #[test]
    fn every_map_gives_the_same_bytes() {
        let lut: [u8; 256] = noise(256, 1).try_into().unwrap();
        let noises = LENGTHS.map(|length| noise(length, length as u64));
        for before in noises.into_iter().chain([(0..=255).collect()]) {
            same_bytes!(
                format!("{} samples", before.len()),
                after(&before, |samples| portable::map(samples, &lut)),
                after(&before, |samples| map(samples, &lut)),
                is_x86_feature_detected!("avx2") => after(&before, |samples| map::map_avx2(samples, &lut)),
                is_x86_feature_detected!("avx512bw") => after(&before, |samples| map::map_bw(samples, &lut)),
                has_vbmi() => after(&before, |samples| map::map_vbmi(samples, &lut))
            );
        }
    }

    #[test]
    fn every_relight_gives_the_same_bytes() {
        fn check<const C: usize>() {
            for length in LENGTHS {
                let before = noise(length * C, 3);
                let (from, to) = (noise(length, 4), noise(length, 5));
                same_bytes!(
                    format!("{length} pixels of {C} channels"),
                    after(&before, |pixels| {
                        for ((pixel, &from), &to) in pixels.chunks_mut(C).zip(&from).zip(&to) {
                            pixel[..3].iter_mut().for_each(|sample| *sample = portable::shift_luma(*sample, from, to));
                        }
                    }),
                    after(&before, |pixels| shift_luma::<C>(pixels, &from, &to)),
                    is_x86_feature_detected!("avx2") => after(&before, |pixels| {
                        x86::vectorized_avx2(|| portable::relight_portable::<u8, C>(pixels, &from, &to));
                    }),
                    is_x86_feature_detected!("avx2") =>
                        after(&before, |pixels| x86::relight_avx2::<C>(pixels, &from, &to)),
                    has_vbmi() => after(&before, |pixels| x86::relight_vbmi::<C>(pixels, &from, &to))
                );
            }
        }
        check::<3>();
        check::<4>();
    }

    #[test]
    fn every_new_luma_that_keeps_the_hue_gives_the_same_bytes() {
        fn check<const C: usize>(highest: u8) {
            for length in LENGTHS.into_iter().chain([300_000]) {
                let mut before = noise(length * C, 3);
                // Some pixels are dark, and some gray.
                before
                    .chunks_mut(C)
                    .step_by(3)
                    .for_each(|pixel| pixel.iter_mut().for_each(|sample| *sample /= 16));
                before.chunks_mut(C).step_by(7).for_each(|pixel| pixel.copy_within(..1, 1));
                let mut from = vec![0; length];
                portable::luma_portable::<u8, C>(&before, &mut from);
                let to: Vec<u8> = noise(length, 5).iter().map(|&level| level.min(highest)).collect();
                let plain = |pixels: &mut [u8]| keep_hue_portable::<u8, C>(pixels, &from, &to, highest);
                same_bytes!(
                    format!("{length} pixels of {C} channels"),
                    after(&before, plain),
                    after(&before, |pixels| keep_hue::<C>(pixels, &from, &to, highest)),
                    is_x86_feature_detected!("avx2") =>
                        after(&before, |pixels| x86::vectorized_avx2(|| plain(pixels))),
                    highest == 255 && has_vbmi() =>
                        after(&before, |pixels| hue::keep_hue_vbmi::<C>(pixels, &from, &to))
                );
            }
        }
        [255, 99].into_iter().for_each(check::<3>);
        [255, 99].into_iter().for_each(check::<4>);
    }

    #[test]
    fn every_blend_gives_the_same_bytes() {
        let luts = [noise(256, 6), noise(256, 7), noise(256, 8), noise(256, 9)];
        let corners = Corners { top: [&luts[0], &luts[1]], bottom: [&luts[2], &luts[3]] };
        for length in LENGTHS {
            let before = noise(length, 10);
            let weights: Vec<f32> = (0..length).map(|at| (at * 7 % 512) as f32 / 512.0).collect();
            for bottom in [0.0, 0.5, 0.123, 0.999] {
                let plain = |values: &mut [u8]| portable::blend_portable(values, &corners, &weights, bottom);
                let packed = |values: &mut [u8]| portable::blend_bytes(values, &corners, &weights, bottom);
                assert_eq!(after(&before, packed), after(&before, plain), "{length} values, weight {bottom}");
                same_bytes!(
                    format!("{length} values, weight {bottom}"),
                    after(&before, plain),
                    after(&before, |values| blend(values, &corners, &weights, bottom)),
                    is_x86_feature_detected!("avx2") =>
                        after(&before, |values| x86::vectorized_avx2(|| packed(values))),
                    has_vbmi() => after(&before, |values| x86::blend_vbmi(values, &corners, &weights, bottom))
                );
            }
        }
    }

    #[test]
    fn luma_is_the_same_in_every_width() {
        for length in LENGTHS {
            let pixels = noise(3 * length, 11);
            let plain = |values: &mut [u8]| portable::luma_portable::<u8, 3>(&pixels, values);
            let zeros = vec![0; length];
            same_bytes!(
                format!("{length} pixels"),
                after(&zeros, plain),
                after(&zeros, |values| vectorized!(plain(values))),
                is_x86_feature_detected!("avx2") => after(&zeros, |values| x86::vectorized_avx2(|| plain(values))),
                has_vbmi() => after(&zeros, |values| x86::vectorized_avx512(|| plain(values)))
            );
        }
    }
}
