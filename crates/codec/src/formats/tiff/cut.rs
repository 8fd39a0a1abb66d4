//! The cut of a picture into bands, and the strips or tiles of a picture that is read in bands.

use crate::formats::tiff::compression::method::Method;
use crate::formats::tiff::read::header::Header;
use crate::formats::tiff::strips::{STRIP, Shape};
use crate::samples::size::Size;
use equalize::Layout;

/// The properties of a picture that decide on its cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CutShape {
    pub(super) width: u32,
    pub(super) height: u32,
    /// The rows that no band may divide.
    pub(super) together: u32,
}

impl CutShape {
    pub(super) fn of(header: &Header) -> Self {
        let (width, height) = (header.layout.width, header.file_rows);
        Self { width, height, together: rows_that_stay_together(header) }
    }
}

/// Returns the rows that no band may divide: those of tiles, or of strips in file and output.
fn rows_that_stay_together(header: &Header) -> u32 {
    match shape(header) {
        Shape::Tiles { height, .. } => height,
        Shape::Strips { rows } => rows,
    }
}

/// Returns the strips or tiles of a picture that is read in bands.
///
/// They are tiles of its own size, or strips of about the usual size.
pub(super) fn shape(header: &Header) -> Shape {
    let row = header.row_bytes(header.layout.width).max(1);
    let rows = if header.method == Method::Stored && !header.tiled { 1 } else { header.part.height };
    match header.tile_to_keep() {
        Some(Size { width, height }) => Shape::Tiles { width, height },
        None => Shape::Strips { rows: rows.saturating_mul((STRIP / row / rows as usize).max(1) as u32) },
    }
}

/// Returns the rows of a strip of a picture that did not come from a TIFF.
pub(crate) fn rows_of_strip(layout: &Layout) -> u32 {
    (STRIP as u64 / (u64::from(layout.width) * layout.pixel_bytes() as u64)).max(1) as u32
}
