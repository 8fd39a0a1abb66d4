//! The bands of a picture too large for memory.

use std::fs::File;
use std::os::unix::fs::FileExt;

use super::{Source, header_of, stored};
use crate::parts::banded::BandPlace;
use crate::parts::bands::BandRows;
use crate::parts::opening::{Found, Header, Opening, rows_together};
use crate::parts::pages;
use crate::{CodecError, Decoded, Format};
use equalize::Layout;

/// The place of a band of a binary PNM.
pub(super) type Place = BandPlace<()>;

/// Opens a file, or a band of it.
pub(crate) fn open<'a, 'o>(opening: Opening<'a, 'o>) -> Result<Found<'a, 'o>, CodecError> {
    let cut = opening.cut(Format::Pnm);
    let Opening { file, buffer, limits, budget, target, place } = opening;
    let place = place.and_then(pages::Place::into::<Place>);
    let source = Source::open(file, buffer, limits, budget)?;
    let unit = rows_together(source.layout(), false, Format::Pnm, target);
    let bands = if place.is_none() { source.bands(unit, cut) } else { None };
    let source = match place.or_else(|| bands.as_ref().map(|bands| bands.place(0))) {
        Some(place) => source.narrow(place),
        None => source,
    };
    Ok(Found::Header(Header::of(source).with_pages(bands)))
}

/// Writes a band to its place in an empty file; returns the bytes of the whole file.
pub(crate) fn write_band(
    rows: &BandRows,
    index: usize,
    decoded: &Decoded,
    slot: &mut [u8],
    out: &File,
) -> Result<u64, CodecError> {
    let layout = decoded.layout;
    let whole = Layout { height: rows.height(), ..layout };
    let header = header_of(decoded, &whole);
    if index == 0 {
        out.write_all_at(header.as_bytes(), 0)?;
    }
    let row = u64::from(layout.width) * layout.pixel_bytes() as u64;
    let at = header.len() as u64 + u64::from(rows.first_row(index)) * row;
    out.write_all_at(stored(decoded, slot), at)?;
    Ok(header.len() as u64 + whole.bytes())
}
