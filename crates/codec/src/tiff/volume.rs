//! Whether the pages of a stack are the slices of one volume, as far as the description of the first tells.

use std::str;

use super::arrangement::{self, attribute, elements, is_of};
use super::imagej;

/// Returns whether all pages are of one channel and one time.
pub(super) fn is_one(description: &[u8]) -> bool {
    if imagej::is_description(description) {
        let sizes = ["channels", "frames"].map(|name| imagej::number(description, name));
        return sizes.iter().flatten().all(|&size| size <= 1);
    }
    if arrangement::is_ome(description) {
        return str::from_utf8(description).is_ok_and(is_one_in_ome);
    }
    let Some(series) = arrangement::series(description) else { return true };
    let several =
        |(axis, &size): (char, &u64)| size > 1 && !matches!(axis, 'Z' | 'Y' | 'X' | 'S' | 'I' | 'Q');
    series.axes.len() != series.shape.len() || !series.axes.chars().zip(&series.shape).any(several)
}

/// Returns whether OME-XML tells of one image of one channel and time. The samples of a pixel count as channels.
fn is_one_in_ome(xml: &str) -> bool {
    let mut pixels = elements(xml).filter(|element| is_of(element, "Pixels"));
    let mut channels = elements(xml).filter(|element| is_of(element, "Channel"));
    let number = |element, name| attribute(element, name).and_then(|value| value.trim().parse::<u64>().ok());
    let (Some(first), None) = (pixels.next(), pixels.next()) else { return false };
    let samples = channels.next().and_then(|channel| number(channel, "SamplesPerPixel")).unwrap_or(1);
    number(first, "SizeT").is_none_or(|times| times <= 1)
        && number(first, "SizeC").is_none_or(|channels| channels <= samples)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn channels_and_times_are_not_slices() {
        let ome = |sizes: &str, channel: &str| {
            format!(
                "<?xml version=\"1.0\"?><OME><Image><Pixels ID=\"0\" {sizes}>{channel}</Pixels></Image></OME>"
            )
        };
        let one = "SizeC=\"1\" SizeZ=\"9\" SizeT=\"1\"";
        for text in [
            "ImageJ=1.53\nimages=9\nslices=9\n\0".to_owned(),
            "ImageJ=1.53\nimages=9\nchannels=1\nslices=9\nframes=1\n\0".to_owned(),
            "{\"shape\": [9, 5, 4], \"axes\": \"ZYX\"}".to_owned(),
            "{\"shape\": [1, 9, 1, 5, 4], \"axes\": \"TZCYX\"}".to_owned(),
            "{\"shape\": [9, 5, 4]}".to_owned(),
            "a scan".to_owned(),
            ome(one, ""),
            ome("SizeC=\"3\" SizeZ=\"9\" SizeT=\"1\"", "<Channel SamplesPerPixel=\"3\"/>"),
        ] {
            assert!(is_one(text.as_bytes()), "{text}");
        }
        for text in [
            "ImageJ=1.53\nimages=18\nchannels=2\nslices=9\n\0".to_owned(),
            "ImageJ=1.53\nimages=18\nslices=9\nframes=2\0".to_owned(),
            "{\"shape\": [2, 9, 5, 4], \"axes\": \"CZYX\"}".to_owned(),
            "{\"shape\": [9, 5, 4], \"axes\": \"TYX\"}".to_owned(),
            ome("SizeC=\"2\" SizeZ=\"9\" SizeT=\"1\"", "<Channel SamplesPerPixel=\"1\"/>"),
            ome("SizeC=\"1\" SizeZ=\"9\" SizeT=\"4\"", ""),
            ome(one, "").replace("</Image>", "</Image><Image><Pixels SizeC=\"1\"></Pixels></Image>"),
        ] {
            assert!(!is_one(text.as_bytes()), "{text}");
        }
    }
}
