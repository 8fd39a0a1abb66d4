//! The boxes that CLAHE divides a stack into, while its pages are counted and when they are equalized.

use std::mem;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use equalize::clahe::{BoxTables, Part, Volume};
use equalize::{Layout, Levels, Operation};

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
    /// Returns the boxes of a stack of pages of one kind; `None` if the operation has none for it.
    pub(crate) fn new(layout: &Layout, levels: Levels, pages: usize, operation: &Operation) -> Option<Self> {
        let volume = Volume::new(layout, pages, &Operation { levels, ..*operation })?;
        let rows = (0..volume.rows()).map(|_| Mutex::new(vec![0; volume.row_counts()])).collect();
        Some(Self { volume, layout: *layout, levels, rows, tables: OnceLock::new() })
    }

    /// Returns whether pages of this kind are those of the stack.
    pub(crate) fn is_of(&self, layout: &Layout, levels: Levels) -> bool {
        self.layout == *layout && self.levels == levels
    }

    /// Counts a page. Each begins at another row of boxes, so that threads do not wait for each other.
    pub(crate) fn count(&self, page: usize, pixels: &[u8]) {
        let mut parts: Vec<Part> = self.volume.parts(page).collect();
        let first = page % parts.len().max(1);
        parts.rotate_left(first);
        for part in parts {
            self.volume.count(pixels, part, &mut self.row(part.row));
        }
    }

    /// Makes the tables, once all pages are counted.
    pub(crate) fn make_tables(&self) {
        self.tables.get_or_init(|| {
            let rows: Vec<_> = (0..self.rows.len()).map(|row| mem::take(&mut *self.row(row))).collect();
            self.volume.tables(&rows)
        });
    }

    /// Equalizes a page, if there are tables.
    pub(crate) fn equalize(&self, page: usize, pixels: &mut [u8]) {
        if let Some(tables) = self.tables.get() {
            self.volume.equalize_page(page, pixels, tables);
        }
    }

    fn row(&self, number: usize) -> MutexGuard<'_, Vec<u32>> {
        self.rows[number].lock().unwrap_or_else(PoisonError::into_inner)
    }
}
