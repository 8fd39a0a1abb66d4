//! The JPEG streams of a TIFF's strips or tiles, with shared tables (TIFF Technical Note 2).

use crate::CodecError;
use crate::formats::jpeg::Embedded;
use crate::formats::tiff::read::header::Header;
use crate::formats::tiff::read::samples;
use crate::formats::tiff::{io_error, malformed, tags};
use crate::io::reader::{Reader, resize};
use crate::metadata::ifd::Directory;
use crate::samples::size::Size;

const SOI: [u8; 2] = *b"\xff\xd8";
const EOI: [u8; 2] = *b"\xff\xd9";

/// The most rows of a JPEG.
const MAX_ROWS: u32 = 65535;

/// The most bytes of shared tables: many times those of valid ones.
const MAX_TABLES: usize = 64 << 10;

/// The tables and properties that the JPEG streams of a picture share.
pub(crate) struct Jpegs<'a> {
    /// The tables, without the marker that ends them.
    tables: Option<&'a [u8]>,
    stream: Embedded,
}

impl<'a> Jpegs<'a> {
    pub(crate) fn new(directory: &'a Directory, header: &Header) -> Self {
        let tables = directory.bytes(tags::JPEG_TABLES);
        let Size { width, height: rows } = header.part;
        let stream = Embedded {
            width,
            // The last strip may have as many rows as the others, and a single strip may be padded
            // to whole blocks.
            rows: rows.min(MAX_ROWS).next_multiple_of(16),
            bits: header.bits,
            components: if header.planar { 1 } else { header.samples * header.channels.stride() },
            ycbcr: samples::is_ycbcr(directory),
        };
        Self { tables: tables.map(|tables| tables.strip_suffix(&EOI).unwrap_or(tables)), stream }
    }

    /// Returns the bytes of heap that decoding a stream of `data` bytes takes.
    ///
    /// They are the stream with its tables, a copy without its stuffed bytes, and coefficients or
    /// samples of 16 bits in case it has several scans or is lossless.
    pub(crate) fn heap_bytes(&self, data: u64, samples: u64) -> u64 {
        2 * data + self.tables.map_or(0, |tables| tables.len() as u64) + 2 * samples
    }

    /// Reads a stream into `data`, with the tables.
    pub(crate) fn load(
        &self,
        file: &Reader<'_>,
        offset: u64,
        length: u64,
        data: &mut Vec<u8>,
    ) -> Result<(), CodecError> {
        file.check(offset, length).map_err(io_error)?;
        let mut start = [0; SOI.len()];
        file.read_at(&mut start, offset).map_err(io_error)?;
        if start != SOI {
            return Err(malformed("a JPEG in it has no beginning"));
        }
        let tables = self.tables.unwrap_or(&SOI);
        if !tables.starts_with(&SOI) || tables.len() > MAX_TABLES {
            return Err(malformed("its JPEG tables are invalid"));
        }
        let rest = (length as usize).saturating_sub(SOI.len());
        data.clear();
        resize(data, tables.len() + rest)?;
        let (before, behind) = data.split_at_mut(tables.len());
        before.copy_from_slice(tables);
        file.read_at(behind, offset + SOI.len() as u64).map_err(io_error)
    }

    /// Decodes a stream; its first rows, as many as fit into `target`, are kept.
    pub(crate) fn decode(&self, data: &[u8], target: &mut [u8]) -> Result<(), CodecError> {
        self.stream.decode(data, target).map_err(|error| match error {
            CodecError::Malformed { reason, .. } => malformed(format!("a JPEG in it is damaged: {reason}")),
            other => other,
        })
    }
}
