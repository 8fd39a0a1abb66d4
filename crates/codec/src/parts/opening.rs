//! How a file is opened: what its format is given, and what it returns.

use std::fs::File;

use super::bands::Cut;
use super::pages::{PageSource, Place};
use crate::io::budget::Budget;
use crate::picture::decode::{Decode, in_gray};
use crate::{Format, Limits, Target};
use equalize::Layout;
use equalize::colour::Gray;

/// A file whose format is known, with the picture that is wanted of it.
pub(crate) struct Opening<'a, 'o> {
    pub(crate) file: &'a mut File,
    /// The head of the file.
    pub(crate) buffer: &'a mut Vec<u8>,
    pub(crate) limits: &'o Limits,
    pub(crate) budget: &'o mut dyn Budget,
    pub(crate) target: &'o Target,
    /// The page or band that is wanted, if it was asked for by its number.
    pub(crate) place: Option<Place>,
}

impl Opening<'_, '_> {
    /// Returns the rule for cutting a picture of a format into bands, if that is possible.
    pub(crate) fn cut(&self, format: Format) -> Cut {
        let output = self.target.format_for(format);
        let may_be = output.has_bands() && !self.target.splits;
        Cut {
            most: if may_be { self.budget.most_at_once() } else { u64::MAX },
            least_rows: output.least_rows_of_band(),
        }
    }
}

/// Returns the number of rows that no band divides, of a picture that is not a TIFF.
///
/// Colours become gray if the target asks for it, or if they `are_gray`.
pub(crate) fn rows_together(layout: Layout, are_gray: bool, format: Format, target: &Target) -> u32 {
    let layout = in_gray(layout, target.gray.or(are_gray.then_some(Gray::Luma)));
    target.format_for(format).rows_of_strip(&target.layout_for(layout))
}

/// The result of opening a file.
pub(crate) enum Found<'a, 'o> {
    Header(Header<'a>),
    /// The file has to be read as a whole.
    Whole(Opening<'a, 'o>),
}

/// A picture whose header has been read.
pub(crate) struct Header<'a> {
    pub(crate) source: Box<dyn Decode + 'a>,
    /// Bytes of the file in memory.
    pub(crate) file_bytes: u64,
    /// The pages of the file, if there are several and this is the first.
    pub(crate) pages: Option<Box<dyn PageSource>>,
}

impl<'a> Header<'a> {
    pub(crate) fn of(source: impl Decode + 'a) -> Self {
        Self { source: Box::new(source), file_bytes: 0, pages: None }
    }

    pub(crate) fn with_pages(self, pages: Option<impl PageSource + 'static>) -> Self {
        Self { pages: pages.map(|pages| Box::new(pages) as Box<dyn PageSource>), ..self }
    }
}
