//! The order in which a plane is equalized in place, and the pieces that threads share.
//!
//! A band is the rows of pixels between the centres of the same two rows of tiles. Rows of tiles
//! are counted from top to bottom, one at a time or, for several threads, a few; then the bands
//! between the counted rows are equalized. No pixel is overwritten before its tile is counted,
//! every tile is counted once, and only few rows of tiles are kept. Tiles are counted independently
//! of each other, and blocks of bands are equalized independently.

use std::ops::Range;

use super::Thread;
use super::plane::{PaddedPlane, Rows, Shape};
use super::slots::Slots;
use super::survey::Survey;
use super::tiles::{Axes, Geometry, Run};
use crate::clip::Clipping;
use crate::executor::{Executor, Pool, Team};
use crate::sample::Sample;
use crate::strength::Strength;

/// Bytes of tables for each thread, if several share a plane and rows of tiles are not larger.
const TABLES_A_THREAD: usize = 4 << 20;

/// The settings and tables for a plane.
pub(super) struct Task<'a, S> {
    pub(super) shape: Shape<'a, S>,
    /// The source samples, unless the plane is equalized in place.
    pub(super) source: Option<&'a [S]>,
    pub(super) padding: &'a [S],
    pub(super) tiles: Geometry,
    pub(super) clipping: Clipping,
    pub(super) strength: Strength,
    pub(super) slots: &'a Slots<S>,
    pub(super) survey: &'a Survey,
    pub(super) axes: &'a Axes,
}

impl<S: Sample> Task<'_, S> {
    /// Returns the columns of pixels of these runs.
    pub(super) fn columns(&self, runs: &Range<usize>) -> Range<usize> {
        let runs = &self.axes.across.runs[runs.clone()];
        runs[0].pixels.start..runs[runs.len() - 1].pixels.end
    }
}

/// Some pixels of a band, in all of its columns or in some.
pub(super) struct Block<'a, S> {
    /// The number of the band.
    pub(super) band: usize,
    /// The numbers of the runs of columns.
    pub(super) runs: Range<usize>,
    /// The first row in the picture.
    top: usize,
    /// The samples of each row.
    rows: Vec<&'a mut [S]>,
}

impl<S: Sample> Block<'_, S> {
    /// Returns the rows of the picture that the block covers.
    pub(super) const fn rows(&self) -> Range<usize> {
        self.top..self.top + self.rows.len()
    }

    /// Changes these columns of a row by [`Shape::change`].
    pub(super) fn change(
        &mut self,
        task: &Task<'_, S>,
        y: usize,
        columns: Range<usize>,
        rows: &mut Rows<S>,
        equalize: impl FnOnce(&mut [S]),
    ) {
        let Shape { width, .. } = task.shape;
        let samples = |pixels| task.shape.samples(pixels);
        let before = columns.start - task.columns(&self.runs).start;
        let row = &mut self.rows[y - self.top][samples(before)..][..samples(columns.len())];
        if let Some(source) = task.source {
            row.copy_from_slice(&source[samples(y * width + columns.start)..][..row.len()]);
        }
        task.shape.change(row, task.strength, rows, equalize);
    }
}

/// The division of a band into blocks: a number of rows at a time, and these runs of columns.
pub(super) struct Cut {
    pub(super) rows: usize,
    pub(super) runs: Vec<Range<usize>>,
}

/// The tables of a row of tiles.
pub(super) trait TileRow<S: Sample>: Default + Send + Sync {
    /// Some of its tiles, and the memory for their tables.
    type Part<'t>: Send
    where
        Self: 't;

    /// Returns the most bytes that a row of tiles takes.
    fn most_bytes(task: &Task<'_, S>) -> usize;

    /// Makes room for a row of tiles, and divides it into parts of about so many pixels.
    fn parts<'t>(&'t mut self, task: &Task<'_, S>, row: usize, pixels: usize) -> Vec<Self::Part<'t>>;

    /// Counts the tiles of a part.
    fn count(part: Self::Part<'_>, task: &Task<'_, S>, plane: &PaddedPlane<'_, S>, thread: &mut Thread<S>);

    /// Returns the division of a band into blocks of about so many pixels.
    fn cut(task: &Task<'_, S>, band: usize, pixels: usize) -> Cut;

    /// Equalizes a block between two rows of tiles that have been counted.
    fn equalize(rows: [&Self; 2], task: &Task<'_, S>, block: &mut Block<'_, S>, thread: &mut Thread<S>);
}

/// Equalizes a plane.
///
/// Row `j` of the tiles is kept at `j` modulo their number.
pub(super) fn equalize<S: Sample, R: TileRow<S>, E: Executor>(
    task: &Task<'_, S>,
    samples: &mut [S],
    tile_rows: &mut Vec<R>,
    threads: &Pool<Thread<S>>,
    team: &Team<'_, E>,
) {
    let Task { shape, tiles, axes, .. } = task;
    let down = &axes.down;
    let pixels = team.piece(shape.width * shape.height);
    let at_once = rows_at_once::<S, R>(task, team.threads());
    let kept = (at_once + 1).min(tiles.rows);
    tile_rows.resize_with(kept, R::default);
    let (mut counted, mut equalized) = (0, 0);
    while equalized < down.runs.len() {
        let rows = counted..(counted + at_once).min(tiles.rows);
        let source = task.source.unwrap_or(samples);
        let plane = PaddedPlane { shape: *shape, samples: source, padding: task.padding };
        let mut parts = Vec::new();
        for (at, tile_row) in tile_rows.iter_mut().enumerate() {
            if let Some(row) = rows.clone().find(|row| row % kept == at) {
                parts.extend(tile_row.parts(task, row, pixels));
            }
        }
        team.for_each(parts, |part| threads.with(|thread| R::count(part, task, &plane, thread)));
        counted = rows.end;
        let ready = down.runs[equalized..].iter().take_while(|band| band.second < counted).count();
        let bands = equalized..equalized + ready;
        team.for_each(blocks::<S, R>(task, samples, bands, pixels), |mut block| {
            let Run { first, second, .. } = down.runs[block.band];
            let rows = [first, second].map(|row| &tile_rows[row % kept]);
            threads.with(|thread| R::equalize(rows, task, &mut block, thread));
        });
        equalized += ready;
    }
}

/// Returns how many rows of tiles are counted before the pixels between them are equalized.
fn rows_at_once<S: Sample, R: TileRow<S>>(task: &Task<'_, S>, threads: usize) -> usize {
    if threads == 1 {
        return 1;
    }
    (threads * TABLES_A_THREAD / R::most_bytes(task).max(1)).clamp(1, task.tiles.rows)
}

/// Cuts bands into blocks of about so many pixels.
fn blocks<'s, S: Sample, R: TileRow<S>>(
    task: &Task<'_, S>,
    samples: &'s mut [S],
    bands: Range<usize>,
    pixels: usize,
) -> Vec<Block<'s, S>> {
    let stride = task.shape.samples(task.shape.width);
    let mut rest = &mut samples[task.axes.down.runs[bands.start].pixels.start * stride..];
    let mut blocks = Vec::new();
    for band in bands {
        let rows = task.axes.down.runs[band].pixels.clone();
        let cut = R::cut(task, band, pixels);
        let own = rest.split_off_mut(..rows.len() * stride).unwrap_or_default();
        for (own, top) in own.chunks_mut(cut.rows * stride).zip(rows.step_by(cut.rows)) {
            let first = blocks.len();
            let height = own.len() / stride;
            blocks.extend(cut.runs.iter().map(|runs| Block {
                band,
                runs: runs.clone(),
                top,
                rows: Vec::with_capacity(height),
            }));
            for mut row in own.chunks_exact_mut(stride) {
                for block in &mut blocks[first..] {
                    let length = task.shape.samples(task.columns(&block.runs).len());
                    block.rows.push(row.split_off_mut(..length).unwrap_or_default());
                }
            }
        }
    }
    blocks
}
