//! The command line of `histeqd histogram`.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::{Arg, Args, value_parser};
use equalize::Colour;

use super::Part;
use super::config_file::ConfigFile;
use super::keys::{Choice, Keys};
use crate::config::{JpegChoice, Naming, Report, RunKind, Settings, Style, Wait, Written, refuse_url};
use crate::error::Error;
use crate::histogram::{PlotFormat, Request, Scale, TableFormat};
use crate::source::is_folder;

pub(super) const LONG_ABOUT: &str = "\
Counts every level in each channel of pictures: red (R), green (G), blue (B) and their
luma in colour pictures, else gray, and alpha (A) if there is one. Pixels whose alpha is 0
are counted only in A, because their colour is invisible.

The result is a table on standard output, with a row (or JSON object) for every channel of
every picture, in the order of the pictures. Value v of a picture with L levels is in bin
v * BINS / L, rounded down. Every device counts the same. Settings of folders
(histeqd.toml) are not used.";

pub(super) const AFTER: &str = "\
Examples:
  histeqd histogram photo.jpg                              a table of 256 bins
  histeqd histogram xray.png --bins 65536 --format json    every level of 16 bits
  histeqd histogram photo.jpg --plot photo.svg --log       a plot too
  histeqd histogram photo.jpg --equalized --plot both.png  before and after
  histeqd histogram inbox/ --out counts.csv --plot 'plots/{}.png'
                                                           a table, and a plot of each";

/// The command line of `histeqd histogram`.
#[derive(Debug, Args)]
pub struct HistogramCommand {
    /// Pictures and folders of pictures; "-" for standard input
    #[arg(value_name = "PICTURE", required_unless_present = "files_from")]
    inputs: Vec<PathBuf>,

    #[command(flatten)]
    part: Part,

    /// Bins per histogram of the table: 1 to 256, or to 65536 for 16 bit [default: 256]
    #[arg(long, value_name = "N", default_value_t = 256, hide_default_value = true, value_parser = value_parser!(u32).range(1..=65536), allow_negative_numbers = true)]
    bins: u32,

    /// Format of the table: csv, json [default: csv]
    #[arg(
        long,
        value_enum,
        ignore_case = true,
        value_name = "FORMAT",
        default_value = "csv",
        hide_default_value = true,
        hide_possible_values = true
    )]
    format: TableFormat,

    /// File for the table, instead of standard output ("-")
    ///
    /// A file appears whole or not at all. Anything else, such as a pipe, is written to as rows
    /// arrive.
    #[arg(long, short, value_name = "FILE")]
    out: Option<PathBuf>,

    /// File for the sums of all pictures, for `histeqd --lut FILE`
    ///
    /// Pictures are then counted as histeqd equalizes them: JPEGs in their own luma, unless --color
    /// is hue, per-channel, linked or a channel. A table is then written only with --out.
    #[arg(long, value_name = "FILE")]
    counts: Option<PathBuf>,

    /// File for a plot of the histograms: FILE.png or FILE.svg
    ///
    /// The channels are overlaid, each in 256 bins. For several pictures the name must contain
    /// "{}", which is replaced by the picture's path below its input folder: "plots/{}.svg".
    #[arg(long, value_name = "FILE", value_parser = plot_name)]
    plot: Option<String>,

    /// Logarithmic heights, which make rare levels visible
    #[arg(long, requires = "plot")]
    log: bool,

    /// Count the pictures again after equalization
    ///
    /// The column "stage" of the table distinguishes the two; a plot shows them in two panels.
    /// --color, --method and its options select how to equalize, as for `histeqd` itself. Only the
    /// histograms are written.
    #[arg(long)]
    equalized: bool,

    #[command(flatten)]
    keys: Keys<Counting>,

    /// Send the channels of a colour picture to different devices
    ///
    /// Speeds up a single large picture, because each GPU receives only its own channels over its
    /// own bus; with many pictures all GPUs are busy without it. Takes about twice the memory per
    /// picture. The result is byte-identical. With --equalized it needs --color per-channel.
    #[arg(long, help_heading = "Resources")]
    split_channels: bool,

    /// Time limit per picture, after which a GPU counts as failed [default: 30s]
    #[arg(long, value_name = "TIME", help_heading = "Resources", allow_hyphen_values = true)]
    device_timeout: Option<Wait>,

    /// Print only failures
    #[arg(long, short, help_heading = "Report")]
    quiet: bool,

    /// Print a line for every picture
    #[arg(long, short, help_heading = "Report", conflicts_with = "quiet")]
    verbose: bool,

    #[command(flatten)]
    config: ConfigFile,
}

impl HistogramCommand {
    /// Reads the configuration file and resolves all settings.
    ///
    /// # Errors
    /// If the command line or the configuration file cannot be used.
    pub fn resolve(mut self) -> Result<(Settings, Request), Error> {
        self.inputs = self.part.inputs(self.inputs);
        self.check_plot()?;
        self.check_destinations()?;
        let flags = self.written();
        let (_, file) = self.config.read()?;
        let written = flags.clone().over(file);
        flags.check_effects(&written, RunKind::Batch, false).map_err(Error::Usage)?;
        let scale = if self.log { Scale::Logarithmic } else { Scale::Linear };
        let request = Request {
            bins: self.bins as usize,
            format: self.format,
            out: self.out.filter(|out| out.as_os_str() != "-"),
            plot: self.plot.is_some().then_some(scale),
            equalized: self.equalized,
            counts: self.counts,
        };
        let run = crate::config::Request {
            inputs: self.inputs,
            shard: self.part.shard()?,
            allow_empty: self.part.allow_empty,
            files_from: self.part.files_from,
            split_channels: self.split_channels,
            naming: self.plot.map_or(Naming::Nothing, Naming::Pattern),
            report: Report { style: Style::of(self.quiet, self.verbose), ..Report::default() },
            ..Default::default()
        };
        let mut settings = Settings::resolve(written, run).map_err(Error::Usage)?;
        // Settings of folders concern outputs.
        settings.folder_settings = false;
        if settings.picture.operation.colour == Colour::Lab {
            return Err(Error::Usage("--color lab cannot be counted; use another --color".to_owned()));
        }
        if self.split_channels && self.equalized && !settings.picture.operation.is_per_channel() {
            return Err(Error::Usage(
                "--split-channels with --equalized needs --color per-channel".to_owned(),
            ));
        }
        // Samples are counted as they are; those of a JPEG as RGB, not in its own planes.
        let picture = Arc::make_mut(&mut settings.picture);
        picture.target.needs_rgb |= request.counts.is_none();
        picture.target.format = None;
        picture.target.eight_bit = false;
        Ok((settings, request))
    }

    /// Checks that the plot's name has a `{}` for the picture's path if there may be several.
    fn check_plot(&self) -> Result<(), Error> {
        let several = self.inputs.len() > 1 || self.inputs.iter().any(|input| is_folder(input));
        match &self.plot {
            Some(name) if several && !name.contains("{}") => Err(Error::Usage(format!(
                "--plot {name} names one file, but there may be several pictures; \
                 use {{}} for the picture's path, as in --plot 'plots/{{}}.svg'"
            ))),
            _ => Ok(()),
        }
    }

    /// Checks that tables and plots go to files of this machine.
    fn check_destinations(&self) -> Result<(), Error> {
        let paths = [&self.out, &self.counts].into_iter().flatten().filter_map(|path| path.to_str());
        for (flag, path) in paths.chain(self.plot.as_deref()).map(|path| ("--out, --counts and --plot", path))
        {
            refuse_url(path).map_err(|why| Error::Usage(format!("{flag}: {why}")))?;
        }
        Ok(())
    }

    fn written(&self) -> Written {
        Written {
            overwrite: Some(true),
            // Pictures are counted as the RGB that the CPU decodes.
            jpeg: Some(JpegChoice::Cpu),
            device_timeout: self.device_timeout,
            ..self.keys.written.clone()
        }
    }
}

/// The keys that matter where pictures are counted, before and after they are equalized.
#[derive(Clone, Copy, Debug)]
struct Counting;

impl Choice for Counting {
    fn flags() -> Vec<&'static str> {
        [OF_METHODS.as_slice(), &OF_COUNTS, &OF_RUNS].concat()
    }

    fn adapt(flag: Arg) -> Arg {
        let name = flag.get_long().unwrap_or_default().to_owned();
        let flag = match name.as_str() {
            "reference" => flag.help("With match: reference picture, or a file of counts"),
            "tile-size" => flag.help("With clahe: tile size in pixels [default: off]"),
            "levels" => flag.help("Number of levels of the samples: full, auto (as the file states), or a number [default: full]"),
            "no-data" => flag.help("No-data value, whose pixels are not counted [default: none]"),
            "color" => flag.help(
                "Equalized part of a colour picture: luma, hue, per-channel, linked; or gray, red, green, blue, which convert it to gray first [default: luma]",
            ),
            "devices" => flag.help("Devices that count: auto, cpu, all, or a list of GPUs [default: auto]"),
            _ => flag,
        };
        match name.as_str() {
            name if OF_METHODS.contains(&name) => flag.requires("equalized").help_heading("Equalization"),
            name if OF_COUNTS.contains(&name) => flag.help_heading("Equalization"),
            _ => flag,
        }
    }
}

/// The keys that decide how pictures are equalized before they are counted again.
const OF_METHODS: [&str; 12] = [
    "preset",
    "method",
    "exposure",
    "strength",
    "clip-low",
    "clip-high",
    "plateau",
    "reference",
    "clip-limit",
    "tiles",
    "tile-size",
    "noise",
];

/// The keys that decide which samples are counted.
const OF_COUNTS: [&str; 5] = ["levels", "shift", "mask", "no-data", "color"];

/// The keys that select files, and limit their costs.
const OF_RUNS: [&str; 8] =
    ["include", "exclude", "links", "max-pixels", "max-bytes", "threads", "memory", "devices"];

fn plot_name(name: &str) -> Result<String, String> {
    match PlotFormat::of(Path::new(name)) {
        Some(_) => Ok(name.to_owned()),
        None => Err("a plot's name must end in .png or .svg".to_owned()),
    }
}
