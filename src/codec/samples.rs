//! Sample conversions between files and slots.

/// Turns big-endian 16-bit samples into native ones, or back, in place.
pub(super) fn swap_big_endian(samples: &mut [u8]) {
    if cfg!(target_endian = "little") {
        swap_bytes(samples);
    }
}

/// Swaps the two bytes of every 16-bit sample in place.
pub(super) fn swap_bytes(samples: &mut [u8]) {
    for sample in samples.as_chunks_mut::<2>().0 {
        sample.swap(0, 1);
    }
}

/// `value` of `0..=from` carried to the full range `0..=to`, halves up. Distinct values stay distinct when `to >= from`.
pub(super) const fn rescale(value: u32, from: u32, to: u32) -> u32 {
    ((2 * value as u64 * to as u64 + from as u64) / (2 * from as u64)) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn swaps_pairs() {
        let mut bytes = [1, 2, 3, 4];
        swap_bytes(&mut bytes);
        assert_eq!(bytes, [2, 1, 4, 3]);
    }

    #[test]
    fn rescaling_keeps_ends_and_order() {
        for from in [1, 3, 15, 100, 254] {
            assert_eq!((rescale(0, from, 255), rescale(from, from, 255)), (0, 255));
            assert!((0..from).all(|v| rescale(v, from, 255) < rescale(v + 1, from, 255)));
        }
        assert_eq!(rescale(1023, 1023, 65535), 65535);
        assert_eq!(rescale(1, 15, 255), 17);
    }
}
