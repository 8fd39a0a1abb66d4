//! Planes of samples that do not have whole bytes.

use equalize::Depth;

use super::{Form, HEIGHT, PLAIN, TARGET, WIDTH, compressed, decode, deflated, first, in_tiles, pixels};

/// Packs rows of samples of `bits` bits, each row into whole bytes.
fn packed(samples: &[u32], row: usize, bits: usize) -> Vec<u8> {
    let pack = |row: &[u32]| {
        let mut text: String = row.iter().map(|sample| format!("{sample:0bits$b}")).collect();
        while !text.len().is_multiple_of(8) {
            text.push('0');
        }
        text.as_bytes()
            .chunks(8)
            .map(|byte| byte.iter().fold(0, |byte, bit| byte << 1 | (bit - b'0')))
            .collect::<Vec<u8>>()
    };
    samples.chunks(row).flat_map(pack).collect()
}

#[test]
fn planes_of_any_depth_become_pixels() {
    const SIDE: usize = 64;
    for bits in [1, 2, 4, 7, 10, 12, 14] {
        let most = (1_u32 << bits) - 1;
        let sample =
            |plane: usize, at: usize| ((3 * at + plane) as u32).wrapping_mul(2_654_435_761) >> 9 & most;
        let rescaled = |sample: u32| {
            let top = if bits > 8 { 65_535 } else { 255 };
            (2 * u64::from(sample) * top + u64::from(most)) / (2 * u64::from(most))
        };
        let plane = |plane: usize| (0..WIDTH * HEIGHT).map(|at| sample(plane, at)).collect::<Vec<_>>();
        let whole: Vec<Vec<u8>> = (0..3).map(|number| packed(&plane(number), WIDTH, bits)).collect();
        let tiles = (0..3).flat_map(|number| {
            let places = (0..HEIGHT.div_ceil(SIDE))
                .flat_map(|down| (0..WIDTH.div_ceil(SIDE)).map(move |left| (down, left)));
            places.map(move |(down, left)| {
                let at = |i: usize| (left * SIDE + i % SIDE, down * SIDE + i / SIDE);
                let inside = |(x, y): (usize, usize)| x < WIDTH && y < HEIGHT;
                let sample = |i| if inside(at(i)) { sample(number, at(i).1 * WIDTH + at(i).0) } else { 0 };
                deflated(&packed(&(0..SIDE * SIDE).map(sample).collect::<Vec<_>>(), SIDE, bits))
            })
        });
        let form = Form { channels: 3, rows_a_strip: HEIGHT, ..PLAIN };
        let of_planes = move |tags: &mut super::Tags| {
            tags.iter_mut().filter(|(tag, _)| *tag == 258).for_each(|(_, all)| all.fill(bits as u32));
            tags.push((284, vec![2]));
        };
        let stored = compressed(form, &whole, of_planes);
        let in_tiles = compressed(form, &tiles.collect::<Vec<_>>(), |tags| {
            of_planes(tags);
            first(259, |_| 8)(tags);
            in_tiles(SIDE, tags);
        });
        for file in [stored, in_tiles] {
            let (decoded, slot) = decode(&file, &TARGET).unwrap();
            let expected = (0..3 * WIDTH * HEIGHT).map(|at| rescaled(sample(at % 3, at / 3)));
            let found = pixels(&decoded, &slot);
            let is_same = match decoded.layout.depth {
                Depth::Eight => found.iter().map(|&level| u64::from(level)).eq(expected),
                Depth::Sixteen => {
                    let levels = found.as_chunks::<2>().0.iter().map(|pair| u16::from_ne_bytes(*pair));
                    levels.map(u64::from).eq(expected)
                }
            };
            assert!(is_same, "{bits} bits");
        }
    }
}
