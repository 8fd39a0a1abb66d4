//! Measured data as users meet them: fewer levels than the samples' bits allow, masks, and no-data
//! values.

use equalize::{
    Clahe, ClipLimit, Colour, Depth, Layout, Levels, Method, Operation, Pixel, Scratch, Tiles, equalize,
    equalize_like,
};

use crate::harness::{DULL, Place, project};
use crate::samples::{Data, Random, layout, samples};
use crate::stacks::{Page, Storage, pages_of, plain};

const SIZE: (u32, u32) = (67, 43);

fn deep() -> Layout {
    layout(SIZE.0, SIZE.1, Pixel::Gray, Depth::Sixteen)
}

/// Returns samples of this many levels that look like those of a picture.
fn natural(levels: u16) -> Vec<u16> {
    let samples = samples(&deep(), Data::Natural, &mut Random(12));
    samples.into_iter().map(|sample| (u32::from(sample) * u32::from(levels) / 65_536) as u16).collect()
}

/// Returns a PGM of 16 bits with this maxval.
fn pgm(samples: &[u16], maxval: u16) -> Vec<u8> {
    let header = format!("P5\n{} {}\n{maxval}\n", SIZE.0, SIZE.1).into_bytes();
    header.into_iter().chain(samples.iter().flat_map(|sample| sample.to_be_bytes())).collect()
}

/// Returns the result of an operation on a deep picture of this many levels.
fn processed(samples: &[u16], method: Method, levels: u16) -> Vec<u16> {
    let mut samples = samples.to_vec();
    let operation = Operation { levels: Levels::First(levels), ..Operation::new(method) };
    equalize(bytemuck::cast_slice_mut(&mut samples), &deep(), &operation, &mut Scratch::default());
    samples
}

fn clahe(clip_limit: f64) -> Method {
    Method::Clahe(Clahe {
        clip_limit: ClipLimit::Times(clip_limit),
        tiles: Tiles::Grid { x: 8, y: 8 },
        noise: 0,
    })
}

/// Returns CLAHE with a clip limit that goes by the levels that occur.
fn auto() -> Method {
    Method::Clahe(Clahe { clip_limit: ClipLimit::Auto, tiles: Tiles::Grid { x: 8, y: 8 }, noise: 0 })
}

#[test]
fn eight_bits_in_samples_of_sixteen_get_the_levels_of_eight() {
    let place = Place::new();
    let samples = natural(256);
    let shallow: Vec<u8> = samples.iter().map(|&sample| sample as u8).collect();
    let header = format!("P5\n{} {}\n255\n", SIZE.0, SIZE.1).into_bytes();
    place.file("eight/a.pgm", [header, shallow].concat());
    place.file("sixteen/a.pgm", pgm(&samples, 65_535));
    for flags in [
        "--method global",
        "--method stretch --clip-low 1",
        "--method match --reference REFERENCE",
        "--method clahe --clip-limit 3",
        "--method clahe",
        "--method clahe --clip-limit 0 --tile-size 9 --strength 0.7",
    ] {
        let run = |input: &str, levels: &str| {
            let flags = flags.replace("REFERENCE", &format!("{input}/a.pgm"));
            place.run(&format!("{input} --out {input}-done --overwrite {flags} {levels}")).exits(0);
            place.read(format!("{input}-done/a.pgm"))
        };
        let eight = run("eight", "");
        let of_eight = &eight[eight.len() - samples.len()..];
        let expected: Vec<u16> = of_eight.iter().map(|&sample| sample.into()).collect();
        assert!(run("sixteen", "--levels 256") == pgm(&expected, 255), "{flags}");
    }
}

#[test]
fn levels_in_the_upper_bits_are_counted_without_the_lower_ones_and_go_back_there() {
    let (place, samples) = (Place::new(), natural(4096));
    let upper: Vec<u16> = samples.iter().map(|sample| sample << 4).collect();
    place.file("low/a.pgm", pgm(&samples, 4095));
    place.file("in/a.pgm", pgm(&upper, 65_535));
    place.run("in --out png --format png --strength 0").exits(0);
    place.run("in --out tif --format tiff --strength 0").exits(0);
    for (method, flags) in [
        (Method::Global, "--method global"),
        (clahe(2.0), "--method clahe --clip-limit 2"),
        (clahe(0.0), "--method clahe --clip-limit 0"),
    ] {
        let expected: Vec<u16> =
            processed(&samples, method, 4096).into_iter().map(|sample| sample << 4).collect();
        for (input, levels) in [
            ("in/a.pgm", "--levels auto"),
            ("in/a.pgm", "--shift 4"),
            ("in/a.pgm", "--shift 4 --levels 4096"),
            ("png/a.png", "--levels auto"),
            ("tif/a.tif", "--levels auto"),
        ] {
            place.run(&format!("{input} --out done/out.pgm --overwrite {flags} {levels}")).exits(0);
            assert!(place.read("done/out.pgm") == pgm(&expected, 65_535), "{input} {flags} {levels}");
        }
    }
    place.run("in --out eight --shift 4 --depth 8 --format png").exits(0);
    place.run("low --out eight-low --levels auto --depth 8 --format png").exits(0);
    assert!(place.read("eight/a.png") == place.read("eight-low/a.png"), "eight bits are of all levels");
}

#[test]
fn lower_bits_that_are_not_0_are_refused_with_a_shift() {
    let place = Place::with(&["eight.pgm"]);
    place.file("a.pgm", pgm(&natural(4096), 65_535));
    place
        .run("a.pgm --out out.pgm --shift 4")
        .exits(1)
        .says(" has data in its 4 unused low bits; use a smaller --shift, or leave it out");
    assert!(!place.path("out.pgm").exists());
    place
        .run("a.pgm --out out.pgm --shift 4 --levels 8192")
        .exits(2)
        .says("room for 4096 levels, not for --levels 8192");
    place.run("eight.pgm --out eight-done.pgm --shift 4").exits(0);
    place.run("eight.pgm --out plain.pgm").exits(0);
    assert_eq!(place.read("eight-done.pgm"), place.read("plain.pgm"), "8 bits have nothing below them");
}

#[test]
fn a_maxval_says_how_many_levels_there_are() {
    for levels in [4096, 1000] {
        let (place, samples) = (Place::new(), natural(levels));
        place.file("in/a.pgm", pgm(&samples, levels - 1));
        for (flags, method) in [
            ("--method global", Method::Global),
            ("--method clahe --clip-limit 2", clahe(2.0)),
            ("--method clahe", auto()),
        ] {
            for devices in ["cpu", "cpu-workers:2"] {
                let line = format!("in --out done --overwrite --levels auto {flags} --devices {devices}");
                place.run(&line).exits(0);
                let expected = processed(&samples, method, levels);
                assert!(place.read("done/a.pgm") == pgm(&expected, levels - 1), "{line}");
            }
        }
        // All levels, as without the flag.
        place.run("in --out full --levels full").exits(0);
        assert!(place.read("full/a.pgm").starts_with(b"P5\n67 43\n65535\n"));
    }
}

#[test]
fn other_formats_say_it_too_and_are_written_as_they_were() {
    let (place, samples) = (Place::new(), natural(4096));
    let expected = pgm(&processed(&samples, Method::Global, 4096), 4095);
    place.file("pgm/a.pgm", pgm(&samples, 4095));
    place.run("pgm --out png --levels auto --strength 0 --format png").exits(0);
    let png = place.read("png/a.png");
    assert!(png.windows(5).any(|bytes| bytes == b"sBIT\x0c"), "12 bits are significant");
    // In the lowest bits of 16, as microscopes write them.
    place.file("low/a.pgm", pgm(&samples, 65_535));
    place.run("low --out tiff --levels 4096 --strength 0 --format tiff").exits(0);
    assert!(!place.read("tiff/a.tif").is_empty());
    place.file("packed/a.tif", packed(&samples));
    for input in ["png", "tiff", "packed"] {
        place.run(&format!("{input} --out {input}-done --levels auto")).exits(0);
        let back = if input == "packed" { "--levels full" } else { "--levels auto" };
        place
            .run(&format!("{input}-done --out {input}-back --overwrite {back} --strength 0 --format pnm"))
            .exits(0);
        let found = place.read(format!("{input}-back/a.pnm"));
        if input == "packed" {
            // Spread over 16 bits, which the output does not record.
            let spread = |level: u16| ((2 * u32::from(level) * 65_535 + 4095) / (2 * 4095)) as u16;
            let wide: Vec<u16> = processed(&samples, Method::Global, 4096).into_iter().map(spread).collect();
            assert!(found == pgm(&wide, 65_535));
        } else {
            assert!(found == expected, "{input}");
        }
    }
}

/// Returns the channels, the maxval and the samples of a PNM of 16 bits.
fn pnm16(file: &[u8]) -> (usize, u16, Vec<u16>) {
    let ends: Vec<usize> =
        file.iter().enumerate().filter(|(_, byte)| **byte == b'\n').map(|(at, _)| at).collect();
    let maxval = std::str::from_utf8(&file[ends[1] + 1..ends[2]]).unwrap().parse().unwrap();
    let samples = file[ends[2] + 1..].chunks(2).map(|sample| u16::from_be_bytes([sample[0], sample[1]]));
    (if file.starts_with(b"P6") { 3 } else { 1 }, maxval, samples.collect())
}

#[test]
fn the_bits_of_formats_that_are_only_read_are_their_levels() {
    for (name, top) in [
        ("jxl-10.jxl", 1023_u16),
        ("jp2-12.jp2", 4095),
        ("jpeg-12-444.jpg", 4095),
        ("jpeg-lossless-10.jpg", 1023),
    ] {
        let place = Place::new();
        let data = project().join("tests/data/codec");
        place.file(format!("in/{name}"), std::fs::read(data.join(name)).unwrap());
        let run = |flags: &str| {
            place.run(&format!("in --out done --overwrite --format pnm {flags}")).exits(0);
            pnm16(&place.read(format!("done/{}", place.tree("done")[0])))
        };
        let (channels, maxval, mut levels) = run("--levels auto --strength 0");
        assert_eq!(maxval, top, "{name}");
        // The product without a request for levels.
        let spread =
            |level: &u16| ((2 * u32::from(*level) * 65_535 + u32::from(top)) / (2 * u32::from(top))) as u16;
        let (_, full, samples) = run("--levels full --strength 0");
        assert_eq!(full, 65_535);
        assert!(levels.iter().map(spread).eq(samples), "{name}");
        let number = u32::from(top) + 1;
        assert!(run(&format!("--levels {number} --strength 0")).2 == levels, "{name}");

        let (_, maxval, found) = run("--levels auto --color per-channel");
        assert_eq!(maxval, top);
        let pixel = if channels == 3 { Pixel::Rgb } else { Pixel::Gray };
        let line = layout((levels.len() / channels) as u32, 1, pixel, Depth::Sixteen);
        let levels_of = Levels::First(number as u16);
        let operation =
            Operation { levels: levels_of, colour: Colour::PerChannel, ..Operation::new(Method::Global) };
        equalize(bytemuck::cast_slice_mut(&mut levels), &line, &operation, &mut Scratch::default());
        assert!(found == levels, "{name}");
    }
}

/// Returns a TIFF of samples of 12 bits, packed.
fn packed(samples: &[u16]) -> Vec<u8> {
    let mut raster = Vec::new();
    for row in samples.chunks(SIZE.0 as usize) {
        for pair in row.chunks(2) {
            let (one, other) = (pair[0], pair.get(1).copied().unwrap_or(0));
            raster.extend([(one >> 4) as u8, (one << 4 | other >> 8) as u8, other as u8]);
        }
        raster.truncate(raster.len() - SIZE.0 as usize % 2);
    }
    tiff(SIZE, &raster, &[(258, 4, 1, 12), (262, 4, 1, 1)])
}

/// Returns a TIFF of one strip, with further tags: number, type, count and value of each.
fn tiff((width, height): (u32, u32), raster: &[u8], more: &[(u16, u16, u32, u32)]) -> Vec<u8> {
    let length = raster.len() as u32;
    let mut tags = vec![
        (256, 4, 1, width),
        (257, 4, 1, height),
        (259, 4, 1, 1),
        (273, 4, 1, 8),
        (278, 4, 1, height),
        (279, 4, 1, length),
    ];
    tags.extend(more);
    tags.sort_unstable();
    let mut file = [b"II*\0".to_vec(), (8 + length).to_le_bytes().to_vec(), raster.to_vec()].concat();
    file.extend((tags.len() as u16).to_le_bytes());
    for (tag, kind, count, value) in tags {
        file.extend(tag.to_le_bytes().into_iter().chain(kind.to_le_bytes()));
        file.extend(count.to_le_bytes().into_iter().chain(value.to_le_bytes()));
    }
    file.extend([0; 4]);
    file
}

#[test]
fn the_bits_stored_of_a_dicom_are_its_levels() {
    let folder = project().join("tests/data/dicom");
    for (name, levels) in [("shifted", 4096), ("bare", 1024)] {
        let place = Place::new();
        place.file("in/a.dcm", std::fs::read(folder.join(format!("{name}.dcm"))).unwrap());
        let run = |flags: &str| {
            place.run(&format!("in --out done --overwrite {flags}")).exits(0);
            let file = place.read("done/a.dcm");
            let tail = &file[file.len() - 2 * 32 * 40..];
            tail.as_chunks::<2>().0.iter().map(|&pair| u16::from_le_bytes(pair)).collect::<Vec<u16>>()
        };
        let stored = run("--strength 0");
        assert_eq!(run("--strength 0 --levels auto"), stored, "{name}");
        for (flags, method) in [("--method global", Method::Global), ("--method clahe", auto())] {
            let layout = layout(40, 32, Pixel::Gray, Depth::Sixteen);
            let mut expected = stored.clone();
            let operation = Operation { levels: Levels::First(levels), ..Operation::new(method) };
            equalize(bytemuck::cast_slice_mut(&mut expected), &layout, &operation, &mut Scratch::default());
            assert_eq!(run(&format!("{flags} --levels auto")), expected, "{name} {flags}");
            assert_eq!(run(&format!("{flags} --levels {levels}")), expected, "{name} {flags}");
        }
        let eight = "--levels auto --depth 8 --format pnm --strength 0";
        place.run(&format!("in --out eight {eight}")).exits(0);
        let top = u32::from(levels) - 1;
        let spread = |value: u16| (2 * u32::from(value) * 65_535 + top) / (2 * top);
        let reduced: Vec<u8> =
            stored.iter().map(|&value| ((spread(value) * 255 + 32_767) / 65_535) as u8).collect();
        assert!(place.read("eight/a.pnm") == [b"P5\n40 32\n255\n".to_vec(), reduced].concat(), "{name}");
        // Levels are the same in every file, and can be counted together.
        place.run("in --out together --together all --levels auto").exits(0);
        place.run("in --out together --together all --overwrite").exits(1).says("--range LOW..HIGH");
        place
            .run("in --out few --levels 16")
            .exits(1)
            .says("is outside the stated range 0..15")
            .says("a.dcm");
    }
}

#[test]
fn alpha_and_colours_of_fewer_levels_come_back_as_they_were() {
    let place = Place::new();
    for (channels, kind) in [(2_usize, "GRAYSCALE_ALPHA"), (4, "RGB_ALPHA")] {
        let header =
            format!("P7\nWIDTH 41\nHEIGHT 9\nDEPTH {channels}\nMAXVAL 999\nTUPLTYPE {kind}\nENDHDR\n");
        let samples = (0..41 * 9 * channels as u32).map(|at| (at * 7919 % 1000) as u16);
        let file: Vec<u8> = header.bytes().chain(samples.flat_map(u16::to_be_bytes)).collect();
        place.file("in/a.pam", &file);
        place.run("in --out done --overwrite --levels auto --strength 0").exits(0);
        assert!(place.read("done/a.pam") == file, "{kind}");
        place.run("in --out done --overwrite --levels auto --color gray").exits(0);
    }
}

#[test]
fn levels_that_do_not_fit_are_told() {
    let place = Place::new();
    place.file("in/a.pgm", pgm(&natural(4096), 65_535));
    place
        .run("in --out done --levels 1000")
        .exits(1)
        .says("is outside the stated range 0..999")
        .says("in/a.pgm");
    assert_eq!(place.tree("done"), [""; 0]);
    place.run("in --out done --levels 1").exits(2).says("neither full, auto nor a number from 2 to 65536");
    place
        .run("histogram in --levels 4096 --bins 4097")
        .exits(1)
        .says("its samples have only 4096 levels, fewer than 4097 bins");
    place.file("wide.pgm", pgm(&natural(4096), 65_535));
    place.run("in --out done --levels auto --method match --reference wide.pgm").exits(0);
    place.file("in/a.pgm", pgm(&natural(4096), 4095));
    place
        .run("in --out done --overwrite --levels auto --method match --reference wide.pgm")
        .exits(1)
        .says("it has 4096 levels, and the reference wide.pgm has 65536");
}

#[test]
fn eight_bits_of_an_output_show_all_levels() {
    let place = Place::new();
    place.file("in/a.pgm", pgm(&natural(4096), 65_535));
    place.run("in --out done --levels 4096 --depth 8").exits(0);
    let file = place.read("done/a.pgm");
    assert!(file.starts_with(b"P5\n67 43\n255\n"));
    let samples = &file[b"P5\n67 43\n255\n".len()..];
    assert_eq!((samples.iter().min(), samples.iter().max()), (Some(&0), Some(&255)));
}

#[test]
fn counts_of_fewer_levels_go_through_files_and_series() {
    let place = Place::new();
    let (one, other) = (natural(4096), natural(2048));
    place.file("in/a.pgm", pgm(&one, 4095));
    place.file("in/b.pgm", pgm(&other, 4095));
    place.run("in --out together --levels auto --together all").exits(0);
    place.run("in --out decoded --levels auto --together all --memory 1MiB").exits(0);
    place.run("histogram in --levels auto --counts counts.json").exits(0);
    let counts = String::from_utf8(place.read("counts.json")).unwrap();
    assert!(counts.contains("\"levels\":4096"));
    place.run("in --out lut --levels auto --lut counts.json").exits(0);
    let both = [one.clone(), other].concat();
    let twice = Layout { height: 2 * SIZE.1, ..deep() };
    let mut expected = both.clone();
    let operation = Operation { levels: Levels::First(4096), ..Operation::new(Method::Global) };
    equalize(bytemuck::cast_slice_mut(&mut expected), &twice, &operation, &mut Scratch::default());
    for out in ["together", "decoded", "lut"] {
        assert!(place.read(format!("{out}/a.pgm")) == pgm(&expected[..one.len()], 4095), "{out}");
        assert!(place.read(format!("{out}/b.pgm")) == pgm(&expected[one.len()..], 4095), "{out}");
    }
    place
        .run("in --out lut --overwrite --lut counts.json")
        .exits(1)
        .says("the files of --lut have no counts for its kind of picture (gray of 16 bits)");
}

/// The picture of [`DULL`] with other samples.
fn dull(samples: [u8; 4]) -> Vec<u8> {
    [&DULL[..DULL.len() - 4], &samples].concat()
}

#[test]
fn what_a_mask_covers_does_not_count() {
    let place = Place::with(&["in/deep/a.pgm"]);
    place.file("masks/deep/a.pgm", dull([9, 1, 255, 0]));
    place.run("in --out done --mask masks").exits(0);
    assert_eq!(place.read("done/deep/a.pgm"), dull([0, 128, 255, 255]));
    place.run("in --out done --mask masks --mask-keep").exits(0);
    assert_eq!(place.read("done/deep/a.pgm"), dull([0, 128, 255, 103]));
    place.run("in/deep/a.pgm --out done --mask masks/deep --method stretch --mask-keep").exits(0);
    assert_eq!(place.read("done/a.pgm"), dull([0, 128, 255, 103]));
    place.run("in --out workers --mask masks --mask-keep --devices cpu-workers:2").exits(0);
    assert_eq!(place.read("workers/deep/a.pgm"), dull([0, 128, 255, 103]));
    let table = place.run("histogram in --mask masks --format json").exits(0).json();
    assert_eq!((&table[0]["channel"], &table[0]["pixels"]), (&"gray".into(), &3.into()));
}

#[test]
fn a_mask_may_be_of_another_format_and_serves_colours_and_series() {
    let place = Place::new();
    let mut random = Random(3);
    let colour = layout(40, 30, Pixel::Rgb, Depth::Eight);
    let bytes: Vec<u8> =
        samples(&colour, Data::Natural, &mut random).into_iter().map(|sample| sample as u8).collect();
    let mask: Vec<u8> = (0..40 * 30).map(|at| u8::from(at % 3 != 0)).collect();
    place.file("in/a.ppm", [b"P6\n40 30\n255\n".to_vec(), bytes.clone()].concat());
    place.file("masks/a.pgm", [b"P5\n40 30\n255\n".to_vec(), mask.clone()].concat());
    for (flags, equalized) in
        [("", Colour::Luma), ("--color hue", Colour::Hue), ("--color per-channel", Colour::PerChannel)]
    {
        // Pixels without alpha are the ones that do not count.
        let pixels: Vec<u8> = bytes
            .chunks(3)
            .zip(&mask)
            .flat_map(|(pixel, &mask)| [pixel[0], pixel[1], pixel[2], mask])
            .collect();
        let mut expected = pixels.clone();
        let operation = Operation { colour: equalized, ..Operation::new(Method::Global) };
        let with_alpha = Layout { pixel: Pixel::Rgba, ..colour };
        equalize_like(&mut expected, &with_alpha, &operation, &[], &mut Scratch::default());
        let expected: Vec<u8> = expected.chunks(4).flat_map(|pixel| pixel[..3].to_vec()).collect();
        let expected = [b"P6\n40 30\n255\n".to_vec(), expected].concat();
        for together in ["page", "all", "all --memory 1MiB"] {
            place
                .run(&format!("in --out done --overwrite --mask masks {flags} --together {together}"))
                .exits(0);
            assert!(place.read("done/a.ppm") == expected, "{flags} {together}");
        }
    }
}

#[test]
fn the_pages_of_a_stack_have_one_mask_or_one_each() {
    let place = Place::new();
    let pages: Vec<Page> = (0..3).map(|number| Page::new(number, 64, 48)).collect();
    place.file("in/a.tif", plain(&pages, Storage::Lzw));
    let left_is_black: Vec<u8> = (0..64 * 48).map(|at| u8::from(at % 64 >= 32)).collect();
    place.file("one/a.pgm", [b"P5\n64 48\n255\n".to_vec(), left_is_black].concat());
    place.run("in --out done --mask one --mask-keep").exits(0);
    let found = pages_of(&place.path("done/a.tif"));
    for (page, found) in pages.iter().zip(&found) {
        let pairs = page.samples().iter().zip(found).enumerate();
        let mut halves = [(true, 0_u64); 2];
        pairs.for_each(|(at, (before, after))| {
            let half = &mut halves[usize::from(at % 64 >= 32)];
            *half = (half.0 && before == after, half.1 + u64::from(*after));
        });
        assert!(halves[0].0 && !halves[1].0, "the left half stays, the right one does not");
        let mean = halves[1].1 / (32 * 48);
        assert!((30_000..36_000).contains(&mean), "equalized by itself: {mean}");
    }
    // One page too few.
    place.file("few/a.tif", plain(&pages[..2], Storage::Lzw));
    place
        .run("in --out few-done --mask few")
        .exits(1)
        .says("its mask few/a.tif has 2 pages, and none for page 3");
    assert_eq!(place.tree("few-done"), [""; 0]);
    place.file("each/a.tif", plain(&pages, Storage::Lzw));
    place.run("in --out each-done --mask each").exits(0);
}

#[test]
fn a_mask_that_cannot_be_used_is_told_with_its_name() {
    let place = Place::with(&["in/a.pgm"]);
    place.file("masks/b.pgm", dull([0; 4]));
    place
        .run("in --out done --mask masks")
        .exits(1)
        .says("there is no mask masks/a.pgm; a mask has the picture's name below --mask");
    place.file("masks/a.png", b"nothing");
    place
        .run("in --out done --mask masks")
        .exits(1)
        .says("its mask masks/a.png cannot be used: not a picture");
    place.file("masks/a.pgm", b"P5\n2 2\n255\nabcd");
    place
        .run("in --out done --mask masks")
        .exits(1)
        .says("its mask masks/a.pgm is 2x2 pixels, and the picture is 4x1");
    assert_eq!(place.tree("done"), [""; 0]);
    place
        .run("in --out done --mask masks --method clahe")
        .exits(2)
        .says("--method clahe counts tiles, like OpenCV's, with all of their pixels");
    place.run("in --out done --mask nowhere").exits(2).says("--mask nowhere is no folder");
    place.run("in --out done --mask-keep").exits(2).says("--mask-keep has no effect without --mask");
}

#[test]
fn a_mask_that_changes_has_its_picture_done_again_and_no_other() {
    for flags in ["", "--resume", "--together folder"] {
        let place = Place::with(&["in/a.pgm", "in/deep/b.pgm"]);
        for name in ["a.pgm", "deep/b.pgm"] {
            place.file(format!("masks/{name}"), dull([9, 1, 255, 0]));
        }
        let run = || {
            let json = place.run(&format!("in --out done --mask masks --json {flags}")).exits(0).json();
            (json["done"].as_u64(), json["skipped"]["already-done"].as_u64())
        };
        assert_eq!(run(), (Some(2), None), "{flags}");
        assert_eq!(run(), (Some(0), Some(2)), "{flags}");
        // As long as before: only its time differs.
        place.file("masks/deep/b.pgm", dull([9, 0, 255, 1]));
        let mask = std::fs::File::options().append(true).open(place.path("masks/deep/b.pgm")).unwrap();
        mask.set_modified(std::time::SystemTime::now() - std::time::Duration::from_secs(99)).unwrap();
        assert_eq!(run(), (Some(1), Some(1)), "{flags}");
        assert_eq!(place.read("done/a.pgm"), dull([0, 128, 255, 255]));
        assert_eq!(place.read("done/deep/b.pgm"), dull([0, 0, 128, 255]));
        assert_eq!(run(), (Some(0), Some(2)), "{flags}");
        // One that takes precedence over the other, by its extension.
        std::fs::rename(place.path("masks/a.pgm"), place.path("masks/a.png")).unwrap();
        assert_eq!(run(), (Some(1), Some(1)), "{flags}");
    }
}

#[test]
fn pixels_without_data_stay_and_do_not_count() {
    let place = Place::with(&["in/a.pgm"]);
    place.run("in --out done --no-data 103").exits(0);
    assert_eq!(place.read("done/a.pgm"), dull([0, 128, 255, 103]));
    place.run("in --out done --no-data 7").exits(0);
    assert_eq!(place.read("done/a.pgm"), dull([0, 85, 170, 255]));
    // A pixel of colour has it in all of its colours.
    place.file("colour/a.ppm", b"P6\n3 1\n255\n\x00\x00\x00\x00\x00\x64\x64\x64\x64");
    place.run("colour --out done --no-data 0 --color per-channel").exits(0);
    assert_eq!(place.read("done/a.ppm"), b"P6\n3 1\n255\n\x00\x00\x00\x00\x00\x64\xff\xff\x64");
    // It is not among the levels either.
    place.file("deep/a.pgm", b"P5\n3 1\n65535\n\x00\x05\x00\x09\xff\xff");
    place
        .run("deep --out done --levels 4096")
        .exits(1)
        .says("sample 65535 is outside the stated range 0..4095");
    place.run("deep --out done --levels 4096 --no-data 65535").exits(0);
    assert_eq!(place.read("done/a.pgm"), b"P5\n3 1\n65535\n\x00\x00\x0f\xff\xff\xff");
    // Floats keep it to the last bit, and its value is not in their range.
    let floats = [-9999.0_f32, 1.0, 2.0, 3.0];
    let raster: Vec<u8> = floats.iter().flat_map(|value| value.to_le_bytes()).collect();
    place.file("floats/a.pfm", [b"Pf\n4 1\n-1.0\n".to_vec(), raster].concat());
    place.run("floats --out done --no-data -9999").exits(0);
    let found = place.read("done/a.pfm");
    let values: Vec<f32> =
        found[found.len() - 16..].as_chunks::<4>().0.iter().map(|&bytes| f32::from_le_bytes(bytes)).collect();
    // Two of three thirds of the way, of 65,536 levels.
    assert_eq!((values[0], values[1], values[3]), (-9999.0, 1.0, 3.0));
    assert!((values[2] - 2.0).abs() < 2.0 / 65_535.0, "{values:?}");
    // GDAL's tag also marks it in colours, and stays.
    let raster = [0, 0, 0, 0, 0, 100, 100, 100, 100, 8, 0, 8, 0, 8, 0, 0];
    let tags = [(258, 3, 3, 8 + 9), (262, 3, 1, 2), (277, 3, 1, 3), (42_113, 2, 2, u32::from(b'0'))];
    place.file("gdal/a.tif", tiff((3, 1), &raster, &tags));
    place.run("gdal --out done --color per-channel").exits(0);
    place.run("done/a.tif --out again --color per-channel --strength 0 --format pnm").exits(0);
    let expected = b"P6\n3 1\n255\n\x00\x00\x00\x00\x00\x64\xff\xff\x64";
    assert_eq!(place.read("again/a.pnm"), expected);
    assert!(place.read("done/a.tif").windows(2).any(|tag| tag == 42_113_u16.to_le_bytes()));
    place.run("in --out done --no-data black").exits(2).says("\"black\" is not a number; or use none");
}
