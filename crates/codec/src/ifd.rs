//! Image file directories, the tagged structure of TIFF and EXIF (TIFF 6.0, section 2; BigTIFF; EXIF 3.0, section 4.6), read and written as
//! a whole. Values are kept as they are, but in little-endian order. The few tags that point to further directories of metadata are
//! followed, so that these can be moved from one file to another.

use std::io::{self, ErrorKind, Write};

use super::samples::swap_bytes;

/// Tags whose value is the offset of a directory of metadata: EXIF, GPS and interoperability.
pub(super) const SUB_DIRECTORIES: [u16; 3] = [34665, 34853, 40965];

/// How deep directories of metadata may be nested: EXIF in the main one, interoperability in EXIF.
const DEPTH: usize = 3;

/// More entries than any file has a use for; keeps damaged files from costing time.
const MAX_ENTRIES: u64 = 4096;

/// The byte order and offset size of a TIFF structure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Form {
    pub(super) big_endian: bool,
    /// Whether this is BigTIFF, with 64-bit offsets.
    pub(super) big: bool,
}

impl Form {
    /// The form that is written: little-endian.
    pub(super) const fn written(big: bool) -> Self {
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

    /// Returns the size of a directory in bytes, without the values that do not fit into its entries.
    const fn table_bytes(self, entries: usize) -> usize {
        self.count_bytes() + entries * self.entry_bytes() + self.offset_bytes()
    }

    /// Reads an unsigned number of up to 8 bytes.
    pub(super) fn number(self, bytes: &[u8]) -> u64 {
        let digits = bytes.iter().map(|&byte| u64::from(byte));
        match self.big_endian {
            true => digits.fold(0, |n, digit| n << 8 | digit),
            false => digits.rev().fold(0, |n, digit| n << 8 | digit),
        }
    }
}

/// A directory, sorted by tag.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Directory {
    pub(super) entries: Vec<(u16, Value)>,
    /// The tags of entries whose values do not lie in the file, or not all of them.
    pub(super) cut: Vec<u16>,
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
#[derive(Debug)]
struct Place {
    offset: usize,
    length: usize,
}

impl Place {
    fn end(&self) -> Option<usize> {
        self.offset.checked_add(self.length)
    }
}

/// Returns the size in bytes of an element of a type, and of each of the numbers that the element consists of.
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
    pub(super) fn shorts(values: &[u16]) -> Self {
        Self::Data { kind: 3, bytes: values.iter().flat_map(|v| v.to_le_bytes()).collect() }
    }

    /// Makes a value of LONGs, or of LONG8s if a number needs it.
    pub(super) fn longs(values: &[u64]) -> Self {
        if values.iter().all(|&v| u32::try_from(v).is_ok()) {
            Self::Data { kind: 4, bytes: values.iter().flat_map(|&v| (v as u32).to_le_bytes()).collect() }
        } else {
            Self::Data { kind: 16, bytes: values.iter().flat_map(|v| v.to_le_bytes()).collect() }
        }
    }

    /// Returns the number of elements.
    pub(super) fn count(&self) -> usize {
        match self {
            Self::Data { kind, bytes } => sizes(*kind).map_or(0, |(size, _)| bytes.len() / size),
            Self::Directory(_) => 1,
        }
    }

    /// Returns its bytes.
    pub(super) fn bytes(&self) -> u64 {
        match self {
            Self::Data { bytes, .. } => bytes.len() as u64,
            Self::Directory(sub) => sub.bytes_of_values(),
        }
    }

    /// Returns the bytes that are written for it behind the directory's entries.
    fn bytes_behind(&self, form: Form) -> u64 {
        match self {
            Self::Data { bytes, .. } if bytes.len() <= form.offset_bytes() => 0,
            Self::Data { bytes, .. } => bytes.len().next_multiple_of(2) as u64,
            Self::Directory(sub) => written_bytes(&sub.borrowed(), form),
        }
    }

    /// Returns the elements as unsigned numbers; `None` for other types.
    pub(super) fn numbers(&self) -> Option<Numbers<'_>> {
        let Self::Data { kind: kind @ (1 | 3 | 4 | 13 | 16 | 18), bytes } = self else { return None };
        let (size, _) = sizes(*kind)?;
        Some(Numbers { bytes, size })
    }
}

/// Unsigned numbers, in little-endian order.
#[derive(Clone, Copy, Debug)]
pub(super) struct Numbers<'v> {
    bytes: &'v [u8],
    /// Bytes per number.
    size: usize,
}

impl Numbers<'_> {
    pub(super) fn count(self) -> usize {
        self.bytes.len() / self.size
    }

    pub(super) fn get(self, index: usize) -> Option<u64> {
        let start = index.checked_mul(self.size)?;
        Some(Form::written(false).number(self.bytes.get(start..start.checked_add(self.size)?)?))
    }

    pub(super) fn iter(self) -> impl Iterator<Item = u64> + Clone {
        self.bytes.chunks_exact(self.size).map(|number| Form::written(false).number(number))
    }
}

impl Directory {
    pub(super) fn get(&self, tag: u16) -> Option<&Value> {
        self.entries.iter().find_map(|(other, value)| (*other == tag).then_some(value))
    }

    /// Returns the numbers of a tag.
    pub(super) fn numbers(&self, tag: u16) -> Option<Numbers<'_>> {
        self.get(tag)?.numbers()
    }

    /// Returns the first number of a tag.
    pub(super) fn number(&self, tag: u16) -> Option<u64> {
        self.numbers(tag)?.get(0)
    }

    /// Returns the bytes of a tag, whatever its type.
    pub(super) fn bytes(&self, tag: u16) -> Option<&[u8]> {
        if let Some(Value::Data { bytes, .. }) = self.get(tag) { Some(bytes) } else { None }
    }

    /// Returns the total bytes of all values.
    pub(super) fn bytes_of_values(&self) -> u64 {
        self.entries.iter().map(|(_, value)| value.bytes()).sum()
    }

    /// Returns the entries by reference.
    pub(super) fn borrowed(&self) -> Vec<(u16, &Value)> {
        self.entries.iter().map(|(tag, value)| (*tag, value)).collect()
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

/// Bytes with random access, in memory or in a file.
pub(super) trait Bytes {
    /// Returns the number of bytes.
    fn length(&self) -> usize;

    /// Returns `length` bytes from `offset` on.
    ///
    /// # Errors
    /// `UnexpectedEof` if they are not all there; otherwise the system's.
    fn at(&mut self, offset: usize, length: usize) -> io::Result<&[u8]>;

    /// Returns a copy of `length` bytes from `offset` on.
    ///
    /// # Errors
    /// As for [`Bytes::at`].
    fn copy(&mut self, offset: usize, length: usize) -> io::Result<Vec<u8>> {
        self.at(offset, length).map(<[u8]>::to_vec)
    }
}

impl Bytes for &[u8] {
    fn length(&self) -> usize {
        self.len()
    }

    fn at(&mut self, offset: usize, length: usize) -> io::Result<&[u8]> {
        let found = offset.checked_add(length).and_then(|end| self.get(offset..end));
        found.ok_or_else(|| ErrorKind::UnexpectedEof.into())
    }
}

/// Reads the directory at an offset; returns it with the offset of the next one, 0 if there is none. Entries that lie outside the file or
/// have unknown types are left out.
pub(super) fn read(mut bytes: &[u8], form: Form, offset: usize) -> Option<(Directory, u64)> {
    let outline = Outline::read(&mut bytes, form, offset).ok()?;
    let next = outline.next;
    Some((outline.fill(&mut bytes).ok()?, next))
}

/// A directory whose values have yet to be read.
#[derive(Debug)]
pub(super) struct Outline {
    form: Form,
    entries: Vec<(u16, Content)>,
    cut: Vec<u16>,
    /// The offset of the next directory, 0 if there is none.
    pub(super) next: u64,
}

/// What an entry holds.
#[derive(Debug)]
enum Content {
    Data { kind: u16, place: Place },
    Directory(Outline),
}

impl Outline {
    /// Bytes of memory for an entry besides its value's.
    const ENTRY: u64 = (size_of::<(u16, Content)>() + size_of::<(u16, Value)>() + 32) as u64;

    /// Reads the tables of the directory at an offset and of those in it.
    ///
    /// # Errors
    /// The system's, or one of another kind if there is no valid directory.
    pub(super) fn read(bytes: &mut impl Bytes, form: Form, offset: usize) -> io::Result<Self> {
        let length = bytes.length();
        outline(bytes, form, offset, DEPTH, &mut Room { values: length, tables: length })
    }

    /// Returns the bytes of memory that the directory takes once its values are read.
    pub(super) fn bytes(&self) -> u64 {
        let contents = self.entries.iter().map(|(_, content)| match content {
            Content::Data { place, .. } => place.length as u64,
            Content::Directory(sub) => sub.bytes(),
        });
        Self::ENTRY * self.entries.len() as u64 + contents.sum::<u64>()
    }

    /// Reads the values.
    ///
    /// # Errors
    /// The system's.
    pub(super) fn fill(self, bytes: &mut impl Bytes) -> io::Result<Directory> {
        let mut directory = Directory { entries: Vec::with_capacity(self.entries.len()), cut: self.cut };
        for (tag, content) in self.entries {
            let value = match content {
                Content::Data { kind, place } => {
                    let mut data = bytes.copy(place.offset, place.length)?;
                    to_little_endian(&mut data, unit_kind(tag, kind), self.form);
                    Value::Data { kind, bytes: data }
                }
                Content::Directory(sub) => Value::Directory(sub.fill(bytes)?),
            };
            directory.entries.push((tag, value));
        }
        directory.entries.sort_by_key(|(tag, _)| *tag);
        Ok(directory)
    }
}

/// Returns the numbers of some tags of the directory at `offset`, as far as it has them and they lie in their entries; and the offset of the
/// directory that follows it, 0 if there is none.
///
/// # Errors
/// As for [`Outline::read`].
pub(super) fn glance<const N: usize>(
    bytes: &mut impl Bytes,
    form: Form,
    offset: usize,
    tags: [u16; N],
) -> io::Result<([Option<u64>; N], u64)> {
    let table = Table::read(bytes, form, offset)?;
    let numbers = tags.map(|wanted| {
        let mut entries = table.entries(form).map(|(_, entry)| entry);
        let entry = entries.find(|entry| form.number(&entry[..2]) == u64::from(wanted))?;
        let place = place_of(entry, 0, form)
            .filter(|place| place.end() == Some(place.length + 4 + form.offset_bytes()))?;
        Some(form.number(&entry[place.offset..][..place.length]))
    });
    Ok((numbers, table.next))
}

/// The bytes that are left for values and for tables. Neither overlap, so the total of each is at most the length of the file.
struct Room {
    values: usize,
    tables: usize,
}

fn outline(
    bytes: &mut impl Bytes,
    form: Form,
    offset: usize,
    depth: usize,
    room: &mut Room,
) -> io::Result<Outline> {
    let table = Table::read(bytes, form, offset)?;
    room.tables = room.tables.checked_sub(table.bytes.len()).ok_or(ErrorKind::InvalidData)?;
    let mut outline = Outline { form, entries: Vec::new(), cut: Vec::new(), next: table.next };
    for (at, entry) in table.entries(form) {
        let (tag, kind) = (form.number(&entry[..2]) as u16, form.number(&entry[2..4]) as u16);
        let Some(place) = place_of(entry, at, form) else { continue };
        if place.end().is_none_or(|end| end > bytes.length()) {
            outline.cut.push(tag);
            continue;
        }
        // Only the first of several entries counts. Tags should ascend, so there is rarely anything to search.
        let ascends = outline.entries.last().is_none_or(|(last, _)| *last < tag);
        if !ascends && outline.entries.iter().any(|(other, _)| *other == tag) {
            continue;
        }
        room.values = room.values.checked_sub(place.length).ok_or(ErrorKind::InvalidData)?;
        if SUB_DIRECTORIES.contains(&tag) && depth > 1 && place.length <= form.offset_bytes() {
            let at = usize::try_from(form.number(bytes.at(place.offset, place.length)?));
            match at.map(|at| self::outline(bytes, form, at, depth - 1, room)) {
                Ok(Ok(sub)) => outline.entries.push((tag, Content::Directory(sub))),
                Ok(Err(error)) if error.raw_os_error().is_some() => return Err(error),
                Ok(Err(error)) if error.kind() == ErrorKind::UnexpectedEof => outline.cut.push(tag),
                _ => {}
            }
        } else {
            outline.entries.push((tag, Content::Data { kind, place }));
        }
    }
    Ok(outline)
}

/// The entries of a directory, as in the file.
struct Table {
    /// Where its entries begin.
    start: usize,
    bytes: Vec<u8>,
    /// The offset of the next directory, 0 if there is none.
    next: u64,
}

impl Table {
    fn read(bytes: &mut impl Bytes, form: Form, offset: usize) -> io::Result<Self> {
        let count = form.number(bytes.at(offset, form.count_bytes())?);
        if count == 0 || count > MAX_ENTRIES {
            return Err(ErrorKind::InvalidData.into());
        }
        let start = offset + form.count_bytes();
        let entries = bytes.at(start, count as usize * form.entry_bytes())?.to_vec();
        let next = match bytes.at(start + entries.len(), form.offset_bytes()) {
            Ok(next) => form.number(next),
            // A file that ends right behind its only directory lacks the offset; readers take that as none.
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => 0,
            Err(error) => return Err(error),
        };
        Ok(Self { start, bytes: entries, next })
    }

    /// Returns the entries, each with its offset.
    fn entries(&self, form: Form) -> impl Iterator<Item = (usize, &[u8])> {
        let places = (self.start..).step_by(form.entry_bytes());
        places.zip(self.bytes.chunks_exact(form.entry_bytes()))
    }
}

/// Returns where the value of the entry at the offset `at` lies: in the entry if it fits there, else elsewhere, be it beyond the file. `None`
/// if it has no known type or length.
fn place_of(entry: &[u8], at: usize, form: Form) -> Option<Place> {
    let room = form.offset_bytes();
    let (size, _) = sizes(form.number(&entry[2..4]) as u16)?;
    let count = usize::try_from(form.number(&entry[4..][..room])).ok()?;
    let length = count.checked_mul(size).filter(|&length| length > 0)?;
    let inside = 4 + room;
    let offset =
        if length <= room { at + inside } else { usize::try_from(form.number(&entry[inside..])).ok()? };
    Some(Place { offset, length })
}

/// Returns the type by which a tag's bytes are put into little-endian order: IPTC data are bytes, even where a writer declares them as
/// LONGs.
fn unit_kind(tag: u16, kind: u16) -> u16 {
    const IPTC: u16 = 33723;
    const UNDEFINED: u16 = 7;
    if tag == IPTC { UNDEFINED } else { kind }
}

fn to_little_endian(data: &mut [u8], kind: u16, form: Form) {
    let unit = sizes(kind).map_or(1, |(_, unit)| unit);
    match unit {
        _ if !form.big_endian || unit == 1 => {}
        2 => swap_bytes(data, 2),
        _ => data.chunks_exact_mut(unit).for_each(<[u8]>::reverse),
    }
}

/// Serializes a directory of these entries as a structure of its own, with a header.
pub(super) fn write_file(entries: &[(u16, &Value)]) -> Vec<u8> {
    const HEADER: &[u8; 8] = b"II*\0\x08\0\0\0";
    let length = HEADER.len() as u64 + written_bytes(entries, Form::written(false));
    let mut out = Vec::with_capacity(length as usize);
    out.extend_from_slice(HEADER);
    write_to(&mut out, entries, false, HEADER.len() as u64, 0).expect("a vector takes all that is written");
    out
}

/// Writes a directory, little-endian, at the file offset `at` (even), with everything that belongs to it behind it, and returns the bytes
/// written. `next` is the offset of the directory that follows it, 0 if there is none.
pub(super) fn write_to(
    out: &mut dyn Write,
    entries: &[(u16, &Value)],
    big: bool,
    at: u64,
    next: u64,
) -> io::Result<u64> {
    let form = Form::written(big);
    let room = form.offset_bytes();
    let mut table = Vec::with_capacity(form.table_bytes(entries.len()));
    let mut behind = at + form.table_bytes(entries.len()) as u64;
    put_number(&mut table, entries.len() as u64, form.count_bytes());
    for (tag, value) in entries {
        put_number(&mut table, u64::from(*tag), 2);
        match value {
            Value::Data { kind, bytes } => {
                let size = sizes(*kind).map_or(1, |(size, _)| size);
                put_number(&mut table, u64::from(*kind), 2);
                put_number(&mut table, (bytes.len() / size) as u64, room);
                if bytes.len() <= room {
                    table.extend_from_slice(bytes);
                    table.resize(table.len() + room - bytes.len(), 0);
                } else {
                    put_number(&mut table, behind, room);
                }
            }
            Value::Directory(_) => {
                put_number(&mut table, if big { 18 } else { 4 }, 2); // IFD8, LONG
                put_number(&mut table, 1, room);
                put_number(&mut table, behind, room);
            }
        }
        behind += value.bytes_behind(form);
    }
    put_number(&mut table, next, room);
    out.write_all(&table)?;
    let mut here = at + table.len() as u64;
    for (_, value) in entries {
        match value {
            Value::Data { bytes, .. } if bytes.len() > room => {
                out.write_all(bytes)?;
                out.write_all(&[0][..bytes.len() % 2])?; // values begin on word boundaries
            }
            Value::Data { .. } => {}
            Value::Directory(sub) => {
                write_to(out, &sub.borrowed(), big, here, 0)?;
            }
        }
        here += value.bytes_behind(form);
    }
    Ok(here - at)
}

/// Appends a number of so many bytes.
fn put_number(table: &mut Vec<u8>, value: u64, bytes: usize) {
    table.extend_from_slice(&value.to_le_bytes()[..bytes]);
}

/// Returns the bytes that a directory of these entries takes with everything that belongs to it.
pub(super) fn written_bytes(entries: &[(u16, &Value)], form: Form) -> u64 {
    let behind: u64 = entries.iter().map(|(_, value)| value.bytes_behind(form)).sum();
    form.table_bytes(entries.len()) as u64 + behind
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
        // Two BYTE values at the same offset, of 8 bytes each, which would fit into the file one after the other, and of 20 each, which
        // would not.
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
