//! Whole slides as Aperio's scanners write them (SVS), with the slide as the first page.
//!
//! Pages after it without a subfile type are its smaller versions: resolutions in tiles, and a
//! thumbnail in strips. Pages with the type of smaller versions are photographs of the label and of
//! the glass, which show other things.

use super::super::CodecError;
use super::super::foreign::SPLIT;
use super::super::ifd::Directory;
use super::tags;

/// Returns whether a file with this first directory is a slide.
pub(super) fn is_one(directory: &Directory) -> bool {
    directory.bytes(tags::DESCRIPTION).is_some_and(|text| text.starts_with(b"Aperio"))
}

/// The error of a slide with any other page.
pub(super) fn refused() -> CodecError {
    CodecError::unsupported(
        "a slide with a page that is neither a smaller version of the first nor the label or the glass",
        SPLIT,
    )
}
