//! Benchmarks of this machine: the ladder (`histeqd bench`) and `histeqd bench lanes`.
//!
//! The ladder compares published ways of equalizing a picture with histeqd's own, one rung each. Its process does nothing else, so it
//! loads CUDA itself, without worker processes. `rungs` has the list of rungs and runs each; `scene` is the picture with its expected
//! results; `gpu` and `kernels` are a GPU and the kernels of `kernels/ladder.cu`; `ladder` measures all rungs; `table` and `plot`
//! show the results.

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
use ladder::LadderReport;

/// Runs `histeqd bench` and returns what it prints.
///
/// # Errors
/// When the command is invalid or the plot cannot be written, and those of [`lanes::report`]. A rung that fails is reported in its row.
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

fn draw(climbed: &LadderReport, command: &LadderCommand) -> Result<(), Error> {
    let Some(path) = &command.plot else { return Ok(()) };
    let cannot = |error| Error::CannotRun(format!("{} cannot be written: {error}", Shown(path)));
    let drawn = crate::plot::draw(&plot::Bars::new(climbed), path).map_err(cannot)?;
    fs::write(path, drawn).map_err(|error| cannot(error.to_string()))
}

/// Pixels of the largest picture that is measured with. Many are held at a time, in several forms.
const MAX_PIXELS: u64 = 1 << 28;

/// Parses a width and a height, neither of them 0.
fn size(text: &str) -> Result<(u32, u32), Error> {
    let (width, height) = text
        .split_once(['x', 'X'])
        .and_then(|(width, height)| Some((width.parse().ok()?, height.parse().ok()?)))
        .filter(|&(width, height): &(u32, u32)| width > 0 && height > 0)
        .ok_or_else(|| Error::Usage(format!("--size is WIDTHxHEIGHT, such as 4096x3072, not {text}")))?;
    if u64::from(width) * u64::from(height) > MAX_PIXELS {
        let most = MAX_PIXELS >> 20;
        return Err(Error::Usage(format!("--size {text} is too large: at most {most} x 2^20 pixels")));
    }
    Ok((width, height))
}
