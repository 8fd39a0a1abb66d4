//! The boxes that CLAHE divides a volume into, while its slices are counted and equalized. Slices
//! are the pages of a file, or files.

use std::ffi::OsStr;
use std::mem;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use crate::picture::band_tiles::{self, Bands};
use crate::picture::kind::Kind;
use codec::pages::Pages;
use codec::volumes::Volumes;
use equalize::clahe::{BoxTables, Extent, Part, Volume};
use equalize::{Layout, Levels, Operation, Pixel};

/// An object to divide into boxes.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Divided {
    /// A volume of slices.
    Slices {
        /// The number of slices.
        count: usize,
        /// The most volumes of a file that are begun and not finished at a time.
        at_once: usize,
    },
    /// A picture in bands, whose tiles are boxes of one page ([`band_tiles`]).
    Bands(Bands),
}

impl Divided {
    /// A picture by itself.
    pub(crate) const ONE: Self = Self::Slices { count: 1, at_once: 1 };

    /// Returns the object that a page or band belongs to, given the volumes of its file.
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

    /// Returns the bytes of the counts and tables of all boxes that exist at once; 0 if the
    /// operation has no boxes.
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

/// A picture as a slice of an object that is divided into boxes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BoxPart<'b> {
    pub(crate) divided: Divided,
    pub(crate) boxes: &'b CountedBoxes,
    /// The number of the slice.
    pub(crate) slice: usize,
}

impl BoxPart<'_> {
    /// Returns the position of the pixels of a picture of this layout.
    pub(crate) fn extent(&self, layout: &Layout) -> Extent {
        Extent { page: self.slice, first_row: 0, rows: layout.height }
    }
}

/// The boxes of a volume, from the counting of its first slice until their tables are complete.
#[derive(Debug, Default)]
pub(crate) struct CountedBoxes(Mutex<Option<Arc<StackBoxes>>>);

impl CountedBoxes {
    /// Returns the boxes. The first slice to be counted makes them.
    pub(crate) fn get_or(&self, make: impl FnOnce() -> Option<StackBoxes>) -> Option<Arc<StackBoxes>> {
        let mut boxes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if boxes.is_none() {
            *boxes = make().map(Arc::new);
        }
        boxes.clone()
    }

    /// Takes the boxes once all slices have been counted. They are then freed when the slices are
    /// equalized.
    pub(crate) fn take(&self) -> Option<Arc<StackBoxes>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// The identity of a volume of several files: their folder, unless that does not matter, and their
/// series or group.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct VolumeName {
    pub(crate) folder: PathBuf,
    pub(crate) group: Arc<OsStr>,
}

/// A volume with a file for each slice.
#[derive(Debug)]
pub(crate) struct FileVolume {
    pub(crate) name: VolumeName,
    /// The number of slices.
    pub(crate) slices: usize,
    pub(crate) boxes: CountedBoxes,
}

/// A file as a slice of a volume.
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
    /// The counts of each row of boxes, until the tables are complete.
    rows: Vec<Mutex<Vec<u32>>>,
    /// The counts to derive the exposure from, until then.
    exposed: Mutex<Vec<u64>>,
    tables: OnceLock<BoxTables>,
}

impl StackBoxes {
    /// Returns the boxes of slices of one kind, that of the first, which is from this file; `None`
    /// if the operation has no boxes for them.
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

    /// Returns whether slices of this kind belong to the volume. They may differ in alpha, as only
    /// some have pixels that do not count.
    pub(crate) fn is_of(&self, layout: &Layout, levels: Levels) -> bool {
        let is_as_large = (self.layout.width, self.layout.height) == (layout.width, layout.height);
        is_as_large && self.levels == levels && Kind::of(&self.layout, levels) == Kind::of(layout, levels)
    }

    /// Counts a slice. Each starts at another row of boxes, which keeps threads from waiting for
    /// each other.
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

    /// Equalizes a slice, if the tables are complete.
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
