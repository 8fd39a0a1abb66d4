//! The discrete cosine transform of 8x8 samples and its inverse.
//!
//! The integer arithmetic is that of libjpeg's `jfdctint.c` and `jidctint.c`: the algorithm of C.
//! Loeffler, A. Ligtenberg and G. Moschytz, "Practical fast 1-D DCT algorithms with 11
//! multiplications" (ICASSP 1989).
//!
//! This file has portable Rust code; [`avx2`] does the same with vectors of 16-bit values,
//! bit-identically where 16 bits are enough.

use super::{Block, ZIGZAG};
use crate::formats::jpeg::libjpeg::QuantTable;

mod avx2;

pub(super) use avx2::{forward, inverse, requantized};

/// An 8x8 matrix, row by row.
type Matrix = [i32; 64];

/// Fractional bits of the constants.
const CONSTANT_BITS: u32 = 13;
/// Fractional bits of the values that the first pass leaves to the second.
const PASS_BITS: u32 = 2;

const F_0_298: i32 = 2446;
const F_0_390: i32 = 3196;
const F_0_541: i32 = 4433;
const F_0_765: i32 = 6270;
const F_0_899: i32 = 7373;
const F_1_175: i32 = 9633;
const F_1_501: i32 = 12299;
const F_1_847: i32 = 15137;
const F_1_961: i32 = 16069;
const F_2_053: i32 = 16819;
const F_2_562: i32 = 20995;
const F_3_072: i32 = 25172;

#[inline(always)]
const fn round_shift(value: i32, bits: u32) -> i32 {
    value.wrapping_add(1 << (bits - 1)) >> bits
}

#[inline(always)]
const fn times(value: i32, constant: i32) -> i32 {
    value.wrapping_mul(constant)
}

/// The number of bits that libjpeg has for a dequantized coefficient, without its sign.
const ROOM_BITS: u32 = 14;

/// The number of bits of dequantized coefficients in real pictures, without their sign.
///
/// It has a wide margin. Multiplied by 8, they still fit into 16 bits.
const USUAL_BITS: u32 = 12;

/// The bound of those coefficients.
pub(super) const USUAL: u64 = 1 << USUAL_BITS;

/// Detects values that are too large for libjpeg.
///
/// Its vectors have 16 bits; pictures need at most 15.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Excess(u32);

impl Excess {
    #[inline(always)]
    pub(super) fn look(&mut self, value: i32) {
        self.0 |= (value.wrapping_add(1 << ROOM_BITS) as u32) >> (ROOM_BITS + 1);
    }

    /// Returns whether there was such a value.
    pub(super) fn found(self) -> bool {
        self.0 != 0
    }
}

/// Returns the samples of a block without AC coefficients.
#[inline(always)]
pub(super) fn inverse_flat(dc: i16, divisors: &QuantTable, excess: &mut Excess) -> [[u8; 8]; 8] {
    let dc = i32::from(dc).wrapping_mul(divisors[0].into());
    // The first pass would make it this large.
    excess.look(dc.saturating_mul(1 << PASS_BITS));
    [[sample(round_shift(dc, 3)); 8]; 8]
}

/// The quantized coefficients of a block.
#[derive(Clone, Copy, Debug)]
pub(super) struct Levels<'b> {
    pub(super) dc: i16,
    /// The AC coefficients, in zigzag order after a zero.
    pub(super) ac: &'b Block,
}

fn inverse_portable(
    blocks: [Levels<'_>; 2],
    divisors: &QuantTable,
    excess: &mut Excess,
) -> [[[u8; 8]; 8]; 2] {
    blocks.map(|Levels { dc, ac: block }| {
        let mut coefficients = [0; 64];
        for (k, &place) in ZIGZAG.iter().enumerate() {
            let value = if k == 0 { dc } else { block[k] };
            let product = i32::from(value).wrapping_mul(divisors[k].into());
            excess.look(product);
            coefficients[usize::from(place)] = product;
        }
        let columns = inverse_pass::<{ CONSTANT_BITS - PASS_BITS }>(&coefficients);
        columns.iter().for_each(|&value| excess.look(value));
        let rows = inverse_pass::<{ CONSTANT_BITS + PASS_BITS + 3 }>(&transposed(&columns));
        let samples = transposed(&rows).map(sample);
        std::array::from_fn(|y| std::array::from_fn(|x| samples[8 * y + x]))
    })
}

/// Swaps rows and columns.
fn transposed(from: &Matrix) -> Matrix {
    std::array::from_fn(|i| from[i % 8 * 8 + i / 8])
}

#[inline(always)]
fn sample(value: i32) -> u8 {
    (value.wrapping_add(128)).clamp(0, 255) as u8
}

/// Applies the inverse transform to the columns, and rounds `SHIFT` bits off.
#[inline(always)]
fn inverse_pass<const SHIFT: u32>(from: &Matrix) -> Matrix {
    let mut to = [0; 64];
    for x in 0..8 {
        let at = |y: usize| from[8 * y + x];
        let z1 = times(at(2).wrapping_add(at(6)), F_0_541);
        let t2 = z1.wrapping_add(times(at(6), -F_1_847));
        let t3 = z1.wrapping_add(times(at(2), F_0_765));
        let t0 = at(0).wrapping_add(at(4)) << CONSTANT_BITS;
        let t1 = at(0).wrapping_sub(at(4)) << CONSTANT_BITS;
        let even = [t0.wrapping_add(t3), t1.wrapping_add(t2), t1.wrapping_sub(t2), t0.wrapping_sub(t3)];

        let z5 = times(at(7).wrapping_add(at(3)).wrapping_add(at(5)).wrapping_add(at(1)), F_1_175);
        let z1 = times(at(7).wrapping_add(at(1)), -F_0_899);
        let z2 = times(at(5).wrapping_add(at(3)), -F_2_562);
        let z3 = times(at(7).wrapping_add(at(3)), -F_1_961).wrapping_add(z5);
        let z4 = times(at(5).wrapping_add(at(1)), -F_0_390).wrapping_add(z5);
        let odd = [
            times(at(1), F_1_501).wrapping_add(z1).wrapping_add(z4),
            times(at(3), F_3_072).wrapping_add(z2).wrapping_add(z3),
            times(at(5), F_2_053).wrapping_add(z2).wrapping_add(z4),
            times(at(7), F_0_298).wrapping_add(z1).wrapping_add(z3),
        ];
        for y in 0..4 {
            to[8 * y + x] = round_shift(even[y].wrapping_add(odd[y]), SHIFT);
            to[8 * (7 - y) + x] = round_shift(even[y].wrapping_sub(odd[y]), SHIFT);
        }
    }
    to
}

/// Divides the coefficients that [`forward`] computes, rounding half away from zero.
///
/// Like libjpeg's vector code, it uses 16-bit multiplications that are exact for dividends up to
/// 2^15 (A. D. Robison, "N-bit unsigned division via N-bit multiply-add", ARITH 2005).
#[derive(Clone, Debug)]
pub(super) struct Quantizer {
    // All in zigzag order.
    /// Half of the divisor, plus 1 where the reciprocal was rounded down.
    correction: Row,
    /// A power of two divided by the divisor.
    ///
    /// The power makes the quotient 16 bits long.
    reciprocal: Row,
    /// 2^32 divided by that power.
    ///
    /// The multiplication by the reciprocal drops 16 bits; the one by this number drops the rest of
    /// the power.
    scale: Row,
}

type Row = [u16; 64];

impl Quantizer {
    /// Makes a quantizer from divisors in natural order.
    pub(super) fn new(divisors: &QuantTable) -> Self {
        let mut quantizer = Self { correction: [0; 64], reciprocal: [0; 64], scale: [0; 64] };
        for (k, &place) in ZIGZAG.iter().enumerate() {
            // The transform's results are scaled by 8.
            let divisor = 8 * u32::from(divisors[usize::from(place)]);
            let shift = 16 + divisor.ilog2();
            let (quotient, remainder) = ((1 << shift) / divisor, (1 << shift) % divisor);
            let half = divisor / 2;
            let (correction, reciprocal, shift) = match remainder {
                0 => (half, quotient / 2, shift - 1),
                small if small <= half => (half + 1, quotient, shift),
                _ => (half, quotient + 1, shift),
            };
            quantizer.correction[k] = correction as u16;
            quantizer.reciprocal[k] = reciprocal as u16;
            quantizer.scale[k] = (1u32 << (32 - shift)) as u16;
        }
        quantizer
    }

    /// Returns the numbers that [`Quantizer::divide`] uses, each in zigzag order.
    ///
    /// They are corrections, reciprocals and scales.
    pub(super) fn parts(&self) -> [Row; 3] {
        [self.correction, self.reciprocal, self.scale]
    }

    /// Divides `value` by the divisor of coefficient `k`.
    #[inline(always)]
    fn divide(&self, k: usize, value: i32) -> i32 {
        let dividend = value.unsigned_abs() + u32::from(self.correction[k]);
        let product = (dividend * u32::from(self.reciprocal[k])) >> 16;
        let whole = ((product * u32::from(self.scale[k])) >> 16) as i32;
        if value < 0 { -whole } else { whole }
    }

    /// Requantizes a coefficient that was quantized by `from`.
    ///
    /// `None` if it is larger than in any real picture.
    #[inline(always)]
    pub(super) fn requantize(&self, k: usize, value: i16, from: u16) -> Option<i32> {
        let product = i32::from(value) * i32::from(from);
        let usual = -(USUAL as i32)..USUAL as i32;
        usual.contains(&product).then(|| self.divide(k, 8 * product))
    }
}

/// A mask of a block's nonzero AC coefficients, and the block.
pub(super) type Masked = (u64, Block);

fn forward_portable(samples: &[[u8; 16]; 8], quantizer: &Quantizer) -> [Masked; 2] {
    [0, 8].map(|left| {
        let columns = std::array::from_fn(|i| i32::from(samples[i % 8][left + i / 8]) - 128);
        let rows = transposed(&forward_pass::<true>(&columns));
        let transformed = forward_pass::<false>(&rows);
        masked(std::array::from_fn(|k| quantizer.divide(k, transformed[usize::from(ZIGZAG[k])]) as i16))
    })
}

fn requantized_portable(block: &Block, from: &QuantTable, to: &Quantizer, most: i16) -> Option<Masked> {
    let mut quantized = [0; 64];
    for k in 1..64 {
        let value = to.requantize(k, block[k], from[k])?;
        quantized[k] = value.clamp((-most).into(), most.into()) as i16;
    }
    Some(masked(quantized))
}

fn masked(block: Block) -> Masked {
    let bits = block.iter().rev().fold(0, |bits, value| bits << 1 | u64::from(*value != 0));
    (bits & !1, block)
}

/// Transforms the columns.
///
/// The first pass adds [`PASS_BITS`] fractional bits, and the second drops them.
#[inline(always)]
fn forward_pass<const FIRST: bool>(from: &Matrix) -> Matrix {
    let shift = if FIRST { CONSTANT_BITS - PASS_BITS } else { CONSTANT_BITS + PASS_BITS };
    let mut to = [0; 64];
    for x in 0..8 {
        let sum = |y: usize| from[8 * y + x] + from[8 * (7 - y) + x];
        let difference = |y: usize| from[8 * y + x] - from[8 * (7 - y) + x];
        let (t10, t13) = (sum(0) + sum(3), sum(0) - sum(3));
        let (t11, t12) = (sum(1) + sum(2), sum(1) - sum(2));
        let straight = |value: i32| if FIRST { value << PASS_BITS } else { round_shift(value, PASS_BITS) };
        to[x] = straight(t10 + t11);
        to[32 + x] = straight(t10 - t11);
        let z1 = (t12 + t13) * F_0_541;
        to[16 + x] = round_shift(z1 + t13 * F_0_765, shift);
        to[48 + x] = round_shift(z1 - t12 * F_1_847, shift);

        let [t7, t6, t5, t4] = [difference(0), difference(1), difference(2), difference(3)];
        let z5 = (t4 + t6 + t5 + t7) * F_1_175;
        let (z1, z2) = ((t4 + t7) * -F_0_899, (t5 + t6) * -F_2_562);
        let (z3, z4) = ((t4 + t6) * -F_1_961 + z5, (t5 + t7) * -F_0_390 + z5);
        to[56 + x] = round_shift(t4 * F_0_298 + z1 + z3, shift);
        to[40 + x] = round_shift(t5 * F_2_053 + z2 + z4, shift);
        to[24 + x] = round_shift(t6 * F_3_072 + z2 + z3, shift);
        to[8 + x] = round_shift(t7 * F_1_501 + z1 + z4, shift);
    }
    to
}

#[cfg(test)]
mod tests {
    use super::super::tests::noise;
    use super::*;

    /// All 8-bit divisors, those around larger powers of two, and the largest one.
    fn divisors() -> impl Iterator<Item = u16> {
        (1..=255).chain((8..=12).flat_map(|bits| [(1 << bits) - 1, 1 << bits, (1 << bits) + 1])).chain([8191])
    }

    #[test]
    fn quotients_are_exact() {
        for divisor in divisors() {
            let quantizer = Quantizer::new(&[divisor; 64]);
            let divisor = 8 * i32::from(divisor);
            for dividend in 0..=1 << 15 {
                let quotient = (dividend + divisor / 2) / divisor;
                assert_eq!(quantizer.divide(9, dividend), quotient, "{dividend} / {divisor}");
                assert_eq!(quantizer.divide(9, -dividend), -quotient, "-{dividend} / {divisor}");
            }
        }
    }

    fn numbers() -> impl FnMut(u64) -> i32 {
        let mut state = 1;
        move |below| (noise(&mut state) % below) as i32
    }

    #[test]
    fn a_dc_that_is_too_large_is_found() {
        // The last product is 2^30 - 4; 4 times that would wrap in 32 bits and look small.
        for (dc, divisor, found) in
            [(4095, 1, false), (-4096, 1, false), (4096, 1, true), (-4097, 1, true), (16385, 65532, true)]
        {
            let mut excess = Excess::default();
            inverse_flat(dc, &[divisor; 64], &mut excess);
            assert_eq!(excess.found(), found, "{dc} {divisor}");
        }
    }

    #[test]
    fn vectors_transform_as_plain_rust_does() {
        let mut noise = numbers();
        for round in 0..2000 {
            // Noise; only the smallest and the largest samples; an edge.
            let samples = std::array::from_fn(|y| {
                std::array::from_fn(|x| match round % 3 {
                    0 => noise(256) as u8,
                    1 => noise(2) as u8 * 255,
                    _ => {
                        if x * (round % 7) < y * (round % 11) {
                            255
                        } else {
                            0
                        }
                    }
                })
            });
            let quantizer =
                Quantizer::new(&std::array::from_fn(|_| [1, 1 + noise(255), 8191][round % 3] as u16));
            assert_eq!(avx2::forward(&samples, &quantizer), forward_portable(&samples, &quantizer));
        }
    }

    #[test]
    fn what_no_picture_has_is_not_quantized_anew() {
        let to = Quantizer::new(&[1; 64]);
        for (value, taken) in [(4095, true), (4096, false), (-4096, true), (-4097, false)] {
            let block = std::array::from_fn(|k| if k == 5 { value } else { 0 });
            for requantized in [avx2::requantized, requantized_portable] {
                assert_eq!(requantized(&block, &[1; 64], &to, 5000).is_some(), taken, "{value}");
            }
            assert_eq!(to.requantize(0, value, 1).is_some(), taken, "{value}");
        }
    }

    #[test]
    fn vectors_transform_back_as_plain_rust_does() {
        let mut noise = numbers();
        let (mut whole, mut excessive, mut usual, mut before) = (0, 0, 0, [0; 64]);
        for round in 0..20_000 {
            let most = [3, 30, 300, 1 << 14][round % 4];
            let sparse = 1 + noise(64) as u64;
            let block = std::array::from_fn(|_| {
                if noise(sparse) == 0 { (noise(2 * most + 1) - most as i32) as i16 } else { 0 }
            });
            let divisors = std::array::from_fn(|_| 1 + noise([3, 60, 255, 65535][round / 4 % 4]) as u16);
            let dc = (noise(2048) - 1024) as i16;
            let mut both = [Excess::default(); 2];
            let blocks = [Levels { dc, ac: &block }, Levels { dc: -dc, ac: &before }];
            let fast = avx2::inverse(blocks, &divisors, &mut both[0]);
            let plain = inverse_portable(blocks, &divisors, &mut both[1]);
            before = block;
            assert_eq!(both[0].found(), both[1].found(), "{block:?} {divisors:?}");
            if both[0].found() {
                excessive += 1;
            } else {
                assert_eq!(fast, plain, "{block:?} {divisors:?}");
                whole += 1;
            }
            let (from, to) = (divisors, Quantizer::new(&std::array::from_fn(|_| 1 + noise(255) as u16)));
            let block = std::array::from_fn(|k| if k == 0 { 0 } else { block[k] });
            let fast = avx2::requantized(&block, &from, &to, 1023);
            usual += usize::from(fast.is_some());
            assert_eq!(fast, requantized_portable(&block, &from, &to, 1023));
        }
        assert!(whole > 2000 && excessive > 2000, "{whole} {excessive}");
        assert!((2000..18_000).contains(&usual), "{usual}");
    }
}
