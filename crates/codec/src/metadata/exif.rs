//! The tags that EXIF and TIFF share.

use super::Resolution;
use super::ifd::{self, Directory};

pub(crate) const X_RESOLUTION: u16 = 282;
pub(crate) const Y_RESOLUTION: u16 = 283;
pub(crate) const RESOLUTION_UNIT: u16 = 296;

/// Reads the resolution. Its unit is the inch unless the tags state another.
pub(crate) fn resolution(directory: &Directory) -> Option<Resolution> {
    let [x, y] = [X_RESOLUTION, Y_RESOLUTION].map(|tag| fractions(directory, tag)?.first().copied());
    let counts = [x?, y?];
    match directory.number(RESOLUTION_UNIT).unwrap_or(2) {
        2 => Resolution::per_inch(counts),
        3 => Resolution::per_centimetre(counts),
        _ => None,
    }
}

/// Returns the values of a tag that are fractions.
pub(crate) fn fractions(directory: &Directory, tag: u16) -> Option<Vec<f64>> {
    let (words, _) = directory.bytes(tag)?.as_chunks::<4>();
    let fractions = words.as_chunks::<2>().0.iter().map(|fraction| {
        let [counter, denominator] = fraction.map(|word| f64::from(u32::from_le_bytes(word)));
        counter / denominator
    });
    Some(fractions.collect())
}

/// Returns whether EXIF, which is a TIFF without a picture, states a resolution.
pub(crate) fn has_resolution(exif: &[u8]) -> bool {
    ifd::first(exif).is_some_and(|directory| resolution(&directory).is_some())
}
