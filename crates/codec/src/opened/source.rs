//! The decoder of a picture.

use super::super::decode::{Decode, Describe};
use super::super::jpeg;
use equalize::colour::Gray;
use equalize::{Layout, Pixel};

/// An opened picture, by its possible decoders.
#[derive(Debug)]
pub(super) enum PictureSource<'a> {
    /// A JPEG of the usual kind, which some devices decode too.
    Jpeg(Box<jpeg::Source<'a>>),
    /// Any other picture, which the processor decodes.
    Other(Box<dyn Decode + 'a>),
}

impl<'a> PictureSource<'a> {
    pub(super) fn of(picture: impl Decode + 'a) -> Self {
        Self::Other(Box::new(picture))
    }

    /// Returns its description.
    pub(super) fn facts(&self) -> &dyn Describe {
        match self {
            Self::Jpeg(jpeg) => &**jpeg,
            Self::Other(other) => &**other,
        }
    }

    /// Returns the layout of the pixels in the slot, `gray` or as the decoder delivers them.
    pub(super) fn layout_in(&self, gray: Option<Gray>) -> Layout {
        in_gray(self.facts().layout(), gray)
    }

    /// Returns the same without the mask that there may be in the place of alpha.
    pub(super) fn visible_in(&self, gray: Option<Gray>) -> Layout {
        let (layout, mapped) = (self.facts().layout(), self.facts().mapped());
        let visible = mapped.map_or(layout, |form| form.visible(layout.width, layout.height));
        in_gray(Layout { depth: layout.depth, ..visible }, gray)
    }
}

/// Returns a layout in which colours are `gray`, or as they are.
pub(super) fn in_gray(layout: Layout, gray: Option<Gray>) -> Layout {
    match (gray.is_some(), layout.pixel) {
        (true, Pixel::Rgb) => Layout { pixel: Pixel::Gray, ..layout },
        (true, Pixel::Rgba) => Layout { pixel: Pixel::GrayAlpha, ..layout },
        _ => layout,
    }
}
