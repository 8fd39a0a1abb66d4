//! Sample conversions between files and slots.

pub(crate) mod alpha;
pub(crate) mod eight;
pub(crate) mod fill_value;
pub(crate) mod inks;
pub(crate) mod levels;
pub(crate) mod mapped;
pub(crate) mod no_data;
pub(crate) mod shrink;
pub(crate) mod size;
pub(crate) mod stated;
pub(crate) mod uncounted;

use equalize::{ByteOrder, Layout};

/// Bytes of a cache line.
pub(crate) const LINE: usize = 64;

/// Returns the bytes of the pixels at the front of a slot.
pub(crate) fn pixels_of<'s>(layout: &Layout, slot: &'s mut [u8]) -> &'s mut [u8] {
    let bytes = usize::try_from(layout.bytes()).expect("pixels in memory have an address");
    &mut slot[..bytes]
}

/// Converts 16-bit samples from big-endian order to this one, or back, in place.
pub(super) fn swap_big_endian(samples: &mut [u8], order: ByteOrder) {
    if order != ByteOrder::BIG_ENDIAN {
        swap_bytes(samples, 2);
    }
}

/// Reverses the bytes of every sample of `bytes` bytes (1 to 4, or 8) in place.
pub(super) fn swap_bytes(samples: &mut [u8], bytes: usize) {
    match bytes {
        2 => equalize::swap_bytes(samples),
        3 => samples.as_chunks_mut::<3>().0.iter_mut().for_each(|sample| sample.reverse()),
        4 => samples.as_chunks_mut::<4>().0.iter_mut().for_each(|sample| sample.reverse()),
        8 => samples.as_chunks_mut::<8>().0.iter_mut().for_each(|sample| sample.reverse()),
        _ => {}
    }
}

/// Moves the first `kept` bytes of every pixel of `pixel` bytes together at the front.
///
/// Either both are whole 16-bit samples, or neither has to be.
pub(super) fn drop_last(samples: &mut [u8], pixel: usize, kept: usize) {
    fn of<T: Copy>(samples: &mut [T], pixel: usize, kept: usize) {
        for at in 0..samples.len() / pixel {
            for sample in 0..kept {
                samples[at * kept + sample] = samples[at * pixel + sample];
            }
        }
    }
    if pixel.is_multiple_of(2) && kept.is_multiple_of(2) {
        of(samples.as_chunks_mut::<2>().0, pixel / 2, kept / 2);
    } else {
        of(samples, pixel, kept);
    }
}

/// Scales a `value` of `0..=from` to the range `0..=to`, rounding halves up.
///
/// Distinct values stay distinct when `to >= from`.
pub(super) const fn rescale(value: u32, from: u32, to: u32) -> u32 {
    ((2 * value as u64 * to as u64 + from as u64) / (2 * from as u64)) as u32
}

/// Unpacks samples of `bits` bits, scaled to the full range of 8 bits, or of 16 if they are longer.
///
/// The packed samples (of 1 to 15 bits, most significant bit first, each row starting on a byte)
/// occupy `samples` from `at` to its end; the unpacked ones go to its front. A packed row is never
/// longer than an unpacked one: the rows still to be unpacked lie after the unpacked ones.
pub(super) fn unpack(samples: &mut [u8], at: usize, per_row: usize, bits: u32) {
    let bytes = if bits > 8 { 2 } else { 1 };
    let packed_bytes = (per_row * bits as usize).div_ceil(8);
    let most = (1u32 << bits) - 1;
    let mut packed = vec![0; packed_bytes];
    for row in 0..samples.len() / (per_row * bytes) {
        packed.copy_from_slice(&samples[at + row * packed_bytes..][..packed_bytes]);
        let (mut window, mut filled, mut next) = (0u32, 0, packed.iter());
        for sample in samples[row * per_row * bytes..][..per_row * bytes].chunks_exact_mut(bytes) {
            while filled < bits {
                window = window << 8 | u32::from(*next.next().expect("a row has the bits of its samples"));
                filled += 8;
            }
            filled -= bits;
            let value = (window >> filled) & most;
            if let [sample] = sample {
                *sample = rescale(value, most, 255) as u8;
            } else {
                sample.copy_from_slice(&(rescale(value, most, 65535) as u16).to_ne_bytes());
            }
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Bytes that look random, different for each seed.
    pub(crate) fn noise(length: usize, seed: u32) -> Vec<u8> {
        let mut state = seed;
        let next = |_| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 24) as u8
        };
        (0..length).map(next).collect()
    }

    /// Bytes such as TIFF's predictor leaves of a photograph: small numbers of either sign.
    pub(crate) fn differences(length: usize) -> Vec<u8> {
        let sum = |four: &[u8]| four.iter().map(|&byte| i32::from(byte) - 128).sum::<i32>() / 24;
        noise(4 * length, 1).chunks(4).map(|four| sum(four) as u8).collect()
    }

    #[test]
    fn bytes_are_reversed_sample_by_sample() {
        for (bytes, swapped) in [
            (1, [1, 2, 3, 4, 5, 6, 7, 8]),
            (2, [2, 1, 4, 3, 6, 5, 8, 7]),
            (3, [3, 2, 1, 6, 5, 4, 7, 8]),
            (4, [4, 3, 2, 1, 8, 7, 6, 5]),
            (8, [8, 7, 6, 5, 4, 3, 2, 1]),
        ] {
            let mut samples = [1, 2, 3, 4, 5, 6, 7, 8];
            swap_bytes(&mut samples, bytes);
            assert_eq!(samples, swapped);
        }
    }

    #[test]
    fn unpacks_every_depth() {
        for bits in 1..16 {
            let most = (1u32 << bits) - 1;
            let values: Vec<u32> = (0..21u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 7) & most).collect();
            let packed: Vec<u8> = values
                .chunks(7)
                .flat_map(|row| {
                    let text: String =
                        row.iter().map(|v| format!("{v:0width$b}", width = bits as usize)).collect();
                    let bytes: Vec<u8> = text
                        .as_bytes()
                        .chunks(8)
                        .map(|eight| eight.iter().zip(0..).map(|(b, i)| (b - b'0') << (7 - i)).sum())
                        .collect();
                    bytes
                })
                .collect();
            let bytes = if bits > 8 { 2 } else { 1 };
            let mut samples = vec![0; 21 * bytes];
            let at = samples.len() - packed.len();
            samples[at..].copy_from_slice(&packed);
            unpack(&mut samples, at, 7, bits);
            let unpacked: Vec<u32> =
                samples
                    .chunks(bytes)
                    .map(|s| {
                        if bytes == 1 { u32::from(s[0]) } else { u32::from(u16::from_ne_bytes([s[0], s[1]])) }
                    })
                    .collect();
            let range = if bits > 8 { 65535 } else { 255 };
            assert_eq!(
                unpacked,
                values.iter().map(|&v| rescale(v, most, range)).collect::<Vec<_>>(),
                "{bits} bits"
            );
        }
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
