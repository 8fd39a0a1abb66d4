//! Opening of a DICOM file, or of one of its frames.

use super::read;
use crate::CodecError;
use crate::parts::opening::{Found, Header, Opening};
use crate::parts::pages::Place;

/// Opens a file.
pub(crate) fn open<'a, 'o>(opening: Opening<'a, 'o>) -> Result<Found<'a, 'o>, CodecError> {
    let Opening { file, buffer, limits, budget, target, place } = opening;
    let (source, frames) = read(file, buffer, limits, budget, target, place.and_then(Place::into))?;
    Ok(Found::Header(Header { source, file_bytes: 0, pages: None }.with_pages(frames)))
}
