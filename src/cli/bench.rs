//! The command line of `histeqd bench`.

use std::time::Duration;

use clap::Args;

pub(super) const LONG_ABOUT: &str = "\
Measures the buses and devices of this machine in a batch.

Pictures are generated once in memory and sent repeatedly through real worker processes
and their lanes, without files and codecs. Prints one JSON object: pictures per second,
and bytes per second sent to the devices.";

pub(super) const AFTER: &str = "\
Examples:
  histeqd bench                        the first GPU
  histeqd bench --gpus 0,1             two GPUs together
  histeqd bench --size 512x512         small pictures
  histeqd bench --cpu-workers 2        without a GPU";

/// The arguments of `histeqd bench`.
#[derive(Debug, Args)]
pub struct BenchCommand {
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
        let takes = |flag, value| Cli::try_parse_from(["histeqd", "bench", flag, value]).is_ok();
        assert!(takes("--lanes", "1") && takes("--slots", "1") && takes("--seconds", "0.5"));
        for flag in ["--lanes", "--slots", "--cpu-workers", "--seconds"] {
            assert!(!takes(flag, "0"), "{flag}");
        }
        for seconds in ["-1", "NaN", "1e30", "x"] {
            assert!(!takes("--seconds", seconds), "{seconds}");
        }
    }
}
