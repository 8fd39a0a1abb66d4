//! The directories of a file that is written: their offsets, and the links between them.
//!
//! A picture's directory is followed by those of its overviews. Some of these are links of the
//! chain of all directories; others are below the picture's, which has their offsets.

use std::borrow::Cow;
use std::fs::File;
use std::io::{self, BufWriter, Read, Write};
use std::os::unix::fs::FileExt;

use crate::formats::tiff::tags;
use crate::formats::tiff::write::written::Written;
use crate::io::output::FileAt;
use crate::metadata::ifd::{self, Directory, Form, Value};

/// The bytes before any directory: the header of a BigTIFF. That of a TIFF is shorter.
pub(crate) const HEADER: u64 = 16;

/// TIFF's types of numbers that are the offsets of directories: IFD and IFD8.
const OFFSET: u16 = 13;
const LONG_OFFSET: u16 = 18;

/// The directories of a picture, in their order: its own, and those of its overviews.
///
/// They are made one picture after the other, as a file may have many.
struct Directories<'w> {
    nodes: Vec<Node<'w>>,
}

/// One directory.
struct Node<'w> {
    written: &'w Written,
    described: Directory,
    /// The number of the next directories that are below it.
    below: usize,
    /// Whether it is below another.
    is_below: bool,
}

impl<'w> Directories<'w> {
    fn new(page: &'w Written) -> Self {
        let node = |written: &'w Written| Node {
            written,
            described: written.describe(),
            below: written.companions().into_iter().filter(|page| page.is_below()).count(),
            is_below: written.is_below(),
        };
        Self { nodes: std::iter::once(page).chain(page.companions()).map(node).collect() }
    }

    /// Returns the bytes that they take.
    fn bytes(&mut self, big: bool) -> u64 {
        self.place(big, 0).iter().map(|(_, bytes)| bytes).sum()
    }

    /// Writes them from the offset `at` on, which is even. Another picture's may follow.
    ///
    /// Returns the offset after them.
    fn write(&mut self, out: &mut dyn Write, big: bool, at: u64, is_last: bool) -> io::Result<u64> {
        let places = self.place(big, at);
        let end = places.iter().map(|(_, bytes)| bytes).fold(at, |end, bytes| end + bytes);
        let after = if is_last { 0 } else { end };
        for (number, node) in self.nodes.iter().enumerate() {
            let in_chain = |&later: &usize| !self.nodes[later].is_below;
            let next = (number + 1..self.nodes.len()).find(in_chain).map_or(after, |next| places[next].0);
            let next = if node.is_below { 0 } else { next };
            ifd::write_to(out, &node.written.entries(&node.described), big, places[number].0, next)?;
        }
        Ok(end)
    }

    /// Sets the offsets of those below each, if the first one lies at the offset `at`.
    ///
    /// Returns the offset and length of each.
    fn place(&mut self, big: bool, at: u64) -> Vec<(u64, u64)> {
        // Their lengths do not depend on their offsets.
        self.name_those_below(big, &vec![0; self.nodes.len()]);
        let mut next = at;
        let places = self.nodes.iter().map(|node| {
            let bytes = ifd::written_bytes(&node.written.entries(&node.described), Form::written(big));
            next += bytes;
            (next - bytes, bytes)
        });
        let places: Vec<_> = places.collect();
        self.name_those_below(big, &places.iter().map(|(place, _)| *place).collect::<Vec<_>>());
        places
    }

    fn name_those_below(&mut self, big: bool, places: &[u64]) {
        for number in 0..self.nodes.len() {
            let below = self.nodes[number].below;
            if below == 0 {
                continue;
            }
            let (nodes, places) = (&self.nodes[number + 1..], &places[number + 1..]);
            let below = nodes.iter().zip(places).filter(|(node, _)| node.is_below).take(below);
            let offsets =
                below.flat_map(|(_, place)| place.to_le_bytes().into_iter().take(if big { 8 } else { 4 }));
            let kind = if big { LONG_OFFSET } else { OFFSET };
            let value = Value::Data { kind, bytes: offsets.collect() };
            self.nodes[number].described.set(tags::SUB_IFDS, value);
        }
    }
}

/// The place of a file's pixels.
pub(crate) struct PixelsAt {
    /// Bytes of room for directories between the header and the pixels.
    pub(crate) room: u64,
    /// The offset after the pixels.
    pub(crate) end: u64,
    /// Whether the pages lie one after the other and only the first has a directory.
    ///
    /// Readers then find the others even beyond 4 GiB.
    pub(crate) joined: bool,
}

/// Writes the directories of a file, and the header that leads to them.
///
/// They go before the pixels if there is room. The file begins at an offset of `out`, and becomes a
/// BigTIFF if it is to be `big` or has to. Returns the bytes of the file.
pub(crate) fn finish<'p>(
    pages: impl ExactSizeIterator<Item = Cow<'p, Written>> + Clone,
    &PixelsAt { room, end, joined }: &PixelsAt,
    big: bool,
    out: &File,
    start: u64,
) -> io::Result<u64> {
    let bytes_of = |big| pages.clone().map(|page| Directories::new(&page).bytes(big)).sum::<u64>();
    let (behind, small) = (end.next_multiple_of(2), bytes_of(false));
    let needs_no_more = joined && small <= room || behind + small <= u32::MAX.into();
    let big = big || !needs_no_more;
    let bytes = if big { bytes_of(true) } else { small };
    let is_before = bytes <= room && !(joined && big);
    let first = if is_before { HEADER } else { behind };
    let mut to = BufWriter::new(FileAt { file: out, at: start + first });
    let (count, mut at) = (pages.len(), first);
    for (number, page) in pages.enumerate() {
        at = Directories::new(&page).write(&mut to, big, at, number + 1 == count)?;
    }
    to.flush()?;
    // A part that was never written would look as if it had not arrived yet.
    let unused = if is_before { at } else { HEADER }..HEADER + room;
    let mut zeros = io::repeat(0).take(unused.end.saturating_sub(unused.start));
    io::copy(&mut zeros, &mut FileAt { file: out, at: start + unused.start })?;
    out.write_all_at(&header(big, first), start)?;
    Ok(end.max(first + bytes))
}

/// Returns the offsets of the pictures' directories, if these follow the pixels.
pub(crate) fn offsets_behind<'p>(
    pages: impl Iterator<Item = Cow<'p, Written>>,
    end: u64,
    big: bool,
) -> Vec<u64> {
    let offsets = pages.scan(end.next_multiple_of(2), |next, page| {
        let offset = *next;
        *next += Directories::new(&page).bytes(big);
        Some(offset)
    });
    offsets.collect()
}

/// Returns the header of a file with its first directory at an offset.
fn header(big: bool, first: u64) -> Vec<u8> {
    match big {
        true => [&b"II+\0\x08\0\0\0"[..], &first.to_le_bytes()].concat(),
        false => [&b"II*\0"[..], &(first as u32).to_le_bytes()].concat(),
    }
}
