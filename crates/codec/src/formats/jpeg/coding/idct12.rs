//! The inverse transform for samples of 12 bits.
//!
//! It is libjpeg's "slow" integer method, after Loeffler, Ligtenberg and Moschytz, with identical
//! samples.

use crate::formats::jpeg::BLOCK;

/// Fraction bits of the constants, and of the values between the passes.
const CONSTANT: u32 = 13;
const BETWEEN: u32 = 1;

const F0_298: i64 = 2446;
const F0_390: i64 = 3196;
const F0_541: i64 = 4433;
const F0_765: i64 = 6270;
const F0_899: i64 = 7373;
const F1_175: i64 = 9633;
const F1_501: i64 = 12299;
const F1_847: i64 = 15137;
const F1_961: i64 = 16069;
const F2_053: i64 = 16819;
const F2_562: i64 = 20995;
const F3_072: i64 = 25172;

/// Returns the samples of a block of dequantized coefficients, both in natural order.
pub(super) fn samples(block: &[i32; 64]) -> [u16; 64] {
    let mut columns = [0; 64];
    for x in 0..BLOCK {
        let column = pass(std::array::from_fn(|y| block[y * BLOCK + x].into()));
        for (y, value) in column.into_iter().enumerate() {
            columns[y * BLOCK + x] = rounded(value, CONSTANT - BETWEEN);
        }
    }
    let mut samples = [0; 64];
    for (y, row) in columns.chunks_exact(BLOCK).enumerate() {
        let row = pass(std::array::from_fn(|x| row[x]));
        for (x, value) in row.into_iter().enumerate() {
            let level = rounded(value, CONSTANT + BETWEEN + 3) + (1 << 11);
            samples[y * BLOCK + x] = level.clamp(0, (1 << 12) - 1) as u16;
        }
    }
    samples
}

fn rounded(value: i64, bits: u32) -> i64 {
    (value + (1 << (bits - 1))) >> bits
}

/// Transforms eight coefficients; the results have [`CONSTANT`] fraction bits more.
fn pass(c: [i64; 8]) -> [i64; 8] {
    let z = (c[2] + c[6]) * F0_541;
    let (low, high) = (z - c[6] * F1_847, z + c[2] * F0_765);
    let (sum, difference) = ((c[0] + c[4]) << CONSTANT, (c[0] - c[4]) << CONSTANT);
    let even = [sum + high, difference + low, difference - low, sum - high];

    let [t0, t1, t2, t3] = [c[7], c[5], c[3], c[1]];
    let z5 = (t0 + t2 + t1 + t3) * F1_175;
    let (z1, z2) = ((t0 + t3) * -F0_899, (t1 + t2) * -F2_562);
    let (z3, z4) = ((t0 + t2) * -F1_961 + z5, (t1 + t3) * -F0_390 + z5);
    let odd = [t3 * F1_501 + z1 + z4, t2 * F3_072 + z2 + z3, t1 * F2_053 + z2 + z4, t0 * F0_298 + z1 + z3];
    std::array::from_fn(|at| if at < 4 { even[at] + odd[at] } else { even[7 - at] - odd[7 - at] })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::f64::consts::{FRAC_1_SQRT_2, PI};

    /// The definition (T.81, A.3.3).
    fn defined(block: &[i32; 64], x: usize, y: usize) -> f64 {
        let scale = |k: usize| if k == 0 { FRAC_1_SQRT_2 } else { 1.0 };
        let wave = |at: usize, k: usize| (((2 * at + 1) * k) as f64 * PI / 16.0).cos();
        let term = |(at, &value): (usize, &i32)| {
            let (u, v) = (at % 8, at / 8);
            scale(u) * scale(v) * f64::from(value) * wave(x, u) * wave(y, v)
        };
        block.iter().enumerate().map(term).sum::<f64>() / 4.0 + 2048.0
    }

    #[test]
    fn samples_are_as_defined_but_for_one_level() {
        let mut state = 7u32;
        for _ in 0..50 {
            let block: [i32; 64] = std::array::from_fn(|at| {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                ((state >> 16) as i32 % 4000 - 2000) / (1 + at as i32)
            });
            for (at, &sample) in samples(&block).iter().enumerate() {
                let exact = defined(&block, at % 8, at / 8).clamp(0.0, 4095.0);
                assert!((f64::from(sample) - exact).abs() < 1.0, "{sample} {exact}");
            }
        }
    }
}
