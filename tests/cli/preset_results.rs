//! The results of presets. Data that have a small part of the levels get the range, and a channel
//! keeps its order in time.

use crate::harness::{Place, other_readers_agree};
use crate::samples::Random;

const SIDE: usize = 160;

/// Returns gray samples from `low` on with these many levels, and a grain.
fn gray(low: i32, levels: i32, random: &mut Random) -> Vec<i32> {
    let at = |number: usize| {
        let (x, y) = ((number % SIDE) as f64, (number / SIDE) as f64);
        let wave = ((x / 17.0).sin() * (y / 11.0).cos() + 1.0) / 2.0;
        let grain = random.below(1000) as f64 / 1000.0;
        low + ((0.85 * wave + 0.15 * grain) * f64::from(levels)) as i32
    };
    (0..SIDE * SIDE).map(at).collect()
}

/// Returns the difference between the first and the 99th percentile.
fn span(samples: &[i32]) -> i32 {
    let mut sorted = samples.to_vec();
    sorted.sort_unstable();
    sorted[sorted.len() * 99 / 100] - sorted[sorted.len() / 100]
}

fn pgm(samples: &[i32], maxval: i32) -> Vec<u8> {
    let header = format!("P5\n{SIDE} {SIDE}\n{maxval}\n").into_bytes();
    let samples = samples.iter().flat_map(|&sample| (sample as u16).to_be_bytes());
    header.into_iter().chain(samples).collect()
}

/// Returns the maxval and the samples of a PGM.
fn read_pgm(file: &[u8]) -> (i32, Vec<i32>) {
    let header = file.splitn(4, |&byte| byte == b'\n').map(<[u8]>::len).take(3).sum::<usize>() + 3;
    let text = std::str::from_utf8(&file[..header]).unwrap();
    let maxval: i32 = text.split_ascii_whitespace().last().unwrap().parse().unwrap();
    let samples = &file[header..];
    if maxval < 256 {
        return (maxval, samples.iter().map(|&sample| sample.into()).collect());
    }
    (maxval, samples.as_chunks::<2>().0.iter().map(|&pair| u16::from_be_bytes(pair).into()).collect())
}

/// Returns a DICOM of one frame of 16 allocated bits.
fn dicom(samples: &[i32], stored: u16, is_signed: bool) -> Vec<u8> {
    let mut file = vec![0; 128];
    file.extend(b"DICM");
    let mut put = |group: u16, number: u16, kind: &[u8; 2], value: &[u8]| {
        file.extend([group.to_le_bytes(), number.to_le_bytes()].concat());
        file.extend(kind);
        file.extend((value.len() as u16).to_le_bytes());
        file.extend(value);
    };
    put(2, 0x10, b"UI", b"1.2.840.10008.1.2.1\0");
    put(8, 0x16, b"UI", b"1.2.840.10008.5.1.4.1.1.4\0");
    put(0x28, 2, b"US", &1_u16.to_le_bytes());
    put(0x28, 4, b"CS", b"MONOCHROME2 ");
    let side = SIDE as u16;
    let sizes = [(0x10, side), (0x11, side), (0x100, 16), (0x101, stored), (0x102, stored - 1)];
    for (number, value) in sizes.into_iter().chain([(0x103, u16::from(is_signed))]) {
        put(0x28, number, b"US", &value.to_le_bytes());
    }
    file.extend(b"\xe0\x7f\x10\0OW\0\0");
    file.extend((2 * samples.len() as u32).to_le_bytes());
    let mask = (1_u32 << stored) - 1;
    file.extend(samples.iter().flat_map(|&sample| ((sample as u32 & mask) as u16).to_le_bytes()));
    file
}

/// Returns the samples of a DICOM that ends with them.
fn read_dicom(file: &[u8], stored: u16, is_signed: bool) -> Vec<i32> {
    let pairs = file[file.len() - 2 * SIDE * SIDE..].as_chunks::<2>().0.iter();
    let sample = |&pair: &[u8; 2]| {
        let sample = i32::from(u16::from_le_bytes(pair)) & ((1 << stored) - 1);
        if is_signed && sample >> (stored - 1) == 1 { sample - (1 << stored) } else { sample }
    };
    pairs.map(sample).collect()
}

#[test]
fn photographs_are_as_defined() {
    other_readers_agree("photo");
}

#[test]
fn xray_gives_faint_data_at_least_half_of_the_range_however_many_levels_a_file_tells_of() {
    let mut random = Random(1);
    for bits in [10, 12, 14, 16] {
        for levels in [20, 337] {
            let (place, top) = (Place::new(), (1 << bits) - 1);
            let samples = gray(top / 5, levels, &mut random);
            assert!(span(&samples) >= 16);
            place.file("in/a.pgm", pgm(&samples, top));
            let half = |name: &str, found: &[i32], range: i32| {
                assert!(
                    2 * span(found) >= range,
                    "{name}, {bits} bits, {levels}: {} of {range}",
                    span(found)
                );
            };
            place.run("in --out done --preset xray").exits(0);
            let (maxval, found) = read_pgm(&place.read("done/a.pgm"));
            assert_eq!(maxval, top);
            half("PGM", &found, top);
            for format in ["png", "tiff"] {
                place
                    .run(&format!("in --out {format} --format {format} --levels auto --strength 0"))
                    .exits(0);
                place.run(&format!("{format} --out {format}-done --preset xray")).exits(0);
                place.run(&format!("{format}-done --out {format}-read --format pnm --strength 0")).exits(0);
                let name = place.tree(&format!("{format}-read")).remove(0);
                let (maxval, found) = read_pgm(&place.read(format!("{format}-read/{name}")));
                half(format, &found, if format == "png" { maxval } else { top });
            }
        }
    }
}

#[test]
fn xray_of_dicom_gives_half_of_the_range_signed_or_not_and_in_8_bits_too() {
    let mut random = Random(2);
    for bits in [10, 12, 14, 16] {
        for is_signed in [false, true] {
            let place = Place::new();
            let least = if is_signed { -(1 << (bits - 1)) } else { 0 };
            let samples = gray(least + (1 << bits) / 2, 60, &mut random);
            place.file("in/a.dcm", dicom(&samples, bits, is_signed));
            place.run("in --out done --preset xray").exits(0);
            let found = read_dicom(&place.read("done/a.dcm"), bits, is_signed);
            let range = (1 << bits) - 1;
            assert!(2 * span(&found) >= range, "{bits} bits, {is_signed}: {} of {range}", span(&found));
            place.run("in --out eight --preset xray --depth 8 --format pnm").exits(0);
            let (maxval, found) = read_pgm(&place.read("eight/a.pnm"));
            assert!(
                maxval == 255 && span(&found) >= 128,
                "{bits} bits, {is_signed}: {} of 255",
                span(&found)
            );
        }
    }
}

#[test]
fn clip_auto_means_the_same_whether_levels_are_told_or_not() {
    let place = Place::new();
    place.file("in/a.pgm", pgm(&gray(1700, 340, &mut Random(3)), 4095));
    for (name, flags) in [("auto", "--levels auto"), ("number", "--levels 4096")] {
        place.run(&format!("in --out {name} --method clahe {flags}")).exits(0);
    }
    assert_eq!(place.read("auto/a.pgm"), place.read("number/a.pgm"));
    // The same picture in all levels, except for the remainder of dividing clipped counts among the
    // levels: little for a large tile.
    place.run("in --out told --method clahe --tiles 1x1 --levels auto").exits(0);
    place.run("in --out all --method clahe --tiles 1x1").exits(0);
    let (_, of_told) = read_pgm(&place.read("told/a.pgm"));
    let (_, of_all) = read_pgm(&place.read("all/a.pgm"));
    let apart = of_told.iter().zip(&of_all).map(|(told, all)| (told * 65_535 / 4095 - all).abs());
    assert!(apart.max() <= Some(65_535 / 50));
}

#[test]
fn presets_that_stretch_land_their_percentiles_on_both_ends() {
    let place = Place::new();
    let samples = gray(900, 500, &mut Random(4));
    place.file("in/a.pgm", pgm(&samples, 4095));
    let mut sorted = samples.clone();
    sorted.sort_unstable();
    for (preset, low, high) in [("scan", 0.15, 1.0), ("microscopy", 0.175, 0.175), ("satellite", 2.0, 2.0)] {
        place.run(&format!("in --out {preset} --preset {preset} --levels auto")).exits(0);
        let (top, found) = read_pgm(&place.read(format!("{preset}/a.pgm")));
        let share = |percent: f64| (percent / 100.0 * sorted.len() as f64) as usize;
        let (a, b) = (sorted[share(low)], sorted[sorted.len() - 1 - share(high)]);
        for (sample, &new) in samples.iter().zip(&found) {
            let expected = if *sample <= a {
                Some(0)
            } else if *sample >= b {
                Some(top)
            } else {
                None
            };
            assert!(expected.is_none_or(|expected| expected == new), "{preset}: {sample} became {new}");
        }
    }
}

#[test]
fn photo_never_shrinks_the_range() {
    let mut random = Random(5);
    for (low, levels) in [(100, 40), (30, 120), (0, 255), (180, 70)] {
        let place = Place::new();
        let samples = gray(low, levels, &mut random);
        let eight: Vec<u8> = samples.iter().map(|&sample| sample as u8).collect();
        place.file("in/a.pgm", [format!("P5\n{SIDE} {SIDE}\n255\n").into_bytes(), eight].concat());
        place.run("in --out done --preset photo").exits(0);
        let (_, found) = read_pgm(&place.read("done/a.pgm"));
        assert!(span(&found) >= span(&samples), "{low}, {levels}: {} after {}", span(&found), span(&samples));
    }
}
