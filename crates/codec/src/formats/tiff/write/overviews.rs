//! The overviews of a picture, made again: each the means of boxes of the next larger one.
//!
//! One pass over the rows of the picture makes all of them.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::CodecError;
use crate::coding::streams::Help;
use crate::formats::tiff::compression::method::Compression;
use crate::formats::tiff::pyramid::Pyramid;
use crate::formats::tiff::strips::{Put, Raster, Strips};
use crate::formats::tiff::write::{Samples, write_rows};
use crate::io::reader::resize;
use crate::samples::mapped::{Boxes, Pixels};

/// Makes and writes all overviews of a picture.
///
/// Returns the places of their strips or tiles, in the order of the pyramid.
pub(crate) fn make(
    pyramid: &Pyramid,
    samples: &Samples<'_>,
    help: Help<'_>,
    put: &mut Put<'_>,
) -> Result<Vec<Strips>, CodecError> {
    let raster = samples.raster();
    let mut maker = Maker::new(pyramid, raster, samples.pixels_of_means(pyramid.are_labels));
    let mut strips = Collected::default();
    samples.for_rows(&mut |rows| {
        for piece in maker.add(rows) {
            let written = piece.write(help, put)?;
            strips.add(&piece, written);
        }
        Ok(())
    })?;
    Ok(strips.in_order(pyramid))
}

/// Makes overviews of rows that come from top to bottom.
struct Maker {
    /// The bytes of a row of the picture.
    row: usize,
    /// From the largest overview to the smallest.
    stages: Vec<Stage>,
}

/// One overview.
struct Stage {
    /// Its number in the pyramid.
    number: usize,
    raster: Raster,
    compression: Compression,
    boxes: Boxes,
    /// The number of rows that have been made.
    made: u32,
    /// Rows that wait for a strip or row of tiles to be complete.
    waiting: Vec<u8>,
}

/// A strip or row of tiles of an overview.
struct Piece {
    number: usize,
    compression: Compression,
    raster: Raster,
    /// The row after it.
    end: u32,
    rows: Vec<u8>,
}

impl Maker {
    fn new(pyramid: &Pyramid, raster: &Raster, pixels: Pixels) -> Self {
        let mut larger = raster.size();
        let stages = pyramid.by_size().into_iter().map(|number| {
            let overview = &pyramid.overviews[number];
            let boxes = Boxes::new(pixels, overview.cut(larger), 0);
            larger = overview.size();
            let (raster, compression) = (overview.raster(raster), overview.compression);
            Stage { number, raster, compression, boxes, made: 0, waiting: Vec::new() }
        });
        Self { row: raster.row(), stages: stages.collect() }
    }

    /// Adds rows of the picture. Returns the pieces that are complete.
    fn add(&mut self, rows: &[u8]) -> Vec<Piece> {
        let mut pieces = Vec::new();
        add_to(&mut self.stages, rows, self.row, &mut pieces);
        pieces
    }

    /// Adds rows of the largest overview.
    fn add_made(&mut self, made: &[u8]) -> Vec<Piece> {
        let mut pieces = Vec::new();
        if let Some((largest, smaller)) = self.stages.split_first_mut() {
            largest.keep(made, &mut pieces);
            add_to(smaller, made, largest.raster.row(), &mut pieces);
        }
        pieces
    }
}

/// Has stages, the largest first, make rows from those of the next larger version.
///
/// These have `row` bytes each.
fn add_to(stages: &mut [Stage], rows: &[u8], row: usize, pieces: &mut Vec<Piece>) {
    let Some((stage, smaller)) = stages.split_first_mut() else { return };
    let mut made = Vec::new();
    rows.chunks_exact(row).for_each(|row| stage.boxes.add(row, &mut made));
    stage.keep(&made, pieces);
    add_to(smaller, &made, stage.raster.row(), pieces);
}

impl Stage {
    /// Adds rows that have been made to those that wait, and takes out complete pieces.
    fn keep(&mut self, mut made: &[u8], pieces: &mut Vec<Piece>) {
        let row = self.raster.row();
        while !made.is_empty() {
            let room = self.raster.rows() * row - self.waiting.len();
            let (now, later) = made.split_at(room.min(made.len()));
            self.waiting.extend_from_slice(now);
            self.made += (now.len() / row) as u32;
            made = later;
            if now.len() == room || self.made == self.raster.height {
                let rows = std::mem::take(&mut self.waiting);
                let raster = Raster { height: (rows.len() / row) as u32, ..self.raster };
                let Self { number, compression, made: end, .. } = *self;
                pieces.push(Piece { number, compression, raster, end, rows });
            }
        }
    }
}

impl Piece {
    fn write(&self, help: Help<'_>, put: &mut Put<'_>) -> Result<Strips, CodecError> {
        write_rows(&self.raster, &self.rows, self.compression, help, put)
    }
}

/// The places of pieces that have been written, by their overview and the row after them.
#[derive(Debug, Default)]
struct Collected(BTreeMap<(usize, u32), Strips>);

impl Collected {
    fn add(&mut self, piece: &Piece, strips: Strips) {
        self.0.insert((piece.number, piece.end), strips);
    }

    /// Returns the places of the strips or tiles of each overview.
    fn in_order(mut self, pyramid: &Pyramid) -> Vec<Strips> {
        let of_one = |number: usize| {
            let later = self.0.split_off(&(number + 1, 0));
            let own = std::mem::replace(&mut self.0, later);
            own.into_values().reduce(|mut above, below| {
                above.append(below);
                above
            })
        };
        (0..pyramid.overviews.len()).filter_map(of_one).collect()
    }
}

/// The overviews of a picture that comes in bands, in any order, from several threads.
#[derive(Debug)]
pub(crate) struct OfBands {
    /// The rows of the picture.
    height: u32,
    /// The rows of every band but the last.
    rows: u32,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    maker: Option<Maker>,
    /// The first row of the picture that has not been added.
    next: u32,
    /// Bands that came before their turn, by their first row.
    waiting: BTreeMap<u32, Waiting>,
    written: Collected,
}

/// The place of a band in the spill.
#[derive(Debug)]
struct Waiting {
    at: u64,
    bytes: u64,
    rows: u32,
    is_made_smaller: bool,
}

impl std::fmt::Debug for Maker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Maker").field("stages", &self.stages.len()).finish_non_exhaustive()
    }
}

/// Rows of a band, or those of the largest overview that have been made of them.
struct Band {
    first: u32,
    rows: u32,
    bytes: Vec<u8>,
    is_made_smaller: bool,
}

impl OfBands {
    pub(crate) fn new(height: u32, rows: u32) -> Self {
        Self { height, rows, state: Mutex::default() }
    }

    /// Adds a band.
    ///
    /// The pieces that it completes are written to `spill` by `put`, and so is the band if its turn
    /// has not come.
    pub(crate) fn add(
        &self,
        index: usize,
        pyramid: &Pyramid,
        samples: &Samples<'_>,
        help: Help<'_>,
        spill: &File,
        put: &mut Put<'_>,
    ) -> Result<(), CodecError> {
        let raster = Raster { height: self.height, ..*samples.raster() };
        let pixels = samples.pixels_of_means(pyramid.are_labels);
        let mut band = Some(band(pyramid, &raster, pixels, index as u32 * self.rows, samples)?);
        loop {
            let pieces = {
                let mut state = self.lock();
                if let Some(early) = band.take_if(|band| band.first != state.next) {
                    state.put_aside(early, put)?;
                }
                let Some(band) =
                    band.take().map_or_else(|| state.next_waiting(spill), |band| Ok(Some(band)))?
                else {
                    return Ok(());
                };
                state.next += band.rows;
                let maker = state.maker.get_or_insert_with(|| Maker::new(pyramid, &raster, pixels));
                let pieces =
                    if band.is_made_smaller { maker.add_made(&band.bytes) } else { maker.add(&band.bytes) };
                if state.next == self.height {
                    // Other pictures of the file may be under way for long.
                    state.maker = None;
                }
                pieces
            };
            for piece in pieces {
                let strips = piece.write(help, put)?;
                self.lock().written.add(&piece, strips);
            }
        }
    }

    /// Returns the places of all overviews' strips or tiles in the spill, after the last band.
    pub(crate) fn take(&self, pyramid: &Pyramid) -> Vec<Strips> {
        std::mem::take(&mut self.lock().written).in_order(pyramid)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Makes a band smaller by itself if no box goes on beyond it; else keeps its rows as they are.
fn band(
    pyramid: &Pyramid,
    raster: &Raster,
    pixels: Pixels,
    first: u32,
    samples: &Samples<'_>,
) -> Result<Band, CodecError> {
    let rows = samples.raster().height;
    let largest = pyramid.by_size().first().map(|&number| &pyramid.overviews[number]);
    let cut = largest.map(|largest| largest.cut(raster.size()));
    let begins = cut.and_then(|cut| Some((cut, cut[1].beginning_at(first)?)));
    let mut boxes = begins
        .filter(|(cut, _)| cut[1].ends_before(first + rows))
        .map(|(cut, number)| Boxes::new(pixels, cut, number));
    let mut bytes = Vec::new();
    samples.for_rows(&mut |rows| {
        match &mut boxes {
            Some(boxes) => rows.chunks_exact(raster.row()).for_each(|row| boxes.add(row, &mut bytes)),
            None => bytes.extend_from_slice(rows),
        }
        Ok(())
    })?;
    Ok(Band { first, rows, bytes, is_made_smaller: boxes.is_some() })
}

impl State {
    /// Puts a band aside until its turn comes.
    fn put_aside(&mut self, band: Band, put: &mut Put<'_>) -> io::Result<()> {
        let Band { first, rows, bytes, is_made_smaller } = band;
        let waiting = Waiting { at: put(&bytes)?, bytes: bytes.len() as u64, rows, is_made_smaller };
        self.waiting.insert(first, waiting);
        Ok(())
    }

    /// Returns the band whose turn it is, if it has been put aside.
    fn next_waiting(&mut self, spill: &File) -> Result<Option<Band>, CodecError> {
        let first = self.next;
        let Some(Waiting { at, bytes, rows, is_made_smaller }) = self.waiting.remove(&first) else {
            return Ok(None);
        };
        let mut read = Vec::new();
        resize(&mut read, bytes as usize)?;
        spill.read_exact_at(&mut read, at)?;
        Ok(Some(Band { first, rows, bytes: read, is_made_smaller }))
    }
}
