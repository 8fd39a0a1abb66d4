//! Values of a file's samples: the number of their levels, and the no-data value.
//!
//! OME-XML, ImageJ's description and many writers' tags of this kind stand on the first page alone,
//! and hold for all.

use crate::formats::tiff::describe::{arrangement, gdal, imagej};
use crate::formats::tiff::read::planes::{self, Planes};
use crate::formats::tiff::tags;
use crate::metadata::ifd::{Directory, Numbers};
use crate::samples::mapped::Kind;
use crate::samples::stated::{Place, Stated};

/// The first page's statements, which hold for every page without its own.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FirstPage {
    /// Whether ImageJ wrote the file, whose palettes are colours for display.
    pub(crate) is_imagejs: bool,
    /// Whether the file is an OME-TIFF, whose palettes may be colours of channels.
    pub(crate) is_ome: bool,
    /// Whether it has several channels, whose palettes are look-up tables for display.
    pub(crate) has_ome_channels: bool,
    /// The meaning of a page's planes that are no colours, and their number, by the description.
    planes: Option<(Planes, usize)>,
    /// Whether the file has metadata outside of directories.
    pub(crate) has_outside: bool,
    /// Whether smaller versions of pictures follow them without a subfile type.
    pub(crate) has_unmarked: bool,
    /// The highest level of unsigned samples.
    top: Option<u64>,
    /// The no-data value.
    no_data: Option<f64>,
}

impl FirstPage {
    /// Reads the directory of the first page.
    pub(crate) fn read(directory: &Directory) -> Self {
        let description = directory.bytes(tags::DESCRIPTION).unwrap_or_default();
        Self {
            is_imagejs: imagej::is_description(description),
            is_ome: arrangement::is_ome(description),
            has_ome_channels: arrangement::has_channels(description),
            planes: planes::described(directory),
            has_outside: false,
            has_unmarked: false,
            top: top(directory, top_of_ome(description)),
            no_data: own_no_data(directory),
        }
    }

    /// Returns the meaning of a page's planes, which has so many `samples` a pixel.
    ///
    /// `None` if they may be colours.
    pub(crate) fn planes(&self, directory: &Directory, samples: usize) -> Option<Planes> {
        let has_planes = directory.number(tags::PLANAR_CONFIGURATION) == Some(2);
        self.planes.filter(|&(_, count)| has_planes && count == samples).map(|(planes, _)| planes)
    }
}

/// Returns the levels that a page of unsigned samples of up to 16 bits states.
///
/// Samples of other bits than bytes are multiplied when they are unpacked; for others, the tags or
/// OME-XML may state the levels.
pub(crate) fn stated(directory: &Directory, bits: u32, first: &FirstPage) -> Option<Stated> {
    let is_unsigned = directory.number(tags::SAMPLE_FORMAT).is_none_or(|format| format == tags::UNSIGNED);
    match bits {
        8 | 16 if is_unsigned => {
            let top = top(directory, first.top)?;
            (1..(1_u64 << bits) - 1).contains(&top).then_some(Stated { top: top as u16, place: Place::Low })
        }
        1..=7 | 9..=15 => Some(Stated::spread(bits)),
        _ => None,
    }
}

/// Returns the highest level of a page, by its own tag, or else by that of the whole file.
fn top(directory: &Directory, of_file: Option<u64>) -> Option<u64> {
    let Some(tops) = directory.numbers(tags::MAX_SAMPLE) else { return of_file };
    let (least, greatest) = (tops.iter().min()?, tops.iter().max()?);
    // Many writers put the greatest sample of the picture there, which does not limit the bits
    // unless it is above their stated limit.
    let is_of_bits = least == greatest && greatest.checked_add(1).is_some_and(u64::is_power_of_two);
    if is_of_bits { Some(greatest) } else { of_file.filter(|top| greatest <= *top) }
}

fn top_of_ome(description: &[u8]) -> Option<u64> {
    let bits = arrangement::significant_bits(description).filter(|_| arrangement::is_ome(description))?;
    Some(1_u64.checked_shl(bits)? - 1)
}

/// Returns the no-data value of a page.
pub(crate) fn no_data(directory: &Directory, first: &FirstPage) -> Option<f64> {
    own_no_data(directory).or(first.no_data)
}

fn own_no_data(directory: &Directory) -> Option<f64> {
    gdal::no_data(directory.bytes(tags::GDAL_NODATA)?)
}

/// Returns a no-data value as a sample of this kind, or of so many bits; `None` without a match.
pub(crate) fn sample(value: f64, bits: u32, kind: Option<Kind>) -> Option<f64> {
    let Some(kind) = kind else {
        let most = f64::from((1_u32 << bits) - 1);
        return (value.fract() == 0.0 && (0.0..=most).contains(&value)).then_some(value);
    };
    kind.sample(value).map(|sample| kind.value(&sample))
}

/// Returns whether parts of a picture were never written.
///
/// Where samples are levels, the no-data value only fills these, and counts.
pub(crate) fn are_sparse(directory: &Directory) -> bool {
    let lengths = [tags::TILE_BYTE_COUNTS, tags::STRIP_BYTE_COUNTS].map(|tag| directory.numbers(tag));
    lengths.into_iter().flatten().flat_map(Numbers::iter).any(|length| length == 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metadata::ifd::Value;

    /// Returns a directory with a greatest sample, a no-data value and a description, or without.
    fn directory(top: Option<u16>, no_data: Option<&str>, description: &str) -> Directory {
        let text = |text: &str| Value::Data { kind: 2, bytes: text.as_bytes().to_vec() };
        let mut directory = Directory::default();
        top.into_iter().for_each(|top| directory.set(tags::MAX_SAMPLE, Value::shorts(&[top])));
        no_data.into_iter().for_each(|value| directory.set(tags::GDAL_NODATA, text(value)));
        directory.set(tags::DESCRIPTION, text(description));
        directory
    }

    fn top_of(page: &Directory, first: &Directory, bits: u32) -> Option<u16> {
        stated(page, bits, &FirstPage::read(first)).map(|stated| stated.top)
    }

    #[test]
    fn a_page_says_itself_or_by_the_first_one_how_many_levels_there_are() {
        const OME: &str = "<OME><Pixels SignificantBits=\"10\"/></OME>";
        let silent = directory(None, None, "");
        for (first, top) in [
            (directory(Some(4095), None, ""), Some(4095)),
            (directory(Some(4000), None, ""), None),
            (directory(Some(1000), None, OME), Some(1023)),
            (directory(Some(4000), None, OME), None),
            (directory(None, None, OME), Some(1023)),
            (directory(None, None, "SignificantBits=\"10\""), None),
        ] {
            for page in [&first, &silent] {
                assert_eq!(top_of(page, &first, 16), top);
                assert_eq!(top_of(page, &first, 8), None);
            }
            assert_eq!(top_of(&directory(Some(16_383), None, ""), &first, 16), Some(16_383));
            assert_eq!(top_of(&directory(Some(20_000), None, ""), &first, 16), None);
            assert_eq!(top_of(&directory(Some(1000), None, ""), &first, 16), top);
        }
        assert_eq!(top_of(&silent, &silent, 12), Some(4095));
    }

    #[test]
    fn a_page_says_itself_or_by_the_first_one_which_value_is_none() {
        let silent = directory(None, None, "");
        let first = FirstPage::read(&directory(None, Some("-9999"), ""));
        assert_eq!(no_data(&silent, &first), Some(-9999.0));
        assert_eq!(no_data(&directory(None, Some("0"), ""), &first), Some(0.0));
        assert_eq!(no_data(&silent, &FirstPage::read(&silent)), None);
    }

    #[test]
    fn a_no_data_value_is_a_sample_or_none() {
        for (value, bits, found) in [
            (255.0, 8, Some(255.0)),
            (256.0, 8, None),
            (4095.0, 12, Some(4095.0)),
            (65_535.0, 16, Some(65_535.0)),
            (-9999.0, 16, None),
            (1.5, 16, None),
            (f64::NAN, 16, None),
        ] {
            assert_eq!(sample(value, bits, None), found, "{value}");
        }
        assert_eq!(sample(-9999.0, 16, Some(Kind::Signed16)), Some(-9999.0));
    }
}
