//! The start of a DICOM file and of its data elements (PS3.5, section 7.1; PS3.10, section 7.1).

/// The tag of an element: its group in the upper 16 bits, its number in the lower ones.
pub(super) type Tag = u32;

/// The encoding of elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Encoding {
    /// Whether the type of each value is written before it.
    pub(super) explicit: bool,
    pub(super) big_endian: bool,
}

impl Encoding {
    /// The encoding of the file meta information, and of all output.
    pub(super) const EXPLICIT: Self = Self { explicit: true, big_endian: false };
    pub(super) const IMPLICIT: Self = Self { explicit: false, big_endian: false };

    pub(super) fn u16(self, bytes: [u8; 2]) -> u16 {
        if self.big_endian { u16::from_be_bytes(bytes) } else { u16::from_le_bytes(bytes) }
    }

    pub(super) fn u32(self, bytes: [u8; 4]) -> u32 {
        if self.big_endian { u32::from_be_bytes(bytes) } else { u32::from_le_bytes(bytes) }
    }

    pub(super) fn tag(self, [g0, g1, n0, n1]: [u8; 4]) -> Tag {
        Tag::from(self.u16([g0, g1])) << 16 | Tag::from(self.u16([n0, n1]))
    }
}

/// The value representation of an element, such as `US`.
pub(super) type Type = [u8; 2];

/// Returns whether an explicit element of this type has a length of 32 bits (PS3.5, table 7.1-1).
pub(super) fn is_long(kind: Type) -> bool {
    matches!(
        &kind,
        b"OB" | b"OD" | b"OF" | b"OL" | b"OV" | b"OW" | b"SQ" | b"SV" | b"UC" | b"UN" | b"UR" | b"UT" | b"UV"
    )
}

/// Returns whether these bytes look like a type.
pub(super) fn is_type(kind: Type) -> bool {
    kind.iter().all(u8::is_ascii_uppercase)
}

/// Bytes before the mark of a file with a preamble.
pub(super) const PREAMBLE: usize = 128;
pub(super) const MARK: &[u8] = b"DICM";

/// Returns whether a file that begins with these bytes is DICOM.
pub(super) fn is_head(head: &[u8]) -> bool {
    has_preamble(head) || is_bare(head)
}

/// Returns whether a file with this head is DICOM with a preamble.
///
/// The preamble may hold anything: some begin as a TIFF.
pub(super) fn has_preamble(head: &[u8]) -> bool {
    head.get(PREAMBLE..PREAMBLE + MARK.len()) == Some(MARK)
}

/// Returns whether a file begins with data elements, without a preamble (PS3.10, 7.1).
///
/// These are two elements of group 2 or 8, the second one after the first and with a higher number.
fn is_bare(head: &[u8]) -> bool {
    let first = data_element(head);
    let second = first.and_then(|(_, length)| data_element(head.get(length..)?));
    matches!((first, second), (Some((before, _)), Some((behind, _))) if before < behind)
}

/// Returns the tag of the data element at the start of `bytes`, and its length with its header.
///
/// `None` unless it is a short one of group 2 or 8.
///
/// Its length has 16 bits if its type is written before it, else 32.
fn data_element(bytes: &[u8]) -> Option<((u8, u16), usize)> {
    const LONGEST: u32 = 1 << 10;
    let &[g0, g1, n0, n1, a, b, c, d] = bytes.first_chunk()?;
    let (group, big_endian) = match [g0, g1] {
        [group @ (2 | 8), 0] => (group, false),
        [0, 8] => (8, true),
        _ => return None,
    };
    let encoding = Encoding { explicit: is_type([a, b]), big_endian };
    let length = match encoding.explicit {
        true => encoding.u16([c, d]).into(),
        false => encoding.u32([a, b, c, d]),
    };
    // Values have an even length.
    let fits = length.is_multiple_of(2) && length <= LONGEST;
    fits.then_some(((group, encoding.u16([n0, n1])), 8 + length as usize))
}
