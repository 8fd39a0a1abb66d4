//! Strips and tiles that a device inflates, all of a picture at once.

use crate::coding::streams::{CodedStreams, StreamCoder, Streams, ZLIB_HEADER, ZLIB_TRAILER, with_zlib};
use crate::formats::tiff::compression::deflate::adler32;

/// The fewest streams for a device.
///
/// It inflates each slowly, but hundreds at once, and a core is sooner done with fewer.
pub(crate) const FEWEST: usize = 8;

/// The longest strip or tile that a device inflates: a single one of this length takes it a second.
const LONGEST: u64 = 16 << 20;

/// The bytes of a stream without data.
const SHORTEST: u64 = 8;

/// Strips or tiles that a device inflated.
pub(crate) struct Inflated<'a> {
    memory: CodedStreams<'a>,
    streams: Streams,
    lengths: Vec<u32>,
    checksums: Vec<u32>,
    /// The number of the first.
    first: usize,
}

impl<'a> Inflated<'a> {
    /// Has a device inflate zlib streams of these lengths, each of at most `part` bytes of data.
    ///
    /// `first` is the number of the first strip or tile. `read` reads one by its place among them.
    pub(crate) fn new(
        coder: &'a dyn StreamCoder,
        first: usize,
        lengths: &[u64],
        part: u64,
        read: impl Fn(usize, &mut [u8]) -> bool,
    ) -> Option<Self> {
        let framing = (ZLIB_HEADER + ZLIB_TRAILER) as u64;
        let is_usual = |length: &u64| (SHORTEST..=2 * LONGEST).contains(length);
        if lengths.len() < FEWEST || !(1..=LONGEST).contains(&part) || !lengths.iter().all(is_usual) {
            return None;
        }
        let lengths: Vec<u32> = lengths.iter().map(|length| (length - framing) as u32).collect();
        let streams = Streams::inflate(&lengths, part as u32);
        let mut checksums = Vec::with_capacity(lengths.len());
        let memory = coder.code(&streams, &mut |memory| {
            streams.set_lengths(memory, &lengths);
            checksums.clear();
            streams.places(&lengths).enumerate().all(|(number, place)| {
                let stream = &mut memory[with_zlib(&place)];
                let is_read = read(number, stream) && is_zlib(stream);
                checksums.extend(stream.last_chunk().map(|sum| u32::from_be_bytes(*sum)));
                is_read
            })
        })?;
        let lengths = streams.lengths(&memory);
        Some(Self { memory, streams, lengths, checksums, first })
    }

    /// Returns the data of a strip or tile, if the device inflated it and its checksum is right.
    ///
    /// They have at least `least` bytes.
    pub(crate) fn data(&self, index: usize, least: usize) -> Option<&[u8]> {
        let number = index.checked_sub(self.first)?;
        let length = self.lengths.get(number).copied().filter(|&length| length <= self.streams.most)?;
        let data = self.memory.get(self.streams.data(number, length))?;
        (length > 0 && data.len() >= least && adler32(data) == self.checksums[number]).then_some(data)
    }
}

/// Returns whether a stream has the header of zlib (RFC 1950), and needs no dictionary.
fn is_zlib(stream: &[u8]) -> bool {
    const DEFLATE: u8 = 8;
    const DICTIONARY: u8 = 0x20;
    let &[method, flags, ..] = stream else { return false };
    let is_checked = u16::from_be_bytes([method, flags]).is_multiple_of(31);
    method & 15 == DEFLATE && method >> 4 <= 7 && flags & DICTIONARY == 0 && is_checked
}
