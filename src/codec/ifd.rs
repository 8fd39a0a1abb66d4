//! Image file directories, the tagged structure of TIFF and EXIF (TIFF 6.0, section 2; BigTIFF; EXIF 3.0, section 4.6), read and
//! written whole. Values are kept as they stand but in little-endian order; the few tags that point to further directories of
//! metadata are followed, so that these can be moved from one file to another.

use std::ops::Range;

use super::samples::swap_bytes;

/// Tags whose value is the offset of a directory of metadata: EXIF, GPS and interoperability.
pub(super) const SUB_DIRECTORIES: [u16; 3] = [34665, 34853, 40965];

/// How deep directories of metadata are nested at most: EXIF in the main one, interoperability in EXIF.
const DEPTH: usize = 3;

/// More entries than any file has a use for; keeps damaged ones from costing time.
const MOST_ENTRIES: u64 = 4096;

/// The frame of a TIFF structure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Form {
    pub(super) big_endian: bool,
    /// Whether this is BigTIFF, with 64-bit offsets.
    pub(super) big: bool,
}

impl Form {
    /// What is written: little-endian.
    pub(super) const fn written(big: bool) -> Self {
        Self { big_endian: false, big }
    }

    /// Bytes of an offset.
    const fn offset_bytes(self) -> usize {
        if self.big { 8 } else { 4 }
    }

    /// Bytes of the count of entries that begins a directory.
    const fn count_bytes(self) -> usize {
        if self.big { 8 } else { 2 }
    }

    /// Bytes of a directory's entry.
    const fn entry_bytes(self) -> usize {
        4 + 2 * self.offset_bytes()
    }

    /// An unsigned number of up to 8 bytes.
    pub(super) fn number(self, bytes: &[u8]) -> u64 {
        let fold = |n: u64, byte: &u8| n << 8 | u64::from(*byte);
        if self.big_endian { bytes.iter().fold(0, fold) } else { bytes.iter().rev().fold(0, fold) }
    }
}

/// A directory, sorted by tag.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Directory {
    pub(super) entries: Vec<(u16, Value)>,
}

/// The value of an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Value {
    /// Elements of one of TIFF's types, in little-endian order.
    Data { kind: u16, bytes: Vec<u8> },
    /// A directory that the entry points to.
    Directory(Directory),
}

/// Where a value lies in the file.
pub(super) struct Place {
    pub(super) offset: usize,
    pub(super) length: usize,
}

/// Bytes of an element of a type, and of the numbers that it consists of.
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
    /// SHORTs.
    pub(super) fn shorts(values: &[u16]) -> Self {
        Self::Data { kind: 3, bytes: values.iter().flat_map(|v| v.to_le_bytes()).collect() }
    }

    /// LONGs, or LONG8s if one of them needs it.
    pub(super) fn longs(values: &[u64]) -> Self {
        if values.iter().all(|&v| u32::try_from(v).is_ok()) {
            Self::Data { kind: 4, bytes: values.iter().flat_map(|&v| (v as u32).to_le_bytes()).collect() }
        } else {
            Self::Data { kind: 16, bytes: values.iter().flat_map(|v| v.to_le_bytes()).collect() }
        }
    }

    /// The elements as unsigned numbers; `None` for other types.
    pub(super) fn numbers(&self) -> Option<Vec<u64>> {
        let Self::Data { kind: kind @ (1 | 3 | 4 | 16), bytes } = self else { return None };
        let (size, _) = sizes(*kind)?;
        Some(bytes.chunks_exact(size).map(|element| Form::written(false).number(element)).collect())
    }
}

impl Directory {
    pub(super) fn get(&self, tag: u16) -> Option<&Value> {
        self.entries.iter().find_map(|(other, value)| (*other == tag).then_some(value))
    }

    /// The numbers of a tag.
    pub(super) fn numbers(&self, tag: u16) -> Option<Vec<u64>> {
        self.get(tag)?.numbers()
    }

    /// The first number of a tag.
    pub(super) fn number(&self, tag: u16) -> Option<u64> {
        self.numbers(tag)?.first().copied()
    }

    /// The bytes of a tag, whatever its type.
    pub(super) fn bytes(&self, tag: u16) -> Option<&[u8]> {
        if let Some(Value::Data { bytes, .. }) = self.get(tag) { Some(bytes) } else { None }
    }

    pub(super) fn set(&mut self, tag: u16, value: Value) {
        self.entries.retain(|(other, _)| *other != tag);
        self.entries.push((tag, value));
        self.entries.sort_by_key(|(tag, _)| *tag);
    }
}

/// Reads the header of a TIFF structure; returns its form and the offset of its first directory.
pub(super) fn header(bytes: &[u8]) -> Option<(Form, usize)> {
    let big_endian = match bytes.get(..2)? {
        b"II" => false,
        b"MM" => true,
        _ => return None,
    };
    let small = Form { big_endian, big: false };
    match small.number(bytes.get(2..4)?) {
        42 => Some((small, usize::try_from(small.number(bytes.get(4..8)?)).ok()?)),
        43 if small.number(bytes.get(4..8)?) == if big_endian { 0x0008_0000 } else { 8 } => {
            let form = Form { big: true, ..small };
            Some((form, usize::try_from(form.number(bytes.get(8..16)?)).ok()?))
        }
        _ => None,
    }
}

/// Reads the directory at an offset; returns it with the offset of the next one, 0 if there is none. Entries that do not fit into the
/// file or have unknown types are left out.
pub(super) fn read(bytes: &[u8], form: Form, offset: usize) -> Option<(Directory, u64)> {
    read_nested(bytes, form, offset, DEPTH)
}

fn read_nested(bytes: &[u8], form: Form, offset: usize, depth: usize) -> Option<(Directory, u64)> {
    let (entries, next) = entries(bytes, form, offset)?;
    let mut directory = Directory::default();
    for at in entries.step_by(form.entry_bytes()) {
        let tag = form.number(&bytes[at..at + 2]) as u16;
        let kind = form.number(&bytes[at + 2..at + 4]) as u16;
        let Some(place) = place_of(bytes, form, at) else { continue };
        let data = &bytes[place.offset..][..place.length];
        if SUB_DIRECTORIES.contains(&tag) && depth > 1 {
            let at = usize::try_from(form.number(data)).ok();
            if let Some((sub, _)) = at.and_then(|at| read_nested(bytes, form, at, depth - 1)) {
                directory.entries.push((tag, Value::Directory(sub)));
            }
        } else {
            directory.entries.push((tag, Value::Data { kind, bytes: little_endian(data, kind, form) }));
        }
    }
    directory.entries.sort_by_key(|(tag, _)| *tag);
    directory.entries.dedup_by_key(|(tag, _)| *tag);
    Some((directory, next))
}

/// Where a directory's entries lie, and the offset of the next directory.
fn entries(bytes: &[u8], form: Form, offset: usize) -> Option<(Range<usize>, u64)> {
    let start = offset.checked_add(form.count_bytes())?;
    let count = form.number(bytes.get(offset..start)?);
    if count == 0 || count > MOST_ENTRIES {
        return None;
    }
    let end = start + usize::try_from(count).ok()? * form.entry_bytes();
    let behind = bytes.get(end..)?;
    // A file that ends right behind its only directory lacks the offset; readers take that for none.
    let next = behind.get(..form.offset_bytes()).map_or(0, |next| form.number(next));
    Some((start..end, next))
}

/// Where the value of the entry at `at` lies: in the entry if there is room, else elsewhere.
fn place_of(bytes: &[u8], form: Form, at: usize) -> Option<Place> {
    let room = form.offset_bytes();
    let (size, _) = sizes(form.number(&bytes[at + 2..at + 4]) as u16)?;
    let count = usize::try_from(form.number(&bytes[at + 4..][..room])).ok()?;
    let length = count.checked_mul(size).filter(|&length| length > 0)?;
    let inside = at + 4 + room;
    let offset =
        if length <= room { inside } else { usize::try_from(form.number(&bytes[inside..][..room])).ok()? };
    (offset.checked_add(length)? <= bytes.len()).then_some(Place { offset, length })
}

/// Makes the entry of a tag in the directory at `offset` a single SHORT, or LONG if it needs to be; does nothing if there is none.
pub(super) fn overwrite(bytes: &mut [u8], form: Form, offset: usize, tag: u16, value: u32) {
    let Some((entries, _)) = entries(bytes, form, offset) else { return };
    let is_tag = |at: &usize| form.number(&bytes[*at..*at + 2]) == u64::from(tag);
    let Some(at) = entries.step_by(form.entry_bytes()).find(is_tag) else { return };
    let room = form.offset_bytes();
    let (kind, size) = if value > 0xffff { (4, 4) } else { (3, 2) };
    for (at, length, value) in [(at + 2, 2, kind), (at + 4, room, 1), (at + 4 + room, size, value)] {
        let field = &mut bytes[at..at + length];
        field.copy_from_slice(&u64::from(value).to_le_bytes()[..length]);
        if form.big_endian {
            field.reverse();
        }
    }
}

fn little_endian(data: &[u8], kind: u16, form: Form) -> Vec<u8> {
    let mut data = data.to_vec();
    let unit = sizes(kind).map_or(1, |(_, unit)| unit);
    match unit {
        _ if !form.big_endian || unit == 1 => {}
        2 => swap_bytes(&mut data),
        _ => data.chunks_exact_mut(unit).for_each(<[u8]>::reverse),
    }
    data
}

/// Serializes a directory, little-endian, to stand at the file offset `at` (even), with all that belongs to it behind it.
pub(super) fn write(directory: &Directory, big: bool, at: u64) -> Vec<u8> {
    let form = Form::written(big);
    let room = form.offset_bytes();
    let fixed = form.count_bytes() + directory.entries.len() * form.entry_bytes() + room;
    let mut head = Vec::with_capacity(fixed);
    let mut behind = Vec::new();
    let number =
        |head: &mut Vec<u8>, value: u64, bytes: usize| head.extend_from_slice(&value.to_le_bytes()[..bytes]);
    number(&mut head, directory.entries.len() as u64, form.count_bytes());
    for (tag, value) in &directory.entries {
        let here = |behind: &Vec<u8>| at + (fixed + behind.len()) as u64;
        number(&mut head, u64::from(*tag), 2);
        match value {
            Value::Data { kind, bytes } => {
                let size = sizes(*kind).map_or(1, |(size, _)| size);
                number(&mut head, u64::from(*kind), 2);
                number(&mut head, (bytes.len() / size) as u64, room);
                if bytes.len() <= room {
                    head.extend_from_slice(bytes);
                    head.resize(head.len() + room - bytes.len(), 0);
                } else {
                    number(&mut head, here(&behind), room);
                    behind.extend_from_slice(bytes);
                }
            }
            Value::Directory(sub) => {
                number(&mut head, if big { 18 } else { 4 }, 2); // IFD8, LONG
                number(&mut head, 1, room);
                number(&mut head, here(&behind), room);
                let sub = write(sub, big, here(&behind));
                behind.extend_from_slice(&sub);
            }
        }
        behind.resize(behind.len().next_multiple_of(2), 0); // values begin on word boundaries
    }
    number(&mut head, 0, room); // no next directory
    head.append(&mut behind);
    head
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn an_overwritten_entry_is_one_number() {
        for (order, big_endian) in [(b"II*\0\x08\0\0\0", false), (b"MM\0*\0\0\0\x08", true)] {
            let form = Form { big_endian, big: false };
            let entry = if big_endian {
                b"\0\x01\x01\x02\0\x03\0\0\0\x03\0\0\0\x1a\0\0\0\0"
            } else {
                b"\x01\0\x02\x01\x03\0\x03\0\0\0\x1a\0\0\0\0\0\0\0"
            };
            let mut file = [&order[..], entry, &[0, 8, 0, 8, 0, 8]].concat();
            for value in [8, 70_000] {
                overwrite(&mut file, form, 8, 258, value);
                assert_eq!(read(&file, form, 8).unwrap().0.numbers(258), Some(vec![u64::from(value)]));
            }
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
