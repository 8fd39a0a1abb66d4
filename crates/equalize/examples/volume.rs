//! Times CLAHE of a volume, once for each line on standard input.
//!
//! `benches/volumes.py` runs it in turns with scikit-image. `volume FILE BITS WIDTH HEIGHT PAGES
//! CLIP_LIMIT COLUMNS ROWS LAYERS THREADS` reads samples in the processor's byte order, prints the
//! seconds, and leaves the result in the file. A clip limit of 0 is that of `auto`.

use std::error::Error;
use std::io::{BufRead, Write};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use histeqd_equalize::clahe::equalize_volume_on;
use histeqd_equalize::{Clahe, ClipLimit, Depth, Executor, Layout, Method, Operation, Pixel, Tiles};

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
    let [file, numbers @ ..] = &arguments[..] else { return Err("volume FILE NUMBERS".into()) };
    let numbers: Vec<u32> = numbers.iter().map(|number| number.parse()).collect::<Result<_, _>>()?;
    let [bits, width, height, pages, limit, x, y, z, threads] = numbers[..] else {
        return Err("BITS WIDTH HEIGHT PAGES CLIP_LIMIT COLUMNS ROWS LAYERS THREADS".into());
    };
    let depth = if bits == 8 { Depth::Eight } else { Depth::Sixteen };
    let layout = Layout { width, height, pixel: Pixel::Gray, depth };
    let clip_limit = if limit == 0 { ClipLimit::Auto } else { ClipLimit::Times(limit.into()) };
    let clahe = Clahe { clip_limit, tiles: Tiles::Boxes { x, y, z }, noise: 0 };
    let operation = Operation::new(Method::Clahe(clahe));
    let bytes = std::fs::read(file)?;
    // Samples of 16 bits need an even address.
    let mut room = vec![0_u64; bytes.len().div_ceil(size_of::<u64>())];
    let volume = &mut bytemuck::cast_slice_mut(&mut room)[..bytes.len()];
    for _ in std::io::stdin().lock().lines() {
        volume.copy_from_slice(&bytes);
        let start = Instant::now();
        equalize_volume_on(&Threads(threads as usize), volume, &layout, pages as usize, &operation);
        println!("{}", start.elapsed().as_secs_f64());
        std::io::stdout().flush()?;
    }
    Ok(std::fs::write(file, volume)?)
}
