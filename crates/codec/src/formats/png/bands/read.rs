//! The rows of a PNG, decoded from its file band by band.
//!
//! The image data are one stream, in which a band can only be reached from the bands above: the
//! decoder's state is kept where bands begin.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Cursor;
use std::os::unix::fs::FileExt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use ::png::{Compression, Decoder, Encoder, Filter, Info, Limits, Transformations};
use crc32fast::Hasher;
use miniz_oxide::inflate::TINFLStatus;
use miniz_oxide::inflate::core::{DecompressorOxide, decompress, inflate_flags};

use super::super::chunks::{self, FRAME, Stored};
use super::super::rows::{INCOMPLETE, Rows, WINDOW};
use super::super::{CHECKSUM, CONTRADICTION, Native, Source, decode_error, encode_error, malformed};
use crate::CodecError;
use crate::io::budget::{Budget, ask};
use crate::io::input::waiting_for_file;
use crate::parts::banded::BandPlace;
use crate::parts::bands::BandRows;
use crate::picture::decode::{Decode, Facts, Needs, Room, Wanted};
use crate::picture::decoded::Payload;
use crate::samples::swap_big_endian;
use equalize::{Depth, Layout};

/// Bytes that are read from the file at a time.
const INPUT: usize = 64 << 10;
/// Bytes of rows that are decoded at a time on their way to the slot, unless one row has more.
const SCRATCH: usize = 256 << 10;
/// The number of decoder states that are kept for bands that have not been asked for yet.
///
/// No more bands are under way at once, as each has a sixteenth of memory.
const KEPT: usize = 16;

/// The place of a band of a PNG.
pub(super) type Place = BandPlace<Rereading>;

impl Place {
    /// Opens the band of a file.
    pub(crate) fn open<'a>(
        self,
        file: &'a File,
        buffer: &'a mut Vec<u8>,
        budget: Option<&mut dyn Budget>,
    ) -> Result<Band<'a>, CodecError> {
        if let Some(budget) = budget {
            ask(budget, self.bytes(), "metadata")?;
        }
        buffer.clear();
        buffer.extend_from_slice(&self.picture.outline);
        Ok(Band { whole: Source::open(buffer)?, file, place: self })
    }

    /// Returns the bytes of the file in memory.
    pub(crate) fn bytes(&self) -> u64 {
        self.picture.outline.len() as u64
    }
}

/// A band of an opened PNG.
#[derive(Debug)]
pub(crate) struct Band<'a> {
    whole: Source<'a>,
    file: &'a File,
    place: Place,
}

impl Band<'_> {
    fn layout(&self) -> Layout {
        Layout { height: self.place.count, ..self.whole.facts().layout }
    }
}

impl Decode for Band<'_> {
    fn facts(&self) -> Facts {
        Facts { layout: self.layout(), frames: 1, ..self.whole.facts() }
    }

    /// Returns the needs of two decoder states, filtered rows, and rows on their way to the slot.
    ///
    /// The latter are there as they are stored, in a file of their own, and twice in its coders.
    fn needs(&self) -> Needs {
        let Stored { row, is_direct, .. } = self.place.picture.stored;
        let place = row + WINDOW + size_of::<DecompressorOxide>();
        let scratch = SCRATCH.max(row);
        Needs::of_heap((2 * place + INPUT + 2 * scratch + if is_direct { 0 } else { 4 * scratch }) as u64)
    }

    fn decode(self: Box<Self>, room: Room<'_>, wanted: &Wanted<'_>) -> Result<Payload, CodecError> {
        let slot = room.slot;
        let layout = self.layout();
        let Self { whole, file, place } = *self;
        place.picture.read(file, place.index, slot)?;
        if layout.depth == Depth::Sixteen {
            swap_big_endian(slot, wanted.byte_order);
        }
        let native = Box::new(Native { kept: whole.chunks.kept(), animation: None });
        Ok(Payload { layout, metadata: whole.metadata.read(), native, mapped: None })
    }
}

/// The content of the first chunk of image data in a file.
#[derive(Clone, Copy, Debug)]
pub(super) struct ChunkData {
    pub(super) at: u64,
    pub(super) bytes: u32,
}

/// A picture that is decoded in bands, perhaps more than once.
#[derive(Debug)]
pub(super) struct Rereading {
    /// A file like its own without image data.
    outline: Vec<u8>,
    data: ChunkData,
    bands: BandRows,
    stored: Stored,
    /// The stored form of pixels, if they have to be expanded.
    form: Option<Box<Info<'static>>>,
    /// Decoder states, by the bands that begin there.
    positions: Mutex<BTreeMap<usize, Position>>,
}

impl Rereading {
    pub(super) fn new(
        outline: Vec<u8>,
        data: ChunkData,
        bands: BandRows,
        stored: Stored,
        form: Option<Box<Info<'static>>>,
    ) -> Self {
        Self { outline, data, bands, stored, form, positions: Mutex::default() }
    }

    /// Decodes a band into a slot.
    ///
    /// The bands above are passed over from the nearest state that is kept.
    fn read(&self, file: &File, index: usize, slot: &mut [u8]) -> Result<(), CodecError> {
        // Holding the lock cannot end in a deadlock: its holder only decodes.
        let mut positions = self.lock();
        let (mut at, mut position) = match positions.range(..=index).next_back() {
            Some((&at, position)) => (at, position.clone()),
            None => (0, Position::first(self.data.at, self.data.bytes, self.stored.row)),
        };
        while at < index {
            self.pass_over(&mut position, file, at)?;
            at += 1;
            keep(&mut positions, at, &position);
        }
        positions.remove(&index);
        match &self.form {
            None => position.read(file, self.stored, slot)?,
            Some(form) => self.read_expanded(form, &mut position, file, index, slot)?,
        }
        if index + 1 < self.bands.count() {
            keep(&mut positions, index + 1, &position);
            return Ok(());
        }
        position.data.finish(file)
    }

    /// Decodes a band that is not wanted.
    fn pass_over(&self, position: &mut Position, file: &File, index: usize) -> Result<(), CodecError> {
        let (mut scratch, mut left) = (self.scratch(), self.bands.rows(index) as usize * self.stored.row);
        while left > 0 {
            let rows = scratch.len().min(left);
            position.read(file, self.stored, &mut scratch[..rows])?;
            left -= rows;
        }
        Ok(())
    }

    /// Decodes a band whose pixels have to be expanded.
    fn read_expanded(
        &self,
        form: &Info<'static>,
        position: &mut Position,
        file: &File,
        index: usize,
        slot: &mut [u8],
    ) -> Result<(), CodecError> {
        let (row, mut scratch) = (self.stored.row, self.scratch());
        let expanded_row = slot.len() / self.bands.rows(index) as usize;
        for pixels in slot.chunks_mut(scratch.len() / row * expanded_row) {
            let rows = pixels.len() / expanded_row;
            let scratch = &mut scratch[..rows * row];
            position.read(file, self.stored, scratch)?;
            expand(form, rows as u32, scratch, pixels)?;
        }
        Ok(())
    }

    /// Returns room for some rows.
    fn scratch(&self) -> Vec<u8> {
        vec![0; (SCRATCH / self.stored.row).max(1) * self.stored.row]
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<usize, Position>> {
        self.positions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Keeps the state where a band begins.
fn keep(positions: &mut BTreeMap<usize, Position>, index: usize, position: &Position) {
    if positions.len() >= KEPT {
        positions.pop_first();
    }
    positions.insert(index, position.clone());
}

/// Returns the stored form of a picture's pixels, with the content of its transparency chunk.
pub(super) fn form_of(info: &Info<'_>, transparency: Option<&[u8]>) -> Info<'static> {
    let mut form = Info::with_size(info.width, 1);
    (form.color_type, form.bit_depth) = (info.color_type, info.bit_depth);
    form.palette = info.palette.as_deref().map(|palette| palette.to_vec().into());
    form.trns = transparency.map(|transparency| transparency.to_vec().into());
    form
}

/// Expands rows in the same way as those of a whole picture: as a file of their own.
fn expand(form: &Info<'static>, count: u32, rows: &[u8], pixels: &mut [u8]) -> Result<(), CodecError> {
    let mut file = Vec::with_capacity(rows.len() + INPUT);
    let mut info = form.clone();
    info.height = count;
    let mut encoder = Encoder::with_info(&mut file, info).map_err(encode_error)?;
    encoder.set_compression(Compression::NoCompression);
    encoder.set_filter(Filter::NoFilter);
    let mut writer = encoder.write_header().map_err(encode_error)?;
    writer.write_image_data(rows).map_err(encode_error)?;
    writer.finish().map_err(encode_error)?;
    let mut decoder = Decoder::new_with_limits(Cursor::new(file), Limits { bytes: usize::MAX });
    decoder.set_transformations(Transformations::EXPAND);
    let mut reader = decoder.read_info().map_err(decode_error)?;
    if reader.output_buffer_size() != Some(pixels.len()) {
        return Err(malformed(CONTRADICTION));
    }
    reader.next_frame(pixels).map_err(decode_error)?;
    Ok(())
}

/// The state of decoding where a row begins.
#[derive(Clone)]
struct Position {
    inflater: Box<DecompressorOxide>,
    /// The data inflated last, as far back as matches may reach.
    window: Vec<u8>,
    /// The row above.
    above: Vec<u8>,
    data: Data,
}

impl std::fmt::Debug for Position {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Position").field("data", &self.data).finish_non_exhaustive()
    }
}

impl Position {
    /// Returns the state where the first row begins.
    fn first(at: u64, length: u32, row: usize) -> Self {
        let data = Data { at, left: length, is_over: false, checksum: Data::begun() };
        Self { inflater: Box::default(), window: Vec::new(), above: vec![0; row], data }
    }

    /// Decodes the next rows, as many as there is room for.
    fn read(&mut self, file: &File, stored: Stored, slot: &mut [u8]) -> Result<(), CodecError> {
        const FLAGS: u32 = inflate_flags::TINFL_FLAG_PARSE_ZLIB_HEADER
            | inflate_flags::TINFL_FLAG_IGNORE_ADLER32
            | inflate_flags::TINFL_FLAG_USING_NON_WRAPPING_OUTPUT_BUF;
        let Self { inflater, window, above, data } = self;
        let mut rows = Rows::new(stored.row, stored.step, above, window, slot);
        let mut input = vec![0; INPUT];
        let mut ready = 0..0;
        while !rows.are_complete() {
            if ready.is_empty() {
                ready = 0..data.peek(file, &mut input)?;
            }
            let more = if ready.is_empty() { 0 } else { inflate_flags::TINFL_FLAG_HAS_MORE_INPUT };
            let (out, filled) = rows.room();
            let (status, read, written) =
                decompress(inflater, &input[ready.clone()], out, filled, FLAGS | more);
            data.advance(&input[ready.start..][..read]);
            ready.start += read;
            rows.advance(filled + written).map_err(malformed)?;
            match status {
                TINFLStatus::NeedsMoreInput | TINFLStatus::HasMoreOutput => {}
                TINFLStatus::Done | TINFLStatus::FailedCannotMakeProgress if rows.are_complete() => {}
                TINFLStatus::Done | TINFLStatus::FailedCannotMakeProgress => {
                    return Err(malformed(INCOMPLETE));
                }
                _ => return Err(malformed("its compressed data is damaged")),
            }
        }
        let last = rows.last().to_vec();
        (*window, *above) = (last, slot[slot.len() - stored.row..].to_vec());
        Ok(())
    }
}

/// Goes through the contents of consecutive IDAT chunks.
#[derive(Clone, Debug)]
struct Data {
    /// The offset of the next byte.
    at: u64,
    /// The number of bytes left in its chunk.
    left: u32,
    /// Whether the last chunk has ended.
    is_over: bool,
    /// The checksum of the part of the chunk that has been read.
    checksum: Hasher,
}

impl Data {
    /// Returns the checksum of a chunk without content.
    fn begun() -> Hasher {
        let mut checksum = Hasher::new();
        checksum.update(b"IDAT");
        checksum
    }

    /// Reads next bytes into the front of a buffer, and does not advance.
    ///
    /// Returns their number, 0 at the end.
    fn peek(&mut self, file: &File, buffer: &mut [u8]) -> Result<usize, CodecError> {
        while self.left == 0 && !self.is_over {
            self.end_chunk(file)?;
        }
        let count = buffer.len().min(self.left as usize);
        waiting_for_file(|| file.read_exact_at(&mut buffer[..count], self.at)).map_err(chunks::unread)?;
        Ok(count)
    }

    /// Advances past bytes that have been read.
    fn advance(&mut self, bytes: &[u8]) {
        self.at += bytes.len() as u64;
        self.left -= bytes.len() as u32;
        self.checksum.update(bytes);
    }

    /// Verifies the checksum of a chunk that has been read, and goes on to the next one.
    fn end_chunk(&mut self, file: &File) -> Result<(), CodecError> {
        let mut frame = [0; FRAME];
        waiting_for_file(|| file.read_exact_at(&mut frame, self.at)).map_err(chunks::unread)?;
        let &[c0, c1, c2, c3, l0, l1, l2, l3, ref kind @ ..] = &frame;
        if self.checksum.clone().finalize() != u32::from_be_bytes([c0, c1, c2, c3]) {
            return Err(malformed(CHECKSUM));
        }
        self.is_over = kind != b"IDAT";
        self.at += FRAME as u64;
        self.left = if self.is_over { 0 } else { u32::from_be_bytes([l0, l1, l2, l3]) };
        self.checksum = Self::begun();
        Ok(())
    }

    /// Verifies the rest of the data.
    fn finish(&mut self, file: &File) -> Result<(), CodecError> {
        let mut buffer = vec![0; INPUT];
        loop {
            let count = self.peek(file, &mut buffer)?;
            if count == 0 {
                return Ok(());
            }
            self.advance(&buffer[..count]);
        }
    }
}
