//! The directories of a file that is written: their offsets, and the links between them.
//!
//! A picture's directory is followed by those of its overviews. Some of these are links of the
//! chain of all directories; others are below the picture's, which has their offsets.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::FileExt;

use super::super::ifd::{self, Directory, Form, Value};
use super::tags;
use super::written::Written;
use crate::output::FileAt;

/// The bytes before any directory: the header of a BigTIFF. That of a TIFF is shorter.
pub(super) const HEADER: u64 = 16;

/// TIFF's types of numbers that are the offsets of directories: IFD and IFD8.
const OFFSET: u16 = 13;
const LONG_OFFSET: u16 = 18;

/// All directories of a file, in their order.
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
    fn new(pages: &'w [Written]) -> Self {
        let node = |written: &'w Written| Node {
            written,
            described: written.describe(),
            below: written.overviews.iter().filter(|overview| overview.is_below()).count(),
            is_below: written.is_below(),
        };
        let with_overviews = |page: &'w Written| std::iter::once(page).chain(&page.overviews);
        Self { nodes: pages.iter().flat_map(with_overviews).map(node).collect() }
    }

    /// Returns the bytes that they take.
    fn bytes(&mut self, big: bool) -> u64 {
        self.place(big, 0).iter().map(|(_, bytes)| bytes).sum()
    }

    /// Writes them from the offset `at` on, which is even.
    fn write(&mut self, out: &mut dyn Write, big: bool, at: u64) -> io::Result<()> {
        let places = self.place(big, at);
        for (number, node) in self.nodes.iter().enumerate() {
            let in_chain = |&later: &usize| !self.nodes[later].is_below;
            let next = (number + 1..self.nodes.len()).find(in_chain).filter(|_| !node.is_below);
            let next = next.map_or(0, |next| places[next].0);
            ifd::write_to(out, &node.written.entries(&node.described), big, places[number].0, next)?;
        }
        Ok(())
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
pub(super) struct PixelsAt {
    /// Bytes of room for directories between the header and the pixels.
    pub(super) room: u64,
    /// The offset after the pixels.
    pub(super) end: u64,
    /// Whether the pages lie one after the other and only the first has a directory.
    ///
    /// Readers then find the others even beyond 4 GiB.
    pub(super) joined: bool,
}

/// Writes the directories of a file, and the header that leads to them.
///
/// They go before the pixels if there is room. The file begins at an offset of `out`, and becomes a
/// BigTIFF if it is to be `big` or has to. Returns the bytes of the file.
pub(super) fn finish(
    pages: &[Written],
    &PixelsAt { room, end, joined }: &PixelsAt,
    big: bool,
    (out, start): (&File, u64),
) -> io::Result<u64> {
    let mut directories = Directories::new(pages);
    let (behind, small) = (end.next_multiple_of(2), directories.bytes(false));
    let needs_no_more = joined && small <= room || behind + small <= u32::MAX.into();
    let big = big || !needs_no_more;
    let bytes = directories.bytes(big);
    let is_before = bytes <= room && !(joined && big);
    let first = if is_before { HEADER } else { behind };
    let mut to = BufWriter::new(FileAt { file: out, at: start + first });
    directories.write(&mut to, big, first)?;
    to.flush()?;
    out.write_all_at(&header(big, first), start)?;
    Ok(end.max(first + bytes))
}

/// Returns the header of a file with its first directory at an offset.
fn header(big: bool, first: u64) -> Vec<u8> {
    match big {
        true => [&b"II+\0\x08\0\0\0"[..], &first.to_le_bytes()].concat(),
        false => [&b"II*\0"[..], &(first as u32).to_le_bytes()].concat(),
    }
}
