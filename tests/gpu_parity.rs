//! The first GPU against the CPU, byte for byte.
//!
//! The pictures go through the worker's own engine and lanes, with random sizes, layouts,
//! operations and data.

use equalize::{
    ByteOrder, ByteOrders, Clahe, ClipLimit, Colour, Depth, Exposure, Layout, Levels, Method, Operation,
    Pixel, Plateau, Scratch, Strength, Stretch, Tiles, count, equalize, equalize_like,
};
use histeqd::slot::Memory;
use lanes::{CpuLane, Engine, Lane, LaneError, Order, Unit, open};

use crate::harness::gpu_or_skip;
use crate::samples::{DATA, DEPTHS, Data, PIXELS, Random, every_layout, layout, samples};

const NATIVE: ByteOrders = ByteOrders::NATIVE;

/// Opens the first GPU, or returns `None` after reporting its absence.
fn gpu() -> Option<Box<dyn Engine>> {
    gpu_with(None)
}

fn gpu_with(lane_memory: Option<u64>) -> Option<Box<dyn Engine>> {
    let opened = open(Unit::Gpu(0), lane_memory);
    let told = opened.as_ref().err().map_or_else(String::new, ToString::to_string);
    gpu_or_skip(opened.is_ok(), &told).then(|| opened.ok().unwrap())
}

fn fill(memory: &mut Memory, layout: &Layout, data: Data, random: &mut Random) {
    let samples = samples(layout, data, random);
    let bytes = &mut memory.bytes_mut()[..layout.bytes() as usize];
    match layout.depth {
        Depth::Eight => bytes.iter_mut().zip(&samples).for_each(|(byte, sample)| *byte = *sample as u8),
        Depth::Sixteen => {
            for (pair, sample) in bytes.chunks_exact_mut(2).zip(&samples) {
                pair.copy_from_slice(&sample.to_ne_bytes());
            }
        }
    }
}

/// Folds samples of all levels into fewer levels.
fn fold(memory: &mut Memory, layout: &Layout, levels: Levels) {
    let number = levels.number(layout.depth);
    if !levels.are_fewer(layout.depth) {
        return;
    }
    let bytes = &mut memory.bytes_mut()[..layout.bytes() as usize];
    let (channels, colours) = (layout.pixel.channels(), layout.pixel.colour_channels());
    let is_colour = |at: usize| at % channels < colours;
    match layout.depth {
        Depth::Eight => {
            let samples = bytes.iter_mut().enumerate().filter(|(at, _)| is_colour(*at));
            samples.for_each(|(_, sample)| *sample = (usize::from(*sample) % number) as u8);
        }
        Depth::Sixteen => {
            let samples = bytes.as_chunks_mut::<2>().0.iter_mut().enumerate();
            samples.filter(|(at, _)| is_colour(*at)).for_each(|(_, sample)| {
                *sample = ((usize::from(u16::from_ne_bytes(*sample)) % number) as u16).to_ne_bytes();
            });
        }
    }
}

/// Compares the bytes of the GPU and of the CPU after equalization.
///
/// It does so for each layout, each operation and each kind of data. The memory after the picture
/// must stay as it is.
fn compare(engine: &dyn Engine, layouts: &[Layout], operations: &[Operation], data: &[Data], seed: u64) {
    compare_in(&[NATIVE], engine, layouts, operations, data, seed);
}

/// As [`compare`], in each of these byte orders.
fn compare_in(
    byte_orders: &[ByteOrders],
    engine: &dyn Engine,
    layouts: &[Layout],
    operations: &[Operation],
    data: &[Data],
    seed: u64,
) {
    let mut random = Random(seed);
    let mut lane = engine.lane().unwrap();
    let mut scratch = Scratch::default();
    let largest = layouts.iter().map(Layout::bytes).max().unwrap() as usize;
    let mut memory = Memory::shared(largest + 64).unwrap();
    engine.pin(memory.bytes_mut()).unwrap();
    for layout in layouts {
        let size = layout.bytes() as usize;
        for operation in operations {
            for &data in data {
                for &orders in byte_orders {
                    memory.bytes_mut()[size..].fill(0xA5);
                    fill(&mut memory, layout, data, &mut random);
                    fold(&mut memory, layout, operation.levels);
                    let reference = reference(operation, layout, &mut random);
                    let mut expected = memory.bytes()[..size].to_vec();
                    equalize_like(&mut expected, layout, operation, &reference, &mut scratch);
                    orders.to.convert(&mut expected);
                    let pixels = &mut memory.bytes_mut()[..size];
                    orders.from.convert(pixels);
                    lane.equalize(pixels, layout, orders, operation, &reference).unwrap();
                    let differ = pixels.iter().zip(&expected).filter(|(a, b)| a != b).count();
                    assert_eq!(differ, 0, "bytes differ for {layout:?}, {operation:?}, {data:?}, {orders:?}");
                    let behind = &memory.bytes()[size..];
                    assert!(behind.iter().all(|byte| *byte == 0xA5), "written beyond {layout:?}");
                }
            }
        }
    }
    engine.unpin(memory.bytes_mut());
}

/// Returns counts of a reference, if the operation has one.
///
/// Many levels do not occur in it.
fn reference(operation: &Operation, layout: &Layout, random: &mut Random) -> Vec<u64> {
    (0..operation.reference_length(layout)).map(|_| random.below(400).saturating_sub(200)).collect()
}

/// Compares the slots of the GPU and of the CPU after a picture went through LUTs.
///
/// It does so for a picture of each layout, with random LUTs.
fn compare_given(byte_orders: &[ByteOrders], engine: &dyn Engine, layouts: &[Layout], seed: u64) {
    let mut random = Random(seed);
    let mut lane = engine.lane().unwrap();
    for layout in layouts {
        let operations = globally().into_iter().chain(recoloured(Method::Global));
        for operation in operations.filter(|operation| operation.can_equalize(layout)) {
            let order = Order::Apply(operation);
            let bytes = order.slot_bytes(layout) as usize;
            let mut memory = Memory::shared(bytes).unwrap();
            engine.pin(memory.bytes_mut()).unwrap();
            for &orders in byte_orders {
                fill(&mut memory, layout, Data::Natural, &mut random);
                order.given(memory.bytes_mut(), layout).fill_with(|| random.next() as u8);
                // The CPU's slot is aligned too.
                let mut expected = Memory::shared(bytes).unwrap();
                expected.bytes_mut().copy_from_slice(memory.bytes());
                CpuLane::default().carry_out(expected.bytes_mut(), layout, orders, &order).unwrap();
                lane.carry_out(memory.bytes_mut(), layout, orders, &order).unwrap();
                assert!(
                    memory.bytes() == expected.bytes(),
                    "bytes differ for {layout:?}, {operation:?}, {orders:?}"
                );
            }
            engine.unpin(memory.bytes_mut());
        }
    }
}

/// Compares the histograms of the GPU and of the CPU.
///
/// It does so for a picture of each layout, in this byte order.
fn compare_counts(engine: &dyn Engine, layouts: &[Layout], order: ByteOrder, seed: u64) {
    let mut random = Random(seed);
    let mut lane = engine.lane().unwrap();
    let mut scratch = Scratch::default();
    for layout in layouts {
        let mut memory = Memory::shared(layout.bytes() as usize).unwrap();
        engine.pin(memory.bytes_mut()).unwrap();
        fill(&mut memory, layout, Data::Natural, &mut random);
        let mut expected = vec![0; count::length(layout)];
        count::count(memory.bytes(), layout, &mut expected, &mut scratch);
        order.convert(memory.bytes_mut());
        let mut found = vec![7; expected.len()];
        lane.count(memory.bytes(), layout, order, &mut found).unwrap();
        assert!(found == expected, "counts differ for {layout:?}, {order:?}");
        engine.unpin(memory.bytes_mut());
    }
}

/// The byte orders that need a conversion.
fn not_native() -> [ByteOrders; 3] {
    let swapped = ByteOrder::Swapped;
    [
        ByteOrders { from: swapped, ..NATIVE },
        ByteOrders { to: swapped, ..NATIVE },
        ByteOrders { from: swapped, to: swapped },
    ]
}

/// Layouts of 16 bits in these sizes, with every kind of pixel.
fn of_16_bits(sizes: &[(u32, u32)]) -> Vec<Layout> {
    let layouts = sizes.iter().flat_map(|&(width, height)| every_layout(width, height));
    layouts.filter(|layout| layout.depth == Depth::Sixteen).collect()
}

const EXPOSURE: Exposure = Exposure { share: 900, ends: Stretch { low: 1_750, high: 20_000 } };

fn globally() -> [Operation; 2] {
    [Colour::Luma, Colour::PerChannel].map(|colour| Operation { colour, ..Operation::new(Method::Global) })
}

/// Returns the operations with LUTs that the CPU makes from the GPU's counts.
fn by_lut() -> Vec<Operation> {
    let stretch = |low, high| Method::Stretch(Stretch { low, high });
    let plateau = Method::Plateau(Plateau { share: 3_000 });
    let each = |method| {
        [Colour::Luma, Colour::PerChannel].map(|colour| Operation { colour, ..Operation::new(method) })
    };
    let exposed = Operation { exposure: Some(EXPOSURE), ..Operation::new(Method::Global) };
    let linked = |operation| Operation { colour: Colour::Linked, ..operation };
    let others =
        [linked(Operation::new(Method::Global)), linked(Operation::new(plateau)), exposed, linked(exposed)];
    let methods = [stretch(0, 0), stretch(3_500, 20_000), Method::Match];
    methods.into_iter().flat_map(each).chain(others).collect()
}

/// Returns CLAHE with an exposure and with less gain for flat tiles, as for dark photographs.
fn as_photographs(clip_limit: ClipLimit, tiles: Tiles) -> Vec<Operation> {
    let operation = |colour, noise, thousandths| Operation {
        colour,
        exposure: Some(EXPOSURE),
        strength: Strength::thousandths(thousandths).unwrap(),
        ..Operation::new(Method::Clahe(Clahe { clip_limit, tiles, noise }))
    };
    let full = Operation { exposure: None, ..operation(Colour::Luma, 96, 1000) };
    let all = [
        operation(Colour::Hue, 96, 500),
        operation(Colour::PerChannel, 0, 1000),
        operation(Colour::Luma, 255, 700),
    ];
    all.into_iter().chain([operation(Colour::Lab, 30, 400), full]).collect()
}

fn automatically(tiles: Tiles) -> [Operation; 2] {
    let method = Method::Clahe(Clahe { clip_limit: ClipLimit::Auto, tiles, noise: 0 });
    [Colour::Luma, Colour::PerChannel].map(|colour| Operation { colour, ..Operation::new(method) })
}

/// Returns the operations at another strength.
fn weakened(operations: [Operation; 2], thousandths: u16) -> [Operation; 2] {
    let strength = Strength::thousandths(thousandths).unwrap();
    operations.map(|operation| Operation { strength, ..operation })
}

fn adaptively(clip_limit: f64, tiles: Tiles) -> [Operation; 2] {
    let method = Method::Clahe(Clahe { clip_limit: ClipLimit::Times(clip_limit), tiles, noise: 0 });
    [Colour::Luma, Colour::PerChannel].map(|colour| Operation { colour, ..Operation::new(method) })
}

/// Returns the operations with colours that follow a new brightness by another rule than a shift.
fn recoloured(method: Method) -> [Operation; 2] {
    [Colour::Hue, Colour::Lab].map(|colour| Operation { colour, ..Operation::new(method) })
}

/// As [`compare_in`], with the operations that each layout supports.
fn compare_recoloured(
    byte_orders: &[ByteOrders],
    engine: &dyn Engine,
    layouts: &[Layout],
    operations: &[Operation],
    seed: u64,
) {
    for &operation in operations {
        let able: Vec<_> = layouts.iter().copied().filter(|layout| operation.can_equalize(layout)).collect();
        compare_in(byte_orders, engine, &able, &[operation], &[Data::Natural, Data::Random], seed);
    }
}

#[test]
fn small_pictures_of_every_layout() {
    let Some(gpu) = gpu() else { return };
    let sizes = [(1, 1), (2, 1), (1, 7), (16, 1), (15, 3), (64, 33), (257, 255), (640, 481)];
    let layouts: Vec<_> = sizes.into_iter().flat_map(|(width, height)| every_layout(width, height)).collect();
    compare(gpu.as_ref(), &layouts, &globally(), &DATA, 1);
}

#[test]
fn random_sizes() {
    let Some(gpu) = gpu() else { return };
    let mut random = Random(2);
    let layouts: Vec<_> = (0..16)
        .map(|_| {
            let (width, height) = (1 + random.below(5000), 1 + random.below(3000));
            layout(width as u32, height as u32, random.pick(&PIXELS), random.pick(&DEPTHS))
        })
        .collect();
    compare(gpu.as_ref(), &layouts, &globally(), &[Data::Natural, Data::OneHotBin], 3);
}

#[test]
fn large_pictures_go_in_chunks() {
    let Some(gpu) = gpu() else { return };
    let layouts = [
        layout(8191, 6001, Pixel::Gray, Depth::Eight),
        layout(5003, 4001, Pixel::Rgb, Depth::Eight),
        layout(4999, 4003, Pixel::Gray, Depth::Sixteen),
        layout(3001, 3003, Pixel::Rgba, Depth::Sixteen),
    ];
    compare(gpu.as_ref(), &layouts, &globally(), &[Data::Natural], 4);
}

#[test]
fn a_large_plane_that_moves_as_a_whole() {
    let Some(gpu) = gpu() else { return };
    let layouts =
        [layout(5021, 5101, Pixel::Gray, Depth::Eight), layout(5792, 5792, Pixel::Gray, Depth::Eight)];
    compare(gpu.as_ref(), &layouts, &globally()[..1], &DATA, 12);
}

#[test]
fn pictures_larger_than_the_lane_s_memory_go_through_a_ring() {
    let Some(gpu) = gpu_with(Some(6_000_000)) else { return };
    let sizes = [(1000, 1000), (4001, 1777), (6007, 5003)];
    let layouts: Vec<_> = sizes.into_iter().flat_map(|(width, height)| every_layout(width, height)).collect();
    compare(gpu.as_ref(), &layouts, &globally(), &[Data::Natural], 5);
}

#[test]
fn what_does_not_fit_is_declined_untouched_and_the_lane_goes_on() {
    let Some(gpu) = gpu_with(Some(6_000_000)) else { return };
    let (small, large) =
        (layout(300, 200, Pixel::Rgb, Depth::Eight), layout(2500, 2000, Pixel::Rgb, Depth::Eight));
    let [clahe, _] = adaptively(2.0, Tiles::Grid { x: 8, y: 8 });
    let (mut lane, mut memory) = (gpu.lane().unwrap(), Memory::shared(large.bytes() as usize).unwrap());
    gpu.pin(memory.bytes_mut()).unwrap();
    for _ in 0..2 {
        fill(&mut memory, &large, Data::Natural, &mut Random(6));
        let before = memory.bytes().to_vec();
        let declined = lane.equalize(memory.bytes_mut(), &large, NATIVE, &clahe, &[]);
        assert!(matches!(declined, Err(LaneError::Full)), "{declined:?}");
        assert!(memory.bytes() == before);
        let pixels = &mut memory.bytes_mut()[..small.bytes() as usize];
        let mut expected = pixels.to_vec();
        equalize(&mut expected, &small, &clahe, &mut Scratch::default());
        lane.equalize(pixels, &small, NATIVE, &clahe, &[]).unwrap();
        assert!(pixels == expected);
    }
    gpu.unpin(memory.bytes_mut());
}

#[test]
fn dark_pictures_are_lifted_and_flat_tiles_spared() {
    let Some(gpu) = gpu() else { return };
    let sizes = [(1, 1), (16, 1), (15, 3), (64, 33), (257, 255), (640, 481), (1603, 1201)];
    let layouts: Vec<_> = sizes.into_iter().flat_map(|(width, height)| every_layout(width, height)).collect();
    let tiles =
        [Tiles::Grid { x: 12, y: 12 }, Tiles::Grid { x: 1, y: 2 }, Tiles::Pixels(9), Tiles::Pixels(100)];
    for (number, tiles) in tiles.into_iter().enumerate() {
        let limit = [ClipLimit::Auto, ClipLimit::Times(3.0)][number % 2];
        compare_recoloured(&[NATIVE], gpu.as_ref(), &layouts, &as_photographs(limit, tiles), 90);
        compare_recoloured(
            &not_native(),
            gpu.as_ref(),
            &of_16_bits(&sizes[2..5]),
            &as_photographs(limit, tiles),
            91,
        );
    }
}

#[test]
fn colour_histograms() {
    let Some(gpu) = gpu() else { return };
    let sizes = [(1, 1), (7, 7), (10, 15), (257, 255), (4001, 2777)];
    let layouts: Vec<_> = sizes.into_iter().flat_map(|(width, height)| every_layout(width, height)).collect();
    compare_counts(gpu.as_ref(), &layouts, ByteOrder::Native, 21);
}

#[test]
fn operations_leave_nothing_behind_for_the_next() {
    let Some(gpu) = gpu() else { return };
    let mut random = Random(22);
    let mut lane = gpu.lane().unwrap();
    let mut scratch = Scratch::default();
    let mut memory = Memory::shared(700 * 500 * 8).unwrap();
    gpu.pin(memory.bytes_mut()).unwrap();
    let grid = Tiles::Grid { x: 4, y: 3 };
    let clahe = [adaptively(3.0, grid), automatically(grid), weakened(automatically(grid), 350)];
    let operations = [globally(), weakened(globally(), 750)].into_iter().chain(clahe).flatten();
    let clahe = Method::Clahe(Clahe { clip_limit: ClipLimit::Times(3.0), tiles: grid, noise: 0 });
    let with_hue = [Method::Global, Method::Match, clahe].map(|method| recoloured(method)[0]);
    let operations: Vec<_> = operations.chain(by_lut()).chain(with_hue).collect();
    for _ in 0..150 {
        let (width, height) = (1 + random.below(700) as u32, 1 + random.below(500) as u32);
        let layout = layout(width, height, random.pick(&PIXELS), random.pick(&DEPTHS));
        let operation = random.pick(&operations);
        fill(&mut memory, &layout, random.pick(&DATA), &mut random);
        let pixels = &mut memory.bytes_mut()[..layout.bytes() as usize];
        let mut counts = vec![0; count::length(&layout)];
        lane.count(pixels, &layout, ByteOrder::Native, &mut counts).unwrap();
        let mut expected_counts = vec![0; counts.len()];
        count::count(pixels, &layout, &mut expected_counts, &mut scratch);
        assert!(counts == expected_counts, "counts differ for {layout:?}");
        let reference = reference(&operation, &layout, &mut random);
        let mut expected = pixels.to_vec();
        equalize_like(&mut expected, &layout, &operation, &reference, &mut scratch);
        lane.equalize(pixels, &layout, NATIVE, &operation, &reference).unwrap();
        assert!(pixels == expected, "bytes differ for {layout:?}, {operation:?}");
    }
    gpu.unpin(memory.bytes_mut());
}

#[test]
fn clahe() {
    let Some(gpu) = gpu() else { return };
    let sizes = [(1, 1), (5, 3), (16, 16), (64, 48), (255, 257), (833, 599)];
    let layouts: Vec<_> = sizes.into_iter().flat_map(|(width, height)| every_layout(width, height)).collect();
    let data = [Data::Natural, Data::OneHotBin];
    for (seed, (clip_limit, tiles)) in [
        (2.0, Tiles::Grid { x: 8, y: 8 }),
        (0.0, Tiles::Grid { x: 1, y: 1 }),
        (40.0, Tiles::Grid { x: 3, y: 5 }),
        (2.5, Tiles::Pixels(32)),
    ]
    .into_iter()
    .enumerate()
    {
        compare(gpu.as_ref(), &layouts, &adaptively(clip_limit, tiles), &data, 7 + seed as u64);
    }
    let large =
        [layout(4096, 3072, Pixel::Gray, Depth::Eight), layout(4097, 3071, Pixel::Gray, Depth::Sixteen)];
    compare(gpu.as_ref(), &large, &adaptively(2.0, Tiles::Grid { x: 8, y: 8 }), &data, 11);
}

#[test]
fn every_strength() {
    let Some(gpu) = gpu() else { return };
    let sizes = [(1, 1), (7, 5), (64, 33), (257, 255), (833, 599)];
    let layouts: Vec<_> = sizes.into_iter().flat_map(|(width, height)| every_layout(width, height)).collect();
    for (seed, thousandths) in [0, 1, 500, 999].into_iter().enumerate() {
        let seed = 30 + seed as u64;
        compare(gpu.as_ref(), &layouts, &weakened(globally(), thousandths), &[Data::Natural], seed);
        let grid = adaptively(2.0, Tiles::Grid { x: 8, y: 8 });
        compare(gpu.as_ref(), &layouts, &weakened(grid, thousandths), &[Data::Natural], seed);
    }
    let large = [
        layout(5021, 5101, Pixel::Gray, Depth::Eight),
        layout(8191, 6001, Pixel::Gray, Depth::Eight),
        layout(4999, 4003, Pixel::Gray, Depth::Sixteen),
        layout(5003, 4001, Pixel::Rgb, Depth::Eight),
    ];
    compare(gpu.as_ref(), &large, &weakened(globally(), 600), &[Data::Natural], 40);
    compare(gpu.as_ref(), &large, &weakened(adaptively(3.0, Tiles::Pixels(300)), 600), &[Data::Natural], 41);
}

#[test]
fn the_automatic_clip_limit() {
    let Some(gpu) = gpu() else { return };
    let sizes = [(1, 1), (5, 3), (64, 48), (255, 257), (833, 599)];
    let layouts: Vec<_> = sizes.into_iter().flat_map(|(width, height)| every_layout(width, height)).collect();
    for (seed, tiles) in
        [Tiles::Grid { x: 8, y: 8 }, Tiles::Grid { x: 1, y: 1 }, Tiles::Pixels(96)].into_iter().enumerate()
    {
        let operations = automatically(tiles);
        compare(gpu.as_ref(), &layouts, &operations, &DATA, 50 + seed as u64);
        compare(gpu.as_ref(), &layouts, &weakened(operations, 500), &[Data::Natural], 60 + seed as u64);
    }
}

#[test]
fn methods_whose_luts_are_made_on_the_cpu() {
    let Some(gpu) = gpu() else { return };
    let sizes = [(1, 1), (7, 5), (64, 33), (257, 255), (833, 599)];
    let layouts: Vec<_> = sizes.into_iter().flat_map(|(width, height)| every_layout(width, height)).collect();
    compare(gpu.as_ref(), &layouts, &by_lut(), &DATA, 80);
    let strength = Strength::thousandths(600).unwrap();
    let weaker: Vec<_> = by_lut().into_iter().map(|operation| Operation { strength, ..operation }).collect();
    compare(gpu.as_ref(), &layouts, &weaker, &[Data::Natural], 81);
    compare_in(&not_native(), gpu.as_ref(), &of_16_bits(&sizes), &by_lut(), &[Data::Natural], 82);
    let large = [
        layout(5021, 5101, Pixel::Gray, Depth::Eight),
        layout(8191, 6001, Pixel::Gray, Depth::Eight),
        layout(5003, 4001, Pixel::Rgb, Depth::Eight),
        layout(4999, 4003, Pixel::Gray, Depth::Sixteen),
        layout(3001, 3003, Pixel::Rgba, Depth::Sixteen),
    ];
    compare(gpu.as_ref(), &large, &by_lut(), &[Data::Natural], 83);
    let Some(small) = gpu_with(Some(6_000_000)) else { return };
    let layouts: Vec<_> = every_layout(4001, 1777).collect();
    compare(small.as_ref(), &layouts, &by_lut(), &[Data::Natural], 84);
}

#[test]
fn fewer_levels_than_samples_have_room_for() {
    let Some(gpu) = gpu() else { return };
    let sizes = [(1, 1), (7, 5), (64, 33), (257, 255), (833, 599)];
    let all: Vec<_> = sizes.into_iter().flat_map(|(width, height)| every_layout(width, height)).collect();
    let deep = of_16_bits(&sizes);
    for (seed, number) in (0..).zip([2, 100, 256, 1000, 4096, 65_535]) {
        let with = |operation| Operation { levels: Levels::First(number), ..operation };
        let by_lut: Vec<_> = globally().into_iter().chain(by_lut()).map(with).collect();
        compare(gpu.as_ref(), &all, &by_lut, &[Data::Natural, Data::TwoValued], 120 + seed);
        compare_in(&not_native(), gpu.as_ref(), &deep, &by_lut, &[Data::Natural], 130 + seed);
        for tiles in [Tiles::Grid { x: 8, y: 8 }, Tiles::Pixels(17)] {
            let adaptive = [adaptively(2.0, tiles), adaptively(0.0, tiles), automatically(tiles)].concat();
            let adaptive: Vec<_> = adaptive.into_iter().map(with).collect();
            compare(gpu.as_ref(), &deep, &adaptive, &[Data::Natural, Data::Constant], 140 + seed);
            compare_in(&not_native(), gpu.as_ref(), &deep[4..], &adaptive, &[Data::Natural], 150 + seed);
        }
        let weaker =
            weakened(globally(), 300).into_iter().chain(weakened(adaptively(3.0, Tiles::Pixels(64)), 700));
        compare(gpu.as_ref(), &deep, &weaker.map(with).collect::<Vec<_>>(), &[Data::Natural], 160 + seed);
    }
    let large = [
        layout(4999, 4003, Pixel::Gray, Depth::Sixteen),
        layout(3001, 3003, Pixel::Rgba, Depth::Sixteen),
        layout(5003, 4001, Pixel::Rgb, Depth::Eight),
    ];
    let twelve_bits: Vec<_> =
        globally().map(|operation| Operation { levels: Levels::First(4096), ..operation }).into();
    compare(gpu.as_ref(), &large, &twelve_bits, &[Data::Natural], 170);
}

#[test]
fn clahe_of_fewer_levels_of_8_bits_is_left_to_the_cpu() {
    let Some(gpu) = gpu() else { return };
    let gray = layout(64, 33, Pixel::Gray, Depth::Eight);
    let [clahe, _] = adaptively(2.0, Tiles::Grid { x: 8, y: 8 });
    let clahe = Operation { levels: Levels::First(64), ..clahe };
    let mut lane = gpu.lane().unwrap();
    let before: Vec<u8> = (0..gray.bytes()).map(|at| (at % 64) as u8).collect();
    let mut pixels = before.clone();
    let declined = lane.equalize(&mut pixels, &gray, NATIVE, &clahe, &[]);
    assert!(matches!(declined, Err(LaneError::Decline(_))), "{declined:?}");
    assert!(pixels == before);
    // A number of levels that fills the depth is supported.
    let all = Operation { levels: Levels::First(256), ..clahe };
    lane.equalize(&mut pixels, &gray, NATIVE, &all, &[]).unwrap();
}

#[test]
fn luts_that_are_given() {
    let Some(gpu) = gpu() else { return };
    let sizes = [(1, 1), (2, 1), (1, 7), (16, 1), (15, 3), (64, 33), (257, 255), (833, 599), (2003, 1501)];
    let layouts: Vec<_> = sizes.into_iter().flat_map(|(width, height)| every_layout(width, height)).collect();
    compare_given(&[NATIVE], gpu.as_ref(), &layouts, 85);
    compare_given(&not_native(), gpu.as_ref(), &of_16_bits(&sizes), 86);
    let large: Vec<_> = every_layout(6007, 5903).collect();
    compare_given(&[NATIVE], gpu.as_ref(), &large, 87);
    let Some(small) = gpu_with(Some(6_000_000)) else { return };
    let layouts: Vec<_> = every_layout(4001, 1777).collect();
    compare_given(&[NATIVE], small.as_ref(), &layouts, 88);
    compare_given(&not_native(), small.as_ref(), &of_16_bits(&[(4001, 1777)]), 89);
}

#[test]
fn byte_orders_are_converted() {
    let Some(gpu) = gpu() else { return };
    let layouts = of_16_bits(&[(1, 1), (7, 5), (64, 33), (257, 255), (833, 599)]);
    let grid = Tiles::Grid { x: 8, y: 8 };
    let of_every_kind = [
        globally(),
        weakened(globally(), 600),
        adaptively(2.0, grid),
        // So many tiles that each pixel looks for its own four.
        adaptively(2.0, Tiles::Pixels(16)),
        weakened(adaptively(2.0, grid), 600),
        automatically(grid),
        weakened(automatically(grid), 600),
    ]
    .concat();
    let data = [Data::Natural, Data::Constant];
    compare_in(&not_native(), gpu.as_ref(), &layouts, &of_every_kind, &data, 70);
    // The LUT is in shared memory, and the largest goes in chunks.
    let large = of_16_bits(&[(2003, 1501), (4999, 4003)]);
    compare_in(&not_native(), gpu.as_ref(), &large, &globally(), &[Data::Natural], 71);
    let clahe = adaptively(2.0, grid);
    compare_in(&not_native(), gpu.as_ref(), &large[..1], &clahe, &[Data::Natural], 72);
}

#[test]
fn byte_orders_are_converted_in_a_ring() {
    let Some(gpu) = gpu_with(Some(6_000_000)) else { return };
    let layouts = of_16_bits(&[(4001, 1777)]);
    compare_in(&not_native(), gpu.as_ref(), &layouts, &globally(), &[Data::Natural], 73);
}

#[test]
fn pictures_of_the_other_byte_order_are_counted() {
    let Some(gpu) = gpu() else { return };
    let layouts = of_16_bits(&[(1, 1), (7, 7), (257, 255), (4001, 2777)]);
    compare_counts(gpu.as_ref(), &layouts, ByteOrder::Swapped, 74);
}

#[test]
fn colours_keep_their_hue_or_their_a_and_b() {
    let Some(gpu) = gpu() else { return };
    let sizes = [(1, 1), (2, 1), (1, 7), (16, 1), (15, 3), (64, 33), (257, 255), (833, 599)];
    let layouts: Vec<_> = sizes.into_iter().flat_map(|(width, height)| every_layout(width, height)).collect();
    let stretch = Method::Stretch(Stretch { low: 3_500, high: 20_000 });
    let clahe = |clip_limit, tiles| Method::Clahe(Clahe { clip_limit, tiles, noise: 0 });
    let (times, grid) = (ClipLimit::Times(2.0), Tiles::Grid { x: 8, y: 8 });
    let methods = [
        Method::Global,
        stretch,
        Method::Match,
        clahe(times, grid),
        clahe(ClipLimit::Auto, grid),
        clahe(times, Tiles::Pixels(17)),
    ];
    for (seed, method) in (180..).zip(methods) {
        let operations = recoloured(method);
        compare_recoloured(&[NATIVE], gpu.as_ref(), &layouts, &operations, seed);
        compare_recoloured(&[NATIVE], gpu.as_ref(), &layouts, &weakened(operations, 600), seed);
        compare_recoloured(&not_native(), gpu.as_ref(), &of_16_bits(&sizes), &operations, seed);
    }
    let fewer = [Method::Global, stretch, clahe(times, grid)];
    for (seed, number) in (190..).zip([2, 100, 4096]) {
        let with = |method| Operation { levels: Levels::First(number), ..recoloured(method)[0] };
        let operations = fewer.map(with);
        compare_recoloured(&[NATIVE], gpu.as_ref(), &layouts, &operations[..2], seed);
        compare_recoloured(&[NATIVE], gpu.as_ref(), &of_16_bits(&sizes), &operations, seed);
    }
}

#[test]
fn colours_keep_their_hue_in_chunks_and_in_a_ring() {
    let Some(gpu) = gpu() else { return };
    let large = [
        layout(5003, 4001, Pixel::Rgb, Depth::Eight),
        layout(3001, 3003, Pixel::Rgba, Depth::Eight),
        layout(3001, 3003, Pixel::Rgb, Depth::Sixteen),
    ];
    let stretch = Method::Stretch(Stretch { low: 0, high: 20_000 });
    let operations = [recoloured(Method::Global), recoloured(stretch)].concat();
    compare_recoloured(&[NATIVE], gpu.as_ref(), &large, &operations, 200);
    let Some(small) = gpu_with(Some(6_000_000)) else { return };
    let layouts: Vec<_> = every_layout(4001, 1777).collect();
    compare_recoloured(&[NATIVE], small.as_ref(), &layouts, &operations, 201);
}
