//! The data elements of a DICOM file, found by their headers, and kept byte for byte.
//!
//! Source: PS3.5, section 7; PS3.10, section 7.

use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::ops::Range;

use super::data::Data;
use super::header::Header;
use super::turn::turn;
use super::{malformed, tags};
use crate::CodecError;
use crate::formats::elements::{Encoding, Tag, Type};
use crate::io::budget::{Budget, ask};
use crate::io::reader::Bytes;

/// How deep sequences may be nested: several times as deep as any program nests them.
const DEPTH: usize = 32;

/// More elements than any program writes.
///
/// Their table takes memory that does not count as metadata.
const MAX_ELEMENTS: usize = 20_000;

/// Bytes of a fragment's record: its place, and its number if a frame begins with it.
pub(super) const BYTES_OF_FRAGMENT: u64 = (size_of::<Range<u64>>() + size_of::<usize>()) as u64;

/// Bytes of a fragment during the search: also an entry of the table, in the file and as a number.
const BYTES_WHILE_FOUND: u64 = BYTES_OF_FRAGMENT + (size_of::<u32>() + size_of::<u64>()) as u64;

/// Returns the end of items that a delimiter ends, from their start on.
pub(super) fn skip_items(
    data: &mut impl Bytes,
    at: u64,
    encoding: Encoding,
    depth: usize,
) -> io::Result<u64> {
    count_items(data, at, encoding, depth).map(|items| items.end)
}

/// Items that a delimiter ends.
struct Items {
    end: u64,
    count: u64,
}

/// Finds the end of items, from their start on, and counts them.
fn count_items(data: &mut impl Bytes, mut at: u64, encoding: Encoding, depth: usize) -> io::Result<Items> {
    if depth == 0 {
        return Err(ErrorKind::InvalidData.into());
    }
    for count in 0.. {
        let item = Header::read(data, at, encoding)?;
        at += item.bytes as u64;
        at = match (item.tag, item.length) {
            (tags::SEQUENCE_END, _) => return Ok(Items { end: at, count }),
            (tags::ITEM, Some(length)) => at + u64::from(length),
            (tags::ITEM, None) => skip_item(data, at, encoding, depth)?,
            _ => return Err(ErrorKind::InvalidData.into()),
        };
        if at > data.length() as u64 {
            break;
        }
    }
    Err(ErrorKind::UnexpectedEof.into())
}

/// Returns the end of an item that a delimiter ends, from its first element on.
fn skip_item(data: &mut impl Bytes, mut at: u64, encoding: Encoding, depth: usize) -> io::Result<u64> {
    loop {
        let element = Header::read(data, at, encoding)?;
        at += element.bytes as u64;
        at = match (element.tag, element.length) {
            (tags::ITEM_END, _) => return Ok(at),
            (_, Some(length)) => at + u64::from(length),
            (_, None) => skip_items(data, at, inside(element.kind, encoding), depth - 1)?,
        };
    }
}

/// Returns the encoding inside an element without a length.
///
/// An element of unknown type is always implicit inside (PS3.5, 6.2.2).
pub(super) fn inside(kind: Option<Type>, encoding: Encoding) -> Encoding {
    if kind == Some(*b"UN") { Encoding::IMPLICIT } else { encoding }
}

/// An element that is kept.
#[derive(Clone, Debug)]
pub(super) struct Element {
    /// Its type, where that is written.
    pub(super) kind: Option<Type>,
    /// The place of its header among the bytes of the data set.
    pub(super) header: Range<usize>,
    /// The place of its value, with the delimiter that may end it.
    pub(super) value: Range<usize>,
}

/// The element that holds the pixels.
#[derive(Clone, Copy, Debug)]
pub(super) struct PixelData {
    pub(super) tag: Tag,
    pub(super) kind: Option<Type>,
    /// The offset of the value.
    pub(super) at: u64,
    /// Bytes of the value; `None` if it is a sequence of fragments.
    pub(super) length: Option<u64>,
    /// The number of items in that sequence, with the table before the fragments.
    pub(super) items: u64,
}

/// The elements of a file, without those of group 2, and without the pixels.
#[derive(Debug)]
pub(super) struct DataSet {
    /// The encoding of the elements as they are kept: never big-endian.
    pub(super) encoding: Encoding,
    pub(super) elements: BTreeMap<Tag, Element>,
    /// All elements, as they are in the file.
    pub(super) bytes: Vec<u8>,
    pub(super) pixels: Option<PixelData>,
    /// The offset of each frame's functional groups in their element, once these are indexed.
    pub(super) frame_groups: Vec<usize>,
}

impl DataSet {
    /// Reads the elements from an offset on. They may be as long as `budget` allows.
    pub(super) fn read(
        data: &mut Data<'_>,
        start: u64,
        encoding: Encoding,
        budget: &mut dyn Budget,
    ) -> Result<Self, CodecError> {
        let end = data.length() as u64;
        let (mut at, mut pixels, mut gap) = (start, None, end..end);
        let mut elements = BTreeMap::new();
        while at < end {
            if pixels.is_some() && is_padding(data, at).map_err(fault)? {
                break;
            }
            let header = Header::read(data, at, encoding).map_err(fault)?;
            if header.tag >> 16 == tags::ITEMS {
                return Err(malformed("its data elements are damaged"));
            }
            let value = at + header.bytes as u64;
            let Items { end: behind, count: items } = match header.length {
                Some(length) => Items { end: value + u64::from(length), count: 0 },
                None => count_items(data, value, inside(header.kind, encoding), DEPTH).map_err(fault)?,
            };
            if behind > end {
                return Err(truncated());
            }
            if tags::PIXELS.contains(&header.tag) {
                let length = header.length.map(u64::from);
                let found = PixelData { tag: header.tag, kind: header.kind, at: value, length, items };
                if pixels.replace(found).is_some() {
                    return Err(malformed("it has pixels twice"));
                }
                gap = at..behind;
            } else {
                // Without the gap, the elements after the pixels follow those before them.
                let shift = start + if pixels.is_some() { gap.end - gap.start } else { 0 };
                let [start, value, end] = [at, value, behind].map(|at| (at - shift) as usize);
                let element = Element { kind: header.kind, header: start..value, value: value..end };
                elements.entry(header.tag).or_insert(element);
                if elements.len() > MAX_ELEMENTS {
                    return Err(malformed("more data elements than any program writes"));
                }
            }
            at = behind;
        }
        let (before, behind) = (gap.start.min(at) - start, at.saturating_sub(gap.end));
        let fragments = pixels.map_or(0, |pixels| pixels.items * BYTES_WHILE_FOUND);
        ask(budget, data.heap_bytes() + before + behind + fragments, "metadata")?;
        let mut bytes = data.copy(start as usize, before as usize).map_err(fault)?;
        if behind > 0 {
            bytes.extend(data.copy(gap.end as usize, behind as usize).map_err(fault)?);
        }
        if encoding.big_endian {
            turn(&mut bytes, DEPTH).ok_or_else(|| malformed("its data elements are damaged"))?;
        }
        let encoding = Encoding { big_endian: false, ..encoding };
        Ok(Self { encoding, elements, bytes, pixels, frame_groups: Vec::new() })
    }

    /// Returns the bytes of the elements and of their tables.
    pub(super) fn heap_bytes(&self) -> u64 {
        const ELEMENT: usize = 64;
        let index = self.frame_groups.len() * size_of::<usize>();
        (self.bytes.len() + ELEMENT * self.elements.len() + index) as u64
    }

    /// Returns the bytes of an element's value.
    pub(super) fn value(&self, tag: Tag) -> Option<&[u8]> {
        self.elements.get(&tag).map(|element| &self.bytes[element.value.clone()])
    }

    /// Returns the text of an element, without its padding.
    pub(super) fn text(&self, tag: Tag) -> Option<&str> {
        let text = str::from_utf8(self.value(tag)?).ok()?;
        Some(text.trim_matches([' ', '\0'])).filter(|text| !text.is_empty())
    }

    /// Returns the first of an element's numbers of 16 bits.
    pub(super) fn u16(&self, tag: Tag) -> Option<u16> {
        Some(self.encoding.u16(*self.value(tag)?.first_chunk()?))
    }

    /// Returns all of an element's numbers of 16 bits.
    pub(super) fn words(&self, tag: Tag) -> Option<Vec<u16>> {
        Some(self.value(tag)?.as_chunks().0.iter().map(|word| self.encoding.u16(*word)).collect())
    }
}

/// Returns whether only zeros follow the pixels: some programs fill up the last block of a file.
fn is_padding(data: &mut Data<'_>, at: u64) -> io::Result<bool> {
    let left = data.length() as u64 - at;
    let head = data.at(at as usize, left.min(8) as usize)?;
    Ok(left < 8 || head.iter().all(|&byte| byte == 0))
}

/// Returns the error for an element that cannot be read.
pub(super) fn fault(error: io::Error) -> CodecError {
    match error.kind() {
        ErrorKind::UnexpectedEof => truncated(),
        ErrorKind::InvalidData => malformed("its data elements are damaged"),
        _ => error.into(),
    }
}

pub(super) fn truncated() -> CodecError {
    malformed("truncated: it ends within a data element")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Limits;
    use crate::io::reader::Reader;
    use std::io::{Seek, Write};

    struct Asked(u64);

    impl Budget for Asked {
        fn hold(&mut self, bytes: u64) -> Result<(), u64> {
            self.0 += bytes;
            Ok(())
        }
    }

    #[test]
    fn what_is_known_of_many_fragments_is_asked_for_first() {
        const ITEMS: usize = 100_000;
        let mut bytes = b"\xe0\x7f\x10\x00OB\0\0\xff\xff\xff\xff".to_vec();
        bytes.extend(b"\xfe\xff\x00\xe0\0\0\0\0".repeat(ITEMS));
        bytes.extend(b"\xfe\xff\xdd\xe0\0\0\0\0");
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&bytes).unwrap();
        file.rewind().unwrap();
        let (mut buffer, mut asked) = (Vec::new(), Asked(0));
        let limits = Limits { max_pixels: 1, max_bytes: bytes.len() as u64 };
        let mut data = Data::new(Reader::new(&mut file, &mut buffer, &limits, &mut asked).unwrap());
        let set = DataSet::read(&mut data, 0, Encoding::EXPLICIT, &mut asked).unwrap();
        assert_eq!(set.pixels.unwrap().items, ITEMS as u64);
        assert!(asked.0 >= ITEMS as u64 * BYTES_WHILE_FOUND, "{}", asked.0);
    }
}
