//! TIFF's horizontal predictor (TIFF 6.0, section 14): samples are stored as differences from the same channel of the previous pixel.

use equalize::Depth;

/// Replaces differences by the samples, in rows of `row` bytes and in native byte order.
pub(super) fn undo(samples: &mut [u8], row: usize, channels: usize, depth: Depth) {
    let sum = match (depth, channels) {
        (Depth::Eight, 1) => sum_bytes::<1>,
        (Depth::Eight, 2) => sum_bytes::<2>,
        (Depth::Eight, 3) => sum_bytes::<3>,
        (Depth::Eight, _) => sum_bytes::<4>,
        (Depth::Sixteen, 1) => sum_words::<1>,
        (Depth::Sixteen, 2) => sum_words::<2>,
        (Depth::Sixteen, 3) => sum_words::<3>,
        (Depth::Sixteen, _) => sum_words::<4>,
    };
    samples.chunks_exact_mut(row).for_each(sum);
}

/// Appends the differences of `samples`, in rows of `row` bytes, to `into`. Samples and differences are little-endian.
pub(super) fn apply(samples: &[u8], row: usize, channels: usize, depth: Depth, into: &mut Vec<u8>) {
    let filled = into.len();
    into.extend_from_slice(samples);
    let differences = into[filled..].chunks_exact_mut(row);
    for (row, differences) in samples.chunks_exact(row).zip(differences) {
        match depth {
            Depth::Eight => {
                let before = row.iter().zip(&row[channels..]);
                for (difference, (before, sample)) in differences[channels..].iter_mut().zip(before) {
                    *difference = sample.wrapping_sub(*before);
                }
            }
            Depth::Sixteen => {
                let samples = row.as_chunks::<2>().0;
                let differences = &mut differences.as_chunks_mut::<2>().0[channels..];
                for (difference, (before, sample)) in
                    differences.iter_mut().zip(samples.iter().zip(&samples[channels..]))
                {
                    let [before, sample] = [before, sample].map(|sample| u16::from_le_bytes(*sample));
                    *difference = sample.wrapping_sub(before).to_le_bytes();
                }
            }
        }
    }
}

fn sum_bytes<const N: usize>(row: &mut [u8]) {
    let mut sums = [0_u8; N];
    for pixel in row.as_chunks_mut::<N>().0 {
        for (sum, sample) in sums.iter_mut().zip(pixel) {
            *sum = sum.wrapping_add(*sample);
            *sample = *sum;
        }
    }
}

fn sum_words<const N: usize>(row: &mut [u8]) {
    let mut sums = [0_u16; N];
    for pixel in row.as_chunks_mut::<2>().0.as_chunks_mut::<N>().0 {
        for (sum, sample) in sums.iter_mut().zip(pixel) {
            *sum = sum.wrapping_add(u16::from_ne_bytes(*sample));
            *sample = sum.to_ne_bytes();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_sums_of_their_channel_and_row() {
        for channels in 1..=4 {
            let pixels = 5;
            let row: Vec<u16> = (0..pixels * channels as u16).map(|i| i.wrapping_mul(40_503)).collect();
            let expected = |most: u16| -> Vec<u16> {
                let sum = |i: usize| (i % channels..=i).step_by(channels).map(|i| row[i]);
                (0..row.len()).map(|i| sum(i).fold(0, u16::wrapping_add) & most).collect()
            };
            let mut bytes: Vec<u8> = row.iter().chain(&row).map(|&sample| sample as u8).collect();
            undo(&mut bytes, row.len(), channels, Depth::Eight);
            assert!(bytes.into_iter().map(u16::from).eq([expected(255), expected(255)].concat()));
            let mut words: Vec<u8> = row.iter().chain(&row).flat_map(|sample| sample.to_ne_bytes()).collect();
            undo(&mut words, 2 * row.len(), channels, Depth::Sixteen);
            let words = words.as_chunks::<2>().0.iter().map(|word| u16::from_ne_bytes(*word));
            assert!(words.eq([expected(u16::MAX), expected(u16::MAX)].concat()));
        }
    }

    #[test]
    fn differences_are_to_the_pixel_before_in_the_row() {
        for channels in 1..=4 {
            let samples: Vec<u16> = (0..2 * 19 * channels as u16).map(|i| i.wrapping_mul(40_503)).collect();
            let difference = |i: usize| match i % (19 * channels) < channels {
                true => samples[i],
                false => samples[i].wrapping_sub(samples[i - channels]),
            };
            let expected = (0..samples.len()).map(difference);
            let bytes: Vec<u8> = samples.iter().map(|&sample| sample as u8).collect();
            let words: Vec<u8> = samples.iter().flat_map(|sample| sample.to_le_bytes()).collect();
            let mut found = vec![7];
            apply(&bytes, 19 * channels, channels, Depth::Eight, &mut found);
            assert!(found[1..].iter().copied().eq(expected.clone().map(|difference| difference as u8)));
            found.clear();
            apply(&words, 2 * 19 * channels, channels, Depth::Sixteen, &mut found);
            assert!(found.into_iter().eq(expected.flat_map(u16::to_le_bytes)));
        }
    }
}
