//! The methods as users meet them: flags, references, and the same bytes on every device.

use equalize::{
    Clahe, ClipLimit, Colour, Depth, Layout, Method, Operation, Pixel, Plateau, Scratch, Stretch, Tiles,
    count, equalize_like,
};

use crate::harness::{DULL, Place, Ran};
use crate::samples::{Data, Random, layout, pam, samples};

/// The samples of [`DULL`] as another method leaves them.
fn dull(samples: [u8; 4]) -> Vec<u8> {
    [&DULL[..DULL.len() - 4], &samples].concat()
}

/// Returns the counts in the last row of a table.
fn counts(table: &Ran) -> Vec<u64> {
    let rows = table.exits(0).json();
    serde_json::from_value(rows.as_array().unwrap().last().unwrap()["counts"].clone()).unwrap()
}

/// Writes a PAM of each kind of pixel at a depth; returns their layouts and samples.
fn pictures(place: &Place, folder: &str, depth: Depth) -> Vec<(String, Layout, Vec<u16>)> {
    let mut random = Random(39);
    let mut one = |pixel| {
        let layout = layout(67, 33, pixel, depth);
        let (name, samples) = (format!("{pixel:?}.pam"), samples(&layout, Data::Natural, &mut random));
        place.file(format!("{folder}/{name}"), pam(&layout, &samples));
        (name, layout, samples)
    };
    [Pixel::Gray, Pixel::GrayAlpha, Pixel::Rgb, Pixel::Rgba].map(&mut one).into()
}

/// Returns the bytes of some samples in memory, aligned for both depths.
fn in_memory(layout: &Layout, samples: &[u16]) -> Vec<u16> {
    match layout.depth {
        Depth::Sixteen => samples.to_vec(),
        Depth::Eight => {
            let mut words = vec![0; samples.len().div_ceil(2)];
            let bytes: &mut [u8] = bytemuck::cast_slice_mut(&mut words);
            bytes.iter_mut().zip(samples).for_each(|(byte, &sample)| *byte = sample as u8);
            words
        }
    }
}

/// Returns the PAM that an operation makes of a picture.
fn expected(layout: &Layout, samples: &[u16], operation: &Operation, reference: &[u64]) -> Vec<u8> {
    let mut words = in_memory(layout, samples);
    let pixels = &mut bytemuck::cast_slice_mut(&mut words)[..layout.bytes() as usize];
    equalize_like(pixels, layout, operation, reference, &mut Scratch::default());
    match layout.depth {
        Depth::Eight => pam(layout, &pixels.iter().map(|&byte| byte.into()).collect::<Vec<u16>>()),
        Depth::Sixteen => pam(layout, &words),
    }
}

#[test]
fn a_stretch_spreads_what_is_left_of_the_levels() {
    let place = Place::with(&["in/a.pgm"]);
    place.run("in --out done --method stretch").exits(0);
    assert_eq!(place.read("done/a.pgm"), dull([0, 85, 170, 255]));
    place.run("in --out done --method stretch --clip-low 25").exits(0);
    assert_eq!(place.read("done/a.pgm"), dull([0, 0, 128, 255]));
    place.run("in --out done --method stretch --clip-low 24.9999 --clip-high 25 --strength 0.5").exits(0);
    assert_eq!(place.read("done/a.pgm"), dull([50, 115, 179, 179]));
    place
        .run("in --out done --method stretch --clip-low 60 --clip-high 40")
        .exits(2)
        .says("--clip-low 60 and --clip-high 40 leave nothing to stretch; together they must be below 100");
    place
        .run("in --out done --clip-low 1")
        .exits(2)
        .says("--clip-low has no effect without --method stretch");
    place
        .run("in --out done --method stretch --clip-high 1%")
        .exits(2)
        .says("is not a number of percent below 100");
}

#[test]
fn a_plateau_leaves_rare_levels_room() {
    let place = Place::new();
    // Levels 52, 55, 60 and 200 occur 1, 3, 2 and 4 times; a fifth of ten samples is 2.
    let samples = |of: [u8; 4]| [[of[0]].as_slice(), &[of[1]; 3], &[of[2]; 2], &[of[3]; 4]].concat();
    let pgm = |of| [b"P5\n10 1\n255\n".to_vec(), samples(of)].concat();
    place.file("in/a.pgm", pgm([52, 55, 60, 200]));
    place.run("in --out done").exits(0);
    assert_eq!(place.read("done/a.pgm"), pgm([0, 85, 142, 255]));
    place.run("in --out done --plateau 20").exits(0);
    assert_eq!(place.read("done/a.pgm"), pgm([0, 85, 170, 255]));
    place.run("in --out done --plateau 0.0001 --strength 0.5").exits(0);
    assert_eq!(place.read("done/a.pgm"), pgm([26, 70, 115, 228]));
    for method in ["stretch", "clahe"] {
        let ran = place.run(&format!("in --out done --plateau 1 --method {method}"));
        ran.exits(2).says("--plateau has no effect without --method global");
    }
    let wrong = "is neither off nor a number of percent above 0 and below 100";
    place.run("in --out done --plateau 0").exits(2).says(wrong);
    place.run("in --out done --plateau 100").exits(2).says(wrong);
}

#[test]
fn linked_colours_have_one_table() {
    let place = Place::new();
    // Levels 10 and 20 occur twice, 30 and 40 once.
    let ppm = |samples: [u8; 6]| [b"P6\n2 1\n255\n".as_slice(), &samples].concat();
    place.file("in/a.ppm", ppm([10, 20, 30, 10, 20, 40]));
    place.run("in --out done --color linked").exits(0);
    assert_eq!(place.read("done/a.ppm"), ppm([0, 128, 191, 0, 128, 255]));
    // With another picture, from which 30 has five more samples and 40 one.
    place.file("in/b.ppm", ppm([30, 30, 30, 30, 30, 40]));
    place.run("in --out together --color linked --together all").exits(0);
    assert_eq!(place.read("together/a.ppm"), ppm([0, 51, 204, 0, 51, 255]));
    assert_eq!(place.read("together/b.ppm"), ppm([204, 204, 204, 204, 204, 255]));
    let ran = place.run("in --out done --color linked --method clahe");
    ran.exits(2).says("--color linked has one LUT for red, green and blue");
}

#[test]
fn one_channel_becomes_gray() {
    let place = Place::new();
    place.file("in/a.ppm", b"P6\n4 1\n255\n\x0a\x14\x1e\x0b\x14\x1f\x0c\x16\x1e\x0d\x14\x1e");
    for (color, samples) in [("red", [0, 85, 170, 255]), ("green", [0, 0, 255, 0]), ("blue", [0, 255, 0, 0])]
    {
        place.run(&format!("in --out {color} --color {color}")).exits(0);
        assert_eq!(place.read(format!("{color}/a.ppm")), [b"P5\n4 1\n255\n".as_slice(), &samples].concat());
    }
    // Gray pictures have no channels to choose from.
    place.file("gray/a.pgm", DULL);
    place.run("gray --out plain").exits(0);
    place.run("gray --out green --color green").exits(0);
    assert_eq!(place.read("green/a.pgm"), place.read("plain/a.pgm"));
}

#[test]
fn a_picture_gets_the_levels_of_the_reference() {
    let place = Place::with(&["in/a.pgm"]);
    place.file("reference.pgm", b"P5\n8 1\n255\n\x0a\x0a\x14\x14\x1e\xc8\xc8\xc8");
    place.run("in --out done --method match --reference reference.pgm").exits(0);
    assert_eq!(place.read("done/a.pgm"), dull([10, 20, 200, 200]));
    let json = place.run("histogram in --equalized --method match --reference reference.pgm --format json");
    let counts = counts(&json);
    assert_eq!((counts[10], counts[20], counts[200]), (1, 1, 2), "{json}");
}

#[test]
fn a_reference_that_cannot_be_used_is_told_before_anything_is_done() {
    let place = Place::with(&["in/a.pgm"]);
    place.file(
        "clear.pam",
        b"P7\nWIDTH 1\nHEIGHT 1\nDEPTH 2\nMAXVAL 255\nTUPLTYPE GRAYSCALE_ALPHA\nENDHDR\n\x09\x00",
    );
    place.file("broken.png", b"\x89PNG\r\n\x1a\nnothing");
    let run = |flags: &str| place.run(&format!("in --out done --method match {flags}"));
    run("").exits(2).says("--method match needs --reference FILE");
    run("--reference none.png").exits(2).says("the reference none.png cannot be read: No such file");
    run("--reference in").exits(2).says("the reference in is not a regular file");
    run("--reference broken.png").exits(2).says("the reference broken.png cannot be used: ");
    run("--reference clear.pam").exits(2).says("the reference clear.pam has no visible pixels");
    run("--reference in/a.pgm --max-pixels 3")
        .exits(2)
        .says("the reference in/a.pgm cannot be used: ")
        .says("--max-pixels");
    place.file("large.pgm", [b"P5\n2000 2000\n255\n".to_vec(), vec![7; 4_000_000]].concat());
    run("--reference large.pgm --memory 1MiB")
        .exits(2)
        .says("needs 4000000 bytes of memory, but --memory allows 1048576");
    place
        .run("in --out done --reference in/a.pgm")
        .exits(2)
        .says("--reference has no effect without --method match");
    assert_eq!(place.tree("done"), [""; 0]);
}

#[test]
fn pictures_that_are_not_like_the_reference_fail_with_the_reason() {
    let place = Place::with(&["in/a.pgm"]);
    place.file("in/deep.pgm", b"P5\n2 1\n65535\n\x01\x02\x03\x04");
    place.file("in/colour.ppm", b"P6\n1 1\n255\nabc");
    let levels = "it has 65536 levels, and the reference in/a.pgm has 256; use a reference of the same depth";
    for dry_run in ["--dry-run", ""] {
        let ran = place.run(&format!("in --out done --method match --reference in/a.pgm {dry_run}"));
        ran.exits(1).says(levels).says("in/deep.pgm");
        assert!(!ran.stderr().contains("colour.ppm"), "the luma of colour has levels too: {ran}");
    }
    assert_eq!(place.tree("done"), ["a.pgm", "colour.ppm"]);
    let ran = place.run("in --out channels --method match --reference in/a.pgm --color per-channel");
    ran.exits(1).says(
        "it has colour, and the reference in/a.pgm has none; use a reference with colour, or --color luma",
    );
    assert_eq!(place.tree("channels"), ["a.pgm"]);
}

#[test]
fn a_file_of_counts_is_a_reference() {
    let place = Place::new();
    let gray = layout(64, 1, Pixel::Gray, Depth::Eight);
    let (one, other): (Vec<u16>, Vec<u16>) = ((0..64).collect(), (100..228).step_by(2).collect());
    place.file("models/one.pam", pam(&gray, &one));
    place.file("models/other.pam", pam(&gray, &other));
    place.run("histogram models --counts counts.json").exits(0);
    place.file(
        "in/ramp.pam",
        pam(&layout(256, 1, Pixel::Gray, Depth::Eight), &(0..256).collect::<Vec<u16>>()),
    );
    place.run("in --out done --method match --reference counts.json").exits(0);
    let mut counts = vec![0; 256];
    one.iter().chain(&other).for_each(|&sample| counts[usize::from(sample)] += 1);
    let ramp: Vec<u16> = (0..256).collect();
    let (layout, operation) = (layout(256, 1, Pixel::Gray, Depth::Eight), Operation::new(Method::Match));
    let expected = expected(&layout, &ramp, &operation, &counts);
    assert!(place.read("done/ramp.pam") == expected);
    // As is a whole series.
    place.run("in --out together --method match --reference counts.json --together all").exits(0);
    assert!(place.read("together/ramp.pam") == expected);

    place.file("in/deep.pgm", b"P5\n2 1\n65535\n\x01\x02\x03\x04");
    place.file("in/colour.ppm", b"P6\n2 1\n255\nabcdef");
    for dry_run in ["--dry-run", ""] {
        let ran = place.run(&format!("in --out luma --method match --reference counts.json {dry_run}"));
        ran.exits(1)
            .says("the reference counts.json has no counts for its kind of picture (gray of 16 bits)");
        assert!(!ran.stderr().contains("colour.ppm"), "the luma of colour has levels too: {ran}");
    }
    place
        .run("in --out channels --method match --reference counts.json --color per-channel")
        .exits(1)
        .says("the reference counts.json has no counts for its kind of picture (rgb of 8 bits)");
    place.file("counts.json", "{\"format\": \"histeqd counts\", \"version\": 9, \"kinds\": []}");
    place
        .run("in --out done --method match --reference counts.json")
        .exits(2)
        .says("counts.json is not a file of counts from `histeqd histogram --counts FILE`");
}

#[test]
fn all_frames_of_a_reference_count() {
    let place = Place::new();
    place.file("a.gif", include_bytes!("../data/animations/combine.gif"));
    let counts = counts(&place.run("histogram a.gif --format json"));
    let (layout, samples) = (layout(256, 1, Pixel::Gray, Depth::Eight), (0..256).collect::<Vec<u16>>());
    place.file("in/ramp.pam", pam(&layout, &samples));
    place.run("in --out done --method match --reference a.gif").exits(0);
    let expected = expected(&layout, &samples, &Operation::new(Method::Match), &counts);
    assert!(place.read("done/ramp.pam") == expected);
}

#[test]
fn a_reference_of_other_content_makes_other_outputs() {
    let place = Place::with(&["in/a.pgm"]);
    let line = "in --out done --resume --method match --reference reference.pgm";
    place.file("reference.pgm", b"P5\n2 1\n255\n\x0a\x14");
    place.run(line).exits(0);
    let first = place.read("done/a.pgm");
    place.run(line).exits(0).says("Skipped: 1 already done");
    place.file("reference.pgm", b"P5\n2 1\n255\n\x0a\x15");
    place.run(line).exits(0);
    assert_ne!(place.read("done/a.pgm"), first);
}

#[test]
fn workers_and_split_channels_make_the_same_bytes() {
    for depth in [Depth::Eight, Depth::Sixteen] {
        let place = Place::new();
        let pictures = pictures(&place, "in", depth);
        let (_, of_reference, samples) = &pictures[2];
        let mut counts = vec![0; count::length(of_reference)];
        let words = in_memory(of_reference, samples);
        let pixels = &bytemuck::cast_slice(&words)[..of_reference.bytes() as usize];
        count::count(pixels, of_reference, &mut counts, &mut Scratch::default());
        let (channels, luma) = counts.split_at(3 * depth.levels());
        let pooled = |level| channels.iter().skip(level).step_by(depth.levels()).sum();
        let pooled: Vec<u64> = (0..depth.levels()).map(pooled).collect();
        let stretch = Method::Stretch(Stretch { low: 20_000, high: 1_750 });
        let clahe = Clahe { clip_limit: ClipLimit::Times(3.0), tiles: Tiles::Grid { x: 3, y: 2 }, noise: 0 };
        for (flags, method) in [
            ("stretch --clip-low 2", stretch),
            ("global --plateau 0.4", Method::Plateau(Plateau { share: 4_000 })),
            ("match --reference in/Rgb.pam", Method::Match),
            ("clahe --clip-limit 3 --tiles 3x2", Method::Clahe(clahe)),
        ] {
            for (color, colour) in [
                ("luma", Colour::Luma),
                ("hue", Colour::Hue),
                ("lab", Colour::Lab),
                ("per-channel", Colour::PerChannel),
                ("linked", Colour::Linked),
            ] {
                let cannot = match colour {
                    Colour::Lab => method.has_reference() || depth == Depth::Sixteen,
                    Colour::Linked => matches!(method, Method::Clahe(_)),
                    Colour::Luma | Colour::Hue | Colour::PerChannel => false,
                };
                if cannot {
                    continue;
                }
                let line = format!("in --method {flags} --color {color} --out");
                let operation = Operation { colour, ..Operation::new(method) };
                place.run(&format!("{line} cpu-{color} --overwrite --devices cpu")).exits(0);
                place.run(&format!("{line} workers-{color} --overwrite --devices cpu-workers:2")).exits(0);
                if operation.is_per_channel() {
                    place
                        .run(&format!(
                            "{line} split-{color} --overwrite --devices cpu-workers:3 --split-channels"
                        ))
                        .exits(0);
                }
                for (name, layout, samples) in &pictures {
                    let reference = match operation.reference_length(layout) / depth.levels() {
                        0 => &[][..],
                        1 if colour == Colour::Linked => &pooled,
                        1 => luma,
                        _ => channels,
                    };
                    let expected = expected(layout, samples, &operation, reference);
                    let outs = ["cpu", "workers", "split"]
                        .into_iter()
                        .take(2 + usize::from(operation.is_per_channel()));
                    for out in outs {
                        assert!(
                            place.read(format!("{out}-{color}/{name}")) == expected,
                            "{out} {flags} {name} {color}"
                        );
                    }
                }
            }
        }
    }
}

/// Its planes would go from luma to luma; its hue is that of RGB.
#[test]
fn a_jpeg_keeps_its_hue_as_its_pixels_do() {
    let place = Place::new();
    let colour = layout(67, 33, Pixel::Rgb, Depth::Eight);
    place.file("in/a.pam", pam(&colour, &samples(&colour, Data::Natural, &mut Random(5))));
    place.run("in --out jpeg --format jpeg --strength 0").exits(0);
    place.run("jpeg --out decoded --format pnm --color per-channel --strength 0").exits(0);
    for method in ["global", "clahe"] {
        let how = format!("--overwrite --color hue --method {method}");
        place.run(&format!("decoded --out expected {how}")).exits(0);
        place.run(&format!("jpeg --out done --format pnm {how}")).exits(0);
        assert!(place.read("done/a.pnm") == place.read("expected/a.pnm"), "{method}");
        place.run(&format!("jpeg --out done {how}")).exits(0);
        assert_eq!(place.tree("done"), ["a.jpg", "a.pnm"]);
    }
}

#[test]
fn what_has_no_place_in_lab_is_refused_with_what_does() {
    let place = Place::new();
    pictures(&place, "in", Depth::Sixteen);
    place
        .run("in --out out --color lab")
        .exits(1)
        .says("--color lab needs 8-bit colours, and these have 16; use --color hue");
    assert_eq!(place.tree("out"), ["Gray.pam", "GrayAlpha.pam"], "gray has no colours to convert");
    for flags in ["--levels auto", "--together all", "--method match --reference in/Rgb.pam"] {
        place.run(&format!("in --out other --color lab {flags}")).exits(2).says("use --color hue");
    }
    place.run("histogram in --color lab").exits(2).says("--color lab cannot be counted");
}
