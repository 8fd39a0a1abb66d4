//! Chroma in a JPEG's own planes, as libjpeg reads them.

use std::io::{Read, Seek, Write};
use std::path::Path;

use super::Reader;
use super::markers::Markers;
use super::planes::PlaneSize;
use crate::{Cores, Decoded, Format, JpegQuality, Limits, Target};
use equalize::Pixel;

const TARGET: Target = Target::AS_STORED;
const HUE: Target = Target { keeps_hue: true, ..TARGET };

fn file(name: &str) -> Vec<u8> {
    std::fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data").join(name)).unwrap()
}

fn decode(bytes: &[u8], target: &Target) -> (Decoded, Vec<u8>) {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(bytes).unwrap();
    file.rewind().unwrap();
    let mut buffer = Vec::new();
    let limits = Limits { max_pixels: 1 << 20, max_bytes: 1 << 26 };
    let opened = crate::open(&mut file, &mut buffer, &limits, target).unwrap();
    let mut slot = vec![0; opened.slot_bytes()];
    let decoded = opened.decode(&mut slot, Vec::new(), &Cores::none()).unwrap();
    (decoded, slot)
}

fn encode(decoded: &Decoded, mut slot: Vec<u8>, target: &Target) -> Vec<u8> {
    let mut file = tempfile::tempfile().unwrap();
    crate::encode(decoded, &mut slot, target, &mut Vec::new(), &Cores::none(), &mut file).unwrap();
    file.rewind().unwrap();
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).unwrap();
    bytes
}

/// An RGB picture with some structure, as PPM.
fn ppm(width: usize, height: usize) -> Vec<u8> {
    let mut file = format!("P6 {width} {height} 255\n").into_bytes();
    for y in 0..height {
        for x in 0..width {
            file.extend([(x * 5 + y) as u8, (y * 3) as u8 ^ (x as u8 >> 2), ((x * y) / 7) as u8]);
        }
    }
    file
}

fn jpeg(width: usize, height: usize) -> Vec<u8> {
    let target = Target { format: Some(Format::Jpeg), ..TARGET };
    let (decoded, slot) = decode(&ppm(width, height), &target);
    encode(&decoded, slot, &target)
}

/// Returns the planes of a YCbCr JPEG, one after the other; those of chroma are whole blocks.
fn planes(jpeg: &[u8]) -> Vec<u8> {
    let markers = Markers::scan(jpeg).unwrap();
    let luma = PlaneSize { width: markers.width as usize, rows: markers.height as usize };
    let chroma = markers.chroma_size();
    let mut all = vec![0; luma.bytes() + chroma.bytes()];
    let (y, rest) = all.split_at_mut(luma.bytes());
    let [cb, cr] = chroma.planes_mut(rest);
    Reader::new(jpeg).unwrap().read_planes(&mut [luma.plane(y), cb, cr]).unwrap();
    all
}

#[test]
fn chroma_lies_in_whole_blocks() {
    // Two planes of 3 by 2 blocks.
    assert_eq!(planes(&jpeg(45, 31)).len(), 45 * 31 + 2 * (3 * 2 * 64));
}

#[test]
fn chroma_is_the_same_to_the_bit_after_luma_has_changed() {
    // Smooth pictures and a noisy one with clipped samples; one is progressive.
    let files = ["codec/peacock.progressive.scan007.jpeg", "codec/peacock.s1x3.jpeg"].map(file);
    for source in [jpeg(64, 48), jpeg(45, 31)].into_iter().chain(files) {
        let (decoded, mut slot) = decode(&source, &TARGET);
        slot.iter_mut().for_each(|y| *y = 255 - *y / 2);
        let luma = slot.len();
        let written = encode(&decoded, slot, &TARGET);
        let (before, after) = (planes(&source), planes(&written));
        assert!(luma < before.len());
        assert!(before[luma..] == after[luma..]);
        assert!(before[..luma] != after[..luma]);
    }
}

/// Files of the samplings that stay in their planes.
///
/// Each comes with the luma that a sample of chroma covers, across and down.
fn files() -> Vec<(Vec<u8>, [usize; 2])> {
    let names = ["444.jpg", "422.jpg", "440.jpg", "420.jpg", "411.jpg", "progressive.jpg", "restart.jpg"];
    let with_cover = |file: Vec<u8>| {
        let components = Markers::scan(&file).unwrap().components;
        let sides = |of: usize| [components[of].horizontal, components[of].vertical].map(usize::from);
        let ([luma_across, luma_down], [across, down]) = (sides(0), sides(1));
        (file, [luma_across / across, luma_down / down])
    };
    let made = [jpeg(45, 31), jpeg(1, 1), jpeg(16, 17)];
    names.map(|name| file(&format!("jpeg/{name}"))).into_iter().chain(made).map(with_cover).collect()
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
        let (decoded, mut slot) = decode(&source, &target);
        let [width, height] = [decoded.layout.width as usize, decoded.layout.height as usize];
        assert_eq!(decoded.layout.pixel, Pixel::Gray);
        let old = slot.clone();
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
        let written = encode(&decoded, slot, &target);
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
    let target = Target { format: Some(Format::Jpeg), jpeg_quality: JpegQuality::Value(100), ..TARGET };
    let (decoded, slot) = decode(&pgm, &target);
    decode(&encode(&decoded, slot, &target), &TARGET).1
}

#[test]
fn blocks_whose_luma_stays_are_passed_on() {
    // Only the left half changes.
    let (source, _) = files().swap_remove(3);
    let (decoded, mut slot) = decode(&source, &HUE);
    let width = decoded.layout.width as usize;
    slot.iter_mut().enumerate().filter(|(at, _)| at % width < width / 2).for_each(|(_, luma)| *luma /= 2);
    let luma = slot.len();
    let (before, after) = (planes(&source), planes(&encode(&decoded, slot, &HUE)));
    let stride = width.div_ceil(2).next_multiple_of(8);
    let rows = before[luma..].chunks_exact(stride).zip(after[luma..].chunks_exact(stride));
    let stays = (width / 4).next_multiple_of(8);
    assert!(rows.clone().all(|(before, after)| before[stays..] == after[stays..]));
    assert!(rows.clone().any(|(before, after)| before[..stays] != after[..stays]));
}

#[test]
fn chroma_beyond_what_samples_have_is_left_to_libjpeg() {
    let (mut source, _) = files().swap_remove(3);
    let last = source.windows(2).rposition(|pair| pair == [0xff, 0xdb]).unwrap();
    // Divisors of chroma so great that no picture has such coefficients.
    source[last + 5..last + 5 + 64].fill(255);
    for quality in [JpegQuality::Keep, JpegQuality::Value(100)] {
        let target = Target { jpeg_quality: quality, ..HUE };
        let (decoded, mut slot) = decode(&source, &target);
        slot.iter_mut().for_each(|luma| *luma = 255 - *luma / 2);
        let written = encode(&decoded, slot, &target);
        assert!(planes(&written) != planes(&source));
    }
}
