//! Pages that have been written to their places, in as little memory as possible: a file may have
//! many.

use std::borrow::Cow;
use std::sync::Arc;

use crate::formats::tiff::strips::Strips;
use crate::formats::tiff::write::written::Written;

/// A page of a file, after its pixels have been written.
#[derive(Debug)]
pub(crate) enum Page {
    /// A page that may have to be moved or put together with others.
    Loose(Box<Loose>),
    /// A page in its place.
    Packed(Packed),
}

/// A page that is not packed.
#[derive(Debug)]
pub(crate) struct Loose {
    pub(crate) written: Written,
    pub(crate) is_spilled: bool,
}

/// A page without overviews, whose strips or tiles lie one after the other.
#[derive(Debug)]
pub(crate) struct Packed {
    /// The page without its strips, shared with the pages that differ in these alone.
    about: Arc<Written>,
    /// The offset of the first strip.
    start: u64,
    /// The lengths of the strips.
    lengths: Box<[u64]>,
}

impl Page {
    pub(crate) fn new(written: Written, is_spilled: bool) -> Self {
        Self::Loose(Box::new(Loose { written, is_spilled }))
    }

    /// Returns the page with its strips, or, if it is packed, one like it without strips.
    pub(crate) fn about(&self) -> &Written {
        match self {
            Self::Loose(loose) => &loose.written,
            Self::Packed(packed) => &packed.about,
        }
    }

    /// Returns the page with its strips.
    pub(crate) fn written(&self) -> Cow<'_, Written> {
        match self {
            Self::Loose(loose) => Cow::Borrowed(&loose.written),
            Self::Packed(packed) => Cow::Owned(packed.written()),
        }
    }

    /// Returns the page with its strips.
    pub(crate) fn into_written(self) -> Written {
        match self {
            Self::Loose(loose) => loose.written,
            Self::Packed(packed) => packed.written(),
        }
    }

    /// Packs a page in its place, if that is possible; `before` is the page before it.
    pub(crate) fn packed(self, before: Option<&Self>) -> Self {
        let Self::Loose(mut loose) = self else { return self };
        let Some(start) = loose.written.strips.consecutive().filter(|_| loose.written.is_alone()) else {
            return Self::Loose(loose);
        };
        let rows = loose.written.strips.rows;
        let strips = std::mem::replace(&mut loose.written.strips, Strips::of_rows(rows));
        let like = before.and_then(|before| match before {
            Self::Packed(packed) if packed.about.is_like(&loose.written) => Some(Arc::clone(&packed.about)),
            _ => None,
        });
        let about = like.unwrap_or_else(|| Arc::new(loose.written));
        Self::Packed(Packed { about, start, lengths: strips.lengths.into() })
    }
}

impl Packed {
    fn written(&self) -> Written {
        let mut written = (*self.about).clone();
        let mut at = self.start;
        for &length in &self.lengths {
            written.strips.add(at, length);
            at += length;
        }
        written
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::formats::tiff::compression::method::Compression;
    use crate::formats::tiff::pyramid::Pyramid;
    use crate::formats::tiff::strips::Raster;
    use crate::formats::tiff::write::written::Role;
    use equalize::{Depth, Layout, Pixel};

    fn page(places: &[(u64, u64)]) -> Page {
        let layout = Layout { width: 9, height: 9, pixel: Pixel::Gray, depth: Depth::Eight };
        let raster = Raster::of_levels(&layout, 0);
        let mut strips = Strips::none(&raster);
        places.iter().for_each(|&(at, length)| strips.add(at, length));
        let written = Written {
            raster,
            compression: Compression::Deflate,
            strips,
            kept: Arc::default(),
            icc: None,
            top: None,
            no_data: None,
            pyramid: Pyramid::default(),
            overviews: Vec::new(),
            masks: Vec::new(),
            number: 0,
            is_copy: false,
            role: Role::Picture,
            says_smaller: false,
        };
        Page::new(written, false)
    }

    #[test]
    fn packed_pages_have_their_strips_and_share_the_rest() {
        let first = page(&[(16, 5), (21, 7)]).packed(None);
        let second = page(&[(28, 1), (29, 2)]).packed(Some(&first));
        let (Page::Packed(one), Page::Packed(other)) = (&first, &second) else { panic!("not packed") };
        assert!(Arc::ptr_eq(&one.about, &other.about) && one.about.strips.offsets.is_empty());
        let strips = second.written().into_owned().strips;
        assert_eq!((strips.offsets, strips.lengths, strips.end), (vec![28, 29], vec![1, 2], 31));
        let gap = page(&[(16, 5), (22, 7)]).packed(Some(&first));
        assert!(matches!(&gap, Page::Loose(_)));
        assert_eq!(gap.into_written().strips.offsets, [16, 22]);
    }
}
