//! Files of several pages, each too large for the memory.

use equalize::{Depth, Layout, Pixel};

use super::{Cut, FLOAT, LITTLE, UNSIGNED, with_page};
use crate::harness::Place;
use crate::overviews::{versions, with_smaller};
use crate::samples::{Data, Random, samples};
use crate::stacks::Storage;

const SIDES: (u32, u32) = (1003, 1101);
/// Memory of less than half of a page in colour.
const LITTLE_FOR_COLOURS: &str = "--memory 1536KiB --threads 1 --devices cpu";
const SMALLER: [(u32, u32); 2] = [(502, 551), (251, 276)];

fn header() -> Vec<u8> {
    b"II*\0\0\0\0\0".to_vec()
}

fn layout(pixel: Pixel, depth: Depth) -> Layout {
    Layout { width: SIDES.0, height: SIDES.1, pixel, depth }
}

/// Adds a page of integers.
fn page(file: Vec<u8>, layout: &Layout, samples: &[u16], cut: Cut) -> Vec<u8> {
    let bytes: Vec<u8> = match layout.depth {
        Depth::Eight => samples.iter().map(|&sample| sample as u8).collect(),
        Depth::Sixteen => samples.iter().flat_map(|sample| sample.to_le_bytes()).collect(),
    };
    let bits = 8 * layout.depth.bytes() as u32;
    with_page(file, layout, (bits, UNSIGNED), &bytes, cut, Storage::Deflate)
}

/// Compares all pages and overviews of the outputs of runs with little memory and with much.
fn come_out_as_a_whole(place: &Place, little: &str, settings: &str) {
    place.run(&format!("in --out expected {settings} --devices cpu --overwrite")).exits(0);
    place.run(&format!("in --out out {settings} {little} --overwrite")).exits(0);
    for name in place.tree("expected") {
        let [out, expected] =
            ["out", "expected"].map(|folder| versions(&place.path(format!("{folder}/{name}"))));
        assert!(out.len() > 1 && out == expected, "{name} with {settings}");
    }
}

#[test]
fn each_page_comes_out_as_it_would_as_a_whole_with_its_overviews() {
    let (place, mut random) = (Place::new(), Random(71));
    for (name, pixel, cut) in [
        ("tiles", Pixel::Gray, Cut::Tiles(64, 32)),
        ("strips", Pixel::Gray, Cut::Strips(7)),
        ("colours", Pixel::Rgb, Cut::Tiles(64, 64)),
    ] {
        let layout = layout(pixel, Depth::Eight);
        let file = (0..4).fold(header(), |file, _| {
            let file = page(file, &layout, &samples(&layout, Data::Natural, &mut random), cut);
            with_smaller(file, if pixel == Pixel::Gray { &SMALLER } else { &[] })
        });
        place.file(format!("in/{name}.tif"), file);
    }
    for settings in [
        "",
        "--together file --color hue",
        "--method clahe --tiles 3x2",
        "--method clahe --tile-size 32 --color per-channel",
        "--method stretch --overviews drop",
    ] {
        for little in [LITTLE_FOR_COLOURS, "--memory 2MiB --threads 3 --devices cpu"] {
            come_out_as_a_whole(&place, little, settings);
        }
    }
}

#[test]
fn each_page_has_levels_and_a_range_of_its_own() {
    let (place, mut random) = (Place::new(), Random(72));
    let deep = layout(Pixel::Gray, Depth::Sixteen);
    let file = [4, 0, 2, 6].into_iter().fold(header(), |file, shift| {
        let mut samples = samples(&deep, Data::Natural, &mut random);
        samples.iter_mut().for_each(|sample| *sample &= !((1 << shift) - 1));
        page(file, &deep, &samples, Cut::Tiles(64, 64))
    });
    place.file("in/deep.tif", file);
    let float = (0..3).fold(header(), |file, number| {
        let value = |at: u64| (at as f32 / 1e5 - 3.0) * (number + 1) as f32 + random.below(1000) as f32 / 3e3;
        let bytes: Vec<u8> = (0..deep.pixels()).map(value).flat_map(f32::to_le_bytes).collect();
        with_page(file, &deep, (32, FLOAT), &bytes, Cut::Strips(5), Storage::Lzw)
    });
    place.file("in/float.tif", float);
    for settings in
        ["--levels auto", "--levels auto --method clahe --tiles 2x1 --clip-limit auto", "--range 0..9"]
    {
        come_out_as_a_whole(&place, "--memory 6MiB --threads 2 --devices cpu", settings);
    }
    place.run("in/float.tif --out out.tif --together file --memory 3MiB").exits(1).says("--range");
}

#[test]
fn each_page_has_the_page_of_a_mask_or_the_only_one() {
    let (place, mut random) = (Place::new(), Random(73));
    let layout = layout(Pixel::Gray, Depth::Eight);
    let (mut pictures, mut masks) = (header(), header());
    for number in 0..3_u16 {
        let gray = samples(&layout, Data::Natural, &mut random);
        let mask: Vec<u16> = gray.iter().map(|&sample| u16::from(sample > 20 * (number + 1))).collect();
        pictures = page(pictures, &layout, &gray, Cut::Tiles(64, 64));
        masks = page(masks, &layout, &mask, Cut::Tiles(48, 16));
        if number == 0 {
            place.file("one/a.tif", masks.clone());
        }
    }
    place.file("in/a.tif", pictures);
    place.file("each/a.tif", masks);
    for masks in ["each", "one"] {
        come_out_as_a_whole(&place, "--memory 3MiB --devices cpu", &format!("--mask {masks}"));
    }
}

#[test]
fn the_histogram_is_of_all_pages() {
    let (place, mut random) = (Place::new(), Random(74));
    let layout = layout(Pixel::Gray, Depth::Eight);
    let file = (0..3).fold(header(), |file, _| {
        page(file, &layout, &samples(&layout, Data::Natural, &mut random), Cut::Tiles(64, 64))
    });
    place.file("in/a.tif", file);
    let histogram = "histogram in --format csv --bins 256";
    let [whole, cut] =
        [histogram, &format!("{histogram} {LITTLE}")].map(|run| place.run(run).exits(0).stdout());
    assert!(whole.lines().count() > 1 && whole == cut);
}

#[test]
fn what_fails_is_told_by_its_page_and_what_needs_whole_pages_is_refused() {
    let (place, mut random) = (Place::new(), Random(75));
    let layout = layout(Pixel::Gray, Depth::Eight);
    let mut file = header();
    let mut ends = Vec::new();
    for _ in 0..3 {
        file = page(file, &layout, &samples(&layout, Data::Natural, &mut random), Cut::Tiles(64, 64));
        ends.push(file.len());
    }
    place.file("in/a.tif", file.clone());
    place.run(&format!("in --out out {LITTLE} --format png")).exits(1).says("the 3 pages of a TIFF");
    place.run(&format!("in --out out {LITTLE} --frames split")).exits(1).says("raise --memory to ");
    let middle = (ends[0] + ends[1]) / 2;
    file[middle..middle + 90].fill(0xff);
    place.file("in/a.tif", file);
    let ran = place.run(&format!("in --out out {LITTLE} --method clahe"));
    ran.exits(1).says("page 2").says("Failed: 1");
    assert!(place.tree("out").is_empty(), "{:?}", place.tree("out"));
    // Pages of different sizes are processed one by one, each as a whole.
    let smaller = Layout { height: 700, ..layout };
    let file = [layout, smaller].into_iter().fold(header(), |file, layout| {
        page(file, &layout, &samples(&layout, Data::Natural, &mut random), Cut::Tiles(64, 64))
    });
    place.file("in/a.tif", file);
    place.run(&format!("in --out out {LITTLE}")).exits(1).says("raise --memory to ");
    come_out_as_a_whole(&place, "--memory 3MiB --devices cpu", "");
    // Pages of different depths are, too, although one of them alone would be read in bands.
    let file = [Depth::Eight, Depth::Sixteen].into_iter().fold(header(), |file, depth| {
        let layout = Layout { depth, pixel: Pixel::Rgb, ..layout };
        page(file, &layout, &samples(&layout, Data::Natural, &mut random), Cut::Strips(9))
    });
    place.file("in/a.tif", file);
    for settings in ["", "--levels auto"] {
        come_out_as_a_whole(&place, "--memory 10MiB --devices cpu", settings);
    }
}

#[test]
fn the_summary_counts_the_pixels_of_all_pages_whoever_writes_the_last() {
    let (place, mut random) = (Place::new(), Random(76));
    let layout = Layout { width: 200, height: 90, pixel: Pixel::Gray, depth: Depth::Eight };
    let file = (0..6).fold(header(), |file, _| {
        page(file, &layout, &samples(&layout, Data::Natural, &mut random), Cut::Strips(90))
    });
    place.file("in/a.tif", file);
    for _ in 0..30 {
        let ran = place.run("in --out out --devices cpu --threads 6 --json --overwrite");
        ran.exits(0);
        assert!(ran.stdout().contains("\"pixels\":108000"), "{ran}");
    }
}
