//! Instructions that the compiler does not find by itself, chosen while the program runs, each with a plain fallback.

#![allow(unsafe_code)]

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

    use super::Matrix;

    #[target_feature(enable = "avx2,bmi1,bmi2,lzcnt")]
    pub(super) fn run<R>(plain: impl FnOnce() -> R) -> R {
        plain()
    }

    #[target_feature(enable = "bmi2")]
    #[inline]
    pub(super) fn deposit(bits: u64, places: u64) -> u64 {
        _pdep_u64(bits, places)
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
        for _ in 0..1000 {
            let (bits, places) = (next(), next() & next());
            assert_eq!(deposit(bits, places), deposit_portable(bits, places));
        }
    }
}
