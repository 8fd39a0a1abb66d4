//! A picture that is too large to be in memory as a whole: it is read in bands of rows, which are written like the pages of a stack, but
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
use crate::mapped::SharedSpread;

/// The bands of a picture, from top to bottom.
#[derive(Debug)]
pub(crate) struct Bands {
    directory: u64,
    first_page: FirstPage,
    big: bool,
    /// The rows of the picture.
    height: u32,
    /// The rows of every band but the last.
    rows: u32,
    pyramid: Pyramid,
    /// How levels are spread over all of them, if samples are no levels.
    spread: Arc<SharedSpread>,
}

impl Bands {
    /// Returns the bands of a picture, whose directory is at an offset, if more than `most` bytes of pixels are too many at once, and if it can
    /// be cut: a strip or tile that is compressed is decoded as a whole.
    pub(super) fn of(
        (header, pyramid): (&Header, &Pyramid),
        directory: u64,
        first_page: FirstPage,
        most: u64,
    ) -> Option<Self> {
        let height = header.file_rows;
        let kept = header.mapped().map_or(0, |form| form.kept_bytes(header.layout.pixels()));
        let bytes = header.layout.bytes().saturating_add(header.other_bytes()).saturating_add(kept);
        if bytes <= most || header.is_one_stream {
            return None;
        }
        let row = (bytes / u64::from(height)).max(1);
        let unit = u64::from(rows_that_stay_together(header));
        let rows = (most / SHARE / row / unit).max(1).saturating_mul(unit);
        let rows = u32::try_from(rows).ok().filter(|&rows| rows < height)?;
        let (pyramid, spread) = (pyramid.clone(), Arc::default());
        Some(Self { directory, first_page, big: header.form.big, height, rows, pyramid, spread })
    }

    /// Returns the number of bands, two or more.
    pub(crate) fn count(&self) -> usize {
        self.height.div_ceil(self.rows) as usize
    }

    /// Returns the rows of the picture.
    pub(crate) fn height(&self) -> u32 {
        self.height
    }

    /// Returns the number of the first row of a band.
    pub(crate) fn first_row(&self, index: usize) -> u32 {
        index as u32 * self.rows
    }

    /// Returns where a band is.
    pub(crate) fn place(&self, index: usize) -> Place {
        let first = self.first_row(index);
        let count = self.rows.min(self.height - first);
        let part = Part::Rows { first, count, spread: Arc::clone(&self.spread) };
        let &Self { directory, first_page, .. } = self;
        Place { directory, part, channel: 0, channels: Channels::ONE, first_page }
    }

    /// Returns what makes one picture of the bands.
    pub(crate) fn writer(&self) -> Writer {
        Writer::of_bands(self.count(), (self.height, self.rows), &self.pyramid, self.big)
    }
}

/// The part of what is too large that a band has: several are under way at once.
const SHARE: u64 = 4;

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
