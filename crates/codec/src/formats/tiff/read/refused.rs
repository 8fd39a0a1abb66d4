//! TIFFs that are refused, because they could not be read or written back as they are.

use crate::CodecError;
use crate::formats::foreign::{CHANNELS, DEVELOP, MOSAIC, SCALE, SPLIT, TO_RGB};
use crate::formats::tiff::compression::method::Method;
use crate::formats::tiff::read::samples::Colours;
use crate::formats::tiff::{malformed, tags, unsupported};
use crate::io::reader::Reader;
use crate::metadata::ifd::{Directory, Value};

/// Refuses camera raw files, and stacks with pictures outside the pages and known descriptions.
pub(crate) fn refuse_others(bytes: &Reader<'_>, directory: &Directory) -> Result<(), CodecError> {
    if is_camera_raw(bytes, directory) {
        return Err(CodecError::unsupported("a camera raw file", DEVELOP));
    }
    if directory.number(tags::PHOTOMETRIC) == Some(tags::CFA) {
        return Err(CodecError::unsupported(
            "a TIFF of the samples behind a sensor's colour filter (CFA)",
            MOSAIC,
        ));
    }
    // MetaMorph has one RATIONAL per plane, though six LONGs lie at its offset.
    let planes = directory.get(tags::STACK_PLANES).map_or(1, Value::count);
    if planes > 1 || directory.number(tags::DEPTH).unwrap_or(1) > 1 {
        return Err(CodecError::unsupported("a stack of pictures in one TIFF page", SPLIT));
    }
    Ok(())
}

/// Returns whether the file is a camera's raw file (DNG, NEF, ARW, CR2 and the like).
///
/// Its first directory often has only a preview.
fn is_camera_raw(bytes: &Reader<'_>, directory: &Directory) -> bool {
    let mut mark = [0; 4];
    let is_canons = bytes.read_at(&mut mark, 8).is_ok() && mark == *b"CR\x02\0";
    let [has_version, has_make, has_sub_ifds] =
        [tags::DNG_VERSION, tags::MAKE, tags::SUB_IFDS].map(|tag| directory.get(tag).is_some());
    let is_of_a_sensor = matches!(directory.number(tags::PHOTOMETRIC), Some(tags::CFA | tags::LINEAR_RAW));
    let is_of_a_sensor = is_of_a_sensor && (has_version || has_make);
    let is_preview = directory.number(tags::KIND).is_some_and(|kind| kind & 1 == 1);
    let has_the_raw_below = has_sub_ifds && (has_version || is_preview && has_make);
    is_canons || is_of_a_sensor || has_the_raw_below
}

/// Refuses properties that cannot be handled right with samples that are not levels.
pub(crate) fn refuse_kinds(method: Method, colours: Colours, before_alpha: usize) -> Result<(), CodecError> {
    if before_alpha > 0 {
        return Err(CodecError::unsupported(
            "a TIFF of such samples whose alpha follows other channels",
            CHANNELS,
        ));
    }
    if colours == Colours::Cmyk {
        return Err(CodecError::unsupported("a CMYK TIFF of signed, long or floating-point samples", TO_RGB));
    }
    if method == Method::Jpeg {
        return Err(CodecError::unsupported("a TIFF of signed samples compressed by JPEG", SCALE));
    }
    if colours == Colours::Palette {
        return Err(malformed("its palette indices are signed, long or floats"));
    }
    Ok(())
}

/// Refuses depths that cannot be decoded correctly in combination with other properties.
pub(crate) fn refuse_depths(
    bits: u32,
    samples: usize,
    method: Method,
    directory: &Directory,
) -> Result<(), CodecError> {
    let packed = !bits.is_multiple_of(8);
    let tile = directory.number(tags::TILE_WIDTH).unwrap_or(0);
    if packed && !tile.is_multiple_of(8) {
        return Err(unsupported(format!("a TIFF with tiles of {tile} samples of {bits} bits across")));
    }
    let is_fax = matches!(method, Method::Fax(_));
    if !matches!(bits, 8 | 12 | 16) && method == Method::Jpeg || bits != 1 && is_fax {
        return Err(CodecError::unsupported(
            format!("a TIFF of {bits} bits compressed by JPEG or CCITT's codes for faxes"),
            "store it as a TIFF of 8 or 16 bits, compressed otherwise, first",
        ));
    }
    let planar = samples > 1 && directory.number(tags::PLANAR_CONFIGURATION) == Some(2);
    if method == Method::WebP && (bits != 8 || planar || !matches!(samples, 3 | 4)) {
        return Err(malformed("it is compressed by WebP, but its samples are not RGB or RGBA of 8 bits"));
    }
    if samples > 1 && is_fax {
        return Err(unsupported(format!(
            "a TIFF of {samples} samples a pixel compressed by CCITT's codes for faxes"
        )));
    }
    Ok(())
}
