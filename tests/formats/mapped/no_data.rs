//! The no-data level: pixels without data keep it, and no other pixel gets it, whatever levels a
//! method leaves in the slot.

use codec::{Decoded, Format, Range, Target};
use equalize::Depth;

use super::super::{TARGET, decode, encode, pixels};
use super::model::{self, How, KINDS};
use super::{HEIGHT, PLAIN, WIDTH, samples_of, tag, tiff};
use crate::samples::Random;

const GDAL_NODATA: u16 = 42113;

/// Returns the next level up, or the next down from the top (`avoid` of the model).
fn beside(level: u16, top: u16) -> u16 {
    if level == top { level - 1 } else { level + 1 }
}

/// Returns the output for a pixel with the levels `made` by a method.
fn expected(source: &[u16], made: &[u16], none: u16, top: u16) -> Vec<u16> {
    let avoid = |&level: &u16| if level == none { beside(none, top) } else { level };
    let some = source.iter().filter(|&&level| level == none).count();
    match some {
        0 => made.iter().map(avoid).collect(),
        _ if some == source.len() => source.to_vec(),
        _ if made.iter().all(|&level| level == none) => made.iter().map(avoid).collect(),
        _ => made.to_vec(),
    }
}

/// Replaces the colours in a slot, as a method does.
fn replace(decoded: &Decoded, slot: &mut [u8], made: &[u16]) {
    let layout = decoded.layout;
    let (bytes, colours) = (layout.depth.bytes(), layout.pixel.colour_channels());
    let pixels = slot.chunks_exact_mut(layout.pixel_bytes());
    for (pixel, made) in pixels.zip(made.chunks_exact(colours)) {
        for (sample, level) in pixel.chunks_exact_mut(bytes).zip(made) {
            sample.copy_from_slice(
                &level.to_ne_bytes()[if cfg!(target_endian = "big") { 2 - bytes } else { 0 }..][..bytes],
            );
        }
    }
}

/// Returns the samples of a PNM, with its header taken off.
fn raster(file: &[u8], samples: usize, depth: Depth) -> Vec<u16> {
    let bytes = &file[file.len() - samples * depth.bytes()..];
    match depth {
        Depth::Eight => bytes.iter().map(|&sample| sample.into()).collect(),
        Depth::Sixteen => bytes.as_chunks().0.iter().map(|&sample| u16::from_be_bytes(sample)).collect(),
    }
}

fn pnm(samples: &[u16], colours: usize, top: u16) -> Vec<u8> {
    let magic = if colours == 1 { "P5" } else { "P6" };
    let header = format!("{magic} {} 1 {top}\n", samples.len() / colours).into_bytes();
    let bytes = |&sample: &u16| sample.to_be_bytes()[usize::from(top < 256)..].to_vec();
    [header, samples.iter().flat_map(bytes).collect()].concat()
}

/// Samples near a level, a third of them that level.
fn near(none: u16, top: u16, count: usize, random: &mut Random) -> Vec<u16> {
    let sample = |_| match random.below(3) {
        0 => none,
        1 => none.saturating_sub(1),
        _ => none.saturating_add(1).min(top),
    };
    (0..count).map(sample).collect()
}

#[test]
fn no_pixel_with_data_gets_the_level() {
    let mut random = Random(3);
    for (depth, colours) in [(Depth::Eight, 1), (Depth::Eight, 3), (Depth::Sixteen, 1), (Depth::Sixteen, 3)] {
        let top = (depth.levels() - 1) as u16;
        for none in [0, 1, 77, top - 1, top] {
            let [source, made] = [0, 1].map(|_| near(none, top, 300 * colours, &mut random));
            let target = Target { no_data: Some(none.into()), ..TARGET };
            let (mut decoded, mut slot) = decode(&pnm(&source, colours, top), &target).unwrap();
            replace(&decoded, &mut slot, &made);
            decoded.reduce_depth(&mut slot, &target);
            let found = raster(&encode(&decoded, slot, &target).unwrap(), made.len(), depth);
            let pixels = source.chunks_exact(colours).zip(made.chunks_exact(colours));
            let expected: Vec<u16> =
                pixels.flat_map(|(source, made)| expected(source, made, none, top)).collect();
            assert!(found == expected, "{depth:?}, {colours} colours, {none}");
        }
    }
}

#[test]
fn a_picture_that_a_method_leaves_as_it_is_stays_so() {
    let source: Vec<u16> = near(0, 255, 300, &mut Random(4));
    let target = Target { no_data: Some(0.0), ..TARGET };
    let (mut decoded, mut slot) = decode(&pnm(&source, 3, 255), &target).unwrap();
    decoded.reduce_depth(&mut slot, &target);
    assert!(raster(&encode(&decoded, slot, &target).unwrap(), source.len(), Depth::Eight) == source);
}

#[test]
fn of_fewer_bits_no_pixel_gets_what_the_level_becomes() {
    let mut random = Random(5);
    let eight = |level: u16| ((u32::from(level) * 255 + 32_767) / 65_535) as u16;
    for none in [0, 129, 40_000, 65_535] {
        let source: Vec<u16> = (0..300).map(|at| if at % 3 == 0 { none } else { 5000 }).collect();
        let made: Vec<u16> = (0..300)
            .map(|_| (i32::from(none) + random.below(900) as i32 - 450).clamp(0, 65_535) as u16)
            .collect();
        let target = Target { no_data: Some(none.into()), eight_bit: true, ..TARGET };
        let (mut decoded, mut slot) = decode(&pnm(&source, 1, 65_535), &target).unwrap();
        replace(&decoded, &mut slot, &made);
        decoded.reduce_depth(&mut slot, &target);
        let found = raster(&encode(&decoded, slot, &target).unwrap(), 300, Depth::Eight);
        let (source, made): (Vec<_>, Vec<_>) =
            source.iter().zip(&made).map(|(&source, &made)| (eight(source), eight(made))).unzip();
        // A pixel that had another level before rounding has data.
        let hole = |at: usize| at.is_multiple_of(3);
        let expected: Vec<u16> = (0..300)
            .map(|at| match made[at] {
                _ if hole(at) => source[at],
                level if level == eight(none) => beside(level, 255),
                level => level,
            })
            .collect();
        assert!(found == expected, "{none}");
    }
}

#[test]
fn levels_that_are_spread_give_way_to_the_next_of_them() {
    // 100 levels, spread over 8 bits.
    let source = pnm(&[0, 50, 99, 98], 1, 99);
    let target = Target { no_data: Some(99.0), levels: codec::LevelCount::Stated, ..TARGET };
    for format in [Format::Pnm, Format::Png] {
        let target = Target { format: Some(format), ..target };
        let (mut decoded, mut slot) = decode(&source, &target).unwrap();
        replace(&decoded, &mut slot, &[99, 0, 0, 99]);
        decoded.reduce_depth(&mut slot, &target);
        let file = encode(&decoded, slot, &target).unwrap();
        let plain = Target { format: Some(Format::Pnm), ..TARGET };
        let (again, slot) = decode(&file, &plain).unwrap();
        let found: Vec<u16> = pixels(&again, &slot).iter().map(|&level| level.into()).collect();
        let scaled = |level: u16| (2 * level * 255 + 99) / 198;
        assert_eq!(found, [98, 0, 99, 98].map(scaled), "{format}");
    }
}

/// Returns the number that a TIFF states.
fn stated(file: &[u8]) -> Option<String> {
    let bytes: Vec<u8> = tag(file, GDAL_NODATA)?.into_iter().map(|byte| byte as u8).collect();
    Some(String::from_utf8(bytes).unwrap().trim_end_matches('\0').to_owned())
}

#[test]
fn a_tiff_states_the_level_that_pixels_without_data_have_in_it() {
    let picture: Vec<u8> =
        (0..WIDTH * HEIGHT).map(|at| if at % 5 == 0 { 7 } else { (at % 41) as u8 + 8 }).collect();
    let how = How { no_data: Some(7.0), ..How::new((1, 8), 1) };
    for (inverted, of_user, level, none) in
        [(false, None, "7", 7), (true, None, "248", 7), (false, Some(9.0), "9", 9)]
    {
        let target = Target { no_data: of_user, ..TARGET };
        let file = tiff(How { inverted, ..how }, &picture, PLAIN);
        let (mut decoded, mut slot) = decode(&file, &target).unwrap();
        let all: u16 = level.parse().unwrap();
        replace(&decoded, &mut slot, &vec![all; picture.len()]);
        decoded.reduce_depth(&mut slot, &target);
        let written = encode(&decoded, slot, &target).unwrap();
        assert_eq!(stated(&written).as_deref(), Some(level));
        let expected: Vec<u8> =
            picture.iter().map(|&sample| if sample == none { all as u8 } else { all as u8 + 1 }).collect();
        assert!(samples_of(&written, how) == expected, "{level}");
    }
    let eight = Target { eight_bit: true, ..TARGET };
    let deep: Vec<u8> = picture.iter().flat_map(|&sample| (u16::from(sample) * 257).to_le_bytes()).collect();
    let file = tiff(How { no_data: Some(1799.0), ..How::new((1, 16), 1) }, &deep, PLAIN);
    let (mut decoded, mut slot) = decode(&file, &eight).unwrap();
    decoded.reduce_depth(&mut slot, &eight);
    let written = encode(&decoded, slot, &eight).unwrap();
    assert_eq!(stated(&written).as_deref(), Some("7"));
    assert!(samples_of(&written, how) == picture);
}

/// Returns samples of any kind, with every fifth pixel lacking data.
fn with_holes(how: How, value: f64, none: f64) -> Vec<u8> {
    let of = |at: usize| if at.is_multiple_of(5) { none } else { value };
    (0..WIDTH * HEIGHT * how.colours).flat_map(|at| model::sample(how.kind, of(at / how.colours))).collect()
}

#[test]
fn samples_that_are_no_levels_avoid_the_value_too() {
    for kind in KINDS {
        // The levels of a range from 0 to 65,535 are their values; those of short integers begin
        // with the least.
        let (least, top): (i32, i32) = match kind {
            (2, 8) => (-128, 127),
            (2, 16) => (-32_768, 32_767),
            (3, 16) => (0, 2048),
            _ => (0, 65_535),
        };
        for (none, instead) in [(7, 8), (least, least + 1), (top, top - 1)] {
            for inverted in [false, true] {
                let range = Some((f64::from(least), f64::from(top)));
                let how = How { no_data: Some(none.into()), range, inverted, ..How::new(kind, 1) };
                let picture = with_holes(how, 9.0, none.into());
                let target = Target { range: Range::new(least.into(), top.into()), ..TARGET };
                let (mut decoded, mut slot) = decode(&tiff(how, &picture, PLAIN), &target).unwrap();
                let levels = if decoded.layout.depth == Depth::Eight { 255.0 } else { 65_535.0 };
                let share = f64::from(none - least) / f64::from(top - least);
                let level = (if inverted { 1.0 - share } else { share } * levels).round() as u16;
                replace(&decoded, &mut slot, &vec![level; WIDTH * HEIGHT]);
                decoded.reduce_depth(&mut slot, &target);
                let written = encode(&decoded, slot, &target).unwrap();
                let (found, bytes) = (samples_of(&written, how), usize::from(kind.1 / 8));
                let holes = found.chunks_exact(bytes).step_by(5);
                assert!(holes.into_iter().all(|hole| hole == model::sample(kind, none.into())), "{how:?}");
                let found = model::value(kind, &found[bytes..2 * bytes]);
                let is_beside = match kind {
                    (3, 16) => found != f64::from(none) && (found - f64::from(none)).abs() <= 1.0,
                    _ => found == f64::from(instead),
                };
                assert!(is_beside, "{how:?}: {found}");
            }
        }
    }
}

#[test]
fn where_such_samples_become_levels_pixels_without_data_have_one_of_their_own() {
    let how = How { no_data: Some(-9999.0), ..How::new((3, 32), 1) };
    let picture = with_holes(how, 9.0, -9999.0);
    for (format, eight_bit) in [(Format::Png, false), (Format::Png, true), (Format::Tiff, true)] {
        let target = Target { format: Some(format), eight_bit, ..TARGET };
        let (mut decoded, mut slot) = decode(&tiff(how, &picture, PLAIN), &target).unwrap();
        // As CLAHE blends the levels around them.
        let made: Vec<u16> = (0..WIDTH * HEIGHT).map(|at| if at % 5 == 0 { 300 } else { 0 }).collect();
        replace(&decoded, &mut slot, &made);
        decoded.reduce_depth(&mut slot, &target);
        let written = encode(&decoded, slot, &target).unwrap();
        assert_eq!(stated_in(&written, format).as_deref(), (format == Format::Tiff).then_some("0"));
        let (again, slot) = decode(&written, &Target { format: Some(Format::Png), ..TARGET }).unwrap();
        let bytes = again.layout.depth.bytes();
        let levels: Vec<u16> = pixels(&again, &slot)
            .chunks_exact(again.layout.pixel_bytes())
            .map(|pixel| if bytes == 1 { pixel[0].into() } else { u16::from_ne_bytes([pixel[0], pixel[1]]) })
            .collect();
        assert!(
            levels.iter().enumerate().all(|(at, &level)| level == u16::from(at % 5 > 0)),
            "{format} {eight_bit}"
        );
    }
}

fn stated_in(file: &[u8], format: Format) -> Option<String> {
    if format == Format::Tiff { stated(file) } else { None }
}

#[test]
fn what_is_nothing_but_holes_is_told() {
    let how = How { no_data: Some(7.0), ..How::new((1, 8), 1) };
    let (decoded, _) = decode(&tiff(how, &[7; WIDTH * HEIGHT], PLAIN), &TARGET).unwrap();
    assert_eq!(decoded.remarks(&TARGET), [codec::Remark::NoValues]);
}
