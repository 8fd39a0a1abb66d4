//! How DICOM files begin.

/// Bytes before the mark of a file with a preamble.
pub(crate) const PREAMBLE: usize = 128;
pub(crate) const MARK: &[u8] = b"DICM";

/// Returns whether a file that begins with `head` is DICOM with a preamble, whatever that holds: some begin as a TIFF.
pub(crate) fn has_preamble(head: &[u8]) -> bool {
    head.get(PREAMBLE..PREAMBLE + MARK.len()) == Some(MARK)
}

/// Returns whether a file begins with data elements, without the preamble that should be before them (PS3.10, 7.1): two elements of group 2
/// or 8, the second one behind the first and with a higher number.
pub(super) fn is_bare(head: &[u8]) -> bool {
    let first = data_element(head);
    let second = first.and_then(|(_, length)| data_element(head.get(length..)?));
    matches!((first, second), (Some((before, _)), Some((behind, _))) if before < behind)
}

/// Returns the group and number of the data element at the start of `bytes`, if it is a short one of group 2 or 8, and its length with its
/// header (PS3.5, 7.1). Its length has 16 bits if its type is written before it, else 32.
fn data_element(bytes: &[u8]) -> Option<((u8, u16), usize)> {
    const LONGEST: u32 = 1 << 10;
    let &[g0, g1, n0, n1, a, b, c, d] = bytes.first_chunk()?;
    let (group, big_endian) = match [g0, g1] {
        [group @ (2 | 8), 0] => (group, false),
        [0, 8] => (8, true),
        _ => return None,
    };
    let short = |bytes| if big_endian { u16::from_be_bytes(bytes) } else { u16::from_le_bytes(bytes) };
    let length = match [a, b] {
        [b'A'..=b'Z', b'A'..=b'Z'] => short([c, d]).into(),
        bytes if big_endian => u32::from_be_bytes([bytes[0], bytes[1], c, d]),
        bytes => u32::from_le_bytes([bytes[0], bytes[1], c, d]),
    };
    // Values have an even length.
    let fits = length.is_multiple_of(2) && length <= LONGEST;
    fits.then_some(((group, short([n0, n1])), 8 + length as usize))
}
