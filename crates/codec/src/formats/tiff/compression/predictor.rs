//! TIFF's predictors: the horizontal one, and the one for floats.
//!
//! The horizontal one (TIFF 6.0, section 14) stores samples as differences from the same channel of
//! the previous pixel; the one for floats is that of Adobe's TIFF Technical Note 3.

/// Replaces differences by the samples, in rows of `row` bytes and in native byte order.
///
/// A sample has `bytes` bytes.
pub(crate) fn undo(samples: &mut [u8], row: usize, channels: usize, bytes: usize) {
    if channels > 4 {
        let sum = match bytes {
            1 => sum_many_bytes,
            2 => sum_many_words,
            4 => sum_many_double_words,
            _ => sum_many_quad_words,
        };
        return samples.chunks_exact_mut(row).for_each(|row| sum(row, channels));
    }
    let sum = match (bytes, channels) {
        (1, 1) => sum_bytes::<1>,
        (1, 2) => sum_bytes::<2>,
        (1, 3) => sum_bytes::<3>,
        (1, _) => sum_bytes::<4>,
        (2, 1) => sum_words::<1>,
        (2, 2) => sum_words::<2>,
        (2, 3) => sum_words::<3>,
        (2, _) => sum_words::<4>,
        (4, 1) => sum_double_words::<1>,
        (4, 2) => sum_double_words::<2>,
        (4, 3) => sum_double_words::<3>,
        (4, _) => sum_double_words::<4>,
        (_, 1) => sum_quad_words::<1>,
        (_, 2) => sum_quad_words::<2>,
        (_, 3) => sum_quad_words::<3>,
        _ => sum_quad_words::<4>,
    };
    samples.chunks_exact_mut(row).for_each(sum);
}

/// Appends the differences of `samples`, in rows of `row` bytes, to `into`.
///
/// Samples, of `bytes` bytes each, and differences are little-endian.
pub(crate) fn apply(samples: &[u8], row: usize, channels: usize, bytes: usize, into: &mut Vec<u8>) {
    let filled = into.len();
    into.extend_from_slice(samples);
    let differ = match bytes {
        1 => differ_bytes,
        2 => differ_words,
        4 => differ_double_words,
        _ => differ_quad_words,
    };
    let differences = into[filled..].chunks_exact_mut(row);
    samples.chunks_exact(row).zip(differences).for_each(|(row, into)| differ(row, channels, into));
}

/// Replaces the differences of [`apply_float`] by the samples, in native byte order.
pub(crate) fn undo_float(samples: &mut [u8], row: usize, channels: usize, bytes: usize) {
    let mut planes = vec![0; row];
    for samples in samples.chunks_exact_mut(row) {
        undo(samples, row, channels, 1);
        planes.copy_from_slice(samples);
        for (place, plane) in planes.chunks_exact(row / bytes).enumerate() {
            let place = if cfg!(target_endian = "big") { place } else { bytes - 1 - place };
            samples[place..].iter_mut().step_by(bytes).zip(plane).for_each(|(to, byte)| *to = *byte);
        }
    }
}

/// Appends the differences of floats, which are little-endian, to `into`.
///
/// In each row the most significant bytes of all samples come first, then the next ones, and all
/// these bytes are stored as differences.
pub(crate) fn apply_float(samples: &[u8], row: usize, channels: usize, bytes: usize, into: &mut Vec<u8>) {
    let mut planes = Vec::with_capacity(row);
    for samples in samples.chunks_exact(row) {
        planes.clear();
        for place in (0..bytes).rev() {
            planes.extend(samples[place..].iter().step_by(bytes));
        }
        apply(&planes, row, channels, 1, into);
    }
}

macro_rules! words {
    ($($word:ty: $sum:ident $sum_many:ident $differ:ident;)*) => { $(
        fn $sum<const N: usize>(row: &mut [u8]) {
            let mut sums: [$word; N] = [0; N];
            for pixel in row.as_chunks_mut::<{ size_of::<$word>() }>().0.as_chunks_mut::<N>().0 {
                for (sum, sample) in sums.iter_mut().zip(pixel) {
                    *sum = sum.wrapping_add(<$word>::from_ne_bytes(*sample));
                    *sample = sum.to_ne_bytes();
                }
            }
        }

        fn $sum_many(row: &mut [u8], channels: usize) {
            let samples = row.as_chunks_mut::<{ size_of::<$word>() }>().0;
            for at in channels..samples.len() {
                let [before, sample] = [samples[at - channels], samples[at]].map(<$word>::from_ne_bytes);
                samples[at] = sample.wrapping_add(before).to_ne_bytes();
            }
        }

        fn $differ(row: &[u8], channels: usize, into: &mut [u8]) {
            let samples = row.as_chunks::<{ size_of::<$word>() }>().0;
            let into = &mut into.as_chunks_mut::<{ size_of::<$word>() }>().0[channels..];
            for (difference, (before, sample)) in into.iter_mut().zip(samples.iter().zip(&samples[channels..])) {
                let [before, sample] = [before, sample].map(|sample| <$word>::from_le_bytes(*sample));
                *difference = sample.wrapping_sub(before).to_le_bytes();
            }
        }
    )* };
}
words! {
    u8: sum_bytes sum_many_bytes differ_bytes;
    u16: sum_words sum_many_words differ_words;
    u32: sum_double_words sum_many_double_words differ_double_words;
    u64: sum_quad_words sum_many_quad_words differ_quad_words;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::tests::noise;

    #[test]
    fn samples_are_sums_of_their_channel_and_row() {
        for channels in 1..=6 {
            let pixels = 5;
            let row: Vec<u16> = (0..pixels * channels as u16).map(|i| i.wrapping_mul(40_503)).collect();
            let expected = |most: u16| -> Vec<u16> {
                let sum = |i: usize| (i % channels..=i).step_by(channels).map(|i| row[i]);
                (0..row.len()).map(|i| sum(i).fold(0, u16::wrapping_add) & most).collect()
            };
            let mut bytes: Vec<u8> = row.iter().chain(&row).map(|&sample| sample as u8).collect();
            undo(&mut bytes, row.len(), channels, 1);
            assert!(bytes.into_iter().map(u16::from).eq([expected(255), expected(255)].concat()));
            let mut words: Vec<u8> = row.iter().chain(&row).flat_map(|sample| sample.to_ne_bytes()).collect();
            undo(&mut words, 2 * row.len(), channels, 2);
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
            apply(&bytes, 19 * channels, channels, 1, &mut found);
            assert!(found[1..].iter().copied().eq(expected.clone().map(|difference| difference as u8)));
            found.clear();
            apply(&words, 2 * 19 * channels, channels, 2, &mut found);
            assert!(found.into_iter().eq(expected.flat_map(u16::to_le_bytes)));
        }
    }

    #[test]
    fn long_samples_and_floats_come_back() {
        for (bytes, channels) in [2, 4, 8].into_iter().flat_map(|bytes| (1..=6).map(move |n| (bytes, n))) {
            let row = 13 * channels * bytes;
            let samples = noise(3 * row, 9);
            for (make, take) in [
                (apply as fn(&[u8], _, _, _, &mut Vec<u8>), undo as fn(&mut [u8], _, _, _)),
                (apply_float, undo_float),
            ] {
                let mut stored = Vec::new();
                make(&samples, row, channels, bytes, &mut stored);
                assert_ne!(stored, samples);
                if cfg!(target_endian = "little") {
                    take(&mut stored, row, channels, bytes);
                    assert_eq!(stored, samples, "{bytes} bytes, {channels} channels");
                }
            }
        }
    }

    #[test]
    fn bytes_of_floats_are_sorted_by_their_weight() {
        let mut stored = Vec::new();
        apply_float(&[4, 3, 2, 1, 40, 30, 20, 10], 8, 1, 4, &mut stored);
        assert_eq!(stored, [1, 9, 248, 18, 239, 27, 230, 36]);
    }
}
