//! XMP and other segments of a JPEG about its video or gain map, which is left out.

use std::fs::File;
use std::io::{Read, Seek, Write};

use crate::harness::project;
use codec::{self, Decoded, Format, Remark, Target};
use memchr::memmem;

use super::{LIMITS, TARGET, decode, encode};

const XMP: &[u8] = b"http://ns.adobe.com/xap/1.0/\0";
const EXTENDED_XMP: &[u8] = b"http://ns.adobe.com/xmp/extension/\0";
const GAIN_MAP: &[u8] = b"urn:iso:std:iso:ts:21496:-1\0";

/// References to the video or the gain map: in attributes, in elements, and in a container.
const FALSE: [&str; 4] = [
    " GCamera:MotionPhoto=\"1\" GCamera:MicroVideoOffset=\"2024\"",
    " hdrgm:Version=\"1.0\"",
    "<hdrgm:GainMapMax><rdf:Seq><rdf:li>2.3</rdf:li></rdf:Seq></hdrgm:GainMapMax>",
    "<Container:Directory><rdf:Seq><rdf:li rdf:parseType=\"Resource\"><Container:Item Item:Semantic=\"MotionPhoto\" \
     Item:Mime=\"video/mp4\" Item:Length=\"2024\"/></rdf:li></rdf:Seq></Container:Directory>",
];

/// Returns a packet with these attributes and elements in addition to the ones that stay.
fn packet([first, second, third, last]: [&str; 4]) -> String {
    format!(
        "<x:xmpmeta xmlns:x=\"adobe:ns:meta/\"><rdf:RDF xmlns:rdf=\"http://www.w3.org/1999/02/22-rdf-syntax-ns#\">\
         <rdf:Description rdf:about=\"\" xmlns:Container=\"http://ns.google.com/photos/1.0/container/\" \
         xmlns:Item=\"http://ns.google.com/photos/1.0/container/item/\" xmlns:dc=\"http://purl.org/dc/elements/1.1/\" \
         xmlns:GCamera=\"http://ns.google.com/photos/1.0/camera/\" xmlns:hdrgm=\"http://ns.adobe.com/hdr-gain-map/1.0/\"\
         {first} dc:source=\"keep me\"{second}>{third}<dc:title>and me</dc:title>{last}</rdf:Description></rdf:RDF></x:xmpmeta>"
    )
}

fn plain() -> Vec<u8> {
    std::fs::read(project().join("tests/data/jpeg/420.jpg")).unwrap()
}

/// Returns the plain JPEG with segments of these markers and contents, and a video after it.
fn with(segments: &[(u8, &[u8])]) -> Vec<u8> {
    let mut file = plain();
    let segments: Vec<u8> = segments
        .iter()
        .flat_map(|(marker, content)| {
            [&[0xff, *marker][..], &(content.len() as u16 + 2).to_be_bytes(), content].concat()
        })
        .collect();
    file.splice(2..2, segments);
    file.extend(b"\0\0\0\x18ftypmp42 a video");
    file
}

/// Treats the file as decoded by a GPU that encodes the plain JPEG, as far as the codec is
/// concerned.
fn by_gpu(file: &[u8]) -> Vec<u8> {
    let mut input = tempfile::tempfile().unwrap();
    input.write_all(file).unwrap();
    input.rewind().unwrap();
    let mut buffer = Vec::new();
    let opened = codec::open(&mut input, &mut buffer, &LIMITS, &TARGET).unwrap();
    let jpeg = opened.compressed(&TARGET).expect("a GPU can do it");
    let decoded = opened.pass_on(&mut vec![0; jpeg.slot_bytes() as usize]).map_err(|_| ()).unwrap();
    let mut output: File = tempfile::tempfile().unwrap();
    codec::write_encoded(&decoded, &plain(), &mut output).unwrap();
    output.rewind().unwrap();
    let mut written = Vec::new();
    output.read_to_end(&mut written).unwrap();
    written
}

fn written(file: &[u8], to: Format) -> (Decoded, Vec<u8>) {
    let target = Target { format: Some(to), ..TARGET };
    let (decoded, slot) = decode(file, &target).unwrap();
    let written = encode(&decoded, slot, &target).unwrap();
    (decoded, written)
}

fn has(file: &[u8], text: &[u8]) -> bool {
    memmem::find(file, text).is_some()
}

#[test]
fn what_tells_of_a_video_or_a_gain_map_goes_in_every_format_and_the_rest_stays() {
    let xmp = [XMP, packet(FALSE).as_bytes()].concat();
    let file = with(&[(0xe1, &xmp), (0xe2, &[GAIN_MAP, &[0; 4]].concat())]);
    let expected = packet([""; 4]).into_bytes();
    let outputs = [Format::Jpeg, Format::Png, Format::Tiff, Format::WebP].map(|to| written(&file, to).1);
    for written in outputs.into_iter().chain([by_gpu(&file)]) {
        let (again, _) = decode(&written, &TARGET).unwrap();
        assert_eq!(again.metadata.xmp.as_deref(), Some(&expected[..]), "{}", again.format);
        assert!(!has(&written, GAIN_MAP), "{}", again.format);
    }
}

#[test]
fn damaged_xmp_that_tells_of_a_video_is_left_out_with_a_remark() {
    let damaged = packet(FALSE).replace("</rdf:RDF>", "");
    let (decoded, written) = written(&with(&[(0xe1, &[XMP, damaged.as_bytes()].concat())]), Format::Jpeg);
    assert_eq!(decoded.remarks(&TARGET), [Remark::WithoutVideo, Remark::WithoutMetadata]);
    assert!(!has(&written, XMP));
}

#[test]
fn an_extension_stays_unless_it_tells_of_a_video_and_is_announced_only_where_it_is() {
    let announced =
        [" xmlns:xmpNote=\"http://ns.adobe.com/xmp/note/\" xmpNote:HasExtendedXMP=\"0123\"", "", "", ""];
    let quiet = [" xmlns:xmpNote=\"http://ns.adobe.com/xmp/note/\"", "", "", ""];
    let main = [XMP, packet(announced).as_bytes()].concat();
    let extension = |text: &str| [EXTENDED_XMP, &[b'0'; 40], text.as_bytes()].concat();
    let xmp =
        |file: &[u8]| String::from_utf8(decode(file, &TARGET).unwrap().0.metadata.xmp.unwrap()).unwrap();
    for (text, stays) in [("<a/>", true), ("<a GCamera:MotionPhoto='1'/>", false)] {
        let file = with(&[(0xe1, &main), (0xe1, &extension(text))]);
        let (decoded, jpeg) = written(&file, Format::Jpeg);
        assert_eq!(has(&jpeg, EXTENDED_XMP), stays);
        assert_eq!(has(&jpeg, packet(announced).as_bytes()), stays);
        assert_eq!(has(&jpeg, packet(quiet).as_bytes()), !stays);
        assert_eq!(decoded.remarks(&TARGET).contains(&Remark::WithoutMetadata), !stays);
        assert_eq!(xmp(&written(&file, Format::Png).1), packet(quiet));
    }
}
