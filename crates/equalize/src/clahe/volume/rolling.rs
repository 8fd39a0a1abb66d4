//! CLAHE of a picture larger than memory, with rows that come in bands.
//!
//! Counts and tables of only a few rows of tiles exist at a time. The tables of a row of tiles are
//! made when the last of its pixels is counted, and are needed until the pixels between its centre
//! and those of its neighbours are equalized. They are LUTs, or, where tiles have few pixels for
//! their levels, the sorted lists of [`sparse`].

use std::ops::Range;

use super::super::Thread;
use super::super::plane::{PaddedPlane, Shape};
use super::super::slots::Slots;
use super::super::sparse::{self, SlotRow};
use super::{Between, Clippings, Extent, Part, Place, Volume, corner_luts, reflect};
use crate::clip::Clipping;
use crate::colour::Plane;
use crate::layout::{Depth, Layout, Pixel};
use crate::portable::Corners;
use crate::sample::Sample;
use crate::{Operation, simd};

/// The tiles of a picture with rows that come in bands.
#[derive(Clone, Copy, Debug)]
pub struct Rolling(Volume);

/// The counts of a row of tiles, complete or not.
#[derive(Debug)]
pub struct RowCounts(Counts);

#[derive(Debug)]
enum Counts {
    Eight(PlanesCounts<u8>),
    Sixteen(PlanesCounts<u16>),
}

#[derive(Debug)]
struct PlanesCounts<S> {
    /// The number of rows of pixels counted.
    rows: usize,
    planes: Vec<PlaneCounts<S>>,
}

#[derive(Debug)]
enum PlaneCounts<S> {
    /// The counts of the levels in each tile.
    Levels(Vec<u32>),
    /// The values of the rows of pixels, for sorted lists.
    Values(Vec<S>),
}

/// The tables of a row of tiles.
#[derive(Debug)]
pub struct RowTables(Tables);

#[derive(Debug)]
enum Tables {
    Eight(PlanesTables<u8>),
    Sixteen(PlanesTables<u16>),
}

/// The tables of each equalized plane, if it is changed.
type PlanesTables<S> = Vec<Option<PlaneTables<S>>>;

#[derive(Debug)]
enum PlaneTables<S> {
    Luts(Vec<S>),
    Lists(SlotRow<S>),
}

impl RowTables {
    fn of_eight_bits(&self) -> &PlanesTables<u8> {
        match &self.0 {
            Tables::Eight(tables) => tables,
            Tables::Sixteen(_) => panic!("tables of 8 bits"),
        }
    }

    fn of_sixteen_bits(&self) -> &PlanesTables<u16> {
        match &self.0 {
            Tables::Sixteen(tables) => tables,
            Tables::Eight(_) => panic!("tables of 16 bits"),
        }
    }
}

impl Rolling {
    /// Returns the tiles of a picture; `None` where [`Volume::new`] returns `None`.
    pub fn new(layout: &Layout, operation: &Operation) -> Option<Self> {
        Volume::new(layout, 1, operation).map(Self)
    }

    /// Returns the same tiles for bands with these pixels.
    ///
    /// They may differ from those of other bands in alpha only.
    #[must_use]
    pub const fn with_pixel(&self, pixel: Pixel) -> Self {
        Self(self.0.with_pixel(pixel))
    }

    /// Returns the number of rows of tiles.
    pub const fn rows(&self) -> usize {
        self.0.plane.rows
    }

    /// Returns the rows of tiles in which rows of pixels are counted.
    ///
    /// Rows that pad the picture are also counted in the last rows of tiles.
    pub fn counted_in(&self, rows: Range<u32>) -> impl Iterator<Item = usize> {
        let extent = extent(rows);
        (0..self.rows()).filter(move |&row| self.0.rows_of(row, extent).next().is_some())
    }

    /// Returns a bound on the rows of tiles in which rows of pixels above `end` are counted.
    ///
    /// All of their numbers are below it.
    pub fn counted_below(&self, end: u32) -> usize {
        let (end, height) = (end as usize, self.0.layout.height as usize);
        let padded = self.rows() * self.0.plane.tile_height;
        // The first row of pixels that pads the picture, if any does.
        let pads_from = if padded < 2 * height { reflect(padded - 1, height) } else { 0 };
        let pads = padded > height && end > pads_from;
        if pads { self.rows() } else { end.div_ceil(self.0.plane.tile_height) }
    }

    /// Returns a number of rows of pixels from the top.
    ///
    /// Once these are counted, all rows of tiles below `end` are complete.
    pub fn complete_below(&self, end: usize) -> u32 {
        // The padding repeats rows above the end of the picture.
        let rows = end.saturating_mul(self.0.plane.tile_height);
        self.0.layout.height.min(u32::try_from(rows).unwrap_or(u32::MAX))
    }

    /// Returns the rows of tiles whose tables these rows of pixels, at least one, need.
    pub fn used_by(&self, rows: Range<u32>) -> Range<usize> {
        let between = |y: u32| Between::new(y as usize, self.0.plane.tile_height, self.rows());
        between(rows.start).first..between(rows.end - 1).second + 1
    }

    /// Returns the bytes of the counts of a row of tiles.
    pub fn count_bytes(&self) -> u64 {
        let each = match self.has_lists() {
            true => self.0.layout.width as usize * self.0.plane.tile_height * self.0.layout.depth.bytes(),
            false => self.0.row_counts() * size_of::<u32>(),
        };
        (self.0.planes().len() * each) as u64
    }

    /// Returns the bytes of the tables of a row of tiles.
    pub fn table_bytes(&self) -> u64 {
        let each = if self.has_lists() { self.list_bytes() } else { self.lut_bytes() };
        (self.0.planes().len() * each) as u64
    }

    fn lut_bytes(&self) -> usize {
        self.0.row_counts() * self.0.layout.depth.bytes()
    }

    fn list_bytes(&self) -> usize {
        match self.0.layout.depth {
            Depth::Eight => SlotRow::<u8>::bytes_for(&self.0.plane),
            Depth::Sixteen => SlotRow::<u16>::bytes_for(&self.0.plane),
        }
    }

    /// Returns whether tables are sorted lists.
    ///
    /// For few pixels, these take less memory, but more time.
    fn has_lists(&self) -> bool {
        self.0.area() <= u64::from(u16::MAX) && 2 * self.list_bytes() < self.lut_bytes()
    }

    /// Returns whether tables depend on the levels that occur in the picture.
    pub fn needs_levels(&self) -> bool {
        self.0.clahe.clip_limit.needs_levels(self.0.operation.levels.number(self.0.layout.depth))
    }

    /// Returns for each plane and level whether it occurs in rows of pixels.
    ///
    /// # Panics
    /// If `pixels` has the wrong length, or holds 16-bit samples at an odd address.
    pub fn levels_in(&self, pixels: &[u8], rows: Range<u32>) -> Vec<bool> {
        let extent = self.extent_of(pixels, rows);
        match self.0.layout.depth {
            Depth::Eight => self.levels_in_samples(pixels, extent),
            Depth::Sixteen => self.levels_in_samples::<u16>(bytemuck::cast_slice(pixels), extent),
        }
    }

    fn levels_in_samples<S: Sample>(&self, samples: &[S], extent: Extent) -> Vec<bool> {
        let mut occurs = vec![false; self.0.planes().len() * S::LEVELS];
        for (plane, occurs) in occurs.chunks_exact_mut(S::LEVELS).enumerate() {
            self.0.mark(plane, &[(extent, samples)], occurs);
        }
        occurs
    }

    /// Returns the number of counts for exposure, those of the whole picture; 0 without one.
    pub fn exposed_counts(&self) -> usize {
        self.0.exposed_counts()
    }

    /// Adds rows of pixels to the counts for exposure.
    ///
    /// # Panics
    /// If `pixels` or `counts` has the wrong length, or `pixels` holds 16-bit samples at an odd
    /// address.
    pub fn count_exposed(&self, pixels: &[u8], rows: Range<u32>, counts: &mut [u64]) {
        let extent = self.extent_of(pixels, rows);
        self.0.count_exposed(pixels, extent, counts);
    }

    /// Returns the clipping and the exposure of each plane.
    ///
    /// `occurs` has for each plane and level whether it occurs in the picture, if that matters;
    /// `exposed` are the counts for exposure.
    pub fn clippings(&self, occurs: &[bool], exposed: &[u64]) -> Clippings {
        let levels = self.0.layout.depth.levels();
        let mark = |plane: usize, marked: &mut [bool]| {
            marked.copy_from_slice(&occurs[plane * levels..][..marked.len()]);
        };
        match self.0.layout.depth {
            Depth::Eight => self.0.clippings::<u8>(exposed, mark),
            Depth::Sixteen => self.0.clippings::<u16>(exposed, mark),
        }
    }

    /// Returns the empty counts of a row of tiles.
    pub fn no_counts(&self) -> RowCounts {
        RowCounts(match self.0.layout.depth {
            Depth::Eight => Counts::Eight(self.no_counts_of()),
            Depth::Sixteen => Counts::Sixteen(self.no_counts_of()),
        })
    }

    fn no_counts_of<S: Sample>(&self) -> PlanesCounts<S> {
        let values = self.0.layout.width as usize * self.0.plane.tile_height;
        let of_plane = |_| match self.has_lists() {
            true => PlaneCounts::Values(Vec::with_capacity(values)),
            false => PlaneCounts::Levels(vec![0; self.0.row_counts()]),
        };
        PlanesCounts { rows: 0, planes: (0..self.0.planes().len()).map(of_plane).collect() }
    }

    /// Adds rows of pixels to the counts of a row of tiles, as far as they belong to it.
    ///
    /// Returns whether all of the row of tiles is counted.
    ///
    /// # Panics
    /// If `pixels` has the wrong length, if it holds 16-bit samples at an odd address, or if the
    /// counts are of another picture.
    pub fn count(&self, pixels: &[u8], rows: Range<u32>, row: usize, counts: &mut RowCounts) -> bool {
        let extent = self.extent_of(pixels, rows);
        match &mut counts.0 {
            Counts::Eight(counts) => self.count_samples(pixels, extent, row, counts),
            Counts::Sixteen(counts) => self.count_samples(bytemuck::cast_slice(pixels), extent, row, counts),
        }
    }

    fn count_samples<S: Sample>(
        &self,
        samples: &[S],
        extent: Extent,
        row: usize,
        counts: &mut PlanesCounts<S>,
    ) -> bool {
        for (number, counts) in counts.planes.iter_mut().enumerate() {
            match counts {
                PlaneCounts::Levels(counts) => {
                    let part = Part { row: number * self.rows() + row, times: 1 };
                    self.0.count_samples(samples, extent, part, counts);
                }
                PlaneCounts::Values(values) => self.collect(samples, extent, number, row, values),
            }
        }
        counts.rows += self.0.rows_of(row, extent).count();
        counts.rows == self.0.plane.tile_height
    }

    /// Appends the values of a row of tiles in one plane.
    fn collect<S: Sample>(&self, samples: &[S], extent: Extent, plane: usize, row: usize, to: &mut Vec<S>) {
        let shape = self.0.shape(self.0.planes()[plane], extent);
        let (plane, mut buffer) = (PaddedPlane { shape, samples, padding: &[] }, Vec::new());
        for y in self.0.rows_of(row, extent) {
            to.extend_from_slice(plane.values(y, 0..shape.width, &mut buffer));
        }
    }

    /// Makes the tables of a row of tiles from its complete counts.
    pub fn tables(&self, counts: RowCounts, clippings: &Clippings) -> RowTables {
        RowTables(match counts.0 {
            Counts::Eight(counts) => Tables::Eight(self.tables_of(counts, clippings)),
            Counts::Sixteen(counts) => Tables::Sixteen(self.tables_of(counts, clippings)),
        })
    }

    fn tables_of<S: Sample>(&self, counts: PlanesCounts<S>, all: &Clippings) -> PlanesTables<S> {
        let of_plane = |(number, counts): (usize, PlaneCounts<S>)| {
            let clipping = all.planes[number].as_ref()?;
            Some(match counts {
                PlaneCounts::Levels(counts) => {
                    let mut luts = vec![S::zeroed(); self.0.row_counts()];
                    self.0.fill_row(number * self.rows(), &counts, all, &mut luts);
                    PlaneTables::Luts(luts)
                }
                PlaneCounts::Values(values) => {
                    let slots = all_levels(all.exposures.of_plane(number).as_deref());
                    PlaneTables::Lists(self.list(&values, clipping, &slots))
                }
            })
        };
        counts.planes.into_iter().enumerate().map(of_plane).collect()
    }

    /// Makes the sorted lists of a row of tiles.
    ///
    /// `values` are those of its rows of pixels, in any order.
    fn list<S: Sample>(&self, values: &[S], clipping: &Clipping, slots: &Slots<S>) -> SlotRow<S> {
        let shape = Shape {
            height: self.0.plane.tile_height,
            pixel: Pixel::Gray,
            ..self.0.shape(Plane::Channel(0), extent(0..0))
        };
        let plane = PaddedPlane { shape, samples: values, padding: &[] };
        let mut list = SlotRow::default();
        list.fill(&self.0.plane, clipping, slots, &plane, 0, &mut Thread::default());
        list
    }

    /// Equalizes rows of pixels in place.
    ///
    /// `tables` returns the tables of the rows of tiles that they use ([`Rolling::used_by`]), made
    /// with these clippings.
    ///
    /// # Panics
    /// If `pixels` has the wrong length, if it holds 16-bit samples at an odd address, or if tables
    /// are of another depth.
    pub fn equalize<'t>(
        &self,
        pixels: &mut [u8],
        rows: Range<u32>,
        clippings: &Clippings,
        tables: impl Fn(usize) -> &'t RowTables,
    ) {
        let extent = self.extent_of(pixels, rows);
        match self.0.layout.depth {
            Depth::Eight => {
                self.equalize_samples::<u8>(pixels, extent, clippings, |row| tables(row).of_eight_bits());
            }
            Depth::Sixteen => {
                let samples = bytemuck::cast_slice_mut(pixels);
                self.equalize_samples::<u16>(samples, extent, clippings, |row| tables(row).of_sixteen_bits());
            }
        }
    }

    fn equalize_samples<'t, S: Sample>(
        &self,
        samples: &mut [S],
        extent: Extent,
        clippings: &Clippings,
        tables: impl Fn(usize) -> &'t PlanesTables<S>,
    ) {
        let levels = self.0.operation.levels.number(self.0.layout.depth);
        let of_plane = |plane| all_levels(clippings.exposures.of_plane(plane).as_deref());
        let slots: Vec<Slots<S>> = (0..clippings.planes.len()).map(of_plane).collect();
        let scale = self.0.plane.with_levels(levels).scale;
        self.0.change(extent, samples, clippings, |place, values| {
            let Place { plane, rows: [above, below], columns, weights } = place;
            match (&tables(above)[plane], &tables(below)[plane]) {
                (Some(PlaneTables::Luts(above)), Some(PlaneTables::Luts(below))) => {
                    let [top, bottom] = [above, below].map(|luts| corner_luts(luts, columns));
                    S::blend(values, &Corners { top, bottom }, weights.right, weights.bottom);
                }
                (Some(PlaneTables::Lists(above)), Some(PlaneTables::Lists(below))) => {
                    let (slots, rows) = (&slots[plane], [above, below]);
                    simd::vectorized!(sparse::blend(slots, scale, values, rows, columns, weights));
                }
                _ => unreachable!("all rows of a plane have tables of one kind"),
            }
        });
    }

    fn extent_of(&self, pixels: &[u8], rows: Range<u32>) -> Extent {
        let extent = extent(rows);
        assert_eq!(pixels.len() as u64, self.0.layout_of(extent).bytes(), "the pixels of these rows");
        extent
    }
}

const fn extent(rows: Range<u32>) -> Extent {
    Extent { page: 0, first_row: rows.start, rows: rows.end - rows.start }
}

/// Returns the slots of all levels, with their exposure.
fn all_levels<S: Sample>(exposure: Option<&[S]>) -> Slots<S> {
    let mut slots = Slots::default();
    slots.set_all();
    if let Some(table) = exposure {
        slots.expose(table);
    }
    slots
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Clahe, ClipLimit, Method, Tiles as TilesOf};

    fn bytes_of_counts<S>(counts: &PlanesCounts<S>) -> usize {
        let of_plane = |counts: &PlaneCounts<S>| match counts {
            PlaneCounts::Levels(counts) => counts.capacity() * size_of::<u32>(),
            PlaneCounts::Values(values) => values.capacity() * size_of::<S>(),
        };
        counts.planes.iter().map(of_plane).sum()
    }

    fn bytes_of_tables<S: Sample>(tables: &PlanesTables<S>) -> usize {
        let of_plane = |tables: &PlaneTables<S>| match tables {
            PlaneTables::Luts(luts) => luts.capacity() * size_of::<S>(),
            PlaneTables::Lists(lists) => lists.bytes(),
        };
        tables.iter().flatten().map(of_plane).sum()
    }

    #[test]
    fn a_row_of_tiles_takes_no_more_than_promised() {
        for (side, depth) in [1, 3, 20, 60, 130, 400]
            .into_iter()
            .flat_map(|side| [Depth::Eight, Depth::Sixteen].map(|depth| (side, depth)))
        {
            let layout = Layout { width: 301, height: 500, pixel: Pixel::Rgb, depth };
            let clahe = Clahe { clip_limit: ClipLimit::Times(2.0), tiles: TilesOf::Pixels(side), noise: 0 };
            let operation = Operation::new(Method::Clahe(clahe));
            let tiles = Rolling::new(&layout, &operation).unwrap();
            let mut counts = tiles.no_counts();
            let words: Vec<u16> = (0..layout.bytes() / 2).map(|at| (at * 40_503 % 65_521) as u16).collect();
            assert!(tiles.count(bytemuck::cast_slice(&words), 0..500, 0, &mut counts));
            let counted = match &counts.0 {
                Counts::Eight(counts) => bytes_of_counts(counts),
                Counts::Sixteen(counts) => bytes_of_counts(counts),
            };
            let tables = match tiles.tables(counts, &tiles.clippings(&[], &[])).0 {
                Tables::Eight(tables) => bytes_of_tables(&tables),
                Tables::Sixteen(tables) => bytes_of_tables(&tables),
            };
            let promised = (tiles.count_bytes() as usize, tiles.table_bytes() as usize);
            assert!(counted <= promised.0 && tables <= promised.1, "{side} {counted} {tables} {promised:?}");
        }
    }
}
