//! The spread of levels over the values of a picture.

use std::sync::{Mutex, PoisonError};

use super::form::Form;
use super::mapping::Mapping;
use super::survey::InnerRange;
use super::to_levels::survey;
use super::{Rows, helpers};
use crate::io::cores::Cores;
use crate::samples::size::Size;
use crate::{CodecError, Range};

/// The spread of levels over the values of a picture.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spread {
    pub(super) mapping: Mapping,
    /// Whether it is over the picture's own range.
    pub(crate) has_own_range: bool,
    /// The range of nearly all values, if the others stretch the picture's own range.
    pub(crate) inner_range: Option<InnerRange>,
}

impl Spread {
    /// Returns that of a picture of so many pixels across and down, with all its rows.
    ///
    /// It is over the `range` if there is one, else over that of its values, which are read for it
    /// if their kind has no ends.
    pub(crate) fn of<R: Rows>(
        rows: &R,
        form: &Form,
        size: Size,
        range: Option<Range>,
        cores: &Cores,
    ) -> Result<Self, CodecError> {
        let top = form.top();
        let given = |mapping| Self { mapping, has_own_range: false, inner_range: None };
        Ok(match (form.ends, range) {
            (Some((low, high)), _) => given(Mapping::between(top, low, high)),
            (None, Some(range)) => given(Mapping::of_range(top, range)),
            (None, None) => {
                let alone = Cores::none();
                let cores = helpers(rows, size.width as usize * form.pixel_bytes(), cores, &alone);
                let layout = form.layout(size);
                let values = survey(rows, form, &layout, None, cores)?;
                let mapping = Mapping::of_extremes(top, values.extremes);
                let inner_range = match values.common_value() {
                    Some(fill) => {
                        let others = survey(rows, form, &layout, Some(fill), cores)?;
                        values.range_without(fill, others.extremes)
                    }
                    None => values.inner_range(),
                };
                Self { mapping, has_own_range: true, inner_range }
            }
        })
    }
}

/// The spread of levels over a picture that is decoded in bands.
///
/// The first band to be decoded finds it.
#[derive(Debug, Default)]
pub(crate) struct SharedSpread(Mutex<Option<Spread>>);

impl SharedSpread {
    /// Returns the spread; `find` finds it, while all others wait.
    pub(crate) fn get_or(
        &self,
        find: impl FnOnce() -> Result<Spread, CodecError>,
    ) -> Result<Spread, CodecError> {
        let mut spread = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let found = match *spread {
            Some(found) => found,
            None => find()?,
        };
        *spread = Some(found);
        Ok(found)
    }
}
