//! CLAHE against its plain definition.
//!
//! The definition has a LUT of all levels for each tile of a padded copy, with floats in OpenCV's
//! order.

use histeqd_equalize::clahe::{Geometry, fill_lut};
use histeqd_equalize::clip::{Clipping, LevelsInUse};
use histeqd_equalize::{
    Clahe, ClipLimit, Colour, Depth, Layout, Levels, Method, Operation, Pixel, Sample, Scratch, Strength,
    Tiles, equalize,
};
use proptest::prelude::*;

/// Index `at` of `length` samples, reflected at both ends without repeating them.
fn reflected(at: usize, length: usize) -> usize {
    let folded = if length == 1 { 0 } else { at % (2 * length - 2) };
    if folded < length { folded } else { 2 * length - 2 - folded }
}

/// The cumulative LUT of a tile.
///
/// Every bin is clipped, every level's share and extra are added to it, and the counts are summed
/// up. The LUT is nearer to the levels themselves where the tile spans few.
fn plain_lut<S: Sample>(mut counts: Vec<u64>, clipping: &Clipping, scale: f32) -> Vec<S> {
    let span = span_of(&counts);
    let first = clipping.spread.start as usize;
    let bins = clipping.spread.len();
    if let Some(most) = clipping.most {
        let excess: u64 = counts.iter().map(|&count| count.saturating_sub(most)).sum();
        counts.iter_mut().for_each(|count| *count = (*count).min(most));
        counts[first..][..bins].iter_mut().for_each(|count| *count += excess / bins as u64);
        let residual = (excess % bins as u64) as usize;
        let step = (bins / residual.max(1)).max(1);
        (0..residual).for_each(|number| counts[first + number * step] += 1);
    }
    let mut running = 0;
    let entry = |count: u64| {
        running += count;
        let level = (running as f32 * scale).round_ties_even();
        S::from_level((level as u32).min(S::LEVELS as u32 - 1))
    };
    let lut: Vec<S> = counts.into_iter().map(entry).collect();
    if clipping.full_span == 0 {
        return lut;
    }
    let strength = Strength::thousandths((1000 * span.min(clipping.full_span) / clipping.full_span) as u16)
        .expect("at most all");
    (0..)
        .zip(lut)
        .map(|(level, entry)| S::from_level(strength.between(level, entry.level() as u32)))
        .collect()
}

/// The number of levels that the middle four fifths of a tile's samples span.
fn span_of(counts: &[u64]) -> u32 {
    let mut samples =
        (0_u32..).zip(counts).flat_map(|(level, &count)| std::iter::repeat_n(level, count as usize));
    let area = counts.iter().sum::<u64>() as usize;
    let first = samples.nth(area / 10).unwrap_or(0);
    let between = (9 * area).div_ceil(10) - area / 10;
    if between < 2 { 0 } else { samples.nth(between - 2).unwrap_or(first) - first }
}

/// The two tiles around a pixel, and the weight of the second.
fn between(at: usize, side: usize, tiles: usize) -> (usize, usize, f32) {
    let centred = at as f32 * (1.0 / side as f32) - 0.5;
    let clamp = |tile: f32| (tile.max(0.0) as usize).min(tiles - 1);
    (clamp(centred.floor()), clamp(centred.floor() + 1.0), centred - centred.floor())
}

/// CLAHE of a plane by its definition.
fn plain_plane<S: Sample>(
    plane: &[S],
    (width, height): (usize, usize),
    clahe: &Clahe,
    strength: Strength,
    levels: usize,
) -> Vec<S> {
    let (columns, rows) = clahe.tiles.grid(width as u32, height as u32);
    let (columns, rows) = (columns as usize, rows as usize);
    let padded = !(width.is_multiple_of(columns) && height.is_multiple_of(rows));
    let [tile_width, tile_height] =
        [(width, columns), (height, rows)].map(|(length, tiles)| length / tiles + usize::from(padded));
    let area = (tile_width * tile_height) as u64;
    let clipping = if clahe.clip_limit.needs_levels(levels) {
        let mut occurs = vec![false; S::LEVELS];
        plane.iter().for_each(|value| occurs[value.level()] = true);
        match Clipping::of_levels(LevelsInUse::new(occurs.into_iter()), area) {
            Some(clipping) => clipping,
            None => return plane.to_vec(),
        }
    } else {
        Clipping::new(clahe.clip_limit, area, levels)
    };
    let clipping = clipping.with_noise(clahe.noise, levels);
    let scale = (levels - 1) as f32 / area as f32;
    // Tiles that no pixel takes values from are not made.
    let mut luts = std::collections::HashMap::new();
    let mut lut_of = |row: usize, column: usize, value: S| {
        let lut = luts.entry((row, column)).or_insert_with(|| {
            let mut counts = vec![0; S::LEVELS];
            for y in row * tile_height..(row + 1) * tile_height {
                for x in column * tile_width..(column + 1) * tile_width {
                    counts[plane[reflected(y, height) * width + reflected(x, width)].level()] += 1;
                }
            }
            plain_lut::<S>(counts, &clipping, scale)
        });
        lut[value.level()].level() as f32
    };
    let mut result = plane.to_vec();
    for (at, value) in result.iter_mut().enumerate() {
        let (left, right, to_right) = between(at % width, tile_width, columns);
        let (above, below, down) = between(at / width, tile_height, rows);
        let old = *value;
        let top = lut_of(above, left, old) * (1.0 - to_right) + lut_of(above, right, old) * to_right;
        let bottom = lut_of(below, left, old) * (1.0 - to_right) + lut_of(below, right, old) * to_right;
        let new = (top * (1.0 - down) + bottom * down).round_ties_even();
        let new = (new as u32).min(levels as u32 - 1);
        *value = S::from_level(strength.between(old.level() as u32, new));
    }
    result
}

/// CLAHE of a picture by its definition, channel by channel.
fn plain<S: Sample>(
    samples: &[S],
    layout: &Layout,
    clahe: &Clahe,
    strength: Strength,
    levels: usize,
) -> Vec<S> {
    let (channels, size) = (layout.pixel.channels(), (layout.width as usize, layout.height as usize));
    let mut result = samples.to_vec();
    for channel in 0..layout.pixel.colour_channels() {
        let plane: Vec<S> = samples.iter().skip(channel).step_by(channels).copied().collect();
        let values = plain_plane(&plane, size, clahe, strength, levels);
        result
            .iter_mut()
            .skip(channel)
            .step_by(channels)
            .zip(values)
            .for_each(|(sample, value)| *sample = value);
    }
    result
}

/// Compares the crate with the definition.
fn assert_plain<S: Sample + std::fmt::Debug>(
    samples: &[S],
    layout: &Layout,
    clahe: Clahe,
    strength: Strength,
    scratch: &mut Scratch,
) {
    let operation =
        Operation { colour: Colour::PerChannel, strength, ..Operation::new(Method::Clahe(clahe)) };
    assert_operation(samples, layout, (clahe, operation), scratch);
}

/// Compares the crate with the definition for an operation, channel by channel.
///
/// The operation is CLAHE with these settings.
fn assert_operation<S: Sample + std::fmt::Debug>(
    samples: &[S],
    layout: &Layout,
    (clahe, operation): (Clahe, Operation),
    scratch: &mut Scratch,
) {
    let mut result = samples.to_vec();
    equalize(bytemuck::cast_slice_mut(&mut result), layout, &operation, scratch);
    let levels = operation.levels.number(layout.depth);
    let expected = plain(samples, layout, &clahe, operation.strength, levels);
    let wrong = result.iter().zip(&expected).position(|(a, b)| a != b);
    assert_eq!(wrong, None, "{layout:?} {operation:?}");
}

/// The distribution of a picture's levels.
#[derive(Clone, Copy, Debug)]
enum Spread {
    /// Any levels.
    All,
    /// `number` levels, from the lowest on, this far apart.
    Steps { lowest: u16, number: u16, apart: u16 },
    /// Twelve bits multiplied to fill sixteen.
    Repeated,
    /// A ramp with a little noise.
    Ramp,
    /// A few of all levels.
    Scattered,
}

impl Spread {
    fn sample(self, at: usize, random: u64) -> u16 {
        match self {
            Self::All => random as u16,
            Self::Steps { lowest, number, apart } => {
                lowest.wrapping_add((random as u16 % number).wrapping_mul(apart))
            }
            Self::Repeated => {
                let bits = random as u16 & 0xfff;
                bits << 4 | bits >> 8
            }
            Self::Ramp => (at as u16).wrapping_mul(3).wrapping_add(random as u16 & 255),
            Self::Scattered => (random as u16 % 23).wrapping_mul(40_503),
        }
    }

    fn samples(self, count: usize, seed: u64) -> Vec<u16> {
        let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let mut next = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state >> 24
        };
        (0..count).map(|at| self.sample(at, next())).collect()
    }
}

fn levels() -> impl Strategy<Value = Spread> {
    prop_oneof![
        Just(Spread::All),
        (any::<u16>(), 1..5000_u16, 1..40_u16).prop_map(|(lowest, number, apart)| Spread::Steps {
            lowest,
            number,
            apart
        }),
        (0..200_u16, 1..5_u16).prop_map(|(lowest, number)| Spread::Steps { lowest, number, apart: 1 }),
        Just(Spread::Repeated),
        Just(Spread::Ramp),
        Just(Spread::Scattered),
    ]
}

fn noise() -> impl Strategy<Value = u8> {
    prop_oneof![2 => Just(0), 3 => 1..=255_u8]
}

fn clip_limit() -> impl Strategy<Value = ClipLimit> {
    prop_oneof![
        Just(ClipLimit::Auto),
        Just(ClipLimit::Times(0.0)),
        (0.1..200.0).prop_map(ClipLimit::Times),
        (1e3..1e6).prop_map(ClipLimit::Times),
    ]
}

/// Sizes and tiles.
///
/// A plain LUT of 16 bits takes long; where tiles are many, the picture is therefore small.
fn tiled() -> impl Strategy<Value = (u32, u32, Tiles)> {
    let grid = |x, y| Tiles::Grid { x, y };
    prop_oneof![
        (1..90_u32, 1..90_u32, 1..9_u32, 1..9_u32).prop_map(move |(width, height, x, y)| (
            width,
            height,
            grid(x, y)
        )),
        (1..10_u32, 1..10_u32, 1..300_u32, 1..300_u32).prop_map(move |(width, height, x, y)| (
            width,
            height,
            grid(x, y)
        )),
        (1..4_u32, 1..600_u32, 1..30_u32, any::<bool>()).prop_map(move |(short, long, tiles, wide)| {
            if wide { (long, short, grid(tiles, 1)) } else { (short, long, grid(2, tiles)) }
        }),
        (1..90_u32, 1..90_u32, 12..70_u32).prop_map(|(width, height, side)| (
            width,
            height,
            Tiles::Pixels(side)
        )),
    ]
}

/// Sizes and tiles for 8 bits, also of many tiles.
fn finely_tiled() -> impl Strategy<Value = (u32, u32, Tiles)> {
    let tiles = prop_oneof![
        (1..300_u32, 1..300_u32).prop_map(|(x, y)| Tiles::Grid { x, y }),
        (1..70_u32).prop_map(Tiles::Pixels),
    ];
    prop_oneof![tiled(), (1..90_u32, 1..90_u32, tiles)]
}

fn pixel() -> impl Strategy<Value = Pixel> {
    prop_oneof![3 => Just(Pixel::Gray), 1 => Just(Pixel::GrayAlpha), 1 => Just(Pixel::Rgb)]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn sixteen_bits_are_as_defined(
        (width, height, tiles) in tiled(),
        levels in levels(),
        clip_limit in clip_limit(),
        pixel in pixel(),
        thousandths in prop_oneof![2 => Just(1000_u16), 1 => 0..1000_u16],
        noise in noise(),
        seed: u64,
    ) {
        let layout = Layout { width, height, pixel, depth: Depth::Sixteen };
        let samples = levels.samples(layout.pixels() as usize * pixel.channels(), seed);
        let strength = Strength::thousandths(thousandths).unwrap_or(Strength::FULL);
        assert_plain(&samples, &layout, Clahe { clip_limit, tiles, noise }, strength, &mut Scratch::default());
    }

    #[test]
    fn eight_bits_are_as_defined(
        (width, height, tiles) in finely_tiled(),
        levels in levels(),
        clip_limit in clip_limit(),
        pixel in pixel(),
        noise in noise(),
        seed: u64,
    ) {
        let layout = Layout { width, height, pixel, depth: Depth::Eight };
        let samples = levels.samples(layout.pixels() as usize * pixel.channels(), seed);
        let samples: Vec<u8> = samples.into_iter().map(|sample| sample as u8).collect();
        assert_plain(&samples, &layout, Clahe { clip_limit, tiles, noise }, Strength::FULL, &mut Scratch::default());
    }

    #[test]
    fn fewer_levels_are_as_defined(
        (width, height, tiles) in tiled(),
        clip_limit in clip_limit(),
        pixel in pixel(),
        number in prop::sample::select(vec![2_u16, 256, 1000, 4096, 65_535]),
        thousandths in prop_oneof![2 => Just(1000_u16), 1 => 0..1000_u16],
        noise in noise(),
        seed: u64,
    ) {
        let layout = Layout { width, height, pixel, depth: Depth::Sixteen };
        let mut samples = Spread::All.samples(layout.pixels() as usize * pixel.channels(), seed);
        samples.iter_mut().for_each(|sample| *sample %= number);
        let clahe = Clahe { clip_limit, tiles, noise };
        let strength = Strength::thousandths(thousandths).unwrap_or(Strength::FULL);
        let operation =
            Operation { colour: Colour::PerChannel, strength, levels: Levels::First(number), ..Operation::new(Method::Clahe(clahe)) };
        assert_operation(&samples, &layout, (clahe, operation), &mut Scratch::default());
        if number > 256 {
            return Ok(());
        }
        // Samples of 8 bits get the same.
        let narrow: Vec<u8> = samples.iter().map(|&sample| sample as u8).collect();
        assert_operation(&narrow, &Layout { depth: Depth::Eight, ..layout }, (clahe, operation), &mut Scratch::default());
        let (mut wide, mut result) = (samples.clone(), narrow);
        equalize(bytemuck::cast_slice_mut(&mut wide), &layout, &operation, &mut Scratch::default());
        equalize(&mut result, &Layout { depth: Depth::Eight, ..layout }, &operation, &mut Scratch::default());
        prop_assert!(wide.iter().zip(&result).all(|(&wide, &narrow)| wide == u16::from(narrow)));
    }

    #[test]
    fn a_lut_is_as_defined(counts in prop::collection::vec(0..3000_u64, 256), limit in clip_limit(), lowest in 0..200_u32, noise in noise()) {
        let area: u64 = counts.iter().sum();
        let scale = 255.0 / area.max(1) as f32;
        let whole = Clipping::new(limit, area, 256).with_noise(noise, 256);
        for clipping in [Clipping { spread: lowest + 1..256, ..whole.clone() }, whole] {
            let mut lut = [0_u8; 256];
            fill_lut(&counts, &clipping, scale, &mut lut);
            prop_assert_eq!(&lut[..], plain_lut::<u8>(counts.clone(), &clipping, scale));
        }
    }
}

#[test]
fn buffers_are_reused_between_pictures_of_every_kind() {
    let mut scratch = Scratch::default();
    let all = [
        Spread::All,
        Spread::Steps { lowest: 1000, number: 4000, apart: 1 },
        Spread::Steps { lowest: 16, number: 300, apart: 16 },
        Spread::Repeated,
        Spread::Scattered,
        Spread::Ramp,
    ];
    for (number, levels) in all.into_iter().cycle().take(24).enumerate() {
        let (width, height) = ([200, 31, 400][number % 3], [150, 97][number % 2]);
        let grid = [1, 2, 3, 8, 11][number % 5];
        let layout = Layout { width, height, pixel: Pixel::Gray, depth: Depth::Sixteen };
        let samples = levels.samples((width * height) as usize, number as u64 + 1);
        for clip_limit in [ClipLimit::Auto, ClipLimit::Times(40.0)] {
            let clahe = Clahe { clip_limit, tiles: Tiles::Grid { x: grid, y: grid }, noise: 0 };
            assert_plain(&samples, &layout, clahe, Strength::FULL, &mut scratch);
        }
    }
}

/// A grid finer than the picture, where almost all tiles would lie in the padding.
#[test]
fn no_more_tiles_are_made_than_pixels_need() {
    let layout = Layout { width: 12, height: 10, pixel: Pixel::Gray, depth: Depth::Sixteen };
    let samples = Spread::All.samples(120, 5);
    let clahe =
        Clahe { clip_limit: ClipLimit::Times(2.0), tiles: Tiles::Grid { x: 1024, y: 65_536 }, noise: 0 };
    assert_plain(&samples, &layout, clahe, Strength::FULL, &mut Scratch::default());
    assert_eq!(Geometry::new(&layout, &clahe).rows, 10);
}

/// The sum of each byte times a power of a constant.
fn digest(bytes: &[u8]) -> u64 {
    let powers = std::iter::successors(Some(0x9e37_79b9_7f4a_7c15_u64), |power| {
        Some(power.wrapping_mul(0x9e37_79b9_7f4a_7c15))
    });
    bytes.iter().zip(powers).fold(0, |sum, (&byte, power)| sum.wrapping_add(power.wrapping_mul(byte.into())))
}

/// The digests are of OpenCV 5.0's results: `COLOR_RGB2LAB`, `createCLAHE` of L, `COLOR_LAB2RGB`.
#[test]
fn clahe_of_the_lightness_has_opencvs_bytes() {
    let layout = Layout { width: 321, height: 243, pixel: Pixel::Rgb, depth: Depth::Eight };
    let samples: Vec<u8> = (0..layout.bytes() as u32)
        .map(|at| {
            let (channel, x, y) = (at % 3, at / 3 % 321, at / 3 / 321);
            let noise = at.wrapping_mul(2_654_435_761) >> 28;
            ((x * (channel + 1) + y * (3 - channel)) / 8 + noise) as u8
        })
        .collect();
    for (limit, x, y, of_opencv) in [(2.0, 8, 8, 0x383c_a468_a9cb_1371), (3.0, 5, 3, 0xce4b_3765_601d_5cf1)] {
        let clahe = Clahe { clip_limit: ClipLimit::Times(limit), tiles: Tiles::Grid { x, y }, noise: 0 };
        let operation = Operation { colour: Colour::Lab, ..Operation::new(Method::Clahe(clahe)) };
        let mut pixels = samples.clone();
        equalize(&mut pixels, &layout, &operation, &mut Scratch::default());
        assert_eq!(digest(&pixels), of_opencv, "{limit}");
    }
}
