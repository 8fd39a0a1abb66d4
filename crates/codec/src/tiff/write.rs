//! Writing TIFF: the pixels in strips or tiles, then one directory with what is known of the picture.

use std::fs::File;
use std::io::{self, BufWriter, Seek, Write};
use std::sync::Arc;

use super::super::ifd::{self, Directory, Value};
use super::super::mapped::Mapped;
use super::super::samples::swap_bytes;
use super::super::{CodecError, Decoded, Format, Native as AnyNative, pixels_of};
use super::method::Compression;
pub(super) use super::strips::Interleaved;
use super::strips::{Raster, Strip, Strips, write_strips};
use super::tiles::tiles;
use super::{Native, gdal, other, tags};
use crate::cores::Cores;
use equalize::Layout;

/// With more bytes of pixels than this, the offsets may need 64 bits. Deflate never adds a sixteenth; LZW, whose codes for a byte have up
/// to 12 bits, may add half.
const MAX_SMALL: u64 = 0xf000_0000;
const MAX_SMALL_LZW: u64 = 0xa000_0000;

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
    /// Where the samples are, if they are not `pixels` but channels that are to be interleaved.
    interleaved: Option<Interleaved<'s>>,
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
        let shape = native.and_then(|native| native.shape).filter(|_| mapped.is_none());
        let raster = Raster { shape, ..raster };
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
        Self { raster, compression, layout, mapped, pixels, interleaved: None }
    }

    /// Returns the bytes of all samples.
    pub(super) fn all_bytes(&self) -> u64 {
        self.raster.all_bytes()
    }

    /// Returns the page that such a channel is of, with all of its channels.
    pub(super) fn interleaved(self, channels: Interleaved<'s>) -> Self {
        let raster = Raster { others: channels.starts.len() - 1, ..self.raster };
        Self { raster, interleaved: Some(channels), ..self }
    }

    /// Writes all samples one after the other, as they are.
    pub(super) fn write_plain(
        &self,
        cores: &Cores,
        put: &mut dyn FnMut(&[u8]) -> io::Result<u64>,
    ) -> Result<Strips, CodecError> {
        Self { compression: Compression::Stored, ..*self }.write(cores, put)
    }

    /// Writes the pixels strip by strip with the help of idle cores. `put` writes bytes, and returns their offset.
    pub(super) fn write(
        &self,
        cores: &Cores,
        put: &mut dyn FnMut(&[u8]) -> io::Result<u64>,
    ) -> Result<Strips, CodecError> {
        let Self { raster, compression, layout, mapped, pixels, interleaved } = self;
        if let Some(channels) = interleaved {
            let strips = channels.strips(raster).map(Strip::Interleaved);
            return write_strips(raster, strips, *compression, cores, put);
        }
        match (mapped, raster.tile()) {
            (Some(mapped), _) => {
                let pieces = mapped.pieces(layout, pixels, raster.rows()).into_iter().map(Strip::Mapped);
                write_strips(raster, pieces, *compression, cores, put)
            }
            (None, Some(tile)) => {
                let tiles = tiles(pixels, (raster.row(), raster.pixel()), tile).into_iter().map(Strip::Tile);
                write_strips(raster, tiles, *compression, cores, put)
            }
            (None, None) if *compression == Compression::Stored => {
                Ok(Strips::of_stored(raster, put(pixels)?))
            }
            (None, None) => {
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
    /// Makes one picture of its bands, from top to bottom.
    pub(super) fn joined(bands: Vec<Self>) -> Option<Self> {
        bands.into_iter().reduce(|mut all, band| {
            all.raster.height += band.raster.height;
            all.strips.append(band.strips);
            all.top = all.top.filter(|top| band.top == Some(*top));
            all
        })
    }

    /// Returns the page with another plane behind those that it has.
    pub(super) fn with_plane(mut self, plane: Self) -> Self {
        self.raster.others += 1;
        self.raster.planar = true;
        self.strips.offsets.extend(plane.strips.offsets);
        self.strips.lengths.extend(plane.strips.lengths);
        self
    }

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
    let (offsets, lengths) = if let Some((width, height)) = raster.tile() {
        directory.set(tags::TILE_WIDTH, Value::longs(&[width.into()]));
        directory.set(tags::TILE_LENGTH, Value::longs(&[height.into()]));
        (tags::TILE_OFFSETS, tags::TILE_BYTE_COUNTS)
    } else {
        directory.set(tags::ROWS_PER_STRIP, Value::longs(&[strips.rows]));
        (tags::STRIP_OFFSETS, tags::STRIP_BYTE_COUNTS)
    };
    directory.set(offsets, Value::longs(&strips.offsets));
    directory.set(lengths, Value::longs(&strips.lengths));
    if raster.planar {
        directory.set(tags::PLANAR_CONFIGURATION, Value::shorts(&[2]));
    }
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
