//! The test whether a file has several pages or frames, for where the name of its output depends on
//! it.

use std::path::Path;

use crate::fs::input::InputRoots;
use codec::Limits;

/// Returns whether an input has several pages or frames, as far as it can be read.
pub(crate) fn has_several(input: &Path, limits: &Limits, roots: &InputRoots) -> bool {
    roots.open(input).is_ok_and(|mut file| codec::has_several(&mut file, limits))
}
