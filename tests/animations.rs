//! Animations: frames as they are shown, with one histogram or, with CLAHE, each by itself, and
//! back into files that are played the same way.

use std::collections::HashSet;
use std::fs::File;
use std::path::{Path, PathBuf};

use codec::Cores;
use equalize::{Clahe, ClipLimit, Layout, Method, Operation, Pixel, Scratch, Tiles, equalize};

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
            let is_opaque = rgba(&layout, &pixels).chunks_exact(4).all(|pixel| matches!(pixel[3], 0 | 255));
            assert_eq!(output.is_some(), format != "gif" || is_opaque, "{name}");
            let Some(output) = output.filter(|_| format != "gif" || fits_gif(&layout, &pixels, count)) else {
                continue;
            };
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

#[test]
fn clahe_does_every_frame_by_itself_and_a_gif_becomes_a_png() {
    let place = Place::new();
    for name in names() {
        place.file(format!("in/{name}"), std::fs::read(data(&name)).unwrap());
    }
    for (format, flags) in [("keep", ""), ("png", ""), ("webp", ""), ("workers", "--devices cpu-workers:1 ")]
    {
        let format_flag = if format == "workers" { "keep" } else { format };
        let ran = place.run(&format!(
            "in --out {format} --format {format_flag} --method clahe --tiles 3x2 --clip-limit 3 {flags}"
        ));
        ran.exits(0);
        assert_eq!(ran.stderr().contains("GIFs written as PNG"), format_flag == "keep");
        for name in names() {
            let output = match format_flag {
                "keep" => name.replace(".gif", ".png"),
                format => format!("{}.{format}", name.split('.').next().unwrap()),
            };
            let (layout, pixels, count) = frames(&data(&name));
            let (written, found, again) = frames(&place.path(format).join(output));
            assert_eq!((again, written.width, written.height), (count, layout.width, layout.height));
            let expected = frame_by_frame(&layout, pixels, count);
            assert!(rgba(&written, &found) == rgba(&layout, &expected), "{name} as {format}");
        }
    }
}

/// Returns frames with CLAHE of 3 by 2 tiles and a clip limit of 3.
fn frame_by_frame(layout: &Layout, mut pixels: Vec<u8>, count: usize) -> Vec<u8> {
    let frame = Layout { height: layout.height / count as u32, ..*layout };
    let clahe = Clahe { clip_limit: ClipLimit::Times(3.0), tiles: Tiles::Grid { x: 3, y: 2 }, noise: 0 };
    for pixels in pixels.chunks_exact_mut(frame.bytes() as usize) {
        equalize(pixels, &frame, &Operation::new(Method::Clahe(clahe)), &mut Scratch::default());
    }
    pixels
}

#[test]
fn a_gif_that_is_asked_for_has_fewer_colours_and_says_how_far_they_are_off() {
    let place = Place::new();
    let (mut exact, mut reduced) = (0, 0);
    let of_data = names().into_iter().filter(|name| name.ends_with("gif"));
    for name in of_data.clone() {
        place.file(format!("in/{name}"), std::fs::read(data(&name)).unwrap());
    }
    let mut ramp = b"P6 96 64 255\n".to_vec();
    ramp.extend(
        (0..96 * 64_u32).flat_map(|at| [at % 96, at / 96, at % 96 * (at / 96) / 40].map(|v| v as u8)),
    );
    place.file("ramp.ppm", ramp);
    place
        .run("ramp.ppm --out in --format gif --strength 0")
        .exits(0)
        .says("GIF reduced to 256 colours a frame");
    for name in of_data.chain(["ramp.gif".to_owned()]) {
        let ran = place.run(&format!(
            "in/{name} --out out/{name} --format gif --method clahe --tiles 3x2 --clip-limit 3"
        ));
        ran.exits(0);
        let (layout, pixels, count) = frames(&place.path(format!("in/{name}")));
        let (written, found, again) = frames(&place.path(format!("out/{name}")));
        let expected = frame_by_frame(&layout, pixels, count);
        assert_eq!((again, written), (count, layout), "{name}");
        if fits_gif(&layout, &expected, count) {
            exact += 1;
            assert!(rgba(&written, &found) == rgba(&layout, &expected), "{name}");
            assert!(!ran.stderr().contains("reduced to"), "{name}");
        } else {
            reduced += 1;
            let of_colours = |pixels: &[u8]| -> Vec<u8> {
                pixels.chunks_exact(layout.pixel_bytes()).flat_map(|pixel| pixel[..3].to_vec()).collect()
            };
            let (before, after) = (of_colours(&expected), of_colours(&found));
            let differences: Vec<u64> =
                before.iter().zip(&after).map(|(before, after)| before.abs_diff(*after).into()).collect();
            let mean = (differences.iter().sum::<u64>() * 100).div_ceil(differences.len() as u64);
            let most = differences.iter().max().unwrap();
            ran.says(&format!("{}.{:02} levels on average and {most} at most", mean / 100, mean % 100));
            assert!(mean < 300, "{name}: {mean}");
        }
    }
    assert!(exact > 0 && reduced > 0, "{exact} {reduced}");
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
    place.run("c --out e --method clahe").exits(0);
    let expected = (vec![0.04, 0.07, 0.11], vec![0, 0, 0, 3, 0, 0, 0, 3]);
    assert_eq!(controls("e/a.png"), expected, "a GIF with CLAHE");
    assert_eq!(controls("a/a.png"), expected);
    assert_eq!(controls("d/a.png"), expected, "through WebP and GIF");
}

#[test]
fn a_gif_is_cleared_to_transparent_in_front_of_every_frame_with_holes() {
    let place = Place::new();
    place.file("holes.gif", std::fs::read(data("holes.gif")).unwrap());
    place.run("holes.gif --out out --strength 0").exits(0);
    let bytes = place.read("out/holes.gif");
    // Whether it is cleared after a frame, and whether the frame has a transparent index.
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
        .run("histogram a.gif --method clahe --equalized")
        .exits(1)
        .says("the 5 frames of an animation are counted as one picture, but CLAHE equalizes each alone");
    let mut half = b"P7\nWIDTH 2\nHEIGHT 1\nDEPTH 4\nMAXVAL 255\nTUPLTYPE RGB_ALPHA\nENDHDR\n".to_vec();
    half.extend([1, 2, 3, 128, 4, 5, 6, 255]);
    place.file("b.pam", &half);
    place.run("b.pam --out out --format gif").exits(1).says("GIF cannot hold half-transparent pixels");
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
