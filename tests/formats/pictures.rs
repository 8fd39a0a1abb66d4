//! The pictures in `tests/data/codec`: their pixels against other decoders', and the refusals.

use std::path::PathBuf;

use crate::harness::project;
use codec::{CodecError, Format, Target};
use equalize::{Depth, Layout, Pixel};

use super::{LIMITS, TARGET, decode, decode_file, pixels};

fn data(name: &str) -> PathBuf {
    project().join("tests/data/codec").join(name)
}

/// Returns the fields of each line of a tab-separated table.
fn table(name: &str) -> Vec<Vec<String>> {
    let text = std::fs::read_to_string(data(name)).unwrap();
    text.lines().map(|line| line.split('\t').map(str::to_owned).collect()).collect()
}

fn crc_of_big_endian(layout: &Layout, samples: &[u8]) -> u32 {
    let mut crc = flate2::Crc::new();
    match layout.depth {
        Depth::Eight => crc.update(samples),
        Depth::Sixteen => {
            for sample in samples.as_chunks::<2>().0 {
                crc.update(&u16::from_ne_bytes(*sample).to_be_bytes());
            }
        }
    }
    crc.sum()
}

#[test]
fn pixels_are_what_other_decoders_make_of_them() {
    let table = table("expected.tsv");
    assert!(table.len() > 30, "the table is there");
    let mut differ = Vec::new();
    for fields in table {
        let name = &fields[0];
        // Not every JPEG can be written as one.
        let target = Target { format: name.ends_with(".jpg").then_some(Format::Tiff), ..TARGET };
        let (decoded, slot) =
            decode_file(&data(name), &LIMITS, &target).unwrap_or_else(|e| panic!("{name}: {e}"));
        let layout = decoded.layout;
        let crc = crc_of_big_endian(&layout, pixels(&decoded, &slot));
        let (channels, bits) = (layout.pixel.channels(), 8 * layout.depth.bytes());
        let found = format!("{name}\t{}\t{}\t{channels}\t{bits}\t{crc:08x}", layout.width, layout.height);
        if found != fields.join("\t") {
            differ.push((found, fields));
        }
    }
    assert!(differ.is_empty(), "{differ:#?}");
}

#[test]
fn what_is_wrong_with_a_bitmap_is_said_once() {
    const HEADER_LENGTH: usize = 14;
    const COMPRESSION: usize = 30;
    let told = |bytes: &[u8]| decode(bytes, &TARGET).unwrap_err().to_string();
    let mut bitmap = std::fs::read(data("pal4gs.bmp")).unwrap();
    bitmap[COMPRESSION] = 4;
    let why = "this kind of BMP (JPEG compression) is not supported; convert it first, as in `convert IN OUT.png` (ImageMagick)";
    assert_eq!(told(&bitmap), why);
    bitmap[COMPRESSION] = 6;
    let why = "this kind of BMP (compression 6) is not supported; convert it first, as in `convert IN OUT.png` (ImageMagick)";
    assert_eq!(told(&bitmap), why);
    for length in [16, 64] {
        bitmap[HEADER_LENGTH] = length;
        let why =
            "an OS/2 2.x BMP is not supported; convert it first, as in `convert IN OUT.png` (ImageMagick)";
        assert_eq!(told(&bitmap), why);
    }
    let why = told(&std::fs::read(data("../bad/bmp-negative-width.bmp")).unwrap());
    assert!(why.starts_with("damaged BMP: Negative width ("), "{why}");
}

/// Returns a bitmap of 3 by 2 pixels with masks for red, green, blue and alpha; the first pixel has
/// this alpha. Padding and the bytes after the pixels have all bits set.
fn bitmap(header: u8, masks: [u32; 4], alpha: u32) -> Vec<u8> {
    let bytes = if masks[3] > 0xffff { 4 } else { 2 };
    let words = |words: &[u32]| words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>();
    let mut file = [&b"BM"[..], &words(&[0, 0, 14 + u32::from(header), u32::from(header), 3, 2])].concat();
    file.extend([&[1, 0, 8 * bytes, 0][..], &words(&[3, 0, 2835, 2835, 0, 0]), &words(&masks)].concat());
    file.resize(14 + usize::from(header), 0);
    for (row, alpha) in [[alpha, 0, 0], [0; 3]].into_iter().enumerate() {
        for (column, alpha) in alpha.into_iter().enumerate() {
            let pixel = (!masks[3] / (1 + row as u32 + column as u32)) & !masks[3] | alpha;
            file.extend(&pixel.to_le_bytes()[..bytes as usize]);
        }
        file.resize(file.len().next_multiple_of(2) + if bytes == 2 { 2 } else { 0 }, 0xff);
    }
    file.extend([0xff; 5]);
    file
}

#[test]
fn a_bitmap_whose_alpha_is_0_everywhere_is_opaque() {
    const WIDE: [u32; 4] = [0x00ff_0000, 0xff00, 0xff, 0xff00_0000];
    const NARROW: [u32; 4] = [0x7c00, 0x03e0, 0x1f, 0x8000];
    for header in [56, 108, 124] {
        for (masks, alpha) in [(WIDE, 0x0100_0000), (NARROW, 0x8000)] {
            let (clear, clear_slot) = decode(&bitmap(header, masks, 0), &TARGET).unwrap();
            let (mixed, mixed_slot) = decode(&bitmap(header, masks, alpha), &TARGET).unwrap();
            assert_eq!([clear.layout.pixel, mixed.layout.pixel], [Pixel::Rgb, Pixel::Rgba], "{header}");
            let colours: Vec<u8> =
                pixels(&mixed, &mixed_slot).chunks(4).flat_map(|pixel| &pixel[..3]).copied().collect();
            assert_eq!(pixels(&clear, &clear_slot), colours, "{header}");
            assert!(colours.iter().any(|&sample| sample > 0));
        }
    }
}

#[test]
fn what_could_not_be_written_back_whole_is_refused_by_name() {
    for fields in table("refused.tsv") {
        let [name, reason] = &fields[..] else { panic!("{fields:?}") };
        let error = decode_file(&data(name), &LIMITS, &TARGET).expect_err(name);
        assert!(matches!(error, CodecError::Unsupported { .. }), "{name}: {error}");
        assert!(error.to_string().contains(reason.as_str()), "{name}: {error}");
    }
}

#[test]
fn what_is_no_picture_of_ours_is_refused_for_what_it_is() {
    let told = |bytes: &[u8]| decode(bytes, &TARGET).unwrap_err().to_string();
    let mut apples = std::fs::read(data("basn0g02.png")).unwrap();
    apples.splice(8..8, [&[0, 0, 0, 4][..], b"CgBI\x50\0\x20\x06", &[0x2c, 0xb8, 0x77, 0x66]].concat());
    let why = told(&apples);
    assert!(why.starts_with("Apple's own variant of PNG (CgBI)") && why.contains("pngcrush"), "{why}");
}
