//! Large pictures beyond integer samples: other types of samples, pixels that do not count, L*a*b*,
//! and the histogram alone.

use equalize::{Depth, Layout, Pixel};

use super::{
    Cut, FLOAT, LITTLE, SIGNED, STRIP_BYTE_COUNTS, STRIP_OFFSETS, TILE_BYTE_COUNTS, TILE_OFFSETS, UNSIGNED,
    number_in, numbers_in, tiff, tiff_of,
};
use crate::harness::{Place, Ran};
use crate::samples::{Data, Random, samples};
use crate::stacks::Storage;

/// Makes the bytes of a sample of a type from its number.
type Make = fn(usize, &mut Random) -> Vec<u8>;

const SIZE: (u32, u32) = (700, 1200);

/// Memory of less than four such pictures of 16 bits, and enough for the counts and tables of one.
const DEEP: &str = "6MiB";

fn layout(pixel: Pixel) -> Layout {
    Layout { width: SIZE.0, height: SIZE.1, pixel, depth: Depth::Sixteen }
}

/// Values that differ from band to band, so that no band has the range of all.
fn value(at: usize, random: &mut Random) -> f32 {
    at as f32 / 1e6 - 0.4 + random.below(1000) as f32 / 3e3
}

/// Floats with missing values: all of the first 300 rows, and some in rows 700 to 799.
fn with_gaps(at: usize, random: &mut Random) -> Vec<u8> {
    let row = at / SIZE.0 as usize;
    let value = match row {
        0..300 => f32::from_bits(0x7fc0_0000 | random.below(1 << 16) as u32),
        700..800 if random.below(3) == 0 => f32::INFINITY,
        _ => value(at, random),
    };
    value.to_le_bytes().to_vec()
}

const KINDS: [(&str, Pixel, (u32, u32), Make); 5] = [
    ("signed", Pixel::Gray, (16, SIGNED), |at, random| {
        ((value(at, random) * 9000.0) as i16).to_le_bytes().to_vec()
    }),
    ("long", Pixel::Gray, (32, UNSIGNED), |at, random| {
        ((value(at, random) * 1e6 + 1e6) as u32).to_le_bytes().to_vec()
    }),
    ("float", Pixel::Gray, (32, FLOAT), |at, random| value(at, random).to_le_bytes().to_vec()),
    ("gaps", Pixel::Gray, (32, FLOAT), with_gaps),
    // Transparent at the top, where every pixel has colours of its own.
    ("alpha", Pixel::Rgba, (32, FLOAT), |at, random| {
        let is_alpha = at % 4 == 3;
        let alpha = if at / 4 / (SIZE.0 as usize) < 400 { 0.0 } else { 1.0 };
        (if is_alpha { alpha } else { value(at / 4, random) }).to_le_bytes().to_vec()
    }),
];

/// Compares the outputs of runs with little memory and with much.
fn come_out_as_a_whole(place: &Place, memory: &str, settings: &str) {
    place.run(&format!("in --out expected {settings} --overwrite")).exits(0);
    place
        .run(&format!("in --out out {settings} --memory {memory} --threads 1 --devices cpu --overwrite"))
        .exits(0);
    for name in place.tree("expected") {
        let [out, expected] = ["out", "expected"].map(|folder| place.read(format!("{folder}/{name}")));
        assert!(parts(&out) == parts(&expected), "{name} with {settings}");
    }
}

/// Returns the strips or tiles of a file, as they are stored.
fn parts(file: &[u8]) -> Vec<&[u8]> {
    let (tiles, strips) = ((TILE_OFFSETS, TILE_BYTE_COUNTS), (STRIP_OFFSETS, STRIP_BYTE_COUNTS));
    let (offsets, lengths) = if number_in(file, TILE_OFFSETS).is_some() { tiles } else { strips };
    let (offsets, lengths) = (numbers_in(file, offsets), numbers_in(file, lengths));
    assert!(!offsets.is_empty());
    offsets.iter().zip(lengths).map(|(&at, length)| &file[at as usize..][..length as usize]).collect()
}

#[test]
fn samples_that_are_no_levels_come_out_as_they_would_as_a_whole() {
    let (place, mut random) = (Place::new(), Random(62));
    for (name, pixel, (bits, format), make) in KINDS {
        let layout = layout(pixel);
        let count = layout.pixels() as usize * pixel.channels();
        let bytes: Vec<u8> = (0..count).flat_map(|at| make(at, &mut random)).collect();
        let file = tiff_of(&layout, (bits, format), &bytes, Cut::Tiles(64, 32), Storage::Deflate);
        place.file(format!("in/{name}.tif"), file);
    }
    for settings in ["", "--range -0.3..0.9", "--method clahe --tiles 2x1", "--method stretch --no-data 0"] {
        come_out_as_a_whole(&place, DEEP, settings);
    }
    // A table for several pictures needs the range of all, which bands cannot give in advance.
    place
        .run("in --out out --memory 6MiB --together all --overwrite")
        .exits(1)
        .says("give one range for all");
}

#[test]
fn pixels_that_do_not_count_are_those_of_the_whole() {
    let (place, mut random) = (Place::new(), Random(63));
    let layout = Layout { depth: Depth::Eight, ..layout(Pixel::Gray) };
    let gray = samples(&layout, Data::Natural, &mut random);
    place.file("in/a.tif", tiff(&layout, &gray, Cut::Tiles(64, 64), Storage::Lzw));
    // The mask hides pixels of some bands only.
    let mask: Vec<u16> =
        (0..gray.len()).map(|at| u16::from(!(300_000..600_000).contains(&at) || at % 5 == 0)).collect();
    for cut in [Cut::Tiles(128, 112), Cut::Strips(7), Cut::Strips(1200)] {
        place.file("masks/a.tif", tiff(&layout, &mask, cut, Storage::Deflate));
        for settings in ["", "--mask-keep", "--method stretch"] {
            come_out_as_a_whole(&place, "3MiB", &format!("--mask masks {settings}"));
        }
    }
    let smaller = Layout { height: layout.height - 1, ..layout };
    place.file(
        "masks/a.tif",
        tiff(&smaller, &mask[..smaller.pixels() as usize], Cut::Strips(7), Storage::Lzw),
    );
    let ran = place.run("in --out out --mask masks --memory 2MiB --overwrite");
    ran.exits(1).says("a.tif is 700x1199 pixels, and the picture is 700x1200");
    let lone = gray[gray.len() / 2];
    for settings in [format!("--no-data {lone}"), format!("--no-data {lone} --method clahe --tiles 2x2")] {
        come_out_as_a_whole(&place, "1MiB", &settings);
    }
}

/// Two decoders that each take most of the memory, in several steps, give way to each other until
/// both are through.
#[test]
fn masks_that_are_read_whole_for_each_band_leave_each_other_room() {
    let (place, mut random) = (Place::new(), Random(64));
    let layout = Layout { width: 2200, height: 2200, ..layout(Pixel::Gray) };
    let gray = samples(&layout, Data::Natural, &mut random);
    place.file("in/a.tif", tiff(&layout, &gray, Cut::Tiles(256, 256), Storage::Stored));
    let mask: Vec<u16> = gray.iter().map(|&sample| u16::from(sample > 9)).collect();
    let of_mask = Layout { depth: Depth::Eight, ..layout };
    place.file("masks/a.tif", tiff(&of_mask, &mask, Cut::Strips(2200), Storage::Deflate));
    place.run("in --out expected --mask masks").exits(0);
    let mut memory = 1 << 20;
    // The first refusals name the memory for the picture, later ones that for its mask too, once it
    // is opened.
    while let Some(more) =
        named(&place.run(&format!("in --out out --mask masks --threads 2 --memory {memory}")))
    {
        assert!(more > memory);
        memory = more;
    }
    let [out, expected] = ["out/a.tif", "expected/a.tif"].map(|name| place.read(name));
    assert!(parts(&out) == parts(&expected));
}

/// Returns the bytes of memory that a refusal names.
pub(super) fn named(ran: &Ran) -> Option<u64> {
    let said = ran.stderr();
    let (_, behind) = said.split_once("raise --memory to ")?;
    Some(behind.split(|other: char| !other.is_ascii_digit()).next()?.parse().unwrap())
}

#[test]
fn the_lightness_of_colours_is_counted_in_bands() {
    let (place, mut random) = (Place::new(), Random(64));
    for (name, pixel) in [("gray", Pixel::Gray), ("rgb", Pixel::Rgb), ("rgba", Pixel::Rgba)] {
        let layout = Layout { depth: Depth::Eight, ..layout(pixel) };
        let samples = samples(&layout, Data::Natural, &mut random);
        place.file(format!("in/{name}.tif"), tiff(&layout, &samples, Cut::Tiles(64, 64), Storage::Lzw));
    }
    for settings in ["", "--strength 0.4", "--method stretch", "--method clahe"] {
        come_out_as_a_whole(&place, "1MiB", &format!("--color lab {settings}"));
    }
    let deep = layout(Pixel::Rgb);
    let samples = samples(&deep, Data::Natural, &mut random);
    place.file("in/rgb.tif", tiff(&deep, &samples, Cut::Tiles(64, 64), Storage::Lzw));
    place.run("in/rgb.tif --out out.tif --color lab --memory 4MiB").exits(1).says("needs 8-bit colours");
}

#[test]
fn the_histogram_of_a_large_picture_is_that_of_the_whole() {
    let (place, mut random) = (Place::new(), Random(65));
    for (name, pixel) in [("gray", Pixel::Gray), ("rgba", Pixel::Rgba)] {
        let layout = Layout { depth: Depth::Eight, ..layout(pixel) };
        let samples = samples(&layout, Data::Natural, &mut random);
        place.file(format!("in/{name}.tif"), tiff(&layout, &samples, Cut::Tiles(64, 64), Storage::Lzw));
    }
    let bytes: Vec<u8> =
        (0..layout(Pixel::Gray).pixels() as usize).flat_map(|at| with_gaps(at, &mut random)).collect();
    let float = tiff_of(&layout(Pixel::Gray), (32, FLOAT), &bytes, Cut::Tiles(64, 64), Storage::Lzw);
    place.file("floats/float.tif", float);
    for (folder, memory) in [("in", LITTLE), ("floats", "--memory 6MiB --threads 1 --devices cpu")] {
        for settings in ["--bins 256", "--bins 8 --no-data 40"] {
            let histogram = format!("histogram {folder} --format csv {settings}");
            let [whole, cut] =
                [&histogram, &format!("{histogram} {memory}")].map(|run| place.run(run).exits(0).stdout());
            assert!(whole.lines().count() > 1 && whole == cut, "{folder} with {settings}");
        }
    }
    let ran = place.run(&format!("histogram in --equalized {LITTLE}"));
    ran.exits(1).says("--memory allows 1048576; raise --memory to ");
}
