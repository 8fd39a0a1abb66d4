//! Reading of directories: first their tables, which give the memory for the values, then these.

use std::io::{self, ErrorKind};

use super::{Directory, Form, SUB_DIRECTORIES, Value, sizes};
use crate::io::reader::Bytes;
use crate::samples::swap_bytes;

/// How deep directories of metadata may be nested: EXIF in the main one, interoperability in EXIF.
const DEPTH: usize = 3;

/// More entries than any file has a use for; keeps damaged files from costing time.
const MAX_ENTRIES: u64 = 4096;

/// Reads the header of a TIFF structure; returns its form and the offset of its first directory.
pub(crate) fn header(bytes: &[u8]) -> Option<(Form, usize)> {
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

/// Reads the directory at an offset; returns it with the offset of the next one, 0 at the last.
///
/// Entries that lie outside the file or have unknown types are left out.
pub(crate) fn read(mut bytes: &[u8], form: Form, offset: usize) -> Option<(Directory, u64)> {
    let outline = Outline::read(&mut bytes, form, offset).ok()?;
    let next = outline.next;
    Some((outline.fill(&mut bytes).ok()?, next))
}

/// Reads the first directory of a TIFF structure.
pub(crate) fn first(bytes: &[u8]) -> Option<Directory> {
    let (form, offset) = header(bytes)?;
    read(bytes, form, offset).map(|(directory, _)| directory)
}

/// A directory without its values, which have yet to be read.
#[derive(Debug)]
pub(crate) struct Outline {
    form: Form,
    entries: Vec<(u16, Content)>,
    cut: Vec<u16>,
    /// The offset of the next directory, 0 at the last.
    pub(crate) next: u64,
}

/// The content of an entry.
#[derive(Debug)]
enum Content {
    Data { kind: u16, place: Place },
    Directory(Outline),
}

/// The place of a value in the file.
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

impl Outline {
    /// Bytes of memory for an entry in addition to its value's.
    const ENTRY: u64 = (size_of::<(u16, Content)>() + size_of::<(u16, Value)>() + 32) as u64;

    /// Reads the tables of the directory at an offset and of those in it.
    ///
    /// # Errors
    /// The system's, or one of another kind if there is no valid directory.
    pub(crate) fn read(bytes: &mut impl Bytes, form: Form, offset: usize) -> io::Result<Self> {
        let length = bytes.length();
        outline(bytes, form, offset, DEPTH, &mut Room { values: length, tables: length })
    }

    /// Returns the bytes of memory that the directory takes once its values are read.
    pub(crate) fn bytes(&self) -> u64 {
        let contents = self.entries.iter().map(|(_, content)| match content {
            Content::Data { place, .. } => place.length as u64,
            Content::Directory(sub) => sub.bytes(),
        });
        Self::ENTRY * self.entries.len() as u64 + contents.sum::<u64>()
    }

    /// Returns the same without some tags, to leave their values unread.
    pub(crate) fn without(mut self, tags: &[u16]) -> Self {
        self.entries.retain(|(tag, _)| !tags.contains(tag));
        self
    }

    /// Reads the values.
    ///
    /// # Errors
    /// The system's.
    pub(crate) fn fill(self, bytes: &mut impl Bytes) -> io::Result<Directory> {
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

/// Returns the numbers of some tags of the directory at `offset` that lie in their entries.
///
/// Also returns the offset of the directory that follows it, 0 at the last.
///
/// # Errors
/// As for [`Outline::read`].
pub(crate) fn glance<const N: usize>(
    bytes: &mut impl Bytes,
    form: Form,
    offset: usize,
    tags: [u16; N],
) -> io::Result<([Option<u64>; N], u64)> {
    let table = Table::read(bytes, form, offset)?;
    let numbers = tags.map(|wanted| {
        let mut entries = table.entries(form).map(|(_, entry)| entry);
        let entry = entries.find(|entry| form.number(&entry[..2]) == u64::from(wanted))?;
        let place = place_of(entry, 0, form).filter(|place| place.length <= form.offset_bytes())?;
        Some(form.number(&entry[place.offset..][..place.length]))
    });
    Ok((numbers, table.next))
}

/// The bytes that are left for values and for tables.
///
/// Neither overlap: the total of each is at most the length of the file.
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
        // Only the first of several entries counts. Tags should ascend, which makes searches rare.
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
    /// The offset of its entries.
    start: usize,
    bytes: Vec<u8>,
    /// The offset of the next directory, 0 at the last.
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
            // A file that ends right after its only directory lacks the offset; readers take that
            // as 0.
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

/// Returns the place of the value of the entry at the offset `at`.
///
/// It is in the entry if it fits there, else elsewhere, be it beyond the file.
///
/// `None` if its type or length is unknown.
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

/// Returns the type by which a tag's bytes are put into little-endian order.
///
/// IPTC data are bytes, even where a writer declares them as LONGs.
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
