//! The tiles of a TIFF that is written.

use crate::samples::size::Size;

/// A tile, some of which may lie beyond the edges of the picture.
#[derive(Clone, Copy)]
pub(super) struct Tile<'s> {
    /// The picture's rows in the tile, in their whole length.
    rows: &'s [u8],
    /// Bytes of such a row, of the part before the tile, and of a pixel.
    row: usize,
    before: usize,
    pixel: usize,
    /// Bytes of a row of the tile, and the number of rows.
    width: usize,
    height: usize,
}

impl Tile<'_> {
    /// Replaces the content of `into` by the samples of the tile.
    ///
    /// Beyond the edges, the last pixel of a row and the last row go on, which compresses well.
    pub(super) fn gather(&self, into: &mut Vec<u8>) {
        into.clear();
        for row in self.rows.chunks_exact(self.row) {
            let (end, own) = (into.len() + self.width, &row[self.before..]);
            into.extend_from_slice(&own[..own.len().min(self.width)]);
            while into.len() < end {
                into.extend_from_within(into.len() - self.pixel..);
            }
        }
        let last = into.len() - self.width..into.len();
        while into.len() < self.width * self.height {
            into.extend_from_within(last.clone());
        }
    }
}

/// Returns the tiles of rows of `row` bytes, of pixels of `pixel` bytes, row by row of tiles.
pub(super) fn tiles(pixels: &[u8], row: usize, pixel: usize, tile: Size) -> Vec<Tile<'_>> {
    let (width, height) = (tile.width as usize * pixel, tile.height as usize);
    let rows = pixels.chunks(height * row);
    let tiles = rows.flat_map(|rows| {
        (0..row).step_by(width).map(move |before| Tile { rows, row, before, pixel, width, height })
    });
    tiles.collect()
}
