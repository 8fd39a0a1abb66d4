//! The command line of `histeqd histogram`.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::{Args, value_parser};

use super::{Part, configuration, configuration_file};
use crate::config::refuse_url;
use crate::config::{
    Bytes, ClipLimit, Color, Count, DeviceChoice, Folder, Grid, InputFile, JpegChoice, LevelsChoice,
    LinksChoice, Memory, MethodName, Naming, NoData, OrAuto, OrNone, Percent, Pixels, Report, RunKind,
    Settings, Style, TileSize, Wait, Written,
};
use crate::error::Error;
use crate::histogram::{PlotFormat, Request, Scale, TableFormat};
use crate::source::is_folder;
use equalize::Strength;

pub(super) const LONG_ABOUT: &str = "\
Counts how often every level occurs in each channel of pictures: of colour in red (R),
green (G), blue (B) and their luma, else in gray, and in alpha (A) where there is one.
Pixels whose alpha is 0 count only there, for they have no colour that can be seen.

The result is a table on standard output, a row (or JSON object) for every channel of
every picture, in the order of the pictures. Value v of a picture with L levels is in
bin v * BINS / L, rounded down. Every device counts the same. Settings of folders
(histeqd.toml) do not matter here.";

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
    /// Pictures, and folders of pictures; "-" for standard input
    #[arg(value_name = "PICTURE", required_unless_present = "files_from")]
    inputs: Vec<PathBuf>,

    #[command(flatten)]
    part: Part,

    /// Bins of the table's histograms: 1 to 256, to 65536 for 16-bit pictures [default: 256]
    #[arg(long, value_name = "N", default_value_t = 256, hide_default_value = true, value_parser = value_parser!(u32).range(1..=65536), allow_negative_numbers = true)]
    bins: u32,

    /// How the table is written: csv, json [default: csv]
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

    /// Write the table to this file instead of standard output ("-")
    ///
    /// A file appears whole or not at all. Anything else, such as a pipe, is written to as rows arrive.
    #[arg(long, short, value_name = "FILE")]
    out: Option<PathBuf>,

    /// Write the sums of all pictures to this file, for `histeqd --lut FILE`
    ///
    /// Pictures are then counted as histeqd equalizes them: JPEGs in their own brightness, unless --color is hue or per-channel. There is
    /// a table too only with --out.
    #[arg(long, value_name = "FILE")]
    counts: Option<PathBuf>,

    /// Draw the histograms too, as FILE.png or FILE.svg
    ///
    /// The channels are overlaid, each in 256 bins. For several pictures the name must contain "{}", which is replaced by
    /// the picture's path below its input folder: "plots/{}.svg".
    #[arg(long, value_name = "FILE", value_parser = plot_name)]
    plot: Option<String>,

    /// Use a logarithmic scale for the heights, so that rare levels show
    #[arg(long, requires = "plot")]
    log: bool,

    /// Count the pictures again after equalization
    ///
    /// The table's column "stage" tells the two apart; a plot shows them in two panels. --color, --method and its options
    /// select how to equalize, as for `histeqd` itself. Only the histograms are written.
    #[arg(long)]
    equalized: bool,

    /// How contrast is enhanced: global, stretch, match, clahe [default: global]
    #[arg(
        long,
        value_enum,
        ignore_case = true,
        value_name = "METHOD",
        requires = "equalized",
        help_heading = "Equalization",
        hide_possible_values = true
    )]
    method: Option<MethodName>,

    /// How far to go from the picture's levels to the enhanced ones: 0 to 1 [default: 1]
    #[arg(
        long,
        value_name = "NUMBER",
        requires = "equalized",
        help_heading = "Equalization",
        allow_negative_numbers = true
    )]
    strength: Option<Strength>,

    /// With stretch: percent of the samples that become the darkest level [default: 0.175]
    #[arg(
        long,
        value_name = "PERCENT",
        requires = "equalized",
        help_heading = "Equalization",
        allow_negative_numbers = true
    )]
    clip_low: Option<Percent>,

    /// With stretch: percent of the samples that become the brightest level [default: 0.175]
    #[arg(
        long,
        value_name = "PERCENT",
        requires = "equalized",
        help_heading = "Equalization",
        allow_negative_numbers = true
    )]
    clip_high: Option<Percent>,

    /// With match: the picture whose levels the others get, or a file of counts
    #[arg(long, value_name = "FILE", requires = "equalized", help_heading = "Equalization")]
    reference: Option<OrNone<InputFile>>,

    /// With clahe: how much contrast a tile may gain: auto, or a number; 0 for no limit [default: auto]
    #[arg(
        long,
        value_name = "NUMBER",
        requires = "equalized",
        help_heading = "Equalization",
        allow_negative_numbers = true
    )]
    clip_limit: Option<OrAuto<ClipLimit>>,

    /// With clahe: how many tiles, across and down [default: 8x8]
    #[arg(
        long,
        value_name = "XxY",
        requires = "equalized",
        help_heading = "Equalization",
        conflicts_with = "tile_size"
    )]
    tiles: Option<Grid>,

    /// With clahe: tiles of about this many pixels a side [default: off]
    #[arg(
        long,
        value_name = "PIXELS",
        requires = "equalized",
        help_heading = "Equalization",
        allow_negative_numbers = true
    )]
    tile_size: Option<TileSize>,

    /// How many levels samples have: full, auto (what the file says), or a number [default: full]
    #[arg(long, value_name = "N", help_heading = "Equalization", allow_negative_numbers = true)]
    levels: Option<LevelsChoice>,

    /// A folder of masks: pixels that a mask has in black do not count [default: none]
    #[arg(long, value_name = "FOLDER", help_heading = "Equalization")]
    mask: Option<OrNone<Folder>>,

    /// The level of pixels that are none: they do not count [default: none]
    #[arg(long, value_name = "LEVEL", help_heading = "Equalization", allow_hyphen_values = true)]
    no_data: Option<OrNone<NoData>>,

    /// What is equalized in a colour picture: luma, hue, per-channel [default: luma]; "gray" converts to gray first
    #[arg(
        long,
        value_enum,
        ignore_case = true,
        value_name = "WHAT",
        help_heading = "Equalization",
        hide_possible_values = true
    )]
    color: Option<Color>,

    /// Take only files that match this glob (can be repeated)
    #[arg(long, value_name = "GLOB", help_heading = "Selection", num_args = 1)]
    include: Option<Vec<String>>,

    /// Leave out files and folders that match this glob (can be repeated)
    #[arg(long, value_name = "GLOB", help_heading = "Selection", num_args = 1)]
    exclude: Option<Vec<String>>,

    /// Which symbolic links in input folders are followed: auto, follow, inside, never [default: auto]
    #[arg(
        long,
        value_enum,
        ignore_case = true,
        value_name = "WHICH",
        help_heading = "Selection",
        hide_possible_values = true
    )]
    links: Option<LinksChoice>,

    /// Refuse pictures with more pixels than this [default: 2GP]
    #[arg(long, value_name = "PIXELS", help_heading = "Selection", allow_hyphen_values = true)]
    max_pixels: Option<Pixels>,

    /// Refuse pictures that need more memory than this when decoded, and longer files [default: 2GiB]
    #[arg(long, value_name = "SIZE", help_heading = "Selection", allow_hyphen_values = true)]
    max_bytes: Option<Bytes>,

    /// How many CPU threads to use [default: auto]
    #[arg(long, short = 'j', value_name = "N", help_heading = "Resources", allow_negative_numbers = true)]
    threads: Option<OrAuto<Count>>,

    /// How much memory the pictures in progress may take together [default: auto]
    #[arg(long, value_name = "SIZE", help_heading = "Resources", allow_hyphen_values = true)]
    memory: Option<OrAuto<Memory>>,

    /// Which devices count: auto, cpu, all, or GPUs by number or UUID [default: auto]
    #[arg(long, value_name = "WHICH", help_heading = "Resources")]
    devices: Option<DeviceChoice>,

    /// Send the channels of a colour picture to different devices
    ///
    /// Speeds up a single large picture, because each GPU receives only its own channels over its own bus; with many
    /// pictures all GPUs are busy without it. Takes about twice the memory per picture. The result is byte-identical. With
    /// --equalized it needs --color per-channel.
    #[arg(long, help_heading = "Resources")]
    split_channels: bool,

    /// How long a GPU may take for one picture before it counts as failed [default: 30s]
    #[arg(long, value_name = "TIME", help_heading = "Resources", allow_hyphen_values = true)]
    device_timeout: Option<Wait>,

    /// Print only failures
    #[arg(long, short, help_heading = "Report")]
    quiet: bool,

    /// Print a line for every picture
    #[arg(long, short, help_heading = "Report", conflicts_with = "quiet")]
    verbose: bool,

    /// Read this configuration file instead of the usual one
    #[arg(long, value_name = "FILE", help_heading = "Configuration")]
    config: Option<PathBuf>,

    /// Read no configuration file
    #[arg(long, help_heading = "Configuration", conflicts_with = "config")]
    no_config: bool,
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
        let config_file = configuration_file(self.config, self.no_config);
        let written = flags.clone().over(configuration(config_file.as_deref())?);
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
        // What folders say is about outputs.
        settings.folder_settings = false;
        if self.split_channels && self.equalized && !settings.picture.operation.is_per_channel() {
            return Err(Error::Usage(
                "--split-channels needs --color per-channel where it equalizes".to_owned(),
            ));
        }
        // Samples are counted as they are; those of a JPEG as RGB, not in its own planes.
        let picture = Arc::make_mut(&mut settings.picture);
        picture.target.needs_rgb |= request.counts.is_none();
        picture.target.format = None;
        picture.target.eight_bit = false;
        Ok((settings, request))
    }

    /// Checks that the plot's name has a `{}` for the picture's path if there may be several pictures.
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
            method: self.method,
            strength: self.strength,
            clip_low: self.clip_low,
            clip_high: self.clip_high,
            reference: self.reference.clone(),
            clip_limit: self.clip_limit,
            tiles: self.tiles,
            tile_size: self.tile_size,
            levels: self.levels,
            mask: self.mask.clone(),
            no_data: self.no_data.clone(),
            color: self.color,
            overwrite: Some(true),
            include: self.include.clone(),
            exclude: self.exclude.clone(),
            links: self.links,
            max_pixels: self.max_pixels,
            max_bytes: self.max_bytes,
            threads: self.threads,
            memory: self.memory,
            devices: self.devices.clone(),
            // Pictures are counted as the RGB that the CPU decodes.
            jpeg: Some(JpegChoice::Cpu),
            device_timeout: self.device_timeout,
            ..Written::default()
        }
    }
}

fn plot_name(name: &str) -> Result<String, String> {
    match PlotFormat::of(Path::new(name)) {
        Some(_) => Ok(name.to_owned()),
        None => Err("a plot's name must end in .png or .svg".to_owned()),
    }
}
