//! The headers of data elements and items, and elements as they are written.

use std::io::{self, ErrorKind};

use super::tags;
use crate::formats::elements::{Encoding, Tag, Type, is_long, is_type};
use crate::io::reader::Bytes;

/// The length of an element or item that ends with a delimiter.
pub(super) const UNDEFINED: u32 = u32::MAX;

/// The header of an element.
#[derive(Clone, Copy, Debug)]
pub(super) struct Header {
    pub(super) tag: Tag,
    /// Its type, where that is written.
    pub(super) kind: Option<Type>,
    /// Bytes of the header.
    pub(super) bytes: usize,
    /// Bytes of the value; `None` if a delimiter ends it.
    pub(super) length: Option<u32>,
}

impl Header {
    /// Bytes of the header of an item.
    pub(super) const ITEM_BYTES: usize = 8;

    /// Reads the header at an offset.
    pub(super) fn read(data: &mut impl Bytes, at: u64, encoding: Encoding) -> io::Result<Self> {
        let at = usize::try_from(at).map_err(|_| ErrorKind::UnexpectedEof)?;
        let &[g0, g1, n0, n1, a, b, c, d] = data.at(at, 8)?.first_chunk().ok_or(ErrorKind::UnexpectedEof)?;
        let tag = encoding.tag([g0, g1, n0, n1]);
        // Items and delimiters never have a type.
        if !encoding.explicit || tag >> 16 == tags::ITEMS {
            let length = encoding.u32([a, b, c, d]);
            return Ok(Self { tag, kind: None, bytes: 8, length: defined(length) });
        }
        if !is_type([a, b]) {
            return Err(ErrorKind::InvalidData.into());
        }
        if !is_long([a, b]) {
            let length = encoding.u16([c, d]).into();
            return Ok(Self { tag, kind: Some([a, b]), bytes: 8, length: Some(length) });
        }
        let &length = data.at(at + 8, 4)?.first_chunk().ok_or(ErrorKind::UnexpectedEof)?;
        Ok(Self { tag, kind: Some([a, b]), bytes: 12, length: defined(encoding.u32(length)) })
    }
}

/// Returns an element with its header. Values of odd length are padded.
pub(super) fn element(encoding: Encoding, tag: Tag, kind: &Type, value: &[u8]) -> Vec<u8> {
    let padding: &[u8] = match kind {
        _ if value.len().is_multiple_of(2) => b"",
        b"UI" | b"OB" => b"\0",
        _ => b" ",
    };
    let mut encoded = header(encoding, tag, kind, (value.len() + padding.len()) as u32);
    encoded.extend_from_slice(value);
    encoded.extend_from_slice(padding);
    encoded
}

/// Returns the header of an element with a value of so many bytes, or of [`UNDEFINED`] length.
///
/// It is little-endian.
pub(super) fn header(encoding: Encoding, tag: Tag, kind: &Type, length: u32) -> Vec<u8> {
    let mut header = Vec::new();
    header.extend(((tag >> 16) as u16).to_le_bytes());
    header.extend((tag as u16).to_le_bytes());
    // Items and delimiters never have a type.
    if !encoding.explicit || tag >> 16 == tags::ITEMS {
        header.extend(length.to_le_bytes());
    } else if is_long(*kind) {
        header.extend(kind);
        header.extend([0; 2]);
        header.extend(length.to_le_bytes());
    } else {
        header.extend(kind);
        header.extend((length as u16).to_le_bytes());
    }
    header
}

fn defined(length: u32) -> Option<u32> {
    (length != UNDEFINED).then_some(length)
}
