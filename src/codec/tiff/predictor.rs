//! TIFF's horizontal predictor (TIFF 6.0, section 14), undone: samples are stored as their difference to the same channel of the pixel
//! before.

use crate::picture::Depth;

/// Replaces the differences of rows of `row` bytes by the native samples that they are of.
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
}
