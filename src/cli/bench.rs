//! The command line of `histeqd bench`.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, Subcommand};

use crate::plot::PlotFormat;

pub(super) const LONG_ABOUT: &str = "\
Measures the ways of equalizing a picture on this machine, side by side: the ladder.

It begins with what the bus and the memory allow at best. Then come, rung by rung, the
ways that others have published: histograms with and without shared memory, the LUT in
each kind of GPU memory, the kinds of host memory, streams, CLAHE, several GPUs; and
histeqd's own. All of them do the same picture, in memory, and each result is compared
with the CPU's.

The time of the kernels is the GPU's own, with the picture in its memory; the whole
time is from the picture in host memory to the result in host memory. Both are medians
of some rounds. Without a GPU the rungs on the CPU are measured alone.";

pub(super) const AFTER: &str = "\
Examples:
  histeqd bench                        a table, within seconds
  histeqd bench --explain              with an explanation of every rung
  histeqd bench --plot ladder.svg      with a bar chart
  histeqd bench --only clahe           only the rungs of CLAHE
  histeqd bench lanes --gpus 0,1       pictures through the devices, as in a batch";

/// The command line of `histeqd bench`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct BenchCommand {
    /// The other bench, if it is asked for.
    #[command(subcommand)]
    pub part: Option<BenchPart>,
    /// The ladder.
    #[command(flatten)]
    pub ladder: LadderCommand,
}

/// What `histeqd bench` can measure besides the ladder.
#[derive(Debug, Subcommand)]
pub enum BenchPart {
    /// Send pictures through real worker processes and their lanes, without files and codecs
    Lanes(LanesCommand),
}

/// What the ladder measures, and how the results are shown.
#[derive(Debug, Args)]
pub struct LadderCommand {
    /// The GPU to measure, by number; the rung for two takes the next one too
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    pub gpu: u32,
    /// Width and height of the picture, multiples of 16
    #[arg(long, value_name = "WxH", default_value = "4096x3072")]
    pub size: String,
    /// Run only rungs with this text in their name or section
    #[arg(long, value_name = "TEXT")]
    pub only: Option<String>,
    /// Print one JSON object
    #[arg(long, conflicts_with = "explain")]
    pub json: bool,
    /// Explain each rung below it
    #[arg(long)]
    pub explain: bool,
    /// Also draw the times, as FILE.png or FILE.svg
    #[arg(long, value_name = "FILE", value_parser = plot_path)]
    pub plot: Option<PathBuf>,
    /// Report on standard error what is being measured, and each result
    #[arg(long, short)]
    pub verbose: bool,
}

fn plot_path(name: &str) -> Result<PathBuf, String> {
    let path = Path::new(name);
    PlotFormat::of(path)
        .map(|_| path.to_owned())
        .ok_or_else(|| "a plot's name must end in .png or .svg".to_owned())
}

/// What `histeqd bench lanes` measures.
#[derive(Debug, Args)]
pub struct LanesCommand {
    /// GPUs to measure together, by number
    #[arg(long, value_delimiter = ',', value_name = "NUMBERS", default_value = "0")]
    pub gpus: Vec<u32>,
    /// Use this many CPU worker processes instead of GPUs
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..))]
    pub cpu_workers: Option<u32>,
    /// Width and height of the pictures
    #[arg(long, value_name = "WxH", default_value = "4096x3072")]
    pub size: String,
    /// 16 bit instead of 8
    #[arg(long)]
    pub sixteen: bool,
    /// RGB instead of gray
    #[arg(long)]
    pub rgb: bool,
    /// Count the pictures instead of equalizing them: upload only
    #[arg(long, conflicts_with = "per_channel")]
    pub count: bool,
    /// Equalize each channel by itself
    #[arg(long)]
    pub per_channel: bool,
    /// Lanes per worker
    #[arg(long, default_value_t = 4, value_parser = at_least_one)]
    pub lanes: usize,
    /// Pictures in flight per worker
    #[arg(long, default_value_t = 12, value_parser = clap::value_parser!(u32).range(1..))]
    pub slots: u32,
    /// Seconds to measure
    #[arg(long, default_value = "3", value_parser = seconds)]
    pub seconds: Duration,
}

fn at_least_one(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0) | Err(_) => Err("must be a whole number of at least 1".to_owned()),
        Ok(number) => Ok(number),
    }
}

fn seconds(text: &str) -> Result<Duration, String> {
    let number = text.parse().map_err(|_| "not a number of seconds".to_owned())?;
    let seconds = Duration::try_from_secs_f64(number).map_err(|error| error.to_string())?;
    if seconds.is_zero() { Err("must be longer than 0 seconds".to_owned()) } else { Ok(seconds) }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use crate::cli::Cli;

    #[test]
    fn lanes_without_anything_to_measure_are_refused() {
        let takes = |flag, value| Cli::try_parse_from(["histeqd", "bench", "lanes", flag, value]).is_ok();
        assert!(takes("--lanes", "1") && takes("--slots", "1") && takes("--seconds", "0.5"));
        for flag in ["--lanes", "--slots", "--cpu-workers", "--seconds"] {
            assert!(!takes(flag, "0"), "{flag}");
        }
        for seconds in ["-1", "NaN", "1e30", "x"] {
            assert!(!takes("--seconds", seconds), "{seconds}");
        }
    }
}
