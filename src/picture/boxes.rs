//! The boxes that CLAHE divides a volume into, while its slices are counted and when they are equalized: pages of a file, or files.

use std::ffi::OsStr;
use std::mem;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use crate::picture::band_tiles::{self, Bands};
use crate::picture::kind::Kind;
use codec::{Pages, Volumes};
use equalize::clahe::{BoxTables, Extent, Part, Volume};
use equalize::{Layout, Levels, Operation, Pixel};

/// What is divided into boxes.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Divided {
    /// A volume of so many slices.
    Slices {
        /// How many there are.
        count: usize,
        /// How many such volumes of a file have begun and not ended at most.
        at_once: usize,
    },
    /// A picture in bands, whose tiles are boxes of one page ([`band_tiles`]).
    Bands(Bands),
}

impl Divided {
    /// A picture by itself.
    pub(crate) const ONE: Self = Self::Slices { count: 1, at_once: 1 };

    /// Returns what a page or band is a part of, given the volumes of its file.
    pub(crate) fn of(pages: &Pages, volumes: Option<&Volumes>, page: usize) -> Self {
        match (Bands::of(pages), volumes) {
            (Some(bands), _) => Self::Bands(bands),
            (None, Some(volumes)) => {
                Self::Slices { count: volumes.slice(page).of, at_once: volumes.at_once() }
            }
            (None, None) => Self::ONE,
        }
    }

    /// Returns the boxes, if the operation has any; `layout` is that of a slice or band.
    pub(crate) fn volume(self, layout: &Layout, operation: &Operation) -> Option<Volume> {
        match self {
            Self::Slices { count, .. } => Volume::new(layout, count, operation),
            Self::Bands(Bands { height, .. }) => Volume::new(&Layout { height, ..*layout }, 1, operation),
        }
    }

    /// Returns the bytes of the counts and tables of all boxes that there are at once, if the operation has any.
    pub(crate) fn table_bytes(self, layout: &Layout, operation: &Operation) -> u64 {
        match self {
            Self::Slices { at_once, .. } => {
                let bytes = self.volume(layout, operation).map_or(0, |boxes| boxes.table_bytes());
                bytes.saturating_mul(at_once as u64)
            }
            Self::Bands(bands) => band_tiles::table_bytes(layout, bands, operation).unwrap_or(0),
        }
    }
}

/// The slice that a picture is of what is divided.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BoxPart<'b> {
    pub(crate) divided: Divided,
    pub(crate) boxes: &'b CountedBoxes,
    /// The number of the slice.
    pub(crate) slice: usize,
}

impl BoxPart<'_> {
    /// Returns where the pixels of a picture of this layout lie.
    pub(crate) fn extent(&self, layout: &Layout) -> Extent {
        Extent { page: self.slice, first_row: 0, rows: layout.height }
    }
}

/// The boxes of a volume, from the first of its slices that is counted until there are tables.
#[derive(Debug, Default)]
pub(crate) struct CountedBoxes(Mutex<Option<Arc<StackBoxes>>>);

impl CountedBoxes {
    /// Returns the boxes. The slice that is counted first makes them.
    pub(crate) fn get_or(&self, make: impl FnOnce() -> Option<StackBoxes>) -> Option<Arc<StackBoxes>> {
        let mut boxes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if boxes.is_none() {
            *boxes = make().map(Arc::new);
        }
        boxes.clone()
    }

    /// Takes the boxes, of which all slices have been counted, so that they are gone when those are equalized.
    pub(crate) fn take(&self) -> Option<Arc<StackBoxes>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// What tells volumes of several files from each other: the folder that the files lie in, unless that does not matter, and their series or group.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct VolumeName {
    pub(crate) folder: PathBuf,
    pub(crate) group: Arc<OsStr>,
}

/// A volume each slice of which is a file.
#[derive(Debug)]
pub(crate) struct FileVolume {
    pub(crate) name: VolumeName,
    /// How many slices it has.
    pub(crate) slices: usize,
    pub(crate) boxes: CountedBoxes,
}

/// Which slice of which volume a file is.
#[derive(Clone, Debug)]
pub struct FileSlice {
    pub(crate) volume: Arc<FileVolume>,
    pub(crate) index: usize,
}

impl FileSlice {
    pub(crate) fn part(&self) -> BoxPart<'_> {
        let divided = Divided::Slices { count: self.volume.slices, at_once: 1 };
        BoxPart { divided, boxes: &self.volume.boxes, slice: self.index }
    }
}

/// The boxes of a volume. Its slices may be counted by several threads at once.
#[derive(Debug)]
pub struct StackBoxes {
    /// The file of the slice that was counted first.
    first: PathBuf,
    volume: Volume,
    layout: Layout,
    levels: Levels,
    /// The counts of each row of boxes, until there are tables.
    rows: Vec<Mutex<Vec<u32>>>,
    /// The counts that exposure follows from, as long.
    exposed: Mutex<Vec<u64>>,
    tables: OnceLock<BoxTables>,
}

impl StackBoxes {
    /// Returns the boxes of slices of one kind, that of the first, which is of this file; `None` if the operation has none for them.
    pub(crate) fn new(
        first: &Path,
        layout: &Layout,
        levels: Levels,
        divided: Divided,
        operation: &Operation,
    ) -> Option<Self> {
        let volume = divided.volume(layout, &Operation { levels, ..*operation })?;
        let rows = (0..volume.rows()).map(|_| Mutex::new(vec![0; volume.row_counts()])).collect();
        let exposed = Mutex::new(vec![0; volume.exposed_counts()]);
        let (first, tables) = (first.to_owned(), OnceLock::new());
        Some(Self { first, volume, layout: *layout, levels, rows, exposed, tables })
    }

    /// Returns the file of the slice that was counted first, and the kind of all slices.
    pub(crate) fn first(&self) -> (&Path, &Layout, Levels) {
        (&self.first, &self.layout, self.levels)
    }

    /// Returns whether slices of this kind are those of the volume. All of them may have alpha or not, as they have pixels that do not count.
    pub(crate) fn is_of(&self, layout: &Layout, levels: Levels) -> bool {
        let is_as_large = (self.layout.width, self.layout.height) == (layout.width, layout.height);
        is_as_large && self.levels == levels && Kind::of(&self.layout, levels) == Kind::of(layout, levels)
    }

    /// Counts a slice. Each begins at another row of boxes, so that threads do not wait for each other.
    pub(crate) fn count(&self, extent: Extent, pixel: Pixel, pixels: &[u8]) {
        let volume = self.volume.with_pixel(pixel);
        if volume.exposed_counts() > 0 {
            volume.count_exposed(pixels, extent, &mut self.exposed());
        }
        let mut parts: Vec<Part> = volume.parts(extent).collect();
        let first = extent.page % parts.len().max(1);
        parts.rotate_left(first);
        for part in parts {
            volume.count(pixels, extent, part, &mut self.row(part.row));
        }
    }

    /// Makes the tables, once all slices are counted.
    pub(crate) fn make_tables(&self) {
        self.tables.get_or_init(|| {
            let rows: Vec<_> = (0..self.rows.len()).map(|row| mem::take(&mut *self.row(row))).collect();
            self.volume.tables(&rows, &mem::take(&mut *self.exposed()))
        });
    }

    /// Equalizes a slice, if there are tables.
    pub(crate) fn equalize(&self, extent: Extent, pixel: Pixel, pixels: &mut [u8]) {
        if let Some(tables) = self.tables.get() {
            self.volume.with_pixel(pixel).equalize(extent, pixels, tables);
        }
    }

    fn exposed(&self) -> MutexGuard<'_, Vec<u64>> {
        self.exposed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn row(&self, number: usize) -> MutexGuard<'_, Vec<u32>> {
        self.rows[number].lock().unwrap_or_else(PoisonError::into_inner)
    }
}
