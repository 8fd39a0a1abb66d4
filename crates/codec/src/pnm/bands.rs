//! The bands of a picture too large for memory, written to their places as they come.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::super::{CodecError, Decoded};
use super::{header_of, stored};
use crate::bands::BandRows;
use equalize::Layout;

/// The bands of a binary PNM.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bands {
    pub(crate) rows: BandRows,
}

/// The place of a band.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub(super) first: u32,
    pub(super) count: u32,
}

impl Bands {
    pub(crate) fn place(&self, index: usize) -> Place {
        Place { first: self.rows.first_row(index), count: self.rows.rows(index) }
    }
}

/// Writes the bands of a picture, in any order, from any number of threads.
#[derive(Debug)]
pub(crate) struct Writer {
    rows: BandRows,
    /// The number of bands that are written.
    written: AtomicUsize,
}

impl Writer {
    pub(crate) fn new(rows: BandRows) -> Self {
        Self { rows, written: AtomicUsize::new(0) }
    }

    /// Writes a band to its place in an empty file.
    ///
    /// Returns the bytes of the file once it is complete.
    pub(crate) fn write(
        &self,
        index: usize,
        decoded: &Decoded,
        slot: &mut [u8],
        out: &File,
    ) -> Result<Option<u64>, CodecError> {
        let layout = decoded.layout;
        let whole = Layout { height: self.rows.height(), ..layout };
        let header = header_of(decoded, &whole);
        if index == 0 {
            out.write_all_at(header.as_bytes(), 0)?;
        }
        let row = u64::from(layout.width) * layout.pixel_bytes() as u64;
        let at = header.len() as u64 + u64::from(self.rows.first_row(index)) * row;
        out.write_all_at(stored(decoded, slot), at)?;
        let written = self.written.fetch_add(1, Ordering::AcqRel) + 1;
        Ok((written == self.rows.count()).then(|| header.len() as u64 + whole.bytes()))
    }
}
