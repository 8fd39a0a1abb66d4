//! Deflate streams that devices may read or make, many at once, and the trait of their coders.

use std::fmt::Debug;
use std::ops::{DerefMut, Range};

use fdeflate::Decompressor;
use serde::{Deserialize, Serialize};

use crate::coding::deflate::{BLOCK, Deflater, Effort};
use crate::io::cores::Cores;
use crate::io::output::Output;

/// Data and streams begin at multiples of so many bytes.
const ALIGNMENT: usize = 16;
/// Bytes of a length.
const LENGTH: usize = size_of::<u32>();
/// The bytes of zlib (RFC 1950) before and after a stream.
pub(crate) const ZLIB_HEADER: usize = 2;
pub(crate) const ZLIB_TRAILER: usize = 4;

/// The work on streams or data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum StreamWork {
    /// Streams are replaced by their data.
    Inflate,
    /// Data are replaced by streams.
    Deflate,
}

/// Deflate streams (RFC 1951) or their data in one piece of memory.
///
/// It begins with the length of each in bytes, in native byte order; 0 means that the coder left it
/// to others. Data lie at equal distances. Streams lie one after the other, each with room for
/// zlib's header before and its checksum after; streams to be inflated have these.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Streams {
    /// The work to be done.
    pub work: StreamWork,
    /// How many there are.
    pub count: u32,
    /// The most bytes of data that one has.
    pub most: u32,
    /// Bytes of the memory.
    pub bytes: u64,
}

impl Streams {
    /// Returns the layout for inflating streams with these lengths.
    pub(crate) fn inflate(lengths: &[u32], most: u32) -> Self {
        let streams = Self { work: StreamWork::Inflate, count: lengths.len() as u32, most, bytes: 0 };
        let end = streams.places(lengths).last().map_or(0, |place| end_of(&place));
        Self { bytes: end.max(streams.end_of_data()) as u64, ..streams }
    }

    /// Returns the layout for deflating data.
    ///
    /// The growth of noise is less than the room provided for it.
    pub(crate) fn deflate(count: u32, most: u32) -> Self {
        let streams = Self { work: StreamWork::Deflate, count, most, bytes: 0 };
        let longest = most as usize + most as usize / 8 + 64;
        let bytes = streams.start() + count as usize * (longest + 2 * ALIGNMENT);
        Self { bytes: bytes as u64, ..streams }
    }

    /// Returns where the first data or stream may begin.
    pub fn start(&self) -> usize {
        (self.count as usize * LENGTH).next_multiple_of(ALIGNMENT)
    }

    /// Returns the distance between data.
    pub fn stride(&self) -> usize {
        (self.most as usize).next_multiple_of(ALIGNMENT)
    }

    /// Returns the end of the room for all data.
    pub fn end_of_data(&self) -> usize {
        self.start() + self.count as usize * self.stride()
    }

    /// Returns the length of each.
    pub fn lengths(&self, memory: &[u8]) -> Vec<u32> {
        let lengths = memory.as_chunks().0.iter().take(self.count as usize);
        lengths.map(|bytes| u32::from_ne_bytes(*bytes)).collect()
    }

    /// Notes the length of each.
    pub fn set_lengths(&self, memory: &mut [u8], lengths: &[u32]) {
        let places = memory.as_chunks_mut().0.iter_mut();
        places.zip(lengths).for_each(|(bytes, length)| *bytes = length.to_ne_bytes());
    }

    /// Returns the places of streams with these lengths, without header and checksum.
    pub fn places(&self, lengths: &[u32]) -> impl Iterator<Item = Range<usize>> {
        lengths.iter().scan(self.start(), |at, &length| {
            let start = *at + ALIGNMENT;
            let place = start..start + length as usize;
            *at = end_of(&place);
            Some(place)
        })
    }

    /// Returns the places of all streams of these lengths; `None` if they exceed the memory.
    pub fn places_within(&self, lengths: &[u32], memory: usize) -> Option<Vec<Range<usize>>> {
        let places: Vec<_> = self.places(lengths).collect();
        let fits = self.end_of_data() <= memory && places.last().is_none_or(|last| end_of(last) <= memory);
        fits.then_some(places)
    }

    /// Returns the place of the data of this number and length.
    pub(crate) fn data(&self, number: usize, length: u32) -> Range<usize> {
        let start = self.start() + number * self.stride();
        start..start + length as usize
    }
}

/// Returns the place of a stream together with zlib's header and checksum.
pub(crate) fn with_zlib(place: &Range<usize>) -> Range<usize> {
    place.start - ZLIB_HEADER..place.end + ZLIB_TRAILER
}

/// Returns where the next stream may begin, aligned.
fn end_of(place: &Range<usize>) -> usize {
    (place.end + ZLIB_TRAILER).next_multiple_of(ALIGNMENT)
}

/// Memory in which a device has done its work.
pub type CodedStreams<'a> = Box<dyn DerefMut<Target = [u8]> + Send + Sync + 'a>;

/// A device that reads and makes streams instead of this crate, where it can.
pub trait StreamCoder: Debug + Sync {
    /// Has a device work on the contents that `fill` puts into [`Streams::bytes`] of memory.
    ///
    /// Returns the memory, or `None` if no device has room for it at present, if `fill` returns
    /// false, or if the device failed: the CPU then does it.
    fn code(&self, streams: &Streams, fill: &mut dyn FnMut(&mut [u8]) -> bool) -> Option<CodedStreams<'_>>;
}

/// Helpers with decoding and encoding.
#[derive(Clone, Copy, Debug)]
pub struct Help<'h> {
    /// Idle cores.
    pub cores: &'h Cores,
    /// A device for streams.
    pub coder: Option<&'h dyn StreamCoder>,
}

impl<'h> From<&'h Cores> for Help<'h> {
    fn from(cores: &'h Cores) -> Self {
        Self { cores, coder: None }
    }
}

/// Does on the CPU the work of a [`StreamCoder`]: devices are compared with it.
///
/// # Panics
/// If the streams do not lie within the memory.
pub fn code_streams(streams: &Streams, memory: &mut [u8]) {
    let (given, mut lengths) = (memory.to_vec(), streams.lengths(memory));
    match streams.work {
        StreamWork::Inflate => {
            let places: Vec<_> = streams.places(&lengths).collect();
            // Room for another byte: a stream that fills all of it has too many.
            let mut data = vec![0; streams.most as usize + 1];
            for (number, (length, place)) in lengths.iter_mut().zip(places).enumerate() {
                let filled =
                    inflate(&given[with_zlib(&place)], &mut data).filter(|&filled| filled < data.len());
                *length = filled.unwrap_or(0) as u32;
                memory[streams.data(number, *length)].copy_from_slice(&data[..*length as usize]);
            }
        }
        StreamWork::Deflate => {
            let (mut deflater, mut at) = (Deflater::new(Effort::Matches), streams.start());
            for (number, length) in lengths.iter_mut().enumerate() {
                let mut out = Output::default();
                deflater.blocks(&given[streams.data(number, *length)], BLOCK, true, &mut out);
                let place = at + ALIGNMENT..at + ALIGNMENT + out.bytes().len();
                memory[place.clone()].copy_from_slice(out.bytes());
                (*length, at) = (out.bytes().len() as u32, end_of(&place));
            }
        }
    }
    streams.set_lengths(memory, &lengths);
}

/// Decompresses a zlib stream; returns the bytes of its data, unless damaged or too many.
pub(crate) fn inflate(mut stream: &[u8], into: &mut [u8]) -> Option<usize> {
    let (mut decompressor, mut filled) = (Decompressor::new(), 0);
    while !decompressor.is_done() {
        let (read, written) = decompressor.read(stream, into, filled, true).ok()?;
        stream = &stream[read..];
        filled += written;
        if read + written == 0 {
            return None;
        }
    }
    Some(filled)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::tests::{differences, noise};
    use std::io::{Read, Write};

    /// Pieces of data of several lengths.
    fn pieces() -> Vec<Vec<u8>> {
        vec![differences(5000), vec![7; 4999], noise(5000, 1), vec![1], noise(33, 2), vec![0; 5000]]
    }

    #[test]
    fn streams_of_another_implementation_become_their_data() {
        let pieces = pieces();
        let zlib = pieces.iter().map(|piece| {
            let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::new(6));
            encoder.write_all(piece).unwrap();
            encoder.finish().unwrap()
        });
        let mut zlib: Vec<_> = zlib.collect();
        *zlib[1].last_mut().unwrap() ^= 1;
        let lengths: Vec<u32> = zlib.iter().map(|stream| stream.len() as u32 - 6).collect();
        let streams = Streams::inflate(&lengths, 5000);
        let mut memory = vec![0xa5; streams.bytes as usize];
        streams.set_lengths(&mut memory, &lengths);
        for (place, stream) in streams.places_within(&lengths, memory.len()).unwrap().iter().zip(&zlib) {
            assert!(place.start.is_multiple_of(ALIGNMENT));
            memory[with_zlib(place)].copy_from_slice(stream);
        }
        code_streams(&streams, &mut memory);
        for (number, (length, piece)) in streams.lengths(&memory).into_iter().zip(&pieces).enumerate() {
            // The checksum of the second is wrong.
            assert_eq!(length as usize, if number == 1 { 0 } else { piece.len() });
            assert!(number == 1 || memory[streams.data(number, length)] == piece[..]);
        }
    }

    #[test]
    fn data_become_streams_that_another_implementation_reads() {
        let pieces = pieces();
        let lengths: Vec<u32> = pieces.iter().map(|piece| piece.len() as u32).collect();
        let streams = Streams::deflate(pieces.len() as u32, 5000);
        let mut memory = vec![0xa5; streams.bytes as usize];
        streams.set_lengths(&mut memory, &lengths);
        for (number, piece) in pieces.iter().enumerate() {
            memory[streams.data(number, piece.len() as u32)].copy_from_slice(piece);
        }
        code_streams(&streams, &mut memory);
        let lengths = streams.lengths(&memory);
        for (place, piece) in streams.places_within(&lengths, memory.len()).unwrap().into_iter().zip(pieces) {
            let mut back = Vec::new();
            flate2::read::DeflateDecoder::new(&memory[place]).read_to_end(&mut back).unwrap();
            assert!(back == piece);
        }
    }

    #[test]
    fn what_does_not_lie_within_the_memory_is_found() {
        let streams = Streams::inflate(&[10, 20, 30], 40);
        let bytes = streams.bytes as usize;
        assert!(streams.places_within(&[10, 20, 30], bytes).is_some());
        assert!(streams.places_within(&[10, 20, 30], bytes - 1).is_none());
        assert!(streams.places_within(&[10, 20, u32::MAX], bytes).is_none());
        let more = Streams { count: 4, ..streams };
        assert!(more.places_within(&[1; 4], bytes).is_none());
    }
}
