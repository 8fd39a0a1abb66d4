//! A new luma that keeps the hue, of 8-bit pictures.

use std::arch::x86_64::*;

use super::x86::{load128, load256, load512, store128, store256, store512};
use crate::hue::{DARK_OFFSET, MOST_CHROMA, keep_hue_of_pixel, keep_hue_portable};
use crate::portable::WEIGHTS;

/// Pixels at a time.
const LANES: usize = 16;

/// Bits of a result that are fractions.
const FRACTION: u32 = 15;

/// Distance from a half, in units of the fraction, within which exact arithmetic decides.
///
/// The result in 32 bits differs from the exact sum by less than that: a factor by 1.03 · 2⁻²³ of
/// itself, and a difference from luma is at most 255 after it is scaled, which makes 1.03 units;
/// two roundings add 1/4 and 1/2. (An old luma with its offset may be 2²⁴ or more, and is rounded
/// to 2⁻²⁴ of itself; but no channel differs by more than 26 from such a luma.)
const NEAR: i32 = 2;

/// The permutation from 16 pixels of 3 channels to a word of 4 bytes for each pixel.
///
/// [`TOGETHER`] is the inverse.
const APART: [u8; 64] = {
    let mut from = [0x80; 64];
    let mut at = 0;
    while at < 64 {
        if at % 4 < 3 {
            from[at] = (at / 4 * 3 + at % 4) as u8;
        }
        at += 1;
    }
    from
};
const TOGETHER: [u8; 64] = {
    let mut from = [0; 64];
    let mut at = 0;
    while at < 48 {
        from[at] = (at / 3 * 4 + at % 3) as u8;
        at += 1;
    }
    from
};

/// Keeps the hue of 16 pixels at a time in floats of 32 bits.
///
/// Pixels that these cannot decide, about one in three thousand, are computed in 64 bits.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi")]
pub(super) fn keep_hue_vbmi<const C: usize>(pixels: &mut [u8], from: &[u8], to: &[u8]) {
    let (from_blocks, from_tail) = from.as_chunks::<LANES>();
    let (to_blocks, to_tail) = to.as_chunks::<LANES>();
    let (blocks, tail) = pixels.split_at_mut(from_blocks.len() * LANES * C);
    for ((block, from), to) in blocks.chunks_exact_mut(LANES * C).zip(from_blocks).zip(to_blocks) {
        let before = load_pixels::<C>(block);
        let (after, mut undecided) = keep_hue_block(before, load128(from), load128(to));
        store_pixels::<C>(block, after);
        if undecided != 0 {
            let mut colours = [[0; 4]; LANES];
            store512(colours.as_flattened_mut().first_chunk_mut().expect("so many bytes"), before);
            while undecided != 0 {
                let at = undecided.trailing_zeros() as usize;
                undecided &= undecided - 1;
                let [red, green, blue, _] = colours[at];
                block[C * at..][..3].copy_from_slice(&keep_hue_of_pixel([red, green, blue], to[at], u8::MAX));
            }
        }
    }
    keep_hue_portable::<u8, C>(tail, from_tail, to_tail, u8::MAX);
}

/// Returns the pixels, each in a word, and a bit for each pixel that may be wrong by 1.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi")]
fn keep_hue_block(before: __m512i, from: __m128i, to: __m128i) -> (__m512i, u16) {
    let stays = _mm_cmpeq_epi8_mask(from, to);
    let high_half = _mm512_set1_epi32(0xffff_0000_u32 as i32);
    let red_green = _mm512_shuffle_epi8(before, words([0, 0x80, 1, 0x80]));
    let green_blue = _mm512_shuffle_epi8(before, words([1, 0x80, 2, 0x80]));
    let exact = exact_luma(red_green, green_blue);
    let greatest = _mm512_max_epu16(red_green, green_blue);
    let greatest = _mm512_max_epu16(greatest, _mm512_slli_epi32::<16>(greatest));
    let room = _mm512_sub_epi32(_mm512_and_si512(greatest, high_half), exact);
    let luma = _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(to));
    let factor = factor(luma, _mm512_cvtepi32_ps(exact), _mm512_cvtepi32_ps(room));
    // The half that rounds halves up, and the distance that makes the lowest bits of near ones
    // small.
    const HALF: i32 = (1 << (FRACTION - 1)) + NEAR;
    let unit = _mm512_set1_ps((1 << FRACTION) as f32);
    let luma = _mm512_fmadd_ps(luma, unit, _mm512_set1_ps(HALF as f32));
    let factor = _mm512_mul_ps(factor, unit);
    let new = |colour: __m512i| {
        let apart = _mm512_cvtepi32_ps(_mm512_sub_epi32(colour, exact));
        _mm512_cvtps_epi32(_mm512_fmadd_ps(apart, factor, luma))
    };
    let red = new(_mm512_slli_epi32::<16>(red_green));
    let green = new(_mm512_and_si512(red_green, high_half));
    let blue = new(_mm512_and_si512(green_blue, high_half));
    let near = |value| _mm512_testn_epi32_mask(value, _mm512_set1_epi32((1 << FRACTION) - 2 * NEAR));
    let undecided = (near(red) | near(green) | near(blue)) & !stays;
    let red = _mm512_srli_epi32::<FRACTION>(red);
    let green = _mm512_srli_epi32::<{ FRACTION - 8 }>(green);
    let blue = _mm512_slli_epi32::<{ 16 - FRACTION }>(blue);
    let after = choose(_mm512_set1_epi32(0xff), red, choose(_mm512_set1_epi32(0xff00), green, blue));
    // The bits of blue, and alpha as it was.
    let after = choose(_mm512_set1_epi32(0xff_ffff), after, before);
    (_mm512_mask_mov_epi32(after, stays, before), undecided)
}

/// Returns the bits of `one` where `bits` are set, of `other` elsewhere.
#[inline]
#[target_feature(enable = "avx512f")]
fn choose(bits: __m512i, one: __m512i, other: __m512i) -> __m512i {
    _mm512_ternarylogic_epi32::<0b1100_1010>(bits, one, other)
}

/// Returns the luma in 65536ths.
///
/// Half of green's weight goes with red and half with blue, because weights have 16 bits and a
/// sign.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn exact_luma(red_green: __m512i, green_blue: __m512i) -> __m512i {
    const PAIRS: [i32; 2] = {
        let [red, green, blue] = WEIGHTS;
        assert!(green % 2 == 0);
        [(red | ((green / 2) << 16)) as i32, ((green / 2) | (blue << 16)) as i32]
    };
    let [with_red, with_blue] = PAIRS.map(|pair| _mm512_set1_epi32(pair));
    _mm512_add_epi32(_mm512_madd_epi16(red_green, with_red), _mm512_madd_epi16(green_blue, with_blue))
}

/// Returns the factor for 65536ths of the difference from luma, to about 2⁻²².
#[inline]
#[target_feature(enable = "avx512f")]
fn factor(luma: __m512, exact: __m512, room: __m512) -> __m512 {
    let most = _mm512_set1_ps((MOST_CHROMA / 65536.0) as f32);
    let above = _mm512_sub_ps(_mm512_set1_ps(255.0), luma);
    let (more_luma, more_exact) = (
        _mm512_add_ps(luma, _mm512_set1_ps(DARK_OFFSET as f32)),
        _mm512_add_ps(exact, _mm512_set1_ps((DARK_OFFSET * 65536) as f32)),
    );
    // If one operand is not a number, such as a ratio of zeros, the minimum is the second operand.
    let with_offset = _mm512_mul_ps(more_luma, reciprocal(more_exact));
    let least = _mm512_min_ps(_mm512_mul_ps(luma, reciprocal(exact)), with_offset);
    let least = _mm512_min_ps(least, most);
    _mm512_min_ps(_mm512_mul_ps(above, reciprocal(room)), least)
}

/// Returns the reciprocal to about 2⁻²³: an estimate of 14 bits, and one Newton step.
#[inline]
#[target_feature(enable = "avx512f")]
fn reciprocal(value: __m512) -> __m512 {
    let estimate = _mm512_rcp14_ps(value);
    let error = _mm512_fnmadd_ps(value, estimate, _mm512_set1_ps(1.0));
    _mm512_fmadd_ps(estimate, error, estimate)
}

/// Returns a shuffle that treats each word of 4 bytes alike, for each row of 16 bytes.
#[inline]
#[target_feature(enable = "avx512f")]
fn words(bytes: [u8; 4]) -> __m512i {
    let of_word = |number: i32| {
        i32::from_le_bytes(bytes.map(|byte| byte + if byte < 4 { 4 * number as u8 } else { 0 }))
    };
    _mm512_broadcast_i32x4(_mm_setr_epi32(of_word(0), of_word(1), of_word(2), of_word(3)))
}

/// Loads 16 pixels of `C` channels, each into a word.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
fn load_pixels<const C: usize>(from: &[u8]) -> __m512i {
    if C == 4 {
        return load512(from.first_chunk().expect("so many bytes"));
    }
    let (first, last) = from.split_at(32);
    let first = load256(first.first_chunk().expect("so many bytes"));
    let last = load128(last.first_chunk().expect("so many bytes"));
    let packed = _mm512_inserti32x4::<2>(_mm512_castsi256_si512(first), last);
    let places = load512(&APART);
    _mm512_maskz_permutexvar_epi8(!_mm512_movepi8_mask(places), places, packed)
}

/// The opposite of [`load_pixels`].
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
fn store_pixels<const C: usize>(to: &mut [u8], pixels: __m512i) {
    if C == 4 {
        return store512(to.first_chunk_mut().expect("so many bytes"), pixels);
    }
    let packed = _mm512_permutexvar_epi8(load512(&TOGETHER), pixels);
    let (first, last) = to.split_at_mut(32);
    store256(first.first_chunk_mut().expect("so many bytes"), _mm512_castsi512_si256(packed));
    store128(last.first_chunk_mut().expect("so many bytes"), _mm512_extracti32x4_epi32::<2>(packed));
}
