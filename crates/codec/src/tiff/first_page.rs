//! What the first page of a file says for all of its pages. OME-XML and ImageJ's description stand there alone, and so do many writers' tags about
//! the samples of a stack.

use super::super::ifd::Directory;
use super::{arrangement, gdal, imagej, tags};

/// What the first page says, which holds for every page that says nothing else.
#[derive(Clone, Copy, Debug)]
pub(super) struct FirstPage {
    /// Whether ImageJ wrote the file, whose palettes are colours for display.
    pub(super) is_imagejs: bool,
    /// The highest level of unsigned samples.
    pub(super) top: Option<u64>,
    /// The value of samples that are none.
    pub(super) no_data: Option<f64>,
}

impl FirstPage {
    /// Reads the directory of the first page.
    pub(super) fn read(directory: &Directory) -> Self {
        let description = directory.bytes(tags::DESCRIPTION).unwrap_or_default();
        Self {
            is_imagejs: imagej::is_description(description),
            top: top(directory).or_else(|| top_of_ome(description)),
            no_data: no_data(directory),
        }
    }
}

/// Returns the highest level that a page's own tags state.
pub(super) fn top(directory: &Directory) -> Option<u64> {
    let tops = directory.numbers(tags::MAX_SAMPLE)?;
    let top = tops.get(0).filter(|top| tops.iter().all(|other| other == *top))?;
    // Many writers put the greatest sample of the picture there, which says nothing of bits.
    top.checked_add(1).is_some_and(u64::is_power_of_two).then_some(top)
}

fn top_of_ome(description: &[u8]) -> Option<u64> {
    let bits = arrangement::significant_bits(description).filter(|_| arrangement::is_ome(description))?;
    Some(1_u64.checked_shl(bits)? - 1)
}

/// Returns the no-data value that a page's own tags state.
pub(super) fn no_data(directory: &Directory) -> Option<f64> {
    gdal::no_data(directory.bytes(tags::GDAL_NODATA)?)
}
