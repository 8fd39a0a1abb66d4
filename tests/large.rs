//! Pictures too large for the memory: they go through the pipeline in bands of rows, with the same
//! output as whole ones.

mod files;
mod kinds;
mod levels;
mod pages;
mod tiles;

use std::fs::File;
use std::path::Path;

use codec::Cores;
use equalize::{Depth, Layout, Pixel};

use crate::harness::Place;
use crate::samples::{Data, Random, every_layout, pam, samples};
use crate::stacks::{LIMITS, Storage, TARGET};

/// The parts of a TIFF's pixel data.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Cut {
    Strips(u32),
    Tiles(u32, u32),
}

const ROWS_PER_STRIP: u16 = 278;
const TILE_WIDTH: u16 = 322;
const TILE_LENGTH: u16 = 323;
const COMPRESSION: u16 = 259;
const STRIP_OFFSETS: u16 = 273;
const STRIP_BYTE_COUNTS: u16 = 279;
const TILE_OFFSETS: u16 = 324;
const TILE_BYTE_COUNTS: u16 = 325;

/// Returns a little-endian TIFF of these samples.
pub(crate) fn tiff(layout: &Layout, samples: &[u16], cut: Cut, coding: Storage) -> Vec<u8> {
    let bytes: Vec<u8> = match layout.depth {
        Depth::Eight => samples.iter().map(|&sample| sample as u8).collect(),
        Depth::Sixteen => samples.iter().flat_map(|sample| sample.to_le_bytes()).collect(),
    };
    tiff_of(layout, (8 * layout.depth.bytes() as u32, UNSIGNED), &bytes, cut, coding)
}

/// Kinds of sample (SampleFormat of TIFF).
const UNSIGNED: u32 = 1;
const SIGNED: u32 = 2;
const FLOAT: u32 = 3;

/// Returns a little-endian TIFF of samples of so many bits and this format, from their bytes. The
/// depth of the layout does not matter.
fn tiff_of(layout: &Layout, kind: (u32, u32), bytes: &[u8], cut: Cut, coding: Storage) -> Vec<u8> {
    with_page(b"II*\0\0\0\0\0".to_vec(), layout, kind, bytes, cut, coding)
}

/// Adds a page to a file of such pages, which may be a header alone.
pub(crate) fn with_page(
    mut file: Vec<u8>,
    layout: &Layout,
    (bits, format): (u32, u32),
    bytes: &[u8],
    cut: Cut,
    coding: Storage,
) -> Vec<u8> {
    // The place of this page's offset: in the header, or at the end of the last directory.
    let link = file.len() - 4;
    let channels = layout.pixel.channels();
    let pixel = channels * (bits / 8) as usize;
    let (width, height) = match cut {
        Cut::Strips(rows) => (layout.width, rows),
        Cut::Tiles(width, height) => (width, height),
    };
    let (mut offsets, mut lengths) = (Vec::new(), Vec::new());
    for top in (0..layout.height).step_by(height as usize) {
        for left in (0..layout.width).step_by(width as usize) {
            let rows = if let Cut::Strips(_) = cut { height.min(layout.height - top) } else { height };
            let at = |x: u32, y: u32| (y as usize * layout.width as usize + x as usize) * pixel;
            // Padding beyond the edges of the picture must not count.
            let part: Vec<u8> = (top..top + rows)
                .flat_map(|y| (left..left + width).map(move |x| (x, y)))
                .flat_map(|(x, y)| match x < layout.width && y < layout.height {
                    true => bytes[at(x, y)..][..pixel].to_vec(),
                    false => vec![0xa5; pixel],
                })
                .collect();
            let packed = coding.packed(&part);
            offsets.push(file.len() as u32);
            lengths.push(packed.len() as u32);
            file.extend(packed);
        }
    }
    let mut tags = vec![
        (256, vec![layout.width]),
        (257, vec![layout.height]),
        (258, vec![bits; channels]),
        (COMPRESSION, vec![coding.number()]),
        (262, vec![if layout.pixel.colour_channels() == 1 { 1 } else { 2 }]),
        (277, vec![channels as u32]),
    ];
    let places = match cut {
        Cut::Strips(rows) => {
            [(STRIP_OFFSETS, offsets), (ROWS_PER_STRIP, vec![rows]), (STRIP_BYTE_COUNTS, lengths)].to_vec()
        }
        Cut::Tiles(width, height) => [
            (TILE_WIDTH, vec![width]),
            (TILE_LENGTH, vec![height]),
            (TILE_OFFSETS, offsets),
            (TILE_BYTE_COUNTS, lengths),
        ]
        .to_vec(),
    };
    tags.extend(places);
    if layout.pixel.has_alpha() {
        tags.push((338, vec![2]));
    }
    if format != UNSIGNED {
        tags.push((339, vec![format; channels]));
    }
    tags.sort_by_key(|(tag, _)| *tag);
    let mut directory = (tags.len() as u16).to_le_bytes().to_vec();
    for (tag, values) in tags {
        let place = match values[..] {
            [value] => value,
            _ => {
                let at = file.len() as u32;
                file.extend(values.iter().flat_map(|value: &u32| value.to_le_bytes()));
                at
            }
        };
        let words = [values.len() as u32, place].map(u32::to_le_bytes).concat();
        directory.extend([&u16::to_le_bytes(tag)[..], &4_u16.to_le_bytes(), &words].concat());
    }
    let at = file.len() as u32;
    file[link..link + 4].copy_from_slice(&at.to_le_bytes());
    file.extend(directory);
    file.extend([0; 4]);
    file
}

/// Returns the values of a tag of the first page of a small file; empty if it has no such tag.
pub(crate) fn numbers_in(file: &[u8], tag: u16) -> Vec<u32> {
    let word = |at: usize| u32::from_le_bytes(file[at..at + 4].try_into().unwrap());
    let short = |at: usize| u16::from_le_bytes(file[at..at + 2].try_into().unwrap());
    let directory = word(4) as usize;
    let mut entries = (0..usize::from(short(directory))).map(|number| directory + 2 + 12 * number);
    let Some(entry) = entries.find(|&at| short(at) == tag) else { return Vec::new() };
    let (is_short, count) = (short(entry + 2) == 3, word(entry + 4) as usize);
    let bytes = if is_short { 2 } else { 4 };
    let first = if count * bytes <= 4 { entry + 8 } else { word(entry + 8) as usize };
    let number = |at| if is_short { short(at).into() } else { word(at) };
    (0..count).map(|index| number(first + index * bytes)).collect()
}

/// Returns the first value of a tag of the first page of a small file.
pub(crate) fn number_in(file: &[u8], tag: u16) -> Option<u32> {
    numbers_in(file, tag).first().copied()
}

/// Returns the pixels of a picture, read as a whole.
pub(crate) fn pixels_of(path: &Path) -> (Layout, Vec<u8>) {
    let (mut file, mut buffer) = (File::open(path).unwrap(), Vec::new());
    let opened = codec::open(&mut file, &mut buffer, &LIMITS, &TARGET).unwrap();
    let mut slot = vec![0_u16; opened.slot_bytes().div_ceil(2)];
    let slot = bytemuck::cast_slice_mut(&mut slot);
    let decoded = opened.decode(slot, &mut [], &Cores::none()).unwrap();
    let bytes = decoded.layout.bytes() as usize;
    (decoded.layout, slot[..bytes].to_vec())
}

/// Memory too small for a whole picture of [`large`]: 8-bit pictures exceed it, and 16-bit pictures
/// exceed half of it, as they need room for their counts and tables too.
const LITTLE: &str = "--memory 1MiB --threads 1 --devices cpu";
const LITTLE_FOR_DEEP: &str = "--memory 8MiB --threads 1 --devices cpu";

/// Pictures that exceed this memory.
fn large() -> impl Iterator<Item = Layout> {
    every_layout(1, 1).map(|Layout { pixel, depth, .. }| {
        let row = if depth == Depth::Eight { 1024 } else { 4096 };
        let width = row / (pixel.channels() * depth.bytes()) as u32 + 5;
        Layout { width, height: 1100, pixel, depth }
    })
}

#[test]
fn every_kind_of_tiff_comes_out_as_it_would_as_a_whole_and_keeps_its_tiles() {
    let (place, mut random) = (Place::new(), Random(58));
    let cuts = [Cut::Tiles(64, 32), Cut::Strips(3), Cut::Strips(1100), Cut::Tiles(48, 16)];
    let folder = |depth| if depth == Depth::Eight { "in" } else { "deep" };
    let mut all = Vec::new();
    for (number, layout) in large().enumerate() {
        let samples = samples(&layout, Data::Natural, &mut random);
        place.file(format!("whole/{number}.pam"), pam(&layout, &samples));
        for cut in cuts {
            // A single strip is cut only where it is stored uncompressed.
            let codings = match cut {
                Cut::Strips(1100) | Cut::Tiles(48, 16) => vec![Storage::Stored],
                _ => vec![random.pick(&[Storage::Lzw, Storage::Deflate])],
            };
            for coding in codings {
                let name = format!("{number}-{cut:?}-{coding:?}.tif");
                place.file(format!("{}/{name}", folder(layout.depth)), tiff(&layout, &samples, cut, coding));
                all.push((number, name, cut, coding));
            }
        }
    }
    let settings = [
        "",
        "--color per-channel --strength 0.5",
        "--color hue --method stretch",
        "--color linked --plateau 0.5",
        "--method clahe --tiles 1x3",
        "--method clahe --tiles 2x1 --clip-limit auto --color per-channel",
    ];
    for settings in settings {
        place.run(&format!("whole --out expected {settings} --overwrite")).exits(0);
        place.run(&format!("in --out out {LITTLE} {settings} --overwrite")).exits(0);
        place.run(&format!("deep --out out {LITTLE_FOR_DEEP} {settings} --overwrite")).exits(0);
        for (number, name, cut, coding) in &all {
            let file = place.read(format!("out/{name}"));
            let tile = tile_of(&file);
            match cut {
                Cut::Tiles(width, height) => assert_eq!(tile, Some((*width, *height)), "{name}"),
                Cut::Strips(_) => assert_eq!(tile, None, "{name}"),
            }
            assert_eq!(number_in(&file, COMPRESSION), Some(coding.number()), "{name}");
            let expected = pixels_of(&place.path(format!("expected/{number}.pam")));
            assert!(pixels_of(&place.path(format!("out/{name}"))) == expected, "{name} with {settings}");
        }
    }
}

/// Returns width and height of a file's tiles.
fn tile_of(file: &[u8]) -> Option<(u32, u32)> {
    number_in(file, TILE_WIDTH).zip(number_in(file, TILE_LENGTH))
}

#[test]
fn a_large_picture_among_others_has_the_luts_of_all_or_those_that_are_given() {
    let (place, mut random) = (Place::new(), Random(59));
    for number in 0..3 {
        let height = if number == 1 { 1500 } else { 90 };
        let layout = Layout { width: 900, height, pixel: Pixel::Gray, depth: Depth::Eight };
        let samples = samples(&layout, Data::Natural, &mut random);
        place.file(format!("in/{number}.tif"), tiff(&layout, &samples, Cut::Tiles(64, 64), Storage::Lzw));
        place.file(format!("whole/{number}.pam"), pam(&layout, &samples));
    }
    place.run("histogram whole --counts counts.json").exits(0);
    for settings in ["--together folder", "--lut counts.json"] {
        place.run(&format!("whole --out expected {settings} --overwrite")).exits(0);
        place.run(&format!("in --out out {LITTLE} {settings} --overwrite")).exits(0);
        for number in 0..3 {
            let expected = pixels_of(&place.path(format!("expected/{number}.pam")));
            let output = pixels_of(&place.path(format!("out/{number}.tif")));
            assert!(output == expected, "{number} with {settings}");
        }
    }
}

#[test]
fn damage_anywhere_in_a_large_picture_is_told_once_and_leaves_nothing() {
    let (place, mut random) = (Place::new(), Random(60));
    let layout = Layout { width: 1000, height: 1100, pixel: Pixel::Gray, depth: Depth::Eight };
    let file =
        tiff(&layout, &samples(&layout, Data::Natural, &mut random), Cut::Tiles(64, 64), Storage::Deflate);
    for part in 1..6 {
        let mut file = file.clone();
        let at = file.len() * part / 6;
        file[at..at + 64].fill(0xff);
        place.file(format!("in/{part}.tif"), file);
    }
    let ran = place.run(&format!("in --out out {LITTLE}"));
    ran.exits(1);
    for part in 1..6 {
        assert_eq!(ran.stderr().matches(&format!("in/{part}.tif")).count(), 1, "{}", ran.stderr());
    }
    ran.says("damaged TIFF").says("Failed: 5");
    assert!(place.tree("out").is_empty(), "{:?}", place.tree("out"));
}

#[test]
fn limits_hold_for_the_whole_of_a_large_picture() {
    let (place, mut random) = (Place::new(), Random(61));
    let layout = Layout { width: 1000, height: 1100, pixel: Pixel::Gray, depth: Depth::Eight };
    let samples = samples(&layout, Data::Natural, &mut random);
    place.file("in/a.tif", tiff(&layout, &samples, Cut::Tiles(64, 64), Storage::Lzw));
    for (limit, enough) in [
        ("--max-pixels 1000000", "raise it with --max-pixels 1100000\n"),
        ("--max-bytes 1000000", "raise it with --max-bytes 1"),
    ] {
        // Little memory is enough, as the picture is processed in bands; only the limit refuses it.
        place.run(&format!("in --out out {LITTLE} {limit}")).exits(1).says("1000x1100 pixels").says(enough);
    }
    place.file("in/a.tif", tiff(&layout, &samples, Cut::Tiles(1008, 1104), Storage::Lzw));
    let ran = place.run("in --out out --memory 1MiB");
    ran.exits(1).says("--memory allows 1048576; raise --memory to ").says("done as a whole, as this TIFF is");
    let flags = ran.stderr();
    let enough = flags.split_once("raise --memory to ").unwrap().1.split(':').next().unwrap();
    place.run(&format!("in --out out --memory {enough}")).exits(0);
    place.file("in/a.tif", tiff(&layout, &samples, Cut::Tiles(64, 64), Storage::Lzw));
    place.run(&format!("in --out out {LITTLE} --max-pixels 1100000 --max-bytes 2MiB")).exits(0);
}

#[test]
fn a_pnm_is_cut_too_and_may_become_a_tiff_or_be_made_of_one() {
    let (place, mut random) = (Place::new(), Random(66));
    for (name, pixel, depth) in [
        ("gray.pgm", Pixel::Gray, Depth::Eight),
        ("deep.pgm", Pixel::Gray, Depth::Sixteen),
        ("colours.ppm", Pixel::Rgb, Depth::Eight),
        ("alpha.pam", Pixel::Rgba, Depth::Eight),
    ] {
        let layout = Layout { width: 1100, height: 1500, pixel, depth };
        let samples = samples(&layout, Data::Natural, &mut random);
        place.file(format!("in/{name}.tif"), tiff(&layout, &samples, Cut::Strips(9), Storage::Lzw));
        let pam = pam(&layout, &samples);
        let start = pam.windows(7).position(|bytes| bytes == b"ENDHDR\n").unwrap() + 7;
        let maxval = depth.levels() - 1;
        let file = match name.rsplit_once('.').unwrap().1 {
            "pgm" => [format!("P5\n# by hand\n1100 1500\n{maxval}\n").as_bytes(), &pam[start..]].concat(),
            "ppm" => [format!("P6 1100 1500 {maxval}\n").as_bytes(), &pam[start..]].concat(),
            _ => pam,
        };
        place.file(format!("in/{name}"), file);
    }
    let bits: Vec<u8> = (0..2048 * 5000 / 8).map(|_| random.next() as u8).collect();
    place.file("in/bits.pbm", [&b"P4\n2048 5000\n"[..], &bits].concat());
    for settings in [
        "",
        "--format tiff",
        "--format pnm --overwrite",
        "--format pnm --depth 8 --color gray",
        "--method clahe --tiles 2x1",
    ] {
        let (expected, out) = (format!("expected{}", settings.len()), format!("out{}", settings.len()));
        place.run(&format!("in --out {expected} {settings}")).exits(0);
        place.run(&format!("in --out {out} {settings} {LITTLE_FOR_DEEP}")).exits(0);
        assert_eq!(place.tree(&out), place.tree(&expected), "{settings}");
        for file in place.tree(&expected) {
            let of = |folder| pixels_of(&place.path(format!("{folder}/{file}")));
            assert!(of(&out) == of(&expected), "{file} with {settings}");
        }
    }
    let whole = place.read("in/gray.pgm");
    place.file("broken/short.pgm", &whole[..whole.len() - 1]);
    place.file("broken/long.pgm", [&whole[..], b"P5"].concat());
    let ran = place.run(&format!("broken --out out {LITTLE}"));
    ran.exits(1).says("truncated: only 1649999 of 1650000 bytes").says("a PNM file of several pictures");
}
