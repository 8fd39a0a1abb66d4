//! Contrast-limited adaptive histogram equalization, byte for byte the same as OpenCV's x86-64 builds.
//!
//! The picture is divided into tiles. Each has its own LUT, made from a histogram whose peaks are cut at the clip limit and spread
//! over all levels; each pixel is interpolated between the LUTs of the four tiles whose centres surround it (K. Zuiderveld, *Contrast
//! Limited Adaptive Histogram Equalization*, Graphics Gems IV, 1994). Where implementations differ (padding, clipping in a single
//! pass, the order of the float32 operations, no fused multiply-add), this one follows `cv::CLAHE`.
//!
//! It works in place, and in one of two ways, whichever is faster: with LUTs (`dense`), or, where tiles have few pixels, without them
//! (`sparse`). So its time grows with the number of pixels, however small the tiles are. `bands` has the order in which both go through the
//! picture; `survey` finds out which levels occur where, and `slots` numbers them.

mod bands;
mod dense;
mod plane;
mod slots;
mod sparse;
mod stripe;
mod survey;
mod tiles;

use super::clip::{ClipLimit, Clipping, LevelsInUse};
use super::colour::Plane;
use super::histogram::Tally;
use super::level::Level;
pub use super::portable::Corners;
use super::portable::quantize;
use super::sample::Sample;
use super::strength::Strength;
use crate::{Depth, Layout, Levels};
use bands::Task;
use dense::{Dense, Luts};
use plane::{PaddedPlane, Rows};
use slots::Slots;
use sparse::Sparse;
pub use stripe::{Stripe, stripes};
use survey::{Interval, Survey};
use tiles::Axis;
pub use tiles::{Between, Clahe, Geometry, Tiles, reflect};

/// Bytes of tables that are kept from picture to picture.
const TABLES_KEPT: usize = 8 << 20;

/// Tiles of fewer pixels never have LUTs.
const TINY: u64 = 32;

/// The entries of a LUT that take as long to make and to read as a pixel without LUTs.
const ENTRIES_A_PIXEL: u64 = 16;

impl Geometry {
    /// Returns the most entries that the LUTs of a row of tiles may have; with more, it is faster without LUTs.
    const fn entries_allowed(&self) -> u64 {
        if self.area() < TINY { 0 } else { self.area().saturating_mul(ENTRIES_A_PIXEL * self.columns as u64) }
    }

    /// Bytes that a [`super::Scratch`] grows to for this picture, with whichever levels it has.
    pub fn scratch_bytes(&self, layout: &Layout) -> u64 {
        match layout.depth {
            Depth::Eight => self.bytes::<u8>(layout),
            Depth::Sixteen => self.bytes::<u16>(layout),
        }
    }

    fn bytes<S: Sample>(&self, layout: &Layout) -> u64 {
        let (width, height) = (layout.width as usize, layout.height as usize);
        let axes = Axis::bytes(width, self.columns) + Axis::bytes(height, self.rows);
        let rows = Rows::<S>::bytes(self, width, height);
        let most = S::LEVELS * self.columns;
        let allowed = usize::try_from(self.entries_allowed()).unwrap_or(usize::MAX);
        let luts = Luts::<S>::bytes_for(self, most.min(allowed));
        let tables = if allowed < most { luts.max(Sparse::<S>::bytes_for(self)) } else { luts };
        (axes + rows + tables + Survey::bytes(self) + S::LEVELS * size_of::<S>()) as u64
    }
}

/// The buffers that are reused from picture to picture.
pub(super) struct Buffers<S> {
    rows: Rows<S>,
    slots: Slots<S>,
    survey: Survey,
    across: Axis,
    down: Axis,
    luts: Luts<S>,
    sparse: Sparse<S>,
}

impl<S> Default for Buffers<S> {
    fn default() -> Self {
        Self {
            rows: Rows::default(),
            slots: Slots::default(),
            survey: Survey::default(),
            across: Axis::default(),
            down: Axis::default(),
            luts: Luts::default(),
            sparse: Sparse::default(),
        }
    }
}

/// Equalizes one plane of a picture with CLAHE, in place: all of it, or a stripe.
pub(super) fn equalize<S: Sample>(
    samples: &mut [S],
    layout: &Layout,
    (plane, stripe): (Plane, Option<&Stripe>),
    (clahe, strength, levels): (&Clahe, Strength, Levels),
    buffers: &mut Buffers<S>,
    tally: &mut Tally,
) {
    let levels = levels.number(layout.depth);
    let tiles = Geometry::new(layout, clahe).with_levels(levels);
    let (width, height) = (layout.width as usize, layout.height as usize);
    let Buffers { rows, slots, survey, across, down, luts, sparse } = buffers;
    let mut plane = PaddedPlane::new(samples, width, (layout.pixel, plane), rows);
    across.set(width, tiles.tile_width, tiles.columns);
    down.set(height, tiles.tile_height, tiles.rows);
    let axes = (&*across, &*down);
    let limit = (clahe.clip_limit, levels);
    let Some(clipping) = look(&mut plane, &tiles, axes, limit, (slots, survey)) else { return };
    plane.pad(&tiles);
    let entries = survey.most_entries(&tiles) as u64;
    let bands = stripe.map_or(0..down.runs.len(), |stripe| stripe.bands.clone());
    let task = Task { tiles, clipping, strength, slots, survey, across, down };
    if entries > tiles.entries_allowed() {
        bands::equalize(&task, &mut plane, bands, sparse);
    } else {
        tally.clear();
        bands::equalize(&task, &mut plane, bands, &mut Dense(luts, tally));
    }
    if luts.bytes() + sparse.bytes() > TABLES_KEPT {
        (*luts, *sparse) = (Luts::default(), Sparse::default());
    }
}

/// Finds out which levels occur where, as far as it pays to know, and returns what is done to each tile; nothing if the plane stays as it is.
fn look<S: Sample>(
    plane: &mut PaddedPlane<'_, S>,
    tiles: &Geometry,
    axes: (&Axis, &Axis),
    (limit, levels): (ClipLimit, usize),
    (slots, survey): (&mut Slots<S>, &mut Survey),
) -> Option<Clipping> {
    let clipping = if limit.needs_levels(levels) {
        let mut occurs = vec![false; S::LEVELS];
        survey.look(plane, axes, Some(&mut occurs));
        slots.set_occurring(&occurs);
        Clipping::of_levels(LevelsInUse::new(occurs.iter().copied()), tiles.area())?
    } else {
        if S::DEPTH == Depth::Eight || tiles.area() < TINY {
            slots.set_all();
            survey.assume(Interval { lowest: 0, highest: S::LEVELS as u32 - 1 }, axes);
        } else {
            let seen = survey.look(plane, axes, None);
            slots.set_seen(&seen, plane);
        }
        Clipping::new(limit, tiles.area(), levels)
    };
    survey.in_slots(tiles, axes, |level| slots.slot(level));
    Some(clipping)
}

/// Makes the LUT of a tile from its counts: clips them, spreads the excess in one pass, and scales the running sum.
pub fn fill_lut<S: Level>(counts: &[u64], clipping: &Clipping, scale: f32, lut: &mut [S]) {
    let clip = clipping.most.unwrap_or(u64::MAX);
    let spread = clipping.spread(counts.iter().map(|&count| count.saturating_sub(clip)).sum());
    let mut running = 0;
    for ((level, entry), &count) in (0..).zip(lut).zip(counts) {
        running += count.min(clip);
        *entry = quantize((running + spread.up_to::<u64>(level)) as f32 * scale);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Pixel;

    impl<S: Sample> Buffers<S> {
        fn bytes(&self) -> usize {
            self.rows.bytes_taken()
                + size_of_val(self.slots.levels())
                + self.survey.bytes_taken()
                + self.across.bytes_taken()
                + self.down.bytes_taken()
                + self.luts.bytes()
                + self.sparse.bytes()
        }
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
                    let clahe = Clahe { clip_limit: ClipLimit::Times(2.0 + number as f64), tiles };
                    let mut buffers = Buffers::default();
                    let what = (&clahe, Strength::FULL, Levels::All);
                    let gray = Plane::Channel(0);
                    equalize(
                        &mut samples,
                        &layout,
                        (gray, None),
                        what,
                        &mut buffers,
                        &mut Tally::new(65_536),
                    );
                    let promised = Geometry::new(&layout, &clahe).scratch_bytes(&layout);
                    assert!(
                        buffers.bytes() as u64 <= promised,
                        "{} {promised} {layout:?} {grid}",
                        buffers.bytes()
                    );
                }
            }
        }
    }
}
