//! Contrast-limited adaptive histogram equalization, with the bytes of OpenCV's x86-64 builds.
//!
//! The picture is divided into tiles. Each has its own LUT, made from a histogram with its peaks
//! cut at the clip limit and spread over all levels; each pixel is interpolated between the LUTs of
//! the four tiles around it, by its distance to their centres (K. Zuiderveld, *Contrast Limited
//! Adaptive Histogram Equalization*, Graphics Gems IV, 1994). Where implementations differ
//! (padding, clipping in a single pass, the order of the float32 operations, no fused
//! multiply-add), this one follows `cv::CLAHE`.
//!
//! It works in place, and in one of two ways, whichever is faster: with LUTs (`dense`), or, where
//! tiles have few pixels, without them (`sparse`). Its time therefore grows with the number of
//! pixels, however small the tiles are. `bands` has the order in which both go through the picture,
//! and the pieces that threads share; `survey` finds out which levels occur where, and `slots`
//! numbers them. `volume` handles stacks of pictures, with boxes as tiles.

mod bands;
mod dense;
mod plane;
mod slots;
mod sparse;
mod survey;
mod tiles;
mod volume;

use super::clip::{Clipping, Count, LevelsInUse};
use super::colour::Plane;
use super::executor::{Executor, Pool, Team};
use super::exposure;
use super::histogram::{self, Counted, Counting, Tally};
use super::level::Level;
use super::piece::Piece;
pub use super::portable::Corners;
use super::portable::{Quad, quantize};
use super::sample::Sample;
use super::simd;
use crate::{Depth, Layout, Operation};
use bands::Task;
use dense::{LutRow, packed_bytes};
use plane::{PaddedPlane, Rows, Shape};
use slots::Slots;
use sparse::{SlotRow, Sorting};
use survey::{Interval, Survey, marked};
use tiles::{Axes, Axis};
pub use tiles::{Between, Clahe, Geometry, Tiles, reflect};
pub use volume::{
    BoxTables, Clippings, Extent, Part, Rolling, RowCounts, RowTables, Volume, equalize_volume_on,
};

/// Bytes of tables kept from picture to picture.
const TABLES_KEPT: usize = 8 << 20;

/// Tiles of fewer pixels never have LUTs.
const TINY: u64 = 32;

/// LUT entries that take as long to make and to read as a pixel without LUTs.
const ENTRIES_A_PIXEL: u64 = 16;

impl Geometry {
    /// Returns the most entries that the LUTs of a row of tiles may have.
    ///
    /// With more, equalization without LUTs is faster.
    const fn entries_allowed(&self) -> u64 {
        if self.area() < TINY { 0 } else { self.area().saturating_mul(ENTRIES_A_PIXEL * self.columns as u64) }
    }

    /// Returns the bytes that a [`super::Scratch`] grows to for this picture, on one thread.
    ///
    /// The levels of the picture do not matter. Each further thread adds up to 8 MiB.
    pub fn scratch_bytes(&self, layout: &Layout) -> u64 {
        match layout.depth {
            Depth::Eight => self.bytes::<u8>(layout),
            Depth::Sixteen => self.bytes::<u16>(layout),
        }
    }

    fn bytes<S: Sample>(&self, layout: &Layout) -> u64 {
        let (width, height) = (layout.width as usize, layout.height as usize);
        let axes = Axis::bytes(width, self.columns) + Axis::bytes(height, self.rows);
        let padding = (self.rows * self.tile_height - height) * width * size_of::<S>();
        let rows = padding + Rows::<S>::bytes(self, width) + S::LEVELS;
        let most = S::LEVELS * self.columns;
        let allowed = usize::try_from(self.entries_allowed()).unwrap_or(usize::MAX);
        let dense = 2 * LutRow::<S>::bytes_for(self, most.min(allowed)) + packed_bytes::<S>(self);
        let sparse = 2 * SlotRow::<S>::bytes_for(self) + Sorting::<S>::bytes_for(self);
        let tables = if allowed < most { dense.max(sparse) } else { dense };
        (axes + rows + tables + Survey::bytes(self) + 2 * S::LEVELS * size_of::<S>()) as u64
    }
}

/// The buffers for a plane, reused from picture to picture.
pub(super) struct Buffers<S> {
    padding: Vec<S>,
    slots: Slots<S>,
    survey: Survey,
    axes: Axes,
    dense: Vec<LutRow<S>>,
    sparse: Vec<SlotRow<S>>,
}

impl<S> Default for Buffers<S> {
    fn default() -> Self {
        Self {
            padding: Vec::new(),
            slots: Slots::default(),
            survey: Survey::default(),
            axes: Axes::default(),
            dense: Vec::new(),
            sparse: Vec::new(),
        }
    }
}

impl<S: Sample> Buffers<S> {
    /// Bytes of tables.
    fn tables(&self) -> usize {
        let dense = self.dense.iter().map(LutRow::bytes).sum::<usize>();
        dense + self.sparse.iter().map(SlotRow::bytes).sum::<usize>()
    }
}

/// Entries of a LUT made at a time.
const STEP: usize = 256;

/// The buffers of a thread.
pub(super) struct Thread<S> {
    tally: Option<Tally>,
    rows: Rows<S>,
    /// The entries of the four tiles, adjacent, for each place in a block.
    quads: Vec<Quad>,
    sorting: Sorting<S>,
    /// For every level whether it occurs; empty between two uses.
    occurs: Vec<bool>,
}

impl<S> Default for Thread<S> {
    fn default() -> Self {
        Self {
            tally: None,
            rows: Rows::default(),
            quads: Vec::new(),
            sorting: Sorting::default(),
            occurs: Vec::new(),
        }
    }
}

impl<S: Sample> Counting for Thread<S> {
    fn tally(&mut self) -> &mut Tally {
        self.tally.get_or_insert_with(|| Tally::new(S::LEVELS))
    }
}

/// Equalizes one plane of a picture with CLAHE.
pub(super) fn equalize<S: Sample, E: Executor>(
    picture: Piece<'_, S>,
    layout: &Layout,
    plane: Plane,
    clahe: &Clahe,
    operation: &Operation,
    buffers: &mut super::Buffers<S>,
    team: &Team<'_, E>,
) {
    let super::Buffers { threads, clahe: buffers, .. } = buffers;
    let levels = operation.levels.number(layout.depth);
    let tiles = Geometry::new(layout, clahe).with_levels(levels);
    let (width, height) = (layout.width as usize, layout.height as usize);
    let relight = operation.relight(layout.depth);
    let exposure: Option<Vec<S>> = operation.exposure.map(|exposure| {
        let (old, pixel) = (picture.old(), layout.pixel);
        let counts = histogram::count_plane(old, width, pixel, plane, Counted::Visible, threads, team);
        exposure.table(levels, counts)
    });
    let shape = Shape { width, height, pixel: layout.pixel, plane, relight, exposure: exposure.as_deref() };
    buffers.axes.set(layout, &tiles);
    let whole = PaddedPlane { shape, samples: picture.old(), padding: &[] };
    let Some(clipping) = look(&whole, &tiles, clahe, levels, buffers, threads, team) else {
        return picture.copy(layout.pixel, team);
    };
    let Buffers { padding, slots, survey, axes, dense, sparse } = buffers;
    shape.pad(whole.samples, &tiles, padding);
    let Piece { source, samples } = picture;
    let is_sparse = survey.most_entries(&tiles) as u64 > tiles.entries_allowed();
    let strength = operation.strength;
    let task = Task { shape, source, padding, tiles, clipping, strength, slots, survey, axes };
    if is_sparse {
        bands::equalize(&task, samples, sparse, threads, team);
    } else {
        threads.all().iter_mut().for_each(|thread| thread.tally().clear());
        bands::equalize(&task, samples, dense, threads, team);
    }
    if buffers.tables() > TABLES_KEPT {
        (buffers.dense, buffers.sparse) = (Vec::new(), Vec::new());
    }
}

/// Finds out which levels occur where, as far as this pays off.
///
/// The buffers have the axes of the plane. They get its slots and its survey.
///
/// Returns the treatment of each tile, or `None` if the plane stays as it is.
fn look<S: Sample, E: Executor>(
    plane: &PaddedPlane<'_, S>,
    tiles: &Geometry,
    clahe: &Clahe,
    levels: usize,
    buffers: &mut Buffers<S>,
    threads: &mut Pool<Thread<S>>,
    team: &Team<'_, E>,
) -> Option<Clipping> {
    let Buffers { slots, survey, axes, .. } = buffers;
    let limit = clahe.clip_limit;
    let clipping = if limit.needs_levels(levels) {
        survey.look(plane, axes, true, threads, team);
        let occurs = marked(threads);
        slots.set_occurring(&occurs);
        let occurs = exposure::occurring(&occurs, plane.shape.exposure);
        Clipping::of_levels(LevelsInUse::new(occurs.iter().copied()), tiles.area())?
    } else {
        if S::DEPTH == Depth::Eight || tiles.area() < TINY {
            slots.set_all();
            survey.assume(Interval { lowest: 0, highest: S::LEVELS as u32 - 1 }, axes);
        } else {
            let seen = survey.look(plane, axes, false, threads, team);
            slots.set_seen(&seen, plane, threads, team);
        }
        Clipping::new(limit, tiles.area(), levels)
    };
    if let Some(table) = plane.shape.exposure {
        slots.expose(table);
    }
    survey.in_slots(tiles, axes, |level| slots.slot(level));
    Some(clipping.with_noise(clahe.noise, levels))
}

/// Makes the LUT of a tile from its counts.
///
/// Clips them, spreads the excess in one pass, scales the running sum, and weakens the result for
/// tiles that span few levels.
pub fn fill_lut<S: Level, C: Copy + Into<u64>>(counts: &[C], clipping: &Clipping, scale: f32, lut: &mut [S]) {
    let total: u64 = counts.iter().map(|&count| count.into()).sum();
    if total <= i32::MAX as u64 {
        simd::vectorized!(fill_lut_portable::<S, C, u32>(counts, clipping, scale, lut));
    } else {
        simd::vectorized!(fill_lut_portable::<S, C, u64>(counts, clipping, scale, lut));
    }
    clipping.strength(total, (0..).zip(counts.iter().map(|&count| count.into()))).weaken_lut(lut);
}

#[inline(always)]
fn fill_lut_portable<S: Level, C: Copy + Into<u64>, N: Count>(
    counts: &[C],
    clipping: &Clipping,
    scale: f32,
    lut: &mut [S],
) {
    let clip = clipping.most.unwrap_or(u64::MAX);
    let mut excess = 0;
    counts.iter().for_each(|&count| excess += count.into().saturating_sub(clip));
    let (clip, spread) = (N::at_most(clip), clipping.spread(excess));
    let (mut sums, mut running) = ([N::ZERO; STEP], N::ZERO);
    let steps = lut.chunks_mut(STEP).zip(counts.chunks(STEP));
    for ((entries, counts), first) in steps.zip((0_u32..).step_by(STEP)) {
        for (sum, &count) in sums.iter_mut().zip(counts) {
            running = running + N::at_most(count.into()).min(clip);
            *sum = running;
        }
        for ((entry, &sum), level) in entries.iter_mut().zip(&sums).zip(first..) {
            *entry = quantize((sum + spread.up_to::<N>(level)).to_float() * scale);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ClipLimit, Method, Pixel, Sequential};

    fn bytes<S: Sample>(buffers: &mut crate::Buffers<S>) -> usize {
        let crate::Buffers { threads, clahe: buffers, .. } = buffers;
        let of_thread = |thread: &Thread<S>| {
            thread.rows.bytes_taken()
                + size_of_val(&thread.quads[..])
                + thread.sorting.bytes()
                + thread.occurs.capacity()
        };
        size_of_val(&buffers.padding[..])
            + size_of_val(buffers.slots.levels())
            + buffers.survey.bytes_taken()
            + buffers.axes.across.bytes_taken()
            + buffers.axes.down.bytes_taken()
            + buffers.tables()
            + threads.all().iter().map(of_thread).sum::<usize>()
    }

    #[test]
    fn buffers_grow_to_no_more_than_promised() {
        for (number, grid) in [1, 2, 8, 30, 100, 5000].into_iter().enumerate() {
            for (width, height) in [(300, 200), (301, 203), (1, 500), (500, 1)] {
                for apart in [1, 7, 655] {
                    let layout = Layout { width, height, pixel: Pixel::Gray, depth: Depth::Sixteen };
                    let mut samples: Vec<u16> =
                        (0..width * height).map(|at| (at * 40_503 % 65_521 / apart * apart) as u16).collect();
                    let tiles = Tiles::Grid { x: grid, y: grid };
                    let clahe = Clahe { clip_limit: ClipLimit::Times(2.0 + number as f64), tiles, noise: 0 };
                    let mut buffers = crate::Buffers::default();
                    let operation = Operation::new(Method::Clahe(clahe));
                    let team = Team::new(&Sequential, samples.len());
                    let (picture, plane) = (Piece::in_place(&mut samples), Plane::Channel(0));
                    equalize(picture, &layout, plane, &clahe, &operation, &mut buffers, &team);
                    let taken = bytes(&mut buffers) as u64;
                    let promised = Geometry::new(&layout, &clahe).scratch_bytes(&layout);
                    assert!(taken <= promised, "{taken} {promised} {layout:?} {grid}");
                }
            }
        }
    }
}
