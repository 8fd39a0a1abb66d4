//! JPEGs in a TIFF, one for every strip or tile, with tables that they may have in common (TIFF Technical Note 2).

use ::tiff::TiffError;

use super::super::CodecError;
use super::super::ifd::{Bytes, Directory};
use super::header::Header;
use super::reader::Reader;
use super::{decode_error, malformed, parts, tags};
use crate::codec::jpeg::Part;

const SOI: &[u8] = b"\xff\xd8";
const EOI: &[u8] = b"\xff\xd9";

/// The most rows of a JPEG.
const MOST_ROWS: u32 = 65535;

/// Reads the samples, Y, Cb and Cr as RGB.
pub(super) fn read(
    mut file: Reader<'_>,
    directory: &Directory,
    header: &Header,
    place: (u32, u32),
    target: &mut [u8],
) -> Result<(), CodecError> {
    let mut streams = Streams::new(directory)?;
    let part = Part {
        width: place.0,
        rows: most_rows(place),
        components: if header.planar { 1 } else { header.samples },
        ycbcr: directory.number(tags::PHOTOMETRIC) == Some(tags::YCBCR),
    };
    parts::read(header, place, target, |index, target| {
        let stream = streams.get(&mut file, index)?;
        part.decode(stream, target).map_err(|error| match error {
            CodecError::Malformed { reason, .. } => malformed(format!("a JPEG in it is damaged: {reason}")),
            other => other,
        })
    })
}

/// What decoding takes: the longest JPEG as it is in the file, and with its tables; its coefficients, should it have several scans.
pub(super) fn heap_bytes(directory: &Directory, header: &Header, file_bytes: u64) -> u64 {
    let (_, lengths) = places(directory);
    let longest = lengths.into_iter().max().unwrap_or(0).min(file_bytes);
    let samples =
        header.part.map_or(0, |place| header.part_row_bytes(place) as u64 * u64::from(most_rows(place)));
    2 * (longest + samples)
}

/// How many rows the JPEG of a strip or tile may have. The last strip's may be as many as another's, and the only one's whole blocks.
fn most_rows((_, rows): (u32, u32)) -> u32 {
    rows.min(MOST_ROWS).next_multiple_of(16)
}

/// Offsets and lengths of the strips or tiles.
fn places(directory: &Directory) -> (Vec<u64>, Vec<u64>) {
    let is_tiled = directory.get(tags::TILE_OFFSETS).is_some();
    let numbers =
        |strips, tiles| directory.numbers(if is_tiled { tiles } else { strips }).unwrap_or_default();
    (
        numbers(tags::STRIP_OFFSETS, tags::TILE_OFFSETS),
        numbers(tags::STRIP_BYTE_COUNTS, tags::TILE_BYTE_COUNTS),
    )
}

/// The JPEGs.
struct Streams<'a> {
    offsets: Vec<u64>,
    lengths: Vec<u64>,
    /// Their common tables, without the marker that ends them.
    tables: Option<&'a [u8]>,
    /// A JPEG with its tables.
    joined: Vec<u8>,
}

impl<'a> Streams<'a> {
    fn new(directory: &'a Directory) -> Result<Self, CodecError> {
        let (offsets, lengths) = places(directory);
        let tables = directory.bytes(tags::JPEG_TABLES);
        if tables.is_some_and(|tables| !tables.starts_with(SOI)) {
            return Err(malformed("its JPEG tables make no sense"));
        }
        let tables = tables.map(|tables| tables.strip_suffix(EOI).unwrap_or(tables));
        Ok(Self { offsets, lengths, tables, joined: Vec::new() })
    }

    /// The JPEG of a strip or tile, whole.
    fn get<'s>(&'s mut self, file: &'s mut Reader<'_>, index: u32) -> Result<&'s [u8], CodecError> {
        let number = |numbers: &[u64]| numbers.get(index as usize).and_then(|&n| usize::try_from(n).ok());
        let (Some(offset), Some(length)) = (number(&self.offsets), number(&self.lengths)) else {
            return Err(malformed("it has too few strips or tiles"));
        };
        let found = file.at(offset, length).map_err(|error| decode_error(TiffError::IoError(error)))?;
        let bare = found.strip_prefix(SOI).ok_or_else(|| malformed("a JPEG in it has no beginning"))?;
        let Some(tables) = self.tables else { return Ok(found) };
        self.joined.clear();
        let bytes = tables.len() + bare.len();
        self.joined
            .try_reserve_exact(bytes)
            .map_err(|_| CodecError::OutOfMemory { bytes: Some(bytes as u64) })?;
        self.joined.extend_from_slice(tables);
        self.joined.extend_from_slice(bare);
        Ok(&self.joined)
    }
}
