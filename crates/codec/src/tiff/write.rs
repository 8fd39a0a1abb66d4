//! Writing TIFF: the pixels in strips, then one directory.

use std::fs::File;
use std::io::{self, BufWriter, Seek, Write};
use std::sync::Arc;

use super::super::ifd::{self, Directory, Value};
use super::super::mapped::{Form, Mapped, Piece};
use super::super::output::Output;
use super::super::samples::swap_bytes;
use super::super::{CodecError, Decoded, Format, Native as AnyNative, pixels_of};
use super::method::Compression;
use super::{Native, deflate, gdal, lzw, other, predictor, tags};
use crate::cores::Cores;
use equalize::Layout;

/// Approximate bytes of a strip before compression: enough to compress well, but few enough to stay in the cache.
pub(super) const STRIP: usize = 256 << 10;

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
    let samples = Samples::new(decoded, slot);
    let was_big = matches!(&decoded.native, AnyNative::Tiff(native) if native.big);
    let max_small = if samples.compression == Compression::Lzw { MAX_SMALL_LZW } else { MAX_SMALL };
    let big = was_big || samples.raster.all_bytes() > max_small;
    let start = out.stream_position()?;
    // The offset of the directory is filled in when it is known.
    let mut header = if big { b"II+\0\x08\0\0\0".to_vec() } else { b"II*\0".to_vec() };
    let offset_at = header.len();
    header.resize(offset_at + if big { 8 } else { 4 }, 0);
    out.write_all(&header)?;

    let mut at = header.len() as u64;
    let strips = samples.write(cores, &mut |bytes| {
        out.write_all(bytes)?;
        at += bytes.len() as u64;
        Ok(at - bytes.len() as u64)
    })?;
    let written = samples.written(decoded, strips);
    let described = written.describe();
    let at = written.strips.end.next_multiple_of(2);
    out.write_all(&[0][..(at - written.strips.end) as usize])?;
    let mut buffered = BufWriter::new(&mut *out);
    let length = ifd::write_to(&mut buffered, &written.entries(&described), big, at, 0)?;
    buffered.flush()?;
    drop(buffered);
    out.seek(std::io::SeekFrom::Start(start + offset_at as u64))?;
    out.write_all(&at.to_le_bytes()[..header.len() - offset_at])?;
    out.seek(std::io::SeekFrom::End(0))?;
    Ok(at + length)
}

/// A picture that is ready to be written.
pub(super) struct Samples<'s> {
    raster: Raster,
    compression: Compression,
    layout: Layout,
    /// What samples are made with, if those in `pixels` are levels that stand for others.
    mapped: Option<&'s Mapped>,
    pixels: &'s [u8],
}

/// Where a picture's strips are, and what its directory says.
#[derive(Debug)]
pub(super) struct Written {
    raster: Raster,
    compression: Compression,
    pub(super) strips: Strips,
    /// The tags that the picture had, or those that are made of its metadata.
    kept: Arc<Directory>,
    icc: Option<Arc<Value>>,
    /// The highest level, if there are fewer than samples have room for.
    top: Option<u16>,
    /// The level of pixels without data, if the picture told which it is.
    no_data: Option<u16>,
}

impl<'s> Samples<'s> {
    /// Takes the pixels of `slot`.
    pub(super) fn new(decoded: &'s Decoded, slot: &'s mut [u8]) -> Self {
        let native = if let AnyNative::Tiff(native) = &decoded.native { Some(&**native) } else { None };
        let layout = decoded.layout;
        let mapped = decoded.restored();
        let other = native.and_then(|native| Some((native.other.as_deref()?, native)));
        let raster = match (mapped, other) {
            (Some(mapped), _) => Raster::of_mapped(mapped, &layout),
            (None, Some((_, &Native { others, before_alpha, .. }))) => {
                Raster { before_alpha, ..Raster::of_levels(&layout, others) }
            }
            (None, None) => Raster::of_levels(&layout, 0),
        };
        let pixels = match other {
            Some((other, native)) => other::put_back(slot, &layout, native.others, other),
            None => pixels_of(&layout, slot),
        };
        if raster.before_alpha > 0 {
            let shape = (raster.channels(), raster.colours, raster.before_alpha);
            other::move_alpha(pixels, shape, raster.bytes, true);
        }
        if mapped.is_none() && cfg!(target_endian = "big") {
            swap_bytes(pixels, raster.bytes);
        }
        let compression = native.map_or(Compression::Deflate, |native| native.compression);
        Self { raster, compression, layout, mapped, pixels }
    }

    /// Writes the pixels strip by strip with the help of idle cores. `put` writes bytes, and returns their offset.
    pub(super) fn write(
        &self,
        cores: &Cores,
        put: &mut dyn FnMut(&[u8]) -> io::Result<u64>,
    ) -> Result<Strips, CodecError> {
        let Self { raster, compression, layout, mapped, pixels } = self;
        match mapped {
            Some(mapped) => {
                let pieces = mapped.pieces(layout, pixels, raster.rows()).into_iter().map(Strip::Mapped);
                write_strips(raster, pieces, *compression, cores, put)
            }
            None if *compression == Compression::Stored => Ok(Strips::of_stored(raster, put(pixels)?)),
            None => {
                let strips = pixels.chunks(raster.rows() * raster.row()).map(Strip::Ready);
                write_strips(raster, strips, *compression, cores, put)
            }
        }
    }

    /// Returns what the directory says of the picture, whose strips are written.
    pub(super) fn written(&self, decoded: &Decoded, strips: Strips) -> Written {
        let kept = match &decoded.native {
            AnyNative::Tiff(native) => Arc::clone(&native.kept),
            _ => Arc::new(tags::from_metadata(&decoded.metadata)),
        };
        let icc = decoded.metadata.icc_in(Format::Tiff, self.layout.pixel);
        let icc = icc.map(|icc| Arc::new(Value::Data { kind: 7, bytes: icc.to_vec() }));
        let top = decoded.scale.top_of_low(self.layout.depth);
        let top = top.filter(|_| self.raster.format == tags::UNSIGNED);
        let states_no_data = matches!(&decoded.native, AnyNative::Tiff(native) if native.states_no_data);
        let no_data = decoded.no_data.filter(|_| states_no_data);
        Written { raster: self.raster, compression: self.compression, strips, kept, icc, top, no_data }
    }
}

impl Written {
    /// Returns the tags that say how the samples are stored.
    pub(super) fn describe(&self) -> Directory {
        let mut directory = describe(&self.raster, self.compression, &self.strips);
        if self.kept.get(tags::COLOUR_MAP).is_some() {
            directory.set(tags::PHOTOMETRIC, Value::shorts(&[tags::PALETTE]));
        }
        if let Some(top) = self.top {
            directory.set(tags::MAX_SAMPLE, Value::shorts(&vec![top; self.raster.channels()]));
        }
        if let Some(level) = self.no_data {
            directory.set(tags::GDAL_NODATA, gdal::no_data_text(level.into()));
        }
        directory
    }

    /// Returns all tags, in their order; `described` are those of [`Written::describe`].
    pub(super) fn entries<'e>(&'e self, described: &'e Directory) -> Vec<(u16, &'e Value)> {
        let mut entries = self.kept.borrowed();
        entries.retain(|(tag, _)| *tag != tags::ICC && described.get(*tag).is_none());
        entries.extend(described.borrowed());
        entries.extend(self.icc.iter().map(|icc| (tags::ICC, &**icc)));
        entries.sort_by_key(|(tag, _)| *tag);
        entries
    }

    /// Shares the memory of the tags with another picture that has the same.
    pub(super) fn share_kept(&mut self, other: &Self) {
        if self.kept == other.kept {
            self.kept = Arc::clone(&other.kept);
        }
        if self.icc == other.icc {
            self.icc.clone_from(&other.icc);
        }
    }
}

/// The samples that are written.
#[derive(Clone, Copy, Debug)]
struct Raster {
    width: u32,
    height: u32,
    /// Samples of a pixel that are colours.
    colours: usize,
    /// Whether a sample behind them is alpha.
    alpha: bool,
    /// The other samples behind them.
    others: usize,
    /// How many of these lie before alpha.
    before_alpha: usize,
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
        let (before_alpha, format) = (0, tags::UNSIGNED);
        Self { width, height, colours, alpha, others, before_alpha, bytes, format, inverted: false }
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
#[derive(Debug)]
pub(super) struct Strips {
    rows: u64,
    offsets: Vec<u64>,
    lengths: Vec<u64>,
    /// The offset behind the last strip.
    pub(super) end: u64,
}

impl Strips {
    fn none(raster: &Raster) -> Self {
        Self { rows: raster.rows() as u64, offsets: Vec::new(), lengths: Vec::new(), end: 0 }
    }

    /// Returns where the strips are if all samples were written as they are from `at` on.
    fn of_stored(raster: &Raster, at: u64) -> Self {
        let mut strips = Self::none(raster);
        strips.end = at;
        let end = at + raster.all_bytes();
        let strip = (raster.rows() * raster.row()) as u64;
        while strips.end < end {
            strips.add(strips.end, strip.min(end - strips.end));
        }
        strips
    }

    fn add(&mut self, at: u64, length: u64) {
        self.offsets.push(at);
        self.lengths.push(length);
        self.end = at + length;
    }

    /// Has the strips lie behind each other from `to` on; `copy` copies bytes from an offset to another.
    pub(super) fn move_to(
        &mut self,
        mut to: u64,
        mut copy: impl FnMut(u64, u64, u64) -> io::Result<()>,
    ) -> io::Result<()> {
        for (offset, &length) in self.offsets.iter_mut().zip(&self.lengths) {
            copy(*offset, to, length)?;
            *offset = to;
            to += length;
        }
        self.end = to;
        Ok(())
    }
}

/// Compresses strips and writes them with `put`, which returns where each is.
fn write_strips<'s>(
    raster: &Raster,
    pieces: impl ExactSizeIterator<Item = Strip<'s>>,
    compression: Compression,
    cores: &Cores,
    put: &mut dyn FnMut(&[u8]) -> io::Result<u64>,
) -> Result<Strips, CodecError> {
    let mut strips = Strips::none(raster);
    let nobody = Cores::none();
    let cores = if raster.rows() * raster.row() > MAX_SHARED { &nobody } else { cores };
    cores.in_order(
        pieces,
        || Press::new(raster, compression),
        Press::press,
        |press| {
            let bytes = press.written();
            strips.add(put(bytes)?, bytes.len() as u64);
            Ok::<_, CodecError>(())
        },
    )?;
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
        if raster.alpha {
            kinds[raster.before_alpha] = tags::UNASSOCIATED as u16;
        }
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
        let mut at = 0;
        let mut put = |bytes: &[u8]| {
            file.write_all(bytes)?;
            at += bytes.len() as u64;
            Ok(at - bytes.len() as u64)
        };
        let strips = write_strips(raster, pieces, compression, &cores, &mut put).unwrap();
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
