//! What travels with the pixels: the colour profile, EXIF and XMP.

use crate::picture::Pixel;

/// The metadata that every format with a place for it takes over.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Metadata {
    /// An ICC profile, as it stands in an `.icc` file.
    pub icc: Option<Vec<u8>>,
    /// EXIF as a TIFF structure: it begins with `II*\0` or `MM\0*`, without JPEG's `Exif\0\0`.
    pub exif: Option<Vec<u8>>,
    /// An XMP packet in UTF-8.
    pub xmp: Option<Vec<u8>>,
}

impl Metadata {
    /// The ICC profile if it describes pixels of this kind. A profile says in its header which colour space it is for; one for RGB
    /// means nothing on a picture that was turned into gray.
    pub fn icc_for(&self, pixel: Pixel) -> Option<&[u8]> {
        self.icc.as_deref().filter(|icc| icc_fits(icc, pixel))
    }
}

/// Whether a profile's header (ICC.1:2022, 7.2.6: the data colour space at byte 16) fits pixels of this kind.
pub(super) fn icc_fits(icc: &[u8], pixel: Pixel) -> bool {
    let space: &[u8] = if pixel.colour_channels() == 1 { b"GRAY" } else { b"RGB " };
    icc.get(16..20) == Some(space)
}

/// Strips what some writers put before the TIFF structure of EXIF; `None` if it is no such structure then.
pub(super) fn exif_body(exif: &[u8]) -> Option<&[u8]> {
    let body = exif.strip_prefix(b"Exif\0\0").unwrap_or(exif);
    (body.starts_with(b"II*\0") || body.starts_with(b"MM\0*")).then_some(body)
}
