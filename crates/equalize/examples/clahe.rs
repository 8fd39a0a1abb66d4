//! Times one gray PGM of 8 or 16 bits, once for each line on standard input.
//!
//! `benches/clahe_opencv.py` runs it in turns with OpenCV. `clahe PICTURE COLUMNS ROWS CLIP_LIMIT
//! [THREADS]` prints the seconds of CLAHE, or without tiles (0 0) those of global equalization;
//! several threads share the picture.

use std::error::Error;
use std::io::{BufRead, Write};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use histeqd_equalize::{
    Clahe, ClipLimit, Depth, Executor, Layout, Method, Operation, Pixel, Scratch, Tiles, equalize_on,
};

/// A number of threads that last no longer than a step of the work.
struct Threads(usize);

impl Executor for Threads {
    fn threads(&self) -> usize {
        self.0
    }

    fn for_each<P: Send>(&self, threads: usize, pieces: Vec<P>, work: impl Fn(P) + Sync) {
        let pieces = Mutex::new(pieces.into_iter());
        let next = || pieces.lock().unwrap_or_else(PoisonError::into_inner).next();
        let run = || {
            while let Some(piece) = next() {
                work(piece);
            }
        };
        std::thread::scope(|scope| {
            (1..threads).for_each(|_| drop(scope.spawn(run)));
            run();
        });
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [file, columns, rows, limit, threads @ ..] = &arguments[..] else {
        return Err("clahe PICTURE COLUMNS ROWS CLIP_LIMIT [THREADS]".into());
    };
    let (x, y) = (columns.parse()?, rows.parse()?);
    let clahe = Clahe { clip_limit: ClipLimit::Times(limit.parse()?), tiles: Tiles::Grid { x, y }, noise: 0 };
    let operation = Operation::new(if x == 0 { Method::Global } else { Method::Clahe(clahe) });
    let threads = Threads(threads.first().map_or(Ok(1), |threads| threads.parse())?);
    let (layout, words) = read(&std::fs::read(file)?)?;
    let source = &bytemuck::cast_slice(&words)[..layout.bytes() as usize];
    let (mut words, mut scratch) = (words.clone(), Scratch::default());
    let pixels = &mut bytemuck::cast_slice_mut(&mut words)[..source.len()];
    for _ in std::io::stdin().lock().lines() {
        let start = Instant::now();
        equalize_on(&threads, Some(source), pixels, &layout, &operation, &[], &mut scratch);
        println!("{}", start.elapsed().as_secs_f64());
        std::io::stdout().flush()?;
    }
    Ok(())
}

/// Reads a binary PGM without comments.
fn read(file: &[u8]) -> Result<(Layout, Vec<u16>), Box<dyn Error>> {
    let header: Vec<&[u8]> = file.splitn(5, u8::is_ascii_whitespace).collect();
    let [b"P5", width, height, top, pixels] = header[..] else { return Err("a PGM begins with P5".into()) };
    let number = |text: &[u8]| -> Result<u32, Box<dyn Error>> { Ok(std::str::from_utf8(text)?.parse()?) };
    let depth = if number(top)? > 255 { Depth::Sixteen } else { Depth::Eight };
    let layout = Layout { width: number(width)?, height: number(height)?, pixel: Pixel::Gray, depth };
    let mut words = vec![0; pixels.len().div_ceil(2)];
    bytemuck::cast_slice_mut(&mut words)[..pixels.len()].copy_from_slice(pixels);
    if depth == Depth::Sixteen {
        words.iter_mut().for_each(|word: &mut u16| *word = u16::from_be(*word));
    }
    Ok((layout, words))
}
