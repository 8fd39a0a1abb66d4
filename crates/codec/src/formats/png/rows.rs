//! Decoding of pictures that are stored row after row, from compressed image data to pixels.

use std::slice::ChunksMut;

use fdeflate::{DecompressionError, Decompressor};

use super::chunks::ImageData;
use super::unfilter;
use crate::coding::inflate::damage;

/// The longest reach of a match (RFC 1951).
pub(super) const WINDOW: usize = 32 << 10;
/// Bytes of filtered rows that are unfiltered at a time, unless one row is longer.
///
/// They are a fraction of the second-level cache.
const STRIP: usize = 64 << 10;
/// Room for filtered rows; when it is used up, the data still needed is moved to the front.
const ROOM: usize = 4 * STRIP;

/// The message about a picture that is not complete.
pub(super) const INCOMPLETE: &str = "its image data ends before its last row";

/// Decodes the pixels into `slot`: rows of `bytes` bytes, pixels of `step` bytes.
///
/// # Errors
///
/// The damage of the data, in words.
pub(super) fn decode(data: ImageData<'_>, bytes: usize, step: usize, slot: &mut [u8]) -> Result<(), String> {
    let zeros = vec![0; bytes];
    let mut rows = Rows::new(bytes, step, &zeros, &[], slot);
    let mut decompressor = Decompressor::new();
    // The checksums of the chunks are verified, and the rows may be complete before the end of the
    // stream.
    decompressor.ignore_adler32();
    for mut part in data {
        while !part.is_empty() && !rows.are_complete() && !decompressor.is_done() {
            let (out, filled) = rows.room();
            let (read, written) =
                decompressor.read(part, out, filled, false).map_err(|error| damaged(&error))?;
            part = &part[read..];
            rows.advance(filled + written)?;
        }
    }
    // The decompressor may still hold data that it has read.
    while !rows.are_complete() && !decompressor.is_done() {
        let (out, filled) = rows.room();
        let (_, written) = decompressor.read(&[], out, filled, false).map_err(|error| damaged(&error))?;
        if written == 0 {
            break;
        }
        rows.advance(filled + written)?;
    }
    if rows.are_complete() { Ok(()) } else { Err(INCOMPLETE.into()) }
}

fn damaged(error: &DecompressionError) -> String {
    format!("its compressed data is damaged ({})", damage(error))
}

/// The rows of a picture as they come out of a stream, filtered, and on their way into the slot.
pub(super) struct Rows<'s> {
    step: usize,
    /// The bytes of the filtered rows that are unfiltered at a time.
    strip: usize,
    /// The decompressed data, as far back as matches may reach, and room for more.
    window: Vec<u8>,
    filled: usize,
    /// The number of its bytes that have been unfiltered.
    unfiltered: usize,
    /// The number of bytes still to come.
    left: usize,
    above: &'s [u8],
    slot: ChunksMut<'s, u8>,
}

impl<'s> Rows<'s> {
    /// Begins with rows of so many bytes, pixels of `step` bytes, below the row `above`, or zeros.
    ///
    /// `before` are the data decompressed before, as far back as matches may reach.
    pub(super) fn new(bytes: usize, step: usize, above: &'s [u8], before: &[u8], slot: &'s mut [u8]) -> Self {
        let rows = STRIP.div_ceil(bytes + 1).next_multiple_of(unfilter::GROUP);
        let strip = rows * (bytes + 1);
        let mut window = vec![0; WINDOW + ROOM.max(strip)];
        let filled = before.len();
        window[..filled].copy_from_slice(before);
        let left = slot.len() / bytes * (bytes + 1);
        let slot = slot.chunks_mut(rows * bytes);
        Self { step, strip, window, filled, unfiltered: filled, left, above, slot }
    }

    /// Returns the data decompressed last, as far back as matches may reach.
    pub(super) fn last(&self) -> &[u8] {
        &self.window[self.filled.saturating_sub(WINDOW)..self.filled]
    }

    pub(super) fn are_complete(&self) -> bool {
        self.left == 0
    }

    /// Returns the decompressed data, with room for more, and their length.
    ///
    /// There is always room until the rows are complete: the part that is kept is a window or less
    /// than a strip, and there is room for both.
    pub(super) fn room(&mut self) -> (&mut [u8], usize) {
        let needed = WINDOW.max(self.filled - self.unfiltered);
        if self.window.len() - self.filled < STRIP && needed < self.filled {
            let moved = self.filled - needed;
            self.window.copy_within(moved..self.filled, 0);
            self.filled -= moved;
            self.unfiltered -= moved;
        }
        let end = self.window.len().min(self.filled + self.left);
        (&mut self.window[..end], self.filled)
    }

    /// Unfilters all rows that are ready when `filled` bytes have been decompressed.
    pub(super) fn advance(&mut self, filled: usize) -> Result<(), String> {
        self.left -= filled - self.filled;
        self.filled = filled;
        loop {
            let filtered = &self.window[self.unfiltered..filled];
            let filtered = &filtered[..filtered.len().min(self.strip)];
            if filtered.is_empty() || filtered.len() < self.strip && self.left > 0 {
                return Ok(());
            }
            let rows = self.slot.next().expect("no more rows come than there is room for");
            unfilter::undo(filtered, self.step, self.above, rows)
                .map_err(|_| "a row has a filter that does not exist".to_owned())?;
            self.above = &rows[rows.len() - self.above.len()..];
            self.unfiltered += filtered.len();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PngLevel;
    use crate::formats::png::stream as image_data;
    use crate::formats::png::tests::LEVELS;
    use crate::io::cores::Cores;
    use crate::samples::tests::noise;
    use equalize::{Depth, Layout, Pixel};

    fn pixels(layout: &Layout) -> Vec<u8> {
        let noise = noise(layout.bytes() as usize, 1).into_iter();
        noise.enumerate().map(|(at, byte)| (at / 777) as u8 ^ byte >> 5).collect()
    }

    fn stream(layout: &Layout, pixels: &[u8], level: PngLevel) -> Vec<u8> {
        let mut stream = Vec::new();
        let write = |part: &[u8]| {
            stream.extend_from_slice(part);
            Ok::<_, ()>(())
        };
        image_data::write(layout, pixels, level, &Cores::none(), write).unwrap();
        stream
    }

    /// Splits the stream into IDAT chunks of these sizes, over and over, and adds another chunk.
    fn chunks(mut stream: &[u8], sizes: &[usize]) -> Vec<u8> {
        let mut chunks = Vec::new();
        let mut push = |kind: &[u8; 4], content: &[u8]| {
            chunks.extend((content.len() as u32).to_be_bytes());
            chunks.extend([kind.as_slice(), content, &[0; 4]].concat());
        };
        for &size in sizes.iter().cycle() {
            if stream.is_empty() {
                break;
            }
            let (content, rest) = stream.split_at(size.min(stream.len()));
            push(b"IDAT", content);
            stream = rest;
        }
        push(b"IEND", &[]);
        chunks
    }

    fn decoded(layout: &Layout, chunks: &[u8]) -> Result<Vec<u8>, String> {
        let step = layout.pixel_bytes();
        let mut slot = vec![0; layout.bytes() as usize];
        decode(ImageData::new(chunks), layout.width as usize * step, step, &mut slot).map(|()| slot)
    }

    #[test]
    fn streams_come_back_in_chunks_of_any_size() {
        for (width, height, pixel, depth) in [
            (1, 1, Pixel::Gray, Depth::Eight),
            (3, 40_000, Pixel::Rgb, Depth::Eight),
            (1000, 701, Pixel::GrayAlpha, Depth::Eight),
            (301, 402, Pixel::Rgba, Depth::Sixteen),
            // Rows longer than a strip, and longer than all the room.
            (40_000, 9, Pixel::Rgb, Depth::Eight),
            (400_000, 3, Pixel::Gray, Depth::Eight),
        ] {
            let layout = Layout { width, height, pixel, depth };
            let pixels = pixels(&layout);
            for level in LEVELS {
                let stream = stream(&layout, &pixels, level);
                for sizes in [&[usize::MAX][..], &[8192], &[1, 0, 5, 70_000, 0, 0]] {
                    let back = decoded(&layout, &chunks(&stream, sizes)).unwrap();
                    assert!(back == pixels, "{layout:?} by {level:?} in {sizes:?}");
                }
            }
        }
    }

    #[test]
    fn data_that_ends_early_is_told() {
        let layout = Layout { width: 100, height: 100, pixel: Pixel::Rgb, depth: Depth::Eight };
        let stream = stream(&layout, &pixels(&layout), PngLevel::Fast);
        for length in [0, 1, 2, 10, stream.len() / 2, stream.len() - 10] {
            let error = decoded(&layout, &chunks(&stream[..length], &[1000])).unwrap_err();
            assert!(error.contains("ends before its last row"), "{length} bytes: {error}");
        }
        // The checksum at the end of the stream is not needed.
        decoded(&layout, &chunks(&stream[..stream.len() - 4], &[1000])).unwrap();
    }

    #[test]
    fn rows_that_are_missing_from_a_stream_that_ends_are_told() {
        let layout = Layout { width: 100, height: 100, pixel: Pixel::Gray, depth: Depth::Eight };
        let stream = stream(&layout, &pixels(&layout), PngLevel::Small);
        let higher = Layout { height: 101, ..layout };
        assert!(decoded(&higher, &chunks(&stream, &[50])).unwrap_err().contains("ends before"));
        let mut damaged = stream;
        damaged[2] = 0xff;
        let error = decoded(&layout, &chunks(&damaged, &[50])).unwrap_err();
        assert!(error.starts_with("its compressed data is damaged (") && error.ends_with(')'), "{error}");
        assert!(decoded(&layout, &chunks(&[0; 50], &[50])).unwrap_err().contains("invalid zlib header"));
    }
}
