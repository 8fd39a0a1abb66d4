//! Image file directories, the tagged structure of TIFF and EXIF, read and written as a whole.
//!
//! Sources: TIFF 6.0, section 2; BigTIFF; EXIF 3.0, section 4.6. Values are kept as they are, but
//! in little-endian order. The few tags that point to further directories of metadata are followed,
//! which lets these be moved from one file to another.

mod read;
mod write;

pub(crate) use read::{Outline, first, glance, header, read};
pub(crate) use write::{write_file, write_to, written_bytes};

/// Tags whose value is the offset of a directory of metadata: EXIF, GPS and interoperability.
pub(crate) const SUB_DIRECTORIES: [u16; 3] = [34665, 34853, 40965];

/// The byte order and offset size of a TIFF structure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Form {
    pub(crate) big_endian: bool,
    /// Whether this is BigTIFF, with 64-bit offsets.
    pub(crate) big: bool,
}

impl Form {
    /// The form that is written: little-endian.
    pub(crate) const fn written(big: bool) -> Self {
        Self { big_endian: false, big }
    }

    /// Returns the size of an offset in bytes.
    const fn offset_bytes(self) -> usize {
        if self.big { 8 } else { 4 }
    }

    /// Returns the size of a directory's entry count in bytes.
    const fn count_bytes(self) -> usize {
        if self.big { 8 } else { 2 }
    }

    /// Returns the size of a directory entry in bytes.
    const fn entry_bytes(self) -> usize {
        4 + 2 * self.offset_bytes()
    }

    /// Returns the size of a directory in bytes, without the values outside its entries.
    const fn table_bytes(self, entries: usize) -> usize {
        self.count_bytes() + entries * self.entry_bytes() + self.offset_bytes()
    }

    /// Reads an unsigned number of up to 8 bytes.
    pub(crate) fn number(self, bytes: &[u8]) -> u64 {
        let digits = bytes.iter().map(|&byte| u64::from(byte));
        match self.big_endian {
            true => digits.fold(0, |n, digit| n << 8 | digit),
            false => digits.rev().fold(0, |n, digit| n << 8 | digit),
        }
    }
}

/// A directory, sorted by tag.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Directory {
    pub(crate) entries: Vec<(u16, Value)>,
    /// The tags of entries with values that do not lie in the file, or not all of them.
    pub(crate) cut: Vec<u16>,
}

/// The value of an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Value {
    /// Elements of one of TIFF's types, in little-endian order.
    Data { kind: u16, bytes: Vec<u8> },
    /// A directory that the entry points to.
    Directory(Directory),
}

/// Returns the size in bytes of an element of a type, and of each number in it.
fn sizes(kind: u16) -> Option<(usize, usize)> {
    match kind {
        1 | 2 | 6 | 7 => Some((1, 1)),     // BYTE, ASCII, SBYTE, UNDEFINED
        3 | 8 => Some((2, 2)),             // SHORT, SSHORT
        4 | 9 | 11 | 13 => Some((4, 4)),   // LONG, SLONG, FLOAT, IFD
        5 | 10 => Some((8, 4)),            // RATIONAL, SRATIONAL
        12 | 16 | 17 | 18 => Some((8, 8)), // DOUBLE, LONG8, SLONG8, IFD8
        _ => None,
    }
}

impl Value {
    /// Makes a value of SHORTs.
    pub(crate) fn shorts(values: &[u16]) -> Self {
        Self::Data { kind: 3, bytes: values.iter().flat_map(|v| v.to_le_bytes()).collect() }
    }

    /// Makes a value of LONGs, or of LONG8s if a number needs it.
    pub(crate) fn longs(values: &[u64]) -> Self {
        if values.iter().all(|&v| u32::try_from(v).is_ok()) {
            Self::Data { kind: 4, bytes: values.iter().flat_map(|&v| (v as u32).to_le_bytes()).collect() }
        } else {
            Self::Data { kind: 16, bytes: values.iter().flat_map(|v| v.to_le_bytes()).collect() }
        }
    }

    /// Returns the number of elements.
    pub(crate) fn count(&self) -> usize {
        match self {
            Self::Data { kind, bytes } => sizes(*kind).map_or(0, |(size, _)| bytes.len() / size),
            Self::Directory(_) => 1,
        }
    }

    /// Returns its bytes.
    pub(crate) fn bytes(&self) -> u64 {
        match self {
            Self::Data { bytes, .. } => bytes.len() as u64,
            Self::Directory(sub) => sub.bytes_of_values(),
        }
    }

    /// Returns the bytes that are written for it after the directory's entries.
    fn bytes_behind(&self, form: Form) -> u64 {
        match self {
            Self::Data { bytes, .. } if bytes.len() <= form.offset_bytes() => 0,
            Self::Data { bytes, .. } => bytes.len().next_multiple_of(2) as u64,
            Self::Directory(sub) => written_bytes(&sub.borrowed(), form),
        }
    }

    /// Returns the elements as unsigned numbers; `None` for other types.
    pub(crate) fn numbers(&self) -> Option<Numbers<'_>> {
        let Self::Data { kind: kind @ (1 | 3 | 4 | 13 | 16 | 18), bytes } = self else { return None };
        let (size, _) = sizes(*kind)?;
        Some(Numbers { bytes, size })
    }
}

/// Unsigned numbers, in little-endian order.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Numbers<'v> {
    bytes: &'v [u8],
    /// Bytes per number.
    size: usize,
}

impl<'v> Numbers<'v> {
    /// Returns the numbers after the first `count`, which must exist.
    pub(crate) fn skip(self, count: usize) -> Self {
        Self { bytes: &self.bytes[count * self.size..], ..self }
    }

    pub(crate) fn count(self) -> usize {
        self.bytes.len() / self.size
    }

    pub(crate) fn get(self, index: usize) -> Option<u64> {
        let start = index.checked_mul(self.size)?;
        Some(Form::written(false).number(self.bytes.get(start..start.checked_add(self.size)?)?))
    }

    pub(crate) fn iter(self) -> impl Iterator<Item = u64> + Clone + use<'v> {
        self.bytes.chunks_exact(self.size).map(|number| Form::written(false).number(number))
    }
}

impl Directory {
    pub(crate) fn get(&self, tag: u16) -> Option<&Value> {
        self.entries.iter().find_map(|(other, value)| (*other == tag).then_some(value))
    }

    /// Returns the numbers of a tag.
    pub(crate) fn numbers(&self, tag: u16) -> Option<Numbers<'_>> {
        self.get(tag)?.numbers()
    }

    /// Returns the first number of a tag.
    pub(crate) fn number(&self, tag: u16) -> Option<u64> {
        self.numbers(tag)?.get(0)
    }

    /// Returns the bytes of a tag, whatever its type.
    pub(crate) fn bytes(&self, tag: u16) -> Option<&[u8]> {
        if let Some(Value::Data { bytes, .. }) = self.get(tag) { Some(bytes) } else { None }
    }

    /// Returns the total bytes of all values.
    pub(crate) fn bytes_of_values(&self) -> u64 {
        self.entries.iter().map(|(_, value)| value.bytes()).sum()
    }

    /// Returns the entries by reference.
    pub(crate) fn borrowed(&self) -> Vec<(u16, &Value)> {
        self.entries.iter().map(|(tag, value)| (*tag, value)).collect()
    }

    pub(crate) fn set(&mut self, tag: u16, value: Value) {
        self.entries.retain(|(other, _)| *other != tag);
        self.entries.push((tag, value));
        self.entries.sort_by_key(|(tag, _)| *tag);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Serializes a directory for the file offset `at`.
    fn write(directory: &Directory, big: bool, at: u64) -> Vec<u8> {
        let (mut out, entries) = (Vec::new(), directory.borrowed());
        let written = write_to(&mut out, &entries, big, at, 0).unwrap();
        assert_eq!(written, written_bytes(&entries, Form::written(big)));
        assert_eq!(written, out.len() as u64);
        out
    }

    fn sample() -> Directory {
        let mut exif = Directory::default();
        exif.set(33434, Value::Data { kind: 5, bytes: vec![1, 0, 0, 0, 60, 0, 0, 0] });
        let mut main = Directory::default();
        main.set(274, Value::shorts(&[6]));
        main.set(271, Value::Data { kind: 2, bytes: b"A camera\0".to_vec() });
        main.set(34665, Value::Directory(exif));
        main
    }

    #[test]
    fn what_is_written_is_read() {
        for big in [false, true] {
            let mut file = vec![0; 16];
            file.extend(write(&sample(), big, 16));
            assert_eq!(read(&file, Form::written(big), 16), Some((sample(), 0)));
        }
    }

    #[test]
    fn big_endian_values_are_turned() {
        // MM, one entry: Orientation, SHORT, 1, value 6; no next directory.
        let file = b"MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0\x06\0\0\0\0\0\0";
        let (form, offset) = header(file).unwrap();
        let (directory, next) = read(file, form, offset).unwrap();
        assert_eq!((directory.number(274), next), (Some(6), 0));
    }

    #[test]
    fn a_glance_sees_what_lies_in_entries_alone_even_if_values_lie_where_such_begin() {
        // II: three samples of 8 bits each, which lie after the header; then a width.
        let bits = [8, 0, 8, 0, 8, 0, 0, 0];
        let entries = b"\x02\0\x00\x01\x04\0\x01\0\0\0\x05\0\0\0\x02\x01\x03\0\x03\0\0\0\x08\0\0\0\0\0\0\0";
        let file = [&b"II*\0\x10\0\0\0"[..], &bits, entries].concat();
        let (form, offset) = header(&file).unwrap();
        let (numbers, next) = glance(&mut &file[..], form, offset, [256, 257, 258]).unwrap();
        assert_eq!((numbers, next), ([Some(5), None, None], 0));
        let (directory, _) = read(&file, form, offset).unwrap();
        assert_eq!(directory.numbers(258).unwrap().iter().collect::<Vec<_>>(), [8, 8, 8]);
    }

    #[test]
    fn iptc_is_bytes_whatever_a_writer_calls_it() {
        // MM, one entry: IPTC-NAA, LONG, 1, the bytes 1c 02 00 00.
        let file = b"MM\0*\0\0\0\x08\0\x01\x83\xbb\0\x04\0\0\0\x01\x1c\x02\0\0\0\0\0\0";
        let (form, offset) = header(file).unwrap();
        let (directory, _) = read(file, form, offset).unwrap();
        assert_eq!(directory.bytes(33723), Some(&b"\x1c\x02\0\0"[..]));
    }

    #[test]
    fn values_that_lie_in_each_other_are_refused() {
        let entry = |tag: u8, count: u8| [tag, 1, 1, 0, count, 0, 0, 0, 8, 0, 0, 0];
        // Two BYTE values at the same offset, of 8 bytes each, which would fit into the file one
        // after the other, and of 20 each, which would not.
        for (count, fits) in [(8, true), (20, false)] {
            let file = [&[0; 8][..], &[2, 0], &entry(2, count), &entry(3, count)].concat();
            assert_eq!(read(&file, Form::written(false), 8).is_some(), fits, "{count}");
        }
    }

    #[test]
    fn damaged_directories_do_no_harm() {
        let mut file = vec![0; 16];
        file.extend(write(&sample(), false, 16));
        for at in 16..file.len() {
            let mut damaged = file.clone();
            damaged[at] ^= 0xff;
            read(&damaged, Form::written(false), 16);
            read(&file[..at], Form::written(false), 16);
        }
        // A directory of metadata that points to itself.
        let mut cycle = vec![0; 8];
        cycle.extend(b"\x01\0\x69\x87\x04\0\x01\0\0\0\x08\0\0\0\0\0\0\0");
        assert!(read(&cycle, Form::written(false), 8).is_some());
    }
}
