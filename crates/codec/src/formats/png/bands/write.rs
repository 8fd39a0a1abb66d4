//! A writer of the bands of a picture as one PNG, with the bytes of the picture as a whole.
//!
//! The image data are compressed in pieces of rows, which do not end where bands do: the thread
//! with the second of two bands compresses the piece with rows of both.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use ::png::chunk::{ChunkType, IDAT, IEND};
use crc32fast::Hasher;

use super::super::stream::{self, Division, Piece, Rows};
use super::super::{begin, encode_error, stored};
use crate::io::cores::Cores;
use crate::parts::bands::BandRows;
use crate::parts::pages::{PageOutput, PageSink};
use crate::{CodecError, Decoded, PngLevel};
use equalize::Layout;

/// Writes the bands of a picture, in any order, from any number of threads.
#[derive(Debug)]
pub(crate) struct Writer {
    bands: BandRows,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// For each boundary above a band, the rows on one side of it that wait for those on the other.
    waiting: Vec<Option<Vec<u8>>>,
    /// The pieces in the spill: a band's own, and between them those with rows of two bands.
    runs: Vec<Option<Vec<Spilled>>>,
    /// The first run that is not in its place yet.
    next: usize,
    /// Where it begins.
    end: u64,
    /// Bytes of the spill.
    spilled: u64,
    /// The Adler-32 checksum of the rows before it.
    checksum: u32,
    /// The number of pieces that are not in their places yet.
    left: usize,
}

/// A piece in the spill.
#[derive(Debug)]
struct Spilled {
    at: u64,
    bytes: usize,
    /// The checksum and number of its uncompressed bytes.
    checksum: u32,
    length: usize,
}

/// The rows of a band.
struct Extent {
    all: Range<usize>,
    /// The rows of pieces that do not depend on other bands.
    alone: Range<usize>,
}

/// The settings and the destination of compression.
#[derive(Clone, Copy)]
struct Coder<'c> {
    level: PngLevel,
    cores: &'c Cores,
    spill: &'c File,
}

impl Writer {
    pub(crate) fn new(bands: BandRows) -> Self {
        let state = State {
            waiting: vec![None; bands.count()],
            runs: (0..2 * bands.count() - 1).map(|_| None).collect(),
            next: 0,
            end: 0,
            spilled: 0,
            checksum: 1,
            left: 0,
        };
        Self { bands, state: Mutex::new(state) }
    }

    fn extent(&self, index: usize, division: &Division) -> Extent {
        let Division { height, piece, .. } = *division;
        let start = self.bands.first_row(index) as usize;
        let end = start + self.bands.rows(index) as usize;
        let first =
            if start == 0 { 0 } else { (start + division.above()).next_multiple_of(piece).min(height) };
        let last = if end == height { height } else { end - end % piece };
        Extent { all: start..end, alone: first..last }
    }

    /// Compresses pieces of rows, which are a run, into the spill.
    fn add(
        &self,
        run: usize,
        rows: &Rows<'_>,
        pieces: Range<usize>,
        Coder { level, cores, spill }: Coder<'_>,
    ) -> Result<(), CodecError> {
        let mut spilled = Vec::new();
        let put = |Piece { bytes, checksum, length }: Piece<'_>| {
            let at = self.lock().take_of_spill(bytes.len());
            spill.write_all_at(bytes, at)?;
            spilled.push(Spilled { at, bytes: bytes.len(), checksum, length });
            Ok::<_, io::Error>(())
        };
        rows.compress(pieces, level, cores, put)?;
        self.lock().runs[run] = Some(spilled);
        Ok(())
    }

    /// Hands over the rows on one side of a band boundary.
    ///
    /// The second caller compresses the pieces that span it.
    ///
    /// The rows are the last of the band above, or the first of the band itself.
    fn meet(
        &self,
        index: usize,
        division: Division,
        rows: &[u8],
        are_above: bool,
        coder: Coder<'_>,
    ) -> Result<(), CodecError> {
        let mut state = self.lock();
        let Some(others) = state.waiting[index].take() else {
            state.waiting[index] = Some(rows.to_vec());
            return Ok(());
        };
        drop(state);
        let both = if are_above { [rows, &others].concat() } else { [&others, rows].concat() };
        let pieces = self.extent(index - 1, &division).alone.end..self.extent(index, &division).alone.start;
        let first = pieces.start.saturating_sub(division.above());
        self.add(2 * index - 1, &Rows::new(division, first, &both), pieces, coder)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl PageSink for Writer {
    fn write(
        &self,
        index: usize,
        decoded: &Decoded,
        slot: &mut [u8],
        to: PageOutput<'_>,
    ) -> Result<Option<u64>, CodecError> {
        let (out, spill) = (to.file(decoded)?, to.spill);
        let (level, cores) = (to.target.png_level, to.help.cores);
        let whole = Layout { height: self.bands.height(), ..decoded.layout };
        let (division, coder) = (Division::of(&whole), Coder { level, cores, spill });
        let pixels = stored(decoded, slot);
        if index == 0 {
            let header = header(decoded, &whole)?;
            out.write_all_at(&header, 0)?;
            self.lock().begin(header.len(), &division);
        }
        let Extent { all, alone } = self.extent(index, &division);
        let at = |row: usize| (row - all.start) * division.row;
        self.add(2 * index, &Rows::new(division, all.start, pixels), alone.clone(), coder)?;
        if index > 0 {
            self.meet(index, division, &pixels[..at(alone.start)], false, coder)?;
        }
        if all.end < division.height {
            let first = alone.end.saturating_sub(division.above());
            self.meet(index + 1, division, &pixels[at(first)..], true, coder)?;
        }
        Ok(self.lock().settle(out, spill)?)
    }
}

impl State {
    /// Begins after a header of so many bytes.
    fn begin(&mut self, header: usize, division: &Division) {
        self.end = header as u64;
        self.left = division.height.div_ceil(division.piece);
    }

    fn take_of_spill(&mut self, bytes: usize) -> u64 {
        self.spilled += bytes as u64;
        self.spilled - bytes as u64
    }

    /// Moves runs to their places, as far as all before them are there.
    ///
    /// Returns the bytes of the file once it is complete.
    fn settle(&mut self, out: &File, spill: &File) -> io::Result<Option<u64>> {
        while let Some(run) = self.runs.get_mut(self.next).and_then(Option::take) {
            self.next += 1;
            for piece in run {
                self.checksum = stream::combined(self.checksum, piece.checksum, piece.length);
                let mut content = vec![0; piece.bytes];
                spill.read_exact_at(&mut content, piece.at)?;
                self.left -= 1;
                if self.left == 0 {
                    content.extend(self.checksum.to_be_bytes());
                }
                self.end += write_chunk(out, self.end, IDAT, &content)?;
            }
        }
        if self.next < self.runs.len() {
            return Ok(None);
        }
        Ok(Some(self.end + write_chunk(out, self.end, IEND, &[])?))
    }
}

/// Writes a chunk to its place. Returns its bytes.
fn write_chunk(out: &File, at: u64, kind: ChunkType, content: &[u8]) -> io::Result<u64> {
    let mut checksum = Hasher::new();
    checksum.update(&kind.0);
    checksum.update(content);
    let length = (content.len() as u32).to_be_bytes();
    let chunk = [&length, &kind.0, content, &checksum.finalize().to_be_bytes()].concat();
    out.write_all_at(&chunk, at)?;
    Ok(chunk.len() as u64)
}

/// Returns the bytes before the image data.
fn header(decoded: &Decoded, whole: &Layout) -> Result<Vec<u8>, CodecError> {
    let mut bytes = Vec::new();
    begin(decoded, whole, &mut bytes).and_then(::png::Writer::finish).map_err(encode_error)?;
    bytes.truncate(bytes.len() - super::super::chunks::FRAME);
    Ok(bytes)
}
