//! Strips and tiles. Each is read and decompressed separately, and its samples are put where they belong. Idle cores help if there are
//! many.

use std::mem;

use super::super::ifd::{Directory, Numbers};
use super::super::samples::swap_bytes;
use super::super::{CodecError, Limits};
use super::header::Header;
use super::jpeg::Jpegs;
use super::method::{self, Decompression, Method, PADDING};
use super::reader::{Reader, resize};
use super::{gdal, io_error, malformed, predictor, tags};
use crate::cores::Cores;

/// A thread reads at least this many bytes of samples at a time.
const BAND: usize = 512 << 10;

/// Bytes that a helper may take without being accounted for.
const SMALL_CHANGE: u64 = 1 << 20;

/// The strips or tiles of a picture.
pub(super) struct Parts<'a> {
    file: &'a Reader<'a>,
    header: &'a Header,
    /// Where they are in the file.
    offsets: Numbers<'a>,
    /// How long they are, if the file says so.
    lengths: Option<Numbers<'a>>,
    /// How many the picture needs.
    needed: usize,
    /// What the JPEG streams share.
    jpegs: Jpegs<'a>,
    /// The sample that stands where nothing was written.
    no_data: u16,
}

/// What a thread needs for reading.
struct Tool {
    /// A strip or tile as in the file, with [`PADDING`].
    data: Vec<u8>,
    /// The samples of a strip or tile whose rows are not those of the picture.
    samples: Vec<u8>,
    decompression: Decompression,
    outcome: Result<(), CodecError>,
}

impl Tool {
    fn new() -> Self {
        let (data, samples, decompression) = (Vec::new(), Vec::new(), Decompression::default());
        Self { data, samples, decompression, outcome: Ok(()) }
    }
}

impl<'a> Parts<'a> {
    /// Looks up the strips or tiles.
    ///
    /// # Errors
    /// If there are fewer than the picture needs.
    pub(super) fn new(
        file: &'a Reader<'a>,
        header: &'a Header,
        directory: &'a Directory,
    ) -> Result<Self, CodecError> {
        let needed = header.across().saturating_mul(header.down()).saturating_mul(header.planes());
        // Some writers store the offsets and lengths of tiles in the tags for strips.
        let numbers = |of_tiles, of_strips| {
            let of_tiles = if header.tiled { directory.numbers(of_tiles) } else { None };
            let numbers = of_tiles.or_else(|| directory.numbers(of_strips));
            numbers.filter(|numbers| numbers.count() >= needed)
        };
        let offsets = numbers(tags::TILE_OFFSETS, tags::STRIP_OFFSETS)
            .ok_or_else(|| malformed("it has too few strips or tiles"))?;
        let lengths = numbers(tags::TILE_BYTE_COUNTS, tags::STRIP_BYTE_COUNTS);
        let no_data = directory.bytes(tags::GDAL_NODATA).and_then(|text| gdal::no_data(text, header.bits));
        let (jpegs, no_data) = (Jpegs::new(directory, header), no_data.unwrap_or(0));
        Ok(Self { file, header, offsets, lengths, needed, jpegs, no_data })
    }

    /// Returns where a strip or tile lies, and the most bytes that it has; `None` if it was never written.
    ///
    /// # Errors
    /// If there is no telling how long it is.
    fn place(&self, index: usize) -> Result<Option<(u64, u64)>, CodecError> {
        let offset = self.offsets.get(index).expect("there are as many as the picture needs");
        let told = self.lengths.and_then(|lengths| lengths.get(index));
        // Some writers leave the lengths out or write 0. Samples that are not compressed have a known length, and a single strip ends with
        // the file at the latest.
        let is_clear = self.header.method == Method::Stored || self.needed == 1;
        match told.unwrap_or(0) {
            length @ 1.. => Ok(Some((offset, length))),
            0 if offset > 0 && is_clear => Ok(Some((offset, self.file.file_bytes().saturating_sub(offset)))),
            0 if offset == 0 && told.is_some() => Ok(None),
            0 => Err(malformed("a strip or tile has no length")),
        }
    }

    /// Returns whether any strip or tile was never written, as in GDAL's sparse files.
    pub(super) fn is_sparse(&self) -> bool {
        let Some(lengths) = self.lengths else { return false };
        self.offsets.iter().zip(lengths.iter()).take(self.needed).any(|place| place == (0, 0))
    }

    /// Returns the offset of the first strip or tile.
    pub(super) fn start(&self) -> u64 {
        self.offsets.get(0).unwrap_or(0)
    }

    /// Fills `target` with the samples of the picture as they are stored, except that those of 16 bits are in native order.
    pub(super) fn read(&self, target: &mut [u8], cores: &Cores) -> Result<(), CodecError> {
        let header = self.header;
        let part = header.row_bytes(header.layout.width).saturating_mul(header.rows());
        let at_once = BAND.div_ceil(part);
        let bands = target.chunks_mut(at_once.saturating_mul(part)).enumerate();
        let work = |tool: &mut Tool, (number, band): (usize, &mut [u8])| {
            tool.outcome = self.read_band(tool, number * at_once, band);
        };
        let alone = Cores::none();
        let cores = if self.tool_bytes() <= SMALL_CHANGE { cores } else { &alone };
        cores.in_order(bands, Tool::new, work, |tool| mem::replace(&mut tool.outcome, Ok(())))
    }

    /// Returns the bytes of heap that reading takes beyond small change.
    pub(super) fn tool_bytes(&self) -> u64 {
        let header = self.header;
        let lengths = || self.lengths.into_iter().flat_map(Numbers::iter).take(self.needed);
        let mut places = self.offsets.iter().zip(lengths());
        let all_told = self.lengths.is_some() && places.all(|(offset, length)| offset == 0 || length > 0);
        let longest = if all_told { lengths().max().unwrap_or(0) } else { u64::MAX };
        let data = longest.min(self.file.file_bytes()).min(most_data(header.method, header.part_bytes()));
        let decompression = match header.method {
            Method::Stored => return header.buffer_bytes(),
            Method::Jpeg => self.jpegs.heap_bytes(data, header.part_bytes()),
            method => method::heap_bytes(method),
        };
        data + decompression + header.buffer_bytes()
    }

    /// Fills a band whose uppermost strip or row of tiles has the number `first`.
    fn read_band(&self, tool: &mut Tool, first: usize, band: &mut [u8]) -> Result<(), CodecError> {
        let header = self.header;
        let (row, across) = (header.row_bytes(header.layout.width), header.across());
        for (down, rows) in (first..).zip(band.chunks_mut(row.saturating_mul(header.rows()))) {
            for plane in 0..header.planes() {
                for left in 0..across {
                    let index = (plane * header.down() + down) * across + left;
                    if header.is_straight() {
                        self.fetch(tool, index, rows)?;
                    } else {
                        let mut samples = mem::take(&mut tool.samples);
                        resize(&mut samples, rows.len() / row * header.part_row_bytes())?;
                        self.fetch(tool, index, &mut samples)?;
                        place(&samples, rows, header, plane, left);
                        tool.samples = samples;
                    }
                }
            }
        }
        Ok(())
    }

    /// Fills `target` with the first rows of a strip or tile.
    fn fetch(&self, tool: &mut Tool, index: usize, target: &mut [u8]) -> Result<(), CodecError> {
        let header = self.header;
        let Some((offset, length)) = self.place(index)? else {
            fill(target, self.no_data, header);
            return Ok(());
        };
        match header.method {
            Method::Stored if length < target.len() as u64 => {
                return Err(malformed("a strip or tile is shorter than its rows"));
            }
            Method::Stored => {
                self.file.read_at(target, offset).map_err(io_error)?;
                turn_bits(target, header);
            }
            Method::Jpeg => {
                let data = &mut tool.data;
                let length = length.min(most_data(header.method, header.part_bytes()));
                self.jpegs.load(self.file, offset, length, data)?;
                return self.jpegs.decode(data, target);
            }
            method => {
                let data = &mut tool.data;
                let length = length.min(most_data(method, target.len() as u64));
                load(self.file, offset, length, data)?;
                turn_bits(data, header);
                let row = (header.part.0, header.part_row_bytes());
                tool.decompression.run(method, data, row, target)?;
            }
        }
        if header.bits == 16 && header.form.big_endian != cfg!(target_endian = "big") {
            swap_bytes(target);
        }
        if header.predicted {
            let channels = header.samples / header.planes();
            predictor::undo(target, header.part_row_bytes(), channels, header.layout.depth);
        }
        Ok(())
    }
}

/// Refuses strips and tiles that take more memory than the limits allow for a picture.
pub(super) fn check(header: &Header, limits: &Limits) -> Result<(), CodecError> {
    let (width, rows) = header.part;
    if header.buffer_bytes() <= limits.max_bytes {
        return Ok(());
    }
    Err(CodecError::TooLarge {
        what: format!("a tile of {width}x{rows} pixels"),
        limit: format!("{} bytes", limits.max_bytes),
        flag: "--max-bytes",
    })
}

/// Returns the most bytes that `samples` bytes of samples can sensibly take in compressed form: many times what a method can produce, plus
/// what a JPEG may have before its data. Anything beyond that in the file is not read.
fn most_data(method: Method, samples: u64) -> u64 {
    let beside = if method == Method::Jpeg { 256 << 10 } else { 4 << 10 };
    samples.saturating_mul(8).saturating_add(beside)
}

/// Reads compressed data, and puts padding behind them.
fn load(file: &Reader<'_>, offset: u64, length: u64, data: &mut Vec<u8>) -> Result<(), CodecError> {
    file.check(offset, length).map_err(io_error)?;
    let length = length as usize;
    resize(data, length + PADDING)?;
    file.read_at(&mut data[..length], offset).map_err(io_error)
}

/// Fills rows of a strip or tile with one sample, as it is stored, except that those of 16 bits are in native order.
fn fill(rows: &mut [u8], sample: u16, header: &Header) {
    let row = header.part_row_bytes();
    match header.bits {
        _ if sample == 0 => rows.fill(0),
        8 => rows.fill(sample as u8),
        16 => rows.as_chunks_mut().0.fill(sample.to_ne_bytes()),
        bits => {
            let bit = |at: usize| sample >> (bits as usize - 1 - at % bits as usize) & 1;
            for (at, byte) in rows.iter_mut().enumerate() {
                let first = at % row * 8;
                *byte = (first..first + 8).fold(0, |byte, at| byte << 1 | bit(at) as u8);
            }
        }
    }
}

/// Puts the samples of a plane's strip, or of the tile with the number `left` from the left, into the rows of the picture.
fn place(samples: &[u8], rows: &mut [u8], header: &Header, plane: usize, left: usize) {
    let row = header.row_bytes(header.layout.width);
    let part_row = header.part_row_bytes();
    for (target, samples) in rows.chunks_exact_mut(row).zip(samples.chunks_exact(part_row)) {
        if header.planar {
            interleave(target, samples, header, plane, left * header.part.0 as usize);
        } else {
            let inside = part_row.min(row - left * part_row);
            target[left * part_row..][..inside].copy_from_slice(&samples[..inside]);
        }
    }
}

/// Puts samples of a plane, of 8 or 16 bits, into the pixels of a row from pixel `left` on.
fn interleave(row: &mut [u8], samples: &[u8], header: &Header, plane: usize, left: usize) {
    let bytes = header.layout.depth.bytes();
    let pixels = row.chunks_exact_mut(header.samples * bytes).skip(left);
    for (pixel, sample) in pixels.zip(samples.chunks_exact(bytes)) {
        pixel[plane * bytes..][..bytes].copy_from_slice(sample);
    }
}

/// Reverses the bits of every byte if the lowest one comes first in the file.
fn turn_bits(bytes: &mut [u8], header: &Header) {
    if header.lsb_first {
        bytes.iter_mut().for_each(|byte| *byte = byte.reverse_bits());
    }
}
