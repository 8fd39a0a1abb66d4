//! Tests of the content of files that have no job yet: for several pages or frames, where the name
//! of the output depends on them, and for a picture.

use std::io::Read;
use std::path::Path;

use crate::fs::input::InputRoots;
use crate::selection::promises_a_picture;
use codec::{Format, Limits};

/// Returns whether an input has several pages or frames, as far as it can be read.
pub(crate) fn has_several(input: &Path, limits: &Limits, roots: &InputRoots) -> bool {
    roots.open(input).is_ok_and(|mut file| codec::has_several(&mut file, limits))
}

/// Returns whether a file has the name or the first bytes of a picture, or cannot be read, which is
/// for others to report.
pub(crate) fn may_be_a_picture(path: &Path, roots: &InputRoots) -> bool {
    if promises_a_picture(path) {
        return true;
    }
    let mut head = Vec::with_capacity(Format::HEAD);
    let read = roots.open(path).and_then(|file| file.take(Format::HEAD as u64).read_to_end(&mut head));
    read.is_err() || Format::sniff(&head).is_some()
}
