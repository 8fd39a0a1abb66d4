//! The orientation in EXIF.

/// The tag Orientation, as the first half of an entry: its number, the type SHORT, and one value.
const ORIENTATION: [[u8; 8]; 2] = [[0x12, 1, 3, 0, 1, 0, 0, 0], [1, 0x12, 0, 3, 0, 0, 0, 1]];

/// Makes EXIF state that pixels are upright, if it states an orientation.
pub(super) fn upright(mut exif: Vec<u8>) -> Vec<u8> {
    if let Some(value) = orientation(&mut exif) {
        let is_big_endian = value[0] == 0;
        value.copy_from_slice(&if is_big_endian { [0, 1] } else { [1, 0] });
    }
    exif
}

/// Returns the value of Orientation, which is no more than 8, in the first directory.
fn orientation(exif: &mut [u8]) -> Option<&mut [u8; 2]> {
    let is_big_endian = exif.starts_with(b"MM");
    let offset: [u8; 4] = *exif.get(4..)?.first_chunk()?;
    let offset = if is_big_endian { u32::from_be_bytes(offset) } else { u32::from_le_bytes(offset) };
    let directory = exif.get_mut(offset as usize..)?;
    let count: [u8; 2] = *directory.first_chunk()?;
    let count = if is_big_endian { u16::from_be_bytes(count) } else { u16::from_le_bytes(count) };
    let entries = directory.get_mut(2..)?.as_chunks_mut::<12>().0.iter_mut().take(count.into());
    let mut values = entries.filter(|entry| entry[..8] == ORIENTATION[usize::from(is_big_endian)]);
    let value = values.next()?[8..].first_chunk_mut::<2>()?;
    let is_sound = matches!((is_big_endian, &value), (true, [0, 1..=8]) | (false, [1..=8, 0]));
    is_sound.then_some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_orientation_becomes_1_in_either_byte_order_and_the_rest_stays() {
        let little =
            b"II*\0\x08\0\0\0\x02\0\x0f\x01\x02\0\x01\0\0\0a\0\0\0\x12\x01\x03\0\x01\0\0\0\x06\0\0\0\0\0\0\0";
        let big = b"MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0\x08\0\0\0\0\0\0";
        for (exif, at) in [(&little[..], 30), (&big[..], 18)] {
            let is_big_endian = exif.starts_with(b"MM");
            let mut expected = exif.to_vec();
            expected[at..at + 2].copy_from_slice(&if is_big_endian { [0, 1] } else { [1, 0] });
            assert_eq!(upright(exif.to_vec()), expected);
            for end in 0..exif.len() {
                assert_eq!(upright(exif[..end].to_vec()).len(), end);
            }
        }
        let without = b"II*\0\x08\0\0\0\0\0\0\0\0\0";
        assert_eq!(upright(without.to_vec()), without);
    }
}
