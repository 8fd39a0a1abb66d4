//! Sends pictures from pinned host memory through a GPU's lanes and back, as a worker does: `cargo bench --bench lanes`.
//!
//! Each lane processes two slots in turn, one picture at a time. Prints the throughput of the bus in each direction, and pictures per
//! second. Without a GPU it only prints that it was skipped.

use std::sync::Barrier;
use std::thread;
use std::time::Instant;

use equalize::{ByteOrders, Clahe, ClipLimit, Depth, Layout, Method, Operation, Pixel, Tiles};
use histeqd::slot::Memory;
use lanes::{Engine, Unit, open};

fn main() {
    let engine = match open(Unit::Gpu(0), None) {
        Ok(engine) => engine,
        Err(reason) => return println!("skipped: {reason}"),
    };
    if let Some(info) = engine.info() {
        println!("{info:?}");
    }
    let global = Operation::new(Method::Global);
    let tiles = Tiles::Grid { x: 8, y: 8 };
    let clahe = Operation::new(Method::Clahe(Clahe { clip_limit: ClipLimit::Times(2.0), tiles }));
    let gray = |width, height| Layout { width, height, pixel: Pixel::Gray, depth: Depth::Eight };
    println!("{:<42} {:>5} {:>14} {:>12}", "picture", "lanes", "GB/s each way", "pictures/s");
    for (name, layout, operation) in [
        ("4096x3072 gray", gray(4096, 3072), global),
        ("4096x3072 gray, CLAHE", gray(4096, 3072), clahe),
        ("4096x3072 RGB", Layout { pixel: Pixel::Rgb, ..gray(4096, 3072) }, global),
        ("4096x3072 gray, 16 bit", Layout { depth: Depth::Sixteen, ..gray(4096, 3072) }, global),
        ("1920x1080 gray", gray(1920, 1080), global),
        ("512x512 gray", gray(512, 512), global),
    ] {
        for lanes in [1, 2, 3, 4, 6] {
            measure(engine.as_ref(), name, layout, operation, lanes, (4 << 30) / layout.bytes() as usize);
        }
    }
    let large = gray(16384, 16384);
    measure(engine.as_ref(), "16384x16384 gray", large, global, 1, 12);
    measure(engine.as_ref(), "16384x16384 gray, CLAHE", large, clahe, 1, 12);
}

/// Measures how fast `pictures` pictures, divided among the lanes, go through.
fn measure(
    engine: &dyn Engine,
    name: &str,
    layout: Layout,
    operation: Operation,
    lanes: usize,
    pictures: usize,
) {
    let each = (pictures / lanes).clamp(1, 20_000);
    let ready = Barrier::new(lanes + 1);
    let seconds = thread::scope(|scope| {
        let workers: Vec<_> = (0..lanes)
            .map(|lane| {
                let ready = &ready;
                scope.spawn(move || work(engine, layout, operation, each, lane as u32, ready))
            })
            .collect();
        ready.wait();
        let begin = Instant::now();
        ready.wait();
        let seconds = begin.elapsed().as_secs_f64();
        workers.into_iter().for_each(|worker| worker.join().expect("a lane does not panic"));
        seconds
    });
    let done = (each * lanes) as f64;
    let bytes = done * layout.bytes() as f64;
    println!("{name:<42} {lanes:>5} {:>14.1} {:>12.0}", bytes / seconds / 1e9, done / seconds);
}

fn work(
    engine: &dyn Engine,
    layout: Layout,
    operation: Operation,
    pictures: usize,
    seed: u32,
    ready: &Barrier,
) {
    let mut lane = engine.lane().expect("room for a lane");
    let mut slots: Vec<_> = (0..2)
        .map(|_| {
            let mut slot = Memory::shared(layout.bytes() as usize).expect("room for a slot");
            let mut state = seed | 1;
            for byte in slot.bytes_mut() {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                *byte = (state >> 25) as u8;
            }
            engine.pin(slot.bytes_mut()).expect("slots can be pinned");
            lane.equalize(slot.bytes_mut(), &layout, ByteOrders::NATIVE, &operation, &[])
                .expect("the GPU works");
            slot
        })
        .collect();
    ready.wait();
    for picture in 0..pictures {
        let slot = &mut slots[picture % 2];
        lane.equalize(slot.bytes_mut(), &layout, ByteOrders::NATIVE, &operation, &[]).expect("the GPU works");
    }
    ready.wait();
    slots.iter_mut().for_each(|slot| engine.unpin(slot.bytes_mut()));
}
