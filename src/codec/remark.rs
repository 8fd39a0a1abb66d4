//! What is told of a picture that was written, though nothing failed.

use serde::Serialize;

use super::tiff::exif_has_resolution;
use super::{Decoded, Format, Metadata, Native, Target};

/// What is worth telling about a picture that was written: nothing failed, but not all is as it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Remark {
    /// A JPEG's previews, gain map or video, made for the old contrast, were left out.
    PictureAlone,
    /// A JPEG's XMP was longer than one segment, and only that went into another format.
    PartOfXmp,
    /// A profile, EXIF or XMP that the new format has no place for was left out.
    WithoutMetadata,
    /// How large a pixel is, for which the new format has no place, was left out.
    WithoutResolution,
    /// A TIFF's layers, made for the old contrast, were left out.
    WithoutLayers,
    /// A lossy WebP was written without loss, and is larger.
    NowLossless,
}

impl Decoded {
    /// What is worth telling once it is written.
    pub fn remarks(&self, target: &Target) -> Vec<Remark> {
        let to = target.format_for(self.format);
        let of_its_kind = match &self.native {
            Native::Jpeg(jpeg) => {
                let is_cut = jpeg.has_extended_xmp() && to.has_room_for_xmp() && to != Format::Jpeg;
                [jpeg.had_more.then_some(Remark::PictureAlone), is_cut.then_some(Remark::PartOfXmp)]
            }
            Native::Tiff(tiff) => [tiff.had_layers.then_some(Remark::WithoutLayers), None],
            Native::WebP(webp) => [(webp.lossy && to == Format::WebP).then_some(Remark::NowLossless), None],
            Native::Png(_) | Native::Pnm(_) | Native::Bmp(_) => [None; 2],
        };
        let without = self.loses_metadata(to).then_some(Remark::WithoutMetadata);
        let nowhere = self.loses_resolution(to).then_some(Remark::WithoutResolution);
        of_its_kind.into_iter().chain([without, nowhere]).flatten().collect()
    }

    /// Whether there is metadata that a format has no place for.
    fn loses_metadata(&self, to: Format) -> bool {
        let Metadata { icc, exif, xmp, .. } = &self.metadata;
        icc.is_some() && !to.has_room_for_profile()
            || (exif.is_some() || xmp.is_some()) && !to.has_room_for_xmp()
    }

    /// Whether a format has no place for the resolution, and the EXIF that goes into it does not say it either.
    fn loses_resolution(&self, to: Format) -> bool {
        let Metadata { exif, resolution, .. } = &self.metadata;
        let exif = exif.as_deref().filter(|_| to.has_room_for_xmp());
        resolution.is_some() && !to.has_room_for_resolution() && !exif.is_some_and(exif_has_resolution)
    }
}
