//! CLAHE of volumes against its plain definition.
//!
//! The definition has a LUT of all levels for each box of a padded copy, with floats in OpenCV's
//! order.

use std::ops::Range;

use histeqd_equalize::clahe::{Extent, Rolling, RowTables, Volume, equalize_volume_on, fill_lut};
use histeqd_equalize::clip::{Clipping, LevelsInUse};
use histeqd_equalize::{
    Clahe, ClipLimit, Colour, Depth, Exposure, Layout, Method, Operation, Pixel, Sample, Scratch, Sequential,
    Strength, Stretch, Tiles, equalize,
};
use proptest::prelude::*;

/// Sizes across, down and along.
type Sizes = [usize; 3];

/// Index `at` of `length` voxels, reflected at both ends without repeating them.
fn reflected(at: usize, length: usize) -> usize {
    let folded = if length == 1 { 0 } else { at % (2 * length - 2) };
    if folded < length { folded } else { 2 * length - 2 - folded }
}

/// The two boxes around a voxel, and the weight of the second.
fn between(at: usize, side: usize, tiles: usize) -> (usize, usize, f32) {
    let centred = at as f32 * (1.0 / side as f32) - 0.5;
    let clamp = |tile: f32| (tile.max(0.0) as usize).min(tiles - 1);
    (clamp(centred.floor()), clamp(centred.floor() + 1.0), centred - centred.floor())
}

/// CLAHE of a gray volume by its definition.
fn plain<S: Sample>(voxels: &[S], sizes: Sizes, tiles: Sizes, limit: ClipLimit) -> Vec<S> {
    let at = |[x, y, z]: Sizes| voxels[(z * sizes[1] + y) * sizes[0] + x].level();
    let fits: Vec<bool> = sizes.iter().zip(tiles).map(|(size, tiles)| size.is_multiple_of(tiles)).collect();
    let fits = [fits[0] && fits[1], fits[0] && fits[1], fits[2]];
    let sides: Sizes = std::array::from_fn(|axis| sizes[axis] / tiles[axis] + usize::from(!fits[axis]));
    let area = sides.iter().product::<usize>() as u64;
    let clipping = if limit.needs_levels(S::LEVELS) {
        let occurs: Vec<bool> =
            (0..S::LEVELS).map(|level| voxels.iter().any(|v| v.level() == level)).collect();
        match Clipping::of_levels(LevelsInUse::new(occurs.iter().copied()), area) {
            Some(clipping) => clipping,
            None => return voxels.to_vec(),
        }
    } else {
        Clipping::new(limit, area, S::LEVELS)
    };
    let box_lut = |number: usize| {
        let place = [number % tiles[0], number / tiles[0] % tiles[1], number / tiles[0] / tiles[1]];
        let mut counts = vec![0_u64; S::LEVELS];
        for offset in 0..area as usize {
            let inside = [offset % sides[0], offset / sides[0] % sides[1], offset / sides[0] / sides[1]];
            let voxel = |axis| reflected(place[axis] * sides[axis] + inside[axis], sizes[axis]);
            counts[at(std::array::from_fn(voxel))] += 1;
        }
        let mut lut = vec![S::zeroed(); S::LEVELS];
        fill_lut(&counts, &clipping, (S::LEVELS - 1) as f32 / area as f32, &mut lut);
        lut
    };
    let luts: Vec<Vec<S>> = (0..tiles.iter().product()).map(box_lut).collect();
    let result = |number: usize| {
        let place = [number % sizes[0], number / sizes[0] % sizes[1], number / sizes[0] / sizes[1]];
        let axes: [_; 3] = std::array::from_fn(|axis| between(place[axis], sides[axis], tiles[axis]));
        let level = voxels[number].level();
        let entry =
            |x: usize, y: usize, z: usize| luts[(z * tiles[1] + y) * tiles[0] + x][level].level() as f32;
        let [(x1, x2, xa), (y1, y2, ya), (z1, z2, za)] = axes;
        let side = |y: usize, z: usize| entry(x1, y, z) * (1.0 - xa) + entry(x2, y, z) * xa;
        let plane = |z: usize| side(y1, z) * (1.0 - ya) + side(y2, z) * ya;
        let value = if z1 == z2 { plane(z1) } else { plane(z1) * (1.0 - za) + plane(z2) * za };
        S::from_level((value.round_ties_even() as u32).min(S::LEVELS as u32 - 1))
    };
    (0..voxels.len()).map(result).collect()
}

fn operation([x, y, z]: Sizes, clip_limit: ClipLimit) -> Operation {
    let tiles = Tiles::Boxes { x: x as u32, y: y as u32, z: z as u32 };
    Operation::new(Method::Clahe(Clahe { clip_limit, tiles, noise: 0 }))
}

fn layout(sizes: Sizes, pixel: Pixel, depth: Depth) -> Layout {
    Layout { width: sizes[0] as u32, height: sizes[1] as u32, pixel, depth }
}

fn equalized<S: Sample>(voxels: &[S], layout: &Layout, pages: usize, operation: &Operation) -> Vec<S> {
    let mut result = voxels.to_vec();
    let bytes = bytemuck::cast_slice_mut(&mut result);
    assert!(equalize_volume_on(&Sequential, bytes, layout, pages, operation));
    result
}

fn noise(length: usize, seed: u64) -> Vec<u16> {
    let level = |at: u64| (at.wrapping_add(seed).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as u16;
    (0..length as u64).map(level).collect()
}

fn sizes() -> impl Strategy<Value = Sizes> {
    [1..24_usize, 1..14, 1..9]
}

fn tiles() -> impl Strategy<Value = Sizes> {
    [1..5_usize, 1..5, 1..6]
}

fn exposure() -> impl Strategy<Value = Option<Exposure>> {
    let some = (1..=1000_u16, 0..200_000_u32, 0..200_000_u32)
        .prop_map(|(share, low, high)| Some(Exposure { share, ends: Stretch { low, high } }));
    prop_oneof![Just(None), some]
}

fn limit() -> impl Strategy<Value = ClipLimit> {
    prop_oneof![Just(ClipLimit::Auto), (0.0..8.0).prop_map(ClipLimit::Times), Just(ClipLimit::Times(0.0))]
}

/// Equalizes a picture with bands that come from top to bottom.
///
/// Each band is finished as soon as the tables that it uses exist.
fn rolled(pixels: &mut [u8], layout: &Layout, rows_of_a_band: u32, operation: &Operation) {
    let tiles = Rolling::new(layout, operation).expect("it has tiles");
    let bands: Vec<Range<u32>> = (0..layout.height)
        .step_by(rows_of_a_band as usize)
        .map(|first| first..layout.height.min(first + rows_of_a_band))
        .collect();
    let row = pixels.len() / layout.height as usize;
    let place = |band: &Range<u32>| band.start as usize * row..band.end as usize * row;
    let mut occurs = vec![false; 3 * layout.depth.levels()];
    for band in bands.iter().filter(|_| tiles.needs_levels()) {
        let found = tiles.levels_in(&pixels[place(band)], band.clone());
        occurs.iter_mut().zip(found).for_each(|(all, found)| *all |= found);
    }
    let mut exposed = vec![0; tiles.exposed_counts()];
    for band in bands.iter().filter(|_| tiles.exposed_counts() > 0) {
        tiles.count_exposed(&pixels[place(band)], band.clone(), &mut exposed);
    }
    let clippings = tiles.clippings(&occurs, &exposed);
    let (mut counts, mut tables): (Vec<_>, Vec<Option<RowTables>>) =
        (0..tiles.rows()).map(|_| (Some(tiles.no_counts()), None)).unzip();
    let mut counted = bands.iter();
    for band in &bands {
        let used = tiles.used_by(band.clone());
        let needed = tiles.complete_below(used.end);
        while let Some(next) = counted.as_slice().first().filter(|next| next.start < needed) {
            for row in tiles.counted_in(next.clone()) {
                assert!(row < tiles.counted_below(next.end));
                let (pixels, own) = (&pixels[place(next)], counts[row].as_mut().expect("it is not complete"));
                if tiles.count(pixels, next.clone(), row, own) {
                    tables[row] =
                        Some(tiles.tables(counts[row].take().expect("they were counted"), &clippings));
                }
            }
            counted.next();
        }
        tables[..used.start].iter_mut().for_each(|unused| *unused = None);
        tiles.equalize(&mut pixels[place(band)], band.clone(), &clippings, |row| {
            tables[row].as_ref().expect("it is needed")
        });
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    #[test]
    fn eight_bits_are_as_defined(sizes in sizes(), tiles in tiles(), limit in limit(), seed: u64) {
        let voxels: Vec<u8> =
            noise(sizes.iter().product(), seed).into_iter().map(|level| (level >> 8) as u8).collect();
        let found = equalized(&voxels, &layout(sizes, Pixel::Gray, Depth::Eight), sizes[2], &operation(tiles, limit));
        prop_assert_eq!(found, plain(&voxels, sizes, tiles, limit));
    }

    #[test]
    fn sixteen_bits_are_as_defined(sizes in sizes(), tiles in tiles(), limit in limit(), seed: u64, shift in 0..12_u32) {
        let voxels: Vec<u16> = noise(sizes.iter().product(), seed).into_iter().map(|level| level >> shift).collect();
        let found = equalized(&voxels, &layout(sizes, Pixel::Gray, Depth::Sixteen), sizes[2], &operation(tiles, limit));
        prop_assert_eq!(found, plain(&voxels, sizes, tiles, limit));
    }

    #[test]
    fn one_page_is_equalized_as_a_picture(
        sizes in sizes(), tiles in tiles(), limit in limit(), seed: u64, thousandths in 0..1001_u16,
        pixel in prop::sample::select(vec![Pixel::Gray, Pixel::GrayAlpha, Pixel::Rgb, Pixel::Rgba]),
        colour in prop::sample::select(vec![Colour::Luma, Colour::Hue, Colour::PerChannel]),
        exposure in exposure(), spared in prop_oneof![Just(0), 1..=255_u8],
    ) {
        let strength = Strength::thousandths(thousandths).unwrap();
        let Method::Clahe(clahe) = operation(tiles, limit).method else { unreachable!() };
        let method = Method::Clahe(Clahe { noise: spared, ..clahe });
        let operation = Operation { colour, strength, exposure, ..Operation::new(method) };
        let layout = layout(sizes, pixel, Depth::Sixteen);
        let voxels = noise(layout.pixels() as usize * pixel.channels(), seed);
        let mut picture = voxels.clone();
        equalize(bytemuck::cast_slice_mut(&mut picture), &layout, &operation, &mut Scratch::default());
        prop_assert_eq!(equalized(&voxels, &layout, 1, &operation), picture);
    }

    #[test]
    fn a_picture_whose_bands_come_one_by_one_is_equalized_as_a_whole(
        width in 1..90_u32, height in 1..70_u32, rows_of_a_band in 1..30_u32, side in 1..40_u32,
        limit in limit(), seed: u64, shift in 0..14_u32, deep: bool, thousandths in 700..1001_u16,
        pixel in prop::sample::select(vec![Pixel::Gray, Pixel::GrayAlpha, Pixel::Rgb, Pixel::Rgba]),
        colour in prop::sample::select(vec![Colour::Luma, Colour::Hue, Colour::PerChannel]),
        exposure in exposure(), spared in prop_oneof![Just(0), 1..=255_u8],
    ) {
        let clahe = Clahe { clip_limit: limit, tiles: Tiles::Pixels(side), noise: spared };
        let strength = Strength::thousandths(thousandths).unwrap();
        let operation = Operation { colour, strength, exposure, ..Operation::new(Method::Clahe(clahe)) };
        let layout = Layout { width, height, pixel, depth: if deep { Depth::Sixteen } else { Depth::Eight } };
        let mut voxels = noise(layout.bytes() as usize / 2 + 1, seed);
        voxels.iter_mut().for_each(|level| *level = (*level >> shift) | ((*level << 15) >> (shift % 4)));
        let bytes = layout.bytes() as usize;
        let mut whole = voxels.clone();
        let whole = &mut bytemuck::cast_slice_mut(&mut whole)[..bytes];
        equalize(whole, &layout, &operation, &mut Scratch::default());
        let found = &mut bytemuck::cast_slice_mut(&mut voxels)[..bytes];
        rolled(found, &layout, rows_of_a_band, &operation);
        prop_assert!(found == whole, "{operation:?}");
    }

    #[test]
    fn the_order_of_pages_and_of_bands_of_their_rows_does_not_matter(
        sizes in sizes(),
        tiles in tiles(),
        seed: u64,
        rows_of_a_band in 1_u32..9,
        exposure in exposure(),
    ) {
        let operation = Operation { exposure, ..operation(tiles, ClipLimit::Times(2.0)) };
        let layout = layout(sizes, Pixel::Rgb, Depth::Eight);
        let page = layout.bytes() as usize;
        let voxels: Vec<u8> = noise(page * sizes[2], seed).into_iter().map(|level| level as u8).collect();
        let volume = Volume::new(&layout, sizes[2], &operation).unwrap();
        let mut rows = vec![vec![0; volume.row_counts()]; volume.rows()];
        let mut exposed = vec![0; volume.exposed_counts()];
        let extents: Vec<Extent> = (0..sizes[2])
            .flat_map(|page| (0..layout.height).step_by(rows_of_a_band as usize).map(move |row| (page, row)))
            .map(|(page, first_row)| {
                Extent { page, first_row, rows: rows_of_a_band.min(layout.height - first_row) }
            })
            .collect();
        let row = page / sizes[1];
        let place = |Extent { page: number, first_row, rows }: Extent| {
            let start = number * page + first_row as usize * row;
            start..start + rows as usize * row
        };
        for &extent in extents.iter().rev() {
            let pixels = &voxels[place(extent)];
            volume.parts(extent).for_each(|part| volume.count(pixels, extent, part, &mut rows[part.row]));
            volume.count_exposed(pixels, extent, &mut exposed);
        }
        let (tables, mut found) = (volume.tables(&rows, &exposed), voxels.clone());
        for &extent in extents.iter().rev() {
            volume.equalize(extent, &mut found[place(extent)], &tables);
        }
        prop_assert_eq!(found, equalized(&voxels, &layout, sizes[2], &operation));
    }
}

#[test]
fn what_has_no_boxes_is_left_alone() {
    let layout = layout([4, 4, 1], Pixel::Gray, Depth::Eight);
    assert!(Volume::new(&layout, 0, &operation([1, 1, 1], ClipLimit::Auto)).is_none());
    assert!(Volume::new(&layout, 1, &Operation::new(Method::Global)).is_none());
    let lab = Operation { colour: Colour::Lab, ..operation([1, 1, 1], ClipLimit::Auto) };
    let deep = Layout { pixel: Pixel::Rgb, depth: Depth::Sixteen, ..layout };
    assert!(
        Volume::new(&deep, 2, &lab).is_none()
            && Volume::new(&Layout { depth: Depth::Eight, ..deep }, 2, &lab).is_some()
    );
    let large = Layout { width: 1 << 16, height: 1 << 15, ..layout };
    assert!(Volume::new(&large, 2, &operation([1, 1, 1], ClipLimit::Auto)).is_none());
    assert!(Volume::new(&large, 2, &operation([1, 1, 2], ClipLimit::Auto)).is_some());
}
