//! Samples that are not levels: signed integers, long integers and floats. The output is compared
//! with a model, byte for byte.

mod model;
mod no_data;
mod pfm;

use crate::harness::project;
use codec::{Decoded, Format, Range, Remark, Target};
use equalize::colour::Gray;
use equalize::{Clahe, ClipLimit, Depth, Layout, Method, Operation, Pixel, Scratch, Tiles, equalize};

use super::{TARGET, are_alike, decode, decode_file, encode};
use model::{How, KINDS, Kind};

const WIDTH: usize = 53;
const HEIGHT: usize = 47;
const GLOBAL: Operation = Operation::new(Method::Global);

/// Returns samples of any kind: a bell of values, and for floats also some NaNs and infinities.
fn samples(kind: Kind, count: usize, with_none: bool) -> Vec<u8> {
    let mut state = 7_u64;
    let mut random = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        f64::from((state >> 40) as u32) / f64::from(1 << 24)
    };
    let size = match kind {
        (3, _) => 3000.0,
        (_, bits) => 2_f64.powi(i32::from(bits.min(50)) - 1),
    };
    let sample = |at: usize| -> Vec<u8> {
        let bell = (0..4).map(|_| random()).sum::<f64>() / 4.0;
        let value = if kind.0 == 1 { bell * size } else { (bell - 0.4) * size };
        let none: Option<&[u8]> = match (kind, at % 97) {
            _ if !with_none => None,
            ((3, 16), 5) => Some(&[0x03, 0xfe]),
            ((3, 16), 6) => Some(&[0x00, 0x7c]),
            ((3, 32), 5..9) => Some(&[0x03, 0x00, 0xc0, 0x7f]),
            ((3, 32), 9) => Some(&[0x01, 0x00, 0x80, 0x7f]),
            ((3, 32), 40) => Some(&[0x00, 0x00, 0x80, 0xff]),
            ((3, 64), 5) => Some(&[1, 0, 0, 0, 0, 0, 0xf0, 0xff]),
            ((3, 64), 6) => Some(&[0, 0, 0, 0, 0, 0, 0xf0, 0x7f]),
            _ => None,
        };
        none.map_or_else(|| model::sample(kind, value), <[u8]>::to_vec)
    };
    (0..count).flat_map(sample).collect()
}

fn picture(how: How, with_none: bool) -> Vec<u8> {
    let channels = how.pixel_bytes() / usize::from(how.kind.1 / 8);
    samples(how.kind, WIDTH * HEIGHT * channels, with_none)
}

/// The arrangement of a TIFF.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Arrangement {
    big_endian: bool,
    rows_a_strip: usize,
    planar: bool,
    deflated: bool,
}

const PLAIN: Arrangement =
    Arrangement { big_endian: false, rows_a_strip: HEIGHT, planar: false, deflated: false };

/// Returns a TIFF of little-endian samples.
fn tiff(how: How, picture: &[u8], arrangement: Arrangement) -> Vec<u8> {
    let Arrangement { big_endian, rows_a_strip, planar, deflated } = arrangement;
    let (bytes, pixel) = (usize::from(how.kind.1 / 8), how.pixel_bytes());
    let channels = pixel / bytes;
    let mut stored = picture.to_vec();
    if big_endian {
        stored.chunks_exact_mut(bytes).for_each(<[u8]>::reverse);
    }
    let planes: Vec<Vec<u8>> = match planar {
        false => vec![stored],
        true => (0..channels)
            .map(|channel| {
                let sample = |pixel: &[u8]| pixel[channel * bytes..][..bytes].to_vec();
                stored.chunks_exact(pixel).flat_map(sample).collect()
            })
            .collect(),
    };
    let row = WIDTH * pixel / planes.len();
    let pack = |strip: &[u8]| if deflated { super::tiff::deflated(strip) } else { strip.to_vec() };
    let strips: Vec<Vec<u8>> =
        planes.iter().flat_map(|plane| plane.chunks(rows_a_strip * row)).map(pack).collect();
    let number = |value: usize, length: usize| -> Vec<u8> {
        let mut bytes = value.to_le_bytes()[..length].to_vec();
        if big_endian {
            bytes.reverse();
        }
        bytes
    };
    let mut file = if big_endian { b"MM\0*\0\0\0\0".to_vec() } else { b"II*\0\0\0\0\0".to_vec() };
    let offsets: Vec<usize> = strips
        .iter()
        .map(|strip| {
            file.extend(strip);
            file.len() - strip.len()
        })
        .collect();
    let mut tags: Vec<(u16, u16, Vec<u8>)> = Vec::new();
    let mut add = |tag: u16, length: usize, values: &[usize]| {
        let bytes = values.iter().flat_map(|&value| number(value, length)).collect();
        tags.push((tag, if length == 2 { 3 } else { 4 }, bytes));
    };
    add(256, 4, &[WIDTH]);
    add(257, 4, &[HEIGHT]);
    add(258, 2, &vec![usize::from(how.kind.1); channels]);
    add(259, 2, &[if deflated { 8 } else { 1 }]);
    add(262, 2, &[if how.colours == 3 { 2 } else { usize::from(!how.inverted) }]);
    add(273, 4, &offsets);
    add(277, 2, &[channels]);
    add(278, 4, &[rows_a_strip]);
    add(279, 4, &strips.iter().map(Vec::len).collect::<Vec<_>>());
    add(284, 2, &[if planar { 2 } else { 1 }]);
    if let Some(extra) = how.extra {
        add(338, 2, &[extra.into()]);
    }
    add(339, 2, &vec![usize::from(how.kind.0); channels]);
    if let Some(no_data) = how.no_data {
        tags.push((42113, 2, format!("{no_data}\0").into_bytes()));
    }
    file.resize(file.len().next_multiple_of(2), 0);
    let at = file.len();
    file[4..8].copy_from_slice(&number(at, 4));
    file.extend(number(tags.len(), 2));
    let (mut values, values_at) = (Vec::new(), at + 2 + 12 * tags.len() + 4);
    for (tag, kind, mut bytes) in tags {
        let size = [1, 1, 2, 4][usize::from(kind) - 1];
        file.extend([number(tag.into(), 2), number(kind.into(), 2), number(bytes.len() / size, 4)].concat());
        if bytes.len() > 4 {
            let place = number(values_at + values.len(), 4);
            values.extend(std::mem::replace(&mut bytes, place));
        }
        bytes.resize(4, 0);
        file.extend(bytes);
    }
    file.extend([0; 4]);
    [file, values].concat()
}

/// Decodes, equalizes and encodes a file. Returns the output, and the picture before that.
fn processed(file: &[u8], operation: &Operation, target: &Target) -> (Vec<u8>, Decoded) {
    let (mut decoded, mut slot) = decode(file, target).unwrap();
    let pixels = decoded.layout.bytes() as usize;
    equalize(&mut slot[..pixels], &decoded.layout, operation, &mut Scratch::default());
    decoded.reduce_depth(&mut slot, target);
    (encode(&decoded, slot, target).unwrap(), decoded)
}

/// Returns the values of a tag of a little-endian classic TIFF, if it is there.
fn tag(file: &[u8], wanted: u16) -> Option<Vec<usize>> {
    let number = |at: usize, length: usize| {
        file[at..at + length].iter().rev().fold(0, |number, &byte| number << 8 | usize::from(byte))
    };
    let at = number(4, 4);
    let entry =
        (0..number(at, 2)).map(|i| at + 2 + 12 * i).find(|&at| number(at, 2) == usize::from(wanted))?;
    let (size, count) = ([1, 1, 2, 4][number(entry + 2, 2) - 1], number(entry + 4, 4));
    let start = if size * count > 4 { number(entry + 8, 4) } else { entry + 8 };
    Some((0..count).map(|i| number(start + i * size, size)).collect())
}

/// Returns the little-endian samples of a TIFF that was written, and checks the tags about them.
fn samples_of(file: &[u8], how: How) -> Vec<u8> {
    let bytes = usize::from(how.kind.1 / 8);
    let channels = how.pixel_bytes() / bytes;
    assert_eq!(tag(file, 258), Some(vec![8 * bytes; channels]));
    assert_eq!(tag(file, 339).unwrap_or(vec![1; channels]), vec![usize::from(how.kind.0); channels]);
    assert_eq!(tag(file, 338), how.extra.map(|extra| vec![extra.into()]));
    assert_eq!(tag(file, 42113).is_some(), how.no_data.is_some());
    let strips = tag(file, 273).unwrap().into_iter().zip(tag(file, 279).unwrap());
    let predictor = tag(file, 317).map_or(1, |values| values[0]);
    let row = WIDTH * how.pixel_bytes();
    let strip = |(offset, length): (usize, usize)| -> Vec<u8> {
        let data = &file[offset..offset + length];
        if tag(file, 259) == Some(vec![1]) {
            return data.to_vec();
        }
        let mut samples = Vec::new();
        std::io::Read::read_to_end(&mut flate2::read::ZlibDecoder::new(data), &mut samples).unwrap();
        for row in samples.chunks_exact_mut(row) {
            match predictor {
                3 => {
                    (channels..row.len()).for_each(|at| row[at] = row[at].wrapping_add(row[at - channels]));
                    let count = row.len() / bytes;
                    let byte = |at: usize| row[(bytes - 1 - at % bytes) * count + at / bytes];
                    let sorted: Vec<u8> = (0..row.len()).map(byte).collect();
                    row.copy_from_slice(&sorted);
                }
                2 => {
                    for at in (channels * bytes..row.len()).step_by(bytes) {
                        let mut carry = 0;
                        for byte in at..at + bytes {
                            let sum = u16::from(row[byte]) + u16::from(row[byte - channels * bytes]) + carry;
                            (row[byte], carry) = (sum as u8, sum >> 8);
                        }
                    }
                }
                _ => {}
            }
        }
        samples
    };
    strips.flat_map(strip).collect()
}

fn ranged(how: How) -> Target {
    Target { range: how.range.and_then(|(low, high)| Range::new(low, high)), ..TARGET }
}

/// Checks that the output of a picture agrees with the model.
fn check(how: How, picture: &[u8], arrangement: Arrangement) {
    let (written, _) = processed(&tiff(how, picture, arrangement), &GLOBAL, &ranged(how));
    assert!(samples_of(&written, how) == how.equalized(picture), "{how:?} {arrangement:?}");
}

#[test]
fn every_kind_comes_out_as_the_model_says() {
    for how in KINDS.into_iter().flat_map(|kind| [How::new(kind, 1), How::new(kind, 3)]) {
        let picture = picture(how, true);
        for arrangement in [
            PLAIN,
            Arrangement { big_endian: true, rows_a_strip: 10, ..PLAIN },
            Arrangement { planar: how.colours == 3, deflated: true, rows_a_strip: 20, ..PLAIN },
        ] {
            check(how, &picture, arrangement);
        }
    }
}

#[test]
fn what_is_behind_the_colours_comes_back_and_alpha_hides() {
    for (kind, colours) in KINDS.into_iter().flat_map(|kind| [(kind, 1), (kind, 3)]) {
        // Gray with another channel is refused.
        for extra in [0, 2].into_iter().filter(|extra| (colours, *extra) != (1, 0)) {
            let how = How { extra: Some(extra), ..How::new(kind, colours) };
            let mut picture = picture(how, true);
            let bytes = usize::from(kind.1 / 8);
            for pixel in picture.chunks_exact_mut(how.pixel_bytes()).step_by(3) {
                pixel[colours * bytes..].fill(0);
            }
            check(how, &picture, PLAIN);
            let file = tiff(how, &picture, PLAIN);
            let (written, decoded) = processed(&file, &GLOBAL, &TARGET);
            let remarks = decoded.remarks(&TARGET);
            assert_eq!(remarks, if extra == 0 { vec![Remark::ChannelAsItWas] } else { vec![] });
            assert_eq!(decode(&written, &TARGET).unwrap().0.layout, decoded.layout);
        }
    }
}

#[test]
fn premultiplied_alpha_is_divided_out() {
    for kind in [(3, 32), (3, 64), (2, 16)] {
        let straight = How { extra: Some(2), ..How::new(kind, 3) };
        let opaque = if kind.0 == 3 { 1.0 } else { 32_767.0 };
        let (mut colours, mut multiplied) = (Vec::new(), Vec::new());
        for at in 0..WIDTH * HEIGHT {
            // Halves and quarters, to make multiplying and dividing exact.
            let share = [1.0, 0.5, 0.25, 0.0][at % 4];
            let alpha = if kind.0 == 3 { share } else { [32_767.0, 32_767.0, 32_767.0, 0.0][at % 4] };
            let values = [at % 101, at % 67, at % 31].map(|value| 4.0 * value as f64);
            colours.extend(values.map(|value| model::sample(kind, value)).concat());
            let part = if alpha == 0.0 { 1.0 } else { alpha / opaque };
            multiplied.extend(values.map(|value| model::sample(kind, value * part)).concat());
            colours.extend(model::sample(kind, alpha));
            multiplied.extend(model::sample(kind, alpha));
        }
        let file = tiff(How { extra: Some(1), ..straight }, &multiplied, PLAIN);
        let (written, _) = processed(&file, &GLOBAL, &TARGET);
        assert!(samples_of(&written, straight) == straight.equalized(&colours), "{kind:?}");
    }
}

#[test]
fn samples_without_data_stay_and_do_not_count_and_a_range_clamps() {
    for kind in KINDS {
        for colours in [1, 3] {
            let how = How { no_data: Some(7.0), ..How::new(kind, colours) };
            let mut picture = picture(how, true);
            for pixel in picture.chunks_exact_mut(how.pixel_bytes()).step_by(5) {
                pixel[..usize::from(kind.1 / 8)].copy_from_slice(&model::sample(kind, 7.0));
            }
            check(how, &picture, PLAIN);
            let size = if kind.1 == 64 && kind.0 < 3 { 1e13 } else { 100.0 };
            check(How { range: Some((-0.3 * size, 3.5 * size)), ..how }, &picture, PLAIN);
        }
    }
}

#[test]
fn levels_that_stand_for_no_data_stay_and_do_not_count() {
    const NO_DATA: u16 = 7;
    for (kind, depth) in [((1, 8), Depth::Eight), ((1, 16), Depth::Sixteen)] {
        let bytes = depth.bytes();
        let how = How { no_data: Some(NO_DATA.into()), ..How::new(kind, 1) };
        let level = |at: usize| if at.is_multiple_of(5) { NO_DATA } else { 60 + (at % 41) as u16 };
        let levels: Vec<u16> = (0..WIDTH * HEIGHT).map(level).collect();
        let picture: Vec<u8> =
            levels.iter().flat_map(|level| level.to_le_bytes()[..bytes].to_vec()).collect();
        // For the arithmetic, no-data pixels are transparent.
        let mut expected: Vec<u8> = levels
            .iter()
            .flat_map(|&level| [level, if level == NO_DATA { 0 } else { u16::MAX }])
            .flat_map(|sample| sample.to_ne_bytes()[..bytes].to_vec())
            .collect();
        let layout = Layout { width: WIDTH as u32, height: HEIGHT as u32, pixel: Pixel::GrayAlpha, depth };
        equalize(&mut expected, &layout, &GLOBAL, &mut Scratch::default());
        let (written, decoded) = processed(&tiff(how, &picture, PLAIN), &GLOBAL, &TARGET);
        let found = samples_of(&written, how);
        for (at, (found, expected)) in found.chunks(bytes).zip(expected.chunks(2 * bytes)).enumerate() {
            let wanted =
                if levels[at] == NO_DATA { &picture[at * bytes..][..bytes] } else { &expected[..bytes] };
            assert_eq!(found, wanted, "{depth:?} at {at}");
        }
        assert_eq!(decoded.remarks(&TARGET), []);
        // A no-data value that no sample can have excludes no sample.
        let none = How { no_data: Some(-1.0), ..how };
        let (all, _) = decode(&tiff(none, &picture, PLAIN), &TARGET).unwrap();
        assert_eq!((all.layout.pixel, all.is_mapped()), (Pixel::Gray, false));
    }
}

#[test]
fn white_may_be_the_least_value() {
    for kind in KINDS {
        let how = How { inverted: true, ..How::new(kind, 1) };
        let picture = picture(how, false);
        let (written, _) = processed(&tiff(how, &picture, PLAIN), &GLOBAL, &TARGET);
        assert_eq!(tag(&written, 262), Some(vec![0]));
        assert!(samples_of(&written, how) == how.equalized(&picture), "{kind:?}");
    }
}

#[test]
fn a_constant_picture_stays_as_it_is() {
    for kind in KINDS {
        let how = How::new(kind, 1);
        for value in [0.0, 1.0, 100.0, if kind.0 == 1 { 200.0 } else { -100.0 }] {
            let picture = model::sample(kind, value).repeat(WIDTH * HEIGHT);
            check(how, &picture, PLAIN);
            let (written, _) = processed(&tiff(how, &picture, PLAIN), &GLOBAL, &TARGET);
            assert!(samples_of(&written, how) == picture, "{kind:?} {value}");
        }
    }
    let nothing = f32::NAN.to_le_bytes().repeat(WIDTH * HEIGHT);
    let how = How::new((3, 32), 1);
    let (written, decoded) = processed(&tiff(how, &nothing, PLAIN), &GLOBAL, &TARGET);
    assert!(samples_of(&written, how) == nothing);
    assert_eq!(decoded.remarks(&TARGET), [Remark::NoValues]);
}

#[test]
fn a_range_as_wide_as_floats_are_does_no_harm() {
    let how = How::new((3, 64), 1);
    let mut picture = samples(how.kind, WIDTH * HEIGHT, false);
    picture[..8].copy_from_slice(&f64::MAX.to_le_bytes());
    picture[8..16].copy_from_slice(&f64::MIN.to_le_bytes());
    let (written, _) = processed(&tiff(how, &picture, PLAIN), &GLOBAL, &TARGET);
    let found = samples_of(&written, how);
    let value = |at: usize| model::value(how.kind, &found[8 * at..8 * at + 8]);
    assert_eq!([value(0), value(1)], [f64::MAX, f64::MIN]);
    assert!(found.as_chunks::<8>().0.iter().all(|sample| f64::from_le_bytes(*sample).is_finite()));
}

/// The files in `tests/data/samples` that another program wrote, of the same samples, in several
/// ways.
#[test]
fn what_tifffile_writes_in_any_way_is_the_same_picture() {
    let folder = project().join("tests/data/samples");
    let mut compared = 0;
    for kind in ["f2", "f4", "f8", "i2", "i4", "u4"] {
        let open = |name: &str| decode_file(&folder.join(name), &super::LIMITS, &TARGET);
        let (plain, plain_slot) = open(&format!("{kind}-plain.tif")).unwrap();
        for way in ["tiles-predicted", "big-endian-lzw", "planes-deflate"] {
            let (decoded, slot) = open(&format!("{kind}-{way}.tif")).unwrap();
            assert_eq!(decoded.layout, plain.layout, "{kind} {way}");
            let [found, expected] =
                [(&decoded, &slot), (&plain, &plain_slot)].map(|(d, s)| super::pixels(d, s));
            assert!(found == expected, "{kind} {way}");
            compared += 1;
        }
    }
    assert_eq!(compared, 18);
}

#[test]
fn formats_that_have_no_such_samples_get_levels() {
    let how = How::new((3, 32), 1);
    let picture = picture(how, true);
    let file = tiff(how, &picture, PLAIN);
    for (format, eight_bit) in
        [(Format::Png, false), (Format::Pnm, false), (Format::Jpeg, true), (Format::Tiff, true)]
    {
        let target = Target { format: Some(format), eight_bit, ..TARGET };
        let (written, decoded) = processed(&file, &GLOBAL, &target);
        assert!(decoded.remarks(&target).contains(&Remark::NowLevels), "{format}");
        let (again, _) = decode(&written, &TARGET).unwrap();
        let depth = if eight_bit { Depth::Eight } else { Depth::Sixteen };
        assert_eq!(again.layout, equalize::Layout { depth, ..how.layout(53, 47, false) }, "{format}");
        assert_eq!(again.format, format);
    }
    let (written, decoded) = processed(&file, &GLOBAL, &TARGET);
    assert_eq!(decoded.remarks(&TARGET), []);
    assert_eq!(decode(&written, &TARGET).unwrap().0.layout, how.layout(53, 47, true));
}

#[test]
fn gray_of_colours_keeps_what_is_no_number() {
    let how = How::new((3, 32), 3);
    let picture = picture(how, true);
    let target = Target { gray: Some(Gray::Luma), ..TARGET };
    let (written, _) = processed(&tiff(how, &picture, PLAIN), &GLOBAL, &target);
    let gray = samples_of(&written, How::new((3, 32), 1));
    for (pixel, gray) in picture.as_chunks::<4>().0.as_chunks::<3>().0.iter().zip(gray.as_chunks::<4>().0) {
        let none = pixel.iter().find(|sample| !f32::from_le_bytes(**sample).is_finite());
        match none {
            Some(none) => assert_eq!(none, gray),
            None => assert!(f32::from_le_bytes(*gray).is_finite()),
        }
    }
}

#[test]
fn clahe_leaves_what_is_no_number_as_it_is() {
    let how = How::new((3, 32), 1);
    let picture = picture(how, true);
    let clahe = Clahe { clip_limit: ClipLimit::Auto, tiles: Tiles::Grid { x: 4, y: 4 }, noise: 0 };
    let (written, _) = processed(&tiff(how, &picture, PLAIN), &Operation::new(Method::Clahe(clahe)), &TARGET);
    let found = samples_of(&written, how);
    let mut changed = 0;
    for (before, after) in picture.as_chunks::<4>().0.iter().zip(found.as_chunks::<4>().0) {
        let is_number = f32::from_le_bytes(*before).is_finite();
        assert_eq!(f32::from_le_bytes(*after).is_finite(), is_number);
        assert!(is_number || before == after);
        changed += usize::from(before != after);
    }
    assert!(changed > WIDTH * HEIGHT / 2);
}

#[test]
fn a_border_without_values_takes_no_memory_but_too_many_different_ones_are_refused() {
    let how = How::new((3, 32), 1);
    let mut picture = samples(how.kind, WIDTH * HEIGHT, false);
    for row in picture.chunks_exact_mut(4 * WIDTH) {
        row[..80].copy_from_slice(&f32::NAN.to_le_bytes().repeat(20));
    }
    let (decoded, _) = decode(&tiff(how, &picture, PLAIN), &TARGET).unwrap();
    let (whole, _) = decode(&tiff(how, &samples(how.kind, WIDTH * HEIGHT, false), PLAIN), &TARGET).unwrap();
    assert_eq!(whole.layout.pixel, Pixel::Gray);
    assert!(decoded.heap_bytes(&TARGET) <= whole.heap_bytes(&TARGET) + 8);
    for (at, sample) in picture.as_chunks_mut::<4>().0.iter_mut().enumerate() {
        *sample = (0x7fc0_0000 | at as u32).to_le_bytes();
    }
    let why = decode(&tiff(how, &picture, PLAIN), &TARGET).unwrap_err().to_string();
    assert!(why.contains("pixels of different NaN or infinite values is not supported; set them"), "{why}");
}

#[test]
fn a_long_strip_is_not_in_memory_as_a_whole_unless_it_is_compressed() {
    use std::io::Write;
    // One strip of 64 MiB of floats, with only its end in the file.
    let how = How::new((3, 32), 1);
    let mut file = tiff(how, &picture(how, false), PLAIN);
    let at = u32::from_le_bytes(file[4..8].try_into().unwrap()) as usize;
    let mut set = |tag: u16, value: u32| {
        let entry =
            (0..12).map(|i| at + 2 + 12 * i).find(|&at| file[at..at + 2] == tag.to_le_bytes()).unwrap();
        file[entry + 8..entry + 12].copy_from_slice(&value.to_le_bytes());
    };
    for (tag, value) in [(256, 4096), (257, 4096), (278, 4096), (279, 64 << 20)] {
        set(tag, value);
    }
    let mut long = tempfile::tempfile().unwrap();
    long.write_all(&file).unwrap();
    long.set_len(65 << 20).unwrap();
    std::io::Seek::rewind(&mut long).unwrap();
    let (mut buffer, png) = (Vec::new(), Target { format: Some(Format::Png), ..TARGET });
    let opened = codec::open(&mut long, &mut buffer, &super::LIMITS, &png).unwrap();
    assert!(opened.heap_bytes() < 2 << 20, "{}", opened.heap_bytes());
    let mut slot = vec![0; opened.slot_bytes()];
    opened.decode(&mut slot, Vec::new(), &codec::Cores::new(1)).unwrap();
    std::io::Seek::rewind(&mut long).unwrap();
    let opened = codec::open(&mut long, &mut buffer, &super::LIMITS, &TARGET).unwrap();
    assert!(opened.heap_bytes() < 34 << 20, "half of the samples may have to stay: {}", opened.heap_bytes());
}

#[test]
fn what_cannot_be_done_is_refused_by_name() {
    let how = How::new((3, 32), 1);
    let file = |change: &dyn Fn(&mut Vec<u8>, usize)| {
        let mut file = tiff(how, &picture(how, false), PLAIN);
        let at = u32::from_le_bytes(file[4..8].try_into().unwrap()) as usize;
        change(&mut file, at);
        decode(&file, &TARGET).unwrap_err().to_string()
    };
    let set = |tag: u16, value: u16| {
        file(&move |file: &mut Vec<u8>, at: usize| {
            let entry =
                (0..12).map(|i| at + 2 + 12 * i).find(|&at| file[at..at + 2] == tag.to_le_bytes()).unwrap();
            file[entry + 8..entry + 10].copy_from_slice(&value.to_le_bytes());
        })
    };
    for (why, told) in [
        (set(339, 6), "a TIFF of complex samples is not supported; scale it first"),
        (set(258, 24), "a TIFF of floating-point samples of 24 bits is not supported; scale it first"),
        (set(258, 12), "a TIFF of floating-point samples of 12 bits is not supported"),
        (set(258, 128), "a TIFF of 128 bits a sample is not supported"),
        (set(262, 3), "its palette indices are signed, long or floats"),
        (set(259, 7), "a TIFF of 32 bits compressed by JPEG or CCITT"),
    ] {
        assert!(why.contains(told), "{told}: {why}");
    }
}

proptest::proptest! {
    #![proptest_config(proptest::test_runner::Config::with_cases(16))]

    #[test]
    fn the_order_of_samples_is_kept(bits in proptest::collection::vec(proptest::num::u32::ANY, WIDTH * HEIGHT)) {
        let how = How::new((3, 32), 1);
        let picture: Vec<u8> = bits.iter().flat_map(|bits| bits.to_le_bytes()).collect();
        let (written, _) = processed(&tiff(how, &picture, PLAIN), &GLOBAL, &TARGET);
        let found = samples_of(&written, how);
        let values = |bytes: &[u8]| -> Vec<f32> {
            bytes.as_chunks::<4>().0.iter().map(|sample| f32::from_le_bytes(*sample)).collect()
        };
        let mut pairs: Vec<(f32, f32)> = values(&picture).into_iter().zip(values(&found)).collect();
        pairs.retain(|(before, _)| before.is_finite());
        pairs.sort_by(|one, other| one.0.total_cmp(&other.0));
        proptest::prop_assert!(pairs.is_sorted_by(|one, other| one.1 <= other.1));
        proptest::prop_assert_eq!(found, how.equalized(&picture));
    }
}

#[test]
fn what_is_written_is_read_back_alike() {
    for how in KINDS.into_iter().flat_map(|kind| [How::new(kind, 1), How::new(kind, 3)]) {
        let (first, first_slot) = decode(&tiff(how, &picture(how, true), PLAIN), &TARGET).unwrap();
        let written = encode(&first, first_slot.clone(), &TARGET).unwrap();
        let (again, slot) = decode(&written, &TARGET).unwrap();
        assert_eq!(again.layout, first.layout, "{how:?}");
        assert!(are_alike((&first, &first_slot), (&again, &slot)), "{how:?}");
    }
}
