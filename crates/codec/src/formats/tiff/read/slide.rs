//! Whole slides as Aperio's scanners write them (SVS), with the slide as the first page.
//!
//! Pages after it without a subfile type are its smaller versions: resolutions in tiles, and a
//! thumbnail in strips. Photographs of the label and of the glass show other things; they have the
//! type of smaller versions, or only their description names them.
//!
//! Programs that convert a slide may keep its description and write overviews, which have that type
//! and the shape of the slide.

use crate::CodecError;
use crate::formats::foreign::SPLIT;
use crate::formats::tiff::tags;
use crate::metadata::ifd::Directory;

/// Returns whether a file with this first directory is a slide.
pub(crate) fn is_one(directory: &Directory) -> bool {
    directory.bytes(tags::DESCRIPTION).is_some_and(|text| text.starts_with(b"Aperio"))
}

/// Returns whether a directory describes a photograph of the label or the glass.
///
/// The second line begins with the name.
pub(crate) fn is_label(directory: &Directory) -> bool {
    let text = directory.bytes(tags::DESCRIPTION).unwrap_or_default();
    let second = text.split(|&byte| byte == b'\n').nth(1).unwrap_or_default().trim_ascii_start();
    [&b"label"[..], b"macro"].iter().any(|name| second.starts_with(name))
}

/// The error of a slide with any other page.
pub(crate) fn refused() -> CodecError {
    CodecError::unsupported(
        "a pyramid with a page that is neither a smaller version of the picture nor the label or the glass of a slide",
        SPLIT,
    )
}
