//! Descriptions of how the samples are arranged, by tifffile as JSON and by microscopes as OME-XML.
//!
//! Source of the latter:
//! <https://docs.openmicroscopy.org/ome-model/latest/ome-tiff/specification.html>. Readers go by
//! them rather than by the tags.

use std::str;

use serde::Deserialize;

/// The fields of tifffile's description of the pictures in a file.
#[derive(Deserialize)]
pub(crate) struct Series {
    /// The sizes of the array of all pictures' samples.
    pub(crate) shape: Vec<u64>,
    /// Its dimensions, a letter each.
    #[serde(default)]
    pub(crate) axes: String,
    /// Whether pictures follow the first one without a page of their own.
    #[serde(default)]
    pub(crate) truncated: bool,
}

/// Changes between the picture that is read and the one that is written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Change {
    /// The samples of a pixel, before and after.
    pub(crate) samples: (usize, usize),
    /// Whether the samples were in planes, and are together in the output.
    pub(crate) planes: bool,
    /// Whether 16-bit samples become 8-bit.
    pub(crate) reduced: bool,
    /// Whether samples that were not levels become levels.
    pub(crate) to_levels: bool,
    /// Whether samples keep the number of their levels.
    pub(crate) keeps_levels: bool,
    /// Whether the picture leaves the others of its file.
    pub(crate) leaves: bool,
}

impl Change {
    fn is_of_samples(self) -> bool {
        self.samples.0 != self.samples.1
    }
}

/// The text before the number of used bits of a sample.
const BITS: &str = "SignificantBits=\"";

/// More bytes than tifffile's description of one picture has.
///
/// Once read, JSON may take many times its length.
const MAX_JSON: usize = 1 << 20;

/// Reads tifffile's description.
pub(crate) fn series(text: &[u8]) -> Option<Series> {
    // An array would be taken for the fields in their order.
    let text = content(text);
    if text.starts_with(b"{") && text.len() <= MAX_JSON { serde_json::from_slice(text).ok() } else { None }
}

/// Returns a description without the parts that become false; `None` if there is no other part.
pub(crate) fn description(text: Vec<u8>, change: Change) -> Option<Vec<u8>> {
    if is_ome(&text) {
        if change.leaves { None } else { ome(text, change) }
    } else if change.is_of_samples() || change.planes || change.leaves {
        without_shape(text)
    } else {
        Some(text)
    }
}

/// Removes the array's shape from tifffile's description.
///
/// Old versions wrote the shape alone, and as Python instead of JSON.
fn without_shape(text: Vec<u8>) -> Option<Vec<u8>> {
    if text.starts_with(b"shape=(") {
        return None;
    }
    if series(&text).is_none() {
        return Some(text);
    }
    let mut fields: serde_json::Map<_, _> = serde_json::from_slice(content(&text)).ok()?;
    fields.retain(|name, _| !["shape", "axes", "truncated"].contains(&name.as_str()));
    let rest = serde_json::to_vec(&fields).ok().filter(|_| !fields.is_empty())?;
    Some([&rest[..], b"\0"].concat())
}

/// Returns the text before the zero that ends it.
fn content(text: &[u8]) -> &[u8] {
    text.split(|&byte| byte == 0).next().unwrap_or_default().trim_ascii()
}

/// Returns whether a description is OME-XML.
pub(crate) fn is_ome(text: &[u8]) -> bool {
    let content = content(text);
    content.starts_with(b"<") && content.ends_with(b"OME>")
}

/// Returns the number of used bits of all samples in OME-XML; `None` if they differ.
pub(crate) fn significant_bits(xml: &[u8]) -> Option<u32> {
    let all = str::from_utf8(xml).ok()?.split(BITS).skip(1).map(|rest| rest.split('"').next()?.parse().ok());
    let all: Option<Vec<u32>> = all.collect();
    let (first, rest) = all.as_ref()?.split_first()?;
    rest.iter().all(|other| other == first).then_some(*first)
}

/// Returns whether OME-XML describes pictures in several files.
pub(crate) fn has_several_files(xml: &[u8]) -> bool {
    let Ok(text) = str::from_utf8(xml) else { return false };
    let mut names = text.split(" FileName=\"").skip(1).filter_map(|rest| rest.split('"').next());
    let first = names.next();
    names.any(|name| Some(name) != first)
}

/// Returns whether a description is OME-XML of several channels in every picture.
pub(crate) fn has_channels(description: &[u8]) -> bool {
    let text = str::from_utf8(description).ok().filter(|_| is_ome(description)).unwrap_or_default();
    let mut pixels = elements(text).filter(|element| is_of(element, "Pixels")).peekable();
    let has_several = |element| {
        let count = attribute(element, "SizeC").and_then(|size| size.trim().parse::<u64>().ok());
        count.is_some_and(|count| count > 1)
    };
    pixels.peek().is_some() && pixels.all(has_several)
}

/// Returns whether OME-XML only names another file that has the metadata.
pub(crate) fn is_elsewhere(xml: &[u8]) -> bool {
    str::from_utf8(xml).is_ok_and(|text| elements(text).any(|element| is_of(element, "BinaryOnly")))
}

/// Corrects the elements about pixels and channels.
///
/// Returns `None` if the samples of a pixel change and are not one channel.
fn ome(xml: Vec<u8>, change: Change) -> Option<Vec<u8>> {
    let Ok(text) = str::from_utf8(&xml) else { return (!change.is_of_samples()).then_some(xml) };
    let [size, samples] = ["SizeC", "SamplesPerPixel"]
        .map(|name| <[usize; 2]>::from(change.samples).map(|count| format!(" {name}=\"{count}\"")));
    if change.is_of_samples() && !is_one_channel(text, &size[0], &samples[0]) {
        return None;
    }
    let corrected = elements(text).map(|element| {
        if is_of(element, "Pixels") {
            pixels(element, change).replace(&size[0], &size[1])
        } else if is_of(element, "Channel") {
            element.replace(&samples[0], &samples[1])
        } else {
            element.to_owned()
        }
    });
    Some(corrected.collect::<String>().into_bytes())
}

/// Returns whether all samples of a pixel are one channel, in every picture of OME-XML.
///
/// The attributes state the number of samples.
fn is_one_channel(xml: &str, size: &str, samples: &str) -> bool {
    let [of_pixels, of_channels] = ["Pixels", "Channel"]
        .map(|name| elements(xml).filter(|element| is_of(element, name)).collect::<Vec<_>>());
    of_pixels.len() == of_channels.len()
        && of_pixels.iter().all(|element| element.contains(size))
        && of_channels.iter().all(|element| element.contains(samples))
}

/// Returns the elements with the text after each, without the `<` that begins them.
pub(crate) fn elements(xml: &str) -> impl Iterator<Item = &str> {
    xml.split_inclusive('<')
}

/// Returns whether an element, without the `<` that begins it, has this name, in any namespace.
pub(crate) fn is_of(element: &str, name: &str) -> bool {
    let end = |c: char| c.is_ascii_whitespace() || matches!(c, '/' | '>');
    let full = element.split(end).next().unwrap_or_default();
    full.rsplit(':').next() == Some(name)
}

/// Returns the value of an attribute of an element.
pub(crate) fn attribute<'e>(element: &'e str, name: &str) -> Option<&'e str> {
    let tag = element.split('>').next().unwrap_or_default();
    let mut found = tag.match_indices(name).filter_map(|(at, _)| {
        let (before, rest) = (tag[..at].chars().next_back()?, &tag[at + name.len()..]);
        let quoted = rest.trim_start().strip_prefix('=')?.trim_start();
        let quote = quoted
            .chars()
            .next()
            .filter(|quote| before.is_ascii_whitespace() && matches!(quote, '"' | '\''))?;
        quoted[1..].split(quote).next()
    });
    found.next()
}

/// Corrects the attributes of an element about pixels to those of the output.
///
/// It has whole bytes, all of their bits used by the new contrast, in little-endian order, and the
/// samples of a pixel together.
fn pixels(element: &str, change: Change) -> String {
    let mut element = element
        .replace("Type=\"bit\"", "Type=\"uint8\"")
        .replace("BigEndian=\"true\"", "BigEndian=\"false\"");
    if change.planes {
        element = element.replace("Interleaved=\"false\"", "Interleaved=\"true\"");
    }
    if change.to_levels {
        for kind in ["int8", "int16", "int32", "uint32", "float", "double"] {
            element = element.replace(&format!(" Type=\"{kind}\""), " Type=\"uint16\"");
        }
    }
    if change.reduced {
        element = element.replace("Type=\"uint16\"", "Type=\"uint8\"");
    }
    let bits = match &element {
        of if of.contains("int32\"") || of.contains("\"float\"") => "32",
        of if of.contains("\"double\"") => "64",
        of if of.contains("int16\"") => "16",
        _ => "8",
    };
    let with_bits =
        |(before, rest): (&str, &str)| Some([before, BITS, bits, &rest[rest.find('"')?..]].concat());
    if change.keeps_levels && !change.reduced {
        return element;
    }
    element.split_once(BITS).and_then(with_bits).unwrap_or(element)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOTHING: Change = Change {
        samples: (3, 3),
        planes: false,
        reduced: false,
        to_levels: false,
        keeps_levels: false,
        leaves: false,
    };
    const SAMPLES: Change = Change { samples: (3, 1), ..NOTHING };
    const REDUCED: Change = Change { reduced: true, ..NOTHING };
    const FEWER: Change = Change { keeps_levels: true, ..NOTHING };
    const PLANES: Change = Change { planes: true, ..NOTHING };
    const ALONE: Change = Change { leaves: true, ..NOTHING };
    const LEVELS: Change = Change { reduced: true, to_levels: true, ..NOTHING };

    fn kept(text: &[u8], change: Change) -> Option<Vec<u8>> {
        description(text.to_vec(), change)
    }

    #[test]
    fn a_shape_goes_if_samples_or_planes_change() {
        for (text, rest) in [
            (&b"{\"axes\": \"SYX\", \"shape\": [3, 4, 5]}\0"[..], None),
            (b"{\"shape\": [4, 5, 3]}", None),
            (b"shape=(3, 4, 5)", None),
            (
                b"{\"shape\": [4, 5, 3], \"by\": {\"shape\": 1}, \"fps\": 0.5, \"truncated\": true}\0\0",
                Some(&b"{\"by\":{\"shape\":1},\"fps\":0.5}\0"[..]),
            ),
        ] {
            assert_eq!(kept(text, NOTHING).as_deref(), Some(text));
            assert_eq!(kept(text, SAMPLES).as_deref(), rest);
            assert_eq!(kept(text, PLANES).as_deref(), rest);
            assert_eq!(kept(text, ALONE).as_deref(), rest);
        }
    }

    #[test]
    fn a_series_in_several_files_is_known() {
        let ome = |names: &[&str]| {
            let of =
                |name: &&str| format!("<TiffData><UUID FileName=\"{name}\">urn:uuid:1</UUID></TiffData>");
            format!("<OME><Image><Pixels>{}</Pixels></Image></OME>", names.iter().map(of).collect::<String>())
        };
        for (names, several) in
            [(&[][..], false), (&["a"], false), (&["a", "a"], false), (&["a", "a", "b"], true)]
        {
            assert_eq!(has_several_files(ome(names).as_bytes()), several, "{names:?}");
        }
    }

    #[test]
    fn metadata_in_another_file_are_known() {
        let companion =
            br#"<?xml version="1.0"?><ome:OME><ome:BinaryOnly MetadataFile="x.companion.ome"/></ome:OME>"#;
        assert!(is_ome(companion) && is_elsewhere(companion));
        assert!(!is_elsewhere(b"<OME><Image Name=\"BinaryOnly\"><Pixels/></Image></OME>"));
        assert_eq!(kept(companion, SAMPLES).as_deref(), Some(&companion[..]));
    }

    #[test]
    fn other_descriptions_stay_as_they_are() {
        for text in [
            &b""[..],
            b"\0\0",
            b"a cat",
            b"\xff\0\xfe",
            b"the shape=(3, 4)",
            b"{\"shape\": \"round\"}",
            b"[[3, 4], true]",
            b"{\"region\": {\"shape\": [3, 4]}}",
            b"<svg><Pixels Type=\"bit\"/></svg>",
            b"made for OME>",
        ] {
            for change in [NOTHING, SAMPLES, PLANES] {
                assert_eq!(kept(text, change).as_deref(), Some(text));
            }
        }
    }

    #[test]
    fn ome_of_one_channel_is_corrected_if_samples_change() {
        let one = r#"<OME><Image><Pixels SizeC="3" PhysicalSizeX="0.5"><Channel ID="0" SamplesPerPixel="3"/></Pixels></Image></OME>"#;
        let gray = one.replace("SizeC=\"3\"", "SizeC=\"1\"").replace("Pixel=\"3\"", "Pixel=\"1\"");
        assert_eq!(kept(one.as_bytes(), SAMPLES), Some(gray.into_bytes()));
        for (part, other) in [
            ("SizeC=\"3\"", "SizeC=\"6\""),
            ("Pixel=\"3\"", "Pixel=\"1\""),
            ("<Channel ID=\"0\" SamplesPerPixel=\"3\"/>", ""),
            ("</Pixels>", "<Channel SamplesPerPixel=\"3\"/></Pixels>"),
            ("</Pixels>", "<Channel/></Pixels>"),
        ] {
            let other = one.replace(part, other);
            assert_ne!(other, one);
            assert_eq!(kept(other.as_bytes(), SAMPLES), None, "{other}");
        }
    }

    #[test]
    fn ome_without_channels_goes_if_samples_change_and_is_corrected_otherwise() {
        let ome = |pixels: &str| {
            let xml = format!(
                "<?xml version=\"1.0\"?><OME><Detector Type=\"bit\"/>a > b<{pixels} SizeC=\"3\"><BinData BigEndian=\"true\"/></Pixels></OME>\n\0"
            );
            xml.into_bytes()
        };
        for (before, change, after) in [
            (
                "Pixels Type=\"uint16\" SignificantBits=\"12\"",
                NOTHING,
                "Pixels Type=\"uint16\" SignificantBits=\"16\"",
            ),
            (
                "Pixels Type=\"uint16\" SignificantBits=\"12\"",
                FEWER,
                "Pixels Type=\"uint16\" SignificantBits=\"12\"",
            ),
            (
                "ome:Pixels\nSignificantBits=\"1\" Type=\"bit\"",
                NOTHING,
                "ome:Pixels\nSignificantBits=\"8\" Type=\"uint8\"",
            ),
            (
                "Pixels Type=\"uint16\" SignificantBits=\"12\"",
                REDUCED,
                "Pixels Type=\"uint8\" SignificantBits=\"8\"",
            ),
            (
                "Pixels Type=\"float\" SignificantBits=\"16\"",
                NOTHING,
                "Pixels Type=\"float\" SignificantBits=\"32\"",
            ),
            (
                "Pixels Type=\"double\" SignificantBits=\"64\"",
                LEVELS,
                "Pixels Type=\"uint8\" SignificantBits=\"8\"",
            ),
            ("Pixels BigEndian=\"true\"", NOTHING, "Pixels BigEndian=\"false\""),
            ("Pixels Interleaved=\"false\"", NOTHING, "Pixels Interleaved=\"false\""),
            ("Pixels Interleaved=\"false\"", PLANES, "Pixels Interleaved=\"true\""),
        ] {
            assert_eq!(kept(&ome(before), change), Some(ome(after)), "{before}");
            assert_eq!(kept(&ome(before), SAMPLES), None);
        }
        assert_eq!(kept(b"<\xffOME>", SAMPLES), None);
        assert_eq!(kept(b"<OME></OME>", ALONE), None);
        assert_eq!(kept(b"<\xffOME>", PLANES).as_deref(), Some(&b"<\xffOME>"[..]));
    }
}
