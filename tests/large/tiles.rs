//! CLAHE of small tiles: their counts and tables would not fit into memory together, which holds
//! those of a few rows of tiles at a time.

use equalize::{Depth, Layout, Pixel};

use super::kinds::named;
use super::{Cut, FLOAT, SIGNED, UNSIGNED, pixels_of, tiff, tiff_of};
use crate::harness::Place;
use crate::samples::{Data, Random, pam, samples};
use crate::stacks::Storage;

/// Memory of less than a quarter of the pictures below, and of less than all tables of their
/// smaller tiles.
const LITTLE: &str = "--memory 7MiB --devices cpu";

/// Settings by which tiles do not divide the picture, and bands lie in one row of tiles and in
/// many.
const SETTINGS: [&str; 6] = [
    "--tile-size 32",
    "--tile-size 33 --color per-channel --clip-limit 3.5 --threads 3",
    "--tile-size 11 --color hue --strength 0.6 --threads 1",
    "--tile-size 20 --clip-limit 0 --threads 4",
    "--tile-size 100 --threads 2",
    "--tiles 3x90",
];

/// Compares the outputs of the pictures in `in` with little memory and with much.
fn come_out_as_a_whole(place: &Place, settings: &str) {
    place.run(&format!("in --out expected --method clahe {settings} --overwrite")).exits(0);
    place.run(&format!("in --out out --method clahe {settings} {LITTLE} --overwrite")).exits(0);
    assert!(!place.tree("expected").is_empty());
    for name in place.tree("expected") {
        let [out, expected] = ["out", "expected"].map(|folder| place.path(format!("{folder}/{name}")));
        assert!(pixels_of(&out) == pixels_of(&expected), "{name} with {settings}");
    }
}

#[test]
fn small_tiles_of_a_large_picture_are_those_of_the_whole() {
    let (place, mut random) = (Place::new(), Random(67));
    for (number, (width, pixel, depth)) in [
        (1501, Pixel::Gray, Depth::Eight),
        (702, Pixel::Rgb, Depth::Eight),
        (803, Pixel::Gray, Depth::Sixteen),
        (405, Pixel::Rgba, Depth::Sixteen),
    ]
    .into_iter()
    .enumerate()
    {
        let layout = Layout { width, height: 1307, pixel, depth };
        let samples = samples(&layout, Data::Natural, &mut random);
        if number % 3 == 0 {
            let cut = random.pick(&[Cut::Tiles(64, 32), Cut::Tiles(128, 144), Cut::Strips(3)]);
            let coding = random.pick(&[Storage::Stored, Storage::Lzw]);
            place.file(format!("in/{number}.tif"), tiff(&layout, &samples, cut, coding));
        } else {
            place.file(format!("in/{number}.pam"), pam(&layout, &samples));
        }
    }
    for settings in SETTINGS {
        come_out_as_a_whole(&place, settings);
    }
}

#[test]
fn small_tiles_of_samples_that_are_no_levels_are_those_of_the_whole() {
    let (place, mut random) = (Place::new(), Random(68));
    let layout = Layout { width: 900, height: 1100, pixel: Pixel::Gray, depth: Depth::Sixteen };
    let signed: Vec<u8> = (0..layout.pixels())
        .flat_map(|at| ((at / 300) as i16 - 900 + random.below(90) as i16).to_le_bytes())
        .collect();
    let float: Vec<u8> = (0..layout.pixels())
        .flat_map(|at| (at as f32 / 1e6 + random.below(1000) as f32 / 3e3).to_le_bytes())
        .collect();
    let cut = Cut::Tiles(64, 32);
    place.file("in/signed.tif", tiff_of(&layout, (16, SIGNED), &signed, cut, Storage::Lzw));
    place.file("in/float.tif", tiff_of(&layout, (32, FLOAT), &float, cut, Storage::Deflate));
    for settings in ["--tile-size 32", "--tile-size 40 --no-data 0", "--tile-size 24 --range 0..1"] {
        come_out_as_a_whole(&place, settings);
    }
}

/// A failed band ends the wait of the bands that need it.
#[test]
fn damage_of_a_picture_with_small_tiles_is_told_once_and_leaves_nothing() {
    let (place, mut random) = (Place::new(), Random(69));
    for (depth, width) in [(Depth::Eight, 1600), (Depth::Sixteen, 800)] {
        let layout = Layout { width, height: 1100, pixel: Pixel::Gray, depth };
        let samples = samples(&layout, Data::Natural, &mut random);
        let file = tiff(&layout, &samples, Cut::Tiles(64, 64), Storage::Deflate);
        for part in 1..5 {
            let mut file = file.clone();
            let at = file.len() * part / 5;
            file[at..at + 64].fill(0xff);
            place.file(format!("in/{depth:?}-{part}.tif"), file);
        }
    }
    let ran = place.run(&format!("in --out out --method clahe --tile-size 20 --threads 3 {LITTLE}"));
    ran.exits(1).says("damaged TIFF").says("Failed: 8");
    assert!(place.tree("out").is_empty(), "{:?}", place.tree("out"));
}

/// More memory makes taller bands, and their tables need more memory in turn.
#[test]
fn the_memory_that_a_refusal_names_is_enough() {
    let (place, mut random) = (Place::new(), Random(70));
    let mut refused = 0;
    for (name, layout, format) in [
        ("gray", Layout { width: 900, height: 1300, pixel: Pixel::Gray, depth: Depth::Eight }, (8, UNSIGNED)),
        (
            "deep",
            Layout { width: 300, height: 900, pixel: Pixel::Rgb, depth: Depth::Sixteen },
            (16, UNSIGNED),
        ),
        ("float", Layout { width: 500, height: 900, pixel: Pixel::Gray, depth: Depth::Sixteen }, (32, FLOAT)),
    ] {
        let values = layout.pixels() as usize * layout.pixel.channels();
        let value = |at: usize| match format {
            (8, _) => vec![(at / 3000) as u8 ^ (at % 7) as u8],
            (16, _) => ((at % 64_000) as u16).to_le_bytes().to_vec(),
            _ => (at as f32 / 1e6).to_le_bytes().to_vec(),
        };
        let bytes: Vec<u8> = (0..values).flat_map(value).collect();
        let cut = random.pick(&[Cut::Tiles(64, 32), Cut::Strips(5)]);
        place.file(format!("{name}.tif"), tiff_of(&layout, format, &bytes, cut, Storage::Lzw));
        for side in [8, 90] {
            let memory = (1 << 20) + random.below(500_000);
            let run =
                format!("{name}.tif --out out --method clahe --tile-size {side} --devices cpu --overwrite");
            if let Some(enough) = named(&place.run(&format!("{run} --memory {memory}"))) {
                refused += 1;
                place.run(&format!("{run} --memory {enough}")).exits(0);
            }
        }
    }
    assert!(refused > 1, "{refused}");
}
