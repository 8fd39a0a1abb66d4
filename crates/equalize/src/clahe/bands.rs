//! The order in which a plane is equalized in place.
//!
//! A band is the rows of pixels that lie between the centres of the same two rows of tiles. Bands are done from top to bottom, and a row of
//! tiles is counted before the first band that needs it overwrites its pixels, so that only two rows of tiles are kept at a time.

use std::ops::Range;

use super::plane::PaddedPlane;
use super::slots::Slots;
use super::survey::Survey;
use super::tiles::{Axis, Geometry, Run};
use crate::clip::Clipping;
use crate::strength::Strength;

/// What is done to a plane.
pub(super) struct Task<'a, S> {
    pub(super) tiles: Geometry,
    pub(super) clipping: Clipping,
    pub(super) strength: Strength,
    pub(super) slots: &'a Slots<S>,
    pub(super) survey: &'a Survey,
    /// The columns of pixels.
    pub(super) across: &'a Axis,
    /// The rows of pixels.
    pub(super) down: &'a Axis,
}

/// Rows of pixels between the same two rows of tiles.
pub(super) struct Band<'a> {
    pub(super) number: usize,
    pub(super) run: &'a Run,
}

/// What is kept of two rows of tiles; that of row `j` is in half `j % 2`.
pub(super) trait TileRows<S> {
    /// Counts a row of tiles.
    fn count(&mut self, task: &Task<'_, S>, plane: &mut PaddedPlane<'_, S>, row: usize);

    /// Equalizes the pixels of a band, between two rows of tiles that have been counted.
    fn equalize(&mut self, task: &Task<'_, S>, plane: &mut PaddedPlane<'_, S>, band: &Band<'_>);
}

/// Equalizes bands of a plane, those with these numbers.
pub(super) fn equalize<S>(
    task: &Task<'_, S>,
    plane: &mut PaddedPlane<'_, S>,
    bands: Range<usize>,
    tile_rows: &mut impl TileRows<S>,
) {
    let mut counted = task.down.runs[bands.start].first;
    for number in bands {
        let run = &task.down.runs[number];
        while counted <= run.second {
            tile_rows.count(task, plane, counted);
            counted += 1;
        }
        tile_rows.equalize(task, plane, &Band { number, run });
    }
}
