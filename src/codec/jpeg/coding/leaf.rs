//! Instructions that the compiler does not find by itself, chosen while the program runs, each with a plain fallback.

#![allow(unsafe_code)]

use super::{Block, ZIGZAG};

/// An 8x8 matrix, row by row.
pub(super) type Matrix = [i32; 64];

/// Runs loops in plain Rust, compiled for a processor with AVX2 and what came with it, if this is one. Wider vectors gain nothing on
/// rows of eight. The closure must be `#[inline(always)]`, and what it calls too.
#[inline(always)]
pub(super) fn run<R>(plain: impl FnOnce() -> R) -> R {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx2")
        && is_x86_feature_detected!("bmi1")
        && is_x86_feature_detected!("bmi2")
        && is_x86_feature_detected!("lzcnt")
    {
        // SAFETY: the processor has the instructions that the function is compiled for.
        return unsafe { x86::run(plain) };
    }
    plain()
}

/// Exchanges rows and columns.
#[inline(always)]
pub(super) fn transposed(from: &Matrix) -> Matrix {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx2") {
        // SAFETY: as above.
        return unsafe { x86::transposed(from) };
    }
    std::array::from_fn(|i| from[i % 8 * 8 + i / 8])
}

/// Puts the lowest bits of `bits` where `places` has ones, the lowest first.
#[inline(always)]
pub(super) fn deposit(bits: u64, places: u64) -> u64 {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("bmi2") {
        // SAFETY: as above.
        return unsafe { x86::deposit(bits, places) };
    }
    deposit_portable(bits, places)
}

/// Appends those of a block's quantized coefficients, in natural order, that are not zero, in zigzag order. The mean is left out. Bit `k`
/// of the result tells whether coefficient `k` was appended.
#[inline(always)]
pub(super) fn append_nonzero(quantized: &Block, to: &mut Vec<i16>) -> u64 {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx512vbmi2") && is_x86_feature_detected!("avx512bw") {
        // SAFETY: as above.
        return unsafe { x86::append_nonzero(quantized, to) };
    }
    append_nonzero_portable(quantized, to)
}

/// Moves those of a block's coefficients away from zero, by `unit`, that have a bit in `which`; those that are zero upwards, unless
/// they have a bit in `down`.
#[inline(always)]
pub(super) fn refine(block: &mut Block, unit: i16, which: u64, down: u64) {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx512bw") {
        // SAFETY: as above.
        return unsafe { x86::refine(block, unit, which, down) };
    }
    refine_portable(block, unit, which, down);
}

#[inline(always)]
fn refine_portable(block: &mut Block, unit: i16, which: u64, down: u64) {
    let mut left = which;
    while left != 0 {
        // The part in which the first of them is.
        let part = left.trailing_zeros() / 16;
        let bits = |mask: u64| (mask >> (16 * part)) as u16;
        let (which, down) = (bits(which), bits(down));
        let values = &mut block.as_chunks_mut::<16>().0[part as usize];
        for (i, value) in values.iter_mut().enumerate() {
            let has = |mask: u16| -i16::from(mask & 1 << i != 0);
            let sign = *value >> 15 | has(down);
            *value += ((unit ^ sign) - sign) & has(which);
        }
        left &= u64::MAX.checked_shl(16 * (part + 1)).unwrap_or(0);
    }
}

#[inline(always)]
fn append_nonzero_portable(quantized: &Block, to: &mut Vec<i16>) -> u64 {
    let (mut ordered, mut nonzero) = ([0; 64], 0);
    let mut which = mask(quantized) & !1;
    while which != 0 {
        let i = which.trailing_zeros() as usize;
        which &= which - 1;
        let k = PLACES[i];
        ordered[usize::from(k)] = quantized[i];
        nonzero |= 1 << k;
    }
    which = nonzero;
    while which != 0 {
        to.push(ordered[which.trailing_zeros() as usize]);
        which &= which - 1;
    }
    nonzero
}

/// Bit `i` tells whether value `i` is not zero.
#[inline(always)]
fn mask(values: &[i16; 64]) -> u64 {
    // The product has the lowest bits of eight bytes next to each other in its topmost byte.
    const GATHER: u64 = 0x0102_0408_1020_4080;
    let bytes = values.map(|value| u8::from(value != 0));
    let (parts, _) = bytes.as_chunks::<8>();
    let bits = |part: &[u8; 8]| u64::from_le_bytes(*part).wrapping_mul(GATHER) >> 56;
    parts.iter().rev().fold(0, |mask, part| mask << 8 | bits(part))
}

/// Where each coefficient in natural order stands in zigzag order.
const PLACES: [u8; 64] = {
    let (mut places, mut k) = ([0; 64], 0);
    while k < 64 {
        places[ZIGZAG[k] as usize] = k as u8;
        k += 1;
    }
    places
};

fn deposit_portable(mut bits: u64, mut places: u64) -> u64 {
    let mut deposited = 0;
    while bits != 0 && places != 0 {
        let lowest = places & places.wrapping_neg();
        deposited |= if bits & 1 == 1 { lowest } else { 0 };
        bits >>= 1;
        places ^= lowest;
    }
    deposited
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::*;

    use super::{Block, Matrix, ZIGZAG};

    #[target_feature(enable = "avx2,bmi1,bmi2,lzcnt")]
    pub(super) fn run<R>(plain: impl FnOnce() -> R) -> R {
        plain()
    }

    #[target_feature(enable = "bmi2")]
    #[inline]
    pub(super) fn deposit(bits: u64, places: u64) -> u64 {
        _pdep_u64(bits, places)
    }

    #[target_feature(enable = "avx512vbmi2,avx512bw")]
    #[inline]
    pub(super) fn append_nonzero(quantized: &Block, to: &mut Vec<i16>) -> u64 {
        const HALF: usize = size_of::<Block>() / 4;
        const ORDER: [[i16; HALF]; 2] = {
            let (mut order, mut k) = ([[0; HALF]; 2], 0);
            while k < 64 {
                order[k / HALF][k % HALF] = ZIGZAG[k] as i16;
                k += 1;
            }
            order
        };
        let halves: [__m512i; 2] = bytemuck::cast(*quantized);
        let ordered =
            |order: [i16; HALF]| _mm512_permutex2var_epi16(halves[0], bytemuck::cast(order), halves[1]);
        let (first, second) = (ordered(ORDER[0]), ordered(ORDER[1]));
        let which = [_mm512_test_epi16_mask(first, first) & !1, _mm512_test_epi16_mask(second, second)];
        let counts = which.map(|mask| mask.count_ones() as usize);
        to.reserve(2 * HALF);
        let end = to.spare_capacity_mut().as_mut_ptr();
        // SAFETY: there is room for two halves; the second begins within the first or right behind it. What is counted is written.
        unsafe {
            _mm512_storeu_si512(end.cast(), _mm512_maskz_compress_epi16(which[0], first));
            _mm512_storeu_si512(end.add(counts[0]).cast(), _mm512_maskz_compress_epi16(which[1], second));
            to.set_len(to.len() + counts[0] + counts[1]);
        }
        u64::from(which[0]) | u64::from(which[1]) << 32
    }

    #[target_feature(enable = "avx512bw")]
    #[inline]
    pub(super) fn refine(block: &mut Block, unit: i16, which: u64, down: u64) {
        let (unit, halves) = (_mm512_set1_epi16(unit), block.as_chunks_mut::<32>().0);
        for (i, half) in halves.iter_mut().enumerate() {
            let bits = |mask: u64| (mask >> (32 * i)) as u32;
            let (which, down) = (bits(which), bits(down));
            if which != 0 {
                let values = bytemuck::cast(*half);
                let down = down | _mm512_movepi16_mask(values);
                let up = _mm512_mask_add_epi16(values, which & !down, values, unit);
                *half = bytemuck::cast(_mm512_mask_sub_epi16(up, which & down, up, unit));
            }
        }
    }

    /// Exchanges neighbours, then pairs, then halves.
    #[target_feature(enable = "avx2")]
    #[inline]
    pub(super) fn transposed(from: &Matrix) -> Matrix {
        let r: [__m256i; 8] = bytemuck::cast(*from);
        let singles =
            |i: usize| (_mm256_unpacklo_epi32(r[i], r[i + 1]), _mm256_unpackhi_epi32(r[i], r[i + 1]));
        let pairs = |i: usize| {
            let ((a, b), (c, d)) = (singles(i), singles(i + 2));
            [
                _mm256_unpacklo_epi64(a, c),
                _mm256_unpackhi_epi64(a, c),
                _mm256_unpacklo_epi64(b, d),
                _mm256_unpackhi_epi64(b, d),
            ]
        };
        let (upper, lower) = (pairs(0), pairs(4));
        let left: [__m256i; 4] =
            std::array::from_fn(|i| _mm256_permute2x128_si256::<0x20>(upper[i], lower[i]));
        let right: [__m256i; 4] =
            std::array::from_fn(|i| _mm256_permute2x128_si256::<0x31>(upper[i], lower[i]));
        bytemuck::cast([left, right])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leaves_do_what_their_fallbacks_do() {
        let matrix: Matrix = std::array::from_fn(|i| i as i32);
        assert_eq!(transposed(&matrix), std::array::from_fn(|i| (i % 8 * 8 + i / 8) as i32));
        let mut state = 1u64;
        let mut next = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state
        };
        for i in 0..1000 {
            let (bits, places) = (next(), next() & next());
            assert_eq!(deposit(bits, places), deposit_portable(bits, places));
            let quantized =
                std::array::from_fn(|i| if places >> i & 1 == 1 { bits as i16 ^ i as i16 } else { 0 });
            let (mut fast, mut plain) = (vec![7], vec![7]);
            let masks =
                (append_nonzero(&quantized, &mut fast), append_nonzero_portable(&quantized, &mut plain));
            assert_eq!((masks.0, fast), (masks.1, plain));
            let (mut fast, mut plain) = (quantized, quantized);
            for block in [&mut fast, &mut plain] {
                block.iter_mut().for_each(|value| *value /= 2);
            }
            // Some of them with nothing to do in a half.
            let which = next() & next() & [u64::MAX, u64::MAX << 32, u64::MAX >> 32][i % 3];
            refine(&mut fast, 4, which, bits);
            refine_portable(&mut plain, 4, which, bits);
            assert_eq!(fast, plain);
        }
    }
}
