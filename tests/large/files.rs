//! PNGs and bitmaps, which coders take row by row: an output written in bands has the bytes of one
//! written as a whole.

use std::fs::File;
use std::io::{Read, Seek, Write};
use std::path::Path;

use codec::pages::PageOutput;
use codec::{Budget, Cores, Format, PngLevel, Target};
use flate2::Compression;
use flate2::write::ZlibEncoder;

use super::pixels_of;
use crate::harness::Place;
use crate::samples::Random;
use crate::stacks::{LIMITS, TARGET};

const SIDES: (u32, u32) = (1500, 900);

/// Returns a chunk.
fn chunk(kind: &[u8; 4], content: &[u8]) -> Vec<u8> {
    let mut crc = flate2::Crc::new();
    crc.update(kind);
    crc.update(content);
    [&(content.len() as u32).to_be_bytes(), &kind[..], content, &crc.sum().to_be_bytes()].concat()
}

/// Predicts a byte from its neighbours (left, above, and above left) by a filter type (PNG third
/// edition, section 9).
fn predicted(kind: u8, left: u8, above: u8, corner: u8) -> u8 {
    let estimate = i32::from(left) + i32::from(above) - i32::from(corner);
    let distance = |byte: u8| (estimate - i32::from(byte)).abs();
    match kind {
        1 => left,
        2 => above,
        3 => ((u16::from(left) + u16::from(above)) / 2) as u8,
        4 if distance(left) <= distance(above) && distance(left) <= distance(corner) => left,
        4 if distance(above) <= distance(corner) => above,
        4 => corner,
        _ => 0,
    }
}

/// A kind of PNG: colour type, bits of a sample, bytes of a decoded pixel, and chunks before the
/// image data.
type Kind = (u8, u32, usize, Vec<Vec<u8>>);

/// Returns a PNG of these sides: rows with all filters, image data in chunks of many lengths.
fn png((width, height): (u32, u32), (colour, bits, _, before): &Kind, random: &mut Random) -> Vec<u8> {
    let samples = [1, 0, 3, 1, 2, 0, 4][usize::from(*colour)];
    let row = (width * samples * bits).div_ceil(8) as usize;
    let step = (samples * bits).div_ceil(8) as usize;
    let mut data = ZlibEncoder::new(Vec::new(), Compression::fast());
    let mut above = vec![0; row];
    for y in 0..height as usize {
        let this: Vec<u8> =
            (0..row).map(|x| ((x / 7 + y / 5) as u8) ^ (random.next() as u8 >> (3 + y / 200 % 4))).collect();
        let kind = (y % 5) as u8;
        let neighbour = |row: &[u8], x: usize| x.checked_sub(step).map_or(0, |x| row[x]);
        let filtered = (0..row).map(|x| {
            let predicted = predicted(kind, neighbour(&this, x), above[x], neighbour(&above, x));
            this[x].wrapping_sub(predicted)
        });
        data.write_all(&[kind]).unwrap();
        data.write_all(&filtered.collect::<Vec<_>>()).unwrap();
        above = this;
    }
    let data = data.finish().unwrap();
    let header = [&width.to_be_bytes()[..], &height.to_be_bytes(), &[*bits as u8, *colour, 0, 0, 0]].concat();
    let mut file = [b"\x89PNG\r\n\x1a\n", &*chunk(b"IHDR", &header), &before.concat()].concat();
    let mut rest = &data[..];
    while !rest.is_empty() {
        let (part, behind) = rest.split_at(rest.len().min(random.index(60_000)));
        file.extend(chunk(b"IDAT", part));
        rest = behind;
    }
    [file, chunk(b"tEXt", b"Comment\0behind"), chunk(b"IEND", b"")].concat()
}

/// Returns a palette with fewer colours than the samples can number.
fn palette(colours: u8, random: &mut Random) -> Vec<u8> {
    chunk(b"PLTE", &(0..3 * usize::from(colours)).map(|_| random.next() as u8).collect::<Vec<_>>())
}

/// Returns all kinds of PNG that are stored row after row.
fn kinds(random: &mut Random) -> Vec<(&'static str, Kind)> {
    let gray = chunk(b"tRNS", &[0, 1]);
    let physical = chunk(b"pHYs", &[0, 0, 11, 19, 0, 0, 11, 19, 1]);
    let text = chunk(b"tEXt", b"Title\0A large picture");
    vec![
        ("gray1", (0, 1, 1, vec![])),
        ("gray2-transparent", (0, 2, 2, vec![gray.clone()])),
        ("gray4", (0, 4, 1, vec![text.clone()])),
        ("gray8", (0, 8, 1, vec![physical, text])),
        ("gray8-transparent", (0, 8, 2, vec![gray])),
        ("gray16", (0, 16, 2, vec![chunk(b"sBIT", &[12])])),
        ("rgb8", (2, 8, 3, vec![])),
        ("rgb8-transparent", (2, 8, 4, vec![chunk(b"tRNS", &[0, 1, 0, 2, 0, 3])])),
        ("rgb16", (2, 16, 6, vec![chunk(b"gAMA", &[0, 0, 177, 143])])),
        ("palette1", (3, 1, 3, vec![palette(2, random)])),
        ("palette4", (3, 4, 4, vec![palette(9, random), chunk(b"tRNS", &[0, 100, 255])])),
        ("palette8", (3, 8, 3, vec![palette(200, random)])),
        ("gray-alpha8", (4, 8, 2, vec![])),
        ("rgba8", (6, 8, 4, vec![])),
        ("rgba16", (6, 16, 8, vec![])),
    ]
}

/// Returns a bitmap of these sides with random rows; `behind` follows the first 40 bytes of its
/// header and holds channel masks.
fn bmp(
    (width, height): (u32, i32),
    bits: u32,
    behind: &[u8],
    compression: u32,
    random: &mut Random,
) -> Vec<u8> {
    let palette = if bits > 8 { 0 } else { 1_u32 << bits };
    let start = 14 + 40 + behind.len() as u32 + 4 * palette;
    let stride = (width * bits).div_ceil(32) * 4;
    let size = stride * height.unsigned_abs();
    let mut file = b"BM".to_vec();
    let length = 40 + if behind.len() > 12 { behind.len() as u32 } else { 0 };
    [
        start + size,
        0,
        start,
        length,
        width,
        height.cast_unsigned(),
        1 | bits << 16,
        compression,
        size,
        2835,
        3000,
        0,
        0,
    ]
    .iter()
    .for_each(|word| file.extend(word.to_le_bytes()));
    file.extend(behind);
    (0..4 * palette).for_each(|_| file.push(random.next() as u8));
    (0..size).for_each(|at| file.push((at / 3000) as u8 ^ (random.next() as u8 >> 4)));
    file
}

/// Returns the masks of the channels, as they are stored.
fn masks(of: &[u32]) -> Vec<u8> {
    of.iter().flat_map(|mask| mask.to_le_bytes()).collect()
}

/// Puts files of all kinds into folders by the bytes of their pixels.
fn make_files(place: &Place, random: &mut Random) {
    for (name, kind) in kinds(random) {
        place.file(format!("in{}/{name}.png", kind.2), png(SIDES, &kind, random));
    }
    let (width, height) = (SIDES.0 + 1, SIDES.1 as i32);
    let rgb565 = masks(&[0xf800, 0x7e0, 0x1f]);
    let rgba = masks(&[0xff0000, 0xff00, 0xff, 0xff00_0000]);
    let files = [
        ("in3/bits1", bmp((width, height), 1, &[], 0, random)),
        ("in3/bits4", bmp((width, -height), 4, &[], 0, random)),
        ("in3/bits8", bmp((width, height), 8, &[], 0, random)),
        ("in3/bits16", bmp((width, height), 16, &rgb565, 3, random)),
        ("in3/bits24", bmp((width, height), 24, &[], 0, random)),
        ("in3/down24", bmp((width, -height), 24, &[], 0, random)),
        ("in4/alpha32", bmp((width, height), 32, &rgba, 3, random)),
    ];
    for (name, file) in files {
        place.file(format!("{name}.bmp"), file);
    }
    // The mask for alpha does not count, as alpha is 0 everywhere.
    let mut opaque = bmp((width, height), 32, &rgba, 3, random);
    opaque[14 + 40 + 16..].chunks_exact_mut(4).for_each(|pixel| pixel[3] = 0);
    place.file("in3/empty-alpha.bmp", opaque);
}

/// The folders of [`make_files`], by the bytes of a pixel, each with an amount of memory of which
/// its pictures take more than a quarter.
fn folders() -> impl Iterator<Item = (String, usize)> {
    let pixels = SIDES.0 as usize * SIDES.1 as usize;
    [1, 2, 3, 4, 6, 8].into_iter().map(move |bytes| (format!("in{bytes}"), bytes * pixels * 39 / 10))
}

#[test]
fn every_kind_of_png_and_bitmap_has_the_bytes_of_the_whole() {
    let (place, mut random) = (Place::new(), Random(67));
    make_files(&place, &mut random);
    let settings = [
        "",
        "--color per-channel --png-level small --depth 8 --threads 2",
        "--method clahe --tiles 2x3 --png-level balanced",
        "--format bmp --depth 8 --no-data 7",
        "--format png --color gray --strength 0.5",
        "--format png --color green --plateau 2",
        "--format pnm --method stretch",
    ];
    for (folder, memory) in folders() {
        for (number, settings) in settings.iter().enumerate() {
            place.run(&format!("{folder} --out expected/{number} {settings}")).exits(0);
            let ran =
                place.run(&format!("{folder} --out out/{number} {settings} --memory {memory} --devices cpu"));
            ran.exits(0);
        }
    }
    let expected = place.tree("expected");
    assert!(expected.len() > 130 && place.tree("out") == expected);
    for file in expected {
        assert!(place.read(format!("out/{file}")) == place.read(format!("expected/{file}")), "{file}");
    }
}

/// Sides of pictures that do not fit into [`TIGHT`] as a whole.
const TALL: (u32, u32) = (1500, 4000);
const TIGHT: &str = "--memory 12MiB --threads 2 --devices cpu";

#[test]
fn pictures_are_larger_than_memory_and_become_others() {
    let (place, mut random) = (Place::new(), Random(68));
    let kind = (2, 8, 3, vec![chunk(b"pHYs", &[0, 0, 11, 19, 0, 0, 11, 19, 1])]);
    place.file("in/a.png", png(TALL, &kind, &mut random));
    place.file("in/b.bmp", bmp((TALL.0, TALL.1 as i32), 24, &[], 0, &mut random));
    for format in ["png", "bmp", "tiff", "pnm"] {
        for folder in ["in", "pnm"] {
            place.run(&format!("{folder} --out expected/{format}/{folder} --format {format}")).exits(0);
            place.run(&format!("{folder} --out out/{format}/{folder} --format {format} {TIGHT}")).exits(0);
            if folder == "in" && format == "png" {
                place.run("in --out pnm --format pnm").exits(0);
            }
        }
    }
    for file in place.tree("expected") {
        let [out, expected] = ["out", "expected"].map(|folder| format!("{folder}/{file}"));
        // The strips of a TIFF lie in the order in which they are finished.
        let is_same = match file.ends_with(".tiff") || file.ends_with(".tif") {
            true => pixels_of(&place.path(&out)) == pixels_of(&place.path(&expected)),
            false => place.read(&out) == place.read(&expected),
        };
        assert!(is_same, "{file}");
    }
    let [whole, cut] = ["", TIGHT]
        .map(|memory| place.run(&format!("histogram in --format csv --bins 256 {memory}")).exits(0).stdout());
    assert!(whole == cut && whole.lines().count() > 1);
}

#[test]
fn a_palette_of_fewer_colours_than_its_bits_allow_is_no_obstacle() {
    let place = Place::new();
    let mut file = bmp((TALL.0, TALL.1 as i32), 4, &[], 0, &mut Random(73));
    // 5 of 16 colours.
    file.drain(54 + 4 * 5..54 + 4 * 16);
    let length = file.len() as u32;
    file[2..6].copy_from_slice(&length.to_le_bytes());
    file[10] = 54 + 4 * 5;
    file[46] = 5;
    place.file("in/a.bmp", file);
    place.run("in --out expected").exits(0);
    place.run(&format!("in --out out {TIGHT}")).exits(0);
    assert!(place.read("out/a.bmp") == place.read("expected/a.bmp"));
}

#[test]
fn levels_that_all_samples_tell_are_not_looked_for_in_bands() {
    let (place, mut random) = (Place::new(), Random(69));
    place.file("in/a.png", png(SIDES, &(0, 16, 2, vec![chunk(b"sBIT", &[12])]), &mut random));
    let memory = SIDES.0 as usize * SIDES.1 as usize * 2 * 39 / 10;
    for levels in ["auto", "4096"] {
        let [out, expected] =
            [format!("--memory {memory} --overwrite"), "--overwrite".to_owned()].map(|settings| {
                let ran = place.run(&format!("in --out out --levels {levels} {settings}"));
                (
                    ran.stderr().contains("failed"),
                    place.tree("out").first().map(|name| place.read(format!("out/{name}"))),
                )
            });
        assert!(out == expected, "{levels}");
    }
}

#[test]
fn damage_anywhere_is_told_once_and_leaves_nothing() {
    let (place, mut random) = (Place::new(), Random(70));
    let whole = png(SIDES, &(0, 8, 1, vec![]), &mut random);
    for part in 1..6 {
        let at = whole.len() * part / 6;
        let mut damaged = whole.clone();
        damaged[at..at + 9].fill(0xff);
        place.file(format!("in/damaged{part}.png"), damaged);
        place.file(format!("in/short{part}.png"), &whole[..at]);
    }
    place.file("in/checksum.png", [&whole[..whole.len() - 1], &[0]].concat());
    let bitmap = bmp((SIDES.0, SIDES.1 as i32), 24, &[], 0, &mut random);
    place.file("in/short.bmp", &bitmap[..bitmap.len() - 5]);
    let ran = place.run("in --out out --memory 5MiB --devices cpu --verbose");
    ran.exits(1).says("Failed: 12");
    for name in place.tree("in") {
        ran.says(&name);
    }
    ran.says("damaged PNG: a checksum does not match its data").says("damaged BMP: it is truncated");
    assert!(place.tree("out").is_empty(), "{:?}", place.tree("out"));
}

#[test]
fn what_cannot_be_cut_says_so_with_what_would_do() {
    let (place, mut random) = (Place::new(), Random(71));
    let whole = png(SIDES, &(2, 8, 3, vec![]), &mut random);
    let pixels = SIDES.0 * SIDES.1;
    place.file("a.png", &whole);
    place
        .run("a.png --out out --memory 8MiB --max-pixels 1000 --max-bytes 1000 --devices cpu")
        .exits(1)
        .says(&format!("exceeds the limits of 1000 pixels and 1000 bytes; raise them with --max-pixels {pixels} and --max-bytes "));
    // The same file with a header that claims to be interlaced.
    let mut interlaced = whole;
    interlaced[28] = 1;
    let header = chunk(b"IHDR", &interlaced[16..29]);
    interlaced[8..33].copy_from_slice(&header);
    place.file("b.png", &interlaced);
    let ran = place.run(&format!("b.png --out out --memory {} --devices cpu", interlaced.len() + 10_000));
    ran.exits(1).says("raise --memory to ").says("it is done as a whole, as interlaced and animated PNGs");
    // A header that claims run-length encoding, with data of the length of plain rows.
    place.file("c.bmp", bmp((SIDES.0, SIDES.1 as i32), 8, &[], 1, &mut random));
    let ran = place.run("c.bmp --out out --memory 2MiB --devices cpu");
    ran.exits(1).says("raise --memory to ").says("it is done as a whole, as run-length encoded BMPs");
}

#[test]
fn little_data_that_claim_to_be_much_are_harmless() {
    let place = Place::new();
    let kind = (6, 16, 8, vec![]);
    let mut bomb = png((30, 30), &kind, &mut Random(72));
    let header = [&100_000_u32.to_be_bytes()[..], &100_000_u32.to_be_bytes(), &bomb[24..29]].concat();
    bomb[8..33].copy_from_slice(&chunk(b"IHDR", &header));
    place.file("a.png", &bomb);
    let ran = place.run("a.png --out out --memory 100MiB --devices cpu");
    ran.exits(1).says("100000x100000 pixels");
    let ran = place.run(
        "a.png --out out --memory 100MiB --devices cpu --max-pixels 10000000000 --max-bytes 80000000000",
    );
    ran.exits(1).says("damaged PNG: its image data ends before its last row");
}

/// A budget by which pictures of more bytes are cut into bands.
struct CutAbove(u64);

impl Budget for CutAbove {
    fn hold(&mut self, _bytes: u64) -> Result<(), u64> {
        Ok(())
    }

    fn most_at_once(&self) -> u64 {
        self.0
    }
}

/// Returns the bytes of the output of a file in bands, read and written in the order that
/// `shuffled` gives them.
fn written_of_bands(path: &Path, target: &Target, most: u64, shuffled: impl Fn(&mut Vec<usize>)) -> Vec<u8> {
    let open = || (File::open(path).unwrap(), Vec::new());
    let ((mut file, mut buffer), mut budget) = (open(), CutAbove(most));
    let mut opened = codec::open_within(&mut budget, &mut file, &mut buffer, &LIMITS, target).unwrap();
    let pages = opened.take_pages().expect("it is cut");
    let writer = pages.writer();
    (0..pages.len()).for_each(|_| writer.announce(None));
    let (mut out, spill) = (tempfile::tempfile().unwrap(), tempfile::tempfile().unwrap());
    let mut order: Vec<_> = (0..pages.len()).collect();
    shuffled(&mut order);
    let mut written = None;
    for index in order {
        let (mut file, mut buffer) = open();
        let opened =
            codec::pages::open_page(&mut budget, &mut file, &mut buffer, &LIMITS, target, pages.page(index))
                .unwrap();
        let mut slot = vec![0_u16; opened.slot_bytes().div_ceil(2)];
        let slot = bytemuck::cast_slice_mut(&mut slot);
        let decoded = opened.decode(slot, &mut [], &Cores::none()).unwrap();
        assert!(written.is_none(), "it was not complete");
        let none = Cores::none();
        let to = PageOutput { target, help: (&none).into(), out: (&out).into(), spill: &spill };
        written = writer.write(index, &decoded, slot, to).unwrap();
    }
    let mut bytes = Vec::new();
    out.rewind().unwrap();
    out.read_to_end(&mut bytes).unwrap();
    assert_eq!(written, Some(bytes.len() as u64), "it is complete");
    bytes
}

/// Returns the bytes of the output of a file as a whole.
fn written_at_once(path: &Path, target: &Target) -> Vec<u8> {
    let (mut file, mut buffer) = (File::open(path).unwrap(), Vec::new());
    let opened = codec::open(&mut file, &mut buffer, &LIMITS, target).unwrap();
    let mut slot = vec![0_u16; opened.slot_bytes().div_ceil(2)];
    let slot = bytemuck::cast_slice_mut(&mut slot);
    let decoded = opened.decode(slot, &mut [], &Cores::none()).unwrap();
    let mut out = tempfile::tempfile().unwrap();
    codec::encode(&decoded, slot, target, &mut Vec::new(), &Cores::none(), &mut out).unwrap();
    let mut bytes = Vec::new();
    out.rewind().unwrap();
    out.read_to_end(&mut bytes).unwrap();
    bytes
}

#[test]
fn bands_may_be_read_and_written_in_any_order() {
    let (place, mut random) = (Place::new(), Random(73));
    let kinds = [(0, 8, 1, vec![]), (6, 16, 8, vec![]), (3, 4, 3, vec![palette(16, &mut random)])];
    for (number, kind) in kinds.iter().enumerate() {
        let height = if number == 0 { 90_001 } else { 60_000 };
        let path = format!("{number}.png");
        place.file(&path, png((19, height), kind, &mut random));
        let path = place.path(path);
        for (format, level) in [
            (Format::Png, PngLevel::Fast),
            (Format::Png, PngLevel::Balanced),
            (Format::Png, PngLevel::Small),
            (Format::Bmp, PngLevel::Fast),
        ] {
            if format == Format::Bmp && kind.1 == 16 {
                continue;
            }
            let target = Target { format: Some(format), png_level: level, ..TARGET };
            let whole = written_at_once(&path, &target);
            for order in 0..3 {
                let seed = random.next();
                let shuffled = |bands: &mut Vec<usize>| match order {
                    0 => bands.reverse(),
                    1 => {}
                    _ => bands.sort_by_key(|band| (*band as u64 + 1).wrapping_mul(seed | 1)),
                };
                let bands = written_of_bands(&path, &target, 1 << 20, shuffled);
                assert!(bands == whole, "{format} by {level:?} of {kind:?} in order {order}");
            }
        }
    }
}

#[test]
fn what_is_read_whole_and_does_not_fit_says_what_would_do() {
    let (place, mut random, sides) = (Place::new(), Random(74), (1500, 1500));
    let frame =
        [[0, sides.0, sides.1, 0, 0].map(u32::to_be_bytes).concat(), vec![0, 1, 0, 10, 0, 0]].concat();
    let animated = vec![chunk(b"acTL", &[0, 0, 0, 1, 0, 0, 0, 0]), chunk(b"fcTL", &frame)];
    place.file("in/a.png", png(sides, &(2, 8, 3, animated), &mut random));
    place.run("in/a.png --out in/b.gif --format gif").exits(0);
    for name in ["a.png", "b.gif"] {
        let memory = format!("in/{name} --out out --devices cpu --memory");
        let ran = place.run(&format!("{memory} 1MiB"));
        ran.exits(1)
            .says("takes more memory than the 1048576 bytes that --memory allows; raise --memory to ");
        let told = ran.stderr();
        let enough = told.split_once("raise --memory to ").unwrap().1;
        let enough = enough.split(|other: char| !other.is_ascii_digit()).next().unwrap();
        place.run(&format!("{memory} {enough}")).exits(0);
    }
}
