//! The ladder: published ways of equalizing a picture next to histeqd's own, on this machine.
//!
//! The process does no other work, and loads CUDA itself, without worker processes. `rungs` has the
//! list of rungs and runs each; `picture` is the picture with its expected results; `gpu` and
//! `kernels` are a GPU and the kernels of `kernels/ladder.cu`; `ladder` measures all rungs; `table`
//! and `bars` show the results.

mod bars;
mod cuda;
mod gpu;
mod kernels;
mod ladder;
mod measure;
mod picture;
mod report;
mod rungs;
mod table;

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Parser;
use plot::PlotFormat;

use ladder::climb;
use report::LadderReport;

const LONG_ABOUT: &str = "\
Measures the ways of equalizing a picture on this machine, side by side: the ladder.

It begins with what the bus and the memory allow at best. Then come, rung by rung, the
ways that others have published: histograms with and without shared memory, the LUT in
each kind of GPU memory, the kinds of host memory, streams, CLAHE, several GPUs; and
histeqd's own. All of them do the same picture, in memory, and each result is compared
with the CPU's.

The time of the kernels is the GPU's own, with the picture in its memory; the whole
time is from the picture in host memory to the result in host memory. Both are medians
of some rounds. Without a GPU the rungs on the CPU are measured alone.";

const AFTER: &str = "\
Examples, with `cargo run --release -p ladder --` in place of `ladder`:
  ladder                        a table, within seconds
  ladder --explain              with an explanation of every rung
  ladder --plot ladder.svg      with a bar chart
  ladder --only clahe           only the rungs of CLAHE";

/// The command line of the ladder.
#[derive(Debug, Parser)]
#[command(about = "Compare ways of equalizing a picture on this machine", long_about = LONG_ABOUT, after_help = AFTER)]
struct Arguments {
    /// The GPU to measure, by number; the rung for two takes the next one too
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    gpu: u32,
    /// Width and height of the picture, multiples of 16
    #[arg(long, value_name = "WxH", default_value = "4096x3072")]
    size: String,
    /// Run only rungs with this text in their name or section
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,
    /// Print one JSON object
    #[arg(long, conflicts_with = "explain")]
    json: bool,
    /// Explain each rung below it
    #[arg(long)]
    explain: bool,
    /// Also draw the times, as FILE.png or FILE.svg
    #[arg(long, value_name = "FILE", value_parser = plot_path)]
    plot: Option<PathBuf>,
    /// Report on standard error what is being measured, and each result
    #[arg(long, short)]
    verbose: bool,
}

fn plot_path(name: &str) -> Result<PathBuf, String> {
    let path = Path::new(name);
    PlotFormat::of(path)
        .map(|_| path.to_owned())
        .ok_or_else(|| "a plot's name must end in .png or .svg".to_owned())
}

/// The reason why the ladder was not climbed.
#[derive(Debug, thiserror::Error)]
enum LadderError {
    /// A flag has a value that cannot be used.
    #[error("{0}")]
    Usage(String),
    /// The results could not be shown.
    #[error("{0} cannot be written: {1}")]
    Unwritten(String, String),
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let shown = report(&arguments).and_then(|text| {
        let unwritten = |error: io::Error| LadderError::Unwritten("the table".to_owned(), error.to_string());
        io::stdout().write_all(text.as_bytes()).map_err(unwritten)
    });
    match shown {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("ladder: {error}");
            ExitCode::from(if matches!(error, LadderError::Usage(_)) { 2 } else { 3 })
        }
    }
}

/// Measures the rungs and returns the text to print. A rung that fails is reported in its row.
fn report(arguments: &Arguments) -> Result<String, LadderError> {
    let (width, height) = size(&arguments.size)?;
    if !width.is_multiple_of(picture::GRAIN) || !height.is_multiple_of(picture::GRAIN) {
        let (size, grain) = (&arguments.size, picture::GRAIN);
        return Err(LadderError::Usage(format!("--size {size}: both have to be multiples of {grain}")));
    }
    let only = arguments.only.as_deref().unwrap_or_default();
    let climbed = climb((width, height), only, arguments.gpu, arguments.verbose).ok_or_else(|| {
        LadderError::Usage(format!("--only {only}: no rung has this in its name or section"))
    })?;
    if let Some(path) = &arguments.plot {
        draw(&climbed, path)?;
    }
    Ok(match arguments.json {
        true => serde_json::to_string_pretty(&climbed).expect("times and names are JSON") + "\n",
        false => table::render(&climbed, arguments.explain),
    })
}

fn draw(climbed: &LadderReport, path: &Path) -> Result<(), LadderError> {
    let unwritten = |error| LadderError::Unwritten(path.display().to_string(), error);
    let drawn = plot::draw(&bars::Bars::new(climbed), path).map_err(unwritten)?;
    fs::write(path, drawn).map_err(|error| unwritten(error.to_string()))
}

/// Pixels of the largest picture that is measured with. Many are held at a time, in several forms.
const MAX_PIXELS: u64 = 1 << 28;

fn size(text: &str) -> Result<(u32, u32), LadderError> {
    let (width, height) = text
        .split_once(['x', 'X'])
        .and_then(|(width, height)| Some((width.parse().ok()?, height.parse().ok()?)))
        .filter(|&(width, height): &(u32, u32)| width > 0 && height > 0)
        .ok_or_else(|| {
            LadderError::Usage(format!("--size is WIDTHxHEIGHT, such as 4096x3072, not {text}"))
        })?;
    if u64::from(width) * u64::from(height) > MAX_PIXELS {
        let most = MAX_PIXELS >> 20;
        return Err(LadderError::Usage(format!("--size {text} is too large: at most {most} x 2^20 pixels")));
    }
    Ok((width, height))
}
