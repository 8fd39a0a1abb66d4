//! Writing TIFF: the pixels in strips, then one directory.

use std::fs::File;
use std::io::{Seek, Write};

use super::super::ifd::{self, Directory, Value};
use super::super::samples::swap_bytes;
use super::super::{CodecError, Decoded, Format, Native as AnyNative, pixels_of};
use super::tags;
use crate::picture::{Depth, Layout};

/// Bytes of a strip before compression, about: large enough to compress well, small enough to stay in the cache.
const STRIP: usize = 256 << 10;

/// Beyond this much the offsets may need 64 bits. Deflate never adds a sixteenth; LZW, whose codes for a byte have up to 12 bits, may
/// add half.
const MOST_SMALL: u64 = 0xf000_0000;
const MOST_SMALL_LZW: u64 = 0xa000_0000;

/// zlib's effort: beyond this, photographs take much longer for little.
const DEFLATE_LEVEL: u32 = 4;

/// How strips are compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Compression {
    Stored,
    Lzw,
    Deflate,
}

impl Compression {
    /// The value of the tag.
    const fn number(self) -> u16 {
        match self {
            Self::Stored => 1,
            Self::Lzw => 5,
            Self::Deflate => 8,
        }
    }
}

/// Writes the pixels of `slot`.
pub(in crate::codec) fn encode(
    decoded: &Decoded,
    slot: &mut [u8],
    scratch: &mut Vec<u8>,
    out: &mut File,
) -> Result<u64, CodecError> {
    let layout = decoded.layout;
    let native = if let AnyNative::Tiff(native) = &decoded.native { Some(&**native) } else { None };
    let pixels = pixels_of(&layout, slot);
    if layout.depth == Depth::Sixteen && cfg!(target_endian = "big") {
        swap_bytes(pixels);
    }
    let compression = native.map_or(Compression::Deflate, |n| n.compression);
    let most_small = if compression == Compression::Lzw { MOST_SMALL_LZW } else { MOST_SMALL };
    let big = native.is_some_and(|n| n.big) || layout.bytes() > most_small;
    let start = out.stream_position()?;
    // The offset of the directory follows when it is known.
    let mut header = if big { b"II+\0\x08\0\0\0".to_vec() } else { b"II*\0".to_vec() };
    let offset_at = header.len();
    header.resize(offset_at + if big { 8 } else { 4 }, 0);
    out.write_all(&header)?;

    let strips = write_strips(&layout, pixels, compression, scratch, header.len() as u64, out)?;
    let mut directory = native.map_or_else(|| tags::from_metadata(&decoded.metadata), |n| n.kept.clone());
    directory.entries.retain(|(tag, _)| *tag != tags::ICC);
    if let Some(icc) = decoded.metadata.icc_for(layout.pixel) {
        directory.set(tags::ICC, Value::Data { kind: 7, bytes: icc.to_vec() });
    }
    describe(
        &mut directory,
        &layout,
        compression,
        native.map_or(tags::UNASSOCIATED, |n| n.extra_sample),
        &strips,
    );

    let at = strips.end.next_multiple_of(2);
    let mut tail = vec![0; (at - strips.end) as usize];
    tail.extend(ifd::write(&directory, big, at));
    out.write_all(&tail)?;
    out.seek(std::io::SeekFrom::Start(start + offset_at as u64))?;
    out.write_all(&at.to_le_bytes()[..header.len() - offset_at])?;
    out.seek(std::io::SeekFrom::End(0))?;
    Ok(strips.end + tail.len() as u64)
}

/// Where the strips have come to lie.
struct Strips {
    rows: u64,
    offsets: Vec<u64>,
    lengths: Vec<u64>,
    /// The offset behind the last.
    end: u64,
}

fn write_strips(
    layout: &Layout,
    pixels: &[u8],
    compression: Compression,
    scratch: &mut Vec<u8>,
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
    let mut differences = Vec::new();
    for strip in pixels.chunks(rows * row) {
        differences.clear();
        differences.extend_from_slice(strip);
        differences.chunks_exact_mut(row).for_each(|row| difference(row, layout));
        scratch.clear();
        compress(&differences, compression, scratch)?;
        out.write_all(scratch)?;
        add(scratch.len());
    }
    Ok(strips)
}

/// Replaces the samples of a row by their differences to the pixel before (TIFF 6.0, section 14).
fn difference(row: &mut [u8], layout: &Layout) {
    let channels = layout.pixel.channels();
    match layout.depth {
        Depth::Eight => {
            for i in (channels..row.len()).rev() {
                row[i] = row[i].wrapping_sub(row[i - channels]);
            }
        }
        Depth::Sixteen => {
            let samples = row.as_chunks_mut::<2>().0;
            for i in (channels..samples.len()).rev() {
                let (this, before) =
                    (u16::from_le_bytes(samples[i]), u16::from_le_bytes(samples[i - channels]));
                samples[i] = this.wrapping_sub(before).to_le_bytes();
            }
        }
    }
}

fn compress(strip: &[u8], compression: Compression, into: &mut Vec<u8>) -> Result<(), CodecError> {
    match compression {
        Compression::Stored => into.extend_from_slice(strip),
        Compression::Lzw => {
            let mut encoder = weezl::encode::Encoder::with_tiff_size_switch(weezl::BitOrder::Msb, 8);
            let result = encoder.into_vec(into).encode_all(strip);
            result.status.map_err(|error| CodecError::encoder(Format::Tiff, error.to_string()))?;
        }
        Compression::Deflate => {
            let level = flate2::Compression::new(DEFLATE_LEVEL);
            let mut encoder = flate2::write::ZlibEncoder::new(into, level);
            encoder.write_all(strip)?;
            encoder.finish()?;
        }
    }
    Ok(())
}

/// Sets the tags that say how the pixels are stored.
fn describe(
    directory: &mut Directory,
    layout: &Layout,
    compression: Compression,
    extra_sample: u16,
    strips: &Strips,
) {
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
        let kind = if extra_sample == tags::ASSOCIATED { tags::UNASSOCIATED } else { extra_sample };
        directory.set(tags::EXTRA_SAMPLES, Value::shorts(&[kind]));
    }
}
