//! CLAHE's tiles of a picture that is read in bands.
//!
//! Counts and tables of only a few rows of tiles exist at a time. A band is counted, waits until
//! the bands below it are counted as far as their pixels belong to tiles around it, and is then
//! equalized. A limit on how far counting may run ahead bounds the memory.

use std::collections::BTreeSet;
use std::mem;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::picture::kind::Kind;
use codec::pages::Pages;
use equalize::clahe::{Clippings, Rolling, RowCounts, RowTables};
use equalize::{Layout, Levels, Operation, Pixel};

/// Bands that may be counted in addition to those that the uppermost band waits for.
const AHEAD: u32 = 2;

/// Rows of tiles of a band that are counted in part: one at its top, one at its bottom, and the one
/// in progress.
const ROWS_IN_PART: usize = 3;

/// The division of a picture into bands.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bands {
    /// The rows of the picture.
    pub(crate) height: u32,
    /// The rows of each band except the last.
    pub(crate) each: u32,
}

impl Bands {
    /// Returns the division of each picture of a file, if they are divided.
    pub(crate) fn of(pages: &Pages) -> Option<Self> {
        pages.height_of_bands().map(|height| Self { height, each: pages.first_row(1) })
    }

    fn count(&self) -> u32 {
        self.height.div_ceil(self.each)
    }

    fn rows(&self, band: u32) -> Range<u32> {
        let first = band * self.each;
        first..self.height.min(first.saturating_add(self.each))
    }
}

/// The tiles of a picture, and the order in which its bands are counted and equalized.
#[derive(Clone, Copy, Debug)]
struct Window {
    tiles: Rolling,
    bands: Bands,
}

impl Window {
    /// Returns the tiles of a picture, given the layout of one of its bands; `None` if the
    /// operation has no tiles.
    fn new(layout: &Layout, bands: Bands, operation: &Operation) -> Option<Self> {
        let tiles = Rolling::new(&Layout { height: bands.height, ..*layout }, operation)?;
        Some(Self { tiles, bands })
    }

    /// Returns the number of the band that is counted last before this one can be equalized.
    fn last_needed(&self, band: u32) -> u32 {
        let used = self.tiles.used_by(self.bands.rows(band));
        (self.tiles.complete_below(used.end) - 1) / self.bands.each
    }

    /// Returns the number of the last band that may be counted while this one is the uppermost that
    /// is not equalized.
    fn last_counted(&self, band: u32) -> u32 {
        (self.last_needed(band) + AHEAD).min(self.bands.count() - 1)
    }

    /// Returns the most rows of tiles that have tables at once, and the most that have counts.
    fn most_rows(&self) -> [usize; 2] {
        let (mut most_rows, mut most_bands) = (0, 0);
        for band in 0..self.bands.count() {
            let (first, last) = (self.tiles.used_by(self.bands.rows(band)).start, self.last_counted(band));
            most_rows = most_rows.max(self.tiles.counted_below(self.bands.rows(last).end) - first);
            most_bands = most_bands.max(last as usize - band as usize + 1);
        }
        // All bands together may contain parts of the padding of the picture.
        let in_part = ROWS_IN_PART.saturating_mul(most_bands + 1);
        [most_rows, in_part.min(most_rows)]
    }

    /// Returns the most bytes that counts and tables take at once.
    fn bytes(&self) -> u64 {
        let [tables, counts] = self.most_rows().map(|rows| rows as u64);
        let bytes = self.tiles.table_bytes().saturating_mul(tables);
        bytes.saturating_add(self.tiles.count_bytes().saturating_mul(counts))
    }
}

/// Returns the bytes of the counts and tables of a picture that is read in bands, given the layout
/// of one of them; `None` if the operation has no tiles.
pub(crate) fn table_bytes(layout: &Layout, bands: Bands, operation: &Operation) -> Option<u64> {
    Window::new(layout, bands, operation).map(|window| window.bytes())
}

/// Returns whether tables depend on the content of all bands, in addition to their own counts.
pub(crate) fn needs_look(layout: &Layout, bands: Bands, operation: &Operation) -> bool {
    Window::new(layout, bands, operation)
        .is_some_and(|window| window.tiles.needs_levels() || window.tiles.exposed_counts() > 0)
}

/// The tiles of a picture, with the counts and tables that exist of them. Its bands may be counted
/// by several threads at once.
#[derive(Debug)]
pub struct BandTiles {
    window: Window,
    /// The layout and levels of the first band that arrived.
    layout: Layout,
    levels: Levels,
    seen: Mutex<Seen>,
    /// The tiles' clipping and exposure, until all bands are equalized.
    clippings: Mutex<Option<Arc<Clippings>>>,
    rows: Vec<Mutex<Row>>,
    progress: Mutex<Progress>,
}

/// The levels seen in bands so far, until all bands have been examined.
#[derive(Debug, Default)]
struct Seen {
    /// The number of bands.
    bands: u32,
    /// The levels that occur, a bit for each, if needed.
    occurs: Vec<u8>,
    /// The counts to derive the exposure from.
    counts: Vec<u64>,
}

/// The state of a row of tiles.
#[derive(Debug)]
enum Row {
    Uncounted,
    Counted(RowCounts),
    Tables(Arc<RowTables>),
}

/// The progress of the picture.
#[derive(Debug)]
struct Progress {
    /// For each row of tiles, whether it has or had tables.
    has_tables: Vec<bool>,
    /// The number of the uppermost band that is not equalized, and those of the bands below it that
    /// are.
    uppermost: u32,
    equalized: BTreeSet<u32>,
}

impl BandTiles {
    /// Returns the tiles of a picture, given the layout and levels of one of its bands; `None` if
    /// the operation has no tiles for it.
    pub(crate) fn new(layout: &Layout, levels: Levels, bands: Bands, operation: &Operation) -> Option<Self> {
        let window = Window::new(layout, bands, &Operation { levels, ..*operation })?;
        let rows = window.tiles.rows();
        let progress = Progress { has_tables: vec![false; rows], uppermost: 0, equalized: BTreeSet::new() };
        Some(Self {
            window,
            layout: *layout,
            levels,
            seen: Mutex::default(),
            clippings: Mutex::default(),
            rows: (0..rows).map(|_| Mutex::new(Row::Uncounted)).collect(),
            progress: Mutex::new(progress),
        })
    }

    /// Returns whether a band of this kind may belong to the picture. Bands may differ in alpha, as
    /// only some have pixels that do not count.
    pub(crate) fn is_of(&self, layout: &Layout, levels: Levels) -> bool {
        let are_of_a_kind = Kind::of(&self.layout, levels) == Kind::of(layout, levels);
        self.layout.width == layout.width && self.levels == levels && are_of_a_kind
    }

    /// Records the levels of a band and how often they occur. All bands have to be examined before
    /// any is counted.
    pub(crate) fn look(&self, band: u32, pixel: Pixel, pixels: &[u8]) {
        let Window { tiles, bands } = &self.window;
        let tiles = tiles.with_pixel(pixel);
        let occurs =
            if tiles.needs_levels() { tiles.levels_in(pixels, bands.rows(band)) } else { Vec::new() };
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.occurs.resize(occurs.len().div_ceil(8), 0);
        for (bits, occurs) in seen.occurs.iter_mut().zip(occurs.chunks(8)) {
            *bits |= occurs.iter().rev().fold(0, |bits, &occurs| bits << 1 | u8::from(occurs));
        }
        if tiles.exposed_counts() > 0 {
            seen.counts.resize(tiles.exposed_counts(), 0);
            tiles.count_exposed(pixels, bands.rows(band), &mut seen.counts);
        }
        seen.bands += 1;
        let is_last = seen.bands == bands.count();
        drop(seen);
        // Reduced early, as counts take much memory, and other pictures of the file may be examined
        // before this one is counted.
        if is_last {
            self.clippings();
        }
    }

    /// Counts a band, and makes the tables of the rows of tiles that it completes.
    pub(crate) fn count(&self, band: u32, pixel: Pixel, pixels: &[u8]) {
        let rows = self.window.bands.rows(band);
        for row in self.window.tiles.counted_in(rows.clone()) {
            if self.count_in(row, rows.clone(), pixel, pixels) {
                self.progress().has_tables[row] = true;
            }
        }
    }

    /// Counts rows of pixels in a row of tiles. Returns whether that completed its tables.
    fn count_in(&self, number: usize, rows: Range<u32>, pixel: Pixel, pixels: &[u8]) -> bool {
        let tiles = self.window.tiles.with_pixel(pixel);
        let mut row = self.row(number);
        let mut counts = match mem::replace(&mut *row, Row::Uncounted) {
            Row::Counted(counts) => counts,
            Row::Uncounted | Row::Tables(_) => tiles.no_counts(),
        };
        let is_complete = tiles.count(pixels, rows, number, &mut counts);
        *row = match is_complete {
            true => Row::Tables(Arc::new(tiles.tables(counts, &self.clippings()))),
            false => Row::Counted(counts),
        };
        is_complete
    }

    fn clippings(&self) -> Arc<Clippings> {
        let mut clippings = self.clippings.lock().unwrap_or_else(PoisonError::into_inner);
        let make = || {
            let seen = mem::take(&mut *self.seen.lock().unwrap_or_else(PoisonError::into_inner));
            let bits = seen.occurs.into_iter().flat_map(|bits| (0..8).map(move |bit| bits >> bit & 1 == 1));
            Arc::new(self.window.tiles.clippings(&bits.collect::<Vec<_>>(), &seen.counts))
        };
        Arc::clone(clippings.get_or_insert_with(make))
    }

    /// Returns whether a band may be counted yet.
    pub(crate) fn may_be_counted(&self, band: u32) -> bool {
        band <= self.window.last_counted(self.progress().uppermost)
    }

    /// Returns whether all bands are equalized.
    pub(crate) fn are_through(&self) -> bool {
        self.progress().uppermost == self.window.bands.count()
    }

    /// Returns whether all tables that a band needs are there.
    pub(crate) fn may_be_equalized(&self, band: u32) -> bool {
        let used = self.window.tiles.used_by(self.window.bands.rows(band));
        self.progress().has_tables[used].iter().all(|has_tables| *has_tables)
    }

    /// Equalizes a band that has its tables. Once the bands above it are equalized too, tables
    /// without further use are dropped.
    ///
    /// # Panics
    /// If its tables are missing: it would be written unchanged.
    pub(crate) fn equalize(&self, band: u32, pixel: Pixel, pixels: &mut [u8]) {
        let rows = self.window.bands.rows(band);
        let used = self.window.tiles.used_by(rows.clone());
        let tables = used.clone().map(|row| self.tables(row).expect("a band waits for its tables"));
        let tables: Vec<_> = tables.collect();
        let tiles = self.window.tiles.with_pixel(pixel);
        tiles.equalize(pixels, rows, &self.clippings(), |row| &tables[row - used.start]);
        drop(tables);
        self.drop_tables(self.note_equalized(band));
    }

    /// Returns the tables of a row of tiles.
    fn tables(&self, row: usize) -> Option<Arc<RowTables>> {
        match &*self.row(row) {
            Row::Tables(tables) => Some(Arc::clone(tables)),
            Row::Uncounted | Row::Counted(_) => None,
        }
    }

    /// Records that a band is equalized. Returns the rows of tiles that have become unnecessary.
    fn note_equalized(&self, band: u32) -> Range<usize> {
        let Window { tiles, bands } = &self.window;
        let first_used = |band: u32| {
            if band < bands.count() { tiles.used_by(bands.rows(band)).start } else { tiles.rows() }
        };
        let mut progress = self.progress();
        let before = first_used(progress.uppermost);
        progress.equalized.insert(band);
        while let uppermost = progress.uppermost
            && progress.equalized.remove(&uppermost)
        {
            progress.uppermost += 1;
        }
        if progress.uppermost == bands.count() {
            *self.clippings.lock().unwrap_or_else(PoisonError::into_inner) = None;
        }
        before..first_used(progress.uppermost)
    }

    fn drop_tables(&self, rows: Range<usize>) {
        rows.for_each(|row| *self.row(row) = Row::Uncounted);
    }

    fn row(&self, number: usize) -> MutexGuard<'_, Row> {
        self.rows[number].lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn progress(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use equalize::{Clahe, ClipLimit, Depth, Method, Scratch, Tiles, equalize};

    /// Returns a number below `bound`.
    fn below(state: &mut u64, bound: usize) -> usize {
        *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (*state >> 33) as usize % bound
    }

    /// Counts and equalizes the bands of a picture in any allowed order, and checks the bound on
    /// rows of tiles.
    fn equalized_in_bands(
        mut pixels: Vec<u8>,
        layout: &Layout,
        each: u32,
        operation: &Operation,
        seed: &mut u64,
    ) -> Vec<u8> {
        let bands = Bands { height: layout.height, each };
        let tiles = BandTiles::new(layout, Levels::All, bands, operation).unwrap();
        let [most_tables, most_counts] = tiles.window.most_rows();
        let row = pixels.len() / layout.height as usize;
        let place = |band: u32| {
            let Range { start, end } = bands.rows(band);
            start as usize * row..end as usize * row
        };
        let (mut to_count, mut to_equalize): (Vec<u32>, Vec<u32>) =
            ((0..bands.count()).collect(), Vec::new());
        while !(to_count.is_empty() && to_equalize.is_empty()) {
            let countable = to_count.iter().filter(|&&band| tiles.may_be_counted(band)).count();
            let ready: Vec<usize> =
                (0..to_equalize.len()).filter(|&at| tiles.may_be_equalized(to_equalize[at])).collect();
            assert!(countable + ready.len() > 0, "each waits for another");
            if ready.is_empty() || countable > 0 && below(seed, 2) == 0 {
                let band = to_count.remove(below(seed, countable));
                tiles.count(band, layout.pixel, &pixels[place(band)]);
                to_equalize.push(band);
            } else {
                let band = to_equalize.remove(ready[below(seed, ready.len())]);
                tiles.equalize(band, layout.pixel, &mut pixels[place(band)]);
            }
            let has = |is: fn(&Row) -> bool| tiles.rows.iter().filter(|row| is(&row.lock().unwrap())).count();
            assert!(has(|row| matches!(row, Row::Tables(_))) <= most_tables);
            assert!(has(|row| matches!(row, Row::Counted(_))) <= most_counts);
        }
        assert!(tiles.rows.iter().all(|row| matches!(*row.lock().unwrap(), Row::Uncounted)));
        pixels
    }

    #[test]
    fn bands_wait_for_others_never_for_ever_and_few_rows_of_tiles_are_there_at_a_time() {
        let mut seed = 58;
        for number in 0..400 {
            let [width, height] = [1 + below(&mut seed, 40) as u32, 1 + below(&mut seed, 200) as u32];
            let each = 1 + below(&mut seed, if number % 2 == 0 { 9 } else { 60 }) as u32;
            let layout = Layout { width, height, pixel: Pixel::Gray, depth: Depth::Eight };
            let tiles = match number % 3 {
                0 => Tiles::Grid { x: 2, y: 1 + below(&mut seed, 90) as u32 },
                _ => Tiles::Pixels(1 + below(&mut seed, 50) as u32),
            };
            let clahe = Clahe { clip_limit: ClipLimit::Times(3.0), tiles, noise: 0 };
            let operation = Operation::new(Method::Clahe(clahe));
            let pixels: Vec<u8> = (0..layout.bytes()).map(|_| below(&mut seed, 256) as u8).collect();
            let mut whole = pixels.clone();
            equalize(&mut whole, &layout, &operation, &mut Scratch::default());
            let found = equalized_in_bands(pixels, &layout, each, &operation, &mut seed);
            assert!(found == whole, "{layout:?} in bands of {each} rows, {tiles:?}");
        }
    }
}
