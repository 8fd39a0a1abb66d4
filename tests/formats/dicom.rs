//! DICOM: pixels against pydicom's and OpenCV's, the derived files, and the refusals.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use codec::{CodecError, Cores, Decoded, Format, Target, Unbounded};
use equalize::colour::Gray;
use equalize::{Depth, Method, Operation, Pixel, Scratch, equalize};

use super::{LIMITS, TARGET, decode, decode_file, encode, pixels};
use crate::harness::{Place, project};

const PIXEL_DATA: u32 = 0x7fe0_0010;
const SOP_INSTANCE: u32 = 0x0008_0018;

fn data(name: &str) -> PathBuf {
    project().join("tests/data/dicom").join(name)
}

fn read(name: &str) -> Vec<u8> {
    std::fs::read(data(name)).unwrap()
}

/// Returns the elements of a file with a preamble: their types, if they are written, and values.
fn elements(file: &[u8]) -> BTreeMap<u32, (Option<[u8; 2]>, Vec<u8>)> {
    assert_eq!(&file[128..132], b"DICM");
    let number = |bytes: &[u8]| bytes.iter().rev().fold(0, |n, &byte| n << 8 | usize::from(byte));
    let mut elements = BTreeMap::new();
    let mut explicit = true;
    let mut at = 132;
    while at < file.len() {
        let tag = (number(&file[at..at + 2]) << 16 | number(&file[at + 2..at + 4])) as u32;
        if tag >> 16 > 2 && elements.keys().all(|tag: &u32| *tag >> 16 == 2) {
            explicit = file[at + 4].is_ascii_uppercase();
        }
        let kind: [u8; 2] = file[at + 4..at + 6].try_into().unwrap();
        let (length, start) = match &kind {
            _ if !explicit => (number(&file[at + 4..at + 8]), at + 8),
            b"OB" | b"OW" | b"OF" | b"OD" | b"SQ" | b"UN" | b"UT" => {
                (number(&file[at + 8..at + 12]), at + 12)
            }
            _ => (number(&file[at + 6..at + 8]), at + 8),
        };
        assert!(elements.keys().next_back().is_none_or(|before| *before < tag), "{tag:08x} is in its place");
        at = start + length;
        elements.insert(tag, (explicit.then_some(kind), file[start..at].to_vec()));
    }
    elements
}

fn text(file: &[u8], tag: u32) -> Option<String> {
    let value = elements(file).remove(&tag)?.1;
    Some(String::from_utf8(value).unwrap().trim_end_matches([' ', '\0']).to_owned())
}

fn word(file: &[u8], tag: u32) -> Option<u16> {
    elements(file).get(&tag).map(|(_, value)| u16::from_le_bytes([value[0], value[1]]))
}

/// Decodes, equalizes and encodes a file.
fn processed(file: &[u8], target: &Target) -> (Vec<u8>, Decoded) {
    let (mut decoded, mut slot) = decode(file, target).unwrap();
    let bytes = decoded.layout.bytes() as usize;
    let operation = Operation::new(Method::Global);
    equalize(&mut slot[..bytes], &decoded.layout, &operation, &mut Scratch::default());
    decoded.reduce_depth(&mut slot, target);
    (encode(&decoded, slot, target).unwrap(), decoded)
}

#[test]
fn stored_values_are_those_that_pydicom_reads_and_come_back() {
    let table = std::fs::read_to_string(data("expected.tsv")).unwrap();
    assert!(table.lines().count() > 35, "the table is there");
    let mut differ = Vec::new();
    for line in table.lines() {
        let name = line.split('\t').next().unwrap();
        let (decoded, slot) = decode(&read(name), &TARGET).unwrap_or_else(|error| panic!("{name}: {error}"));
        let layout = decoded.layout;
        let written = encode(&decoded, slot, &TARGET).unwrap();
        let (bytes, colours) =
            (word(&written, 0x0028_0100).unwrap() / 8, word(&written, 0x0028_0002).unwrap());
        let length = layout.pixels() as usize * usize::from(bytes * colours);
        let mut crc = flate2::Crc::new();
        crc.update(&elements(&written)[&PIXEL_DATA].1[..length]);
        let found =
            format!("{name}\t{}\t{}\t{colours}\t{bytes}\t{:08x}", layout.width, layout.height, crc.sum());
        if found != line {
            differ.push((found, line));
        }
    }
    assert!(differ.is_empty(), "{differ:#?}");
}

#[test]
fn gray_pictures_for_training_are_equalized_in_all_of_their_levels_and_rounded_last() {
    let target = Target { format: Some(Format::Png), eight_bit: true, ..TARGET };
    for name in ["mr", "mono1-10", "shifted", "signed-8", "near-16", "lossless"] {
        let (png, _) = processed(&read(&format!("{name}.dcm")), &target);
        let (found, found_slot) = decode(&png, &TARGET).unwrap();
        let expected = data("equalized").join(format!("{name}.pgm"));
        let (expected, expected_slot) = decode_file(&expected, &LIMITS, &TARGET).unwrap();
        assert_eq!(found.layout, expected.layout, "{name}");
        let pairs = pixels(&found, &found_slot).iter().zip(pixels(&expected, &expected_slot));
        // OpenCV's table, which has 8 bits, is made of 32-bit floats.
        let allowed = u8::from(name == "signed-8");
        let most = pairs.map(|(found, expected)| found.abs_diff(*expected)).max();
        assert!(most <= Some(allowed), "{name}: {most:?}");
    }
}

#[test]
fn a_derived_image_says_what_it_is_and_keeps_the_rest() {
    let source = read("mono1-10.dcm");
    let (written, _) = processed(&source, &TARGET);
    let (before, behind) = (elements(&source), elements(&written));
    let says = |tag| text(&written, tag).unwrap_or_default();
    assert_eq!(says(0x0008_0008), "DERIVED\\SECONDARY\\LEFT");
    assert!(says(0x0008_2111).starts_with("Contrast enhanced by histeqd"));
    assert_eq!(says(0x0002_0010), "1.2.840.10008.1.2.1");
    assert_eq!(says(0x0028_0004), "MONOCHROME1");
    let instance = says(SOP_INSTANCE);
    assert!(instance.starts_with("2.25.") && instance.len() <= 64, "{instance}");
    assert_eq!(says(0x0002_0003), instance);
    let reference = &behind[&0x0008_2112].1;
    let source_uid = text(&source, SOP_INSTANCE).unwrap();
    assert!(reference.windows(source_uid.len()).any(|window| window == source_uid.as_bytes()));
    // Ten bits stay ten bits; the window is the values' new range.
    let bits = [0x0028_0100, 0x0028_0101, 0x0028_0102, 0x0028_0103].map(|tag| word(&written, tag).unwrap());
    assert_eq!(bits, [16, 10, 9, 0]);
    let values: Vec<u16> =
        behind[&PIXEL_DATA].1.as_chunks().0.iter().map(|bytes| u16::from_le_bytes(*bytes)).collect();
    let (least, greatest) = (*values.iter().min().unwrap(), *values.iter().max().unwrap());
    assert_eq!([word(&written, 0x0028_0106), word(&written, 0x0028_0107)], [Some(least), Some(greatest)]);
    assert_eq!(says(0x0028_1050), format!("{}", f64::from(least + greatest + 1) / 2.0));
    assert_eq!(says(0x0028_1051), format!("{}", greatest - least + 1));
    let told = [0x0008_0008, SOP_INSTANCE, 0x0028_0106, 0x0028_0107, 0x0028_1050, 0x0028_1051, PIXEL_DATA];
    for (tag, element) in before.iter().filter(|(tag, _)| **tag >> 16 > 2 && !told.contains(tag)) {
        assert_eq!(behind.get(tag), Some(element), "{tag:08x}");
    }
}

#[test]
fn the_same_picture_has_the_same_uid_and_any_other_another() {
    let instance = |file: &[u8]| text(file, SOP_INSTANCE).unwrap();
    let source = read("mono1-10.dcm");
    let (first, again) = (processed(&source, &TARGET).0, processed(&source, &TARGET).0);
    assert!(first == again);
    let (decoded, slot) = decode(&source, &TARGET).unwrap();
    let unchanged = encode(&decoded, slot, &TARGET).unwrap();
    let mut other = source.clone();
    *other.last_mut().unwrap() ^= 1;
    let uids = [&first, &unchanged, &processed(&other, &TARGET).0].map(|file| instance(file));
    assert!(uids[0] != uids[1] && uids[0] != uids[2] && uids[1] != uids[2], "{uids:?}");
}

#[test]
fn eight_bits_are_asked_for_with_depth_8() {
    let target = Target { eight_bit: true, ..TARGET };
    for name in ["mr.dcm", "rgb-rle-16.dcm", "dose.dcm", "padding.dcm"] {
        let (written, decoded) = processed(&read(name), &target);
        assert_eq!(decoded.layout.depth, Depth::Eight, "{name}");
        let bits = [0x0028_0100, 0x0028_0101, 0x0028_0102, 0x0028_0103].map(|tag| word(&written, tag));
        assert_eq!(bits, [8, 8, 7, 0].map(Some), "{name}");
        assert_eq!(word(&written, 0x0028_0120), None, "{name}");
        let (again, _) = decode(&written, &TARGET).unwrap();
        assert_eq!(again.layout.depth, Depth::Eight, "{name}");
    }
}

#[test]
fn palettes_become_colours_and_colours_gray() {
    for (name, depth) in [("palette-8.dcm", Depth::Eight), ("palette-16.dcm", Depth::Sixteen)] {
        let (written, decoded) = processed(&read(name), &TARGET);
        assert_eq!((decoded.layout.pixel, decoded.layout.depth), (Pixel::Rgb, depth));
        assert_eq!(text(&written, 0x0028_0004).unwrap(), "RGB");
        assert!(!elements(&written).contains_key(&0x0028_1201), "{name}");
        let gray = Target { gray: Some(Gray::Luma), ..TARGET };
        let (written, decoded) = processed(&read(name), &gray);
        assert_eq!(decoded.layout.pixel, Pixel::Gray);
        assert_eq!(
            (text(&written, 0x0028_0004).unwrap().as_str(), word(&written, 0x0028_0002)),
            ("MONOCHROME2", Some(1))
        );
    }
}

#[test]
fn padding_stays_and_does_not_count() {
    let (written, _) = processed(&read("padding.dcm"), &TARGET);
    let values = |file: &[u8]| -> Vec<i16> {
        elements(file)[&PIXEL_DATA].1.as_chunks().0.iter().map(|bytes| i16::from_le_bytes(*bytes)).collect()
    };
    let (before, behind) = (values(&read("padding.dcm")), values(&written));
    assert!(before.contains(&-2000));
    for (before, behind) in before.iter().zip(&behind) {
        assert_eq!(*before == -2000, *behind == -2000);
        assert!(*behind == -2000 || *behind >= 0, "the range is that of the values that count");
    }
    assert_eq!(word(&written, 0x0028_0120), Some((-2000_i16).cast_unsigned()));
}

#[test]
fn padding_is_all_from_one_value_to_another() {
    // The other values are below 600: the rim was made of values on the other side of them, from
    // the greatest of these on.
    for (name, padding) in [("padding-below.dcm", -2000..=-1500_i32), ("padding-above.dcm", 2500..=3000)] {
        let source = read(name);
        let (written, _) = processed(&source, &TARGET);
        let is_signed = word(&source, 0x0028_0103) == Some(1);
        let values = |file: &[u8]| -> Vec<i32> {
            let pixels = elements(file).remove(&PIXEL_DATA).unwrap().1;
            let words = pixels.as_chunks().0.iter().map(|bytes| u16::from_le_bytes(*bytes));
            words.map(|word| if is_signed { word.cast_signed().into() } else { word.into() }).collect()
        };
        let pairs: Vec<_> = values(&source).into_iter().zip(values(&written)).collect();
        let counts: Vec<i32> =
            pairs.iter().map(|pair| pair.0).filter(|value| !padding.contains(value)).collect();
        let (least, greatest) = (*counts.iter().min().unwrap(), *counts.iter().max().unwrap());
        assert!(pairs.len() > counts.len() + 10, "{name}");
        for (before, behind) in pairs {
            if padding.contains(&before) {
                assert_eq!(before, behind, "{name}");
            } else {
                assert!((least..=greatest).contains(&behind), "{name}: {before} became {behind}");
            }
        }
    }
}

#[test]
fn samples_of_more_bits_than_are_stored_are_refused() {
    let error = decode(&read("refused-12-in-10.dcm"), &TARGET).unwrap_err().to_string();
    assert_eq!(error, "damaged DICOM: its compressed samples have more than the 10 bits that are stored");
}

#[test]
fn a_cut_file_is_damaged_and_may_become_whole() {
    for name in [
        "mr.dcm",
        "mr-rle.dcm",
        "mr-jpeg-ls.dcm",
        "mr-jpeg-2000.dcm",
        "mr-implicit.dcm",
        "deflated-10.dcm",
        "lossless.dcm",
    ] {
        let whole = read(name);
        // The last byte may be padding.
        for length in (1..whole.len() - 1).step_by(whole.len() / 60) {
            let Err(error) = decode(&whole[..length], &TARGET) else {
                panic!("{name}, {length} of {} bytes", whole.len());
            };
            assert!(error.may_be_incomplete(), "{name}, {length} of {} bytes: {error}", whole.len());
        }
    }
}

/// Returns a file with the elements of a small picture, followed by others.
fn made(further: &[u8]) -> Vec<u8> {
    let mut file = vec![0; 128];
    file.extend(b"DICM");
    let mut put = |group: u16, number: u16, kind: &[u8; 2], value: &[u8]| {
        file.extend([group.to_le_bytes(), number.to_le_bytes()].concat());
        file.extend(kind);
        file.extend((value.len() as u16).to_le_bytes());
        file.extend(value);
    };
    put(2, 0x10, b"UI", b"1.2.840.10008.1.2.1\0");
    put(0x28, 0x02, b"US", &[1, 0]);
    put(0x28, 0x04, b"CS", b"MONOCHROME2 ");
    put(0x28, 0x10, b"US", &[2, 0]);
    put(0x28, 0x11, b"US", &[2, 0]);
    put(0x28, 0x100, b"US", &[8, 0]);
    file.extend(further);
    file.extend(b"\xe0\x7f\x10\0OB\0\0\x04\0\0\0\x01\x02\x03\x04");
    file
}

#[test]
fn sequences_are_skipped_whatever_they_hold_and_as_deep_as_anyone_nests_them() {
    let start = b"\x29\0\x10\0SQ\0\0\xff\xff\xff\xff\xfe\xff\0\xe0\xff\xff\xff\xff";
    let end = b"\xfe\xff\x0d\xe0\0\0\0\0\xfe\xff\xdd\xe0\0\0\0\0";
    let nested = |depth: usize| made(&[start.repeat(depth), end.repeat(depth)].concat());
    let (decoded, slot) = decode(&nested(20), &TARGET).unwrap();
    assert_eq!(pixels(&decoded, &slot), [1, 2, 3, 4]);
    let written = encode(&decoded, slot, &TARGET).unwrap();
    assert!(written.windows(start.len()).filter(|window| *window == start).count() == 20);
    for depth in [50, 100_000] {
        let error = decode(&nested(depth), &TARGET).unwrap_err().to_string();
        assert_eq!(error, "damaged DICOM: its data elements are damaged");
    }
}

#[test]
fn lengths_are_checked_before_memory_is_taken() {
    let mut long = made(&[]);
    let at = long.len() - 8;
    long[at..at + 4].copy_from_slice(&0xffff_fff0_u32.to_le_bytes());
    let told = |file: &[u8]| decode(file, &TARGET).unwrap_err().to_string();
    assert_eq!(told(&long), "damaged DICOM: truncated: it ends within a data element");
    let mut large = made(&[]);
    let rows = large.windows(4).position(|window| window == b"\x28\0\x10\0").unwrap() + 8;
    large[rows..rows + 2].copy_from_slice(&60_000_u16.to_le_bytes());
    assert_eq!(told(&large), "damaged DICOM: truncated: pixels are missing");
    large[rows + 10..rows + 12].copy_from_slice(&60_000_u16.to_le_bytes());
    assert!(told(&large).starts_with("too large: 60000x60000 pixels"));
    let mut many = made(&[]);
    many[at..at + 4].copy_from_slice(&8_u32.to_le_bytes());
    many.extend([5, 6, 7, 8]);
    assert_eq!(told(&many), "damaged DICOM: it holds more pixels than 1 frames have");
}

#[test]
fn what_is_not_read_is_refused_for_what_it_is() {
    let error = |file: &[u8]| decode(file, &TARGET).unwrap_err();
    let mut report = made(&[]);
    report.truncate(160);
    report.extend(b"\x08\0\x60\0CS\x02\0SR");
    let why = "damaged DICOM: it has no pixels: it is truncated, or a report or a plan; leave those out with --exclude";
    assert_eq!(error(&report).to_string(), why);
    let mut directory = report;
    directory.truncate(160);
    assert!(error(&directory).may_be_incomplete());
    directory.extend(b"\x04\0\x20\x12SQ\0\0\0\0\0\0");
    assert!(matches!(error(&directory), CodecError::NotAPicture));
    let syntax = |uid: &[u8; 20]| {
        let mut file = made(&[]);
        let at = file.windows(20).position(|window| window == b"1.2.840.10008.1.2.1\0").unwrap();
        file[at..at + 20].copy_from_slice(uid);
        error(&file).to_string()
    };
    assert!(syntax(b"1.2.840.10008.1.2.4\0").starts_with("a DICOM file of the transfer syntax 1.2.840"));
    assert_eq!(syntax(b"1.2.840.10008.1.2.5\0"), "damaged DICOM: its compressed pixels are not in fragments");
    let png = std::fs::read(data("../codec/basn0g02.png")).unwrap();
    let target = Target { format: Some(Format::Dicom), ..TARGET };
    let why = decode(&png, &target).unwrap_err().to_string();
    assert_eq!(
        why,
        "DICOM cannot hold a PNG, whose patient and study are unknown; use another --format for files other than DICOM"
    );
}

/// Returns the frames of a file, after `change` has been applied to their levels.
fn frames(path: &Path, change: impl Fn(&mut [u8], &Decoded)) -> Vec<(Decoded, Vec<u8>)> {
    let (mut file, mut buffer) = (std::fs::File::open(path).unwrap(), Vec::new());
    let pages = codec::open(&mut file, &mut buffer, &LIMITS, &TARGET).unwrap().take_pages().unwrap();
    let frame = |index| {
        let mut file = std::fs::File::open(path).unwrap();
        let page = pages.page(index);
        let opened =
            codec::pages::open_page(&mut Unbounded, &mut file, &mut buffer, &LIMITS, &TARGET, page).unwrap();
        let mut slot = vec![0; opened.slot_bytes()];
        let decoded = opened.decode(&mut slot, Vec::new(), &Cores::none()).unwrap();
        slot.truncate(decoded.layout.bytes() as usize);
        change(&mut slot, &decoded);
        (decoded, slot)
    };
    (0..pages.len()).map(frame).collect()
}

fn equalized(levels: &mut [u8], decoded: &Decoded) {
    equalize(levels, &decoded.layout, &Operation::new(Method::Global), &mut Scratch::default());
}

#[test]
fn every_frame_is_equalized_in_its_place_and_the_file_is_the_same_every_time() {
    let place = Place::new();
    let names = ["frames.dcm", "frames-rle.dcm"];
    for name in names {
        place.file(format!("in/{name}"), read(name));
    }
    for threads in [1, 5] {
        place.run(&format!("in --out out{threads} --threads {threads}")).exits(0);
    }
    place.run("in --out tiffs --format tiff").exits(0);
    for name in names {
        let expected = frames(&data(name), equalized);
        let found = frames(&place.path(format!("out1/{name}")), |_, _| {});
        let of_tiff = frames(&place.path(format!("tiffs/{name}")).with_extension("tif"), |_, _| {});
        assert_eq!((found.len(), of_tiff.len()), (expected.len(), expected.len()));
        for ((expected, found), of_tiff) in expected.iter().zip(&found).zip(&of_tiff) {
            assert!(expected.1 == of_tiff.1, "{name} as TIFF");
            // A frame has at least 300 values, and rounding to one of them changes a value by at
            // most half of their distance.
            let levels = |slot: &[u8]| bytemuck::pod_collect_to_vec::<u8, u16>(slot);
            let pairs = levels(&expected.1).into_iter().zip(levels(&found.1));
            let most = pairs.map(|(expected, found)| expected.abs_diff(found)).max();
            assert!(most <= Some(65_535 / 300 / 2 + 1), "{name}: {most:?}");
        }
        let (once, again) = (place.read(format!("out1/{name}")), place.read(format!("out5/{name}")));
        assert!(once == again, "{name}");
        assert_eq!(text(&once, 0x0028_0008), Some(expected.len().to_string()));
        assert!(text(&once, SOP_INSTANCE).unwrap().starts_with("2.25."));
    }
    let ran = place.run("in --out pngs --format png");
    ran.exits(1).says(
        "PNG cannot hold the 3 pages of a DICOM; write each into a file of its own (--frames split) or all as TIFF (--format tiff), or extract the frames",
    );
}

#[test]
fn frames_without_positions_are_slices_as_they_are_stored_with_a_note() {
    let place = Place::new();
    place.file("in/frames.dcm", read("frames.dcm"));
    let ran = place.run("in --out out --range 0..65535 --method clahe --tiles 2x2x2");
    ran.exits(0)
        .says("the frames of in/frames.dcm have no planes in common")
        .says("as its dimensions or vectors number them, or else as they are stored");
    let ran = place.run("in --out planes --method clahe --tiles 2x2");
    assert!(!ran.exits(0).stderr().contains("planes in common"), "{ran}");
}

#[test]
fn frames_become_files_if_they_are_split() {
    let place = Place::new();
    place.file("in/a/frames.dcm", read("frames.dcm"));
    place.file("in/mr.dcm", read("mr.dcm"));
    let ran = place.run("in --out done --format png --frames split");
    ran.exits(0).says("Done: 2 pictures");
    let names = [
        "a/frames/frames-00001.png",
        "a/frames/frames-00002.png",
        "a/frames/frames-00003.png",
        "mr/mr-00001.png",
    ];
    assert_eq!(place.tree("done"), names);
    for (expected, name) in frames(&data("frames.dcm"), equalized).into_iter().zip(names) {
        let (decoded, slot) = decode(&place.read(format!("done/{name}")), &TARGET).unwrap();
        assert!(pixels(&decoded, &slot) == expected.1, "{name}");
    }
    // The first output alone shows that all are there.
    place.run("in --out done --format png --frames split").exits(0).says("Skipped: 2 already done");
    std::fs::remove_file(place.path("done/a/frames/frames-00001.png")).unwrap();
    place.run("in --out done --format png --frames split").exits(0).says("Done: 1 picture");
    // A file with a damaged frame has no outputs.
    let mut cut = read("frames-pieces.dcm");
    let at = cut.len() - 200;
    cut[at..].fill(0x55);
    place.file("cut/cut.dcm", &cut);
    place.run("cut --out none --format png --frames split").exits(1);
    assert!(place.tree("none").is_empty());
    place.run("in --out dicom --frames split").exits(1).says("use --format png, jpeg or tiff");
}

#[test]
fn frames_are_found_without_a_table_and_within_bytes() {
    // The frames as pydicom reads them: expected.tsv has the first frame of the pieces too.
    let pieces = [0xa6ee_137b, 0x6442_1b24, 0xf6e2_ff1d];
    let expected = [
        ("frames-pieces.dcm", pieces),
        ("frames-extended.dcm", pieces),
        ("frames-bits.dcm", [0x7bfa_bac6, 0xf088_ac0c, 0x82b2_312d]),
    ];
    for (name, expected) in expected {
        let found = frames(&data(name), |_, _| {}).into_iter().map(|(decoded, slot)| {
            let written = encode(&decoded, slot, &TARGET).unwrap();
            let elements = elements(&written);
            let bytes =
                usize::from(word(&written, 0x0028_0100).unwrap() / 8) * decoded.layout.pixels() as usize;
            let mut crc = flate2::Crc::new();
            crc.update(&elements[&PIXEL_DATA].1[..bytes]);
            crc.sum()
        });
        assert_eq!(found.collect::<Vec<_>>(), expected, "{name}");
    }
    assert_eq!(frames(&data("pieces.dcm"), |_, _| {}).len(), 3);
}

#[test]
fn a_file_that_ends_before_its_last_frame_is_damaged() {
    let whole = read("frames.dcm");
    for cut in [2, 1000, 2560, 5200] {
        let error = decode(&whole[..whole.len() - cut], &TARGET).unwrap_err();
        assert!(error.may_be_incomplete(), "{error}");
    }
}

/// Returns an element with a short value.
fn element(tag: u32, kind: &[u8; 2], value: &[u8]) -> Vec<u8> {
    let mut element = [((tag >> 16) as u16).to_le_bytes(), (tag as u16).to_le_bytes()].concat();
    element.extend(kind);
    element.extend((value.len() as u16).to_le_bytes());
    element.extend(value);
    element
}

#[test]
fn enhanced_values_have_no_unit() {
    let (slope, intercept) = (element(0x0028_1053, b"DS", b"2 "), element(0x0028_1052, b"DS", b"-1024 "));
    let units = element(0x0054_1001, b"CS", b"BQML");
    let mapping = b"\x40\0\x96\x90SQ\0\0\x08\0\0\0\xfe\xff\0\xe0\0\0\0\0".to_vec();
    let source = made(&[intercept.clone(), slope.clone(), mapping, units].concat());
    let (written, _) = processed(&source, &TARGET);
    assert_eq!(
        text(&written, 0x0028_1054).as_deref(),
        Some("US"),
        "it is Hounsfield units where it is absent"
    );
    assert_eq!(text(&written, 0x0028_1053).as_deref(), Some("2"));
    assert_eq!(text(&written, 0x0054_1001).as_deref(), Some("NONE"));
    assert!(!elements(&written).contains_key(&0x0040_9096));
    // Facts that the source lacks are lacking in the output.
    let (written, _) = processed(&made(&[]), &TARGET);
    assert_eq!((text(&written, 0x0028_1054), text(&written, 0x0054_1001)), (None, None));
    // Levels of 8 bits are not stored values.
    let mut deep = made(&[intercept, slope].concat());
    let at = deep.windows(6).position(|window| window == b"\x28\0\0\x01US").unwrap();
    deep[at + 8] = 16;
    let pixels = deep.len() - 8;
    deep[pixels..pixels + 4].copy_from_slice(&8_u32.to_le_bytes());
    deep.extend([0, 1, 2, 3]);
    let (written, _) = processed(&deep, &Target { eight_bit: true, ..TARGET });
    assert_eq!(text(&written, 0x0028_1053).as_deref(), Some("1"));
    assert_eq!(text(&written, 0x0028_1052).as_deref(), Some("0"));
}

#[test]
fn icons_of_the_old_contrast_are_left_out_wherever_they_are() {
    let source = read("icon.dcm");
    let has = |file: &[u8]| file.windows(4).filter(|window| *window == b"\xe0\x7f\x10\0").count();
    assert_eq!(has(&source), 2);
    assert_eq!(has(&processed(&source, &TARGET).0), 1);
}

#[test]
fn a_profile_goes_with_the_colours() {
    let mut source = made(&[]);
    let at = source.windows(4).position(|window| window == b"\x28\0\x02\0").unwrap();
    source[at + 8] = 3;
    let at = source.windows(12).position(|window| window == b"MONOCHROME2 ").unwrap();
    source.splice(at - 2..at + 12, *b"\x04\0RGB ");
    let long = b"\x28\0\0\x20OB\0\0\x02\0\0\0ab";
    let pixels = source.len() - 16;
    source.splice(pixels.., [&long[..], b"\xe0\x7f\x10\0OB\0\0\x0c\0\0\0", &[7; 12]].concat());
    let has = |target: &Target| elements(&processed(&source, target).0).contains_key(&0x0028_2000);
    assert!(has(&TARGET) && !has(&Target { gray: Some(Gray::Luma), ..TARGET }));
}

#[test]
fn a_derived_series_has_its_own_identity_and_says_what_was_done() {
    let place = Place::new();
    for name in ["mr.dcm", "mr-rle.dcm", "mono1-10.dcm"] {
        place.file(format!("in/{name}"), read(name));
    }
    let series =
        |folder: &str, name: &str| text(&place.read(format!("{folder}/{name}")), 0x0020_000e).unwrap();
    place.run("in --out one").exits(0);
    place.run("in --out again --threads 1").exits(0);
    place.run("in --out other --method clahe").exits(0);
    let (source, derived) = (text(&read("mr.dcm"), 0x0020_000e).unwrap(), series("one", "mr.dcm"));
    assert!(derived.starts_with("2.25.") && derived != source);
    assert_eq!([series("one", "mr-rle.dcm"), series("again", "mr.dcm")], [derived.clone(), derived.clone()]);
    assert!(series("other", "mr.dcm") != derived && series("one", "mono1-10.dcm") != derived);
    let says = |folder: &str, tag| text(&place.read(format!("{folder}/mr.dcm")), tag).unwrap();
    assert_eq!(says("one", 0x0008_103e), "histeqd equalized");
    assert_eq!(says("other", 0x0008_103e), "histeqd CLAHE");
    let number: i64 = text(&read("mr.dcm"), 0x0020_0011).unwrap_or_default().parse().unwrap_or(0);
    let numbers = ["one", "other"].map(|folder| says(folder, 0x0020_0011).parse::<i64>().unwrap());
    assert_eq!(numbers, [100 * number + 1, 100 * number + 4]);
    assert!(says("one", SOP_INSTANCE) != says("other", SOP_INSTANCE));
}

/// Returns a picture with the class of another object.
pub(crate) fn of_class(class: &str) -> Vec<u8> {
    let mut file = made(&[]);
    let at = file.windows(4).position(|window| window == b"\x28\0\x02\0").unwrap();
    let mut class = class.as_bytes().to_vec();
    class.resize(class.len().next_multiple_of(2), 0);
    file.splice(at..at, element(0x0008_0016, b"UI", &class));
    file
}

#[test]
fn objects_that_are_no_pictures_are_left_out_and_counted_by_their_kind() {
    let place = Place::new();
    place.file("in/mr.dcm", read("mr.dcm"));
    for (name, class) in
        [("dose", "481.2"), ("plan", "481.5"), ("plan2", "481.3"), ("seg", "66.4"), ("sr", "88.11")]
    {
        place.file(format!("in/{name}.dcm"), of_class(&format!("1.2.840.10008.5.1.4.1.1.{class}")));
    }
    let ran = place.run("in --out done");
    ran.exits(0).says("Done: 1 picture");
    ran.says("Skipped: 5 without pictures: dose, plans, segmentation, report");
    assert_eq!(place.tree("done"), ["mr.dcm"]);
    let named = place.run("in/dose.dcm --out other");
    named.exits(1).says("not a picture but a DICOM dose, whose values are not brightness; leave it out");
    place.run("in/seg.dcm --out other").exits(1).says("with --segmentations");
    place
        .run("in/seg.dcm --out other --segmentations")
        .exits(1)
        .says("DICOM cannot hold the enhanced labels");
    place.run("in/seg.dcm --out other --segmentations --format png").exits(0);
    assert_eq!(place.tree("other"), ["seg.png"]);
}

#[test]
fn pictures_are_equalized_as_they_are_shown() {
    let place = Place::new();
    // The values are 1 to 4, and a window of two values leaves no gray between black and white.
    place.file(
        "in/a.dcm",
        made(&[element(0x0028_1050, b"DS", b"2 "), element(0x0028_1051, b"DS", b"2 ")].concat()),
    );
    place.run("in --out png --format png --window auto --strength 0").exits(0);
    let (decoded, slot) = decode(&place.read("png/a.png"), &TARGET).unwrap();
    assert_eq!(pixels(&decoded, &slot), [0, 255, 255, 255]);
    place.run("in --out given --format png --window 3,4 --strength 0").exits(0);
    let (decoded, slot) = decode(&place.read("given/a.png"), &TARGET).unwrap();
    assert_eq!(pixels(&decoded, &slot), [0, 85, 170, 255]);
    // A derived image has this brightness, and a window of all of it.
    place.run("in --out dicom --window auto").exits(0);
    let file = place.read("dicom/a.dcm");
    assert_eq!(elements(&file)[&PIXEL_DATA].1, [0, 255, 255, 255]);
    assert_eq!(
        (text(&file, 0x0028_1050).unwrap(), text(&file, 0x0028_1051).unwrap()),
        ("128".into(), "256".into())
    );
    place
        .run("in --out none --window 2")
        .exits(1)
        .says("window 2 of a DICOM file that has fewer is not supported");
    place.run("in --out none --window 2,0").exits(2).says("is neither auto, the number of a window");
    place.run("in --out none --window 1 --range 0..1").exits(2).says("leave one of them out");
}

#[test]
fn a_range_may_be_in_hounsfield_units() {
    let place = Place::new();
    let deep = |further: &[u8]| {
        let mut file = made(further);
        let at = file.windows(6).position(|window| window == b"\x28\0\0\x01US").unwrap();
        file[at + 8] = 16;
        let pixels = file.len() - 8;
        file.splice(pixels.., [&8_u32.to_le_bytes()[..], &[0, 0, 0xe8, 3, 0xd0, 7, 0xb8, 0x0b]].concat());
        file
    };
    let rescale = [
        element(0x0028_1052, b"DS", b"-1000 "),
        element(0x0028_1053, b"DS", b"2 "),
        element(0x0028_1054, b"LO", b"HU"),
    ];
    // Stored 0, 1000, 2000 and 3000 are -1000, 1000, 3000 and 5000 units.
    place.file("ct/a.dcm", deep(&rescale.concat()));
    place.file("mr/a.dcm", deep(&[]));
    for (range, out) in [("-1000hu..3000hu", "units"), ("0..2000", "stored")] {
        place.run(&format!("ct --out {out} --format png --strength 0 --range={range}")).exits(0);
    }
    assert!(place.read("units/a.png") == place.read("stored/a.png"));
    let (decoded, slot) = decode(&place.read("units/a.png"), &TARGET).unwrap();
    assert_eq!(bytemuck::pod_collect_to_vec::<u8, u16>(pixels(&decoded, &slot)), [0, 32_768, 65_535, 65_535]);
    let why = "--range in hu for a DICOM file whose values have another unit, or no slope";
    place.run("mr --out no --range=-1000hu..3000hu").exits(1).says(why);
}

#[test]
fn slices_of_a_series_are_counted_together_by_value_or_refused() {
    let place = Place::new();
    // The same four activities, stored as multiples of another number in each slice.
    let slice = |series: &[u8], slope: &[u8], values: [u16; 4]| {
        let rescale = [
            element(0x0028_1052, b"DS", b"0 "),
            element(0x0028_1053, b"DS", slope),
            element(0x0054_1001, b"CS", b"BQML"),
        ];
        let mut file = made(&rescale.concat());
        let at = file.windows(6).position(|window| window == b"\x28\0\0\x01US").unwrap();
        file[at + 8] = 16;
        let pixels = file.len() - 8;
        let words = values.map(u16::to_le_bytes).concat();
        file.splice(pixels.., [&8_u32.to_le_bytes()[..], &words].concat());
        let at = file.windows(4).position(|window| window == b"\x28\0\x02\0").unwrap();
        file.splice(at..at, element(0x0020_000e, b"UI", series));
        file
    };
    place.file("in/a.dcm", slice(b"1.2.3\0", b"2 ", [0, 500, 1000, 5000]));
    place.file("in/b.dcm", slice(b"1.2.3\0", b"10", [0, 100, 200, 1000]));
    place.file("in/c.dcm", slice(b"1.2.4\0", b"1 ", [0, 1, 2, 3]));
    place.file("in/d.pgm", crate::harness::DULL);
    let ran = place.run("in --out no --together series --range 0..5000");
    ran.exits(1)
        .says("the files of its group differ in RescaleSlope or RescaleIntercept")
        .says("Done: 2 pictures");
    ran.says("as in --range 0..4095rescaled, or equalize each file alone");
    assert_eq!(place.tree("no"), ["c.dcm", "d.pgm"]);
    std::fs::remove_file(place.path("in/d.pgm")).unwrap();
    place.run("in --out rescaled --together series --range 0..4095rescaled").exits(0);
    place.run("in --out done --together series --range 0..10000bqml").exits(0);
    let values = |name: &str| -> Vec<f64> {
        let file = place.read(format!("done/{name}.dcm"));
        let slope: f64 = text(&file, 0x0028_1053).unwrap().parse().unwrap();
        let words = elements(&file).remove(&PIXEL_DATA).unwrap().1;
        words.as_chunks().0.iter().map(|word| slope * f64::from(u16::from_le_bytes(*word))).collect()
    };
    // Equal activities stay equal, within the precision of each slice.
    let (a, b) = (values("a"), values("b"));
    assert!(a.iter().zip(&b).all(|(a, b)| (a - b).abs() <= (2.0 + 10.0) / 2.0), "{a:?} {b:?}");
    assert!((a[1] - 10_000.0 / 3.0).abs() <= 2.0, "{a:?}");
    place.run("in --out no --together series --range 0..1hu").exits(1).says("--range in hu for a DICOM file");
}

#[test]
fn files_need_no_extension_and_a_directory_of_them_is_skipped() {
    let place = Place::new();
    place.file("in/1.2.840.113619", read("mr.dcm"));
    let mut directory = made(&[]);
    directory.truncate(160);
    directory.extend(b"\x04\0\x20\x12SQ\0\0\0\0\0\0");
    place.file("in/DICOMDIR", directory);
    place.file("in/text.dcm", "this is no DICOM");
    let ran = place.run("in --out done --format png");
    ran.exits(1).says("Done: 1 picture").says("Skipped: 1 not a picture").says("text.dcm: not a picture");
    assert_eq!(place.tree("done"), ["1.2.840.113619.png"]);
}
