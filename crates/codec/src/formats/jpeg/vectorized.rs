//! Instructions that the compiler does not choose by itself.
//!
//! They are selected at run time, each with a portable fallback.

#![allow(unsafe_code)]

/// A block of 64 coefficients.
type Block = [i16; 64];

/// Runs plain Rust code, compiled for AVX2 if the processor has it.
///
/// The bit manipulation instructions of its generation are required too. Wider vectors gain no
/// speed with rows of eight. The closure and all that it calls must be `#[inline(always)]`.
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

/// Deposits the lowest bits of `bits` where `places` has ones, starting with the lowest.
#[inline(always)]
pub(super) fn deposit(bits: u64, places: u64) -> u64 {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("bmi2") {
        // SAFETY: as above.
        return unsafe { x86::deposit(bits, places) };
    }
    deposit_portable(bits, places)
}

/// Moves the coefficients of a block that have a bit in `which` away from zero by `unit`.
///
/// Zero ones become positive, or negative if they have a bit in `down`; positive ones must not have
/// a bit there.
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
        // The part of the block with the first remaining coefficient.
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

    use super::Block;

    #[target_feature(enable = "avx2,bmi1,bmi2,lzcnt")]
    pub(super) fn run<R>(plain: impl FnOnce() -> R) -> R {
        plain()
    }

    #[target_feature(enable = "bmi2")]
    #[inline]
    pub(super) fn deposit(bits: u64, places: u64) -> u64 {
        _pdep_u64(bits, places)
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
}

#[cfg(test)]
mod tests {
    use super::*;

    fn noise(state: &mut u64) -> u64 {
        *state ^= *state << 13;
        *state ^= *state >> 7;
        *state ^= *state << 17;
        *state
    }

    #[test]
    fn leaves_do_what_their_fallbacks_do() {
        let mut state = 1u64;
        let mut next = || noise(&mut state);
        for i in 0..1000 {
            let (bits, places) = (next(), next() & next());
            assert_eq!(deposit(bits, places), deposit_portable(bits, places));
            let quantized =
                std::array::from_fn(|i| if places >> i & 1 == 1 { (bits as i16 ^ i as i16) / 2 } else { 0 });
            let (mut fast, mut plain) = (quantized, quantized);
            // In two of three cases, one half of the block stays as it is.
            let which = next() & next() & [u64::MAX, u64::MAX << 32, u64::MAX >> 32][i % 3];
            refine(&mut fast, 4, which, bits);
            refine_portable(&mut plain, 4, which, bits);
            assert_eq!(fast, plain);
        }
    }
}
