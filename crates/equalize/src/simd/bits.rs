//! Counting 8-bit samples by their bits.
//!
//! No sample is handled individually, and no increment waits for another. 512 samples are turned
//! into eight vectors, one per bit. ANDing the vectors of the four high bits, each as it is or
//! inverted, marks the samples with the same high nibble; ANDing the low bits too singles out each
//! level with that nibble, and a population count gives its count. Only the high nibbles that occur
//! are visited. In a photograph these are few among nearby pixels, which is why the vectors of a
//! group come from eight rows, roughly below each other.

use std::arch::x86_64::*;

/// Vectors of samples that are taken apart together.
///
/// They hold as many samples as a vector has bits.
pub(super) const GROUP: usize = 8;

/// The counts of each level, in 16 partial counts each.
type Lanes = [__m512i; 256];

/// Adds the samples of whole groups to `table`, which has one count per level.
///
/// `width` is as in [`crate::histogram::Tally::add_rows`].
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi,avx512vpopcntdq,gfni")]
pub(super) fn count(vectors: &[[u8; 64]], width: usize, table: &mut [u32; 256]) {
    debug_assert!(vectors.len().is_multiple_of(GROUP), "only whole groups are counted");
    // The distance from one row to the next, in vectors. Without rows, the vectors of a group are
    // consecutive.
    let row = (width / 64).max(1);
    let mut lanes = [_mm512_setzero_si512(); 256];
    let (bands, rest) = vectors.split_at(vectors.len() - vectors.len() % (GROUP * row));
    for band in bands.chunks_exact(GROUP * row) {
        for first in 0..row {
            count_group(std::array::from_fn(|number| &band[number * row + first]), &mut lanes);
        }
    }
    for group in rest.as_chunks::<GROUP>().0 {
        count_group(group.each_ref(), &mut lanes);
    }
    for (count, lanes) in table.iter_mut().zip(lanes) {
        *count += _mm512_reduce_add_epi32(lanes).cast_unsigned();
    }
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi,avx512vpopcntdq,gfni")]
fn count_group(group: [&[u8; 64]; GROUP], lanes: &mut Lanes) {
    const ALL: i32 = 0b1000_0000;
    let [p0, p1, p2, p3, p4, p5, p6, p7] = bit_planes(group);
    let (first, second) = (each_of(p0, p1), each_of(p2, p3));
    let (third, fourth) = (each_of(p4, p5), each_of(p6, p7));
    let (halves, _) = lanes.as_chunks_mut::<16>();
    let mut marks = [_mm512_setzero_si512(); 16];
    let mut occurring = 0_u32;
    for (high, marks) in marks.iter_mut().enumerate() {
        *marks = _mm512_and_si512(third[high % 4], fourth[high / 4]);
        occurring |= u32::from(_mm512_test_epi64_mask(*marks, *marks) != 0) << high;
    }
    while occurring != 0 {
        let high = occurring.trailing_zeros() as usize % 16;
        occurring &= occurring - 1;
        for (low, lanes) in halves[high].iter_mut().enumerate() {
            let marks = _mm512_ternarylogic_epi64::<ALL>(marks[high], second[low / 4], first[low % 4]);
            *lanes = _mm512_add_epi32(*lanes, _mm512_popcnt_epi32(marks));
        }
    }
}

/// Marks the samples for which the two-bit number `high:low` is 0, 1, 2 and 3.
#[inline]
#[target_feature(enable = "avx512f")]
fn each_of(low: __m512i, high: __m512i) -> [__m512i; 4] {
    const NEITHER: i32 = 0b0000_0011;
    [
        _mm512_ternarylogic_epi64::<NEITHER>(low, high, high),
        _mm512_andnot_si512(high, low),
        _mm512_andnot_si512(low, high),
        _mm512_and_si512(low, high),
    ]
}

/// The permutation that transposes the 8x8 bytes of a vector.
///
/// Byte `b` of 8-byte word `w` comes from byte `8 * b + w`.
const REGROUPED: [u8; 64] = {
    let mut from = [0; 64];
    let mut at = 0;
    while at < 64 {
        from[at] = (at % 8 * 8 + at / 8) as u8;
        at += 1;
    }
    from
};

/// Splits samples into their bits, lowest first.
///
/// The order of the samples is the same in all eight vectors, but otherwise unspecified.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi,gfni")]
fn bit_planes(group: [&[u8; 64]; GROUP]) -> [__m512i; 8] {
    // A product with the identity matrix as the first operand transposes the 8x8 bits of each word.
    let unit = _mm512_set1_epi64(0x8040_2010_0804_0201_u64.cast_signed());
    let regrouped = super::x86::load512(&REGROUPED);
    let words = |number: usize| {
        let samples = super::x86::load512(group[number]);
        _mm512_permutexvar_epi8(regrouped, _mm512_gf2p8affine_epi64_epi8::<0>(unit, samples))
    };
    let mut planes = [_mm512_setzero_si512(); 8];
    // Word b of each vector belongs to plane b: hence the 8x8 words are transposed.
    let rows = [words(0), words(1), words(2), words(3), words(4), words(5), words(6), words(7)];
    for odd in 0..2 {
        let pair = |number: usize| {
            let (left, right) = (rows[number], rows[number + 1]);
            if odd == 0 { _mm512_unpacklo_epi64(left, right) } else { _mm512_unpackhi_epi64(left, right) }
        };
        let (upper, lower) = ([pair(0), pair(2)], [pair(4), pair(6)]);
        let outer = |half: [__m512i; 2]| _mm512_shuffle_i64x2::<0x88>(half[0], half[1]);
        let inner = |half: [__m512i; 2]| _mm512_shuffle_i64x2::<0xdd>(half[0], half[1]);
        let (outer, inner) = ([outer(upper), outer(lower)], [inner(upper), inner(lower)]);
        planes[odd] = _mm512_shuffle_i64x2::<0x88>(outer[0], outer[1]);
        planes[odd + 4] = _mm512_shuffle_i64x2::<0xdd>(outer[0], outer[1]);
        planes[odd + 2] = _mm512_shuffle_i64x2::<0x88>(inner[0], inner[1]);
        planes[odd + 6] = _mm512_shuffle_i64x2::<0xdd>(inner[0], inner[1]);
    }
    planes
}
