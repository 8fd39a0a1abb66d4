//! `--levels auto`: the samples of all bands, not of one, decide the number of levels.

use equalize::{Depth, Layout, Pixel};

use super::{Cut, LITTLE, pixels_of, tiff};
use crate::harness::Place;
use crate::samples::{Data, Random, pam, samples};
use crate::stacks::Storage;

const SIDES: (u32, u32) = (1100, 4000);

/// Memory of less than a whole picture of 16 bits.
const DEEP: &str = "--memory 8MiB --devices cpu";

/// The flags for the levels to be found in pictures of this name.
const FOUND: [(&str, &str); 4] = [
    ("twelve", "--shift 4"),
    ("fourteen", "--shift 2"),
    ("sixteen", "--levels full"),
    ("black-above", "--shift 4"),
];

/// Returns samples of twelve bits, in the upper bits of 16. By the name, one sample of the last row
/// has a lower bit set as well, or the first 3000 rows are black.
fn gray(name: &str, layout: &Layout, random: &mut Random) -> Vec<u16> {
    let mut samples = samples(layout, Data::Natural, random);
    let (width, last) = (layout.width as usize, samples.len() - 7);
    samples.iter_mut().for_each(|sample| *sample &= 0xfff0);
    match name {
        "fourteen" => samples[last] |= 4,
        "sixteen" => samples[last] |= 1,
        "black-above" => samples[..3000 * width].fill(0),
        _ => {}
    }
    samples
}

#[test]
fn levels_in_the_upper_bits_are_found_in_all_bands() {
    let (place, mut random) = (Place::new(), Random(67));
    let layout = Layout { width: SIDES.0, height: SIDES.1, pixel: Pixel::Gray, depth: Depth::Sixteen };
    for (name, _) in FOUND {
        let gray = gray(name, &layout, &mut random);
        place.file(format!("{name}/tiles.tif"), tiff(&layout, &gray, Cut::Tiles(64, 64), Storage::Lzw));
        place.file(format!("{name}/a.pam"), pam(&layout, &gray));
    }
    place.run("twelve/a.pam --out twelve/b.png --format png --method stretch --shift 4").exits(0);
    for settings in ["", "--preset xray --tiles 2x1 --clip-limit auto", "--preset microscopy --threads 1"] {
        for (name, found) in FOUND {
            let (expected, out) = (format!("expected/{name}"), format!("out/{name}"));
            place.run(&format!("{name} --out {expected} {settings} {found} --overwrite")).exits(0);
            place.run(&format!("{name} --out {out} {settings} --levels auto {DEEP} --overwrite")).exits(0);
            for file in place.tree(name) {
                let of = |folder: &str| pixels_of(&place.path(format!("{folder}/{file}")));
                assert!(of(&out) == of(&expected), "{name}/{file} with {settings}");
            }
        }
    }
}

#[test]
fn a_mask_and_colours_that_become_gray_change_nothing_of_which_levels_are_found() {
    let (place, mut random) = (Place::new(), Random(68));
    let layout = Layout { width: 600, height: 2500, pixel: Pixel::Rgb, depth: Depth::Sixteen };
    let mut colours = samples(&layout, Data::Natural, &mut random);
    colours.iter_mut().for_each(|sample| *sample &= 0xffc0);
    place.file("in/a.tif", tiff(&layout, &colours, Cut::Strips(9), Storage::Deflate));
    let mask: Vec<u16> = colours.chunks(3).map(|colours| u16::from(colours[1] > 900)).collect();
    let of_mask = Layout { pixel: Pixel::Gray, depth: Depth::Eight, ..layout };
    place.file("masks/a.tif", tiff(&of_mask, &mask, Cut::Strips(9), Storage::Stored));
    for settings in ["--color gray", "--mask masks --color hue", "--no-data 0 --method stretch"] {
        place.run(&format!("in --out expected {settings} --shift 6 --overwrite")).exits(0);
        place.run(&format!("in --out out {settings} --levels auto {DEEP} --overwrite")).exits(0);
        let [out, expected] =
            ["out", "expected"].map(|folder| pixels_of(&place.path(format!("{folder}/a.tif"))));
        assert!(out == expected, "{settings}");
    }
}

#[test]
fn the_histogram_is_of_the_levels_that_all_bands_have() {
    let (place, mut random) = (Place::new(), Random(69));
    let layout = Layout { width: SIDES.0, height: SIDES.1, pixel: Pixel::Gray, depth: Depth::Sixteen };
    let gray = gray("fourteen", &layout, &mut random);
    place.file("in/a.tif", tiff(&layout, &gray, Cut::Tiles(64, 64), Storage::Lzw));
    let counts = |name: &str, settings: &str| {
        place.run(&format!("histogram in --counts {name}.json {settings}")).exits(0);
        place.read(format!("{name}.json"))
    };
    let found = counts("found", &format!("--levels auto {DEEP}"));
    assert!(found == counts("said", "--shift 2"));
    assert!(String::from_utf8(found).unwrap().contains("\"levels\":16384"));
}

#[test]
fn samples_of_eight_bits_have_all_levels_in_bands_too() {
    let (place, mut random) = (Place::new(), Random(70));
    let layout = Layout { width: SIDES.0, height: SIDES.1, pixel: Pixel::Gray, depth: Depth::Eight };
    let mut gray = samples(&layout, Data::Natural, &mut random);
    gray.iter_mut().for_each(|sample| *sample &= 0xf0);
    place.file("in/a.tif", tiff(&layout, &gray, Cut::Tiles(64, 64), Storage::Lzw));
    place.run("in --out expected --levels full").exits(0);
    place.run(&format!("in --out out --levels auto {LITTLE}")).exits(0);
    assert!(pixels_of(&place.path("out/a.tif")) == pixels_of(&place.path("expected/a.tif")));
}
