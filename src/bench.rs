//! What this machine can do: `histeqd bench`, the ladder, and `histeqd bench lanes`.
//!
//! The ladder puts the published ways of equalizing a picture side by side with histeqd's own. It is a process of its own that does
//! nothing else, and so it loads CUDA itself. `rungs` is the list, and how each rung runs; `scene` the picture and its right
//! results; `gpu` and `kernels` a GPU and the kernels of `kernels/ladder.cu`; `ladder` climbs; `table` and `plot` show.

mod cuda;
mod gpu;
mod kernels;
mod ladder;
pub mod lanes;
mod measure;
mod plot;
mod rungs;
mod scene;
mod table;

use std::fs;

use crate::cli::{BenchCommand, BenchPart, LadderCommand};
use crate::error::Error;
use crate::paths::Shown;
use ladder::Climbed;

/// What `histeqd bench` prints.
///
/// # Errors
/// When the command makes no sense, the plot cannot be written, or as [`lanes::report`]. A rung that fails says so in its row.
pub fn report(command: &BenchCommand) -> Result<String, Error> {
    match &command.part {
        Some(BenchPart::Lanes(command)) => lanes::report(command),
        None => climb(&command.ladder),
    }
}

fn climb(command: &LadderCommand) -> Result<String, Error> {
    let (width, height) = size(&command.size)?;
    if !width.is_multiple_of(scene::GRAIN) || !height.is_multiple_of(scene::GRAIN) {
        return Err(Error::Usage(format!(
            "--size {}: both have to be multiples of {}",
            command.size,
            scene::GRAIN
        )));
    }
    let climbed = ladder::climb((width, height), command)?;
    draw(&climbed, command)?;
    Ok(match command.json {
        true => serde_json::to_string_pretty(&climbed).expect("times and names are JSON") + "\n",
        false => table::render(&climbed, command.explain),
    })
}

fn draw(climbed: &Climbed, command: &LadderCommand) -> Result<(), Error> {
    let Some(path) = &command.plot else { return Ok(()) };
    let cannot = |error| Error::CannotRun(format!("{} cannot be written: {error}", Shown(path)));
    let drawn = crate::plot::draw(&plot::Bars::new(climbed), path).map_err(cannot)?;
    fs::write(path, drawn).map_err(|error| cannot(error.to_string()))
}

/// Pixels of the largest picture that is measured with. Many are held at a time, in several forms.
const MOST_PIXELS: u64 = 1 << 28;

/// Width and height, neither of them 0.
fn size(text: &str) -> Result<(u32, u32), Error> {
    let (width, height) = text
        .split_once(['x', 'X'])
        .and_then(|(width, height)| Some((width.parse().ok()?, height.parse().ok()?)))
        .filter(|&(width, height): &(u32, u32)| width > 0 && height > 0)
        .ok_or_else(|| Error::Usage(format!("--size is WIDTHxHEIGHT, such as 4096x3072, not {text}")))?;
    if u64::from(width) * u64::from(height) > MOST_PIXELS {
        let most = MOST_PIXELS >> 20;
        return Err(Error::Usage(format!("--size {text} is too large: at most {most} x 2^20 pixels")));
    }
    Ok((width, height))
}
