//! JPEGs with chroma that follows luma in their own planes, to keep hues.

use codec::{JpegQuality, Target};
use equalize::{Clahe, ClipLimit, Colour, Method, Operation, Pixel, Scratch, Tiles, equalize};

use super::{TARGET, decode, encode, file, jpeg, pixels, planes, sampling};
use crate::harness::project;

const HUE: Target = Target { keeps_hue: true, ..TARGET };

/// Files of the samplings that stay in their planes.
///
/// Each comes with the luma that a sample of chroma covers, across and down.
fn files() -> Vec<(Vec<u8>, [usize; 2])> {
    let of = |name: &str| std::fs::read(project().join("tests/data/jpeg").join(name)).unwrap();
    let names = ["444.jpg", "422.jpg", "440.jpg", "420.jpg", "411.jpg", "progressive.jpg", "restart.jpg"];
    let with_cover = |file: Vec<u8>| {
        let factors = sampling(&file);
        let sides = |factor: u8| [factor >> 4, factor & 15].map(usize::from);
        let ([luma_across, luma_down], [across, down]) = (sides(factors[0]), sides(factors[1]));
        (file, [luma_across / across, luma_down / down])
    };
    let made = [jpeg(45, 31), jpeg(1, 1), jpeg(16, 17)];
    names.map(of).into_iter().chain(made).map(with_cover).collect()
}

/// Chroma by its definition, in integers.
///
/// It has two planes of these columns and rows, with `stride` samples in a row.
fn model(
    (old, new): (&[u8], &[u8]),
    [width, height]: [usize; 2],
    [across, down]: [usize; 2],
    chroma: [&[u8]; 2],
    stride: usize,
) -> [Vec<u8>; 2] {
    let (columns, rows) = (width.div_ceil(across), height.div_ceil(down));
    let mut planes = chroma.map(<[u8]>::to_vec);
    for (x, y) in (0..rows).flat_map(|y| (0..columns).map(move |x| (x, y))) {
        let covered = (y * down..height.min((y + 1) * down))
            .flat_map(|y| (x * across..width.min((x + 1) * across)).map(move |x| y * width + x));
        let sum = |luma: &[u8]| covered.clone().map(|at| i64::from(luma[at])).sum::<i64>();
        let (number, old, new) = (covered.clone().count() as i64, sum(old), sum(new));
        if old == new {
            continue;
        }
        let [b, r] = chroma.map(|plane| i64::from(plane[y * stride + x]) - 128);
        let greatest = (91_881 * r).max(116_130 * b).max(-22_554 * b - 46_802 * r);
        let (mut up, mut under) = (4, 1);
        let room = (65_536 * (255 * number - new), number * greatest);
        for (n, d) in [(new, old), (new + 4 * number, old + 4 * number), room] {
            if d > 0 && n * under < up * d {
                (up, under) = (n, d);
            }
        }
        for (plane, v) in planes.iter_mut().zip([b, r]) {
            let scaled = 128 + (2 * v * up + under).div_euclid(2 * under);
            plane[y * stride + x] = scaled.clamp(0, 255) as u8;
        }
    }
    planes
}

#[test]
fn chroma_is_that_of_the_definition() {
    for (number, (source, cover)) in files().into_iter().enumerate() {
        let target = Target { jpeg_quality: JpegQuality::Value(100), ..HUE };
        let (decoded, mut slot) = decode(&source, &target).unwrap();
        let [width, height] = [decoded.layout.width as usize, decoded.layout.height as usize];
        assert_eq!(decoded.layout.pixel, Pixel::Gray);
        let old = pixels(&decoded, &slot).to_vec();
        // Brighter, darker, and unchanged in alternate columns, and all three in blocks of their
        // own.
        for (at, luma) in slot.iter_mut().enumerate() {
            *luma = match at % width / 24 % 3 {
                0 => (f64::from(*luma) / 255.0).sqrt().mul_add(255.0, 0.5) as u8,
                1 => *luma / 2,
                _ => *luma,
            };
        }
        let new = slot.clone();
        let written = encode(&decoded, slot, &target).unwrap();
        let (before, after) = (planes(&source), planes(&written));
        let luma = width * height;
        let half = (before.len() - luma) / 2;
        let stride = width.div_ceil(cover[0]).next_multiple_of(8);
        let chroma = [&before[luma..][..half], &before[luma + half..]];
        let expected = model((&old, &new), [width, height], cover, chroma, stride);
        let (columns, rows) = (width.div_ceil(cover[0]), height.div_ceil(cover[1]));
        for (which, expected) in expected.iter().enumerate() {
            let found = &after[luma + which * half..][..half];
            let stored = stored(expected, [columns, rows], stride);
            for (x, y) in (0..rows).flat_map(|y| (0..columns).map(move |x| (x, y))) {
                let block = |plane: &[u8]| -> Vec<u8> {
                    let rows = y / 8 * 8..rows.min(y / 8 * 8 + 8);
                    rows.flat_map(|y| plane[y * stride..][x / 8 * 8..columns.min(x / 8 * 8 + 8)].to_vec())
                        .collect()
                };
                let stays = block(expected) == block(chroma[which]);
                let (found, model) = (found[y * stride + x], expected[y * stride + x]);
                assert!(
                    found.abs_diff(model) <= 2,
                    "file {number}, {which}: {found} and {model} at {x}, {y}"
                );
                assert!(
                    stays || found == stored[y * columns + x],
                    "file {number}, {which}, at {x}, {y}: {found}, stored {}, model {model}",
                    stored[y * columns + x]
                );
            }
        }
    }
}

/// Returns the samples of a plane after it was stored at quality 100.
fn stored(plane: &[u8], [columns, rows]: [usize; 2], stride: usize) -> Vec<u8> {
    let mut pgm = format!("P5 {columns} {rows} 255\n").into_bytes();
    plane.chunks_exact(stride).take(rows).for_each(|row| pgm.extend(&row[..columns]));
    let target =
        Target { format: Some(codec::Format::Jpeg), jpeg_quality: JpegQuality::Value(100), ..TARGET };
    let (decoded, slot) = decode(&pgm, &target).unwrap();
    let (decoded, slot) = decode(&encode(&decoded, slot, &target).unwrap(), &TARGET).unwrap();
    pixels(&decoded, &slot).to_vec()
}

#[test]
fn blocks_that_stay_are_passed_on() {
    for quality in [JpegQuality::Keep, JpegQuality::Value(60)] {
        for (source, _) in files() {
            let (hue, luma) =
                (Target { jpeg_quality: quality, ..HUE }, Target { jpeg_quality: quality, ..TARGET });
            let as_it_was = |target: &Target| {
                let (decoded, slot) = decode(&source, target).unwrap();
                encode(&decoded, slot, target).unwrap()
            };
            assert!(as_it_was(&hue) == as_it_was(&luma), "where luma stays, chroma does, to the bit");
        }
    }
    // Only the left half changes.
    let (source, _) = files().swap_remove(3);
    let (decoded, mut slot) = decode(&source, &HUE).unwrap();
    let width = decoded.layout.width as usize;
    slot.iter_mut().enumerate().filter(|(at, _)| at % width < width / 2).for_each(|(_, luma)| *luma /= 2);
    let luma = slot.len();
    let (before, after) = (planes(&source), planes(&encode(&decoded, slot, &HUE).unwrap()));
    let stride = width.div_ceil(2).next_multiple_of(8);
    let rows = before[luma..].chunks_exact(stride).zip(after[luma..].chunks_exact(stride));
    let stays = (width / 4).next_multiple_of(8);
    assert!(rows.clone().all(|(before, after)| before[stays..] == after[stays..]));
    assert!(rows.clone().any(|(before, after)| before[..stays] != after[..stays]));
}

#[test]
fn the_result_is_near_that_of_the_way_through_rgb() {
    let rgb = Target { needs_rgb: true, ..TARGET };
    for (source, _) in files().into_iter().filter(|(source, _)| source.len() > 2000) {
        let result = |colour: Colour, target: &Target| {
            let clahe = Clahe { clip_limit: ClipLimit::Auto, tiles: Tiles::Grid { x: 4, y: 3 }, noise: 0 };
            let operation = Operation { colour, ..Operation::new(Method::Clahe(clahe)) };
            let (decoded, mut slot) = decode(&source, target).unwrap();
            equalize(&mut slot, &decoded.layout, &operation, &mut Scratch::default());
            let (again, colours) = decode(&encode(&decoded, slot, target).unwrap(), &rgb).unwrap();
            pixels(&again, &colours).to_vec()
        };
        let mean = |colour, in_planes: &Target| {
            let (one, other) = (result(colour, in_planes), result(colour, &rgb));
            let sum: u64 = one.iter().zip(&other).map(|(a, b)| u64::from(a.abs_diff(*b))).sum();
            sum as f64 / one.len() as f64
        };
        let (hue, luma) = (mean(Colour::Hue, &HUE), mean(Colour::Luma, &TARGET));
        // These pictures have colours beyond RGB. The way through RGB cuts them off, whichever
        // colours follow.
        assert!(hue < luma + 1.0, "{hue} levels; {luma} where colours change by as much as luma");
    }
}

#[test]
fn samplings_that_luma_is_no_multiple_of_go_through_rgb() {
    for name in ["weird_sampling_2.jpeg", "non_interleaved_440_64x64.jpg"] {
        let usual = decode(&file(name), &TARGET).unwrap().0.layout;
        let hue = decode(&file(name), &HUE).unwrap().0.layout;
        assert!(hue.pixel == Pixel::Rgb || usual.pixel == Pixel::Gray, "{name}: {usual:?} {hue:?}");
    }
    let (decoded, _) = decode(&jpeg(45, 31), &Target { format: Some(codec::Format::Png), ..HUE }).unwrap();
    assert_eq!(decoded.layout.pixel, Pixel::Rgb);
}

#[test]
fn chroma_beyond_what_samples_have_is_left_to_libjpeg() {
    let (mut source, _) = files().swap_remove(3);
    let last = source.windows(2).rposition(|pair| pair == [0xff, 0xdb]).unwrap();
    // Divisors of chroma so great that no picture has such coefficients.
    source[last + 5..last + 5 + 64].fill(255);
    for quality in [JpegQuality::Keep, JpegQuality::Value(100)] {
        let target = Target { jpeg_quality: quality, ..HUE };
        let (decoded, mut slot) = decode(&source, &target).unwrap();
        slot.iter_mut().for_each(|luma| *luma = 255 - *luma / 2);
        let written = encode(&decoded, slot, &target).unwrap();
        assert!(planes(&written) != planes(&source));
    }
}
