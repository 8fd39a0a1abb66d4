//! The bands of a picture, and their writer, which formats have in common.

use std::fmt::Debug;
use std::fs::File;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::bands::BandRows;
use super::pages::{self, PageOutput, PageSink, PageSource};
use crate::{CodecError, Decoded};

/// The bands of a picture, from top to bottom.
#[derive(Debug)]
pub(crate) struct Bands<P> {
    rows: BandRows,
    /// The description of the whole picture by its format.
    picture: Arc<P>,
}

/// The place of a band in its file.
#[derive(Debug)]
pub(crate) struct BandPlace<P> {
    /// The description of the whole picture by its format.
    pub(crate) picture: Arc<P>,
    pub(crate) index: usize,
    /// The number of its first row.
    pub(crate) first: u32,
    /// The number of its rows.
    pub(crate) count: u32,
}

impl<P> Bands<P> {
    pub(crate) fn new(rows: BandRows, picture: P) -> Self {
        Self { rows, picture: Arc::new(picture) }
    }

    /// Returns the place of a band.
    pub(crate) fn place(&self, index: usize) -> BandPlace<P> {
        let (first, count) = (self.rows.first_row(index), self.rows.rows(index));
        BandPlace { picture: Arc::clone(&self.picture), index, first, count }
    }
}

impl<P: Debug + Send + Sync + 'static> PageSource for Bands<P> {
    fn count(&self) -> usize {
        self.rows.count()
    }

    fn place_of(&self, index: usize) -> pages::Place {
        pages::Place::new(self.place(index))
    }

    fn pictures(&self) -> usize {
        1
    }

    fn bands(&self) -> Option<BandRows> {
        Some(self.rows)
    }

    fn are_numbered(&self) -> bool {
        false
    }
}

/// Writes a band to its place in an empty file; returns the bytes of the whole file.
pub(crate) type WriteBand = fn(&BandRows, usize, &Decoded, &mut [u8], &File) -> Result<u64, CodecError>;

/// Writes bands whose places are known before, in any order, from any number of threads.
#[derive(Debug)]
pub(crate) struct BandSink {
    rows: BandRows,
    write: WriteBand,
    /// The number of bands that are written.
    written: AtomicUsize,
}

impl BandSink {
    pub(crate) fn new(rows: BandRows, write: WriteBand) -> Self {
        Self { rows, write, written: AtomicUsize::new(0) }
    }
}

impl PageSink for BandSink {
    fn write(
        &self,
        index: usize,
        decoded: &Decoded,
        slot: &mut [u8],
        to: PageOutput<'_>,
    ) -> Result<Option<u64>, CodecError> {
        let bytes = (self.write)(&self.rows, index, decoded, slot, to.file(decoded)?)?;
        let written = self.written.fetch_add(1, Ordering::AcqRel) + 1;
        Ok((written == self.rows.count()).then_some(bytes))
    }
}
