//! The bands of a picture too large for memory, written to their places as they come.

use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::{Source, header_of, stored};
use crate::parts::bands::BandRows;
use crate::parts::opening::{Found, Header, Opening, rows_together};
use crate::parts::pages::{self, PageOutput, PageSink, PageSource};
use crate::picture::decode::Describe;
use crate::{CodecError, Decoded, Format};
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

impl PageSource for Bands {
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

/// Opens a file, or a band of it.
pub(crate) fn open<'a, 'o>(opening: Opening<'a, 'o>) -> Result<Found<'a, 'o>, CodecError> {
    let cut = opening.cut(Format::Pnm);
    let Opening { file, buffer, limits, budget, target, place } = opening;
    let place = place.and_then(pages::Place::into::<Place>);
    let source = Source::open(file, buffer, limits, budget)?;
    let unit = rows_together(source.layout(), false, Format::Pnm, target);
    let bands = if place.is_none() { source.bands(unit, cut) } else { None };
    let source = match place.or_else(|| bands.map(|bands| bands.place(0))) {
        Some(place) => source.narrow(place),
        None => source,
    };
    Ok(Found::Header(Header::of(source).with_pages(bands)))
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
}

impl PageSink for Writer {
    /// Writes a band to its place in an empty file.
    fn write(
        &self,
        index: usize,
        decoded: &Decoded,
        slot: &mut [u8],
        to: PageOutput<'_>,
    ) -> Result<Option<u64>, CodecError> {
        let out = to.file(decoded)?;
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
