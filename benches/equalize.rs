//! Measures the arithmetic on one core, in pixels per second, next to a copy of the same bytes.
//!
//! The copy is the ceiling for any work that reads and writes them once. `cargo bench --package
//! histeqd-benches --bench equalize [-- FILTER]`.
//!
//! The picture has 8192 x 6144 pixels, too many for any cache. Its content affects the speed of
//! counting: equal neighbours wait for each other's increments, and unrelated ones touch more of
//! the tables.

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use std::hint::black_box;

use equalize::histogram::Tally;
use equalize::{
    Clahe, ClipLimit, Colour, Depth, Layout, Method, Operation, Pixel, Sample, Scratch, Tiles, equalize,
};

const WIDTH: u32 = 8192;
const HEIGHT: u32 = 6144;
const PIXELS: usize = WIDTH as usize * HEIGHT as usize;
const CLAHE: Method =
    Method::Clahe(Clahe { clip_limit: ClipLimit::Times(2.0), tiles: Tiles::Grid { x: 8, y: 8 }, noise: 0 });

/// The content of a picture.
#[derive(Clone, Copy)]
enum Content {
    /// Uniform noise over all levels.
    Noise,
    /// A ramp across the picture with a little noise, much like a photograph.
    Smooth,
    Constant,
}

/// Makes samples of `bits` bits.
fn samples(count: usize, content: Content, bits: u32) -> Vec<u16> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut noise = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 48) as u16
    };
    let sample = |at: usize| match content {
        Content::Noise => noise() >> (16 - bits),
        Content::Smooth => {
            let ramp = (at % WIDTH as usize * 7) as u16;
            (ramp + noise() % 2048) >> (16 - bits)
        }
        Content::Constant => 77,
    };
    (0..count).map(sample).collect()
}

fn bytes(count: usize, content: Content) -> Vec<u8> {
    samples(count, content, 8).into_iter().map(|sample| sample as u8).collect()
}

/// The ceilings: copies of the bytes of a picture.
///
/// The pictures are 8-bit gray, 16-bit gray and 8-bit RGB.
fn copies(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("copy");
    group.throughput(Throughput::Elements(PIXELS as u64));
    for (name, pixel_bytes) in [("1 byte a pixel", 1), ("2 bytes a pixel", 2), ("3 bytes a pixel", 3)] {
        let from = bytes(PIXELS * pixel_bytes, Content::Smooth);
        let mut to = vec![1; from.len()];
        group.bench_function(name, |bencher| bencher.iter(|| black_box(&mut to).copy_from_slice(&from)));
    }
}

/// The steps of global equalization, separately.
fn steps(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("step");
    group.throughput(Throughput::Elements(PIXELS as u64));
    for (name, content) in
        [("noise", Content::Noise), ("smooth", Content::Smooth), ("constant", Content::Constant)]
    {
        let gray = bytes(PIXELS, content);
        let mut tally = Tally::new(256);
        group.bench_function(format!("histogram, gray 8, {name}"), |bencher| {
            bencher.iter(|| tally.add_rows(black_box(&gray), WIDTH as usize));
        });
        let gray = samples(PIXELS, content, 16);
        let mut tally = Tally::new(65536);
        group.bench_function(format!("histogram, gray 16, {name}"), |bencher| {
            bencher.iter(|| tally.add_rows(black_box(&gray), WIDTH as usize));
        });
    }
    let mut gray = bytes(PIXELS, Content::Smooth);
    let lut: Vec<u8> = (0..=255).map(|level: u8| level.rotate_left(3)).collect();
    group.bench_function("map, gray 8", |bencher| bencher.iter(|| u8::map(black_box(&mut gray), &lut)));
    let mut wide = samples(PIXELS, Content::Smooth, 16);
    let lut: Vec<u16> = (0..=u16::MAX).rev().collect();
    group.bench_function("map, gray 16", |bencher| bencher.iter(|| u16::map(black_box(&mut wide), &lut)));
    let mut rgb = bytes(3 * PIXELS, Content::Smooth);
    let (from, to) = (bytes(PIXELS, Content::Smooth), bytes(PIXELS, Content::Noise));
    group.bench_function("shift_luma, RGB 8", |bencher| {
        bencher.iter(|| u8::shift_luma::<3>(black_box(&mut rgb), &from, &to));
    });
}

/// Whole equalizations, as a lane runs them.
fn whole(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("equalize");
    group.throughput(Throughput::Elements(PIXELS as u64)).sample_size(10);
    let mut scratch = Scratch::default();
    for (method_name, method) in [("global", Method::Global), ("CLAHE", CLAHE)] {
        for (name, pixel, colour) in [
            ("gray", Pixel::Gray, Colour::Luma),
            ("gray + alpha", Pixel::GrayAlpha, Colour::Luma),
            ("RGB", Pixel::Rgb, Colour::Luma),
            ("RGB with its hue", Pixel::Rgb, Colour::Hue),
            ("RGB by channel", Pixel::Rgb, Colour::PerChannel),
            ("RGBA", Pixel::Rgba, Colour::Luma),
            ("RGBA with its hue", Pixel::Rgba, Colour::Hue),
        ] {
            let operation = Operation { colour, ..Operation::new(method) };
            for (bits, depth) in [(8, Depth::Eight), (16, Depth::Sixteen)] {
                let layout = Layout { width: WIDTH, height: HEIGHT, pixel, depth };
                let mut words = samples(PIXELS * pixel.channels(), Content::Smooth, 16);
                let pixels = &mut bytemuck::cast_slice_mut(&mut words)[..layout.bytes() as usize];
                group.bench_function(format!("{method_name}, {name} {bits}"), |bencher| {
                    bencher.iter(|| equalize(black_box(pixels), &layout, &operation, &mut scratch));
                });
            }
        }
    }
}

criterion_group! {
    name = benches;
    config = Criterion::default()
        .warm_up_time(std::time::Duration::from_millis(300))
        .measurement_time(std::time::Duration::from_secs(1));
    targets = copies, steps, whole
}
criterion_main!(benches);
