//! The transforms in vectors of 16-bit values.
//!
//! Products are added in pairs to 32-bit sums, as in libjpeg-turbo's `jfdctint-avx2.asm` and
//! `jidctint-avx2.asm`, but with a block in each half of the vectors.
#![allow(unsafe_code)]

use super::{
    Block, Excess, Levels, Masked, Quantizer, forward_portable, inverse_portable, requantized_portable,
};
use crate::formats::jpeg::libjpeg::QuantTable;

/// Returns the samples of two blocks, row by row.
///
/// `divisors` are in zigzag order. If `excess` is found, the samples are arbitrary.
#[inline(always)]
pub(in crate::formats::jpeg::coding) fn inverse(
    blocks: [Levels<'_>; 2],
    divisors: &QuantTable,
    excess: &mut Excess,
) -> [[[u8; 8]; 8]; 2] {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx2") {
        // SAFETY: the processor has the instructions that the function is compiled for.
        return unsafe { x86::inverse(blocks, divisors, excess) };
    }
    inverse_portable(blocks, divisors, excess)
}

/// Transforms and quantizes the samples of two adjacent blocks.
#[inline(always)]
pub(in crate::formats::jpeg::coding) fn forward(
    samples: &[[u8; 16]; 8],
    quantizer: &Quantizer,
) -> [Masked; 2] {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx2") {
        // SAFETY: as above.
        return unsafe { x86::forward(samples, quantizer) };
    }
    forward_portable(samples, quantizer)
}

/// Requantizes the AC coefficients of a block, and clamps them to `-most..=most`.
///
/// They were quantized by `from`. The block has a zero in place of its DC coefficient. `None` if a
/// coefficient is larger than in any real picture.
#[inline(always)]
pub(in crate::formats::jpeg::coding) fn requantized(
    block: &Block,
    from: &QuantTable,
    to: &Quantizer,
    most: i16,
) -> Option<Masked> {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx2") {
        // SAFETY: as above.
        return unsafe { x86::requantized(block, from, to, most) };
    }
    requantized_portable(block, from, to, most)
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::*;

    use super::super::{
        CONSTANT_BITS, F_0_298, F_0_390, F_0_541, F_0_765, F_0_899, F_1_175, F_1_501, F_1_847, F_1_961,
        F_2_053, F_2_562, F_3_072, PASS_BITS, ROOM_BITS, USUAL_BITS,
    };
    use super::{Block, Excess, Levels, Masked, QuantTable, Quantizer};
    use crate::formats::jpeg::coding::ZIGZAG;

    /// The rows of two blocks in parallel, of 8 values of 16 bits each; or their columns.
    type Rows = [__m256i; 8];

    /// A row of two blocks with 32-bit values: the first four columns of both, and the last four.
    type Wide = [__m256i; 2];

    /// A block, with two rows in each vector.
    type Quarters = [__m256i; 4];

    #[target_feature(enable = "avx2")]
    #[inline]
    pub(super) fn inverse(
        blocks: [Levels<'_>; 2],
        divisors: &QuantTable,
        excess: &mut Excess,
    ) -> [[[u8; 8]; 8]; 2] {
        let [(first, more), (second, more_in_second)] = blocks.map(|Levels { dc, ac: block }| {
            let mut values: Quarters = bytemuck::cast(*block);
            values[0] = _mm256_insert_epi16::<0>(values[0], dc);
            dequantized::<{ ROOM_BITS as i32 }>(values, divisors)
        });
        let mut more = _mm256_or_si256(more, more_in_second);
        let rows = std::array::from_fn(|y| halves(first[y / 2], second[y / 2])[y % 2]);
        let columns = inverse_pass::<{ (CONSTANT_BITS - PASS_BITS) as i32 }>(reordered::<Natural>(rows));
        for values in columns {
            more = _mm256_or_si256(more, above::<{ ROOM_BITS as i32 }>(values));
        }
        excess.0 |= u32::from(_mm256_testz_si256(more, more) == 0);
        let rows = inverse_pass::<{ (CONSTANT_BITS + PASS_BITS + 3) as i32 }>(transposed(columns));
        let rows = transposed(rows);
        let half = _mm256_set1_epi8(i8::MIN);
        let samples: Quarters =
            std::array::from_fn(|i| _mm256_xor_si256(_mm256_packs_epi16(rows[2 * i], rows[2 * i + 1]), half));
        let both = [0, 1].map(|i| halves(samples[2 * i], samples[2 * i + 1]));
        [0, 1].map(|block| bytemuck::cast(both.map(|two| two[block])))
    }

    /// Returns the products of coefficients and divisors.
    ///
    /// The second value is a vector that is not all zero if one of them has more than `BITS` bits
    /// without its sign.
    #[target_feature(enable = "avx2")]
    #[inline]
    fn dequantized<const BITS: i32>(values: Quarters, divisors: &QuantTable) -> (Quarters, __m256i) {
        // Clamped to fit a signed multiplication. Any coefficient but 0 still gets too many bits
        // from such a divisor.
        let most = _mm256_set1_epi16(i16::MAX);
        let divisors = bytemuck::cast::<_, Quarters>(*divisors).map(|values| _mm256_min_epu16(values, most));
        let mut more = _mm256_setzero_si256();
        let products = std::array::from_fn(|i| {
            let product = _mm256_mullo_epi16(values[i], divisors[i]);
            let upper = _mm256_mulhi_epi16(values[i], divisors[i]);
            let upper_if_short = _mm256_srai_epi16::<15>(product);
            more = _mm256_or_si256(more, _mm256_xor_si256(upper, upper_if_short));
            more = _mm256_or_si256(more, above::<BITS>(product));
            product
        });
        (products, more)
    }

    /// Returns a vector that is nonzero where a value has more than `BITS` bits without its sign.
    #[target_feature(enable = "avx2")]
    #[inline]
    fn above<const BITS: i32>(values: __m256i) -> __m256i {
        let unused = _mm256_srai_epi16::<BITS>(values);
        _mm256_xor_si256(unused, _mm256_srai_epi16::<15>(values))
    }

    #[target_feature(enable = "avx2")]
    #[inline]
    pub(super) fn forward(samples: &[[u8; 16]; 8], quantizer: &Quantizer) -> [Masked; 2] {
        let samples: [__m128i; 8] = bytemuck::cast(*samples);
        let half = _mm256_set1_epi16(128);
        let rows = samples.map(|row| _mm256_sub_epi16(_mm256_cvtepu8_epi16(row), half));
        let columns = transposed(forward_pass::<true>(transposed(rows)));
        let both = reordered::<Zigzag>(forward_pass::<false>(columns));
        let both = [0, 1, 2, 3].map(|i| halves(both[2 * i], both[2 * i + 1]));
        [0, 1].map(|block| masked(quantized(both.map(|two| two[block]), quantizer)))
    }

    /// Returns the first halves of both vectors, and the second halves.
    #[target_feature(enable = "avx2")]
    #[inline]
    fn halves(a: __m256i, b: __m256i) -> [__m256i; 2] {
        [_mm256_permute2x128_si256::<0x20>(a, b), _mm256_permute2x128_si256::<0x31>(a, b)]
    }

    #[target_feature(enable = "avx2")]
    #[inline]
    pub(super) fn requantized(block: &Block, from: &QuantTable, to: &Quantizer, most: i16) -> Option<Masked> {
        let (products, more) = dequantized::<{ USUAL_BITS as i32 }>(bytemuck::cast(*block), from);
        if _mm256_testz_si256(more, more) == 0 {
            return None;
        }
        let (least, most) = (_mm256_set1_epi16(-most), _mm256_set1_epi16(most));
        let quotients = quantized(products.map(|values| _mm256_slli_epi16::<3>(values)), to);
        Some(masked(quotients.map(|values| _mm256_max_epi16(_mm256_min_epi16(values, most), least))))
    }

    /// Divides all coefficients of a block as [`Quantizer::divide`] does.
    #[target_feature(enable = "avx2")]
    #[inline]
    fn quantized(values: Quarters, quantizer: &Quantizer) -> Quarters {
        let correction: Quarters = bytemuck::cast(quantizer.correction);
        let reciprocal: Quarters = bytemuck::cast(quantizer.reciprocal);
        let scale: Quarters = bytemuck::cast(quantizer.scale);
        std::array::from_fn(|i| {
            let dividend = _mm256_add_epi16(_mm256_abs_epi16(values[i]), correction[i]);
            let whole = _mm256_mulhi_epu16(_mm256_mulhi_epu16(dividend, reciprocal[i]), scale[i]);
            _mm256_sign_epi16(whole, values[i])
        })
    }

    #[target_feature(enable = "avx2")]
    #[inline]
    fn masked(values: Quarters) -> Masked {
        let zero = _mm256_setzero_si256();
        let zeros = values.map(|values| _mm256_cmpeq_epi16(values, zero));
        let half = |i: usize| {
            let bytes = _mm256_packs_epi16(zeros[2 * i], zeros[2 * i + 1]);
            _mm256_movemask_epi8(_mm256_permute4x64_epi64::<0b11_01_10_00>(bytes)) as u32
        };
        (!(u64::from(half(0)) | u64::from(half(1)) << 32 | 1), bytemuck::cast(values))
    }

    #[target_feature(enable = "avx2")]
    #[inline]
    fn forward_pass<const FIRST: bool>(rows: Rows) -> Rows {
        let sum = |y: usize| _mm256_add_epi16(rows[y], rows[7 - y]);
        let difference = |y: usize| _mm256_sub_epi16(rows[y], rows[7 - y]);
        let (t10, t13) = (_mm256_add_epi16(sum(0), sum(3)), _mm256_sub_epi16(sum(0), sum(3)));
        let (t11, t12) = (_mm256_add_epi16(sum(1), sum(2)), _mm256_sub_epi16(sum(1), sum(2)));
        let straight = |value: __m256i| {
            if FIRST {
                _mm256_slli_epi16::<{ PASS_BITS as i32 }>(value)
            } else {
                let half = _mm256_set1_epi16(1 << (PASS_BITS - 1));
                _mm256_srai_epi16::<{ PASS_BITS as i32 }>(_mm256_add_epi16(value, half))
            }
        };
        let narrow = |value: Wide| {
            if FIRST {
                rounded::<{ (CONSTANT_BITS - PASS_BITS) as i32 }>(value)
            } else {
                rounded::<{ (CONSTANT_BITS + PASS_BITS) as i32 }>(value)
            }
        };
        let [second, sixth] = rotated(t13, t12);
        let [first, third, fifth, seventh] = odd(difference(0), difference(1), difference(2), difference(3));
        [
            straight(_mm256_add_epi16(t10, t11)),
            narrow(first),
            narrow(second),
            narrow(third),
            straight(_mm256_sub_epi16(t10, t11)),
            narrow(fifth),
            narrow(sixth),
            narrow(seventh),
        ]
    }

    #[target_feature(enable = "avx2")]
    #[inline]
    fn inverse_pass<const SHIFT: i32>(rows: Rows) -> Rows {
        let pair = pairs(rows[0], rows[4]);
        let one = 1 << CONSTANT_BITS;
        let t0 = plus_half::<SHIFT>(products(pair, one, one));
        let t1 = plus_half::<SHIFT>(products(pair, one, -one));
        let [t3, t2] = rotated(rows[2], rows[6]);
        let even = [add(t0, t3), add(t1, t2), sub(t1, t2), sub(t0, t3)];
        let odd = odd(rows[1], rows[3], rows[5], rows[7]);
        std::array::from_fn(|y| {
            let value = if y < 4 { add(even[y], odd[y]) } else { sub(even[7 - y], odd[7 - y]) };
            narrowed::<SHIFT>(value)
        })
    }

    /// Returns the second and the sixth of the eight outputs, or their share in the inverse.
    ///
    /// They are counted from 0. It is a rotation by 3/8 of pi.
    #[target_feature(enable = "avx2")]
    #[inline]
    fn rotated(a: __m256i, b: __m256i) -> [Wide; 2] {
        let pair = pairs(a, b);
        [products(pair, F_0_541 + F_0_765, F_0_541), products(pair, F_0_541, F_0_541 - F_1_847)]
    }

    /// Returns the four odd outputs of the eight from the differences.
    ///
    /// In the inverse, it returns the share of the odd inputs.
    #[target_feature(enable = "avx2")]
    #[inline]
    fn odd(a: __m256i, b: __m256i, c: __m256i, d: __m256i) -> [Wide; 4] {
        let sums = pairs(_mm256_add_epi16(d, b), _mm256_add_epi16(c, a));
        let (z3, z4) =
            (products(sums, F_1_175 - F_1_961, F_1_175), products(sums, F_1_175, F_1_175 - F_0_390));
        let (outer, inner) = (pairs(a, d), pairs(b, c));
        [
            add(products(outer, F_1_501 - F_0_899, -F_0_899), z4),
            add(products(inner, F_3_072 - F_2_562, -F_2_562), z3),
            add(products(inner, -F_2_562, F_2_053 - F_2_562), z4),
            add(products(outer, -F_0_899, F_0_298 - F_0_899), z3),
        ]
    }

    /// Interleaves the values of two rows.
    #[target_feature(enable = "avx2")]
    #[inline]
    fn pairs(a: __m256i, b: __m256i) -> Wide {
        [_mm256_unpacklo_epi16(a, b), _mm256_unpackhi_epi16(a, b)]
    }

    /// Multiplies the values by two constants, alternately, and adds the products in pairs.
    ///
    /// The constants have 16 bits.
    #[target_feature(enable = "avx2")]
    #[inline]
    fn products(pair: Wide, a: i32, b: i32) -> Wide {
        let constants = _mm256_set1_epi32(a & 0xffff | b << 16);
        pair.map(|values| _mm256_madd_epi16(values, constants))
    }

    #[target_feature(enable = "avx2")]
    #[inline]
    fn add(a: Wide, b: Wide) -> Wide {
        [_mm256_add_epi32(a[0], b[0]), _mm256_add_epi32(a[1], b[1])]
    }

    #[target_feature(enable = "avx2")]
    #[inline]
    fn sub(a: Wide, b: Wide) -> Wide {
        [_mm256_sub_epi32(a[0], b[0]), _mm256_sub_epi32(a[1], b[1])]
    }

    /// Adds half of the lowest bit that [`narrowed`] keeps, for rounding.
    #[target_feature(enable = "avx2")]
    #[inline]
    fn plus_half<const SHIFT: i32>(value: Wide) -> Wide {
        value.map(|values| _mm256_add_epi32(values, _mm256_set1_epi32(1 << (SHIFT - 1))))
    }

    /// Drops the lowest `SHIFT` bits, and saturates to 16 bits.
    #[target_feature(enable = "avx2")]
    #[inline]
    fn narrowed<const SHIFT: i32>([first, last]: Wide) -> __m256i {
        _mm256_packs_epi32(_mm256_srai_epi32::<SHIFT>(first), _mm256_srai_epi32::<SHIFT>(last))
    }

    #[target_feature(enable = "avx2")]
    #[inline]
    fn rounded<const SHIFT: i32>(value: Wide) -> __m256i {
        narrowed::<SHIFT>(plus_half::<SHIFT>(value))
    }

    /// Swaps rows and columns of each block.
    #[target_feature(enable = "avx2")]
    #[inline]
    fn transposed(r: Rows) -> Rows {
        let singles =
            |i: usize| (_mm256_unpacklo_epi16(r[i], r[i + 1]), _mm256_unpackhi_epi16(r[i], r[i + 1]));
        let twos = |i: usize| {
            let ((a, b), (c, d)) = (singles(i), singles(i + 2));
            [
                _mm256_unpacklo_epi32(a, c),
                _mm256_unpackhi_epi32(a, c),
                _mm256_unpacklo_epi32(b, d),
                _mm256_unpackhi_epi32(b, d),
            ]
        };
        let (upper, lower) = (twos(0), twos(4));
        std::array::from_fn(|i| match i % 2 {
            0 => _mm256_unpacklo_epi64(upper[i / 2], lower[i / 2]),
            _ => _mm256_unpackhi_epi64(upper[i / 2], lower[i / 2]),
        })
    }

    /// A new order for a block's coefficients.
    trait Order {
        /// For each coefficient, its index in the old order.
        const FROM: [u8; 64];
        /// For each new row, the first and the last old row with coefficients of it.
        const ROWS: [(usize, usize); 8] = {
            let (mut rows, mut i) = ([(7, 0); 8], 0);
            while i < 64 {
                let (row, (first, last)) = (Self::FROM[i] as usize / 8, rows[i / 8]);
                rows[i / 8] = (if row < first { row } else { first }, if row > last { row } else { last });
                i += 1;
            }
            rows
        };
        /// For each new row and each old row, a shuffle mask.
        ///
        /// It moves bytes of the old row to their places in the new one, where 0x80 gives a zero.
        /// Each mask is repeated, for two blocks.
        const BYTES: [[[u8; 32]; 8]; 8] = {
            let (mut bytes, mut i) = ([[[0x80; 32]; 8]; 8], 0);
            while i < 64 {
                let from = Self::FROM[i] as usize;
                let (row, first) = (&mut bytes[i / 8][from / 8], 2 * (from % 8) as u8);
                let at = 2 * (i % 8);
                (row[at], row[at + 1]) = (first, first + 1);
                (row[at + 16], row[at + 17]) = (first, first + 1);
                i += 1;
            }
            bytes
        };
    }

    struct Zigzag;

    impl Order for Zigzag {
        const FROM: [u8; 64] = ZIGZAG;
    }

    struct Natural;

    impl Order for Natural {
        const FROM: [u8; 64] = {
            let (mut places, mut k) = ([0; 64], 0);
            while k < 64 {
                places[ZIGZAG[k] as usize] = k as u8;
                k += 1;
            }
            places
        };
    }

    /// Reorders two blocks.
    #[target_feature(enable = "avx2")]
    #[inline]
    fn reordered<O: Order>(rows: Rows) -> Rows {
        [
            reordered_row::<O, 0>(rows),
            reordered_row::<O, 1>(rows),
            reordered_row::<O, 2>(rows),
            reordered_row::<O, 3>(rows),
            reordered_row::<O, 4>(rows),
            reordered_row::<O, 5>(rows),
            reordered_row::<O, 6>(rows),
            reordered_row::<O, 7>(rows),
        ]
    }

    /// Assembles a row from all old rows with coefficients of it.
    ///
    /// Their numbers are known at compile time.
    #[target_feature(enable = "avx2")]
    #[inline]
    fn reordered_row<O: Order, const ROW: usize>(rows: Rows) -> __m256i {
        let (first, last) = const { O::ROWS[ROW] };
        let mut row = _mm256_setzero_si256();
        for (values, places) in rows[first..=last].iter().zip(&const { O::BYTES[ROW] }[first..=last]) {
            row = _mm256_or_si256(row, _mm256_shuffle_epi8(*values, bytemuck::cast(*places)));
        }
        row
    }
}
