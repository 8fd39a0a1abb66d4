//! The dimension along which the planes of a page follow each other, by the first description.
//!
//! tifffile wrote arrays of three or four planes as RGB or RGBA, by their number alone. Their
//! description tells where the planes are slices, times or channels.

use std::str;

use crate::formats::tiff::describe::arrangement::{self, attribute, elements, is_of};
use crate::formats::tiff::describe::imagej;
use crate::formats::tiff::read::samples;
use crate::formats::tiff::tags;
use crate::metadata::ifd::Directory;

/// The meaning of a page's planes by a description.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Planes {
    /// They are channels that are not colours.
    Channels,
    /// They are slices, times or the like.
    Pages,
}

/// Returns the meaning of the planes of pages by the first directory, and their number in a page.
///
/// `None` if it is not stated, or if they are colours.
pub(crate) fn described(directory: &Directory) -> Option<(Planes, usize)> {
    let count = samples::samples(directory);
    if count < 2 || directory.number(tags::PLANAR_CONFIGURATION) != Some(2) {
        return None;
    }
    let description = directory.bytes(tags::DESCRIPTION)?;
    let planes = if imagej::is_description(description) {
        of_imagej(description, count)
    } else if arrangement::is_ome(description) {
        of_ome(description, count)
    } else {
        of_axes(description, count)
    };
    Some((planes?, count))
}

/// Returns the meaning by tifffile's axes: the last one before those of a plane.
fn of_axes(description: &[u8], count: usize) -> Option<Planes> {
    let series = arrangement::series(description)?;
    let axis = series.axes.strip_suffix("YX")?.chars().next_back()?;
    let place = series.shape.len().checked_sub(3)?;
    if series.axes.len() != series.shape.len() || series.shape[place] != count as u64 {
        return None;
    }
    match axis {
        'S' => None,
        'C' => Some(Planes::Channels),
        _ => Some(Planes::Pages),
    }
}

/// Returns the meaning by ImageJ's numbers of slices and frames.
///
/// As channels it may count colours.
fn of_imagej(description: &[u8], count: usize) -> Option<Planes> {
    let number = |name| imagej::number(description, name).unwrap_or(1).max(1);
    let is_gray = number("channels") == 1 && imagej::value(description, "mode") != Some("color");
    let pages = number("slices").saturating_mul(number("frames"));
    (is_gray && pages == count as u64 && imagej::images(description) == Some(pages)).then_some(Planes::Pages)
}

/// Returns the meaning by OME-XML of one image: its sizes, and the samples of its channels.
fn of_ome(xml: &[u8], count: usize) -> Option<Planes> {
    let text = str::from_utf8(xml).ok()?;
    let mut all = elements(text).filter(|element| is_of(element, "Pixels"));
    let (pixels, None) = (all.next()?, all.next()) else { return None };
    let [channels, slices, times] = ["SizeC", "SizeZ", "SizeT"]
        .map(|name| attribute(pixels, name).and_then(|size| size.trim().parse::<u64>().ok()).unwrap_or(1));
    let samples = elements(text).filter(|element| is_of(element, "Channel"));
    let samples: Vec<_> = samples.map(|channel| attribute(channel, "SamplesPerPixel")).collect();
    let are_single = !samples.is_empty() && samples.iter().all(|samples| *samples == Some("1"));
    match count as u64 {
        count if channels == count && are_single && samples.len() == channels as usize => {
            Some(Planes::Channels)
        }
        count if channels == 1 && slices.saturating_mul(times) == count => Some(Planes::Pages),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metadata::ifd::Value;

    fn described_by(description: &str, count: u16) -> Option<Planes> {
        let mut directory = Directory::default();
        directory.set(tags::SAMPLES_PER_PIXEL, Value::shorts(&[count]));
        directory.set(tags::DESCRIPTION, Value::Data { kind: 2, bytes: description.as_bytes().to_vec() });
        assert_eq!(described(&directory), None, "samples of a pixel lie together");
        directory.set(tags::PLANAR_CONFIGURATION, Value::shorts(&[2]));
        let (described, planes) = described(&directory)?;
        assert_eq!(planes, usize::from(count));
        Some(described)
    }

    #[test]
    fn planes_are_pages_or_channels_where_a_description_says_so() {
        let axes = |axes: &str, shape: &str| format!("{{\"shape\": {shape}, \"axes\": \"{axes}\"}}\0");
        let ome = |sizes: &str, channels: &str| {
            format!("<OME><Image><Pixels DimensionOrder=\"XYCZT\" {sizes}>{channels}</Pixels></Image></OME>")
        };
        let single = "<Channel SamplesPerPixel=\"1\"/>";
        for (description, expected) in [
            (axes("TYX", "[4, 8, 9]"), Some(Planes::Pages)),
            (axes("ZYX", "[4, 8, 9]"), Some(Planes::Pages)),
            (axes("TZYX", "[2, 4, 8, 9]"), Some(Planes::Pages)),
            (axes("QYX", "[4, 8, 9]"), Some(Planes::Pages)),
            (axes("CYX", "[4, 8, 9]"), Some(Planes::Channels)),
            (axes("TCYX", "[2, 4, 8, 9]"), Some(Planes::Channels)),
            (axes("SYX", "[4, 8, 9]"), None),
            (axes("TSYX", "[2, 4, 8, 9]"), None),
            (axes("TYX", "[5, 8, 9]"), None),
            (axes("TCYX", "[4, 8, 9]"), None),
            ("{\"shape\": [4, 8, 9]}".to_owned(), None),
            (axes("YX", "[8, 9]"), None),
            (axes("CXY", "[4, 8, 9]"), None),
            ("a cat".to_owned(), None),
            ("ImageJ=1\nimages=4\nframes=4\n".to_owned(), Some(Planes::Pages)),
            ("ImageJ=1\nimages=4\nslices=2\nframes=2\n".to_owned(), Some(Planes::Pages)),
            ("ImageJ=1\nimages=4\nchannels=4\nslices=1\n".to_owned(), None),
            ("ImageJ=1\nimages=8\nslices=8\n".to_owned(), None),
            (ome("SizeC=\"1\" SizeZ=\"1\" SizeT=\"4\"", ""), Some(Planes::Pages)),
            (ome("SizeC=\"1\" SizeZ=\"4\" SizeT=\"1\"", single), Some(Planes::Pages)),
            (ome("SizeC=\"4\" SizeZ=\"1\" SizeT=\"1\"", &single.repeat(4)), Some(Planes::Channels)),
            (ome("SizeC=\"4\" SizeZ=\"1\" SizeT=\"1\"", "<Channel SamplesPerPixel=\"4\"/>"), None),
            (ome("SizeC=\"4\" SizeZ=\"1\" SizeT=\"1\"", &"<Channel/>".repeat(4)), None),
        ] {
            assert_eq!(described_by(&description, 4), expected, "{description}");
        }
    }
}
