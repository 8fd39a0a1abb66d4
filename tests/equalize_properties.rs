//! Properties that equalization must have for every picture.

use equalize::clahe::Geometry;
use equalize::colour::{Gray, Plane, to_gray};
use equalize::histogram::{Counted, of_plane};
use equalize::{
    Clahe, ClipLimit, Colour, Depth, Layout, Levels, Method, Operation, Pixel, Plateau, Sample, Scratch,
    Strength, Stretch, Tiles, apply, equalize, equalize_gray8, equalize_like, lut,
};
use proptest::prelude::*;

const GLOBAL: Operation = Operation::new(Method::Global);
const CLAHE: Operation = Operation {
    method: Method::Clahe(Clahe {
        clip_limit: ClipLimit::Times(2.0),
        tiles: Tiles::Grid { x: 3, y: 2 },
        noise: 0,
    }),
    colour: Colour::Luma,
    exposure: None,
    strength: Strength::FULL,
    levels: Levels::All,
};

fn equalized<S: Sample>(samples: &[S], layout: Layout, operation: Operation) -> Vec<S> {
    let mut result = samples.to_vec();
    equalize(bytemuck::cast_slice_mut(&mut result), &layout, &operation, &mut Scratch::default());
    result
}

fn row(pixels: usize, pixel: Pixel, depth: Depth) -> Layout {
    Layout { width: pixels as u32, height: 1, pixel, depth }
}

/// Samples that crowd into part of the range, as real ones do.
fn crowded() -> impl Strategy<Value = Vec<u8>> {
    (0..200_u8, 1..=56_u8).prop_flat_map(|(low, span)| prop::collection::vec(low..low + span, 1..3000))
}

/// Returns one channel of interleaved samples.
fn channel<S: Sample>(samples: &[S], channels: usize, number: usize) -> Vec<S> {
    samples.iter().skip(number).step_by(channels).copied().collect()
}

/// Colours of every kind: any, dark, gray, almost gray, at the ends of the range. The fourth sample
/// is alpha, at times 0.
fn colours() -> impl Strategy<Value = [u16; 4]> {
    let ends = prop::sample::select(vec![0, 1, 255, 256, 32_767, 65_279, 65_280, 65_535]);
    let alpha = prop::sample::select(vec![0, 256, 65_535]);
    prop_oneof![
        any::<[u16; 4]>(),
        (any::<[u16; 3]>(), alpha.clone()).prop_map(|([r, g, b], a)| [r >> 5, g >> 6, b >> 4, a]),
        (any::<u16>(), alpha.clone()).prop_map(|(v, a)| [v, v, v, a]),
        (any::<u16>(), 0..600_u16, alpha.clone()).prop_map(|(v, by, a)| [v, v.saturating_add(by), v, a]),
        (prop::array::uniform3(ends), alpha).prop_map(|([r, g, b], a)| [r, g, b, a]),
    ]
}

fn any_method() -> impl Strategy<Value = Method> {
    prop_oneof![
        Just(Method::Global),
        (1..400_000_u32).prop_map(|share| Method::Plateau(Plateau { share })),
        Just(CLAHE.method),
        (0..200_000_u32, 0..200_000_u32).prop_map(|(low, high)| Method::Stretch(Stretch { low, high })),
    ]
}

/// Compares an operation that keeps the hue of pixels with its definition, given the result of the
/// same operation on their luma as a gray picture.
fn kept_hue(pixels: &[[u16; 4]], with_alpha: bool, depth: Depth, operation: Operation) -> Result<(), String> {
    let (pixel, gray) = if with_alpha { (Pixel::Rgba, Pixel::GrayAlpha) } else { (Pixel::Rgb, Pixel::Gray) };
    let channels = pixel.channels();
    let samples: Vec<u16> = pixels.iter().flat_map(|pixel| &pixel[..channels]).copied().collect();
    let luma = |[r, g, b, _]: [u16; 4]| {
        ((19595 * u64::from(r) + 38470 * u64::from(g) + 7471 * u64::from(b) + 32768) >> 16) as u16
    };
    let lumas: Vec<u16> =
        pixels.iter().flat_map(|&pixel| [luma(pixel), pixel[3]].into_iter().take(gray.channels())).collect();
    let [found, new_lumas] = [(samples, pixel), (lumas, gray)].map(|(samples, pixel)| {
        let layout = row(pixels.len(), pixel, depth);
        match depth {
            Depth::Sixteen => equalized(&samples, layout, operation),
            Depth::Eight => {
                let bytes: Vec<u8> = samples.iter().map(|&sample| sample as u8).collect();
                equalized(&bytes, layout, operation).into_iter().map(u16::from).collect()
            }
        }
    });
    let highest = operation.levels.number(depth) as i128 - 1;
    for ((before, after), to) in
        pixels.iter().zip(found.chunks(channels)).zip(new_lumas.chunks(gray.channels()))
    {
        let expected = hue_by_definition(before.map(i128::from), luma(*before).into(), to[0].into(), highest);
        let with_alpha = [&expected[..], &[i128::from(before[3])]].concat();
        if after.iter().map(|&sample| i128::from(sample)).ne(with_alpha[..channels].iter().copied()) {
            return Err(format!("{before:?} with luma {} is {after:?}, not {expected:?}", to[0]));
        }
    }
    Ok(())
}

/// The definition in fractions: the difference of a channel from the exact luma `s / 65536` is
/// scaled by the least of `k / luma`, the same with an offset of 4 levels of 256 added to both, the
/// factor at which the greatest channel reaches the highest level, and 4.
fn hue_by_definition([r, g, b, _]: [i128; 4], from: i128, k: i128, highest: i128) -> [i128; 3] {
    if from == k {
        return [r, g, b];
    }
    let s = 19595 * r + 38470 * g + 7471 * b;
    let room = 65536 * r.max(g).max(b) - s;
    // Numerators and denominators of factors.
    let offset = (4 * highest / 255).max(1);
    let with_offset = (65536 * (k + offset), s + 65536 * offset);
    let factors = [(4, 1), (65536 * k, s), with_offset, (65536 * (highest - k), room)];
    let smaller = |one: (i128, i128), other: (i128, i128)| {
        if other.1 > 0 && other.0 * one.1 < one.0 * other.1 { other } else { one }
    };
    let (n, d) = factors.into_iter().reduce(smaller).unwrap();
    let kept = [r, g, b].map(|c| k + (2 * (65536 * c - s) * n + 65536 * d).div_euclid(2 * 65536 * d));
    assert!(kept.iter().all(|channel| (0..=highest).contains(channel)), "{kept:?} clips");
    let luma = 19595 * kept[0] + 38470 * kept[1] + 7471 * kept[2];
    assert!((luma - 65536 * k).abs() <= 32768, "{kept:?} is not of luma {k}");
    assert!(r != g || g != b || kept == [k; 3], "gray becomes {kept:?}");
    kept
}

proptest! {
    #[test]
    fn order_is_kept_and_the_range_is_filled(samples in crowded()) {
        let result = equalized(&samples, row(samples.len(), Pixel::Gray, Depth::Eight), GLOBAL);
        let mut pairs: Vec<_> = samples.iter().zip(&result).collect();
        pairs.sort();
        prop_assert!(pairs.is_sorted_by_key(|&(_, after)| after));
        let (darkest, brightest) = (pairs[0], pairs[pairs.len() - 1]);
        if darkest.0 == brightest.0 {
            prop_assert_eq!(samples, result);
        } else {
            prop_assert_eq!((*darkest.1, *brightest.1), (0, 255));
        }
    }

    #[test]
    fn a_second_time_changes_one_level_at_most(mut samples in crowded()) {
        equalize_gray8(&mut samples);
        let once = samples.clone();
        equalize_gray8(&mut samples);
        prop_assert!(once.iter().zip(&samples).all(|(once, twice)| once.abs_diff(*twice) <= 1));
    }

    #[test]
    fn permuted_pixels_give_a_permuted_result(
        pixels in prop::collection::vec(any::<[u16; 3]>(), 1..300).prop_flat_map(|pixels| {
            let order: Vec<_> = (0..pixels.len()).collect();
            (Just(pixels), Just(order).prop_shuffle())
        }),
    ) {
        let (pixels, order) = pixels;
        let layout = row(pixels.len(), Pixel::Rgb, Depth::Sixteen);
        let permuted: Vec<_> = order.iter().map(|&at| pixels[at]).collect();
        let expected = equalized(pixels.as_flattened(), layout, GLOBAL);
        let result = equalized(permuted.as_flattened(), layout, GLOBAL);
        for (pixel, &at) in result.chunks(3).zip(&order) {
            prop_assert_eq!(pixel, &expected[at * 3..][..3]);
        }
    }

    #[test]
    fn gray_in_colour_is_equalized_as_gray(samples in crowded(), adaptive: bool) {
        let operation = if adaptive { CLAHE } else { GLOBAL };
        let gray = equalized(&samples, row(samples.len(), Pixel::Gray, Depth::Eight), operation);
        let colour: Vec<_> = samples.iter().flat_map(|&v| [v; 3]).collect();
        let mut result = equalized(&colour, row(samples.len(), Pixel::Rgb, Depth::Eight), operation);
        for number in 0..3 {
            prop_assert_eq!(&channel(&result, 3, number), &gray);
        }
        let layout = to_gray(&mut result, &row(samples.len(), Pixel::Rgb, Depth::Eight), Gray::Luma);
        prop_assert_eq!(&result[..layout.bytes() as usize], gray);
    }

    #[test]
    fn hue_is_kept_as_defined(
        mut pixels in prop::collection::vec(colours(), 4..200), method in any_method(), strength in 0..=1000_u16,
        wide: bool, with_alpha: bool, number in prop::sample::select(vec![0, 2, 100, 256, 4096]),
    ) {
        let depth = if wide { Depth::Sixteen } else { Depth::Eight };
        let levels = if number == 0 { Levels::All } else { Levels::first(number, depth) };
        let shift = if wide { 0 } else { 8 };
        let highest = levels.number(depth) as u32 - 1;
        for sample in pixels.as_flattened_mut() {
            *sample = ((u32::from(*sample) >> shift) * (highest + 1) / depth.levels() as u32) as u16;
        }
        let strength = Strength::thousandths(strength).unwrap();
        let operation = Operation { colour: Colour::Hue, strength, levels, ..Operation::new(method) };
        prop_assert_eq!(kept_hue(&pixels, with_alpha, depth, operation), Ok(()));
    }

    #[test]
    fn channels_by_themselves_are_gray_pictures(pixels in prop::collection::vec(any::<[u8; 3]>(), 1..300), adaptive: bool) {
        let method = if adaptive { CLAHE.method } else { Method::Global };
        let per_channel = Operation { colour: Colour::PerChannel, ..Operation::new(method) };
        let samples = pixels.as_flattened();
        let result = equalized(samples, row(pixels.len(), Pixel::Rgb, Depth::Eight), per_channel);
        for number in 0..3 {
            let gray = channel(samples, 3, number);
            let expected = equalized(&gray, row(gray.len(), Pixel::Gray, Depth::Eight), per_channel);
            prop_assert_eq!(channel(&result, 3, number), expected);
        }
    }

    #[test]
    fn what_cannot_be_seen_does_not_count(pixels in prop::collection::vec(any::<[u8; 4]>(), 1..300)) {
        let blank = |colour: [u8; 3]| -> Vec<u8> {
            let seen = |&[r, g, b, alpha]: &[u8; 4]| {
                // Every other pixel is made transparent.
                if alpha % 2 == 0 { [colour[0], colour[1], colour[2], 0] } else { [r, g, b, alpha] }
            };
            pixels.iter().flat_map(seen).collect()
        };
        let layout = row(pixels.len(), Pixel::Rgba, Depth::Eight);
        let (black, other) = (equalized(&blank([0; 3]), layout, GLOBAL), equalized(&blank([9, 80, 200]), layout, GLOBAL));
        for ((a, b), pixel) in black.chunks(4).zip(other.chunks(4)).zip(&pixels) {
            prop_assert!(a == b || pixel[3] % 2 == 0);
        }
        prop_assert_eq!(channel(&black, 4, 3), channel(&blank([0; 3]), 4, 3));
    }

    #[test]
    fn strength_is_the_share_of_the_way(
        pixels in prop::collection::vec(any::<[u16; 3]>(), 1..300),
        strength in 0..=1000_u16, adaptive: bool, automatic: bool,
    ) {
        let mut method = if adaptive { CLAHE.method } else { Method::Global };
        if let (true, Method::Clahe(clahe)) = (automatic, &mut method) {
            clahe.clip_limit = ClipLimit::Auto;
        }
        let full = Operation { colour: Colour::PerChannel, ..Operation::new(method) };
        let some = Operation { strength: Strength::thousandths(strength).unwrap(), ..full };
        let (samples, layout) = (pixels.as_flattened(), row(pixels.len(), Pixel::Rgb, Depth::Sixteen));
        let far = equalized(samples, layout, full);
        for ((old, new), found) in samples.iter().zip(far).zip(equalized(samples, layout, some)) {
            let (old, new) = (i64::from(*old), i64::from(new));
            let expected = old + ((new - old) * i64::from(strength) + 500).div_euclid(1000);
            prop_assert_eq!(i64::from(found), expected);
        }
    }

    #[test]
    fn the_luma_takes_the_share_and_the_colours_follow(
        pixels in prop::collection::vec(any::<[u8; 3]>(), 1..300), strength in 0..=1000_u16, adaptive: bool,
    ) {
        let strength = Strength::thousandths(strength).unwrap();
        let operation = Operation { strength, ..if adaptive { CLAHE } else { GLOBAL } };
        let layout = row(pixels.len(), Pixel::Rgb, Depth::Eight);
        let mut luma = pixels.as_flattened().to_vec();
        let gray = to_gray(&mut luma, &layout, Gray::Luma);
        luma.truncate(gray.bytes() as usize);
        let new_luma = equalized(&luma, gray, operation);
        let result = equalized(pixels.as_flattened(), layout, operation);
        for ((before, after), (old, new)) in pixels.iter().zip(result.chunks(3)).zip(luma.iter().zip(new_luma)) {
            for (before, after) in before.iter().zip(after) {
                let moved = i32::from(*before) + i32::from(new) - i32::from(*old);
                prop_assert_eq!(i32::from(*after), moved.clamp(0, 255));
            }
        }
    }

    #[test]
    fn no_strength_changes_nothing(pixels in prop::collection::vec(any::<[u8; 4]>(), 1..300), adaptive: bool) {
        let strength = Strength::thousandths(0).unwrap();
        let operation = Operation { strength, ..if adaptive { CLAHE } else { GLOBAL } };
        let samples = pixels.as_flattened();
        prop_assert_eq!(equalized(samples, row(pixels.len(), Pixel::Rgba, Depth::Eight), operation), samples);
    }

    #[test]
    fn the_automatic_clip_limit_is_two_at_8_bit(samples in crowded(), width in 1..40_u32) {
        let height = (samples.len() as u32 / width).max(1);
        let width = samples.len() as u32 / height;
        let layout = Layout { width, height, pixel: Pixel::Gray, depth: Depth::Eight };
        let Method::Clahe(two) = CLAHE.method else { unreachable!() };
        let auto = Operation::new(Method::Clahe(Clahe { clip_limit: ClipLimit::Auto, ..two }));
        let samples = &samples[..layout.bytes() as usize];
        prop_assert_eq!(equalized(samples, layout, auto), equalized(samples, layout, CLAHE));
    }

    /// Levels that do not occur do not count, wherever they are.
    #[test]
    fn the_automatic_clip_limit_leads_from_the_lowest_level_to_the_highest(
        samples in prop::collection::vec(0..4096_u16, 2..3000), scale in 1..=16_u16, offset in 0..15_u16,
    ) {
        let samples: Vec<_> = samples.into_iter().map(|level| level * scale + offset).collect();
        let tiles = Tiles::Grid { x: 1, y: 1 };
        let auto = Operation::new(Method::Clahe(Clahe { clip_limit: ClipLimit::Auto, tiles, noise: 0 }));
        let result = equalized(&samples, row(samples.len(), Pixel::Gray, Depth::Sixteen), auto);
        let mut pairs: Vec<_> = samples.iter().zip(&result).collect();
        pairs.sort();
        prop_assert!(pairs.is_sorted_by_key(|&(_, after)| after));
        let (lowest, highest) = (pairs[0], pairs[pairs.len() - 1]);
        if lowest.0 == highest.0 {
            prop_assert_eq!(samples, result);
        } else {
            prop_assert_eq!(*highest.1, 65_535);
            // At most the limit of 256 levels: twice one of them.
            let most = (2 * samples.len() / 256).max(1) as f64 / samples.len() as f64 * 65_535.0;
            prop_assert!(f64::from(*lowest.1) <= most + 1.0);
        }
    }

    #[test]
    fn tiles_by_pixels_are_tiles_by_count(
        width in 1..100_u32, height in 1..60_u32, side in 1..40_u32, clip_limit in 0.0..5.0,
    ) {
        let samples: Vec<u8> = (0..width * height).map(|at| (at * at / 7) as u8).collect();
        let layout = Layout { width, height, pixel: Pixel::Gray, depth: Depth::Eight };
        let clahe = |tiles| Operation::new(Method::Clahe(Clahe { clip_limit: ClipLimit::Times(clip_limit), tiles, noise: 0 }));
        let (x, y) = Tiles::Pixels(side).grid(width, height);
        prop_assert_eq!(
            equalized(&samples, layout, clahe(Tiles::Pixels(side))),
            equalized(&samples, layout, clahe(Tiles::Grid { x, y }))
        );
    }
}

#[test]
fn tiles_by_pixels_are_as_near_as_whole_numbers_allow() {
    assert_eq!(Tiles::Pixels(32).grid(100, 33), (3, 1));
    assert_eq!(Tiles::Pixels(32).grid(4096, 48), (128, 2));
    assert_eq!(Tiles::Pixels(32).grid(1, 15), (1, 1));
    assert_eq!(Tiles::Pixels(0).grid(5, 6), (5, 6));
    assert_eq!(Tiles::Grid { x: 0, y: 7 }.grid(100, 3), (1, 7));
}

#[test]
fn a_constant_picture_is_unchanged() {
    for pixel in [Pixel::Gray, Pixel::GrayAlpha, Pixel::Rgb, Pixel::Rgba] {
        for colour in [Colour::Luma, Colour::Hue, Colour::PerChannel, Colour::Linked] {
            let operation = Operation { colour, ..Operation::new(Method::Global) };
            let one: [u16; 4] =
                if colour == Colour::Linked { [40, 40, 40, 65535] } else { [40, 5000, 300, 65535] };
            let samples = one[..pixel.channels()].repeat(50);
            assert_eq!(equalized(&samples, row(50, pixel, Depth::Sixteen), operation), samples);
            let one: [u8; 4] = if colour == Colour::Linked { [40, 40, 40, 0] } else { [40, 50, 60, 0] };
            let samples = one[..pixel.channels()].repeat(50);
            assert_eq!(equalized(&samples, row(50, pixel, Depth::Eight), operation), samples);
        }
    }
}

/// Scratch buffers may have served any other picture before.
#[test]
fn scratch_carries_nothing_over() {
    let mut scratch = Scratch::default();
    let noise: Vec<u16> = (0..40_000_u32).map(|at| (at.wrapping_mul(at) >> 3) as u16).collect();
    let pictures =
        [(200, 50, Pixel::Rgba), (3, 5, Pixel::Gray), (64, 64, Pixel::GrayAlpha), (7, 1, Pixel::Rgb)];
    for depth in [Depth::Eight, Depth::Sixteen] {
        for (width, height, pixel) in pictures {
            for operation in [
                CLAHE,
                GLOBAL,
                Operation { colour: Colour::Hue, ..CLAHE },
                Operation { colour: Colour::PerChannel, ..CLAHE },
            ] {
                let layout = Layout { width, height, pixel, depth };
                let mut reused = noise.clone();
                let mut fresh = noise.clone();
                let bytes = layout.bytes() as usize;
                equalize(
                    &mut bytemuck::cast_slice_mut(&mut reused)[..bytes],
                    &layout,
                    &operation,
                    &mut scratch,
                );
                let fresh_bytes = &mut bytemuck::cast_slice_mut(&mut fresh)[..bytes];
                equalize(fresh_bytes, &layout, &operation, &mut Scratch::default());
                assert_eq!(reused, fresh, "{layout:?} {operation:?}");
            }
        }
    }
}

/// Counts times levels exceed 2³¹ from 8.42 megapixels on, where an implementation in 32-bit
/// integers breaks.
#[test]
fn sixteen_megapixels_overflow_nothing() {
    let mut samples: Vec<u8> = (0..16_777_216_u32).map(|at| (((at >> 8) * (at >> 16)) >> 16) as u8).collect();
    let layout = Layout { width: 4096, height: 4096, pixel: Pixel::Gray, depth: Depth::Eight };
    let counts = of_plane(&samples, &layout, Plane::Channel(0), Counted::All);
    assert_eq!(counts.iter().sum::<u64>(), layout.pixels());
    let before = samples.clone();
    equalize_gray8(&mut samples);
    let expected = wide_lut(&counts);
    assert!(
        before
            .iter()
            .zip(&samples)
            .all(|(&before, &after)| u128::from(after) == expected[usize::from(before)])
    );
}

/// Computes the LUT by the same formula, in 128-bit integers.
fn wide_lut(counts: &[u64]) -> Vec<u128> {
    let darkest = counts.iter().position(|&n| n > 0).unwrap();
    let above = u128::from(counts[darkest + 1..].iter().sum::<u64>());
    let top = counts.len() as u128 - 1;
    let sums = running(counts);
    let above_darkest = |sum: i128| (sum - sums[darkest]).max(0) as u128;
    sums.iter().map(|&sum| (2 * above_darkest(sum) * top + above) / (2 * above)).collect()
}

/// Returns the sums of the counts up to each level.
fn running(counts: &[u64]) -> Vec<i128> {
    let add = |sum: &mut i128, &count: &u64| {
        *sum += i128::from(count);
        Some(*sum)
    };
    counts.iter().scan(0, add).collect()
}

/// Computes the LUT of a stretch by its definition, in 128-bit integers.
fn stretched(counts: &[u64], Stretch { low, high }: Stretch) -> Vec<i128> {
    let (sums, levels) = (running(counts), counts.len());
    let (all, top) = (sums[levels - 1], levels as i128 - 1);
    let least = (0..levels).find(|&a| sums[a] * 1_000_000 > all * i128::from(low));
    let below = |b: usize| if b == 0 { 0 } else { sums[b - 1] };
    let greatest = (0..levels).rfind(|&b| (all - below(b)) * 1_000_000 > all * i128::from(high));
    match (least, greatest) {
        (Some(a), Some(b)) if a < b => {
            let (a, b) = (a as i128, b as i128);
            let of = |level: i128| (2 * (level - a) * top + (b - a)).div_euclid(2 * (b - a)).clamp(0, top);
            (0..=top).map(of).collect()
        }
        _ => (0..=top).collect(),
    }
}

/// Computes the LUT of histogram specification by its definition, in 128-bit integers.
fn matched(counts: &[u64], reference: &[u64]) -> Vec<i128> {
    let (sums, sought) = (running(counts), running(reference));
    let first = counts.iter().position(|&count| count > 0).unwrap();
    let (all, of_reference) = (sums[sums.len() - 1], sought[sought.len() - 1]);
    let of = |level: usize| {
        let up_to = sums[level.max(first)];
        sought.partition_point(|reached| reached * all < up_to * of_reference) as i128
    };
    (0..counts.len()).map(of).collect()
}

/// Counts of 256 levels, most of which are 0.
fn sparse_counts() -> impl Strategy<Value = Vec<u64>> {
    prop::collection::vec((0..256_usize, 1..1_u64 << 40), 1..20).prop_map(|occurring| {
        let mut counts = vec![0; 256];
        occurring.into_iter().for_each(|(level, count)| counts[level] += count);
        counts
    })
}

/// Methods that have one LUT for a whole plane.
fn by_lut() -> impl Strategy<Value = Method> {
    let stretch =
        (0..400_000_u32, 0..400_000_u32).prop_map(|(low, high)| Method::Stretch(Stretch { low, high }));
    let plateau = (1..400_000_u32).prop_map(|share| Method::Plateau(Plateau { share }));
    prop_oneof![Just(Method::Global), plateau, Just(Method::Match), stretch]
}

proptest! {
    #[test]
    fn a_stretch_is_as_defined(counts in sparse_counts(), low in 0..1_000_000_u32, high in 0..1_000_000_u32) {
        for stretch in [Stretch { low, high }, Stretch { low: low / 100, high: high / 100 }] {
            let mut lut = [7_u8; 256];
            lut::Rule::Stretch(stretch).fill(&counts, &mut lut);
            prop_assert_eq!(lut.map(i128::from).to_vec(), stretched(&counts, stretch));
        }
    }

    #[test]
    fn a_plateau_is_global_equalization_of_cut_counts(counts in sparse_counts(), share in 1..=1_000_000_u32) {
        let total: u128 = counts.iter().map(|&count| u128::from(count)).sum();
        let most = (total * u128::from(share) / 1_000_000).max(1) as u64;
        let cut: Vec<u64> = counts.iter().map(|&count| count.min(most)).collect();
        let expected = match cut.iter().filter(|&&count| count > 0).count() {
            0 | 1 => (0..256).collect(),
            _ => wide_lut(&cut),
        };
        let mut lut = [7_u8; 256];
        lut::Rule::Plateau(Plateau { share }).fill(&counts, &mut lut);
        prop_assert_eq!(lut.map(u128::from).to_vec(), expected);
    }

    #[test]
    fn linked_colours_go_through_one_table_of_all_their_samples(
        pixels in prop::collection::vec(colours(), 1..300), method in by_lut(), with_alpha: bool,
    ) {
        let visible = |pixel: &&[u16; 4]| !with_alpha || pixel[3] > 0;
        let channels = if with_alpha { 4 } else { 3 };
        let samples: Vec<u16> = pixels.iter().flat_map(|pixel| &pixel[..channels]).copied().collect();
        let seen: Vec<u16> = pixels.iter().filter(visible).flat_map(|pixel| &pixel[..3]).copied().collect();
        let reference: Vec<u64> = (0..65_536_u64).map(|at| ((at * 40_503) >> 3) % 5).collect();
        let operation = Operation { colour: Colour::Linked, ..Operation::new(method) };
        let layout = row(pixels.len(), if with_alpha { Pixel::Rgba } else { Pixel::Rgb }, Depth::Sixteen);
        let reference = &reference[..operation.reference_length(&layout)];
        let mut found = samples.clone();
        equalize_like(bytemuck::cast_slice_mut(&mut found), &layout, &operation, reference, &mut Scratch::default());
        // As gray, the samples that count get the table of their own counts.
        let mut counts = vec![0_u64; 65_536];
        seen.iter().for_each(|&sample| counts[usize::from(sample)] += 1);
        let mut lut = vec![0_u16; 65_536];
        method.rule(reference).unwrap().fill(&counts, &mut lut);
        for (before, after) in samples.chunks(channels).zip(found.chunks(channels)) {
            let expected = before[..3].iter().map(|&sample| lut[usize::from(sample)]).chain(before[3..].iter().copied());
            prop_assert!(after.iter().copied().eq(expected));
        }
    }

    #[test]
    fn specification_is_as_defined(counts in sparse_counts(), reference in sparse_counts()) {
        let mut lut = [7_u8; 256];
        lut::Rule::Match(&reference).fill(&counts, &mut lut);
        prop_assert_eq!(lut.map(i128::from).to_vec(), matched(&counts, &reference));
    }

    #[test]
    fn luts_made_of_the_counts_of_a_picture_make_of_it_what_the_method_does(
        samples in prop::collection::vec(any::<u16>(), 12..400), method in by_lut(), strength in 0..=1000_u16,
        colour in prop::sample::select(vec![Colour::Luma, Colour::Hue, Colour::PerChannel, Colour::Linked]),
        pixel in prop::sample::select(vec![Pixel::Gray, Pixel::GrayAlpha, Pixel::Rgb, Pixel::Rgba]),
    ) {
        let strength = Strength::thousandths(strength).unwrap();
        let operation = Operation { colour, strength, ..Operation::new(method) };
        for depth in [Depth::Eight, Depth::Sixteen] {
            let pixels = samples.len() / 4;
            let layout = row(pixels, pixel, depth);
            let bytes = layout.bytes() as usize;
            let planes = operation.to_equalize(pixel);
            let reference: Vec<u64> =
                (0..operation.reference_length(&layout) as u64).map(|at| ((at * 40_503) >> 3) % 5).collect();
            let (mut by_method, mut by_luts) = (samples.clone(), samples.clone());
            let picture = &mut bytemuck::cast_slice_mut(&mut by_method)[..bytes];
            let count = |&plane: &Plane| of_plane(picture, &layout, plane, Counted::Visible);
            let counts: Vec<u64> = planes.iter().flat_map(count).collect();
            equalize_like(picture, &layout, &operation, &reference, &mut Scratch::default());
            let mut luts = vec![0_u16; counts.len() * depth.bytes() / 2];
            let luts = bytemuck::cast_slice_mut(&mut luts);
            lut::fill(&operation, depth, &counts, &reference, luts);
            apply(&mut bytemuck::cast_slice_mut(&mut by_luts)[..bytes], &layout, &operation, luts);
            prop_assert_eq!(&by_method, &by_luts);
        }
    }
}

/// Numbers of levels for data of other bits than 8 and 16.
fn fewer_levels() -> impl Strategy<Value = u16> {
    prop::sample::select(vec![2_u16, 3, 256, 1000, 4096, 65_535])
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    #[test]
    fn fewer_levels_are_a_histogram_of_their_own(
        samples in prop::collection::vec(any::<u16>(), 1..400), number in fewer_levels(),
        low in 0..300_000_u32, high in 0..300_000_u32,
    ) {
        let samples: Vec<_> = samples.into_iter().map(|sample| sample % number).collect();
        let mut counts = vec![0_u64; usize::from(number)];
        samples.iter().for_each(|&sample| counts[usize::from(sample)] += 1);
        let occurs = |level: usize| counts.get(level).is_some_and(|&count| count > 0);
        let mut reference = vec![0_u64; 65_536];
        (0..usize::from(number)).for_each(|level| reference[level] = ((level as u64 * 40_503) >> 3) % 5);
        reference[usize::from(number) / 2] += 1;
        let stretch = Stretch { low, high };
        let is_constant = counts.iter().filter(|&&count| count > 0).count() == 1;
        let identity = || (0..i128::from(number)).collect::<Vec<_>>();
        let equalized_lut =
            if is_constant { identity() } else { wide_lut(&counts).into_iter().map(|level| level as i128).collect() };
        for (method, expected) in [
            (Method::Global, equalized_lut),
            (Method::Stretch(stretch), stretched(&counts, stretch)),
            (Method::Match, matched(&counts, &reference[..usize::from(number)])),
        ] {
            let operation = Operation { levels: Levels::First(number), ..Operation::new(method) };
            let layout = row(samples.len(), Pixel::Gray, Depth::Sixteen);
            let mut result = samples.clone();
            let reference = &reference[..operation.reference_length(&layout)];
            equalize_like(bytemuck::cast_slice_mut(&mut result), &layout, &operation, reference, &mut Scratch::default());
            let wrong = samples.iter().zip(&result).find(|&(&before, &after)| {
                occurs(before.into()) && i128::from(after) != expected[usize::from(before)]
            });
            prop_assert_eq!(wrong, None, "{:?}", operation);
        }
    }

    #[test]
    fn colours_with_a_new_luma_stay_among_the_levels(
        samples in prop::collection::vec(any::<[u16; 4]>(), 1..200), number in fewer_levels(),
    ) {
        let pixels: Vec<_> = samples.into_iter().map(|[r, g, b, alpha]| [r % number, g % number, b % number, alpha]).collect();
        let layout = row(pixels.len(), Pixel::Rgba, Depth::Sixteen);
        let operation = Operation { levels: Levels::First(number), ..GLOBAL };
        let luma = |[r, g, b, _]: [u16; 4]| {
            ((19_595 * u32::from(r) + 38_470 * u32::from(g) + 7_471 * u32::from(b) + 32_768) >> 16) as usize
        };
        let mut counts = vec![0_u64; usize::from(number)];
        pixels.iter().filter(|pixel| pixel[3] > 0).for_each(|&pixel| counts[luma(pixel)] += 1);
        let lut = match counts.iter().filter(|&&count| count > 0).count() {
            0 | 1 => (0..u128::from(number)).collect(),
            _ => wide_lut(&counts),
        };
        let result = equalized(pixels.as_flattened(), layout, operation);
        for (before, after) in pixels.iter().zip(result.as_chunks::<4>().0) {
            let (from, top) = (luma(*before), i64::from(number) - 1);
            let to = |channel: usize| (i64::from(before[channel]) + lut[from] as i64 - from as i64).clamp(0, top) as u16;
            prop_assert_eq!(*after, [to(0), to(1), to(2), before[3]]);
        }
    }
}

#[test]
fn luts_of_enormous_pictures_are_exact() {
    let counts: Vec<u64> = (0..256).map(|level| (level * level * 977 + 13) << 12).collect();
    let mut lut = [0_u8; 256];
    lut::Rule::Equalize.fill(&counts, &mut lut);
    assert!(lut.iter().zip(wide_lut(&counts)).all(|(&entry, expected)| u128::from(entry) == expected));
}

#[test]
#[should_panic(expected = "the pixels of this layout")]
fn too_few_pixels_are_refused() {
    equalize(&mut [0; 5], &row(6, Pixel::Gray, Depth::Eight), &GLOBAL, &mut Scratch::default());
}

#[test]
#[should_panic(expected = "TargetAlignmentGreaterAndInputNotAligned")]
fn sixteen_bit_samples_at_an_odd_address_are_refused() {
    let mut words = [0_u16; 4];
    let bytes: &mut [u8] = bytemuck::cast_slice_mut(&mut words);
    equalize(&mut bytes[1..5], &row(2, Pixel::Gray, Depth::Sixteen), &GLOBAL, &mut Scratch::default());
}

#[test]
fn a_grid_finer_than_the_picture_costs_no_more_tiles_than_pixels() {
    let of = |width, height, x, y| {
        let layout = Layout { width, height, pixel: Pixel::Gray, depth: Depth::Sixteen };
        let tiles = Geometry::new(
            &layout,
            &Clahe { clip_limit: ClipLimit::Times(2.0), tiles: Tiles::Grid { x, y }, noise: 0 },
        );
        (tiles.columns, tiles.rows)
    };
    assert_eq!(of(128, 100, 1024, 65_536), (128, 100));
    assert_eq!(of(128, 100, 8, 8), (8, 8));
    // 65 tiles of two pixels cover 129 pixels; the last pixel is nearer to the centre of its own
    // tile than to the next one's.
    assert_eq!(of(129, 100, 128, 8), (65, 8));
    assert_eq!(of(1, 1, 8, 8), (1, 1));
}
