//! Writing TIFF: the pixels in strips, then one directory.

use std::fs::File;
use std::io::{BufWriter, Seek, Write};

use super::super::ifd::{self, Directory, Value};
use super::super::output::Output;
use super::super::samples::swap_bytes;
use super::super::{CodecError, Decoded, Format, Native as AnyNative, pixels_of};
use super::method::Compression;
use super::{deflate, lzw, other, predictor, tags};
use crate::cores::Cores;
use equalize::{Depth, Layout};

/// Approximate bytes of a strip before compression: enough to compress well, but few enough to stay in the cache.
const STRIP: usize = 256 << 10;

/// With more bytes of pixels than this, the offsets may need 64 bits. Deflate never adds a sixteenth; LZW, whose codes for a byte have up
/// to 12 bits, may add half.
const MAX_SMALL: u64 = 0xf000_0000;
const MAX_SMALL_LZW: u64 = 0xa000_0000;

/// With strips longer than this, helpers would take memory that is not accounted for.
const MAX_SHARED: usize = 2 * STRIP;

/// Returns the bytes of the rows that an encoder holds besides the pixels, where a strip is a row: its differences, and one stream of up to
/// one and a half rows, in buffers that double. Strips of several rows are small change.
pub(crate) fn heap_bytes(layout: &Layout) -> u64 {
    const ROWS: u64 = 6;
    ROWS * u64::from(layout.width) * layout.pixel_bytes() as u64
}

/// Writes the pixels of `slot`, with the help of idle cores.
pub(crate) fn encode(
    decoded: &Decoded,
    slot: &mut [u8],
    cores: &Cores,
    out: &mut File,
) -> Result<u64, CodecError> {
    let native = if let AnyNative::Tiff(native) = &decoded.native { Some(&**native) } else { None };
    let (layout, extra) = match native.and_then(|n| n.other.as_deref()) {
        Some(other) => (other::put_back(slot, &decoded.layout, other), tags::UNSPECIFIED),
        None => (decoded.layout, tags::UNASSOCIATED),
    };
    let pixels = pixels_of(&layout, slot);
    if layout.depth == Depth::Sixteen && cfg!(target_endian = "big") {
        swap_bytes(pixels);
    }
    let compression = native.map_or(Compression::Deflate, |n| n.compression);
    let max_small = if compression == Compression::Lzw { MAX_SMALL_LZW } else { MAX_SMALL };
    let big = native.is_some_and(|n| n.big) || layout.bytes() > max_small;
    let start = out.stream_position()?;
    // The offset of the directory is filled in when it is known.
    let mut header = if big { b"II+\0\x08\0\0\0".to_vec() } else { b"II*\0".to_vec() };
    let offset_at = header.len();
    header.resize(offset_at + if big { 8 } else { 4 }, 0);
    out.write_all(&header)?;

    let strips = write_strips(&layout, pixels, compression, cores, header.len() as u64, out)?;
    let described = describe(&layout, compression, extra, &strips);
    let carried;
    let kept = match native {
        Some(native) => &native.kept,
        None => {
            carried = tags::from_metadata(&decoded.metadata);
            &carried
        }
    };
    let icc = decoded.metadata.icc_in(Format::Tiff, layout.pixel);
    let icc = icc.map(|icc| Value::Data { kind: 7, bytes: icc.to_vec() });
    let mut entries = kept.borrowed();
    entries.retain(|(tag, _)| *tag != tags::ICC && described.get(*tag).is_none());
    entries.extend(described.borrowed().into_iter().chain(icc.as_ref().map(|icc| (tags::ICC, icc))));
    entries.sort_by_key(|(tag, _)| *tag);

    let at = strips.end.next_multiple_of(2);
    out.write_all(&[0][..(at - strips.end) as usize])?;
    let mut buffered = BufWriter::new(&mut *out);
    let length = ifd::write_to(&mut buffered, &entries, big, at)?;
    buffered.flush()?;
    drop(buffered);
    out.seek(std::io::SeekFrom::Start(start + offset_at as u64))?;
    out.write_all(&at.to_le_bytes()[..header.len() - offset_at])?;
    out.seek(std::io::SeekFrom::End(0))?;
    Ok(at + length)
}

/// Where the strips are in the file.
struct Strips {
    rows: u64,
    offsets: Vec<u64>,
    lengths: Vec<u64>,
    /// The offset behind the last strip.
    end: u64,
}

fn write_strips(
    layout: &Layout,
    pixels: &[u8],
    compression: Compression,
    cores: &Cores,
    at: u64,
    out: &mut File,
) -> Result<Strips, CodecError> {
    let row = layout.width as usize * layout.pixel_bytes();
    let rows = (STRIP / row).clamp(1, layout.height as usize);
    let mut strips = Strips { rows: rows as u64, offsets: Vec::new(), lengths: Vec::new(), end: at };
    let mut add = |length: usize| {
        strips.offsets.push(strips.end);
        strips.lengths.push(length as u64);
        strips.end += length as u64;
    };
    if compression == Compression::Stored {
        pixels.chunks(rows * row).for_each(|strip| add(strip.len()));
        out.write_all(pixels)?;
        return Ok(strips);
    }
    let nobody = Cores::none();
    let cores = if rows * row > MAX_SHARED { &nobody } else { cores };
    let take = |press: &mut Press<'_>| {
        out.write_all(press.out.bytes())?;
        add(press.out.bytes().len());
        Ok::<_, CodecError>(())
    };
    cores.in_order(pixels.chunks(rows * row), || Press::new(layout, compression), Press::press, take)?;
    Ok(strips)
}

/// Compresses strips, one after the other.
struct Press<'l> {
    layout: &'l Layout,
    encoder: Encoder,
    differences: Vec<u8>,
    /// The last strip in compressed form.
    out: Output,
}

enum Encoder {
    Lzw(lzw::Encoder),
    Deflate(deflate::Encoder),
}

impl<'l> Press<'l> {
    fn new(layout: &'l Layout, compression: Compression) -> Self {
        let encoder = match compression {
            Compression::Lzw => Encoder::Lzw(lzw::Encoder::new()),
            Compression::Deflate => Encoder::Deflate(deflate::Encoder::new()),
            Compression::Stored => unreachable!("written as they are"),
        };
        Self { layout, encoder, differences: Vec::new(), out: Output::default() }
    }

    fn press(&mut self, strip: &[u8]) {
        let Layout { width, pixel, depth, .. } = *self.layout;
        let row = width as usize * self.layout.pixel_bytes();
        self.differences.clear();
        predictor::apply(strip, row, pixel.channels(), depth, &mut self.differences);
        self.out.clear();
        match &mut self.encoder {
            Encoder::Lzw(encoder) => encoder.encode(&self.differences, &mut self.out),
            Encoder::Deflate(encoder) => encoder.encode(&self.differences, &mut self.out),
        }
    }
}

/// Returns the tags that say how the pixels are stored. `extra` is what the sample behind the colours is, if there is one.
fn describe(layout: &Layout, compression: Compression, extra: u64, strips: &Strips) -> Directory {
    let mut directory = Directory::default();
    let channels = layout.pixel.channels();
    let bits = 8 * layout.depth.bytes() as u16;
    let colour = if layout.pixel.colour_channels() == 1 { tags::BLACK_IS_ZERO } else { tags::RGB };
    directory.set(tags::WIDTH, Value::longs(&[u64::from(layout.width)]));
    directory.set(tags::HEIGHT, Value::longs(&[u64::from(layout.height)]));
    directory.set(tags::BITS_PER_SAMPLE, Value::shorts(&vec![bits; channels]));
    directory.set(tags::COMPRESSION, Value::shorts(&[compression.number()]));
    directory.set(tags::PHOTOMETRIC, Value::shorts(&[colour]));
    directory.set(tags::SAMPLES_PER_PIXEL, Value::shorts(&[channels as u16]));
    directory.set(tags::ROWS_PER_STRIP, Value::longs(&[strips.rows]));
    directory.set(tags::STRIP_OFFSETS, Value::longs(&strips.offsets));
    directory.set(tags::STRIP_BYTE_COUNTS, Value::longs(&strips.lengths));
    if compression != Compression::Stored {
        directory.set(tags::PREDICTOR, Value::shorts(&[2]));
    }
    if layout.pixel.has_alpha() {
        directory.set(tags::EXTRA_SAMPLES, Value::shorts(&[extra as u16]));
    }
    directory
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::tests::noise;
    use equalize::Pixel;
    use std::io::Read;

    /// Returns the strips as written by `threads` threads, and where they are.
    fn strips(layout: &Layout, pixels: &[u8], compression: Compression, threads: usize) -> (Vec<u8>, Strips) {
        let (cores, mut file) = (Cores::new(threads), tempfile::tempfile().unwrap());
        let _own = cores.work();
        let strips = write_strips(layout, pixels, compression, &cores, 0, &mut file).unwrap();
        let mut bytes = Vec::new();
        file.rewind().unwrap();
        file.read_to_end(&mut bytes).unwrap();
        (bytes, strips)
    }

    /// Decompresses a strip with another implementation.
    fn decompressed(strip: &[u8], compression: Compression) -> Vec<u8> {
        if compression == Compression::Lzw {
            let mut decoder = weezl::decode::Decoder::with_tiff_size_switch(weezl::BitOrder::Msb, 8);
            return decoder.decode(strip).unwrap();
        }
        let mut back = Vec::new();
        flate2::read::ZlibDecoder::new(strip).read_to_end(&mut back).unwrap();
        back
    }

    #[test]
    fn any_number_of_threads_writes_the_same_strips_and_they_come_back() {
        let sized = |width, height, pixel, depth| Layout { width, height, pixel, depth };
        for (layout, count) in [
            (sized(1, 1, Pixel::Gray, Depth::Eight), 1),
            (sized(1000, 300, Pixel::Rgb, Depth::Eight), 4),
            (sized(300, 300, Pixel::Rgba, Depth::Sixteen), 3),
            // Rows longer than a strip, and longer than what is shared.
            (sized(263_000, 2, Pixel::Gray, Depth::Eight), 2),
            (sized(263_000, 2, Pixel::Gray, Depth::Sixteen), 2),
        ] {
            let mut pixels = noise(layout.bytes() as usize, 1);
            // Strips of both kinds.
            let repeated = pixels.len() / 2;
            pixels[repeated..].iter_mut().for_each(|byte| *byte = *byte / 128 * 255);
            let row = layout.width as usize * layout.pixel_bytes();
            for compression in [Compression::Lzw, Compression::Deflate] {
                let (alone, places) = strips(&layout, &pixels, compression, 1);
                assert_eq!((places.offsets.len(), places.end), (count, alone.len() as u64), "{layout:?}");
                let expected = pixels.chunks(places.rows as usize * row);
                for ((&at, &length), strip) in places.offsets.iter().zip(&places.lengths).zip(expected) {
                    let back = decompressed(&alone[at as usize..][..length as usize], compression);
                    let mut differences = Vec::new();
                    predictor::apply(strip, row, layout.pixel.channels(), layout.depth, &mut differences);
                    assert!(back == differences, "{layout:?} by {compression:?}");
                }
                let (together, _) = strips(&layout, &pixels, compression, 4);
                assert!(together == alone, "{layout:?} by {compression:?} on four threads");
            }
        }
    }
}
