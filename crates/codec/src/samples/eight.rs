//! 16-bit samples rounded to 8 bits.

use equalize::simd;

/// Rounds a 16-bit sample to 8 bits.
#[inline(always)]
pub(crate) const fn to_eight(sample: u16) -> u8 {
    ((sample as u32 * 255 + 32_767) / 65_535) as u8
}

/// Rounds 16-bit samples to 8 bits, in place: packs them at the front.
pub(crate) fn to_eight_bits(samples: &mut [u8]) {
    const BLOCK: usize = 1024;
    #[inline(always)]
    fn round(wide: &[[u8; 2]], narrow: &mut [u8]) {
        for (narrow, wide) in narrow.iter_mut().zip(wide) {
            *narrow = to_eight(u16::from_ne_bytes(*wide));
        }
    }
    let mut block = [0; BLOCK];
    let count = samples.len() / 2;
    for first in (0..count).step_by(BLOCK) {
        let length = BLOCK.min(count - first);
        let (narrow, wide) = (&mut block[..length], samples[2 * first..][..2 * length].as_chunks().0);
        simd::vectorized!(round(wide, narrow));
        // The samples that this overwrites have been read: it begins no later than the block.
        samples[first..][..length].copy_from_slice(narrow);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_level_goes_to_the_nearest_of_8_bits() {
        let mut samples: Vec<u8> = (0..=65_535_u16).flat_map(u16::to_ne_bytes).collect();
        to_eight_bits(&mut samples);
        for (level, &found) in samples[..65_536].iter().enumerate() {
            assert_eq!(f64::from(found), (level as f64 / 257.0).round(), "{level}");
        }
    }
}
