//! GeoTIFF's tags: a picture's place on a map (OGC 19-008r4).

use super::ifd::{self, Directory, Value};

const PIXEL_SCALE: u16 = 33550;
const TIE_POINTS: u16 = 33922;
const KEYS: u16 = 34735;

/// GeoTIFF's tags: those above, the matrix, and the numbers and texts of the keys.
const TAGS: [u16; 6] = [PIXEL_SCALE, TIE_POINTS, 34264, KEYS, 34736, 34737];

/// Returns whether tags state a picture's place on a map.
pub(crate) fn is_georeferenced(directory: &Directory) -> bool {
    directory.get(KEYS).is_some()
}

/// Returns whether a TIFF structure states a picture's place on a map.
pub(crate) fn has_georeference(bytes: &[u8]) -> bool {
    ifd::first(bytes).is_some_and(|directory| is_georeferenced(&directory))
}

/// Returns the tags of GeoTIFF in a TIFF structure.
pub(crate) fn tags(bytes: &[u8]) -> impl Iterator<Item = (u16, Value)> {
    let entries = ifd::first(bytes).unwrap_or_default().entries;
    entries.into_iter().filter(|(tag, _)| TAGS.contains(tag))
}

/// The place of an upright picture in a projected coordinate system.
pub(crate) struct GeoTags {
    /// Width and height of a pixel, in metres.
    pub(crate) scale: [f64; 2],
    /// Easting and northing of the upper left corner of the first pixel, in metres.
    pub(crate) corner: [f64; 2],
    /// The code of EPSG of the coordinate system.
    pub(crate) projected: u16,
}

impl GeoTags {
    /// Returns the tags in a TIFF structure.
    pub(crate) fn write(&self) -> Vec<u8> {
        let ([width, height], [x, y]) = (self.scale, self.corner);
        // The model is projected, pixels are areas, and the system is that of the code.
        let keys = [1, 1, 0, 3, 1024, 0, 1, 1, 1025, 0, 1, 1, 3072, 0, 1, self.projected];
        let scale = doubles(&[width, height, 0.0]);
        let tie_point = doubles(&[0.0, 0.0, 0.0, x, y, 0.0]);
        ifd::write_file(&[(PIXEL_SCALE, &scale), (TIE_POINTS, &tie_point), (KEYS, &Value::shorts(&keys))])
    }
}

fn doubles(values: &[f64]) -> Value {
    Value::Data { kind: 12, bytes: values.iter().flat_map(|value| value.to_le_bytes()).collect() }
}
