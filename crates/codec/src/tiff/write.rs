//! Writing TIFF: the pixels in strips, then one directory.

use std::fs::File;
use std::io::{BufWriter, Seek, Write};

use super::super::ifd::{self, Directory, Value};
use super::super::mapped::{Form, Mapped, Piece};
use super::super::output::Output;
use super::super::samples::swap_bytes;
use super::super::{CodecError, Decoded, Format, Native as AnyNative, pixels_of};
use super::method::Compression;
use super::{deflate, lzw, other, predictor, tags};
use crate::cores::Cores;
use equalize::Layout;

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
    bytes_of_rows(u64::from(layout.width) * layout.pixel_bytes() as u64)
}

/// Returns the bytes of heap that an encoder takes for rows of `row` bytes, the rows themselves included if they are not pixels in a slot.
pub(crate) fn bytes_of_rows(row: u64) -> u64 {
    const ROWS: u64 = 6;
    ROWS.saturating_mul(row)
}

/// Writes the pixels of `slot`, with the help of idle cores.
pub(crate) fn encode(
    decoded: &Decoded,
    slot: &mut [u8],
    cores: &Cores,
    out: &mut File,
) -> Result<u64, CodecError> {
    let native = if let AnyNative::Tiff(native) = &decoded.native { Some(&**native) } else { None };
    let layout = decoded.layout;
    let mapped = decoded.restored();
    let other = native.and_then(|native| Some((native.other.as_deref()?, native.others)));
    let raster = match (mapped, other) {
        (Some(mapped), _) => Raster::of_mapped(mapped, &layout),
        (None, Some((_, others))) => Raster::of_levels(&layout, others),
        (None, None) => Raster::of_levels(&layout, 0),
    };
    let pixels = match other {
        Some((other, others)) => other::put_back(slot, &layout, others, other),
        None => pixels_of(&layout, slot),
    };
    if mapped.is_none() && cfg!(target_endian = "big") {
        swap_bytes(pixels, raster.bytes);
    }
    let compression = native.map_or(Compression::Deflate, |n| n.compression);
    let max_small = if compression == Compression::Lzw { MAX_SMALL_LZW } else { MAX_SMALL };
    let big = native.is_some_and(|n| n.big) || raster.all_bytes() > max_small;
    let start = out.stream_position()?;
    // The offset of the directory is filled in when it is known.
    let mut header = if big { b"II+\0\x08\0\0\0".to_vec() } else { b"II*\0".to_vec() };
    let offset_at = header.len();
    header.resize(offset_at + if big { 8 } else { 4 }, 0);
    out.write_all(&header)?;

    let strips = match mapped {
        Some(mapped) => {
            let pieces = mapped.pieces(&layout, pixels, raster.rows()).into_iter().map(Strip::Mapped);
            write_strips(&raster, pieces, compression, cores, header.len() as u64, out)?
        }
        None if compression == Compression::Stored => {
            out.write_all(pixels)?;
            Strips::of_stored(&raster, header.len() as u64)
        }
        None => {
            let strips = pixels.chunks(raster.rows() * raster.row()).map(Strip::Ready);
            write_strips(&raster, strips, compression, cores, header.len() as u64, out)?
        }
    };
    let described = describe(&raster, compression, &strips);
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

/// The samples that are written.
#[derive(Clone, Copy)]
struct Raster {
    width: u32,
    height: u32,
    /// Samples of a pixel that are colours.
    colours: usize,
    /// Whether the first sample behind them is alpha.
    alpha: bool,
    /// The samples behind these.
    others: usize,
    /// Bytes of a sample.
    bytes: usize,
    /// How the bits of a sample are to be understood.
    format: u64,
    /// Whether the least value is white.
    inverted: bool,
}

impl Raster {
    /// Returns the raster of levels with this many further samples in each pixel.
    fn of_levels(layout: &Layout, others: usize) -> Self {
        let Layout { width, height, pixel, depth } = *layout;
        let (colours, alpha, bytes) = (pixel.colour_channels(), pixel.has_alpha(), depth.bytes());
        Self { width, height, colours, alpha, others, bytes, format: tags::UNSIGNED, inverted: false }
    }

    /// Returns the raster of samples that are made of levels.
    fn of_mapped(mapped: &Mapped, layout: &Layout) -> Self {
        let Form { kind, alpha, others, inverted, .. } = *mapped.form();
        let format = match kind {
            _ if kind.is_float() => tags::FLOAT,
            _ if kind.is_signed() => tags::SIGNED,
            _ => tags::UNSIGNED,
        };
        let (bytes, alpha) = (kind.bytes(), alpha.is_some());
        Self { bytes, alpha, format, inverted, ..Self::of_levels(layout, others) }
    }

    fn channels(&self) -> usize {
        self.colours + self.behind()
    }

    /// Returns the number of samples behind the colours.
    fn behind(&self) -> usize {
        usize::from(self.alpha) + self.others
    }

    /// Returns whether there is a predictor for the samples.
    fn is_predicted(&self) -> bool {
        self.bytes != 3
    }

    /// Returns the bytes of a row.
    fn row(&self) -> usize {
        self.width as usize * self.channels() * self.bytes
    }

    /// Returns the rows of a strip.
    fn rows(&self) -> usize {
        (STRIP / self.row()).clamp(1, self.height as usize)
    }

    fn all_bytes(&self) -> u64 {
        (self.row() as u64).saturating_mul(u64::from(self.height))
    }
}

/// The samples of a strip.
#[derive(Clone, Copy)]
enum Strip<'s> {
    /// As they are written.
    Ready(&'s [u8]),
    /// As levels of which they are made.
    Mapped(Piece<'s>),
}

impl<'s> Strip<'s> {
    /// Returns the samples, little-endian, which are put into `buffer` if they are not ready.
    fn samples<'b>(&self, bytes: usize, buffer: &'b mut Vec<u8>) -> &'b [u8]
    where
        's: 'b,
    {
        match self {
            Self::Ready(samples) => samples,
            Self::Mapped(piece) => {
                piece.make_samples(buffer);
                if cfg!(target_endian = "big") {
                    swap_bytes(buffer, bytes);
                }
                buffer
            }
        }
    }
}

/// Where the strips are in the file.
struct Strips {
    rows: u64,
    offsets: Vec<u64>,
    lengths: Vec<u64>,
    /// The offset behind the last strip.
    end: u64,
}

impl Strips {
    fn none(raster: &Raster, at: u64) -> Self {
        Self { rows: raster.rows() as u64, offsets: Vec::new(), lengths: Vec::new(), end: at }
    }

    /// Returns where the strips are if all samples were written as they are from `at` on.
    fn of_stored(raster: &Raster, at: u64) -> Self {
        let mut strips = Self::none(raster, at);
        let end = at + raster.all_bytes();
        let strip = (raster.rows() * raster.row()) as u64;
        while strips.end < end {
            strips.add(strip.min(end - strips.end));
        }
        strips
    }

    fn add(&mut self, length: u64) {
        self.offsets.push(self.end);
        self.lengths.push(length);
        self.end += length;
    }
}

fn write_strips<'s>(
    raster: &Raster,
    pieces: impl ExactSizeIterator<Item = Strip<'s>>,
    compression: Compression,
    cores: &Cores,
    at: u64,
    out: &mut File,
) -> Result<Strips, CodecError> {
    let mut strips = Strips::none(raster, at);
    let nobody = Cores::none();
    let cores = if raster.rows() * raster.row() > MAX_SHARED { &nobody } else { cores };
    let take = |press: &mut Press<'_>| {
        out.write_all(press.written())?;
        strips.add(press.written().len() as u64);
        Ok::<_, CodecError>(())
    };
    cores.in_order(pieces, || Press::new(raster, compression), Press::press, take)?;
    Ok(strips)
}

/// Makes and compresses strips, one after the other.
struct Press<'r> {
    raster: &'r Raster,
    /// `None` if samples are stored as they are made.
    encoder: Option<Encoder>,
    /// Samples that are made of levels.
    samples: Vec<u8>,
    differences: Vec<u8>,
    /// The last strip in compressed form.
    out: Output,
}

enum Encoder {
    Lzw(lzw::Encoder),
    Deflate(deflate::Encoder),
}

impl<'r> Press<'r> {
    fn new(raster: &'r Raster, compression: Compression) -> Self {
        let encoder = match compression {
            Compression::Lzw => Some(Encoder::Lzw(lzw::Encoder::new())),
            Compression::Deflate => Some(Encoder::Deflate(deflate::Encoder::new())),
            Compression::Stored => None,
        };
        Self { raster, encoder, samples: Vec::new(), differences: Vec::new(), out: Output::default() }
    }

    fn press(&mut self, strip: Strip<'_>) {
        let (row, channels, bytes) = (self.raster.row(), self.raster.channels(), self.raster.bytes);
        let samples = strip.samples(bytes, &mut self.samples);
        let Some(encoder) = &mut self.encoder else { return };
        self.differences.clear();
        if !self.raster.is_predicted() {
            self.differences.extend_from_slice(samples);
        } else if self.raster.format == tags::FLOAT {
            predictor::apply_float(samples, row, channels, bytes, &mut self.differences);
        } else {
            predictor::apply(samples, row, channels, bytes, &mut self.differences);
        }
        self.out.clear();
        match encoder {
            Encoder::Lzw(encoder) => encoder.encode(&self.differences, &mut self.out),
            Encoder::Deflate(encoder) => encoder.encode(&self.differences, &mut self.out),
        }
    }

    /// Returns the last strip as it is written.
    fn written(&self) -> &[u8] {
        if self.encoder.is_some() { self.out.bytes() } else { &self.samples }
    }
}

/// Returns the tags that say how the samples are stored.
fn describe(raster: &Raster, compression: Compression, strips: &Strips) -> Directory {
    let mut directory = Directory::default();
    let channels = raster.channels();
    let colour = match raster.colours {
        1 if raster.inverted => tags::WHITE_IS_ZERO,
        1 => tags::BLACK_IS_ZERO,
        _ => tags::RGB,
    };
    directory.set(tags::WIDTH, Value::longs(&[u64::from(raster.width)]));
    directory.set(tags::HEIGHT, Value::longs(&[u64::from(raster.height)]));
    directory.set(tags::BITS_PER_SAMPLE, Value::shorts(&vec![8 * raster.bytes as u16; channels]));
    directory.set(tags::COMPRESSION, Value::shorts(&[compression.number()]));
    directory.set(tags::PHOTOMETRIC, Value::shorts(&[colour]));
    directory.set(tags::SAMPLES_PER_PIXEL, Value::shorts(&[channels as u16]));
    directory.set(tags::ROWS_PER_STRIP, Value::longs(&[strips.rows]));
    directory.set(tags::STRIP_OFFSETS, Value::longs(&strips.offsets));
    directory.set(tags::STRIP_BYTE_COUNTS, Value::longs(&strips.lengths));
    if compression != Compression::Stored && raster.is_predicted() {
        let predictor = if raster.format == tags::FLOAT { 3 } else { 2 };
        directory.set(tags::PREDICTOR, Value::shorts(&[predictor]));
    }
    if raster.behind() > 0 {
        let mut kinds = vec![tags::UNSPECIFIED as u16; raster.behind()];
        kinds[0] = if raster.alpha { tags::UNASSOCIATED as u16 } else { kinds[0] };
        directory.set(tags::EXTRA_SAMPLES, Value::shorts(&kinds));
    }
    if raster.format != tags::UNSIGNED {
        directory.set(tags::SAMPLE_FORMAT, Value::shorts(&vec![raster.format as u16; channels]));
    }
    directory
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::tests::noise;
    use equalize::{Depth, Pixel};
    use std::io::Read;

    /// Returns the strips as written by `threads` threads, and where they are.
    fn strips(raster: &Raster, pixels: &[u8], compression: Compression, threads: usize) -> (Vec<u8>, Strips) {
        let (cores, mut file) = (Cores::new(threads), tempfile::tempfile().unwrap());
        let _own = cores.work();
        let pieces = pixels.chunks(raster.rows() * raster.row()).map(Strip::Ready);
        let strips = write_strips(raster, pieces, compression, &cores, 0, &mut file).unwrap();
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
            let raster = Raster::of_levels(&layout, 0);
            let row = raster.row();
            for compression in [Compression::Lzw, Compression::Deflate] {
                let (alone, places) = strips(&raster, &pixels, compression, 1);
                assert_eq!((places.offsets.len(), places.end), (count, alone.len() as u64), "{layout:?}");
                let expected = pixels.chunks(places.rows as usize * row);
                for ((&at, &length), strip) in places.offsets.iter().zip(&places.lengths).zip(expected) {
                    let back = decompressed(&alone[at as usize..][..length as usize], compression);
                    let mut differences = Vec::new();
                    predictor::apply(strip, row, raster.channels(), raster.bytes, &mut differences);
                    assert!(back == differences, "{layout:?} by {compression:?}");
                }
                let (together, _) = strips(&raster, &pixels, compression, 4);
                assert!(together == alone, "{layout:?} by {compression:?} on four threads");
            }
        }
    }
}
