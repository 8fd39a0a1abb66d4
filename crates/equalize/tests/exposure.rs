//! Exposure is a table that the picture goes through before any method.

use histeqd_equalize::colour::Plane;
use histeqd_equalize::histogram::{Counted, of_plane};
use histeqd_equalize::{
    Clahe, ClipLimit, Colour, Depth, Exposure, Layout, Levels, Method, Operation, Pixel, Plateau, Scratch,
    Strength, Stretch, Tiles, equalize, lut,
};
use proptest::prelude::*;

fn method() -> impl Strategy<Value = Method> {
    let clahe = (1..5_u32, 1..5_u32, prop_oneof![Just(0), 1..=255_u8]).prop_map(|(x, y, noise)| {
        Method::Clahe(Clahe { clip_limit: ClipLimit::Auto, tiles: Tiles::Grid { x, y }, noise })
    });
    prop_oneof![
        Just(Method::Global),
        (1..400_000_u32).prop_map(|share| Method::Plateau(Plateau { share })),
        (0..200_000_u32, 0..200_000_u32).prop_map(|(low, high)| Method::Stretch(Stretch { low, high })),
        clahe,
    ]
}

fn exposure() -> impl Strategy<Value = Exposure> {
    (1..=1000_u16, 0..200_000_u32, 0..200_000_u32)
        .prop_map(|(share, low, high)| Exposure { share, ends: Stretch { low, high } })
}

fn equalized(samples: &[u16], layout: &Layout, operation: &Operation) -> Vec<u16> {
    let mut result = samples.to_vec();
    equalize(bytemuck::cast_slice_mut(&mut result), layout, operation, &mut Scratch::default());
    result
}

/// The table by its definition, of the levels below `number`.
fn table(counts: &[u64], number: i64, Exposure { share, ends }: Exposure) -> Vec<u16> {
    let total: u64 = counts.iter().sum();
    let beyond =
        |share: u32| move |sum: &u64| u128::from(*sum) * 1_000_000 > u128::from(total) * u128::from(share);
    let sums = |counts: Vec<u64>| {
        counts.into_iter().scan(0, |sum, count| {
            *sum += count;
            Some(*sum)
        })
    };
    let low = sums(counts.to_vec()).position(|sum| beyond(ends.low)(&sum)).expect("some count") as i64;
    let from_top = sums(counts.iter().rev().copied().collect())
        .position(|sum| beyond(ends.high)(&sum))
        .expect("some count") as i64;
    let high = counts.len() as i64 - 1 - from_top;
    if low >= high {
        return (0..=u16::MAX).collect();
    }
    let (black, top) = (low / 2, number - 1);
    let white = high.max((top * i64::from(share) / 1000).min(3 * high));
    let exposed = |level: i64| {
        let halves_up = (2 * (level - black) * white + (high - black)).div_euclid(2 * (high - black));
        halves_up.clamp(0, top) as u16
    };
    (0..65_536).map(|level| if level < number { exposed(level) } else { level as u16 }).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn a_picture_is_exposed_and_then_equalized(
        method in method(), exposure in exposure(), thousandths in 0..=1000_u16,
        (width, height) in (1..40_u32, 1..30_u32), seed: u64, shift in 0..14_u32, fewer: bool,
    ) {
        let levels = if fewer { Levels::First((65_536_u32 >> shift).min(65_535) as u16) } else { Levels::All };
        let layout = Layout { width, height, pixel: Pixel::Gray, depth: Depth::Sixteen };
        let number = levels.number(layout.depth);
        let noise = |at: u64| (at.wrapping_add(seed).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as u16 >> shift;
        let samples: Vec<u16> = (0..layout.pixels()).map(noise).map(|level| level.min((number - 1) as u16)).collect();
        let plain = Operation { levels, ..Operation::new(method) };
        let strength = Strength::thousandths(thousandths).expect("at most all");
        let found = equalized(&samples, &layout, &Operation { exposure: Some(exposure), strength, ..plain });
        let counts = of_plane(bytemuck::cast_slice(&samples), &layout, Plane::Channel(0), Counted::All);
        let table = table(&counts, number as i64, exposure);
        let exposed: Vec<u16> = samples.iter().map(|&level| table[usize::from(level)]).collect();
        let methods = equalized(&exposed, &layout, &plain);
        let expected = exposed.iter().zip(methods).map(|(&old, new)| strength.between(old.into(), new.into()) as u16);
        prop_assert_eq!(found, expected.collect::<Vec<_>>());
    }

    #[test]
    fn the_plane_that_is_equalized_is_exposed(
        method in method(), exposure in exposure(), seed: u64, shift in 0..8_u32,
        colour in prop::sample::select(vec![Colour::Luma, Colour::Hue, Colour::PerChannel]), thousandths in 0..=1000_u16,
    ) {
        let layout = Layout { width: 31, height: 23, pixel: Pixel::Rgba, depth: Depth::Sixteen };
        let noise = |at: u64| (at.wrapping_add(seed).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as u16 >> shift;
        // Some pixels are transparent, and do not count.
        let sample = |at: u64| if at % 4 == 3 { noise(at) % 3 } else { noise(at) };
        let samples: Vec<u16> = (0..layout.pixels() * 4).map(sample).collect();
        let strength = Strength::thousandths(thousandths).expect("at most all");
        let operation = Operation { colour, exposure: Some(exposure), strength, ..Operation::new(method) };
        let found = equalized(&samples, &layout, &operation);
        let gray = Layout { pixel: Pixel::GrayAlpha, ..layout };
        let of_pixel = |value: fn(&[u16]) -> u16| -> Vec<u16> {
            samples.chunks_exact(4).flat_map(|pixel| [value(pixel), pixel[3]]).collect()
        };
        let luma = |pixel: &[u16]| {
            ((19595 * u32::from(pixel[0]) + 38470 * u32::from(pixel[1]) + 7471 * u32::from(pixel[2]) + 32768) >> 16) as u16
        };
        if colour == Colour::PerChannel {
            let green = equalized(&of_pixel(|pixel| pixel[1]), &gray, &operation);
            prop_assert!(found.chunks_exact(4).zip(green.chunks_exact(2)).all(|(pixel, green)| pixel[1] == green[0]));
        } else {
            // Where no sample clips, the new luma is the result of the operation on a picture of
            // luma.
            let lumas = equalized(&of_pixel(luma), &gray, &operation);
            for (pixel, to) in found.chunks_exact(4).zip(lumas.chunks_exact(2)) {
                let clips = pixel[..3].iter().any(|&sample| sample == 0 || sample == 65_535);
                prop_assert!((clips && colour == Colour::Luma) || luma(pixel).abs_diff(to[0]) <= 1, "{pixel:?} {}", to[0]);
            }
        }
    }
}

#[test]
fn a_lut_of_counts_is_exposed() {
    let counts: Vec<u64> = (0..256).map(|level| u64::from((6..77).contains(&level))).collect();
    let exposure = Some(Exposure { share: 800, ends: Stretch { low: 0, high: 0 } });
    let mut entries = [0; 256];
    let operation = Operation {
        exposure,
        strength: Strength::thousandths(0).expect("at most all"),
        ..Operation::new(Method::Global)
    };
    lut::fill(&operation, Depth::Eight, &counts, &[], &mut entries);
    assert_eq!((entries[3], entries[6], entries[76], entries[255]), (0, 8, 204, 255));
    lut::fill(&Operation { strength: Strength::FULL, ..operation }, Depth::Eight, &counts, &[], &mut entries);
    assert_eq!((entries[6], entries[76]), (0, 255));
}
