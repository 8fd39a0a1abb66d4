//! CLAHE of stacks of pictures: tiles are boxes.
//!
//! A voxel is interpolated between the LUTs of the eight boxes around it, by its distance to their
//! centres, along the stack last.
//!
//! A plane is divided and padded like a single picture, and the stack independently of that: unless
//! the layers of boxes divide its pages, it is padded after the last one by reflection. The clip
//! limit is that of a box's pixels. With one layer and one page the result is therefore that of the
//! picture.
//!
//! Pages, or bands of their rows, are counted one by one, in any order, and each part of one by
//! itself; after that, tables are made, and they are equalized one by one. It is therefore enough
//! to have one page in memory, or a part of its rows. `rolling` keeps tables of a few rows of boxes
//! only, for a page whose bands come in order.

mod rolling;

use super::fill_lut;
use super::plane::{PaddedPlane, Rows, Shape};
use super::tiles::{Axes, Between, Geometry, Weights, reflect, tiles_used};
use crate::clip::{Clipping, LevelsInUse};
use crate::colour::Plane;
use crate::executor::{Executor, Pool, Team};
use crate::exposure::{self, Exposures};
use crate::histogram::{self, Counted};
use crate::layout::{Depth, Layout, Pixel};
use crate::portable::{Corners, blend_boxes};
use crate::sample::Sample;
use crate::simd;
use crate::{Clahe, Method, Operation};
pub use rolling::{Rolling, RowCounts, RowTables};

/// The boxes of a stack of pictures of one layout.
#[derive(Clone, Copy, Debug)]
pub struct Volume {
    layout: Layout,
    operation: Operation,
    clahe: Clahe,
    plane: Geometry,
    pages: usize,
    /// The layers of boxes that pages take values from.
    layers: usize,
    /// The number of pages of a box, with padding.
    depth: usize,
}

/// Pixels in a stack: rows of a page, in their whole width.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// The number of the page.
    pub page: usize,
    /// The first row.
    pub first_row: u32,
    /// The number of rows.
    pub rows: u32,
}

/// A part of an extent that is counted by itself.
///
/// It is the intersection with a row of boxes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// The number of the row of boxes, below [`Volume::rows`].
    pub row: usize,
    /// The number of times that the page is in the boxes: more than once if it pads the stack.
    pub times: u32,
}

/// The LUTs of all boxes.
#[derive(Debug)]
pub enum BoxTables {
    /// Of 8 bits.
    Eight(Tables<u8>),
    /// Of 16 bits.
    Sixteen(Tables<u16>),
}

/// The LUTs of boxes, for samples of one depth.
#[derive(Debug)]
pub struct Tables<S> {
    /// The LUTs, one after the other: layer by layer, plane by plane, row by row.
    luts: Vec<S>,
    clippings: Clippings,
}

/// The clipping and the exposure of each equalized plane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Clippings {
    /// The clipping of histograms; `None` where a plane stays as it is.
    planes: Vec<Option<Clipping>>,
    exposures: Exposures,
}

impl Volume {
    /// Returns the boxes of so many pages.
    ///
    /// `None` if the method is not CLAHE, if it does not support pages of this layout
    /// ([`Operation::can_equalize`]), if there are no pages, or if a box has more pixels than can
    /// be counted (2³² and more).
    pub fn new(layout: &Layout, pages: usize, operation: &Operation) -> Option<Self> {
        let Method::Clahe(clahe) = operation.method else { return None };
        let all_layers = (clahe.tiles.layers() as usize).max(1);
        if pages == 0 || !operation.can_equalize(layout) {
            return None;
        }
        let depth = pages / all_layers + usize::from(!pages.is_multiple_of(all_layers));
        let layers = tiles_used(u32::try_from(pages).ok()?, depth, u32::try_from(all_layers).ok()?);
        let plane = Geometry::new(layout, &clahe);
        let volume = Self { layout: *layout, operation: *operation, clahe, plane, pages, layers, depth };
        u32::try_from(volume.area()).is_ok().then_some(volume)
    }

    /// Returns the same boxes for pages with these pixels.
    ///
    /// They may differ from those of other pages in alpha only.
    #[must_use]
    pub const fn with_pixel(&self, pixel: Pixel) -> Self {
        Self { layout: Layout { pixel, ..self.layout }, ..*self }
    }

    /// Returns the number of pixels of a box.
    const fn area(&self) -> u64 {
        self.plane.area().saturating_mul(self.depth as u64)
    }

    fn planes(&self) -> &'static [Plane] {
        self.operation.to_equalize(self.layout.pixel)
    }

    /// Returns the number of rows of boxes; each is counted by itself.
    pub fn rows(&self) -> usize {
        self.layers * self.planes().len() * self.plane.rows
    }

    /// Returns the number of counts of a row of boxes.
    pub const fn row_counts(&self) -> usize {
        self.plane.columns * self.layout.depth.levels()
    }

    /// Returns the bytes of the counts of all boxes, and of their LUTs.
    pub fn table_bytes(&self) -> u64 {
        let entries = self.rows() as u64 * self.row_counts() as u64;
        entries * (size_of::<u32>() + self.layout.depth.bytes()) as u64
    }

    /// Returns all rows of a page.
    pub fn page(&self, page: usize) -> Extent {
        Extent { page, first_row: 0, rows: self.layout.height }
    }

    /// Returns the parts of an extent that are counted.
    pub fn parts(&self, extent: Extent) -> impl Iterator<Item = Part> {
        let rows = self.planes().len() * self.plane.rows;
        (0..self.layers).flat_map(move |layer| {
            let padded = layer * self.depth..(layer + 1) * self.depth;
            let times = padded.filter(|&at| reflect(at, self.pages) == extent.page).count() as u32;
            let all = layer * rows..(layer + usize::from(times > 0)) * rows;
            let counted = all.filter(move |&row| self.rows_of(row, extent).next().is_some());
            counted.map(move |row| Part { row, times })
        })
    }

    /// Returns the rows of pixels that an extent and a row of boxes have in common.
    ///
    /// They are numbered within the extent; a row that also pads the picture is repeated.
    fn rows_of(&self, row: usize, extent: Extent) -> impl Iterator<Item = usize> {
        let Geometry { rows, tile_height, .. } = self.plane;
        let top = row % rows * tile_height;
        let height = self.layout.height as usize;
        let own = extent.first_row as usize..(extent.first_row + extent.rows) as usize;
        let padded = (top..top + tile_height).map(move |y| reflect(y, height));
        padded.filter(move |y| own.contains(y)).map(move |y| y - extent.first_row as usize)
    }

    /// Adds the levels of a part of an extent to the counts of its row of boxes.
    ///
    /// `pixels` are those of the extent.
    ///
    /// # Panics
    /// If `pixels` or `counts` has the wrong length, or `pixels` holds 16-bit samples at an odd
    /// address.
    pub fn count(&self, pixels: &[u8], extent: Extent, part: Part, counts: &mut [u32]) {
        assert_eq!(pixels.len() as u64, self.layout_of(extent).bytes(), "the pixels of these rows");
        assert_eq!(counts.len(), self.row_counts(), "counts of a row of boxes");
        match self.layout.depth {
            Depth::Eight => self.count_samples(pixels, extent, part, counts),
            Depth::Sixteen => self.count_samples::<u16>(bytemuck::cast_slice(pixels), extent, part, counts),
        }
    }

    fn count_samples<S: Sample>(&self, samples: &[S], extent: Extent, part: Part, counts: &mut [u32]) {
        let Geometry { rows, tile_width, .. } = self.plane;
        let plane = self.planes()[part.row / rows % self.planes().len()];
        let plane = PaddedPlane { shape: self.shape(plane, extent), samples, padding: &[] };
        let mut buffer = Vec::new();
        for y in self.rows_of(part.row, extent) {
            for (column, counts) in counts.chunks_exact_mut(S::LEVELS).enumerate() {
                let across = column * tile_width..(column + 1) * tile_width;
                for value in plane.values(y, across, &mut buffer) {
                    counts[value.level()] += part.times;
                }
            }
        }
    }

    /// Adds the levels of an extent to the counts for exposure ([`Volume::exposed_counts`]).
    ///
    /// `pixels` are those of the extent.
    ///
    /// # Panics
    /// As [`Volume::count`].
    pub fn count_exposed(&self, pixels: &[u8], extent: Extent, counts: &mut [u64]) {
        assert_eq!(counts.len(), self.exposed_counts(), "counts of what is exposed");
        let (layout, levels) = (self.layout_of(extent), self.layout.depth.levels());
        for (counts, &plane) in counts.chunks_exact_mut(levels).zip(self.planes()) {
            let own = histogram::of_plane(pixels, &layout, plane, Counted::Visible);
            counts.iter_mut().zip(own).for_each(|(count, own)| *count += own);
        }
    }

    /// Returns the number of counts for exposure; 0 without one.
    pub fn exposed_counts(&self) -> usize {
        let planes = if self.operation.exposure.is_some() { self.planes().len() } else { 0 };
        planes * self.layout.depth.levels()
    }

    const fn layout_of(&self, extent: Extent) -> Layout {
        Layout { height: extent.rows, ..self.layout }
    }

    const fn shape<'a, S>(&self, plane: Plane, extent: Extent) -> Shape<'a, S> {
        Shape {
            width: self.layout.width as usize,
            height: extent.rows as usize,
            pixel: self.layout.pixel,
            plane,
            relight: self.operation.relight(self.layout.depth),
            exposure: None,
        }
    }

    /// Makes the LUTs of all boxes, once all pages are counted.
    ///
    /// `rows` has the counts of each row of boxes, and `exposed` those for exposure.
    ///
    /// # Panics
    /// If there are not [`Volume::rows`] rows of [`Volume::row_counts`] counts, or
    /// [`Volume::exposed_counts`] of the latter.
    pub fn tables<C: AsRef<[u32]>>(&self, rows: &[C], exposed: &[u64]) -> BoxTables {
        assert_eq!(rows.len(), self.rows(), "all rows of boxes");
        match self.layout.depth {
            Depth::Eight => BoxTables::Eight(self.tables_of(rows, exposed)),
            Depth::Sixteen => BoxTables::Sixteen(self.tables_of(rows, exposed)),
        }
    }

    fn tables_of<S: Sample, C: AsRef<[u32]>>(&self, rows: &[C], exposed: &[u64]) -> Tables<S> {
        let mark = |plane: usize, occurs: &mut [bool]| self.mark_counted::<S, C>(plane, rows, occurs);
        let clippings = self.clippings::<S>(exposed, mark);
        let mut luts = vec![S::zeroed(); self.rows() * self.row_counts()];
        for (row, (luts, counts)) in luts.chunks_exact_mut(self.row_counts()).zip(rows).enumerate() {
            self.fill_row(row, counts.as_ref(), &clippings, luts);
        }
        Tables { luts, clippings }
    }

    /// Returns the clipping and the exposure of each plane.
    ///
    /// `exposed` are the counts for exposure. `mark` marks the levels that occur in a plane.
    fn clippings<S: Sample>(&self, exposed: &[u64], mark: impl Fn(usize, &mut [bool])) -> Clippings {
        assert_eq!(exposed.len(), self.exposed_counts(), "counts of what is exposed");
        let (limit, levels) = (self.clahe.clip_limit, self.operation.levels.number(self.layout.depth));
        let exposures = Exposures::new::<S>(self.operation.exposure, levels, exposed);
        let of_plane = |plane: usize| {
            if !limit.needs_levels(levels) {
                return Some(Clipping::new(limit, self.area(), levels));
            }
            let mut occurs = vec![false; levels];
            mark(plane, &mut occurs);
            let table = exposures.of_plane::<S>(plane);
            let occurs = exposure::occurring(&occurs, table.as_deref());
            Clipping::of_levels(LevelsInUse::new(occurs.iter().copied()), self.area())
        };
        let with_noise = |clipping: Clipping| clipping.with_noise(self.clahe.noise, levels);
        let planes = (0..self.planes().len()).map(|plane| of_plane(plane).map(with_noise)).collect();
        Clippings { planes, exposures }
    }

    /// Marks the levels of a plane that occur in the counts of all boxes.
    fn mark_counted<S: Sample, C: AsRef<[u32]>>(&self, plane: usize, rows: &[C], occurs: &mut [bool]) {
        let of_plane = rows.chunks_exact(self.plane.rows).skip(plane).step_by(self.planes().len());
        for counts in of_plane.flatten().flat_map(|row| row.as_ref().chunks_exact(S::LEVELS)) {
            occurs.iter_mut().zip(counts).for_each(|(occurs, &count)| *occurs |= count > 0);
        }
    }

    /// Makes the LUTs of a row of boxes from its counts.
    fn fill_row<S: Sample>(
        &self,
        row: usize,
        counts: &[u32],
        Clippings { planes, exposures }: &Clippings,
        luts: &mut [S],
    ) {
        let levels = self.operation.levels.number(self.layout.depth);
        let scale = (levels - 1) as f32 / self.area() as f32;
        let plane = row / self.plane.rows % planes.len();
        let Some(clipping) = &planes[plane] else { return };
        let exposure = exposures.of_plane::<S>(plane);
        for (lut, counts) in luts.chunks_exact_mut(S::LEVELS).zip(counts.chunks_exact(S::LEVELS)) {
            let lut = &mut lut[..levels];
            match &exposure {
                None => fill_lut(&counts[..levels], clipping, scale, lut),
                Some(table) => {
                    fill_lut(&exposure::mapped(&counts[..levels], table), clipping, scale, lut);
                    exposure::compose(&table[..levels], lut);
                }
            }
        }
    }

    /// Makes the LUTs of all boxes of a stack in memory.
    ///
    /// A row of boxes is counted at a time: its counts stay in the cache.
    fn tables_of_stack<S: Sample, E: Executor>(&self, samples: &[S], team: &Team<'_, E>) -> Tables<S> {
        let page_samples = samples.len() / self.pages;
        let pages: Vec<(Extent, &[S])> = samples
            .chunks_exact(page_samples)
            .enumerate()
            .map(|(page, all)| (self.page(page), all))
            .collect();
        let mut exposed = vec![0; self.exposed_counts()];
        if !exposed.is_empty() {
            let count = |&(extent, samples): &(Extent, &[S])| {
                self.count_exposed(bytemuck::cast_slice(samples), extent, &mut exposed);
            };
            pages.iter().for_each(count);
        }
        let clippings = self.clippings::<S>(&exposed, |plane, occurs| self.mark(plane, &pages, occurs));
        let mut luts = vec![S::zeroed(); self.rows() * self.row_counts()];
        let of_threads = Pool::<Vec<u32>>::default();
        let of_rows = luts.chunks_exact_mut(self.row_counts()).enumerate().collect();
        team.for_each(of_rows, |(row, luts): (usize, &mut [S])| {
            of_threads.with(|counts| {
                counts.clear();
                counts.resize(self.row_counts(), 0);
                for &(extent, samples) in &pages {
                    let parts = self.parts(extent).filter(|part| part.row == row);
                    parts.for_each(|part| self.count_samples(samples, extent, part, counts));
                }
                self.fill_row(row, counts, &clippings, luts);
            });
        });
        Tables { luts, clippings }
    }

    /// Marks the levels that occur in a plane of pages.
    fn mark<S: Sample>(&self, plane: usize, pages: &[(Extent, &[S])], occurs: &mut [bool]) {
        let mut buffer = Vec::new();
        for &(extent, samples) in pages {
            let shape = self.shape(self.planes()[plane], extent);
            let plane = PaddedPlane { shape, samples, padding: &[] };
            for y in 0..shape.height {
                plane
                    .values(y, 0..shape.width, &mut buffer)
                    .iter()
                    .for_each(|value| occurs[value.level()] = true);
            }
        }
    }

    /// Equalizes an extent in place; `pixels` are its pixels.
    ///
    /// # Panics
    /// If `pixels` has the wrong length, if it holds 16-bit samples at an odd address, or if the
    /// tables are of another volume.
    pub fn equalize(&self, extent: Extent, pixels: &mut [u8], tables: &BoxTables) {
        assert_eq!(pixels.len() as u64, self.layout_of(extent).bytes(), "the pixels of these rows");
        match tables {
            BoxTables::Eight(tables) => self.equalize_samples(extent, pixels, tables),
            BoxTables::Sixteen(tables) => {
                self.equalize_samples::<u16>(extent, bytemuck::cast_slice_mut(pixels), tables);
            }
        }
    }

    fn equalize_samples<S: Sample>(&self, extent: Extent, samples: &mut [S], tables: &Tables<S>) {
        let along = Between::new(extent.page, self.depth, self.layers);
        self.change(extent, samples, &tables.clippings, |place, values| {
            let Place { plane, rows, columns, weights } = place;
            let corners = [along.first, along.second].map(|layer| {
                let luts = self.luts_of(tables, layer * self.planes().len() + plane);
                self.corners(luts, rows, columns)
            });
            blend(values, &corners, weights, &along);
        });
    }

    /// Changes an extent, except for planes that stay as they are.
    ///
    /// `equalize` replaces the values of each place.
    fn change<S: Sample>(
        &self,
        extent: Extent,
        samples: &mut [S],
        Clippings { planes, exposures }: &Clippings,
        equalize: impl Fn(Place<'_>, &mut [S]),
    ) {
        let mut axes = Axes::default();
        axes.set(&self.layout, &self.plane);
        let Axes { across, down } = &axes;
        let own = extent.first_row as usize..(extent.first_row + extent.rows) as usize;
        let mut buffers = Rows::default();
        for (number, &plane) in
            self.planes().iter().enumerate().filter(|&(number, _)| planes[number].is_some())
        {
            let exposure = exposures.of_plane(number);
            let shape = Shape { exposure: exposure.as_deref(), ..self.shape(plane, extent) };
            let bands =
                down.runs.iter().filter(|band| band.pixels.start < own.end && own.start < band.pixels.end);
            let places = bands.flat_map(|band| across.runs.iter().map(move |run| (band, run)));
            for (band, run) in places {
                let (rows, columns) = ([band.first, band.second], [run.first, run.second]);
                // The tables of a place stay in cache for all of its rows.
                for y in band.pixels.start.max(own.start)..band.pixels.end.min(own.end) {
                    let first = shape.samples((y - own.start) * shape.width + run.pixels.start);
                    let pixels = &mut samples[first..][..shape.samples(run.pixels.len())];
                    let weights = axes.weights(run.pixels.clone(), y);
                    let place = Place { plane: number, rows, columns, weights };
                    let equalize = |values: &mut [S]| equalize(place, values);
                    shape.change(pixels, self.operation.strength, &mut buffers, equalize);
                }
            }
        }
        let highest = S::from_level(self.operation.levels.number(self.layout.depth) as u32 - 1);
        if self.operation.may_exceed_levels(&self.layout) {
            crate::levels::clamp_samples(samples, self.layout.pixel, highest);
        }
    }

    /// Returns the LUTs of the boxes of one layer for one plane.
    fn luts_of<'t, S>(&self, tables: &'t Tables<S>, layer_and_plane: usize) -> &'t [S] {
        let length = self.plane.rows * self.row_counts();
        &tables.luts[layer_and_plane * length..][..length]
    }

    /// Returns the LUTs of a layer for these rows and columns of boxes.
    fn corners<'t, S: Sample>(&self, luts: &'t [S], rows: [usize; 2], columns: [usize; 2]) -> Corners<'t, S> {
        let [top, bottom] =
            rows.map(|row| corner_luts(&luts[row * self.row_counts()..][..self.row_counts()], columns));
        Corners { top, bottom }
    }
}

/// Pixels of a row that lie between the same boxes of a plane.
#[derive(Clone, Copy)]
struct Place<'a> {
    /// The number of the plane among the equalized ones.
    plane: usize,
    /// The rows of boxes above and below.
    rows: [usize; 2],
    /// The columns of boxes to the left and to the right.
    columns: [usize; 2],
    weights: Weights<'a>,
}

/// Returns the LUTs of these columns of a row of boxes.
fn corner_luts<S: Sample>(row: &[S], columns: [usize; 2]) -> [&[S]; 2] {
    columns.map(|column| &row[column * S::LEVELS..][..S::LEVELS])
}

/// Interpolates values between the LUTs of two layers.
fn blend<S: Sample>(
    values: &mut [S],
    [front, back]: &[Corners<'_, S>; 2],
    weights: Weights<'_>,
    along: &Between,
) {
    if along.first == along.second {
        S::blend(values, front, weights.right, weights.bottom);
    } else {
        let (corners, Weights { right, bottom }) = ([front, back], weights);
        simd::vectorized!(blend_boxes(values, corners, right, bottom, along.weight));
    }
}

/// Equalizes a stack of pictures of one layout in place, with the threads of an [`Executor`].
///
/// The pictures follow each other in `pixels`. Returns `false`, and does not change them, if
/// [`Volume::new`] has no boxes for them.
///
/// # Panics
/// If the length of `pixels` is not that of so many pictures, or if it holds 16-bit samples at an
/// odd address.
pub fn equalize_volume_on(
    executor: &impl Executor,
    pixels: &mut [u8],
    layout: &Layout,
    pages: usize,
    operation: &Operation,
) -> bool {
    let Some(volume) = Volume::new(layout, pages, operation) else { return false };
    let bytes = layout.bytes() as usize;
    assert_eq!(pixels.len(), bytes * pages, "the pixels of all pages");
    let team = Team::new(executor, pixels.len() / layout.depth.bytes());
    let tables = match layout.depth {
        Depth::Eight => BoxTables::Eight(volume.tables_of_stack(pixels, &team)),
        Depth::Sixteen => BoxTables::Sixteen(volume.tables_of_stack(bytemuck::cast_slice(pixels), &team)),
    };
    team.for_each(pixels.chunks_exact_mut(bytes).enumerate().collect(), |(page, pixels)| {
        volume.equalize(volume.page(page), pixels, &tables);
    });
    true
}
