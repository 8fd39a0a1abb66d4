//! Several threads make the same bytes as one, in place and from a separate source.
//!
//! The order of the pieces does not matter.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use histeqd_equalize::count::{count, count_on, length};
use histeqd_equalize::{
    Clahe, ClipLimit, Colour, Depth, Executor, Exposure, Layout, Levels, Method, Operation, Pixel, Scratch,
    Strength, Stretch, Tiles, equalize, equalize_on,
};

/// Two threads that take the last piece first.
#[derive(Default)]
struct Backwards {
    pieces: AtomicUsize,
}

impl Executor for Backwards {
    fn threads(&self) -> usize {
        3
    }

    fn for_each<P: Send>(&self, threads: usize, pieces: Vec<P>, work: impl Fn(P) + Sync) {
        assert!((2..=3).contains(&threads) && threads <= pieces.len(), "no more threads than pay off");
        self.pieces.fetch_add(pieces.len(), Ordering::Relaxed);
        let pieces = Mutex::new(pieces);
        let next = || pieces.lock().expect("no piece panics").pop();
        let run = || {
            while let Some(piece) = next() {
                work(piece);
            }
        };
        std::thread::scope(|scope| {
            scope.spawn(run);
            run();
        });
    }
}

/// Samples with structure and noise, below `levels`.
fn samples(layout: &Layout, levels: usize) -> Vec<u8> {
    let row = layout.width as usize * layout.pixel.channels();
    let mut state = 0x9e37_79b9_u32;
    let sample = |at: usize| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let wave = ((at % row) * 3 + at / row * 5) % levels;
        (wave * 3 / 4 + (state >> 16) as usize % (levels / 4)) as u16
    };
    let samples: Vec<u16> = (0..row * layout.height as usize).map(sample).collect();
    match layout.depth {
        Depth::Eight => samples.into_iter().map(|sample| sample as u8).collect(),
        Depth::Sixteen => bytemuck::cast_slice(&samples).to_vec(),
    }
}

/// Compares several threads with one. Returns the number of pieces.
fn assert_same(layout: Layout, operation: Operation) -> usize {
    // Words, to keep 16-bit samples at even addresses.
    let bytes = layout.bytes() as usize;
    let mut words = [(); 3].map(|()| vec![0_u16; bytes.div_ceil(2)]);
    let [source, alone, shared] = words.each_mut().map(|words| &mut bytemuck::cast_slice_mut(words)[..bytes]);
    source.copy_from_slice(&samples(&layout, operation.levels.number(layout.depth)));
    alone.copy_from_slice(source);
    equalize(alone, &layout, &operation, &mut Scratch::default());
    let (executor, mut scratch) = (Backwards::default(), Scratch::default());
    for from_elsewhere in [true, false] {
        let source = if from_elsewhere {
            Some(&*source)
        } else {
            shared.copy_from_slice(source);
            None
        };
        equalize_on(&executor, source, shared, &layout, &operation, &[], &mut scratch);
        assert!(shared == alone, "{layout:?} {operation:?} {from_elsewhere}");
    }
    executor.pieces.into_inner()
}

const COLOURS: [(Pixel, Colour); 6] = [
    (Pixel::Gray, Colour::Luma),
    (Pixel::Rgb, Colour::Luma),
    (Pixel::Rgb, Colour::Hue),
    (Pixel::Rgb, Colour::PerChannel),
    (Pixel::Rgba, Colour::Luma),
    (Pixel::Rgba, Colour::Hue),
];

#[test]
fn global_equalization() {
    for depth in [Depth::Eight, Depth::Sixteen] {
        let linked = [(Pixel::Rgb, Colour::Linked), (Pixel::Rgba, Colour::Linked)];
        for (pixel, colour) in COLOURS.into_iter().chain(linked) {
            let layout = Layout { width: 811, height: 797, pixel, depth };
            let pieces = assert_same(layout, Operation { colour, ..Operation::new(Method::Global) });
            assert!(pieces > 20, "{pieces}");
        }
    }
}

#[test]
fn clahe() {
    for depth in [Depth::Eight, Depth::Sixteen] {
        for (pixel, colour) in COLOURS {
            let tiles = Tiles::Grid { x: 8, y: 8 };
            let clahe = Clahe { clip_limit: ClipLimit::Times(2.0), tiles, noise: 0 };
            let layout = Layout { width: 811, height: 797, pixel, depth };
            let operation = Operation { colour, ..Operation::new(Method::Clahe(clahe)) };
            let pieces = assert_same(layout, operation);
            assert!(pieces > 20, "{pieces}");
        }
    }
}

#[test]
fn clahe_of_any_tiles_and_limit() {
    for ((width, height), (x, y), clip_limit, depth) in [
        ((800, 800), (1, 1), ClipLimit::Times(3.0), Depth::Eight),
        ((701, 901), (2, 3), ClipLimit::Times(3.0), Depth::Sixteen),
        ((701, 901), (40, 30), ClipLimit::Auto, Depth::Sixteen),
        ((701, 901), (400, 300), ClipLimit::Times(3.0), Depth::Eight),
        ((5, 130_000), (8, 8), ClipLimit::Auto, Depth::Sixteen),
        ((130_000, 5), (8, 8), ClipLimit::Auto, Depth::Eight),
    ] {
        let clahe = Clahe { clip_limit, tiles: Tiles::Grid { x, y }, noise: 96 };
        let strength = Strength::thousandths(700).unwrap();
        let operation = Operation { strength, ..Operation::new(Method::Clahe(clahe)) };
        assert_same(Layout { width, height, pixel: Pixel::Gray, depth }, operation);
        let exposure = Some(Exposure { share: 900, ends: Stretch { low: 1_750, high: 1_750 } });
        assert_same(Layout { width, height, pixel: Pixel::Gray, depth }, Operation { exposure, ..operation });
    }
}

#[test]
fn fewer_levels_than_there_is_room_for() {
    let layout = Layout { width: 811, height: 797, pixel: Pixel::Rgb, depth: Depth::Sixteen };
    let clahe = Clahe { clip_limit: ClipLimit::Auto, tiles: Tiles::Grid { x: 8, y: 8 }, noise: 0 };
    for method in [Method::Global, Method::Clahe(clahe)] {
        assert_same(layout, Operation { levels: Levels::First(4096), ..Operation::new(method) });
    }
}

/// A picture of one level stays as it is with an automatic limit.
///
/// It has to be copied all the same.
#[test]
fn what_stays_as_it_is_arrives() {
    let layout = Layout { width: 800, height: 800, pixel: Pixel::Gray, depth: Depth::Sixteen };
    let clahe = Clahe { clip_limit: ClipLimit::Auto, tiles: Tiles::Grid { x: 8, y: 8 }, noise: 0 };
    let (source, mut shared) = (vec![700_u16; 800 * 800], vec![0_u16; 800 * 800]);
    let operation = Operation::new(Method::Clahe(clahe));
    let pixels = bytemuck::cast_slice_mut(&mut shared);
    let from = Some(bytemuck::cast_slice(&source));
    equalize_on(&Backwards::default(), from, pixels, &layout, &operation, &[], &mut Scratch::default());
    assert_eq!(shared, source);
}

#[test]
fn counts() {
    let layout = Layout { width: 811, height: 797, pixel: Pixel::Rgba, depth: Depth::Eight };
    let pixels = samples(&layout, 256);
    let [mut alone, mut shared] = [(); 2].map(|()| vec![0; length(&layout)]);
    count(&pixels, &layout, &mut alone, &mut Scratch::default());
    count_on(&Backwards::default(), &pixels, &layout, &mut shared, &mut Scratch::default());
    assert_eq!(alone, shared);
}
