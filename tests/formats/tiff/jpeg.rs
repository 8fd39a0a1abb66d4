//! TIFFs with JPEGs as strips or tiles, against the same JPEGs decoded by themselves.

use codec::{CodecError, Format, Target};
use equalize::colour::Gray;

use super::super::{TARGET, decode, encode, pixels};
use super::{Form, HEIGHT, PLAIN, Tags, WIDTH, compressed, decoded, first, tiled};

/// Encodes gray or RGB samples as a JPEG.
fn jpeg(channels: usize, width: usize, samples: &[u8]) -> Vec<u8> {
    let target = Target { format: Some(Format::Jpeg), ..TARGET };
    let kind = if channels == 1 { 5 } else { 6 };
    let header = format!("P{kind} {width} {} 255\n", samples.len() / width / channels);
    let (picture, slot) = decode(&[header.as_bytes(), samples].concat(), &target).unwrap();
    encode(&picture, slot, &target).unwrap()
}

/// Decodes a JPEG by itself, to gray if `gray`.
fn shown(jpeg: &[u8], gray: bool) -> Vec<u8> {
    let gray = gray.then_some(Gray::Luma);
    let target = Target { format: Some(Format::Png), gray, ..TARGET };
    let (picture, slot) = decode(jpeg, &target).unwrap();
    pixels(&picture, &slot).to_vec()
}

/// Interleaved samples with waves in every channel.
fn waves(channels: usize, width: usize, height: usize) -> Vec<u8> {
    let level = |i: usize| {
        let (x, y, channel) = (i / channels % width, i / channels / width, i % channels);
        128.0 + 60.0 * ((x as f32 / 7.0).sin() + (y as f32 / (5.0 + channel as f32)).cos())
    };
    (0..width * height * channels).map(|i| level(i) as u8).collect()
}

/// Splits a JPEG into its segments after SOI, up to and including SOS, and the entropy-coded data
/// with the EOI marker.
fn segments(jpeg: &[u8]) -> (Vec<&[u8]>, &[u8]) {
    let (mut found, mut rest) = (Vec::new(), &jpeg[2..]);
    loop {
        let length = 2 + usize::from(u16::from_be_bytes([rest[2], rest[3]]));
        found.push(&rest[..length]);
        rest = &rest[length..];
        if found.last().unwrap()[1] == 0xda {
            return (found, rest);
        }
    }
}

fn as_jpeg(photometric: u32) -> impl Fn(&mut Tags) {
    move |tags| {
        first(259, |_| 7)(tags);
        first(262, |_| photometric)(tags);
    }
}

#[test]
fn strips_of_jpeg_are_shown_as_the_jpegs_are() {
    const YCBCR: u32 = 6;
    for (channels, photometric) in [(1, 1), (3, YCBCR)] {
        let form = Form { channels, rows_a_strip: 48, ..PLAIN };
        let samples = waves(channels, WIDTH, HEIGHT);
        let strips: Vec<Vec<u8>> =
            samples.chunks(48 * WIDTH * channels).map(|strip| jpeg(channels, WIDTH, strip)).collect();
        let expected: Vec<u8> = strips.iter().flat_map(|strip| shown(strip, false)).collect();
        assert!(decoded(&compressed(form, &strips, as_jpeg(photometric))).unwrap() == expected);
        // The last strip may be as long as the others; its rows beyond the picture are not shown.
        let last = HEIGHT - 20;
        let file = compressed(form, &strips, |tags| {
            as_jpeg(photometric)(tags);
            first(257, |_| last as u32)(tags);
        });
        assert!(decoded(&file).unwrap() == expected[..last * WIDTH * channels]);
    }
}

#[test]
fn components_of_rgb_are_not_converted() {
    let form = Form { channels: 3, ..PLAIN };
    let strip = jpeg(3, WIDTH, &waves(3, WIDTH, HEIGHT));
    let found = decoded(&compressed(form, std::slice::from_ref(&strip), as_jpeg(2))).unwrap();
    assert!(found.into_iter().step_by(3).eq(shown(&strip, true)));
}

#[test]
fn old_style_jpegs_are_ycbcr_even_if_they_say_rgb() {
    let whole = jpeg(3, WIDTH, &waves(3, WIDTH, HEIGHT));
    let file = |change: &dyn Fn(&mut Tags)| {
        compressed(Form { channels: 3, ..PLAIN }, std::slice::from_ref(&whole), |tags| {
            first(259, |_| 6)(tags);
            let start = tags.iter().find(|(tag, _)| *tag == super::OFFSETS).unwrap().1.clone();
            tags.push((513, start));
            change(tags);
        })
    };
    let expected = shown(&whole, false);
    for photometric in [2, 6] {
        assert!(decoded(&file(&first(262, |_| photometric))).unwrap() == expected, "{photometric}");
    }
    // Without photometric interpretation, bits and number of samples.
    let untold = file(&|tags| tags.retain(|(tag, _)| ![258, 262, 277].contains(tag)));
    assert!(decoded(&untold).unwrap() == expected);
}

#[test]
fn jpegs_may_have_tables_in_common() {
    let whole = jpeg(1, WIDTH, &waves(1, WIDTH, HEIGHT));
    let (segments, data) = segments(&whole);
    let (tables, others): (Vec<&[u8]>, Vec<&[u8]>) =
        segments.iter().partition(|segment| matches!(segment[1], 0xc4 | 0xdb));
    let strip = [b"\xff\xd8", &others.concat()[..], data].concat();
    let with = |tables: &[u8]| {
        let tables: Vec<u32> = tables.iter().map(|&byte| byte.into()).collect();
        decoded(&compressed(PLAIN, std::slice::from_ref(&strip), |tags| {
            as_jpeg(1)(tags);
            tags.push((347, tables.clone()));
        }))
    };
    let tables = [b"\xff\xd8", &tables.concat()[..], b"\xff\xd9"].concat();
    assert!(with(&tables).unwrap() == shown(&whole, true));
    assert!(with(&tables[..tables.len() - 2]).unwrap() == shown(&whole, true));
    for damaged in [&tables[..10], &tables[2..], &[]] {
        let error = with(damaged).unwrap_err();
        assert!(matches!(error, CodecError::Malformed { .. }), "{error:?}");
    }
}

#[test]
fn gray_and_alpha_may_be_a_jpeg_of_two_components() {
    let (gray, alpha) = (waves(1, WIDTH, HEIGHT), waves(1, HEIGHT, WIDTH));
    let (gray, alpha) = (jpeg(1, WIDTH, &gray), jpeg(1, WIDTH, &alpha));
    let (of_gray, gray_data) = segments(&gray);
    let (of_alpha, alpha_data) = segments(&alpha);
    let all = |segments: &[&[u8]], kind| {
        segments.iter().filter(|segment| segment[1] == kind).copied().collect::<Vec<_>>().concat()
    };
    let mut frame = all(&of_gray, 0xc0);
    let component = [&[2], &frame[frame.len() - 2..]].concat();
    (frame[3], frame[9]) = (frame[3] + 3, 2);
    frame.extend(component);
    let mut second = all(&of_alpha, 0xda);
    second[5] = 2;
    let strip = [
        b"\xff\xd8",
        &all(&of_gray, 0xdb)[..],
        &frame,
        &all(&of_gray, 0xc4),
        &all(&of_gray, 0xda),
        &gray_data[..gray_data.len() - 2],
        &all(&of_alpha, 0xc4),
        &second,
        alpha_data,
    ];
    let form = Form { channels: 2, ..PLAIN };
    let found = decoded(&compressed(form, &[strip.concat()], as_jpeg(1))).unwrap();
    let (gray, alpha) = (shown(&gray, true), shown(&alpha, true));
    assert!(found.into_iter().eq(gray.into_iter().zip(alpha).flat_map(<[u8; 2]>::from)));
}

#[test]
fn tiles_of_jpeg_lie_where_they_belong() {
    const SIDE: usize = 64;
    let (across, down) = (WIDTH.div_ceil(SIDE), HEIGHT.div_ceil(SIDE));
    let all = waves(1, SIDE * across, SIDE * down);
    let tile = |i: usize| -> Vec<u8> {
        let corner = i / across * SIDE * SIDE * across + i % across * SIDE;
        let row = |y| &all[corner + y * SIDE * across..][..SIDE];
        jpeg(1, SIDE, &(0..SIDE).map(row).collect::<Vec<_>>().concat())
    };
    let tiles: Vec<Vec<u8>> = (0..across * down).map(tile).collect();
    let expected: Vec<Vec<u8>> = tiles.iter().map(|tile| shown(tile, true)).collect();
    let level = |i: usize| {
        let (x, y) = (i % WIDTH, i / WIDTH);
        expected[y / SIDE * across + x / SIDE][y % SIDE * SIDE + x % SIDE]
    };
    let found = decoded(&tiled(7, SIDE, &tiles)).unwrap();
    assert!(found.into_iter().eq((0..WIDTH * HEIGHT).map(level)));
}

#[test]
fn a_jpeg_may_be_wide() {
    let wide = jpeg(1, 17_000, &waves(1, 17_000, 8));
    let file = compressed(PLAIN, std::slice::from_ref(&wide), |tags| {
        as_jpeg(1)(tags);
        first(256, |_| 17_000)(tags);
        first(257, |_| 8)(tags);
    });
    assert!(decoded(&file).unwrap() == shown(&wide, true));
}

#[test]
fn jpegs_that_are_damaged_are_refused() {
    let whole = jpeg(1, WIDTH, &waves(1, WIDTH, HEIGHT));
    let hole = [&whole[..whole.len() / 2], &vec![0; whole.len() / 2]].concat();
    let ended = [&whole[..whole.len() / 2], b"\xff\xd9"].concat();
    let mut damaged = vec![hole, ended, jpeg(1, WIDTH, &waves(1, WIDTH, HEIGHT - 1))];
    damaged.push(jpeg(1, WIDTH + 1, &waves(1, WIDTH + 1, HEIGHT)));
    damaged.push(jpeg(1, WIDTH, &waves(1, WIDTH, 2 * HEIGHT)));
    damaged.push(jpeg(3, WIDTH, &waves(3, WIDTH, HEIGHT)));
    damaged.extend([0, 1, 2, 100, whole.len() / 2, whole.len() - 2].map(|end| whole[..end].to_vec()));
    for (i, strip) in damaged.into_iter().enumerate() {
        let error = decoded(&compressed(PLAIN, &[strip], as_jpeg(1))).unwrap_err();
        assert!(matches!(error, CodecError::Malformed { .. }), "{i}: {error:?}");
    }
    assert!(decoded(&compressed(PLAIN, &[whole], as_jpeg(1))).is_ok());
}
