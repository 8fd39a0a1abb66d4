//! The discrete cosine transform of 8x8 samples and back, in the integers of libjpeg's `jfdctint.c` and `jidctint.c`: the algorithm of
//! C. Loeffler, A. Ligtenberg and G. Moschytz, "Practical fast 1-D DCT algorithms with 11 multiplications" (ICASSP 1989).
//!
//! A pass transforms eight columns next to each other, and the compiler makes vector instructions of it; between the two passes rows
//! and columns are exchanged, which it does not.
use super::leaf::{self, Matrix, transposed};
use super::{Block, ZIGZAG};
use crate::codec::jpeg::libjpeg::QuantTable;

/// Bits behind the point of the constants.
const CONSTANT_BITS: u32 = 13;
/// Bits behind the point of what the first pass leaves to the second.
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

/// Finds values for which libjpeg has no room: its vectors have 16 bits, and no picture needs more than 15 of them.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Excess(u32);

impl Excess {
    #[inline(always)]
    pub(super) fn look(&mut self, value: i32) {
        self.0 |= (value.wrapping_add(1 << 14) as u32) >> 15;
    }

    /// Whether there was one.
    pub(super) fn found(self) -> bool {
        self.0 != 0
    }
}

/// The samples of a block, row by row, from its mean value and the details that are not zero. `divisors` are in zigzag order.
#[inline(always)]
pub(super) fn inverse(
    mean: i16,
    mut nonzero: u64,
    block: &Block,
    divisors: &QuantTable,
    excess: &mut Excess,
) -> [[u8; 8]; 8] {
    let mut dequantized = |k: usize, value: i16| {
        let product = i32::from(value).wrapping_mul(i32::from(divisors[k]));
        excess.look(product);
        product
    };
    let mean = dequantized(0, mean);
    if nonzero == 0 {
        return [[sample(round_shift(mean, 3)); 8]; 8];
    }
    let mut matrix = [0; 64];
    matrix[0] = mean;
    while nonzero != 0 {
        let k = nonzero.trailing_zeros() as usize;
        nonzero &= nonzero - 1;
        matrix[usize::from(ZIGZAG[k])] = dequantized(k, block[k]);
    }
    let columns = inverse_pass::<{ CONSTANT_BITS - PASS_BITS }>(&matrix);
    columns.iter().for_each(|&value| excess.look(value));
    let rows = inverse_pass::<{ CONSTANT_BITS + PASS_BITS + 3 }>(&transposed(&columns));
    let samples = transposed(&rows).map(sample);
    std::array::from_fn(|y| std::array::from_fn(|x| samples[8 * y + x]))
}

#[inline(always)]
fn sample(value: i32) -> u8 {
    (value.wrapping_add(128)).clamp(0, 255) as u8
}

/// Transforms the columns back, and drops `SHIFT` bits.
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

/// Divides what [`forward`] transforms, and rounds, halves away from zero.
#[derive(Clone, Debug)]
pub(super) struct Quantizer {
    // Both in natural order.
    half: [i32; 64],
    reciprocal: [f32; 64],
}

impl Quantizer {
    pub(super) fn new(divisors: &QuantTable) -> Self {
        // The transform leaves its results 8 times too large.
        let divisor = |i: usize| 8 * i32::from(divisors[i]);
        Self {
            half: std::array::from_fn(|i| divisor(i) / 2),
            reciprocal: std::array::from_fn(|i| 1.0 / divisor(i) as f32),
        }
    }

    /// Exact: the quotient of a dividend below 2^22 plus a half is further from an integer than two roundings to 24 bits move it.
    #[inline(always)]
    pub(super) fn divide(&self, i: usize, value: i32) -> i32 {
        // Added to this, a number is rounded to an integer in the lowest bits of the sum.
        const ROUND: f32 = 12_582_912.0; // 1.5 * 2^23
        let quotient = ((value.abs() + self.half[i]) as f32 + 0.5) * self.reciprocal[i];
        let whole = (quotient - 0.5 + ROUND).to_bits() as i32 - ROUND.to_bits() as i32;
        let sign = value >> 31;
        (whole ^ sign) - sign
    }
}

/// Transforms and quantizes samples. Returns the mean value and which of the others are not zero, and appends those to `details`.
#[inline(always)]
pub(super) fn forward(samples: &[[u8; 8]; 8], quantizer: &Quantizer, details: &mut Vec<i16>) -> (i16, u64) {
    let mut matrix = [0; 64];
    for (to, from) in matrix.as_chunks_mut::<8>().0.iter_mut().zip(samples) {
        *to = from.map(|sample| i32::from(sample) - 128);
    }
    let rows = forward_pass::<true>(&transposed(&matrix));
    let columns = forward_pass::<false>(&transposed(&rows));
    let quantized: [i16; 64] = std::array::from_fn(|i| quantizer.divide(i, columns[i]) as i16);
    let nonzero = leaf::append_nonzero(&quantized, details);
    (quantized[0], nonzero)
}

/// Transforms the columns. The first pass adds [`PASS_BITS`] bits behind the point, the second drops them.
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
