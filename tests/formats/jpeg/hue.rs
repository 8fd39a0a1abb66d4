//! JPEGs with chroma that follows luma in their own planes, to keep hues.

use codec::{JpegQuality, Target};
use equalize::{Clahe, ClipLimit, Colour, Method, Operation, Pixel, Scratch, Tiles, equalize};

use super::{TARGET, decode, encode, file, jpeg, pixels, sampling};
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
