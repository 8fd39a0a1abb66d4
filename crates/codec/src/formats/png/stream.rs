//! The image data of a PNG, as a zlib stream (RFC 1950) of pieces of rows.
//!
//! Each piece is filtered and compressed separately, by an idle core if there is one, and ends on a
//! byte boundary. The picture alone decides where pieces begin: the stream is the same for any
//! number of cores.

use std::ops::Range;

use simd_adler32::Adler32;

use super::filter::Filters;
use super::zlib::{WINDOW, Zlib};
use crate::PngLevel;
use crate::coding::deflate::{Deflater, Effort};
use crate::io::cores::Cores;
use crate::io::output::Output;
use equalize::Layout;

/// Bytes of filtered rows that are compressed at a time: a fraction of the second-level cache.
const STRIP: usize = 128 << 10;
/// The least bytes of filtered rows in a piece, which consists of whole strips.
const PIECE: usize = 512 << 10;
/// The zlib level of [`PngLevel::Small`].
const LEVEL: u32 = 6;

/// Rows of a picture, as the format stores them.
pub(super) struct Rows<'p> {
    pixels: &'p [u8],
    /// The number of the first of them in the picture.
    first: usize,
    pub(super) division: Division,
    /// The row above the first one of the picture.
    zeros: Vec<u8>,
}

/// How the rows of a picture are divided into strips, and these into pieces.
#[derive(Clone, Copy, Debug)]
pub(super) struct Division {
    /// The rows of the picture.
    pub(super) height: usize,
    /// Bytes per row.
    pub(super) row: usize,
    /// Bytes per pixel.
    step: usize,
    /// Rows in a strip.
    strip: usize,
    /// Rows in a piece.
    pub(super) piece: usize,
}

impl Division {
    pub(super) fn of(layout: &Layout) -> Self {
        let step = layout.pixel_bytes();
        let row = layout.width as usize * step;
        let strip = STRIP.div_ceil(row + 1);
        let piece = strip * PIECE.div_ceil(strip * (row + 1));
        Self { height: layout.height as usize, row, step, strip, piece }
    }

    /// Returns the bytes of a filtered row, including its filter type.
    fn filtered(&self) -> usize {
        self.row + 1
    }

    /// Returns the rows of the window before a piece.
    fn window(&self) -> usize {
        WINDOW.div_ceil(self.filtered())
    }

    /// Returns the rows before a piece that its compressed form depends on.
    pub(super) fn above(&self) -> usize {
        self.window() + 1
    }

    /// Returns the rows of a piece that begins with this row.
    fn piece_at(&self, first: usize) -> Range<usize> {
        first..(first + self.piece).min(self.height)
    }
}

impl<'p> Rows<'p> {
    /// Takes rows, with the number of the first.
    pub(super) fn new(division: Division, first: usize, pixels: &'p [u8]) -> Self {
        Self { pixels, first, division, zeros: vec![0; division.row] }
    }

    fn row(&self, number: usize) -> &[u8] {
        &self.pixels[(number - self.first) * self.division.row..][..self.division.row]
    }

    fn above(&self, number: usize) -> &[u8] {
        if number == 0 { &self.zeros } else { self.row(number - 1) }
    }

    /// Compresses the pieces in these rows, with the help of idle cores, and passes each to `put`.
    ///
    /// There must also be the rows that these depend on.
    pub(super) fn compress<E>(
        &self,
        rows: Range<usize>,
        level: PngLevel,
        cores: &Cores,
        mut put: impl FnMut(Piece<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let division = &self.division;
        let pieces = (0..rows.len().div_ceil(division.piece))
            .map(|piece| division.piece_at(rows.start + piece * division.piece));
        // With rows this long, helpers would take memory that is not accounted for.
        let nobody = Cores::none();
        let cores = if division.filtered() > PIECE { &nobody } else { cores };
        cores.in_order(
            pieces,
            || Press::new(self, level),
            Press::press,
            |press| {
                let Press { out, checksum, length, .. } = press;
                put(Piece { bytes: out.bytes(), checksum: *checksum, length: *length })
            },
        )
    }
}

/// A piece in compressed form.
pub(super) struct Piece<'p> {
    pub(super) bytes: &'p [u8],
    /// The Adler-32 checksum of its filtered rows.
    pub(super) checksum: u32,
    /// Bytes of its filtered rows.
    pub(super) length: usize,
}

/// A compressor of strips.
enum Method {
    /// With matches only within the strip.
    Alone(Deflater),
    /// With matches in the 32 KiB before, in other strips and pieces too.
    Zlib(Zlib),
}

/// Filters and compresses pieces.
struct Press<'p> {
    rows: &'p Rows<'p>,
    filters: Filters,
    strip: Vec<u8>,
    method: Method,
    /// The piece in compressed form.
    out: Output,
    /// The Adler-32 checksum of the piece's filtered rows.
    checksum: u32,
    /// Bytes of the piece's filtered rows.
    length: usize,
}

impl<'p> Press<'p> {
    fn new(rows: &'p Rows<'p>, level: PngLevel) -> Self {
        let method = match level {
            PngLevel::Fast => Method::Alone(Deflater::new(Effort::Flat)),
            PngLevel::Balanced => Method::Alone(Deflater::new(Effort::Matches)),
            PngLevel::Small => Method::Zlib(Zlib::new(LEVEL, &[])),
        };
        let filters = Filters::new(rows.division.row, rows.division.step, level != PngLevel::Fast);
        Self { rows, filters, strip: Vec::new(), method, out: Output::default(), checksum: 0, length: 0 }
    }

    /// Filters and compresses a piece.
    fn press(&mut self, piece: Range<usize>) {
        self.out.clear();
        let mut checksum = Adler32::new();
        self.begin(&piece);
        self.length = 0;
        let Division { strip, height, .. } = self.rows.division;
        for first in piece.clone().step_by(strip) {
            self.filter(first..(first + strip).min(piece.end));
            checksum.write(&self.strip);
            self.length += self.strip.len();
            self.compress(first + strip >= height);
        }
        self.end(piece.end == height);
        self.checksum = checksum.finish();
    }

    /// Filters rows into the strip.
    fn filter(&mut self, rows: Range<usize>) {
        self.strip.clear();
        for number in rows {
            let filtered = self.filters.row(self.rows.row(number), self.rows.above(number));
            self.strip.extend_from_slice(filtered);
        }
    }

    fn begin(&mut self, piece: &Range<usize>) {
        if let Method::Zlib(_) = self.method {
            let before = self.rows.division.window();
            self.filter(piece.start.saturating_sub(before)..piece.start);
        }
        let first = piece.start == 0;
        match &mut self.method {
            // The zlib header states a window of 32 KiB and the level: the fastest here, the
            // default below.
            Method::Alone(_) if first => self.out.push(&[0x78, 0x01]),
            Method::Alone(_) => {}
            Method::Zlib(zlib) => {
                if first {
                    self.out.push(&[0x78, 0x9c]);
                }
                *zlib = Zlib::new(LEVEL, &self.strip);
            }
        }
    }

    /// Compresses the strip; `last` is whether it is the last one of the picture.
    fn compress(&mut self, last: bool) {
        match &mut self.method {
            Method::Alone(deflater) => deflater.blocks(&self.strip, 2 * STRIP, last, &mut self.out),
            Method::Zlib(zlib) => zlib.append(&self.strip, &mut self.out),
        }
    }

    fn end(&mut self, last: bool) {
        match &mut self.method {
            Method::Alone(deflater) => deflater.end_byte(&mut self.out),
            Method::Zlib(zlib) => zlib.end(last, &mut self.out),
        }
    }
}

/// Compresses the pixels, with the help of idle cores, and passes the stream to `write` in parts.
pub(super) fn write<E>(
    layout: &Layout,
    pixels: &[u8],
    level: PngLevel,
    cores: &Cores,
    mut write: impl FnMut(&[u8]) -> Result<(), E>,
) -> Result<(), E> {
    let division = Division::of(layout);
    let (mut checksum, mut left) = (1, division.height.div_ceil(division.piece));
    Rows::new(division, 0, pixels).compress(0..division.height, level, cores, |piece| {
        checksum = combined(checksum, piece.checksum, piece.length);
        left -= 1;
        if left > 0 { write(piece.bytes) } else { write(&[piece.bytes, &checksum.to_be_bytes()].concat()) }
    })
}

/// Returns the Adler-32 checksum of two parts together, from the checksums of each.
///
/// The second part has `length` bytes (RFC 1950, section 8.2: sums that start at 1, and sums of
/// these sums).
pub(super) fn combined(first: u32, second: u32, length: usize) -> u32 {
    const BASE: u64 = 65521;
    let [(first, first_sums), (second, second_sums)] =
        [first, second].map(|sum| (u64::from(sum & 0xffff), u64::from(sum >> 16)));
    // The second part's sums started at 1 instead of at the first part's sum.
    let more = first + BASE - 1;
    let sums = first_sums + second_sums + more % BASE * (length as u64 % BASE);
    (((sums % BASE) << 16) | ((second + more) % BASE)) as u32
}

#[cfg(test)]
mod tests {
    use super::super::tests::LEVELS;
    use super::*;
    use crate::samples::tests::noise;
    use equalize::{Depth, Pixel};

    /// Alternately smooth and noisy pixels, as big-endian samples.
    fn scene(layout: &Layout) -> Vec<u8> {
        let mut state = 0x9e37_79b9_u32;
        let byte = |at: usize| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let noise =
                if (at / 50_000).is_multiple_of(3) { 0 } else { (state >> 24) as u8 >> (at / 100_000 % 8) };
            (at / 1000) as u8 ^ noise
        };
        (0..layout.bytes() as usize).map(byte).collect()
    }

    /// Returns the stream as written by `threads` threads, and the number of parts it came in.
    fn stream(layout: &Layout, pixels: &[u8], level: PngLevel, threads: usize) -> (Vec<u8>, usize) {
        let (cores, mut stream, mut parts) = (Cores::new(threads), Vec::new(), 0);
        let _own = cores.work();
        write(layout, pixels, level, &cores, |part| {
            stream.extend_from_slice(part);
            parts += 1;
            Ok::<_, ()>(())
        })
        .unwrap();
        (stream, parts)
    }

    /// Wraps the stream in a PNG, and decodes that with the `png` crate.
    fn decoded(layout: &Layout, stream: &[u8]) -> Vec<u8> {
        let mut file = Vec::new();
        let mut encoder = ::png::Encoder::new(&mut file, layout.width, layout.height);
        let (colour, depth) = super::super::colour_type(layout);
        encoder.set_color(colour);
        encoder.set_depth(depth);
        let mut writer = encoder.write_header().unwrap();
        writer.write_chunk(::png::chunk::IDAT, stream).unwrap();
        writer.finish().unwrap();
        let mut decoder = ::png::Decoder::new(std::io::Cursor::new(file));
        decoder.ignore_checksums(false);
        let mut reader = decoder.read_info().unwrap();
        let mut pixels = vec![0; reader.output_buffer_size().unwrap()];
        reader.next_frame(&mut pixels).unwrap();
        reader.finish().unwrap();
        pixels
    }

    /// Layouts, and the number of pieces of each.
    fn layouts() -> impl Iterator<Item = (Layout, usize)> {
        let sized = |width, height, pixel, depth| Layout { width, height, pixel, depth };
        [
            (sized(1, 1, Pixel::Gray, Depth::Eight), 1),
            (sized(700_000, 1, Pixel::Gray, Depth::Eight), 1),
            (sized(1000, 524, Pixel::Gray, Depth::Eight), 1),
            // A strip has 131 rows, and a piece has four strips.
            (sized(1000, 525, Pixel::Gray, Depth::Eight), 2),
            (sized(1000, 4 * 524 + 1, Pixel::Gray, Depth::Eight), 5),
            (sized(3, 80_000, Pixel::Rgb, Depth::Eight), 2),
            (sized(301, 800, Pixel::Rgba, Depth::Sixteen), 4),
            (sized(401, 1000, Pixel::Rgb, Depth::Sixteen), 5),
            (sized(999, 999, Pixel::GrayAlpha, Depth::Eight), 4),
            // Rows longer than a piece.
            (sized(600_001, 3, Pixel::Gray, Depth::Eight), 3),
            // Rows longer than a strip.
            (sized(50_000, 9, Pixel::Rgb, Depth::Eight), 3),
        ]
        .into_iter()
    }

    #[test]
    fn any_number_of_threads_writes_the_same_bytes_and_they_come_back() {
        for (layout, pieces) in layouts() {
            let pixels = scene(&layout);
            for level in LEVELS {
                let (alone, parts) = stream(&layout, &pixels, level, 1);
                assert_eq!(parts, pieces, "{layout:?}");
                assert!(decoded(&layout, &alone) == pixels, "{layout:?} by {level:?}");
                for threads in [2, 7] {
                    let (together, _) = stream(&layout, &pixels, level, threads);
                    assert!(together == alone, "{layout:?} by {level:?} on {threads} threads");
                }
            }
        }
    }

    #[test]
    fn a_piece_is_the_same_whatever_was_pressed_before() {
        let layout = Layout { width: 1000, height: 5000, pixel: Pixel::Gray, depth: Depth::Eight };
        let pixels = scene(&layout);
        let division = Division::of(&layout);
        let rows = Rows::new(division, 0, &pixels);
        for level in LEVELS {
            let mut used = Press::new(&rows, level);
            for first in (0..division.height).step_by(division.piece).rev() {
                let piece = division.piece_at(first);
                let mut new = Press::new(&rows, level);
                used.press(piece.clone());
                new.press(piece.clone());
                assert!(used.out.bytes() == new.out.bytes(), "rows {piece:?} by {level:?}");
            }
        }
    }

    /// Without the piece before it, a piece would not find the repetitions.
    #[test]
    fn matches_reach_into_the_piece_before() {
        let layout = Layout { width: 1000, height: 2000, pixel: Pixel::Gray, depth: Depth::Eight };
        let pixels: Vec<u8> = scene(&layout).chunks(8000).flat_map(|_| noise(8000, 1)).collect();
        let (whole, pieces) = stream(&layout, &pixels, PngLevel::Small, 1);
        assert!(pieces > 3 && whole.len() < pixels.len() / 10, "{} bytes in {pieces} pieces", whole.len());
    }

    #[test]
    fn checksums_of_parts_make_that_of_the_whole() {
        let of = |bytes: &[u8]| {
            let mut checksum = Adler32::new();
            checksum.write(bytes);
            checksum.finish()
        };
        let bytes = [noise(200_000, 1), vec![255; 200_000], vec![0; 70_000]].concat();
        for at in [0, 1, 65_520, 65_521, 65_522, 131_042, 400_000, bytes.len()] {
            let (first, second) = bytes.split_at(at);
            assert_eq!(combined(of(first), of(second), second.len()), of(&bytes), "split at {at}");
        }
    }
}
