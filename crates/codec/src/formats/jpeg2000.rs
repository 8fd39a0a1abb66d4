//! JPEG 2000, in files and in DICOM, decoded by hayro-jpeg2000, which is written in safe Rust.
//!
//! It rejects some valid ones as damaged. They are therefore mended in place ([`mend`]): the length
//! of the last tile-part may be left open, components may be subsampled all alike, and there may be
//! marker segments that it does not know. Bytes after
//! the last packet, which some encoders add, are found by trying.
//!
//! A [`CodestreamDecoder`] is asked first for codestreams that are [`plain`].

mod boxes;
mod file;
mod georeference;
mod memory;
mod packets;

use std::ops::RangeInclusive;

use hayro_jpeg2000::error::{DecodeError, TileError};
use hayro_jpeg2000::{DecodeSettings, DecodedImage, DecoderContext, Image};

pub(crate) use file::open;
use memory::decoder_bytes;

use crate::CodecError;
use crate::coding::codestream::{BlockCoder, Codestream, CodestreamDecoder};
use crate::samples::size::Size;

/// The first bytes of a codestream: its mark, and that of the segment with its size.
const SOC_SIZ: [u8; 4] = *b"\xff\x4f\xff\x51";
/// The marks of a tile-part and of the end.
const SOT: [u8; 2] = *b"\xff\x90";
const EOC: [u8; 2] = *b"\xff\xd9";
/// The mark of a tile-part's data.
const SOD: [u8; 2] = *b"\xff\x93";
/// The code of a comment.
const COM: u8 = 0x64;
/// Codes of marks without a segment (T.800, A.1).
const ALONE: RangeInclusive<u8> = 0x30..=0x3f;
/// The mark of needs beyond JPEG 2000; it follows the first segment.
const CAP: [u8; 2] = *b"\xff\x50";

/// Bytes that decoding takes for each sample of a usual picture, and in addition.
const BYTES_PER_SAMPLE: u64 = 24;
const FIXED_BYTES: u64 = 4 << 20;

/// The most bytes after the last packet that are tried to be left out.
const MAX_PADDING: u32 = 64;

const DECOMPRESS: &str = "decompress it first, as in `gdcmconv --raw IN OUT` (GDCM)";

const ON_GPU: &str = "use a GPU with NVIDIA's nvJPEG2000 (`histeqd devices` names the missing parts), or decompress it first, as in `ojph_expand -i IN -o OUT.pgm` (OpenJPH)";

/// Streams that are cut short or damaged are rejected.
pub(crate) const SETTINGS: DecodeSettings =
    DecodeSettings { resolve_palette_indices: true, strict: true, target_resolution: None };

/// Decodes a codestream that must have this size and number of components.
///
/// Samples get `bytes` bytes, the low one first, in two's complement if signed. Pixels follow each
/// other. The `decoder` does it if it can.
///
/// # Errors
/// If anything in it is damaged or not supported.
pub(crate) fn decode(
    mut stream: Vec<u8>,
    size: Size,
    components: usize,
    bytes: usize,
    decoder: Option<&dyn CodestreamDecoder>,
    into: &mut [u8],
) -> Result<(), CodecError> {
    let start = find(&stream).ok_or_else(|| malformed("no codestream"))?;
    let stream = &mut stream[start..];
    mend(stream);
    let header = SizSegment::parse(stream).ok_or_else(|| malformed("its header is damaged"))?;
    if header.is_subsampled {
        return Err(CodecError::unsupported("a DICOM file of subsampled JPEG 2000", DECOMPRESS));
    }
    if (header.width, header.height) != (size.width, size.height)
        || header.components != components
        || !header.is_uniform
    {
        return Err(malformed("its size or its components do not match the file that contains it"));
    }
    if header.bits > 16 || header.bits as usize > 8 * bytes {
        return Err(malformed(format!("samples of {} bits", header.bits)));
    }
    if decoder_bytes(stream, &header, 0) > most_bytes((into.len() / bytes) as u64) {
        const WHAT: &str =
            "a DICOM file of JPEG 2000 with far more blocks, layers or tiles than its pixels need";
        return Err(CodecError::unsupported(WHAT, DECOMPRESS));
    }
    if is_decoded_elsewhere(stream, &header, bytes, decoder, into) {
        return Ok(());
    }
    if block_coder(stream) == BlockCoder::HighThroughput {
        return Err(CodecError::unsupported("a DICOM file of high-throughput JPEG 2000", ON_GPU));
    }
    let taken = with_decoded(stream, |decoded| take(decoded, &header, bytes, into));
    taken.map_err(|error| malformed(error.to_string()))?
}

/// Decodes a codestream on the CPU as [`CodestreamDecoder::decode`] does, to compare devices with.
///
/// # Errors
/// If anything in it is damaged or not supported.
pub fn decode_codestream(codestream: &Codestream, bytes: &[u8], into: &mut [u8]) -> Result<(), CodecError> {
    let size = Size { width: codestream.width, height: codestream.height };
    let (components, sample_bytes) = (codestream.components as usize, codestream.sample_bytes as usize);
    decode(bytes.to_vec(), size, components, sample_bytes, None, into)
}

/// Has a decoder, if there is one, decode a codestream into samples of `bytes` bytes.
///
/// Returns whether it did.
fn is_decoded_elsewhere(
    stream: &[u8],
    size: &SizSegment,
    bytes: usize,
    decoder: Option<&dyn CodestreamDecoder>,
    into: &mut [u8],
) -> bool {
    decoder.is_some_and(|decoder| {
        plain(stream, size, bytes).is_some_and(|codestream| decoder.decode(&codestream, stream, into))
    })
}

/// Describes a codestream to be decoded into samples of so many bytes.
///
/// `None` unless every decoder returns the same samples: it is lossless, it is whole as far as that
/// can be known without decoding it, and it has no parts that differ from each other.
fn plain(stream: &[u8], size: &SizSegment, bytes: usize) -> Option<Codestream> {
    let fits = size.bits as usize <= 8 * bytes && if size.is_signed { bytes == 2 } else { bytes <= 2 };
    let is_plain = fits && size.is_uniform && !size.is_subsampled && matches!(size.components, 1 | 3);
    (is_plain && packets::are_whole(stream, size)).then_some(Codestream {
        bytes: stream.len() as u64,
        width: size.width,
        height: size.height,
        components: size.components as u32,
        bits: size.bits,
        is_signed: size.is_signed,
        sample_bytes: bytes as u32,
        coder: block_coder(stream),
    })
}

/// Returns the block coder of a codestream.
///
/// It is of high throughput if the codestream states needs beyond JPEG 2000 (T.814).
fn block_coder(codestream: &[u8]) -> BlockCoder {
    let at = SOC_SIZ.len() - SOT.len();
    let length = codestream.get(at + 2..).and_then(|bytes| bytes.first_chunk());
    let next = length.map(|length| at + 2 + usize::from(u16::from_be_bytes(*length)));
    match next.and_then(|next| codestream.get(next..next + CAP.len())) {
        Some(marker) if marker == CAP => BlockCoder::HighThroughput,
        _ => BlockCoder::Usual,
    }
}

/// Returns the most bytes that [`decode`] takes, in addition to its stream and the samples.
pub(crate) fn most_bytes(samples: u64) -> u64 {
    samples.saturating_mul(BYTES_PER_SAMPLE).saturating_add(FIXED_BYTES)
}

/// Takes over the samples that were decoded.
fn take(
    decoded: &DecodedImage<'_>,
    header: &SizSegment,
    bytes: usize,
    into: &mut [u8],
) -> Result<(), CodecError> {
    let (planes, components) = (decoded.components(), header.components);
    let samples = into.len() / bytes / components;
    if planes.len() != components || planes.iter().any(|plane| plane.samples().len() != samples) {
        return Err(malformed("its samples differ from its header"));
    }
    // The decoder takes signed samples for unsigned ones, which are half their range greater.
    let middle = if header.is_signed { 1 << (header.bits - 1) } else { 0 };
    let most = ((1_u32 << header.bits) - 1) as f32;
    for (component, plane) in planes.iter().enumerate() {
        let places = into.chunks_exact_mut(bytes).skip(component).step_by(components);
        for (to, &sample) in places.zip(plane.samples()) {
            let value = (sample + 0.5).clamp(0.0, most) as i32 - middle;
            to.copy_from_slice(&value.to_le_bytes()[..bytes]);
        }
    }
    Ok(())
}

/// Decodes a file or a codestream, and passes the result to `take`.
///
/// If packets end before the only tile does, the bytes after them are left out, one after the
/// other: a decoder that accepts nothing else shows where they end.
pub(crate) fn with_decoded<T>(
    file: &[u8],
    mut take: impl FnMut(&DecodedImage<'_>) -> T,
) -> Result<T, DecodeError> {
    let error = match attempt(file, &mut take) {
        Err(error @ DecodeError::Tile(TileError::Invalid)) => error,
        result => return result,
    };
    let Some(mut shorter) = Shorter::new(file) else { return Err(error) };
    while shorter.leave_out_byte() {
        match attempt(&shorter.file, &mut take) {
            Err(DecodeError::Tile(TileError::Invalid)) => {}
            result => return result,
        }
    }
    Err(error)
}

fn attempt<T>(file: &[u8], take: &mut impl FnMut(&DecodedImage<'_>) -> T) -> Result<T, DecodeError> {
    let image = Image::new(file, &SETTINGS)?;
    let mut context = DecoderContext::default();
    let decoded = image.decode(&mut context)?;
    Ok(take(&decoded))
}

/// A file with a last tile-part that becomes shorter.
struct Shorter {
    file: Vec<u8>,
    part: Part,
    /// The number of bytes that were left out.
    less: u32,
}

impl Shorter {
    /// Returns a copy of a file; `None` if it has several tiles, any of which may end early.
    fn new(file: &[u8]) -> Option<Self> {
        let start = find(file)?;
        let codestream = &file[start..];
        let is_single = SizSegment::parse(codestream)?.tiles == 1;
        let part = last_part(codestream).filter(|_| is_single)?;
        let part = Part { at: start + part.at, ..part };
        Some(Self { file: file.to_vec(), part, less: 0 })
    }

    /// Leaves out another byte. Returns whether there was one to be tried.
    fn leave_out_byte(&mut self) -> bool {
        self.less += 1;
        let Some(length) = self.part.length.checked_sub(self.less).filter(|&length| length > Part::HEADER)
        else {
            return false;
        };
        let end = self.part.at + length as usize;
        let Some(mark) = self.file.get_mut(end..end + EOC.len()) else { return false };
        mark.copy_from_slice(&EOC);
        self.part.set_length(&mut self.file, length);
        self.less <= MAX_PADDING
    }
}

/// A tile-part (T.800, A.4.2).
#[derive(Clone, Copy, Debug)]
struct Part {
    /// Its offset.
    at: usize,
    /// Its bytes; 0 if it goes on to the end.
    length: u32,
}

impl Part {
    /// The least bytes of a tile-part.
    const HEADER: u32 = 14;
    /// The offset of its length.
    const LENGTH: usize = 6;

    fn set_length(self, bytes: &mut [u8], length: u32) {
        let at = self.at + Self::LENGTH;
        bytes[at..at + 4].copy_from_slice(&length.to_be_bytes());
    }
}

/// Finds the last tile-part of a codestream.
fn last_part(codestream: &[u8]) -> Option<Part> {
    let mut at = SOC_SIZ.len() - SOT.len();
    while codestream.get(at..at + 2)? != SOT {
        at += 2 + usize::from(u16::from_be_bytes(*codestream.get(at + 2..)?.first_chunk()?));
    }
    loop {
        let length = u32::from_be_bytes(*codestream.get(at + Part::LENGTH..)?.first_chunk()?);
        let next = at + length as usize;
        if length < Part::HEADER || codestream.get(next..next + 2)? != SOT {
            return Some(Part { at, length });
        }
        at = next;
    }
}

/// Corrects a codestream that the decoder would reject.
///
/// It states the length of the last tile-part, leaves out the subsampling of components if they all
/// are alike, and makes comments of segments that are passed over. Anything else stays. The
/// codestream ends within a few bytes of the end of `codestream`.
pub(crate) fn mend(codestream: &mut [u8]) {
    if let Some(part) = last_part(codestream)
        && part.length == 0
        && let Some(end) = memchr::memmem::rfind(codestream, &EOC)
        && let Some(length) = end.checked_sub(part.at).and_then(|length| u32::try_from(length).ok())
    {
        part.set_length(codestream, length);
    }
    let _ = SizSegment::mend(codestream);
    let _ = pass_over_unknown(codestream);
}

/// Makes comments of the segments that a decoder passes over, in all headers.
///
/// These are lengths of packets (PLM) and all that are not known.
fn pass_over_unknown(codestream: &mut [u8]) -> Option<()> {
    let mut at = pass_over_until(codestream, SOC_SIZ.len() - SOT.len(), SOT)?;
    while codestream.get(at..at + 2)? == SOT {
        let length = u32::from_be_bytes(*codestream.get(at + Part::LENGTH..)?.first_chunk()?);
        pass_over_until(codestream, at + Part::HEADER as usize - SOD.len(), SOD)?;
        at = at.checked_add(length as usize).filter(|_| length >= Part::HEADER)?;
    }
    Some(())
}

/// Makes comments of such segments from `at` up to a mark. Returns the offset of the mark.
fn pass_over_until(codestream: &mut [u8], mut at: usize, mark: [u8; 2]) -> Option<usize> {
    loop {
        let &[first, code] = codestream.get(at..)?.first_chunk()?;
        if [first, code] == mark {
            return Some(at);
        }
        if first != 0xff {
            return None;
        }
        if ALONE.contains(&code) {
            at += 2;
            continue;
        }
        if !has_effect(code) {
            codestream[at + 1] = COM;
        }
        at += 2 + usize::from(u16::from_be_bytes(*codestream.get(at + 2..)?.first_chunk()?));
    }
}

/// Returns whether the segment of a code may have an effect on samples.
///
/// Those are of T.800, of T.814 (CAP), of the extensions of T.801, and of encryption (T.807).
fn has_effect(code: u8) -> bool {
    matches!(
        code,
        0x4f..=0x53 | 0x55 | 0x58 | 0x5a..=0x61 | 0x63..=0x65 | 0x70..=0x79 | 0x90..=0x94 | 0xd9
    )
}

/// Returns the offset of the codestream in a file.
pub(crate) fn find(file: &[u8]) -> Option<usize> {
    memchr::memmem::find(file, &SOC_SIZ)
}

/// The content of the first marker segment (T.800, A.5.1).
#[derive(Debug)]
pub(crate) struct SizSegment {
    pub(crate) width: u32,
    pub(crate) height: u32,
    pub(crate) tiles: u64,
    /// The sides of the largest tile.
    largest_tile: [u32; 2],
    pub(crate) components: usize,
    pub(crate) bits: u32,
    pub(crate) is_signed: bool,
    /// Whether all components have the same type.
    pub(crate) is_uniform: bool,
    /// Whether any component has fewer samples than the picture has pixels.
    pub(crate) is_subsampled: bool,
}

impl SizSegment {
    /// The offset of the numbers that describe the grid.
    ///
    /// They are the ends of the picture, its start, the sides of tiles and their start, each across
    /// and down.
    const GRID: usize = SOC_SIZ.len() + 4;
    /// The offset of the components, after their number.
    const COMPONENTS: usize = Self::GRID + 4 * 8 + 2;

    /// Reads it from the start of a codestream.
    pub(crate) fn parse(codestream: &[u8]) -> Option<Self> {
        let [x1, y1, x0, y0, tile_width, tile_height, tile_x, tile_y] = Self::grid(codestream)?;
        let each = Self::components(codestream)?;
        let &[depth, ..] = each.first()?;
        let (width, height) = (side(x1, x0)?, side(y1, y0)?);
        Some(Self {
            width,
            height,
            largest_tile: [width.min(tile_width), height.min(tile_height)],
            tiles: tiles(side(x1, tile_x)?, tile_width)?
                .checked_mul(tiles(side(y1, tile_y)?, tile_height)?)?,
            components: each.len(),
            bits: u32::from(depth & 0x7f) + 1,
            is_signed: depth & 0x80 != 0,
            is_uniform: each.iter().all(|component| component[0] == depth),
            is_subsampled: each.iter().any(|component| component[1..] != [1, 1]),
        })
    }

    fn grid(codestream: &[u8]) -> Option<[u32; 8]> {
        let words = codestream.get(Self::GRID..)?.first_chunk::<32>()?.as_chunks::<4>().0;
        let mut grid = [0; 8];
        grid.iter_mut().zip(words).for_each(|(number, word)| *number = u32::from_be_bytes(*word));
        Some(grid)
    }

    /// Returns the depth of each component, and the distances of its samples across and down.
    fn components(codestream: &[u8]) -> Option<&[[u8; 3]]> {
        let number = u16::from_be_bytes(*codestream.get(Self::COMPONENTS - 2..)?.first_chunk()?);
        let each = codestream.get(Self::COMPONENTS..)?.get(..3 * usize::from(number))?;
        Some(each.as_chunks().0)
    }

    /// Makes the distance of samples the unit of the grid, if it is the same for all components.
    ///
    /// That is exact where tiles begin at samples, or are a single one.
    fn mend(codestream: &mut [u8]) -> Option<()> {
        let (mut grid, each) = (Self::grid(codestream)?, Self::components(codestream)?);
        let &[_, across, down] = each.first()?;
        if (across, down) == (1, 1) || each.iter().any(|component| component[1..] != [across, down]) {
            return None;
        }
        let components = each.len();
        for (axis, step) in [across, down].into_iter().enumerate() {
            let step = u32::from(step);
            let [end, tile, tile_start] = [grid[axis], grid[axis + 4], grid[axis + 6]];
            let is_single = tile_start.checked_add(tile)? >= end;
            let is_exact = step > 0 && tile.is_multiple_of(step) && tile_start.is_multiple_of(step);
            if step == 0 || !is_single && !is_exact {
                return None;
            }
            grid.iter_mut().skip(axis).step_by(2).for_each(|number| *number = number.div_ceil(step));
        }
        let place = codestream.get_mut(Self::GRID..)?;
        for (place, number) in place.as_chunks_mut::<4>().0.iter_mut().zip(grid) {
            *place = number.to_be_bytes();
        }
        let place = codestream.get_mut(Self::COMPONENTS..Self::COMPONENTS + 3 * components)?;
        place.as_chunks_mut::<3>().0.iter_mut().for_each(|component| component[1..].copy_from_slice(&[1, 1]));
        Some(())
    }
}

/// Returns the distance of two lines of the grid, if there is anything between them.
fn side(end: u32, start: u32) -> Option<u32> {
    end.checked_sub(start).filter(|&side| side > 0)
}

/// Returns the number of tiles along a side.
fn tiles(side: u32, tile: u32) -> Option<u64> {
    (tile > 0).then(|| u64::from(side.div_ceil(tile)))
}

fn malformed(reason: impl Into<String>) -> CodecError {
    CodecError::malformed(crate::Format::Dicom, reason)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The start of a codestream of this grid and of components this far apart.
    fn header(grid: [u32; 8], apart: &[[u8; 2]]) -> Vec<u8> {
        let mut bytes = SOC_SIZ.to_vec();
        bytes.extend([0; 4]);
        bytes.extend(grid.iter().flat_map(|number| number.to_be_bytes()));
        bytes.extend((apart.len() as u16).to_be_bytes());
        bytes.extend(apart.iter().flat_map(|[across, down]| [7, *across, *down]));
        bytes
    }

    #[test]
    fn segments_that_are_not_known_are_passed_over_in_every_header() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/data/codec/jp2-rgb.j2k");
        let file = std::fs::read(path).unwrap();
        let samples = |file: &[u8]| {
            attempt(file, &mut |decoded| {
                decoded.components().iter().flat_map(|plane| plane.samples().to_vec()).collect::<Vec<_>>()
            })
        };
        let expected = samples(&file).unwrap();
        let sot = memchr::memmem::find(&file, &SOT).unwrap();
        let length = u32::from_be_bytes(*file[sot + Part::LENGTH..].first_chunk().unwrap());
        for (at, code, is_passed_over) in
            [(sot, 0x57, true), (sot, 0x6f, true), (sot + 12, 0x6f, true), (sot, 0x74, false)]
        {
            let segment = [0xff, code, 0, 6, 1, 2, 3, 4];
            let mut with = [&file[..at], &segment, &file[at..]].concat();
            if at > sot {
                Part { at: sot, length }.set_length(&mut with, length + 8);
            }
            assert!(samples(&with).is_err(), "{code:x}");
            mend(&mut with);
            assert_eq!(samples(&with).ok().as_ref(), is_passed_over.then_some(&expected), "{code:x} {at}");
        }
    }

    #[test]
    fn components_that_are_subsampled_alike_are_whole_in_a_coarser_grid() {
        let size = |grid, apart: &[[u8; 2]]| {
            let mut bytes = header(grid, apart);
            mend(&mut bytes);
            let size = SizSegment::parse(&bytes).unwrap();
            (size.width, size.height, size.tiles, size.is_subsampled)
        };
        let single = [139, 119, 0, 0, 139, 119, 0, 0];
        assert_eq!(size(single, &[[2, 2]]), (70, 60, 1, false));
        assert_eq!(size(single, &[[2, 1], [2, 1]]), (70, 119, 1, false));
        assert_eq!(size([139, 119, 3, 1, 64, 32, 0, 0], &[[2, 2]]), (68, 59, 12, false));
        // Tiles that begin between samples, and components that differ.
        assert_eq!(size([139, 119, 0, 0, 63, 119, 0, 0], &[[2, 2]]), (139, 119, 3, true));
        assert_eq!(size(single, &[[1, 1], [2, 2]]), (139, 119, 1, true));
        assert_eq!(size(single, &[[0, 0]]), (139, 119, 1, true));
    }
}
