//! A TIFF's picture that is too large to be in memory as a whole: it is read in bands of rows, which are written like the pages of a stack, but
//! make one picture again.

use std::sync::Arc;

use super::channels::Channels;
use super::header::Header;
use super::method::Method;
use super::pyramid::Pyramid;
use super::stack::{Part, Place};
use super::strips::{STRIP, Shape};
use super::values::FirstPage;
use super::writer::Writer;
use crate::bands::{BandRows, Cut};
use crate::mapped::SharedSpread;
use equalize::Layout;

/// The bands of a picture, from top to bottom.
#[derive(Debug)]
pub(crate) struct Bands {
    directory: u64,
    first_page: FirstPage,
    big: bool,
    pub(crate) rows: BandRows,
    pyramid: Pyramid,
    /// How levels are spread over all of them, if samples are no levels.
    spread: Arc<SharedSpread>,
}

impl Bands {
    /// Returns the bands of a picture, whose directory is at an offset, if it is large enough for that and can
    /// be cut: a strip or tile that is compressed is decoded as a whole.
    pub(super) fn of(
        (header, pyramid): (&Header, &Pyramid),
        directory: u64,
        first_page: FirstPage,
        cut: Cut,
    ) -> Option<Self> {
        let kept = header.mapped().map_or(0, |form| form.kept_bytes(header.layout.pixels()));
        let bytes = header.layout.bytes().saturating_add(header.other_bytes()).saturating_add(kept);
        if header.is_one_stream {
            return None;
        }
        let sides = (header.layout.width, header.file_rows);
        let rows = cut.rows(sides, bytes, rows_that_stay_together(header))?;
        let (pyramid, spread) = (pyramid.clone(), Arc::default());
        Some(Self { directory, first_page, big: header.form.big, rows, pyramid, spread })
    }

    /// Returns where a band is.
    pub(crate) fn place(&self, index: usize) -> Place {
        let (first, count) = (self.rows.first_row(index), self.rows.rows(index));
        let part = Part::Rows { first, count, spread: Arc::clone(&self.spread) };
        let &Self { directory, first_page, .. } = self;
        Place { directory, part, channel: 0, channels: Channels::ONE, first_page }
    }

    /// Returns what makes one picture of the bands.
    pub(crate) fn writer(&self) -> Writer {
        Writer::of_bands(self.rows, &self.pyramid, self.big)
    }
}

/// Returns the rows that no band may divide: of whole tiles, or whole strips of the file and of the output.
fn rows_that_stay_together(header: &Header) -> u32 {
    match shape(header) {
        Shape::Tiles { height, .. } => height,
        Shape::Strips { rows } => rows,
    }
}

/// Returns how a picture of which bands are read is written: in tiles of the size that it has, or in strips of about the usual size.
pub(super) fn shape(header: &Header) -> Shape {
    let row = header.row_bytes(header.layout.width).max(1);
    let rows = if header.method == Method::Stored && !header.tiled { 1 } else { header.part.1 };
    match header.tile_to_keep() {
        Some((width, height)) => Shape::Tiles { width, height },
        None => Shape::Strips { rows: rows.saturating_mul((STRIP / row / rows as usize).max(1) as u32) },
    }
}

/// Returns the rows of a strip of a picture that did not come from a TIFF.
pub(crate) fn rows_of_strip(layout: &Layout) -> u32 {
    (STRIP as u64 / (u64::from(layout.width) * layout.pixel_bytes() as u64)).max(1) as u32
}
