//! Brightness and two differences of colour, which several pixels may share.

use equalize::Pixel;

use super::{
    Form, HEIGHT, PLAIN, TARGET, Tags, WIDTH, compressed, decode, decoded, deflated, first, in_tiles, pixels,
};

const SUBSAMPLING: u16 = 530;

fn sample(x: usize, y: usize, kind: u32) -> u8 {
    ((y * 1009 + x) as u32 * 3 + kind).wrapping_mul(2_654_435_761).to_be_bytes()[0]
}

/// Returns the colour of a pixel.
fn rgb(y: u8, cb: u8, cr: u8) -> [f64; 3] {
    let (y, cb, cr) = (f64::from(y), f64::from(cb) - 128.0, f64::from(cr) - 128.0);
    [y + 1.402 * cr, y - 0.344_136_286 * cb - 0.714_136_286 * cr, y + 1.772 * cb]
}

/// Returns the units of the rectangle from a corner on.
fn units(
    (left, top): (usize, usize),
    (width, height): (usize, usize),
    (across, down): (usize, usize),
) -> Vec<u8> {
    let mut bytes = Vec::new();
    for y in (top..top + height).step_by(down) {
        for x in (left..left + width).step_by(across) {
            let of_unit = (0..across * down).map(|i| sample(x + i % across, y + i / across, 0));
            bytes.extend(of_unit.chain([sample(x, y, 1), sample(x, y, 2)]));
        }
    }
    bytes
}

#[test]
fn units_of_any_size_become_rgb_in_strips_and_tiles() {
    const SIDE: usize = 48;
    for (across, down) in [(1, 1), (2, 1), (2, 2), (1, 2), (4, 1), (4, 4)] {
        let form = Form { channels: 3, rows_a_strip: 20, ..PLAIN };
        let ycbcr = |tags: &mut Tags| {
            first(262, |_| 6)(tags);
            tags.push((SUBSAMPLING, vec![across as u32, down as u32]));
        };
        let rows = |top: usize| 20.min(HEIGHT - top);
        let strips: Vec<Vec<u8>> =
            (0..HEIGHT).step_by(20).map(|top| units((0, top), (WIDTH, rows(top)), (across, down))).collect();
        let places =
            (0..HEIGHT).step_by(SIDE).flat_map(|top| (0..WIDTH).step_by(SIDE).map(move |left| (left, top)));
        let tiles: Vec<Vec<u8>> =
            places.map(|corner| deflated(&units(corner, (SIDE, SIDE), (across, down)))).collect();
        let in_tiles = compressed(form, &tiles, |tags| {
            ycbcr(tags);
            first(259, |_| 8)(tags);
            in_tiles(SIDE, tags);
        });
        for file in [compressed(form, &strips, ycbcr), in_tiles] {
            let (decoded, slot) = decode(&file, &TARGET).unwrap();
            assert_eq!(decoded.layout.pixel, Pixel::Rgb);
            for (at, found) in pixels(&decoded, &slot).as_chunks::<3>().0.iter().enumerate() {
                let (x, y) = (at % WIDTH, at / WIDTH);
                let of_unit = |kind| sample(x / across * across, y / down * down, kind);
                let expected = rgb(sample(x, y, 0), of_unit(1), of_unit(2));
                for (found, expected) in found.iter().zip(expected) {
                    let difference = f64::from(*found) - expected.clamp(0.0, 255.0);
                    assert!(difference.abs() < 0.51, "{across}x{down} at {x}, {y}: {difference}");
                }
            }
        }
    }
}

#[test]
fn what_makes_no_sense_is_refused() {
    let form = Form { channels: 3, ..PLAIN };
    let changes: [(super::Change, &str); 3] = [
        (Box::new(|tags| tags.push((SUBSAMPLING, vec![3, 1]))), "subsampling is not 1, 2 or 4"),
        (Box::new(|tags| tags.push((284, vec![2]))), "it has too few strips or tiles"),
        (Box::new(first(super::LENGTHS, |_| 1000)), "a strip or tile is shorter than its rows"),
    ];
    for (change, told) in changes {
        let file = form.file(&form.samples(), |tags| {
            first(262, |_| 6)(tags);
            change(tags);
        });
        let why = decoded(&file).unwrap_err().to_string();
        assert!(why.contains(told), "{told}: {why}");
    }
}
