//! Keys of chunks in a store, compared with those that an array's metadata give them.
//!
//! A chunk under another key is missing for every reader, as if it held the fill value.

use std::cell::RefCell;

use super::array::Level;
use super::folder::below;
use super::{METADATA, is_within};
use crate::CodecError;

/// The keys of chunks that were found of each array.
pub(super) struct Keys<'l> {
    levels: &'l [Level],
    found: RefCell<Vec<Found>>,
}

/// The keys of chunks that were found of an array.
#[derive(Clone, Debug, Default)]
struct Found {
    /// Whether a chunk has the key that it should have.
    is_any_sound: bool,
    /// A key with the numbers of a chunk, but in another form.
    other: Option<String>,
}

impl<'l> Keys<'l> {
    pub(super) fn of(levels: &'l [Level]) -> Self {
        Self { levels, found: RefCell::new(vec![Found::default(); levels.len()]) }
    }

    /// Returns whether keys at or below a path say nothing new.
    pub(super) fn skips(&self, path: &str) -> bool {
        let found = self.found.borrow();
        self.array_of(path).is_some_and(|array| found[array].is_any_sound)
    }

    /// Takes a key of the store into account.
    pub(super) fn take(&self, key: &str) {
        let Some(array) = self.array_of(key) else { return };
        let found = &mut self.found.borrow_mut()[array];
        match self.levels[array].is_key_of_chunk(key) {
            Some(true) => found.is_any_sound = true,
            Some(false) => found.other = Some(key.to_owned()),
            None => {}
        }
    }

    /// Refuses arrays whose chunks all have other keys than they should have.
    pub(super) fn check(&self) -> Result<(), CodecError> {
        for (level, found) in self.levels.iter().zip(&*self.found.borrow()) {
            if let Some(other) = found.other.as_ref().filter(|_| !found.is_any_sound) {
                let what = format!(
                    "an OME-Zarr image with chunks under other names than its metadata give them ({other} in array {})",
                    level.path
                );
                let remedy = "correct the separator in the array's metadata (dimension_separator in .zarray, chunk_key_encoding in zarr.json)";
                return Err(CodecError::unsupported(what, remedy));
            }
        }
        Ok(())
    }

    /// Returns the number of the array that may have a chunk at or below a path.
    fn array_of(&self, path: &str) -> Option<usize> {
        let array = self.levels.iter().position(|level| is_within(path, &level.path))?;
        let own = &self.levels[array].path;
        let is_metadata = path == own || METADATA.iter().any(|name| path == below(own, name));
        (!is_metadata).then_some(array)
    }
}
