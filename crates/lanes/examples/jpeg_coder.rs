//! Times recoding JPEGs on the first GPU, from files in pinned memory to files there: `jpeg_coder
//! FOLDER BATCH ROUNDS LANES` prints megapixels per second of lanes that work at the same time,
//! each on its own batches.

use std::error::Error;
use std::sync::Barrier;
use std::time::Instant;

use codec::JpegQuality;
use codec::Size;
use codec::baseline::BaselinePicture;
use codec::coders::CompressedJpeg;
use equalize::{Clahe, ClipLimit, Depth, Layout, Method, Operation, Pixel, Tiles};
use histeqd_lanes::{Engine, Order, Recoded, Recoding, Unit, open};

const USAGE: &str = "usage: jpeg_coder FOLDER BATCH ROUNDS LANES";

/// A file, its description, and the bytes of its slot.
type Picture<'f> = (&'f [u8], CompressedJpeg, usize);

fn main() -> Result<(), Box<dyn Error + Send + Sync>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [folder, batch, rounds, lanes] = &arguments[..] else { return Err(USAGE.into()) };
    let (batch, rounds, lanes): (usize, usize, usize) = (batch.parse()?, rounds.parse()?, lanes.parse()?);
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        paths.push(entry?.path());
    }
    paths.sort();
    let files = paths.iter().map(std::fs::read).collect::<Result<Vec<_>, _>>()?;
    let mut pictures = Vec::new();
    for file in files.iter().cycle().take(batch) {
        let Size { width, height } = BaselinePicture::read(file).ok_or("a file is no baseline JPEG")?.size;
        let layout = Layout { width, height, pixel: Pixel::Gray, depth: Depth::Eight };
        let (bytes, quality) = (file.len() as u64, JpegQuality::Keep);
        let jpeg = CompressedJpeg { bytes, layout, quality };
        pictures.push((&file[..], jpeg, (jpeg.slot_bytes() as usize).next_multiple_of(4096)));
    }
    let pixels: f64 = pictures.iter().map(|(_, jpeg, _)| jpeg.layout.pixels() as f64).sum();
    let bits: f64 = pictures.iter().map(|(file, ..)| 8.0 * file.len() as f64).sum();
    let engine = open(Unit::Gpu(0), None)?;
    let tiles = Tiles::Grid { x: 8, y: 8 };
    let clahe = Method::Clahe(Clahe { clip_limit: ClipLimit::Times(3.0), tiles, noise: 0 });
    for (name, method) in [("global", Method::Global), ("clahe", clahe)] {
        let barrier = Barrier::new(lanes + 1);
        let seconds = std::thread::scope(|scope| {
            let work = || recode(&*engine, &pictures, rounds, method, &barrier);
            let working: Vec<_> = (0..lanes).map(|_| scope.spawn(work)).collect();
            barrier.wait();
            let started = Instant::now();
            barrier.wait();
            let seconds = started.elapsed().as_secs_f64();
            for lane in working {
                lane.join().map_err(|_| "a lane panicked")??;
            }
            Ok::<_, Box<dyn Error + Send + Sync>>(seconds)
        })?;
        let speed = pixels / 1e6 * (rounds * lanes) as f64 / seconds;
        println!("{name}, {lanes} lanes: {speed:.0} MP/s at {:.2} bits a pixel", bits / pixels);
    }
    Ok(())
}

/// Recodes the pictures once, and then, between two waits for the others, so many times.
fn recode(
    engine: &dyn Engine,
    pictures: &[Picture<'_>],
    rounds: usize,
    method: Method,
    barrier: &Barrier,
) -> Result<(), Box<dyn Error + Send + Sync>> {
    let bytes: usize = pictures.iter().map(|(.., bytes)| bytes).sum();
    let mut memory = vec![0; bytes * (rounds + 1)];
    let made = engine.pin(&mut memory).and_then(|()| engine.jpeg_lane());
    let mut lane = match made {
        Ok(lane) => lane,
        Err(error) => {
            // The others wait for this lane, too.
            barrier.wait();
            barrier.wait();
            return Err(error.into());
        }
    };
    let mut all = Vec::new();
    let mut rest = &mut memory[..];
    for &(file, jpeg, bytes) in pictures.iter().cycle().take(pictures.len() * (rounds + 1)) {
        let (slot, behind) = rest.split_at_mut(bytes);
        slot[..file.len()].copy_from_slice(file);
        let (operation, answer) = (Operation::new(method), Recoded::Declined(String::new()));
        all.push(Recoding { slot, jpeg, order: Order::Equalize(operation), answer });
        rest = behind;
    }
    let (first, others) = all.split_at_mut(pictures.len());
    let mut run = |pictures: &mut [Recoding<'_>]| lane.recode(pictures);
    let warm = run(first);
    barrier.wait();
    let done = others.chunks_mut(pictures.len()).try_for_each(run);
    barrier.wait();
    warm.and(done)?;
    let left = all.iter().filter(|one| matches!(one.answer, Recoded::Declined(_))).count();
    engine.unpin(&mut memory);
    if left > 0 { Err(format!("{left} are left to the CPU").into()) } else { Ok(()) }
}
