//! The hot loops of 8-bit pictures in vector instructions, each chosen while the program runs and each with a plain fallback.
//!
//! Every leaf gives the bytes of the fallback; the tests here hold them to it.

#![allow(unsafe_code)]

/// Replaces each sample by its entry of `lut`.
pub(super) fn map(samples: &mut [u8], lut: &[u8; 256]) {
    #[cfg(target_arch = "x86_64")]
    {
        if is_x86_feature_detected!("avx512vbmi") && is_x86_feature_detected!("avx512bw") {
            // SAFETY: the processor has the instructions that the function is compiled for.
            return unsafe { x86::map_vbmi(samples, lut) };
        }
        if is_x86_feature_detected!("avx2") {
            // SAFETY: as above.
            return unsafe { x86::map_avx2(samples, lut) };
        }
    }
    super::sample::map(samples, lut);
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::*;

    /// 64 samples at a time: two permutations look their low 7 bits up in 128 entries each, the eighth bit chooses.
    #[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
    pub(super) fn map_vbmi(samples: &mut [u8], lut: &[u8; 256]) {
        let quarter = |n: usize| load512(lut[n * 64..][..64].try_into().expect("64 entries"));
        let (q0, q1, q2, q3) = (quarter(0), quarter(1), quarter(2), quarter(3));
        let (blocks, tail) = samples.as_chunks_mut::<64>();
        for block in blocks {
            let index = load512(block);
            let low = _mm512_permutex2var_epi8(q0, index, q1);
            let high = _mm512_permutex2var_epi8(q2, index, q3);
            store512(block, _mm512_mask_blend_epi8(_mm512_movepi8_mask(index), low, high));
        }
        super::super::sample::map(tail, lut);
    }

    /// 32 samples at a time: a shuffle looks the low 4 bits up in each of 16 rows of the LUT; the row is the right one where
    /// the high 4 bits are its number.
    #[target_feature(enable = "avx2")]
    pub(super) fn map_avx2(samples: &mut [u8], lut: &[u8; 256]) {
        let (rows, _) = lut.as_chunks::<16>();
        let (blocks, tail) = samples.as_chunks_mut::<32>();
        let nibble = _mm256_set1_epi8(0x0f);
        for block in blocks {
            let value = load256(block);
            let low = _mm256_and_si256(value, nibble);
            let high = _mm256_and_si256(_mm256_srli_epi16::<4>(value), nibble);
            let mut found = _mm256_setzero_si256();
            for (number, row) in rows.iter().enumerate() {
                let row = _mm256_broadcastsi128_si256(load128(row));
                let here = _mm256_cmpeq_epi8(high, _mm256_set1_epi8(number as i8));
                found = _mm256_or_si256(found, _mm256_and_si256(here, _mm256_shuffle_epi8(row, low)));
            }
            store256(block, found);
        }
        super::super::sample::map(tail, lut);
    }

    #[target_feature(enable = "avx512f")]
    fn load512(from: &[u8; 64]) -> __m512i {
        // SAFETY: 64 readable bytes, which need no alignment.
        unsafe { _mm512_loadu_si512(from.as_ptr().cast()) }
    }

    #[target_feature(enable = "avx512f")]
    fn store512(to: &mut [u8; 64], value: __m512i) {
        // SAFETY: 64 writable bytes, which need no alignment.
        unsafe { _mm512_storeu_si512(to.as_mut_ptr().cast(), value) }
    }

    #[target_feature(enable = "avx2")]
    fn load256(from: &[u8; 32]) -> __m256i {
        // SAFETY: 32 readable bytes, which need no alignment.
        unsafe { _mm256_loadu_si256(from.as_ptr().cast()) }
    }

    #[target_feature(enable = "avx2")]
    fn store256(to: &mut [u8; 32], value: __m256i) {
        // SAFETY: 32 writable bytes, which need no alignment.
        unsafe { _mm256_storeu_si256(to.as_mut_ptr().cast(), value) }
    }

    #[target_feature(enable = "avx2")]
    fn load128(from: &[u8; 16]) -> __m128i {
        // SAFETY: 16 readable bytes, which need no alignment.
        unsafe { _mm_loadu_si128(from.as_ptr().cast()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes without a pattern, the same ones every time (xorshift64).
    fn noise(length: usize, seed: u64) -> Vec<u8> {
        let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let mut next = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 32) as u8
        };
        (0..length).map(|_| next()).collect()
    }

    /// Lengths on both sides of every vector's, and enough for several.
    const LENGTHS: [usize; 16] = [0, 1, 2, 7, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 191, 1001];

    #[test]
    fn every_map_gives_the_same_bytes() {
        let lut: [u8; 256] = noise(256, 1).try_into().unwrap();
        for length in LENGTHS {
            let samples = noise(length, length as u64);
            let mut expected = samples.clone();
            crate::equalize::sample::map(&mut expected, &lut);
            let check = |name: &str, leaf: &dyn Fn(&mut [u8], &[u8; 256])| {
                let mut got = samples.clone();
                leaf(&mut got, &lut);
                assert_eq!(got, expected, "{name}, {length} samples");
            };
            check("chosen", &map);
            #[cfg(target_arch = "x86_64")]
            {
                if is_x86_feature_detected!("avx2") {
                    // SAFETY: the processor has AVX2.
                    check("AVX2", &|samples, lut| unsafe { x86::map_avx2(samples, lut) });
                }
                if is_x86_feature_detected!("avx512vbmi") {
                    // SAFETY: the processor has AVX-512 VBMI.
                    check("VBMI", &|samples, lut| unsafe { x86::map_vbmi(samples, lut) });
                }
            }
        }
    }
}
