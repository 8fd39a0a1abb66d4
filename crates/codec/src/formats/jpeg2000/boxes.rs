//! The boxes of a JP2 file (T.800, I.4).

use std::ops::Range;

/// Returns the types and the places of the boxes of a file that are there in whole (T.800, I.4).
pub(super) fn boxes(bytes: &[u8]) -> impl Iterator<Item = ([u8; 4], Range<usize>)> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let found = box_at(bytes, at)?;
        at = found.1.end;
        Some(found)
    })
}

fn box_at(bytes: &[u8], at: usize) -> Option<([u8; 4], Range<usize>)> {
    let &[a, b, c, d, ref kind @ ..] = bytes.get(at..)?.first_chunk::<8>()?;
    let (header, length) = match u32::from_be_bytes([a, b, c, d]) {
        0 => (8, bytes.len() - at),
        1 => (16, usize::try_from(u64::from_be_bytes(*bytes.get(at + 8..)?.first_chunk()?)).ok()?),
        length => (8, length as usize),
    };
    let end = at.checked_add(length).filter(|&end| end <= bytes.len() && length >= header)?;
    Some((*kind, at + header..end))
}
