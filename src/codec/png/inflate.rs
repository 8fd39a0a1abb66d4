//! Decodes pictures that are stored row after row, from compressed image data to pixels.

use fdeflate::Decompressor;

use super::chunks::ImageData;
use super::unfilter;
use super::zlib::WINDOW;

/// Bytes of filtered rows that are unfiltered at a time, unless the rows are too long for that: a fraction of the second-level cache.
const STRIP: usize = 64 << 10;
/// Room for filtered rows; when it is used up, the data still needed is moved to the front.
const ROOM: usize = 4 * STRIP;

/// Decodes the pixels into `slot`: rows of `bytes` bytes, pixels of `step` bytes.
///
/// # Errors
///
/// Says what is wrong with the data.
pub(super) fn decode(data: ImageData<'_>, bytes: usize, step: usize, slot: &mut [u8]) -> Result<(), String> {
    let strip = STRIP.div_ceil(bytes + 1).next_multiple_of(unfilter::GROUP);
    let mut inflater = Inflater::new(data, strip * (bytes + 1));
    let zeros = vec![0; bytes];
    let mut above = zeros.as_slice();
    for rows in slot.chunks_mut(strip * bytes) {
        let filtered = inflater.next(rows.len() / bytes * (bytes + 1))?;
        unfilter::undo(filtered, step, above, rows)
            .map_err(|_| "a row has a filter that does not exist".to_owned())?;
        above = &rows[rows.len() - bytes..];
    }
    Ok(())
}

/// Decompresses the image data piece by piece.
struct Inflater<'a> {
    data: ImageData<'a>,
    /// The rest of the current chunk.
    part: &'a [u8],
    decompressor: Decompressor,
    /// The decompressed data, as far back as matches may reach, and room for more.
    window: Vec<u8>,
    filled: usize,
}

impl<'a> Inflater<'a> {
    /// Makes an inflater for pieces of up to `largest` bytes.
    fn new(data: ImageData<'a>, largest: usize) -> Self {
        let mut decompressor = Decompressor::new();
        // Each chunk has a checksum of its own.
        decompressor.ignore_adler32();
        let room = ROOM.next_multiple_of(largest);
        Self { data, part: &[], decompressor, window: vec![0; WINDOW + room], filled: 0 }
    }

    /// Returns the next `count` bytes.
    fn next(&mut self, count: usize) -> Result<&[u8], String> {
        if self.window.len() - self.filled < count {
            self.window.copy_within(self.filled - WINDOW..self.filled, 0);
            self.filled = WINDOW;
        }
        let (start, end) = (self.filled, self.filled + count);
        while self.filled < end {
            if self.part.is_empty() {
                self.part = self.data.by_ref().find(|part| !part.is_empty()).unwrap_or_default();
            }
            let (read, written) = self
                .decompressor
                .read(self.part, &mut self.window[..end], self.filled, false)
                .map_err(|error| format!("its compressed data is damaged ({error:?})"))?;
            if read == 0 && written == 0 {
                return Err("its image data ends before its last row".into());
            }
            self.part = &self.part[read..];
            self.filled += written;
        }
        Ok(&self.window[start..end])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::PngLevel;
    use crate::codec::png::bands;
    use crate::codec::png::tests::LEVELS;
    use crate::codec::samples::tests::noise;
    use crate::cores::Cores;
    use crate::picture::{Depth, Layout, Pixel};

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
        bands::write(layout, pixels, level, &Cores::none(), write).unwrap();
        stream
    }

    /// Splits the stream into IDAT chunks of the given sizes, over and over, and puts a chunk of another kind behind them.
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
        assert!(decoded(&layout, &chunks(&damaged, &[50])).unwrap_err().contains("damaged"));
    }
}
