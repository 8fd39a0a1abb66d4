//! Conversion of big-endian elements (PS3.5, 7.3; retired) into little-endian ones.

use super::header::Header;
use super::tags;
use crate::formats::elements::{Encoding, Tag, is_long};
use crate::samples::swap_bytes;

/// The content after a header.
enum Content {
    /// A value of so many bytes, already converted.
    Value(usize),
    /// Elements or items: of so many bytes, or up to a delimiter.
    Elements(Option<usize>),
    /// A delimiter, which ends the elements before it.
    End,
}

/// Converts elements of explicit types. `None` if they are damaged, or nested deeper than `depth`.
pub(super) fn turn(bytes: &mut [u8], depth: usize) -> Option<()> {
    turn_until_end(bytes, depth).map(|_| ())
}

/// Converts elements up to the end of `bytes` or a delimiter; returns the number of bytes left.
fn turn_until_end(mut bytes: &mut [u8], depth: usize) -> Option<usize> {
    while !bytes.is_empty() {
        let (content, behind) = turn_header(bytes)?;
        bytes = match content {
            Content::End => return Some(behind.len()),
            Content::Value(length) => behind.get_mut(length..)?,
            Content::Elements(Some(length)) => {
                let (inner, behind) = behind.split_at_mut_checked(length)?;
                turn(inner, depth.checked_sub(1)?)?;
                behind
            }
            Content::Elements(None) => {
                let left = turn_until_end(behind, depth.checked_sub(1)?)?;
                let start = behind.len() - left;
                &mut behind[start..]
            }
        };
    }
    Some(0)
}

/// Converts the header of an element, and its value unless that consists of elements.
///
/// Returns the bytes after the header.
fn turn_header(bytes: &mut [u8]) -> Option<(Content, &mut [u8])> {
    let (tag, kind, length) = {
        let encoding = Encoding { explicit: true, big_endian: true };
        let header = Header::read(&mut &*bytes, 0, encoding).ok()?;
        (header.tag, header.kind, header.length)
    };
    let head = if kind.is_some_and(is_long) { 12 } else { 8 };
    let (head, behind) = bytes.split_at_mut_checked(head)?;
    head[..2].reverse();
    head[2..4].reverse();
    match head.len() {
        12 => head[8..].reverse(),
        _ if kind.is_none() => head[4..].reverse(),
        _ => head[6..].reverse(),
    }
    let content = match (tag, kind, length) {
        (tags::ITEM_END | tags::SEQUENCE_END, _, _) => Content::End,
        (tags::ITEM, _, length) => Content::Elements(length.map(|length| length as usize)),
        (_, kind, Some(length)) if kind != Some(*b"SQ") => {
            let value = behind.get_mut(..length as usize)?;
            swap_bytes(value, number_bytes(tag, kind));
            Content::Value(length as usize)
        }
        (_, _, length) => Content::Elements(length.map(|length| length as usize)),
    };
    Some((content, behind))
}

/// Returns the bytes of the numbers that a value consists of; 1 if it has no numbers.
fn number_bytes(tag: Tag, kind: Option<[u8; 2]>) -> usize {
    match kind.as_ref() {
        // Tables of bytes are pairs that are words, too.
        _ if tags::PALETTE_DATA.contains(&tag) => 2,
        Some(b"US" | b"SS" | b"OW" | b"AT") => 2,
        Some(b"UL" | b"SL" | b"FL" | b"OF" | b"OL") => 4,
        Some(b"FD" | b"OD" | b"OV" | b"SV" | b"UV") => 8,
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_headers_are_turned_at_every_depth() {
        let mut big: Vec<u8> = Vec::new();
        big.extend(b"\x00\x28\x00\x10US\x00\x02\x01\x02");
        big.extend(b"\x00\x28\x00\x04CS\x00\x02ab");
        big.extend(b"\x52\x00\x92\x29SQ\x00\x00\xff\xff\xff\xff");
        big.extend(b"\xff\xfe\xe0\x00\x00\x00\x00\x0c\x00\x08\x00\x01UL\x00\x04\x01\x02\x03\x04");
        big.extend(b"\xff\xfe\xe0\xdd\x00\x00\x00\x00");
        big.extend(b"\x52\x00\x92\x30OW\x00\x00\x00\x00\x00\x02\x07\x08");
        let mut little: Vec<u8> = Vec::new();
        little.extend(b"\x28\x00\x10\x00US\x02\x00\x02\x01");
        little.extend(b"\x28\x00\x04\x00CS\x02\x00ab");
        little.extend(b"\x00\x52\x29\x92SQ\x00\x00\xff\xff\xff\xff");
        little.extend(b"\xfe\xff\x00\xe0\x0c\x00\x00\x00\x08\x00\x01\x00UL\x04\x00\x04\x03\x02\x01");
        little.extend(b"\xfe\xff\xdd\xe0\x00\x00\x00\x00");
        little.extend(b"\x00\x52\x30\x92OW\x00\x00\x02\x00\x00\x00\x08\x07");
        for cut in 1..8 {
            assert_eq!(turn(&mut big.clone()[..big.len() - cut], 4), None, "{cut}");
        }
        assert_eq!(turn(&mut big.clone(), 1), None);
        assert_eq!(turn(&mut big, 4), Some(()));
        assert_eq!(big, little);
    }
}
