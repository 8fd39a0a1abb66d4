//! Strips and tiles.
//!
//! Each is read and decompressed separately, and its samples are put where they belong. Idle cores
//! help if there are many.

use std::borrow::Cow;
use std::mem;
use std::ops::Range;

use crate::coding::streams::StreamCoder;
use crate::formats::tiff::compression::inflated::Inflated;
use crate::formats::tiff::compression::method::{self, Decompression, Method, Part};
use crate::formats::tiff::compression::{inflated, predictor};
use crate::formats::tiff::read::channels::pick;
use crate::formats::tiff::read::header::Header;
use crate::formats::tiff::read::jpeg::Jpegs;
use crate::formats::tiff::read::samples::Predictor;
use crate::formats::tiff::{io_error, malformed, tags};
use crate::formats::webp;
use crate::io::cores::{Cores, SMALL_CHANGE};
use crate::io::reader::{Reader, resize};
use crate::metadata::ifd::{Directory, Numbers};
use crate::samples::mapped::{BAND, Rows};
use crate::samples::size::Size;
use crate::samples::{swap_bytes, unpack};
use crate::{CodecError, Limits};

/// The strips or tiles of a picture.
pub(crate) struct Parts<'a> {
    file: &'a Reader<'a>,
    header: &'a Header,
    /// Their offsets in the file.
    offsets: Numbers<'a>,
    /// Their lengths, if the file states them.
    lengths: Option<Numbers<'a>>,
    /// The number that the picture needs.
    needed: usize,
    /// The common part of the JPEG streams.
    jpegs: Jpegs<'a>,
    /// The sample for parts that were never written, in native byte order if of whole bytes.
    no_data: u16,
    /// The same for samples that are not levels.
    no_value: Vec<u8>,
    /// Those that a device inflated.
    inflated: Option<Inflated<'a>>,
}

/// The buffers of a reading thread.
#[derive(Default)]
pub(crate) struct Tool {
    /// A strip or tile as in the file.
    data: Vec<u8>,
    /// The samples of a strip or tile with rows other than those of the picture.
    samples: Vec<u8>,
    decompression: Decompression,
}

impl<'a> Parts<'a> {
    /// Looks up the strips or tiles.
    ///
    /// # Errors
    /// If there are fewer than the picture needs.
    pub(crate) fn new(
        file: &'a Reader<'a>,
        header: &'a Header,
        directory: &'a Directory,
    ) -> Result<Self, CodecError> {
        let needed = header.across().saturating_mul(header.down()).saturating_mul(header.planes());
        let before = header.parts_before();
        // Some writers store the offsets and lengths of tiles in the tags for strips.
        let numbers = |of_tiles, of_strips| {
            let of_tiles = if header.tiled { directory.numbers(of_tiles) } else { None };
            let numbers = of_tiles.or_else(|| directory.numbers(of_strips));
            let numbers = numbers.filter(|numbers| numbers.count() >= before.saturating_add(needed));
            numbers.map(|numbers| numbers.skip(before))
        };
        let (of_tiles, of_strips, lengths) = if header.is_one_stream {
            (tags::TILE_OFFSETS, tags::JPEG_STREAM, tags::JPEG_STREAM_LENGTH)
        } else {
            (tags::TILE_OFFSETS, tags::STRIP_OFFSETS, tags::STRIP_BYTE_COUNTS)
        };
        let offsets =
            numbers(of_tiles, of_strips).ok_or_else(|| malformed("it has too few strips or tiles"))?;
        let lengths = numbers(tags::TILE_BYTE_COUNTS, lengths);
        let jpegs = Jpegs::new(directory, header);
        let no_data = if header.kind.is_none() { header.filling as u16 } else { 0 };
        let no_value = header.kind.and_then(|kind| kind.sample(header.filling)).unwrap_or_default();
        Ok(Self { file, header, offsets, lengths, needed, jpegs, no_data, no_value, inflated: None })
    }

    /// Has a device inflate all parts that are going to be read, if it can.
    pub(crate) fn inflated_by(self, coder: Option<&'a dyn StreamCoder>) -> Self {
        let inflated = coder.and_then(|coder| self.inflate_by(coder));
        Self { inflated, ..self }
    }

    fn inflate_by(&self, coder: &'a dyn StreamCoder) -> Option<Inflated<'a>> {
        let header = self.header;
        let wanted = self.wanted().filter(|_| header.method == Method::Deflate && !header.lsb_first)?;
        let place = |index| self.place(index).ok().flatten();
        let places: Vec<(u64, u64)> = wanted.clone().map(place).collect::<Option<_>>()?;
        let most = most_data(header.method, header.part_bytes());
        let lengths: Vec<u64> = places.iter().map(|&(_, length)| length.min(most)).collect();
        let read = |number: usize, into: &mut [u8]| self.file.read_at(into, places[number].0).is_ok();
        Inflated::new(coder, wanted.start, &lengths, header.part_bytes(), read)
    }

    /// Returns the numbers of the parts with the rows that are read, unless planes are separate.
    fn wanted(&self) -> Option<Range<usize>> {
        let header = self.header;
        if !header.is_band() {
            return Some(0..self.needed);
        }
        let (first, end) =
            (header.first_row as usize, header.first_row as usize + header.layout.height as usize);
        let rows = first / header.rows()..end.div_ceil(header.rows());
        (header.planes() == 1).then(|| rows.start * header.across()..rows.end * header.across())
    }

    /// Returns whether a device may inflate them.
    pub(crate) fn may_be_inflated(&self) -> bool {
        self.header.method == Method::Deflate && self.needed >= inflated::FEWEST
    }

    /// Returns the offset and the most bytes of a strip or tile; `None` if it was never written.
    ///
    /// # Errors
    /// If its length is unknown.
    fn place(&self, index: usize) -> Result<Option<(u64, u64)>, CodecError> {
        let offset = self.offsets.get(index).expect("there are as many as the picture needs");
        let stated = self.lengths.and_then(|lengths| lengths.get(index));
        // Some writers leave the lengths out or write 0. Samples that are not compressed have a
        // known length, and a single strip ends with the file at the latest.
        let is_clear = self.header.method == Method::Stored || self.needed == 1;
        match stated.unwrap_or(0) {
            length @ 1.. => Ok(Some((offset, length))),
            0 if offset > 0 && is_clear => Ok(Some((offset, self.file.file_bytes().saturating_sub(offset)))),
            0 if offset == 0 && stated.is_some() => Ok(None),
            0 => Err(malformed("a strip or tile has no length")),
        }
    }

    /// Returns whether any strip or tile was never written, as in GDAL's sparse files.
    pub(crate) fn is_sparse(&self) -> bool {
        let Some(lengths) = self.lengths else { return false };
        self.offsets.iter().zip(lengths.iter()).take(self.needed).any(|place| place == (0, 0))
    }

    /// Returns whether they lie one after the other, `bytes` bytes in all.
    pub(crate) fn is_contiguous(&self, bytes: u64) -> bool {
        let mut end = Some(self.start());
        let places = (0..self.needed).map(|index| self.place(index).ok().flatten());
        for place in places {
            end = match (end, place) {
                (Some(end), Some((offset, length))) if offset == end => end.checked_add(length),
                _ => None,
            };
        }
        end == self.start().checked_add(bytes)
    }

    /// Returns the offset of the first strip or tile.
    pub(crate) fn start(&self) -> u64 {
        self.offsets.get(0).unwrap_or(0)
    }

    /// Fills `target` with the picture's samples as stored, but whole bytes in native order.
    pub(crate) fn read(&self, target: &mut [u8], cores: &Cores) -> Result<(), CodecError> {
        let header = self.header;
        let row = header.row_bytes(header.layout.width);
        let at_once = match header.is_interleaved() {
            true => header.rows_at_once(),
            false => BAND.div_ceil(row.saturating_mul(header.rows())).saturating_mul(header.rows()),
        };
        let alone = Cores::none();
        let cores = if self.tool_bytes() <= SMALL_CHANGE { cores } else { &alone };
        cores.in_order(
            target.chunks_mut(at_once.saturating_mul(row)).enumerate(),
            || (Tool::default(), Ok(())),
            |(tool, outcome), (number, band)| {
                *outcome = self.read_rows(tool, header.first_row as usize + number * at_once, band);
            },
            |(_, outcome)| mem::replace(outcome, Ok(())),
        )
    }

    /// Returns the bytes of heap that reading takes beyond small change.
    pub(crate) fn tool_bytes(&self) -> u64 {
        let header = self.header;
        let lengths = self.lengths.into_iter().flat_map(Numbers::iter).take(self.needed);
        let mut places = self.offsets.iter().zip(lengths.clone());
        let are_stated = self.lengths.is_some() && places.all(|(offset, length)| offset == 0 || length > 0);
        let longest = if are_stated { lengths.max().unwrap_or(0) } else { u64::MAX };
        let data = longest.min(self.file.file_bytes()).min(most_data(header.method, header.part_bytes()));
        let decompression = match header.method {
            Method::Stored => return header.buffer_bytes(),
            Method::Jpeg => self.jpegs.heap_bytes(data, header.part_bytes()),
            Method::WebP => webp::part_heap_bytes(header.part),
            method => method::heap_bytes(method, header.part_bytes()),
        };
        data + decompression + header.buffer_bytes()
    }

    /// Fills `target` with rows of the picture from number `first` on.
    ///
    /// Only stored samples may begin within a strip or tile.
    fn read_rows(&self, tool: &mut Tool, first: usize, mut target: &mut [u8]) -> Result<(), CodecError> {
        let header = self.header;
        let (row, across) = (header.row_bytes(header.layout.width), header.across());
        let mut at = first;
        while !target.is_empty() {
            let (down, skipped) = (at / header.rows(), at % header.rows());
            let count = (header.rows() - skipped).min(target.len() / row);
            let (rows, further) = mem::take(&mut target).split_at_mut(count * row);
            (target, at) = (further, at + count);
            for plane in 0..header.planes() {
                for left in 0..across {
                    let index = (plane * header.down() + down) * across + left;
                    if header.is_straight() {
                        self.fetch(tool, index, skipped, rows)?;
                    } else {
                        let mut samples = mem::take(&mut tool.samples);
                        let (across, down) = header.shared(plane);
                        let length = if (across, down) == (1, 1) || !header.planar {
                            header.rows_bytes(count as u32) as usize
                        } else {
                            header.part.width.div_ceil(across) as usize * count.div_ceil(down as usize)
                        };
                        resize(&mut samples, length)?;
                        self.fetch(tool, index, skipped, &mut samples)?;
                        place(&samples, rows, header, plane, left);
                        tool.samples = samples;
                    }
                }
            }
        }
        Ok(())
    }

    /// Fills `target` with the rows of a strip or tile after `skipped` ones, 0 unless uncompressed.
    fn fetch(
        &self,
        tool: &mut Tool,
        index: usize,
        skipped: usize,
        target: &mut [u8],
    ) -> Result<(), CodecError> {
        let header = self.header;
        let Some((offset, length)) = self.place(index)? else {
            fill(target, self.no_data, &self.no_value, header);
            return Ok(());
        };
        match header.method {
            Method::Stored => {
                let skipped = (skipped * header.part_row_bytes()) as u64;
                if length < skipped + target.len() as u64 {
                    return Err(malformed("a strip or tile is shorter than its rows"));
                }
                self.file.read_at(target, offset.saturating_add(skipped)).map_err(io_error)?;
                turn_bits(target, header);
            }
            Method::Jpeg => {
                let data = &mut tool.data;
                let length = length.min(most_data(header.method, header.part_bytes()));
                self.jpegs.load(self.file, offset, length, data)?;
                return self.jpegs.decode(data, target);
            }
            Method::WebP => {
                let data = &mut tool.data;
                load(self.file, offset, length.min(most_data(header.method, header.part_bytes())), data)?;
                return webp::decode_part(data, header.part, header.samples, target).map_err(in_tiff);
            }
            method => {
                if let Some(data) = self.inflated.as_ref().and_then(|all| all.data(index, target.len())) {
                    target.copy_from_slice(&data[..target.len()]);
                    self.undo(target);
                    return Ok(());
                }
                let data = &mut tool.data;
                // All of it, for the checksum, however few of its rows are in the picture.
                let length = length.min(most_data(method, header.part_bytes()));
                load(self.file, offset, length, data)?;
                turn_bits(data, header);
                let (width, row, bytes) = (header.part.width, header.part_row_bytes(), header.part_bytes());
                tool.decompression.run(method, data, Part { width, row, bytes }, target)?;
            }
        }
        self.undo(target);
        Ok(())
    }

    /// Brings samples into native byte order, and undoes the predictor.
    fn undo(&self, target: &mut [u8]) {
        let header = self.header;
        let channels = header.samples * header.channels.stride() / header.planes();
        let (bytes, row) = (header.sample_bytes(), header.part_row_bytes());
        if header.predictor == Predictor::Float {
            // Its bytes are in an order of their own in files of either byte order.
            return predictor::undo_float(target, row, channels, bytes);
        }
        if header.form.big_endian != cfg!(target_endian = "big") && !header.is_packed() {
            swap_bytes(target, bytes);
        }
        if header.predictor == Predictor::Horizontal {
            predictor::undo(target, row, channels, bytes);
        }
    }
}

impl Rows for Parts<'_> {
    type Tool = Tool;

    fn at_once(&self) -> usize {
        self.header.rows_at_once()
    }

    fn tool_bytes(&self) -> u64 {
        Self::tool_bytes(self)
    }

    fn read(&self, tool: &mut Tool, first: usize, into: &mut [u8]) -> Result<(), CodecError> {
        self.read_rows(tool, self.header.first_row as usize + first, into)
    }
}

/// Refuses strips and tiles that take more memory than the limits allow for a picture.
///
/// If the picture is over the limits too, or its file of `length` bytes, the error is about all of
/// them.
pub(crate) fn check(header: &Header, length: u64, limits: &Limits) -> Result<(), CodecError> {
    let (enough, all) = (header.buffer_bytes(), header.layout.bytes().max(length));
    if enough <= limits.max_bytes {
        return Ok(());
    }
    if limits.check(&header.layout, all, || None).is_err() {
        return limits.check(&header.layout, all.max(enough), || None);
    }
    let Size { width, height: rows } = header.part;
    Err(CodecError::too_long(format!("a tile of {width}x{rows} pixels"), limits.max_bytes, Some(enough)))
}

/// Returns the error of a WebP as that of the TIFF around it.
fn in_tiff(error: CodecError) -> CodecError {
    match error {
        CodecError::Malformed { reason, .. } => malformed(format!("a WebP in it is damaged: {reason}")),
        other => other,
    }
}

/// Returns the most bytes that `samples` bytes of samples can sensibly take in compressed form.
///
/// That is many times the longest output of a method, plus the most that a JPEG may have before its
/// data. Anything beyond that in the file is not read.
fn most_data(method: Method, samples: u64) -> u64 {
    let fixed = if matches!(method, Method::Jpeg | Method::WebP) { 256 << 10 } else { 4 << 10 };
    samples.saturating_mul(8).saturating_add(fixed)
}

/// Reads compressed data.
fn load(file: &Reader<'_>, offset: u64, length: u64, data: &mut Vec<u8>) -> Result<(), CodecError> {
    file.check(offset, length).map_err(io_error)?;
    resize(data, length as usize)?;
    file.read_at(data, offset).map_err(io_error)
}

/// Fills rows of a strip or tile with one sample as stored, but whole bytes in native order.
///
/// It is `value` if samples are not levels.
fn fill(rows: &mut [u8], sample: u16, value: &[u8], header: &Header) {
    let row = header.part_row_bytes();
    match header.bits {
        _ if !value.is_empty() => rows.chunks_exact_mut(value.len()).for_each(|to| to.copy_from_slice(value)),
        _ if sample == 0 => rows.fill(0),
        8 => rows.fill(sample as u8),
        16 => rows.as_chunks_mut().0.fill(sample.to_ne_bytes()),
        bits => {
            let bits = bits as usize;
            for (at, byte) in rows.iter_mut().enumerate() {
                let first = at % row * 8;
                *byte = (first..first + 8)
                    .fold(0, |byte, at| byte << 1 | (sample >> (bits - 1 - at % bits) & 1) as u8);
            }
        }
    }
}

/// Puts the samples of a plane's strip, or of tile `left`, into the rows of the picture.
fn place(samples: &[u8], rows: &mut [u8], header: &Header, plane: usize, left: usize) {
    if header.planar && header.shared(plane) != (1, 1) {
        return place_shared(samples, rows, header, plane, left);
    }
    if header.is_subsampled() && !header.planar {
        return place_units(samples, rows, header, left);
    }
    let row = header.row_bytes(header.layout.width);
    let part_row = header.part_row_bytes();
    for (target, samples) in rows.chunks_exact_mut(row).zip(samples.chunks_exact(part_row)) {
        let first = left * header.part.width as usize;
        if header.is_interleaved() {
            let (bytes, stride) = (header.placed_bytes(), header.channels.stride());
            pick(&mut target[first * bytes..], &unpacked(samples, header), header.channel, stride, bytes);
        } else if header.planar {
            interleave(target, &unpacked(samples, header), header, plane, first);
        } else {
            let inside = part_row.min(row - left * part_row);
            target[left * part_row..][..inside].copy_from_slice(&samples[..inside]);
        }
    }
}

/// Puts the samples of a plane that pixels share into the rows of the picture.
fn place_shared(samples: &[u8], rows: &mut [u8], header: &Header, plane: usize, left: usize) {
    let (across, down) = header.shared(plane);
    let (stride, first) = (header.part.width.div_ceil(across) as usize, left * header.part.width as usize);
    for (y, row) in rows.chunks_exact_mut(header.row_bytes(header.layout.width)).enumerate() {
        let samples = &samples[y / down as usize * stride..][..stride];
        let pixels = row.as_chunks_mut::<3>().0[first..].iter_mut().take(header.part.width as usize);
        for (x, pixel) in pixels.enumerate() {
            pixel[plane] = samples[x / across as usize];
        }
    }
}

/// Puts units of pixels that share their differences of colour into the rows of the picture.
///
/// A unit is the brightness of each pixel, and then the two differences.
fn place_units(samples: &[u8], rows: &mut [u8], header: &Header, left: usize) {
    let (across, down) = (header.subsampling.0 as usize, header.subsampling.1 as usize);
    let (first, unit) = (left * header.part.width as usize, across * down + 2);
    for (y, row) in rows.chunks_exact_mut(header.row_bytes(header.layout.width)).enumerate() {
        let units = &samples[y / down * header.units_bytes()..][..header.units_bytes()];
        let pixels = row.as_chunks_mut::<3>().0[first..].iter_mut().take(header.part.width as usize);
        for (x, pixel) in pixels.enumerate() {
            let unit = &units[x / across * unit..][..unit];
            *pixel = [unit[y % down * across + x % across], unit[unit.len() - 2], unit[unit.len() - 1]];
        }
    }
}

/// Returns a row of a plane's or of interleaved samples; packed ones are scaled to full range.
fn unpacked<'r>(row: &'r [u8], header: &Header) -> Cow<'r, [u8]> {
    if !header.is_packed() {
        return row.into();
    }
    let width = header.part.width as usize * header.channels.stride();
    let mut samples = vec![0; width * header.layout.depth.bytes()];
    let at = samples.len() - row.len();
    samples[at..].copy_from_slice(row);
    unpack(&mut samples, at, width, header.bits);
    samples.into()
}

/// Puts samples of a plane, of whole bytes, into the pixels of a row from pixel `left` on.
fn interleave(row: &mut [u8], samples: &[u8], header: &Header, plane: usize, left: usize) {
    let bytes = header.placed_bytes();
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
