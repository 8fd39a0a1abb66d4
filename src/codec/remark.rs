//! What is told of a picture that was written, though nothing failed.

use serde::Serialize;

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
    /// A TIFF's layers, made for the old contrast, were left out.
    WithoutLayers,
    /// A lossy WebP was written without loss, and is larger.
    NowLossless,
}

impl Decoded {
    /// What is worth telling once it is written.
    pub fn remark(&self, target: &Target) -> Option<Remark> {
        let to = target.format_for(self.format);
        match &self.native {
            Native::Jpeg(jpeg) if jpeg.had_more => Some(Remark::PictureAlone),
            Native::Jpeg(jpeg) if jpeg.has_extended_xmp() && to.has_room_for_xmp() && to != Format::Jpeg => {
                Some(Remark::PartOfXmp)
            }
            Native::Tiff(tiff) if tiff.had_layers => Some(Remark::WithoutLayers),
            Native::WebP(webp) if webp.lossy && to == Format::WebP => Some(Remark::NowLossless),
            _ if self.loses_metadata(to) => Some(Remark::WithoutMetadata),
            _ => None,
        }
    }

    /// Whether there is metadata that a format has no place for.
    fn loses_metadata(&self, to: Format) -> bool {
        let Metadata { icc, exif, xmp, .. } = &self.metadata;
        icc.is_some() && !to.has_room_for_profile()
            || (exif.is_some() || xmp.is_some()) && !to.has_room_for_xmp()
    }
}
