//! Times CLAHE of one gray PGM of 8 or 16 bits, once for each line on standard input: `benches/clahe_opencv.py` runs it in turns with
//! OpenCV. `clahe PICTURE COLUMNS ROWS CLIP_LIMIT [LANES]` prints seconds; with several lanes, as many pictures are equalized at once,
//! and the time is that of all divided by their number.

use std::error::Error;
use std::io::{BufRead, Write};
use std::time::Instant;

use histeqd_equalize::{Clahe, ClipLimit, Depth, Layout, Method, Operation, Pixel, Scratch, Tiles, equalize};

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [file, columns, rows, limit, lanes @ ..] = &arguments[..] else {
        return Err("clahe PICTURE COLUMNS ROWS CLIP_LIMIT [LANES]".into());
    };
    let tiles = Tiles::Grid { x: columns.parse()?, y: rows.parse()? };
    let operation =
        Operation::new(Method::Clahe(Clahe { clip_limit: ClipLimit::Times(limit.parse()?), tiles }));
    let lanes = lanes.first().map_or(Ok(1), |lanes| lanes.parse())?;
    let (layout, words) = read(&std::fs::read(file)?)?;
    let mut workplaces: Vec<_> = (0..lanes).map(|_| (words.clone(), Scratch::default())).collect();
    for _ in std::io::stdin().lock().lines() {
        workplaces.iter_mut().for_each(|(pixels, _)| pixels.copy_from_slice(&words));
        let start = Instant::now();
        std::thread::scope(|scope| {
            for (pixels, scratch) in &mut workplaces {
                let pixels = &mut bytemuck::cast_slice_mut(pixels)[..layout.bytes() as usize];
                scope.spawn(|| equalize(pixels, &layout, &operation, scratch));
            }
        });
        println!("{}", start.elapsed().as_secs_f64() / f64::from(lanes));
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
