//! Whole slides as scanners write them: Aperio's (SVS), with the slide as the first page, and
//! Ventana's (BIF), whose tiles may overlap.
//!
//! Pages after it without a subfile type are its smaller versions: resolutions in tiles, and a
//! thumbnail in strips. Photographs of the label and of the glass show other things; they have the
//! type of smaller versions, or only their description names them.
//!
//! Programs that convert a slide may keep its description and write overviews, which have that type
//! and the shape of the slide.
//!
//! Ventana's tiles are the camera's pictures. The XMP of the largest resolution says by how many
//! pixels neighbours overlap; only where they do not is the page a picture of the slide.

use crate::CodecError;
use crate::formats::foreign::{SPLIT, STITCH};
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

/// Refuses a page with tiles that overlap: pixels in two tiles would count twice, and a local
/// method would treat a joint as an edge of the picture.
pub(crate) fn refuse_overlaps(directory: &Directory) -> Result<(), CodecError> {
    if directory.bytes(tags::XMP).is_some_and(says_overlaps) {
        return Err(CodecError::unsupported("a Ventana slide (BIF) whose tiles overlap", STITCH));
    }
    Ok(())
}

/// Returns whether Ventana's description of a page names tiles that overlap, in an area that was
/// scanned.
fn says_overlaps(xmp: &[u8]) -> bool {
    let is_some = |pixels: &str| pixels.trim().parse::<f64>() != Ok(0.0);
    let mut is_scanned = true;
    xmp.split(|&byte| byte == b'<').any(|tag| {
        if tag.starts_with(b"ImageInfo") {
            is_scanned = value(tag, "AOIScanned") != Some("0");
        }
        let is_joint = is_scanned && tag.starts_with(b"TileJointInfo");
        is_joint && ["OverlapX", "OverlapY"].iter().any(|name| value(tag, name).is_some_and(is_some))
    })
}

/// Returns the value of an attribute in the tag that a text begins with.
fn value<'x>(text: &'x [u8], name: &str) -> Option<&'x str> {
    let tag = text.split(|&byte| byte == b'>').next()?;
    let (_, rest) = std::str::from_utf8(tag).ok()?.split_once(name)?;
    let rest = rest.trim_start().strip_prefix('=')?.trim_start();
    let quote = rest.chars().next().filter(|quote| matches!(quote, '"' | '\''))?;
    rest[1..].split_once(quote).map(|(value, _)| value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tiles_overlap_if_a_joint_of_a_scanned_area_says_so() {
        let says = |scanned: u8, joints: &str| {
            let before =
                r#"<ImageInfo AOIScanned="1"><TileJointInfo OverlapX="0" OverlapY="0"/></ImageInfo>"#;
            let info =
                format!("<EncodeInfo>{before}<ImageInfo AOIScanned = '{scanned}'>{joints}</ImageInfo>");
            says_overlaps(info.as_bytes())
        };
        let joint = |x: &str, y: &str| format!("<TileJointInfo OverlapX={x} OverlapY={y} Direction='UP'/>");
        let [none, right, up] = [joint("'0'", "\"0\""), joint("'18'", "'0'"), joint("'0'", "\"-2\"")];
        assert!(!says(1, &none) && says(1, &right) && says(1, &up) && says(1, &(none + &up)));
        assert!(!says(0, &right), "it was not scanned");
        assert!(says_overlaps(b"<iScan UserName='\xe9'/><TileJointInfo OverlapX='1' OverlapY='0'/>"));
        assert!(!says(1, "<Other OverlapX='4'/>") && !says(1, "<TileJointInfo OverlapX") && !says(1, ""));
    }
}
