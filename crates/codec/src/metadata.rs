//! The metadata that travel with the pixels: the colour profile, EXIF, XMP, and the resolution.

pub(crate) mod exif;
pub(crate) mod geotiff;
pub(crate) mod ifd;
pub(crate) mod multiscales;
pub(crate) mod pam;
pub(crate) mod xmp;

use equalize::Pixel;

/// The metadata that is carried over into every format with a place for it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Metadata {
    /// An ICC profile, as in an `.icc` file.
    pub icc: Option<Vec<u8>>,
    /// EXIF as a TIFF structure: it begins with `II*\0` or `MM\0*`, without JPEG's `Exif\0\0`.
    pub exif: Option<Vec<u8>>,
    /// An XMP packet in UTF-8.
    pub xmp: Option<Vec<u8>>,
    /// The resolution that the format itself states, rather than its EXIF.
    pub resolution: Option<Resolution>,
    /// The place on a map, of a picture that is no TIFF.
    pub georeference: Option<Georeference>,
}

/// The place of a picture on a map, as its file states it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Georeference {
    /// The tags of GeoTIFF, in a TIFF structure.
    Tags(Vec<u8>),
    /// GML, for which no format has a place.
    Gml,
}

impl Georeference {
    /// Returns the bytes of the tags.
    pub(super) fn bytes(&self) -> u64 {
        if let Self::Tags(tags) = self { tags.len() as u64 } else { 0 }
    }
}

/// A resolution in hundredths of a pixel per inch.
///
/// In this unit, whole numbers of pixels per inch and per metre both come back unchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resolution {
    /// Horizontal.
    pub x: u32,
    /// Vertical.
    pub y: u32,
}

impl Resolution {
    /// Makes a resolution from pixels per inch (2.54 cm); `None` if they are 0 or out of range.
    pub(super) fn per_inch(counts: [f64; 2]) -> Option<Self> {
        let hundredths = counts.map(|count| (count * 100.0).round() as u32);
        let [x, y] = Some(hundredths).filter(|both| both.iter().all(|&n| n > 0 && n < u32::MAX))?;
        Some(Self { x, y })
    }

    pub(super) fn per_centimetre(counts: [f64; 2]) -> Option<Self> {
        Self::per_inch(counts.map(|count| count * 2.54))
    }

    pub(super) fn per_metre(counts: [u32; 2]) -> Option<Self> {
        Self::per_inch(counts.map(|count| f64::from(count) * 0.0254))
    }

    /// Returns the pixels per inch, in whole numbers.
    pub(super) fn inches(self) -> [u32; 2] {
        [self.x, self.y].map(|hundredths| hundredths.saturating_add(50) / 100)
    }

    /// Returns the pixels per metre, in whole numbers.
    pub(super) fn metres(self) -> [u32; 2] {
        [self.x, self.y].map(|hundredths| (f64::from(hundredths) / 2.54).round() as u32)
    }
}

/// The bytes of a picture's metadata.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct MetadataBytes {
    /// Metadata that only the source's own format has.
    pub(super) native: u64,
    /// The most bytes of [`Metadata`].
    pub(super) carried: u64,
}

impl MetadataBytes {
    /// Returns the bytes of metadata from the time that it is decoded.
    pub(super) fn decoded(self) -> u64 {
        self.native + self.carried
    }
}

impl Metadata {
    /// Returns the bytes of all parts that vary in length.
    pub(super) fn bytes(&self) -> u64 {
        let parts = [&self.icc, &self.exif, &self.xmp];
        let georeference = self.georeference.as_ref().map_or(0, Georeference::bytes);
        parts.into_iter().flatten().map(|part| part.len() as u64).sum::<u64>() + georeference
    }

    /// Returns the orientation as EXIF numbers it: 1 to 8, and 1 if it is not stated.
    pub(super) fn orientation(&self) -> u8 {
        const ORIENTATION: u16 = 274;
        let exif = self.exif.as_deref().unwrap_or_default();
        let (Some((form, offset)), mut bytes) = (ifd::header(exif), exif) else { return 1 };
        let found = ifd::glance(&mut bytes, form, offset, [ORIENTATION]).ok();
        let number = found.and_then(|([number], _)| number);
        number.filter(|number| (1..=8).contains(number)).map_or(1, |number| number as u8)
    }

    /// Returns the ICC profile if it describes pixels of this kind.
    ///
    /// A profile's header states the colour space that it is for; one for RGB is meaningless for a
    /// picture that was turned into gray.
    pub fn icc_for(&self, pixel: Pixel) -> Option<&[u8]> {
        self.icc.as_deref().filter(|icc| icc_fits(icc, pixel))
    }
}

/// Returns whether a profile is for pixels of this kind.
///
/// Its header has the data colour space at byte 16 (ICC.1:2022, 7.2.6).
pub(super) fn icc_fits(icc: &[u8], pixel: Pixel) -> bool {
    let space: &[u8] = if pixel.colour_channels() == 1 { b"GRAY" } else { b"RGB " };
    icc.get(16..20) == Some(space)
}

/// Removes the prefix that [`strip_exif_prefix`] strips.
pub(super) fn without_exif_prefix(mut exif: Vec<u8>) -> Option<Vec<u8>> {
    let prefix = exif.len() - strip_exif_prefix(&exif)?.len();
    exif.drain(..prefix);
    Some(exif)
}

/// Strips the prefix before EXIF's TIFF structure; `None` if the rest is not such a structure.
pub(super) fn strip_exif_prefix(exif: &[u8]) -> Option<&[u8]> {
    let body = exif.strip_prefix(b"Exif\0\0").unwrap_or(exif);
    (body.starts_with(b"II*\0") || body.starts_with(b"MM\0*")).then_some(body)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_numbers_come_back_in_their_own_unit() {
        for count in (1..2000).chain([2834, 2835, 11_811, 1_000_000]) {
            let [metres, inches] = [
                Resolution::per_metre([count, count + 1]).unwrap().metres(),
                Resolution::per_inch([count, count + 1].map(f64::from)).unwrap().inches(),
            ];
            assert_eq!((metres, inches), ([count, count + 1], [count, count + 1]));
        }
        assert_eq!(Resolution::per_inch([300.0; 2]).unwrap().metres(), [11_811; 2]);
        assert_eq!(Resolution::per_metre([11_811; 2]).unwrap().inches(), [300; 2]);
        assert_eq!(Resolution::per_centimetre([100.0, 50.0]), Resolution::per_inch([254.0, 127.0]));
    }

    #[test]
    fn nothing_and_the_impossible_are_no_resolution() {
        assert_eq!(Resolution::per_metre([0, 300]), None);
        for count in [0.0, 0.001, -1.0, f64::NAN, f64::INFINITY, 1e30] {
            assert_eq!(Resolution::per_inch([300.0, count]), None, "{count}");
        }
    }
}
