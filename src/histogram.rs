//! `histeqd histogram`: the colour histograms of pictures, as a table and as plots.
//!
//! The pictures go through the same pipeline and devices as for equalization, but the lanes count
//! them ([`lanes::Order::Count`]), and the [`Collector`] takes the place of the encoder. Lanes
//! count every level. The bins are made from these counts here, and do not depend on the device.

mod chart;
mod collector;
mod destination;
mod sums;
mod table;
mod waiting;

use std::path::{Path, PathBuf};

pub use collector::Collector;
pub use plot::PlotFormat;
pub use table::TableFormat;

use crate::config::Settings;
use crate::error::Error;
use crate::progress::Summary;
use crate::publish::Publisher;
use crate::run;
use crate::run::pipeline::Purpose;
use crate::source;
use crate::source::stop::Stop;
use equalize::colour::Plane;
use equalize::{Layout, Pixel, count};

/// Which histograms to produce, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// The number of bins per row of the table, at least 1.
    pub bins: usize,
    /// The format of the table.
    pub format: TableFormat,
    /// The destination of the table; `None` means standard output.
    pub out: Option<PathBuf>,
    /// The scale of the plots, one of which is drawn to each job's output; `None` for no plots.
    pub plot: Option<Scale>,
    /// Whether the pictures are also equalized and counted again.
    pub equalized: bool,
    /// The file for the sums of all pictures, if one is wanted.
    pub counts: Option<PathBuf>,
}

/// How heights in a plot relate to counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// Heights are proportional to counts.
    Linear,
    /// Heights are proportional to the logarithms of counts.
    Logarithmic,
}

/// Counts the pictures that the settings name, until all are done or `stop` is requested.
///
/// # Errors
/// When the run could not start or continue, or when the table could not be written. Failures of
/// individual pictures are reported in the summary.
pub fn run(
    settings: &Settings,
    request: &Request,
    stop: &Stop,
    publisher: &Publisher,
) -> Result<Summary, Error> {
    let purpose = Purpose::Count { equalized: request.equalized };
    let plan = source::scan(settings, stop)?;
    destination::refuse_replacing(request.out.as_deref(), &plan)?;
    destination::refuse_replacing(request.counts.as_deref(), &plan)?;
    let collector = Collector::new(request, settings.naming.root(&settings.out), publisher, stop)?;
    let summary = run::run_into(&collector, purpose, plan, settings, stop)?;
    let complete = !summary.stopped && summary.left == 0;
    collector.finish(complete).inspect_err(|_| summary.print_failures(settings.report))?;
    Ok(summary)
}

/// The histograms of one picture.
#[derive(Clone, Debug)]
pub struct Histograms<'a> {
    /// The picture's file.
    pub input: &'a Path,
    /// The picture's layout.
    pub layout: Layout,
    /// How many levels its colours have.
    pub levels: usize,
    /// The counts of every level of every plane ([`count::planes`]) of the original picture,
    /// followed by those of the equalized picture if they were requested.
    pub counts: &'a [u64],
}

impl<'a> Histograms<'a> {
    /// Returns each stage with its counts.
    pub fn stages(&self) -> impl Iterator<Item = (Stage, &'a [u64])> + use<'a> {
        [Stage::Original, Stage::Equalized].into_iter().zip(self.counts.chunks(count::length(&self.layout)))
    }

    /// Returns each channel of a stage with its counts, one per level. `stage` holds the counts of
    /// that stage.
    pub fn channels<'c>(&self, stage: &'c [u64]) -> impl Iterator<Item = (Channel, &'c [u64])> + use<'c> {
        let pixel = self.layout.pixel;
        let channels = count::planes(pixel).iter().map(move |&plane| Channel::new(pixel, plane));
        let levels = self.levels;
        channels.zip(stage.chunks(self.layout.depth.levels())).map(move |(channel, counts)| match channel {
            Channel::Alpha => (channel, counts),
            _ => (channel, &counts[..levels]),
        })
    }
}

/// The version of a picture that was counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// The picture as it is.
    Original,
    /// The equalized picture.
    Equalized,
}

impl Stage {
    /// Returns the stage's name in tables.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Original => "original",
            Self::Equalized => "equalized",
        }
    }

    /// Returns the stage's name in plots.
    const fn title(self) -> &'static str {
        match self {
            Self::Original => "Original",
            Self::Equalized => "Equalized",
        }
    }
}

/// A channel that was counted, or luma.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Channel {
    /// Red samples.
    Red,
    /// Green samples.
    Green,
    /// Blue samples.
    Blue,
    /// Gray samples.
    Gray,
    /// Alpha samples.
    Alpha,
    /// The luma of colour pixels.
    Luma,
}

impl Channel {
    fn new(pixel: Pixel, plane: Plane) -> Self {
        let Plane::Channel(number) = plane else { return Self::Luma };
        let channels: &[Self] = match pixel {
            Pixel::Gray | Pixel::GrayAlpha => &[Self::Gray, Self::Alpha],
            Pixel::Rgb | Pixel::Rgba => &[Self::Red, Self::Green, Self::Blue, Self::Alpha],
        };
        channels[number]
    }

    /// Returns the channel's name in tables.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Red => "R",
            Self::Green => "G",
            Self::Blue => "B",
            Self::Gray => "gray",
            Self::Alpha => "A",
            Self::Luma => "luma",
        }
    }
}
