//! The decoder of a picture, whichever it is.

use super::super::stated::Stated;
use super::super::{bmp, dicom, gif, jp2, jpeg, jxl, mapped, pages, pfm, png, pnm, tiff, webp};
use equalize::{Layout, Pixel};

/// An opened picture of each format.
#[derive(Debug)]
pub(super) enum Source<'a> {
    Png(png::Source<'a>),
    Jpeg(Box<jpeg::Source<'a>>),
    DeepJpeg(jpeg::DeepSource<'a>),
    CmykJpeg(jpeg::CmykSource<'a>),
    Pnm(pnm::Source<'a>),
    Pfm(pfm::Source<'a>),
    Tiff(tiff::Source<'a>),
    Bmp(bmp::Source<'a>),
    WebP(webp::Source<'a>),
    Gif(gif::Source<'a>),
    JpegXl(Box<jxl::Source>),
    Dicom(Box<dicom::Source<'a>>),
    Jpeg2000(Box<jp2::Source<'a>>),
}

impl Source<'_> {
    /// Returns the layout that the format's decoder delivers.
    pub(super) fn layout(&self) -> Layout {
        match self {
            Source::Png(png) => png.layout(),
            Source::Jpeg(jpeg) => jpeg.layout(),
            Source::DeepJpeg(jpeg) => jpeg.layout(),
            Source::CmykJpeg(jpeg) => jpeg.layout(),
            Source::Pnm(pnm) => pnm.layout(),
            Source::Pfm(pfm) => pfm.layout(),
            Source::Tiff(tiff) => tiff.layout(),
            Source::Bmp(bmp) => bmp.layout(),
            Source::WebP(webp) => webp.layout(),
            Source::Gif(gif) => gif.layout(),
            Source::JpegXl(jxl) => jxl.layout(),
            Source::Dicom(dicom) => dicom.layout(),
            Source::Jpeg2000(jp2) => jp2.layout(),
        }
    }

    /// Returns the number of frames that lie below each other.
    pub(super) fn frames(&self) -> usize {
        match self {
            Source::Png(png) => png.frames(),
            Source::WebP(webp) => webp.frames(),
            Source::Gif(gif) => gif.frames(),
            Source::Jpeg(_)
            | Source::DeepJpeg(_)
            | Source::CmykJpeg(_)
            | Source::Pnm(_)
            | Source::Pfm(_)
            | Source::Tiff(_)
            | Source::Bmp(_)
            | Source::JpegXl(_)
            | Source::Dicom(_)
            | Source::Jpeg2000(_) => 1,
        }
    }

    /// Returns the layout of the pixels in the slot, which are `gray` or what the decoder delivers.
    pub(super) fn layout_in(&self, gray: bool) -> Layout {
        in_gray(self.layout(), gray)
    }

    /// Returns the same without the mask that there may be in the place of alpha.
    pub(super) fn visible_in(&self, gray: bool) -> Layout {
        let layout = self.layout();
        let visible = self.mapped().map_or(layout, |form| form.visible(layout.width, layout.height));
        in_gray(Layout { depth: layout.depth, ..visible }, gray)
    }

    /// Returns the pages of the file, if there are several and this is the first.
    pub(super) fn take_pages(&mut self) -> Option<pages::Source> {
        match self {
            Self::Tiff(tiff) => tiff.take_stack().map(pages::Source::Tiff),
            Self::Dicom(dicom) => dicom.take_frames().map(pages::Source::Dicom),
            _ => None,
        }
    }

    /// Returns the level of samples that are none, as the file says, if samples are levels.
    pub(super) fn no_data(&self) -> Option<f64> {
        if let Self::Tiff(tiff) = self { tiff.no_data_level() } else { None }
    }

    /// Returns what the file says of the levels of samples that are levels.
    pub(super) fn stated(&self) -> Option<Stated> {
        match self {
            Self::Png(png) => png.stated(),
            Self::Pnm(pnm) => pnm.stated(),
            Self::Tiff(tiff) => tiff.stated(),
            Self::DeepJpeg(jpeg) => Some(jpeg.stated()),
            Self::JpegXl(jxl) => Some(jxl.stated()),
            Self::Jpeg2000(jp2) => jp2.stated(),
            Self::Jpeg(_)
            | Self::CmykJpeg(_)
            | Self::Pfm(_)
            | Self::Bmp(_)
            | Self::WebP(_)
            | Self::Gif(_)
            | Self::Dicom(_) => None,
        }
    }

    /// Returns the form of samples that are no levels.
    pub(super) fn mapped(&self) -> Option<mapped::Form> {
        match self {
            Self::Tiff(tiff) => tiff.mapped(),
            Self::Pfm(pfm) => Some(pfm.form()),
            Self::Dicom(dicom) => dicom.mapped(),
            Self::Png(_)
            | Self::Jpeg(_)
            | Self::DeepJpeg(_)
            | Self::CmykJpeg(_)
            | Self::Pnm(_)
            | Self::Bmp(_)
            | Self::WebP(_)
            | Self::Gif(_)
            | Self::JpegXl(_)
            | Self::Jpeg2000(_) => None,
        }
    }
}

/// Returns a layout in which colours are `gray`, or as they are.
fn in_gray(layout: Layout, gray: bool) -> Layout {
    match (gray, layout.pixel) {
        (true, Pixel::Rgb) => Layout { pixel: Pixel::Gray, ..layout },
        (true, Pixel::Rgba) => Layout { pixel: Pixel::GrayAlpha, ..layout },
        _ => layout,
    }
}
