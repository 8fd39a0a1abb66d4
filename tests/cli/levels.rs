//! The levels of pictures: strength, the clip limit of 16-bit pictures, and depth.

use crate::harness::Place;

/// A picture of 160x120 samples of 10 bits in 16: smooth shades, with noise.
fn ten_bits() -> Vec<u16> {
    let noise = |at: u32| (at.wrapping_mul(2_654_435_761) >> 26) as u16;
    (0..160 * 120).map(|at| ((at % 160) * (at / 160) / 20) as u16 + noise(at)).collect()
}

fn pgm16(samples: &[u16]) -> Vec<u8> {
    let header = format!("P5\n160 {}\n65535\n", samples.len() / 160);
    header.into_bytes().into_iter().chain(samples.iter().flat_map(|sample| sample.to_be_bytes())).collect()
}

/// Returns the samples in the output of [`pgm16`].
fn samples16(pgm: &[u8]) -> Vec<u16> {
    pgm["P5\n160 120\n65535\n".len()..].as_chunks().0.iter().map(|pair| u16::from_be_bytes(*pair)).collect()
}

#[test]
fn ten_bits_in_sixteen_fill_the_range_and_if_not_the_summary_says_so() {
    let place = Place::new();
    place.file("in/a.pgm", pgm16(&ten_bits()));
    let highest = |name: &str| samples16(&place.read(name)).into_iter().max().unwrap();

    let ran = place.run("in --out auto --method clahe --tiles 1x1");
    assert!(!ran.exits(0).stderr().contains("Note:"), "{}", ran.stderr());
    assert!(highest("auto/a.pgm") > 60_000, "{}", highest("auto/a.pgm"));

    let remedy = "leave --clip-limit at auto, raise it, or use --method global";
    let ran = place.run("in --out two --method clahe --clip-limit 2 --tiles 1x1 -v");
    ran.exits(0)
        .says(&format!(
            "Note: 1 16-bit picture covers less than a sixth of the range after CLAHE and may look black; {remedy}: in/a.pgm\n"
        ))
        .says("in/a.pgm: 16-bit levels cover less than a sixth of the range after CLAHE");
    assert!(highest("two/a.pgm") < 65_535 / 6);
    let json = place.run("in --out json --method clahe --clip-limit 2 --tiles 1x1 --json --quiet").json();
    assert_eq!(json["remarks"]["narrow-range"], 1);
}

#[test]
fn a_picture_of_a_single_level_is_left_alone_at_16_bit() {
    let place = Place::new();
    place.file("a.pgm", pgm16(&[40_000; 160 * 120]));
    place.run("a.pgm --out out --method clahe").exits(0);
    assert_eq!(samples16(&place.read("out/a.pgm")), [40_000; 160 * 120]);
}

#[test]
fn strength_is_the_share_of_the_way() {
    let place = Place::new();
    // The equalized levels are 0, 85, 170 and 255.
    place.file("a.pgm", b"P5\n4 1\n255\n\x64\x65\x66\x67");
    let mixed = |strength: &str| {
        place.run(&format!("a.pgm --out out-{strength} --strength {strength}")).exits(0);
        place.read(format!("out-{strength}/a.pgm"))["P5\n4 1\n255\n".len()..].to_vec()
    };
    assert_eq!(mixed("1"), [0, 85, 170, 255]);
    assert_eq!(mixed("0.5"), [50, 93, 136, 179]);
    assert_eq!(mixed("0"), [100, 101, 102, 103]);
    let refused = place.run("a.pgm --out no --strength 1.5");
    refused.exits(2).says("\"1.5\" is not a number from 0 to 1 with at most three decimals");
    place.file("my.toml", "strength = 0.3333\n");
    place.run("--print-config --config my.toml").exits(2).says("my.toml:1: strength: \"0.3333\" is not");
}

#[test]
fn histograms_after_equalization_know_the_strength() {
    let place = Place::new();
    place.file("a.pgm", pgm16(&ten_bits()));
    let rows = |flags: &str| {
        let table = place.run(&format!("histogram a.pgm --equalized {flags}")).exits(0).stdout();
        let counts = |row: &str| {
            row.rsplit_once(",original,")
                .or(row.rsplit_once(",equalized,"))
                .map(|(_, counts)| counts.to_owned())
        };
        table.lines().skip(1).map(counts).collect::<Vec<_>>()
    };
    for method in ["global", "clahe"] {
        let (full, none) =
            (rows(&format!("--method {method}")), rows(&format!("--method {method} --strength 0")));
        assert!(full[0].is_some() && full[0] != full[1], "{method}: {full:?}");
        assert_eq!(none, [full[0].clone(), full[0].clone()], "{method}");
    }
}

/// A PFM of five samples.
fn pfm(samples: [f32; 5]) -> Vec<u8> {
    [&b"Pf\n5 1\n-1.0\n"[..], samples.map(f32::to_le_bytes).as_flattened()].concat()
}

#[test]
fn floats_are_spread_over_their_own_range_or_a_given_one() {
    let place = Place::new();
    place.file("in/a.pfm", pfm([-3.0, -2.5, f32::NAN, 4.5, 6.0]));
    place.file("in/b.pfm", pfm([0.0, 0.25, 0.5, 40.0, -7.0]));
    place.run("in --out auto").exits(0);
    assert_eq!(place.read("auto/a.pfm"), pfm([-3.0, 0.0, f32::NAN, 3.0, 6.0]));
    place.run("in --out given --range -2.75..5").exits(0);
    assert_eq!(place.read("given/a.pfm"), pfm([-2.75, -1.0 / 6.0, f32::NAN, 29.0 / 12.0, 5.0]));
    place.file("my.toml", "range = '-2.75..5'\n");
    place.run("in --out from-file --config my.toml").exits(0);
    assert_eq!(place.read("from-file/b.pfm"), place.read("given/b.pfm"));
    for wrong in ["3..-1", "0", "1..1", "0..inf"] {
        let ran = place.run(&format!("in --out no --range {wrong}"));
        ran.exits(2)
            .says("is not a range such as 0..1, -1000..3000 or -1000hu..400hu, whose first number is less; or use auto");
    }
}

#[test]
fn a_few_values_that_stretch_the_range_of_floats_are_told_with_a_range_that_mends_it() {
    let place = Place::new();
    let floats = |hot: [f32; 2]| {
        let shades = (0..4094_u16).map(|at| 10.0 + f32::from(at) / 512.0);
        let samples: Vec<u8> = shades.chain(hot).flat_map(f32::to_le_bytes).collect();
        [&b"Pf\n64 64\n-1.0\n"[..], &samples].concat()
    };
    place.file("in/a.pfm", floats([1e6, -40.0]));
    place.file("in/b.pfm", floats([12.0, 13.0]));
    let advice = "--range 10..17.99 (about percentiles 0.1 to 99.9) gives them all levels";
    let ran = place.run("in --out done -v");
    ran.exits(0).says(&format!(
        "Note: 1 picture: all but a few values (hot pixels) lie in less than a sixth of its range and share few levels; {advice}: in/a.pfm\n"
    ));
    ran.says(&format!("note: in/a.pfm: all but a few values lie in less than a sixth of the range and share few levels; {advice}\n"));
    let json = place.run("in --out json --json --quiet").exits(0).json();
    assert_eq!(json["remarks"], serde_json::json!({ "stretched-range": 1 }));
    let ran = place.run("in --out mended --range 10..17.99");
    assert!(!ran.exits(0).stderr().contains("Note:"), "{}", ran.stderr());
    let levels = |folder: &str| {
        let file = place.read(format!("{folder}/a.pfm"));
        let samples = &file[file.len() - 4 * 4096..];
        samples.chunks_exact(4).collect::<std::collections::BTreeSet<_>>().len()
    };
    assert!(levels("done") < 10 && levels("mended") > 4000, "{} {}", levels("done"), levels("mended"));
}

#[test]
fn a_fill_value_that_no_tag_names_is_told_with_what_leaves_it_out() {
    let place = Place::new();
    let floats = |side: usize, others: usize| {
        let spread = (0..others).map(|at| 10.0 + 4.0 * at as f32 / others as f32);
        let samples = spread.chain((others..side * side).map(|_| f32::MIN));
        let samples: Vec<u8> = samples.flat_map(f32::to_le_bytes).collect();
        [format!("Pf\n{side} {side}\n-1.0\n").as_bytes(), &samples].concat()
    };
    place.file("in/half.pfm", floats(64, 64 * 32));
    place.file("in/nearly-all.pfm", floats(300, 90));
    let advice = "far outside the range of all others, which share few levels; --no-data=-3.4028234663852886e38 leaves it out if it stands for no data; --range 10..14 (about";
    let ran = place.run("in --out done");
    ran.exits(0).says(&format!("Note: 2 pictures: one value, -3.4028234663852886e38, {advice}"));
    let json = place.run("in --out json --json --quiet").exits(0).json();
    assert_eq!(json["remarks"], serde_json::json!({ "fill-value": 2 }));
    let levels = |folder: &str| {
        let file = place.read(format!("{folder}/half.pfm"));
        let samples = &file[file.len() - 4 * 64 * 64..];
        samples.chunks_exact(4).collect::<std::collections::BTreeSet<_>>().len()
    };
    assert!(levels("done") < 10, "{}", levels("done"));
    for (out, flags) in [("ranged", "--range 10..14"), ("named", "--no-data=-3.4028234663852886e38")] {
        let ran = place.run(&format!("in --out {out} {flags}"));
        assert!(!ran.exits(0).stderr().contains("Note:"), "{}", ran.stderr());
        assert!(levels(out) > 1000, "{}", levels(out));
    }
}

#[test]
fn what_becomes_levels_in_another_format_is_told() {
    let place = Place::new();
    place.file("a.pfm", pfm([-2.0, 0.0, 1.0, 6.0, 7.0]));
    place.file("none.pfm", pfm([f32::NAN; 5]));
    let ran = place.run("a.pfm --out a.png --format png");
    ran.exits(0)
        .says("Note: 1 picture: measured values (signed, floating-point or longer than 16 bits) written as brightness")
        .says("not for measuring").says(": a.pfm\n");
    let json = place.run("none.pfm --out out --json --quiet").json();
    assert_eq!(
        (&json["remarks"]["no-values"], &json["remarks"]["invisible"]),
        (&1.into(), &serde_json::Value::Null)
    );
    assert_eq!(place.read("out/none.pfm"), pfm([f32::NAN; 5]));
}

#[test]
fn sixteen_bits_become_eight_where_that_is_asked_for() {
    let place = Place::new();
    let samples = ten_bits();
    place.file("in/a.pgm", pgm16(&samples));
    let refused = place.run("in --out no --format jpeg");
    refused.exits(1).says("JPEG cannot hold 16-bit samples; use --depth 8, or --format png, tiff or pnm");

    place.run("in --out sixteen").exits(0);
    place.run("in --out eight --depth 8").exits(0);
    let expected: Vec<_> = samples16(&place.read("sixteen/a.pgm"))
        .into_iter()
        .map(|sample| ((u32::from(sample) * 255 + 32_767) / 65_535) as u8)
        .collect();
    let written = place.read("eight/a.pgm");
    assert_eq!(written.strip_prefix(b"P5\n160 120\n255\n"), Some(&expected[..]));

    // The outputs of every format have these samples, as far as they are lossless.
    for format in ["png", "tiff", "bmp", "webp", "jpeg"] {
        place.run(&format!("in --out {format} --depth 8 --format {format}")).exits(0);
        let name = place.tree(format).remove(0);
        place
            .run(&format!("{format}/{name} --out back-{format} --strength 0 --format pnm --color gray"))
            .exits(0);
        let back = place.read(format!("back-{format}/a.pnm"));
        let back = back.strip_prefix(b"P5\n160 120\n255\n").unwrap();
        let worst = back.iter().zip(&expected).map(|(a, b)| a.abs_diff(*b)).max().unwrap();
        assert!(
            back.len() == expected.len() && worst <= if format == "jpeg" { 40 } else { 0 },
            "{format}: {worst}"
        );
    }
}

#[test]
fn depth_keeps_8_bits_and_says_what_it_takes() {
    let place = Place::with(&["in/a.pgm"]);
    place.run("in --out keep").exits(0);
    place.run("in --out eight --depth 8").exits(0);
    assert_eq!(place.read("keep/a.pgm"), place.read("eight/a.pgm"));
    place.run("in --out no --depth 16").exits(2).says("'16' for '--depth <BITS>'");
    place.file("my.toml", "depth = 16\n");
    place
        .run("--print-config --config my.toml")
        .exits(2)
        .says("my.toml:1: depth: must be one of \"keep\", \"8\"");
}

/// Returns a TIFF of 16-bit samples with white as 0, with or without its highest level.
fn white_is_zero(samples: &[u16], top: Option<u16>) -> Vec<u8> {
    let raster: Vec<u8> = samples.iter().flat_map(|sample| sample.to_le_bytes()).collect();
    let width = samples.len() as u32;
    let mut tags = vec![
        (256, width),
        (257, 1),
        (258, 16),
        (259, 1),
        (262, 0),
        (273, 8),
        (277, 1),
        (278, 1),
        (279, 2 * width),
    ];
    tags.extend(top.map(|top| (281, top.into())));
    let at = (8 + raster.len()) as u32;
    let mut file = [b"II*\0".to_vec(), at.to_le_bytes().to_vec(), raster].concat();
    file.extend((tags.len() as u16).to_le_bytes());
    for (tag, value) in tags {
        file.extend([u16::to_le_bytes(tag), 4_u16.to_le_bytes()].concat());
        file.extend([1_u32.to_le_bytes(), u32::to_le_bytes(value)].concat());
    }
    [file, vec![0; 4]].concat()
}

#[test]
fn white_as_0_is_turned_around_among_the_levels_that_there_are() {
    let place = Place::new();
    let samples = [0, 4095, 1000, 95];
    place.file("silent.tif", white_is_zero(&samples, None));
    place.file("stating.tif", white_is_zero(&samples, Some(4095)));
    for (name, levels) in [("silent", "4096"), ("stating", "4096"), ("stating", "auto")] {
        place.run(&format!("{name}.tif --out out.pgm --overwrite --strength 0 --levels {levels}")).exits(0);
        let pgm = b"P5\n4 1\n4095\n\x0f\xff\x00\x00\x0c\x17\x0f\xa0";
        assert_eq!(place.read("out.pgm"), pgm, "{name} {levels}");
    }
    // The sample in the message is that of the file.
    place
        .run("stating.tif --out no.tif --levels 1000")
        .exits(1)
        .says("sample 4095 is outside the stated range 0..999");
    place.run("silent.tif --out full.pgm --strength 0 --levels auto").exits(0);
    assert_eq!(place.read("full.pgm"), b"P5\n4 1\n65535\n\xff\xff\xf0\x00\xfc\x17\xff\xa0");
}

#[test]
fn unused_low_bits_that_were_not_looked_for_are_told() {
    let place = Place::new();
    let twelve: Vec<u16> = ten_bits().iter().map(|sample| sample << 4).collect();
    place.file("in/a.pgm", pgm16(&twelve));
    place.file("in/b.pgm", pgm16(&ten_bits()));
    let remarks =
        |flags: &str| place.run(&format!("in --out out --overwrite --json {flags}")).exits(0).json();
    let together = remarks("--levels auto --together all");
    assert_eq!(together["remarks"]["unused-bits"], 1, "{together}");
    for flags in ["--levels auto", "--together all", "--levels full"] {
        assert_eq!(remarks(flags)["remarks"]["unused-bits"], serde_json::Value::Null, "{flags}");
    }
    place.run("in --out told --levels auto --together all").exits(0).says("--shift takes them out: in/a.pgm");
}
