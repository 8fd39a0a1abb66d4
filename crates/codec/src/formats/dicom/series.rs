//! The place of a file in a series.

use std::fs::File;

use super::data::Data;
use super::dataset::DataSet;
use super::items::Scope;
use super::transfer::Transfer;
use super::{encoding, meta, start, tags};
use crate::io::budget::Budget;
use crate::io::reader::Reader;
use crate::parts::slice::Plane;
use crate::parts::slice::Slice;
use crate::{CodecError, Limits, Object};

/// Returns the place of a file in a series, as a slice.
pub(crate) fn slice_of(
    file: &mut File,
    buffer: &mut Vec<u8>,
    limits: &Limits,
    budget: &mut dyn Budget,
) -> Result<Option<Slice>, CodecError> {
    let start = start(buffer);
    let mut data = Data::new(Reader::new(file, buffer, limits, budget)?);
    let (start, uid) = meta(&mut data, start as u64)?;
    let transfer = uid.as_deref().map_or(Ok(Transfer::UNKNOWN), Transfer::of)?;
    if transfer.deflated {
        data.inflate(start, limits, budget)?;
    }
    let encoding = encoding(&mut data, start, transfer)?;
    let set = DataSet::read(&mut data, start, encoding, budget)?;
    Ok(position_of(&set))
}

/// Returns the place of a data set in a series; `None` if it has no series, or is not a picture.
fn position_of(set: &DataSet) -> Option<Slice> {
    let object = set.text(tags::SOP_CLASS).and_then(Object::of_class);
    if set.pixels.is_none() || object.is_some_and(|object| object != Object::Segmentation) {
        return None;
    }
    Some(Slice {
        series: set.text(tags::SERIES_INSTANCE)?.to_owned(),
        has_frames: set.text(tags::FRAMES).is_some_and(|frames| frames.parse::<u32>().is_ok_and(|n| n > 1)),
        plane: Plane {
            position: Scope::Whole(set).coordinates(tags::POSITION),
            orientation: Scope::Whole(set).coordinates(tags::ORIENTATION),
        },
        number: Scope::Whole(set).number(tags::INSTANCE_NUMBER),
    })
}
