//! Animations: frames as they are shown, with one histogram, and back into files that are played the same way.

use std::collections::HashSet;
use std::fs::File;
use std::path::{Path, PathBuf};

use codec::Cores;
use equalize::{Layout, Method, Operation, Pixel, Scratch, equalize};

use crate::harness::{Place, project};
use crate::stacks::{LIMITS, TARGET};

pub(crate) fn data(name: &str) -> PathBuf {
    project().join("tests/data/animations").join(name)
}

/// Returns the names of all animations.
fn names() -> Vec<String> {
    expected().into_iter().map(|fields| fields[0].clone()).collect()
}

pub(crate) fn expected() -> Vec<Vec<String>> {
    let text = std::fs::read_to_string(data("expected.tsv")).unwrap();
    text.lines().map(|line| line.split('\t').map(str::to_owned).collect()).collect()
}

/// Returns the frames of a file below each other, and how many there are.
pub(crate) fn frames(path: &Path) -> (Layout, Vec<u8>, usize) {
    let (mut file, mut buffer) = (File::open(path).unwrap(), Vec::new());
    let opened = codec::open(&mut file, &mut buffer, &LIMITS, &TARGET).unwrap();
    let mut slot = vec![0; opened.slot_bytes()];
    let decoded = opened.decode(&mut slot, &mut [], &Cores::none()).unwrap();
    (decoded.layout, slot, decoded.frames())
}

/// Returns RGB or RGBA pixels as RGBA, with zeros where they are transparent.
pub(crate) fn rgba(layout: &Layout, pixels: &[u8]) -> Vec<u8> {
    let shown = |pixel: &[u8]| match (layout.pixel, pixel) {
        (Pixel::Rgb, &[red, green, blue]) => [red, green, blue, 255],
        (Pixel::Rgba, &[red, green, blue, alpha]) if alpha > 0 => [red, green, blue, alpha],
        _ => [0; 4],
    };
    pixels.chunks_exact(layout.pixel_bytes()).flat_map(shown).collect()
}

#[test]
fn frames_are_what_another_decoder_shows() {
    let table = expected();
    assert!(table.len() >= 5);
    for fields in table {
        let (layout, pixels, count) = frames(&data(&fields[0]));
        let mut crc = flate2::Crc::new();
        crc.update(&rgba(&layout, &pixels));
        let height = layout.height as usize / count;
        let found = format!("{}\t{}\t{height}\t{count}\t{:08x}", fields[0], layout.width, crc.sum());
        assert_eq!(found, fields.join("\t"));
    }
}

#[test]
fn all_frames_have_one_histogram_in_every_format() {
    let place = Place::new();
    for name in names() {
        place.file(format!("in/{name}"), std::fs::read(data(&name)).unwrap());
    }
    for format in ["keep", "png", "webp", "gif"] {
        place.run(&format!("in --out {format} --format {format}"));
        let outputs = place.tree(format);
        for name in names() {
            let (layout, mut pixels, count) = frames(&data(&name));
            equalize(&mut pixels, &layout, &Operation::new(Method::Global), &mut Scratch::default());
            let stem = name.split('.').next();
            let output = outputs.iter().find(|output| output.split('.').next() == stem);
            assert_eq!(output.is_some(), format != "gif" || fits_gif(&layout, &pixels, count), "{name}");
            let Some(output) = output else { continue };
            let (written, found, again) = frames(&place.path(format).join(output));
            assert_eq!(
                (again, written.width, written.height),
                (count, layout.width, layout.height),
                "{name} as {format}"
            );
            assert!(rgba(&written, &found) == rgba(&layout, &pixels), "{name} as {format}");
        }
    }
}

/// Returns whether frames have at most 256 colours each, and no half-transparent pixels.
fn fits_gif(layout: &Layout, pixels: &[u8], count: usize) -> bool {
    let rgba = rgba(layout, pixels);
    rgba.chunks_exact(rgba.len() / count).all(|frame| {
        let pixels = frame.as_chunks::<4>().0;
        let colours: HashSet<_> = pixels.iter().collect();
        colours.len() <= 256 && pixels.iter().all(|pixel| matches!(pixel[3], 0 | 255))
    })
}

#[test]
fn frames_are_shown_as_long_and_as_often_as_before() {
    let place = Place::new();
    place.file("in/a.webp", std::fs::read(data("lossless.webp")).unwrap());
    place.run("in --out a --format png").exits(0);
    place.run("a --out b --format webp").exits(0);
    place.run("b --out c --format gif").exits(0);
    place.run("c --out d --format png").exits(0);
    let controls = |name: &str| {
        let bytes = place.read(name);
        let contents = |kind: &[u8]| -> Vec<Vec<u8>> {
            memchr::memmem::find_iter(&bytes, kind).map(|at| bytes[at + 4..at + 30].to_vec()).collect()
        };
        let number = |bytes: &[u8]| u16::from_be_bytes([bytes[0], bytes[1]]);
        let delays: Vec<f64> = contents(b"fcTL")
            .iter()
            .map(|control| f64::from(number(&control[20..])) / f64::from(number(&control[22..])))
            .collect();
        (delays, contents(b"acTL")[0][..8].to_vec())
    };
    let expected = (vec![0.04, 0.07, 0.11], vec![0, 0, 0, 3, 0, 0, 0, 3]);
    assert_eq!(controls("a/a.png"), expected);
    assert_eq!(controls("d/a.png"), expected, "through WebP and GIF");
}

#[test]
fn a_gif_is_cleared_to_transparent_in_front_of_every_frame_with_holes() {
    let place = Place::new();
    place.file("holes.gif", std::fs::read(data("holes.gif")).unwrap());
    place.run("holes.gif --out out --strength 0").exits(0);
    let bytes = place.read("out/holes.gif");
    // Whether it is cleared behind a frame, and whether the frame has a transparent index.
    let flags = memchr::memmem::find_iter(&bytes, b"\x21\xf9\x04").map(|at| bytes[at + 3]);
    let found: Vec<_> = flags.map(|flags| (flags >> 2 & 7 == 2, flags & 1 == 1)).collect();
    assert_eq!(found, [(true, true); 3], "the second frame has no holes, the third one does");
}

#[test]
fn what_has_no_place_for_frames_is_refused_with_a_remedy() {
    let place = Place::new();
    place.file("a.gif", std::fs::read(data("mixed-disposal.gif")).unwrap());
    place
        .run("a.gif --out out --format tiff")
        .exits(1)
        .says("TIFF cannot hold the 5 frames of a GIF; write it as PNG");
    place
        .run("a.gif --out out --method clahe")
        .exits(1)
        .says("whose 5 frames are one picture; use --method global");
    let mut colours = b"P6 32 16 255\n".to_vec();
    colours.extend((0..512_u16).flat_map(|n| [n.to_le_bytes()[0], (n >> 8) as u8 * 200, 7]));
    place.file("b.ppm", &colours);
    place
        .run("b.ppm --out out --format gif")
        .exits(1)
        .says("GIF cannot hold more than 256 colours in a frame");
    assert!(place.tree("out").is_empty());
}

#[test]
fn a_file_that_ends_within_a_frame_is_damaged() {
    let place = Place::new();
    for name in names() {
        let whole = std::fs::read(data(&name)).unwrap();
        place.file(format!("in/{name}"), &whole[..whole.len() * 4 / 5]);
    }
    place.run("in --out out").exits(1).says(&format!("Failed: {}", names().len()));
    assert!(place.tree("out").is_empty());
}
