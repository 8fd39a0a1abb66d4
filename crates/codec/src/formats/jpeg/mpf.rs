//! The multi-picture format (CIPA DC-007).
//!
//! It is an index of the pictures that follow the first one in a JPEG file.

use crate::CodecError;
use crate::metadata::ifd;

/// The first bytes of an APP2 segment with an index.
pub(super) const NAME: &[u8] = b"MPF\0";

/// The tag with one entry per picture as its value.
const ENTRIES: u16 = 0xb002;

/// Refuses a file with several views or the parts of a panorama.
///
/// These are pictures in their own right. Other kinds (previews, gain maps) belong to the first
/// picture before equalization, and are left out.
pub(super) fn refuse_views(index: &[u8]) -> Result<(), CodecError> {
    let views = types(index).unwrap_or_default().into_iter().filter(|kind| kind >> 16 == 2).count();
    if views < 2 {
        return Ok(());
    }
    Err(CodecError::unsupported(
        format!("a JPEG of {views} pictures (a stereo picture or a panorama)"),
        "split it into single pictures first",
    ))
}

/// Returns the type codes of the pictures, 24 bits each (DC-007, 5.2.3.3.1).
fn types(index: &[u8]) -> Option<Vec<u64>> {
    const ENTRY: usize = 16;
    let (form, offset) = ifd::header(index)?;
    let (directory, _) = ifd::read(index, form, offset)?;
    let entries = directory.bytes(ENTRIES)?;
    Some(entries.chunks_exact(ENTRY).map(|entry| form.number(&entry[..4]) & 0x00ff_ffff).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Makes an index of pictures of these types, in either byte order.
    fn index(types: &[u32], big_endian: bool) -> Vec<u8> {
        let word = |n: u32| if big_endian { n.to_be_bytes() } else { n.to_le_bytes() };
        let short = |n: u16| if big_endian { n.to_be_bytes() } else { n.to_le_bytes() };
        let mut index = if big_endian { b"MM\0*".to_vec() } else { b"II*\0".to_vec() };
        index.extend(word(8));
        index.extend(short(1));
        index.extend([short(ENTRIES), short(7)].concat());
        index.extend([word(16 * types.len() as u32), word(26), word(0)].concat());
        types.iter().for_each(|&kind| index.extend([word(kind), word(0), word(0), word(0)].concat()));
        index
    }

    #[test]
    fn views_are_refused_and_what_serves_the_first_picture_is_not() {
        for big_endian in [false, true] {
            let refused = |types: &[u32]| refuse_views(&index(types, big_endian));
            let why = refused(&[0x2002_0002, 0x0002_0002]).unwrap_err().to_string();
            assert!(why.starts_with("a JPEG of 2 pictures"), "{why}");
            assert!(refused(&[0x0002_0001; 3]).is_err());
            assert!(refused(&[0x2003_0000, 0x0001_0002, 0]).is_ok());
        }
    }

    #[test]
    fn a_damaged_index_is_none() {
        let whole = index(&[0x2002_0002, 0x0002_0002], false);
        assert!(refuse_views(&whole[..whole.len() - 1]).is_ok());
        assert!(refuse_views(b"").is_ok());
    }
}
