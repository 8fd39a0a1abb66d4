//! JPEGs decoded to their own planes.
//!
//! The tests check which data of the source are kept, and which data equalizing luma leaves
//! unchanged.

use std::io::{Read, Seek, Write};

use crate::harness::project;
use codec::baseline::BaselinePicture;
use codec::{self, BytesBehind, Format, JpegQuality, Remark, Target};
use equalize::colour::Gray;
use equalize::{Layout, Pixel};

use super::{LIMITS, TARGET, decode, encode, pixels};

mod hue;

fn file(name: &str) -> Vec<u8> {
    std::fs::read(project().join("tests/data/codec").join(name)).unwrap()
}

/// Returns the contents of all segments with this marker before the scan, without their lengths.
fn segments(jpeg: &[u8], marker: u8) -> Vec<Vec<u8>> {
    let (mut found, mut at) = (Vec::new(), 2);
    while jpeg[at + 1] != 0xda {
        let length = usize::from(u16::from_be_bytes([jpeg[at + 2], jpeg[at + 3]]));
        if jpeg[at + 1] == marker {
            found.push(jpeg[at + 4..at + 2 + length].to_vec());
        }
        at += 2 + length;
    }
    found
}

/// Returns the sampling factors of each component from the frame header.
fn sampling(jpeg: &[u8]) -> Vec<u8> {
    let frame = [0xc0, 0xc1, 0xc2].iter().find_map(|sof| segments(jpeg, *sof).pop()).unwrap();
    frame[6..].chunks(3).map(|component| component[1]).collect()
}

/// An RGB picture with some structure, as PPM.
fn ppm(width: usize, height: usize) -> Vec<u8> {
    let mut file = format!("P6 {width} {height} 255\n").into_bytes();
    for y in 0..height {
        for x in 0..width {
            file.extend([(x * 5 + y) as u8, (y * 3) as u8 ^ (x as u8 >> 2), ((x * y) / 7) as u8]);
        }
    }
    file
}

fn jpeg(width: usize, height: usize) -> Vec<u8> {
    let target = Target { format: Some(Format::Jpeg), ..TARGET };
    let (decoded, slot) = decode(&ppm(width, height), &target).unwrap();
    encode(&decoded, slot, &target).unwrap()
}

#[test]
fn luma_is_the_picture() {
    let source = jpeg(45, 31);
    assert_eq!(sampling(&source), [0x22, 0x11, 0x11]);
    let (decoded, slot) = decode(&source, &TARGET).unwrap();
    assert_eq!((decoded.layout.pixel, decoded.layout.width, decoded.layout.height), (Pixel::Gray, 45, 31));
    assert_eq!(slot.len(), 45 * 31);
    let gray = Target { gray: Some(Gray::Luma), ..TARGET };
    let (luma, alone) = decode(&source, &gray).unwrap();
    assert_eq!(luma.layout, decoded.layout);
    assert_eq!(alone, pixels(&decoded, &slot));
}

#[test]
fn a_channel_alone_is_that_of_the_rgb() {
    for source in [jpeg(45, 31), file("peacock.s1x3.jpeg")] {
        let (rgb, colours) = decode(&source, &Target { needs_rgb: true, ..TARGET }).unwrap();
        for (channel, gray) in [Gray::Red, Gray::Green, Gray::Blue].into_iter().enumerate() {
            let target = Target { gray: Some(gray), ..TARGET };
            let (decoded, slot) = decode(&source, &target).unwrap();
            let expected: Vec<u8> = pixels(&rgb, &colours).chunks(3).map(|pixel| pixel[channel]).collect();
            assert_eq!(decoded.layout, Layout { pixel: Pixel::Gray, ..rgb.layout });
            assert!(pixels(&decoded, &slot) == expected, "{gray:?}");
            let written = encode(&decoded, slot, &target).unwrap();
            assert_eq!(decode(&written, &TARGET).unwrap().0.layout.pixel, Pixel::Gray);
            assert_eq!(sampling(&written).len(), 1, "no chroma is written");
        }
    }
}

#[test]
fn untouched_planes_come_back_the_same() {
    // Less than a block, whole blocks, and partial blocks at the edges.
    for (width, height) in [(1, 1), (16, 16), (17, 8), (45, 31), (64, 48)] {
        let (decoded, slot) = decode(&jpeg(width, height), &TARGET).unwrap();
        let written = encode(&decoded, slot.clone(), &TARGET).unwrap();
        let (again, planes) = decode(&written, &TARGET).unwrap();
        assert_eq!(again.layout, decoded.layout);
        let furthest = planes.iter().zip(&slot).map(|(a, b)| a.abs_diff(*b)).max().unwrap();
        assert!(furthest <= 2, "{width}x{height}: a sample moved by {furthest}");
    }
}

#[test]
fn tables_sampling_and_segments_of_the_source_are_kept() {
    for name in [
        "non_interleaved_440_64x64.jpg",
        "weird_sampling_2.jpeg",
        "peacock.s1x3.jpeg",
        "hopper_16bit_qtables.jpg",
    ] {
        let source = file(name);
        let (decoded, slot) = decode(&source, &TARGET).unwrap_or_else(|e| panic!("{name}: {e}"));
        let written = encode(&decoded, slot, &TARGET).unwrap();
        assert_eq!(sampling(&written), sampling(&source), "{name}");
        for marker in (0xe1..=0xed).chain([0xef, 0xfe]) {
            assert_eq!(segments(&written, marker), segments(&source, marker), "{name}, marker {marker:02x}");
        }
        let (again, _) = decode(&written, &TARGET).unwrap();
        assert_eq!(again.metadata, decoded.metadata, "{name}");
    }
}

#[test]
fn only_progressive_jpegs_request_a_workspace() {
    let bytes = |name, target: &Target| {
        let mut opened = tempfile::tempfile().unwrap();
        opened.write_all(&file(name)).unwrap();
        opened.rewind().unwrap();
        let mut buffer = Vec::new();
        let opened = codec::open(&mut opened, &mut buffer, &LIMITS, target).unwrap();
        (opened.workspace().bytes, opened.heap_bytes())
    };
    let (workspace, all) = bytes("peacock.progressive.scan007.jpeg", &TARGET);
    assert!((1..all).contains(&workspace), "{workspace} of {all}");
    assert_eq!(bytes("peacock.s1x3.jpeg", &TARGET).0, 0, "a sequential one is read in one go");
    let to_png = Target { format: Some(Format::Png), ..TARGET };
    assert_eq!(bytes("peacock.progressive.scan007.jpeg", &to_png).0, workspace, "RGB is made of planes");
}

#[test]
fn progressive_stays_progressive() {
    let source = file("peacock.progressive.scan007.jpeg");
    assert_eq!(segments(&source, 0xc2).len(), 1, "the source is progressive");
    let (decoded, slot) = decode(&source, &TARGET).unwrap();
    let written = encode(&decoded, slot, &TARGET).unwrap();
    assert_eq!(segments(&written, 0xc2).len(), 1);
}

#[test]
fn quality_replaces_the_source_tables() {
    let source = jpeg(64, 48);
    let length = |jpeg_quality| {
        let target = Target { jpeg_quality, ..TARGET };
        let (decoded, slot) = decode(&source, &target).unwrap();
        encode(&decoded, slot, &target).unwrap().len()
    };
    assert!(length(JpegQuality::Value(20)) < length(JpegQuality::Keep));
    assert!(length(JpegQuality::Value(100)) > length(JpegQuality::Keep));
}

#[test]
fn other_formats_get_rgb() {
    let target = Target { format: Some(Format::Png), ..TARGET };
    let (decoded, slot) = decode(&jpeg(45, 31), &target).unwrap();
    assert_eq!(decoded.layout.pixel, Pixel::Rgb);
    let original = &ppm(45, 31)[b"P6 45 31 255\n".len()..];
    let off: u64 = slot.iter().zip(original).map(|(a, b)| u64::from(a.abs_diff(*b))).sum();
    assert!(off / (slot.len() as u64) < 24, "on the average {} levels off", off / slot.len() as u64);
    let rgb = Target { needs_rgb: true, ..TARGET };
    let (decoded, slot) = decode(&jpeg(45, 31), &rgb).unwrap();
    assert_eq!(decoded.layout.pixel, Pixel::Rgb);
    assert_eq!(sampling(&encode(&decoded, slot, &rgb).unwrap()), [0x22, 0x11, 0x11]);
}

/// Returns the JPEG as RGB.
///
/// Its JFIF mark is broken, and its component identifiers are R, G and B.
fn as_rgb(source: &[u8]) -> Vec<u8> {
    let [frame, scan] =
        [0xc0, 0xda].map(|marker| source.windows(2).position(|w| w == [0xff, marker]).unwrap());
    let jfif = source.windows(4).position(|w| w == b"JFIF").unwrap();
    let mut rgb = source.to_vec();
    rgb[jfif] = b'X';
    for (i, name) in b"RGB".iter().enumerate() {
        rgb[frame + 10 + 3 * i] = *name;
        rgb[scan + 5 + 2 * i] = *name;
    }
    rgb
}

#[test]
fn a_jfif_segment_too_short_to_count_leaves_rgb_rgb() {
    let rgb = as_rgb(&jpeg(45, 31));
    let short = with_segment(&rgb, 0xe0, b"JFIF\0\x01\x01\x01\0\x48\0\x48");
    let (decoded, slot) = decode(&short, &TARGET).unwrap();
    let samples = pixels(&decoded, &slot).to_vec();
    assert!(samples == decode(&rgb, &TARGET).unwrap().1);
    let written = encode(&decoded, slot, &TARGET).unwrap();
    assert!(segments(&written, 0xe0).is_empty());
    let (again, slot) = decode(&written, &TARGET).unwrap();
    assert_eq!(again.layout.pixel, Pixel::Rgb);
    let near = |(a, b): (&u8, &u8)| a.abs_diff(*b) <= 2;
    assert!(pixels(&again, &slot).iter().zip(&samples).all(near));
}

#[test]
fn gray_is_written_from_every_kind_of_jpeg() {
    let source = jpeg(45, 31);
    let rgb = as_rgb(&source);
    let (decoded, _) = decode(&rgb, &TARGET).unwrap();
    assert_eq!(decoded.layout.pixel, Pixel::Rgb);
    for kind in [source, rgb, file("weird_sampling_2.jpeg"), file("grayscale_long.jpg")] {
        let gray = Target { gray: Some(Gray::Luma), ..TARGET };
        let (decoded, slot) = decode(&kind, &gray).unwrap();
        let written = encode(&decoded, slot, &gray).unwrap();
        assert_eq!(sampling(&written), [0x11]);
        let (again, _) = decode(&written, &TARGET).unwrap();
        assert_eq!(again.layout, decoded.layout);
    }
}

#[test]
fn every_truncation_is_an_error() {
    let source = jpeg(45, 31);
    for length in 0..source.len() {
        assert!(decode(&source[..length], &TARGET).is_err(), "{length} of {} bytes", source.len());
    }
}

/// Returns the file with a segment inserted after SOI.
fn with_segment(jpeg: &[u8], marker: u8, content: &[u8]) -> Vec<u8> {
    let length = (content.len() as u16 + 2).to_be_bytes();
    [&jpeg[..2], &[0xff, marker], &length, content, &jpeg[2..]].concat()
}

#[test]
fn previews_and_trailing_pictures_are_dropped_with_a_remark() {
    let source = jpeg(45, 31);
    let plain = decode(&source, &TARGET).unwrap();
    assert_eq!(plain.0.remarks(&TARGET), []);
    let plain = encode(&plain.0, plain.1, &TARGET).unwrap();
    for padding in [&[0; 100][..], b"\n"] {
        let padded = [&source[..], padding].concat();
        assert_eq!(decode(&padded, &TARGET).unwrap().0.remarks(&TARGET), []);
    }

    let preview = with_segment(&source, 0xe0, b"JFXX\0\x10");
    let behind = [&source[..], &source[..]].concat();
    let map = with_segment(&source, 0xe2, b"urn:iso:std:iso:ts:21496:-1\0\0\0\0\0");
    let map = [&source[..], &map].concat();
    let video = [&source[..], b"\0\0\0\x18ftypmp42\0\0\0\0isommp42"].concat();
    let unknown = [&source[..], b"\nand more"].concat();
    let bytes = Remark::WithoutBytes(BytesBehind(8));
    let png = Target { format: Some(Format::Png), ..TARGET };
    for (with_more, remark) in [
        (preview, Remark::WithoutPreviews),
        (behind, Remark::WithoutPreviews),
        (map, Remark::WithoutGainMap),
        (video, Remark::WithoutVideo),
        (unknown, bytes),
    ] {
        let (decoded, slot) = decode(&with_more, &TARGET).unwrap();
        assert_eq!(decoded.remarks(&TARGET), [remark]);
        assert_eq!(decoded.remarks(&png), [remark]);
        assert!(encode(&decoded, slot, &TARGET).unwrap() == plain);
    }
}

#[test]
fn boxes_about_the_old_pixels_are_left_out() {
    let source = jpeg(45, 31);
    let plain = decode(&source, &TARGET).unwrap();
    let plain = encode(&plain.0, plain.1, &TARGET).unwrap();
    let signed = with_segment(&source, 0xeb, b"JP\0\x01\0\0\0\x01\0\0\0\x0cjumbc2pa");
    let (decoded, slot) = decode(&signed, &TARGET).unwrap();
    assert!(encode(&decoded, slot, &TARGET).unwrap() == plain);
    let other = with_segment(&source, 0xeb, b"HDR_RI ver=11");
    let (decoded, slot) = decode(&other, &TARGET).unwrap();
    assert_eq!(segments(&encode(&decoded, slot, &TARGET).unwrap(), 0xeb).len(), 1);
}

#[test]
fn extended_xmp_is_kept_in_jpeg_and_remarked_elsewhere() {
    let extended = b"http://ns.adobe.com/xmp/extension/\0and so on";
    let (decoded, slot) = decode(&with_segment(&jpeg(45, 31), 0xe1, extended), &TARGET).unwrap();
    let png = Target { format: Some(Format::Png), ..TARGET };
    assert_eq!(decoded.remarks(&png), [Remark::PartOfXmp]);
    assert_eq!(decoded.remarks(&TARGET), []);
    let written = encode(&decoded, slot, &TARGET).unwrap();
    assert!(written.windows(extended.len()).any(|part| part == extended));
}

#[test]
fn jpeg_ls_is_refused_by_name() {
    let file =
        b"\xff\xd8\xff\xf7\0\x0b\x08\0\x04\0\x04\x01\x01\x11\0\xff\xda\0\x08\x01\x01\0\0\0\0\0\xff\xd9";
    let error = decode(file, &TARGET).unwrap_err().to_string();
    assert!(error.starts_with("JPEG-LS"), "{error}");
}

#[test]
fn markers_that_make_no_sense_are_refused() {
    const FRAME: &[u8] = b"\xff\xc0\0\x0b\x08\0\x08\0\x08\x01\x01\x11\0";
    const SCAN: &[u8] = b"\xff\xda\0\x08\x01\x01\0\0\x3f\0\0";
    let why = |parts: &[&[u8]]| {
        let file = [&[&b"\xff\xd8"[..]], parts, &[b"\xff\xd9"]].concat().concat();
        decode(&file, &TARGET).unwrap_err().to_string()
    };
    let flat = [FRAME, b"\xff\xdb\0\x02"].concat();
    let scans = |count: usize| why(&[&flat, &SCAN.repeat(count)]);
    assert!(!scans(300).contains("scans"), "{}", scans(300));
    // Each scan may cost as much as the whole picture, and takes only a few bytes.
    assert!(scans(301).ends_with("it has 301 scans"), "{}", scans(301));
    let empty = b"\xff\xc0\0\x0b\x08\0\0\0\x08\x01\x01\x11\0";
    let short = b"\xff\xc0\0\x0a\x08\0\x08\0\x08\x01\x01\x11";
    let none = b"\xff\xc0\0\x08\x08\0\x08\0\x08\0";
    let refused: [(&[&[u8]], &str); 7] = [
        (&[FRAME], "it has 0 scans"),
        (&[SCAN], "it has no frame header"),
        (&[FRAME, FRAME, SCAN], "it has two frame headers"),
        (&[FRAME, SCAN, b"\xff\xd8"], "a second picture begins inside it"),
        (&[empty, SCAN], "its width or height is 0"),
        (&[short, SCAN], "its frame header has the wrong length"),
        (&[none, SCAN], "its frame header has the wrong length"),
    ];
    for (parts, told) in refused {
        assert!(why(parts).ends_with(told), "{told}: {}", why(parts));
    }
}

#[test]
fn a_profile_in_parts_is_joined_by_their_numbers_and_only_whole() {
    let part = |number: u8, count: u8, text: &[u8]| [&b"ICC_PROFILE\0"[..], &[number, count], text].concat();
    let joined = |parts: [Vec<u8>; 2]| {
        let file = parts.iter().fold(jpeg(45, 31), |file, part| with_segment(&file, 0xe2, part));
        decode(&file, &TARGET).unwrap().0.metadata.icc
    };
    let expected = Some(b"one two".to_vec());
    assert_eq!(joined([part(1, 2, b"one"), part(2, 2, b" two")]), expected);
    assert_eq!(joined([part(2, 2, b" two"), part(1, 2, b"one")]), expected);
    assert_eq!(joined([part(1, 3, b"one"), part(2, 3, b" two")]), None, "the third is missing");
    assert_eq!(joined([part(1, 2, b"one"), part(1, 2, b" two")]), None);
}

#[test]
fn a_file_of_several_views_is_refused() {
    // An MP index that lists the two pictures of a stereo pair (CIPA DC-007).
    let mut index = b"MPF\0II*\0\x08\0\0\0\x01\0\x02\xb0\x07\0\x20\0\0\0\x1a\0\0\0\0\0\0\0".to_vec();
    for _ in 0..2 {
        index.extend([&[2, 0, 2, 0][..], &[0; 12]].concat());
    }
    let error = decode(&with_segment(&jpeg(45, 31), 0xe2, &index), &TARGET).unwrap_err().to_string();
    assert!(error.starts_with("a JPEG of 2 pictures (a stereo picture or a panorama)"), "{error}");
}

/// Returns the output for this file if a GPU took it and left it unchanged.
///
/// `None` if it is left to the CPU.
fn passed_through(jpeg: &[u8], target: &Target) -> Option<Vec<u8>> {
    let (mut file, mut out) = (tempfile::tempfile().unwrap(), tempfile::tempfile().unwrap());
    file.write_all(jpeg).unwrap();
    file.rewind().unwrap();
    let mut buffer = Vec::new();
    let opened = codec::open(&mut file, &mut buffer, &LIMITS, target).unwrap();
    let known = opened.compressed(target)?;
    let mut slot = vec![0; known.slot_bytes() as usize];
    let decoded = opened.pass_on(&mut slot).ok()?;
    assert_eq!((known.bytes, known.layout), (jpeg.len() as u64, decoded.layout));
    let length = codec::write_encoded(&decoded, &slot[..jpeg.len()], &mut out).unwrap();
    let mut written = Vec::new();
    out.rewind().unwrap();
    out.read_to_end(&mut written).unwrap();
    assert_eq!(written.len() as u64, length);
    Some(written)
}

#[test]
fn what_passes_through_a_gpu_keeps_its_metadata_and_samples() {
    let folder = project().join("tests/data/jpeg");
    for name in [
        "gray.jpg",
        "411.jpg",
        "444.jpg",
        "422.jpg",
        "420.jpg",
        "440.jpg",
        "metadata.jpg",
        "tiny.jpg",
        "restart.jpg",
        "restarts.jpg",
        "three-tables.jpg",
        "odd-tables.jpg",
    ] {
        let source = std::fs::read(folder.join(name)).unwrap();
        let written = passed_through(&source, &TARGET).unwrap_or_else(|| panic!("{name} is left"));
        let ((before, planes), (after, same)) =
            (decode(&source, &TARGET).unwrap(), decode(&written, &TARGET).unwrap());
        assert!(planes == same, "{name}");
        assert_eq!((before.layout, before.metadata), (after.layout, after.metadata), "{name}");
        for marker in 0xe0..=0xfe {
            assert_eq!(segments(&written, marker), segments(&source, marker), "{name}, marker {marker:02x}");
        }
    }
}

#[test]
fn only_usual_jpegs_that_stay_jpegs_go_to_a_gpu() {
    let folder = project().join("tests/data/jpeg");
    let progressive = std::fs::read(folder.join("progressive.jpg")).unwrap();
    assert!(passed_through(&progressive, &TARGET).is_none());
    let damaged = std::fs::read(folder.join("damaged.jpg")).unwrap();
    let is_whole =
        |file: &[u8]| BaselinePicture::read(file).is_some_and(|picture| picture.coefficients().is_some());
    assert!(!is_whole(&damaged), "it is not decoded there");
    let mut other = std::fs::read(folder.join("420.jpg")).unwrap();
    let table = other.windows(2).position(|pair| pair == [0xff, 0xc4]).unwrap();
    // A DC difference of category 12; baseline ends at 11 (T.81, table F.1).
    other[table + 21] = 12;
    let source = jpeg(45, 31);
    assert!(passed_through(&other, &TARGET).is_none(), "it does not get there");
    for name in ["hopper_16bit_qtables.jpg", "weird_sampling_2.jpeg", "non_interleaved_440_64x64.jpg"] {
        assert!(passed_through(&file(name), &TARGET).is_none(), "{name}");
    }
    assert!(passed_through(&source, &TARGET).is_some());
    assert!(passed_through(&source, &Target { needs_rgb: true, ..TARGET }).is_some());
    for target in [
        Target { gray: Some(Gray::Luma), ..TARGET },
        Target { gray: Some(Gray::Red), ..TARGET },
        Target { format: Some(Format::Png), ..TARGET },
    ] {
        assert!(passed_through(&source, &target).is_none(), "{target:?}");
    }
}

/// Returns the file with the height moved after the first scan (T.81, B.2.5).
fn with_late_height(jpeg: &[u8]) -> Vec<u8> {
    let frame = (2..).find(|&at| matches!(jpeg[at..at + 2], [0xff, 0xc0..=0xc2])).unwrap();
    let scan = (frame..).find(|&at| jpeg[at..at + 2] == [0xff, 0xda]).unwrap();
    let is_end = |at: &usize| jpeg[*at] == 0xff && !matches!(jpeg[at + 1], 0 | 0xd0..=0xd7);
    let end = (scan + 2..).find(is_end).unwrap();
    let mut late = jpeg[..end].to_vec();
    let height = [late[frame + 5], late[frame + 6]];
    late[frame + 5..frame + 7].fill(0);
    late.extend([&[0xff, 0xdc, 0, 4], &height[..], &jpeg[end..]].concat());
    late
}

#[test]
fn a_height_behind_the_first_scan_is_as_good_as_one_in_the_header() {
    for name in ["420.jpg", "gray.jpg", "restart.jpg", "progressive.jpg"] {
        let whole = file(&format!("../jpeg/{name}"));
        let late = with_late_height(&whole);
        for target in [TARGET, Target { needs_rgb: true, ..TARGET }] {
            let [(one, pixels_of_one), (other, pixels_of_other)] =
                [&whole, &late].map(|file| decode(file, &target).unwrap());
            assert!(one.layout == other.layout && pixels_of_one == pixels_of_other, "{name}");
            let [one, other] = [(one, pixels_of_one), (other, pixels_of_other)]
                .map(|(picture, slot)| encode(&picture, slot, &target).unwrap());
            assert!(one == other, "{name}");
        }
        let mut nowhere = late.clone();
        let place = nowhere.windows(2).position(|bytes| bytes == [0xff, 0xdc]).unwrap();
        nowhere.drain(place..place + 6);
        assert_eq!(
            decode(&nowhere, &TARGET).unwrap_err().to_string(),
            "damaged JPEG: its width or height is 0"
        );
    }
}
