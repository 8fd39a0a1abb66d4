//! XMP packets (ISO 16684-1) without their statements about parts that are left out of a JPEG.
//!
//! These are its video, its gain map, and the list of the parts after the picture in the file.
//! Readers would look for them. Everything else stays byte for byte.

use std::borrow::Cow;
use std::ops::Range;

use memchr::memmem;
use roxmltree::{Document, Node, ParsingOptions};

/// More nodes than any packet in a segment of a JPEG has; keeps damaged ones from costing memory.
const MAX_NODES: u32 = 1 << 15;

/// Google's properties of the camera, some of which are about a video.
const CAMERA: &str = "http://ns.google.com/photos/1.0/camera/";

/// The first words of the names of properties about a video.
const OF_A_VIDEO: [&str; 2] = ["MotionPhoto", "MicroVideo"];

/// Namespaces of properties about the parts after the picture: containers and their items.
const OF_CONTAINERS: [&str; 4] = [
    "http://ns.google.com/photos/1.0/container/",
    "http://ns.google.com/photos/1.0/container/item/",
    "http://ns.google.com/photos/dd/1.0/container/",
    "http://ns.google.com/photos/dd/1.0/item/",
];

/// Namespaces of properties about gain maps.
const OF_GAIN_MAPS: [&str; 2] =
    ["http://ns.adobe.com/hdr-gain-map/1.0/", "http://ns.apple.com/HDRGainMap/1.0/"];

/// The note in a JPEG's packet that it goes on in other segments.
const NOTE: &str = "http://ns.adobe.com/xmp/note/";
const HAS_EXTENSION: &str = "HasExtendedXMP";

/// Returns a packet without statements about parts that are left out.
///
/// Its own extension is one of these if it `is_cut`.
///
/// `None` if the packet has such statements and cannot be corrected, because it is damaged.
pub(crate) fn corrected(packet: &[u8], is_cut: bool) -> Option<Cow<'_, [u8]>> {
    let is_false = tells_of_more(packet) || is_cut && mentions(packet, HAS_EXTENSION);
    if !is_false {
        return Some(Cow::Borrowed(packet));
    }
    // Some writers end the packet as a text in C.
    let text = str::from_utf8(packet).ok()?.trim_end_matches('\0');
    let options = ParsingOptions { nodes_limit: MAX_NODES, ..ParsingOptions::default() };
    let document = Document::parse_with_options(text, options).ok()?;
    let (mut kept, mut end) = (Vec::with_capacity(packet.len()), 0);
    for cut in cuts(text, &document, is_cut) {
        kept.extend(&packet[end..cut.start]);
        end = cut.end;
    }
    kept.extend(&packet[end..]);
    Some(Cow::Owned(kept))
}

/// Returns whether a packet, or a part of one, may mention parts that are left out.
pub(crate) fn tells_of_more(packet: &[u8]) -> bool {
    OF_A_VIDEO.into_iter().chain(OF_CONTAINERS).any(|name| mentions(packet, name))
        || tells_of_gain_map(packet)
}

/// Returns whether a packet, or a part of one, mentions a gain map.
pub(crate) fn tells_of_gain_map(packet: &[u8]) -> bool {
    OF_GAIN_MAPS.into_iter().any(|name| mentions(packet, name))
}

fn mentions(packet: &[u8], name: &str) -> bool {
    memmem::find(packet, name.as_bytes()).is_some()
}

/// Returns the ranges to be removed, in their order.
fn cuts(text: &str, document: &Document<'_>, is_cut: bool) -> Vec<Range<usize>> {
    let mut cuts: Vec<Range<usize>> = Vec::new();
    let mut end = 0;
    for node in document.descendants().filter(Node::is_element) {
        let place = node.range();
        if place.start < end {
            continue;
        }
        let name = node.tag_name();
        if goes(name.namespace(), name.name(), is_cut) && node != document.root_element() {
            end = place.end;
            cuts.push(cut(text, place));
        } else {
            let attributes = node.attributes();
            let going = attributes.filter(|attribute| goes(attribute.namespace(), attribute.name(), is_cut));
            cuts.extend(going.map(|attribute| cut(text, attribute.range())));
        }
    }
    cuts
}

/// Returns whether an element or attribute of this name is removed.
fn goes(namespace: Option<&str>, name: &str, is_cut: bool) -> bool {
    match namespace {
        Some(CAMERA) => OF_A_VIDEO.iter().any(|start| name.starts_with(start)),
        Some(NOTE) => is_cut && name == HAS_EXTENSION,
        Some(namespace) => OF_CONTAINERS.contains(&namespace) || OF_GAIN_MAPS.contains(&namespace),
        None => false,
    }
}

/// Returns the range of an attribute and the space before it, or of an element and its indent.
fn cut(text: &str, place: Range<usize>) -> Range<usize> {
    let before = text[..place.start].trim_end();
    let is_spaced =
        before.len() < place.start && !text[place.start..].starts_with('<') || before.ends_with('>');
    let start = if is_spaced { before.len() } else { place.start };
    start..place.end
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::tests::noise;

    const NAMESPACES: &str = "xmlns:x='adobe:ns:meta/' xmlns:r='http://www.w3.org/1999/02/22-rdf-syntax-ns#' \
        xmlns:C='http://ns.google.com/photos/1.0/container/' xmlns:Item='http://ns.google.com/photos/1.0/container/item/' \
        xmlns:GCamera='http://ns.google.com/photos/1.0/camera/' xmlns:hdrgm='http://ns.adobe.com/hdr-gain-map/1.0/' \
        xmlns:xmpNote='http://ns.adobe.com/xmp/note/' xmlns:dc='http://purl.org/dc/elements/1.1/'";

    /// A packet with this text in the start tag of its description, and this one inside.
    fn packet(attributes: &str, inside: &str) -> String {
        format!(
            "<?xpacket begin='\u{feff}' id='W5M0MpCehiHzreSzNTczkc9d'?>\n<x:xmpmeta {NAMESPACES}>\n <r:RDF>\n  \
             <r:Description r:about=''{attributes}>{inside}</r:Description>\n </r:RDF>\n</x:xmpmeta>\n   \n<?xpacket end='w'?>"
        )
    }

    fn cleaned(packet: &str, is_cut: bool) -> String {
        String::from_utf8(corrected(packet.as_bytes(), is_cut).unwrap().into_owned()).unwrap()
    }

    #[test]
    fn attributes_and_elements_about_what_is_left_out_go_and_the_rest_stays() {
        let directory = "<C:Directory><r:Seq>\n<r:li r:parseType='Resource'><C:Item Item:Mime='video/mp4'/></r:li></r:Seq></C:Directory>";
        for (attributes, inside, kept_attributes, kept_inside) in [
            (
                " GCamera:MotionPhoto='1'\n  dc:source = \"a>b\" GCamera:MicroVideoOffset='9'",
                "",
                "\n  dc:source = \"a>b\"",
                "",
            ),
            (" GCamera:BurstID='7' hdrgm:Version='1.0'", "", " GCamera:BurstID='7'", ""),
            ("", "\n   <hdrgm:GainMapMax><r:Seq><r:li>1</r:li></r:Seq></hdrgm:GainMapMax>\n  ", "", "\n  "),
            (
                "",
                &format!("\n   {directory}\n   <dc:source>&lt;é</dc:source>\n  "),
                "",
                "\n   <dc:source>&lt;é</dc:source>\n  ",
            ),
            ("", "text <GCamera:MotionPhoto>1</GCamera:MotionPhoto> text", "", "text  text"),
            ("", "<!-- MotionPhoto --><dc:a GCamera:MicroVideo='1'/>", "", "<!-- MotionPhoto --><dc:a/>"),
            ("", "<other xmlns='http://ns.adobe.com/hdr-gain-map/1.0/'/>", "", ""),
            (
                "",
                "<other xmlns:GCamera='urn:b' GCamera:MotionPhoto='1'/>",
                "",
                "<other xmlns:GCamera='urn:b' GCamera:MotionPhoto='1'/>",
            ),
        ] {
            let expected = packet(kept_attributes, kept_inside);
            let found = cleaned(&packet(attributes, inside), false);
            assert_eq!(found, expected);
            assert_eq!(cleaned(&found, false), found, "once is enough");
        }
    }

    #[test]
    fn an_extension_is_told_only_as_long_as_it_is_there() {
        let whole = packet(" xmpNote:HasExtendedXMP='0123'", "");
        assert_eq!(cleaned(&whole, false), whole);
        assert_eq!(cleaned(&whole, true), packet("", ""));
    }

    #[test]
    fn what_cannot_be_corrected_stays_only_if_it_need_not_be() {
        for damaged in ["<a><b></a>", "<dc:a/>", "", "\0"] {
            assert_eq!(corrected(damaged.as_bytes(), true).as_deref(), Some(damaged.as_bytes()));
            assert_eq!(corrected(format!("{damaged}MotionPhoto").as_bytes(), true), None);
        }
        assert_eq!(corrected(b"<a>\xffMicroVideo</a>", false), None);
        let ended = packet(" hdrgm:Version='1'", "") + "\0\0";
        assert_eq!(cleaned(&ended, false), packet("", "") + "\0\0");
    }

    #[test]
    fn whatever_is_corrected_is_well_formed_and_tells_of_nothing_more() {
        let whole = packet(
            " GCamera:MotionPhoto='1' hdrgm:Version='1.0' dc:a='b'",
            "<C:Directory><r:Seq><r:li><C:Item Item:Mime='a'/></r:li></r:Seq></C:Directory> <dc:b hdrgm:C='1'>x</dc:b>",
        );
        let marks = [
            "<",
            ">",
            "/",
            "'",
            " ",
            "hdrgm:",
            "C:",
            "</C:Item>",
            "<C:Item>",
            "<!--",
            "]]>",
            "MotionPhoto",
            "é",
        ];
        let (choices, mut corrections) = (noise(40_000, 3), 0);
        for choice in choices.as_chunks::<4>().0 {
            let place = |high: u8, low: u8| usize::from(u16::from_be_bytes([high, low])) % whole.len();
            let (from, mark) = (place(choice[0], choice[1]), marks[usize::from(choice[2]) % marks.len()]);
            let to = (from + usize::from(choice[3] % 8)).min(whole.len());
            let mut mutant = whole.clone().into_bytes();
            mutant.splice(from..to, mark.bytes());
            let Some(found) = corrected(&mutant, false) else { continue };
            if found == mutant {
                continue;
            }
            corrections += 1;
            let text = str::from_utf8(&found).unwrap();
            let document = Document::parse(text).unwrap_or_else(|error| panic!("{error}: {text}"));
            assert!(cuts(text, &document, false).is_empty(), "{text}");
            let mut rest = mutant.iter();
            assert!(found.iter().all(|byte| rest.any(|other| other == byte)), "nothing is added");
        }
        assert!(corrections > 1000, "{corrections}");
    }

    #[test]
    fn depth_does_no_harm() {
        let deep = ["<a>".repeat(20_000), "MotionPhoto".into(), "</a>".repeat(20_000)].concat();
        let _ = corrected(deep.as_bytes(), false);
    }
}
