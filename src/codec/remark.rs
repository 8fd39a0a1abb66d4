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
        of_its_kind.into_iter().chain([without]).flatten().collect()
    }

    /// Whether there is metadata that a format has no place for.
    fn loses_metadata(&self, to: Format) -> bool {
        let Metadata { icc, exif, xmp, .. } = &self.metadata;
        icc.is_some() && !to.has_room_for_profile()
            || (exif.is_some() || xmp.is_some()) && !to.has_room_for_xmp()
    }
}
