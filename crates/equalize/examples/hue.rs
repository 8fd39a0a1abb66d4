//! The costs of keeping the hue, of sparing noise and of an exposure, on one core.
//!
//! They run in turns on the same picture of 12.6 MP; each is the least of 15 runs. `cargo run
//! --release -p histeqd-equalize --example hue`

use std::time::Instant;

use histeqd_equalize::{
    Clahe, ClipLimit, Colour, Depth, Exposure, Layout, Method, Operation, Pixel, Scratch, Stretch, Tiles,
    equalize,
};

const RUNS: usize = 15;
const WIDTH: u32 = 4096;
const HEIGHT: u32 = 3072;

fn main() {
    let clahe = Clahe { clip_limit: ClipLimit::Times(2.0), tiles: Tiles::Grid { x: 8, y: 8 }, noise: 0 };
    for (name, method) in [("global", Method::Global), ("CLAHE", Method::Clahe(clahe))] {
        for pixel in [Pixel::Rgb, Pixel::Rgba] {
            for depth in [Depth::Eight, Depth::Sixteen] {
                let layout = Layout { width: WIDTH, height: HEIGHT, pixel, depth };
                let [luma, hue, noise, exposure] = nanoseconds(&layout, method);
                println!(
                    "{name}, {pixel:?}, {depth:?}: luma {luma:.2} ns a pixel, hue {hue:.2}, {:.2} times; with noise {noise:.2}, with exposure {exposure:.2}",
                    hue / luma
                );
            }
        }
    }
}

/// Returns the least nanoseconds per pixel for four operations.
///
/// They are luma, hue, hue with noise spared (by CLAHE), and hue with an exposure.
fn nanoseconds(layout: &Layout, method: Method) -> [f64; 4] {
    let luma = Operation::new(method);
    let hue = Operation { colour: Colour::Hue, ..luma };
    let spared = match method {
        Method::Clahe(clahe) => Method::Clahe(Clahe { noise: 96, ..clahe }),
        other => other,
    };
    let ends = Stretch { low: 1750, high: 1750 };
    let exposed = Operation { exposure: Some(Exposure { share: 1000, ends }), ..hue };
    let source = smooth(layout);
    let mut words = source.clone();
    let mut least = [f64::INFINITY; 4];
    let mut scratch = Scratch::default();
    for _ in 0..RUNS {
        for (least, operation) in
            least.iter_mut().zip([luma, hue, Operation { method: spared, ..hue }, exposed])
        {
            words.copy_from_slice(&source);
            let pixels = &mut bytemuck::cast_slice_mut(&mut words)[..layout.bytes() as usize];
            let start = Instant::now();
            equalize(pixels, layout, &operation, &mut scratch);
            *least = least.min(start.elapsed().as_secs_f64() * 1e9 / layout.pixels() as f64);
        }
    }
    least
}

/// Returns the bytes, in words, of a ramp with noise, of another slope in each channel.
fn smooth(layout: &Layout) -> Vec<u16> {
    let channels = layout.pixel.channels();
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut sample = |at: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        let ramp = at / channels % layout.width as usize * 14 / (1 + at % channels);
        (ramp + (state >> 52) as usize) as u16
    };
    match layout.depth {
        Depth::Sixteen => (0..layout.pixels() as usize * channels).map(sample).collect(),
        // Two samples a word.
        Depth::Eight => (0..layout.bytes() as usize / 2)
            .map(|at| (sample(2 * at) >> 8) | (sample(2 * at + 1) & 0xff00))
            .collect(),
    }
}
