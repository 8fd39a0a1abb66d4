//! Looking 8-bit samples up in a LUT.

use std::arch::x86_64::*;

use super::x86::{load128, load256, load512, store256, store512};
use crate::portable::{self, Words};

/// Maps 64 samples at a time.
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
pub(super) fn map_vbmi(samples: &mut [u8], lut: &[u8; 256]) {
    let lut_registers = load_lut(lut);
    let (blocks, tail) = samples.as_chunks_mut::<64>();
    for block in blocks {
        store512(block, look_up(&lut_registers, load512(block)));
    }
    portable::map(tail, lut);
}

/// Looks up 64 bytes at a time in tables of the lower and the upper bytes of entries.
///
/// The two halves of each entry are then joined.
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
pub(super) fn look_up_words_vbmi(bytes: &[u8], table: &Words, found: &mut [u16]) {
    let [low, high] = &table.halves;
    let (low_registers, high_registers) = (load_lut(low), load_lut(high));
    let (first, second) = (load512(&IN_TURN[0]), load512(&IN_TURN[1]));
    let (blocks, tail) = bytes.as_chunks::<64>();
    let (whole, rest) = found.split_at_mut(blocks.len() * 64);
    for (block, entries) in blocks.iter().zip(whole.as_chunks_mut::<64>().0) {
        let index = load512(block);
        let (low, high) = (look_up(&low_registers, index), look_up(&high_registers, index));
        let [front, back] = bytemuck::cast_mut::<[u16; 64], [[u8; 64]; 2]>(entries);
        store512(front, _mm512_permutex2var_epi8(low, first, high));
        store512(back, _mm512_permutex2var_epi8(low, second, high));
    }
    portable::look_up_words(tail, table, rest);
}

/// Permutations that take bytes from two registers in turn, in the order of memory.
///
/// The first takes the first halves, the other the second halves.
const IN_TURN: [[u8; 64]; 2] = {
    let mut from = [[0; 64]; 2];
    let mut at = 0;
    while at < 128 {
        from[at / 64][at % 64] = (at / 2 + at % 2 * 64) as u8;
        at += 1;
    }
    from
};

/// Maps 64 samples at a time.
///
/// Permutations of 16-bit words find a pair of entries; the lowest bit of a sample selects one of
/// them.
#[target_feature(enable = "avx512f,avx512bw")]
pub(super) fn map_bw(samples: &mut [u8], lut: &[u8; 256]) {
    let lut_registers = load_lut(lut);
    let (blocks, tail) = samples.as_chunks_mut::<64>();
    let low_byte = _mm512_set1_epi16(0xff);
    for block in blocks {
        let values = load512(block);
        let even = look_up_words(&lut_registers, _mm512_and_si512(values, low_byte));
        let odd = look_up_words(&lut_registers, _mm512_srli_epi16::<8>(values));
        let even = _mm512_and_si512(even, low_byte);
        store512(block, _mm512_or_si512(even, _mm512_slli_epi16::<8>(odd)));
    }
    portable::map(tail, lut);
}

/// Maps 32 samples at a time.
///
/// A shuffle looks up the low 4 bits of an index in a row of 16 entries, or yields 0 if the index
/// is negative. For samples below 128, the eight rows are tried in turn, with the index reduced by
/// 16 each time, and the results are XORed: each row but the first is stored XORed with the row
/// before it, and the rows up to the sample's own therefore combine to its entry. Samples from 128
/// on are looked up likewise in the other eight rows.
#[target_feature(enable = "avx2")]
pub(super) fn map_avx2(samples: &mut [u8], lut: &[u8; 256]) {
    let mut changes = *lut;
    (0..256).filter(|at| at % 128 >= 16).for_each(|at| changes[at] ^= lut[at - 16]);
    let row = |number: usize| _mm256_broadcastsi128_si256(load128(&changes.as_chunks().0[number]));
    let (below_128, sixteen) = (_mm256_set1_epi8(0x7f), _mm256_set1_epi8(16));
    let (blocks, tail) = samples.as_chunks_mut::<32>();
    for block in blocks {
        let values = load256(block);
        let mut index = _mm256_and_si256(values, below_128);
        let mut low = _mm256_shuffle_epi8(row(0), index);
        let mut high = _mm256_shuffle_epi8(row(8), index);
        for number in 1..8 {
            index = _mm256_sub_epi8(index, sixteen);
            low = _mm256_xor_si256(low, _mm256_shuffle_epi8(row(number), index));
            high = _mm256_xor_si256(high, _mm256_shuffle_epi8(row(8 + number), index));
        }
        store256(block, _mm256_blendv_epi8(low, high, values));
    }
    portable::map(tail, lut);
}

/// Loads a LUT into four registers.
#[inline]
#[target_feature(enable = "avx512f")]
pub(super) fn load_lut(lut: &[u8; 256]) -> [__m512i; 4] {
    let (quarters, _) = lut.as_chunks::<64>();
    [load512(&quarters[0]), load512(&quarters[1]), load512(&quarters[2]), load512(&quarters[3])]
}

/// Does 64 lookups.
///
/// Two permutations look up the low 7 bits in 128 entries each, and the high bit selects one of the
/// two results.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
pub(super) fn look_up(lut: &[__m512i; 4], index: __m512i) -> __m512i {
    let low = _mm512_permutex2var_epi8(lut[0], index, lut[1]);
    let high = _mm512_permutex2var_epi8(lut[2], index, lut[3]);
    _mm512_mask_blend_epi8(_mm512_movepi8_mask(index), low, high)
}

/// Does 32 lookups of samples widened to 16-bit words, with the results in the low bytes.
///
/// It works as above, but finds pairs of entries; the lowest bit of the index then selects one. The
/// high bytes are meaningless.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn look_up_words(lut: &[__m512i; 4], index: __m512i) -> __m512i {
    let pair = _mm512_srli_epi16::<1>(index);
    let low = _mm512_permutex2var_epi16(lut[0], pair, lut[1]);
    let high = _mm512_permutex2var_epi16(lut[2], pair, lut[3]);
    let pairs = _mm512_mask_blend_epi16(_mm512_movepi16_mask(_mm512_slli_epi16::<8>(index)), low, high);
    let bits = _mm512_and_si512(_mm512_slli_epi16::<3>(index), _mm512_set1_epi16(8));
    _mm512_srlv_epi16(pairs, bits)
}
