//! Opening of a TIFF, of one of its pages, or of a band.

use crate::formats::tiff::{Selection, Source};
use crate::parts::opening::{Found, Header, Opening};
use crate::parts::pages::Place;
use crate::{CodecError, Format};

/// Opens a file.
pub(crate) fn open<'a, 'o>(opening: Opening<'a, 'o>) -> Result<Found<'a, 'o>, CodecError> {
    let cut = opening.cut(Format::Tiff);
    let Opening { file, buffer, limits, budget, target, place } = opening;
    let (no_data, keeps_overviews) = (target.no_data, target.overviews);
    let selection = Selection { place: place.and_then(Place::into), no_data, cut, keeps_overviews };
    let mut source = Source::open(file, buffer, limits, budget, selection)?;
    Ok(Found::Header(match source.take_bands() {
        Some(bands) => Header::of(source).with_pages(Some(bands)),
        None => {
            let pages = source.take_pages();
            Header::of(source).with_pages(pages)
        }
    }))
}
