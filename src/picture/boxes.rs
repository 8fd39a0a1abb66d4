//! The boxes that CLAHE divides a stack into, while its pages are counted and when they are equalized; or the tiles of a picture that is read in
//! bands, which are boxes of one page.

use std::mem;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use crate::picture::kind::Kind;
use codec::Pages;
use equalize::clahe::{BoxTables, Extent, Part, Volume};
use equalize::{Layout, Levels, Operation, Pixel};

/// What is divided into boxes.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Divided {
    /// A stack of so many pages.
    Pages(usize),
    /// A picture of so many rows, in bands.
    Bands { height: u32 },
}

impl Divided {
    pub(crate) fn of(pages: &Pages) -> Self {
        match pages.height_of_bands() {
            Some(height) => Self::Bands { height },
            None => Self::Pages(pages.len()),
        }
    }

    /// Returns the boxes, if the operation has any; `layout` is that of a page or band.
    pub(crate) fn volume(self, layout: &Layout, operation: &Operation) -> Option<Volume> {
        match self {
            Self::Pages(pages) => Volume::new(layout, pages, operation),
            Self::Bands { height } => Volume::new(&Layout { height, ..*layout }, 1, operation),
        }
    }
}

/// The boxes of a stack. Its pages may be counted by several threads at once.
#[derive(Debug)]
pub struct StackBoxes {
    volume: Volume,
    layout: Layout,
    levels: Levels,
    /// The counts of each row of boxes, until there are tables.
    rows: Vec<Mutex<Vec<u32>>>,
    tables: OnceLock<BoxTables>,
}

impl StackBoxes {
    /// Returns the boxes of pages or bands of one kind; `None` if the operation has none for them.
    pub(crate) fn new(
        layout: &Layout,
        levels: Levels,
        divided: Divided,
        operation: &Operation,
    ) -> Option<Self> {
        let volume = divided.volume(layout, &Operation { levels, ..*operation })?;
        let rows = (0..volume.rows()).map(|_| Mutex::new(vec![0; volume.row_counts()])).collect();
        Some(Self { volume, layout: *layout, levels, rows, tables: OnceLock::new() })
    }

    /// Returns whether pages of this kind are those of the stack. Bands differ in their rows, and all of them may have alpha or not, as they have
    /// pixels that do not count.
    pub(crate) fn is_of(&self, layout: &Layout, levels: Levels, divided: Divided) -> bool {
        let height = match divided {
            Divided::Pages(_) => layout.height,
            Divided::Bands { .. } => self.layout.height,
        };
        let is_as_large = (self.layout.width, self.layout.height) == (layout.width, height);
        is_as_large && self.levels == levels && Kind::of(&self.layout, levels) == Kind::of(layout, levels)
    }

    /// Counts a page or band. Each begins at another row of boxes, so that threads do not wait for each other.
    pub(crate) fn count(&self, extent: Extent, pixel: Pixel, pixels: &[u8]) {
        let volume = self.volume.with_pixel(pixel);
        let mut parts: Vec<Part> = volume.parts(extent).collect();
        let first = (extent.page + extent.first_row as usize) % parts.len().max(1);
        parts.rotate_left(first);
        for part in parts {
            volume.count(pixels, extent, part, &mut self.row(part.row));
        }
    }

    /// Makes the tables, once all pages are counted.
    pub(crate) fn make_tables(&self) {
        self.tables.get_or_init(|| {
            let rows: Vec<_> = (0..self.rows.len()).map(|row| mem::take(&mut *self.row(row))).collect();
            self.volume.tables(&rows)
        });
    }

    /// Equalizes a page or band, if there are tables.
    pub(crate) fn equalize(&self, extent: Extent, pixel: Pixel, pixels: &mut [u8]) {
        if let Some(tables) = self.tables.get() {
            self.volume.with_pixel(pixel).equalize(extent, pixels, tables);
        }
    }

    fn row(&self, number: usize) -> MutexGuard<'_, Vec<u32>> {
        self.rows[number].lock().unwrap_or_else(PoisonError::into_inner)
    }
}
