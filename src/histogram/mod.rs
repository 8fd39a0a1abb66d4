//! `histeqd histogram`: the colour histograms of pictures, as a table and as plots.
//!
//! The pictures go through the same pipeline and devices as for equalization, but the lanes count them
//! ([`Order::Count`]) and the [`Collector`] takes the place of the encoder. Lanes count every level; bins are made of
//! that here, and so are the same whatever the device.

mod chart;
mod collector;
mod destination;
mod table;
mod waiting;

use std::path::{Path, PathBuf};

pub use crate::plot::PlotFormat;
pub use collector::Collector;
pub use table::TableFormat;

use crate::config::Settings;
use crate::equalize::colour::Plane;
use crate::equalize::{Order, count};
use crate::error::Error;
use crate::picture::{Layout, Pixel};
use crate::pipeline::Stop;
use crate::progress::Summary;
use crate::publish::Publisher;
use crate::source;

/// What is wanted of the histograms.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// Bins of a row of the table, at least 1.
    pub bins: usize,
    /// How the table is written.
    pub format: TableFormat,
    /// What the table is written to; `None` is standard output.
    pub out: Option<PathBuf>,
    /// Whether plots are drawn, one at each job's output, and how they are scaled.
    pub plot: Option<Scale>,
    /// Whether the pictures are counted once more, equalized.
    pub equalized: bool,
}

/// How the height of a plot follows the counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// In proportion.
    Linear,
    /// By their logarithm.
    Logarithmic,
}

/// Counts the pictures that the settings name, until all are through or `stop` is asked.
///
/// # Errors
/// When nothing, or nothing more, could be done at all, or the table not be written. What goes wrong with single pictures is
/// in the summary.
pub fn run(
    settings: &Settings,
    request: &Request,
    stop: &Stop,
    publisher: &Publisher,
) -> Result<Summary, Error> {
    let order = Order::Count { equalize: request.equalized.then_some(settings.operation) };
    let plan = source::scan(settings, stop)?;
    destination::spare_inputs(request.out.as_deref(), &plan)?;
    let collector = Collector::new(request, publisher, stop)?;
    let summary = crate::run_into(&collector, order, plan, settings, stop)?;
    collector.finish(summary.stopped)?;
    Ok(summary)
}

/// The histograms of one picture.
#[derive(Clone, Debug)]
pub struct Histograms<'a> {
    /// Its file.
    pub input: &'a Path,
    /// Its layout.
    pub layout: Layout,
    /// The counts of every level of every plane ([`count::planes`]) of the picture as it is, and where asked for, then
    /// of the picture equalized.
    pub counts: &'a [u64],
}

impl<'a> Histograms<'a> {
    /// Each stage with its counts.
    pub fn stages(&self) -> impl Iterator<Item = (Stage, &'a [u64])> + use<'a> {
        [Stage::Original, Stage::Equalized].into_iter().zip(self.counts.chunks(count::length(&self.layout)))
    }

    /// Each channel of a stage with its counts, one a level.
    pub fn channels<'c>(&self, stage: &'c [u64]) -> impl Iterator<Item = (Channel, &'c [u64])> + use<'c> {
        let pixel = self.layout.pixel;
        let channels = count::planes(pixel).iter().map(move |&plane| Channel::new(pixel, plane));
        channels.zip(stage.chunks(self.layout.depth.levels()))
    }
}

/// Which picture was counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// The picture as it is.
    Original,
    /// The picture equalized.
    Equalized,
}

impl Stage {
    /// As tables name it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Original => "original",
            Self::Equalized => "equalized",
        }
    }

    /// As plots name it.
    const fn title(self) -> &'static str {
        match self {
            Self::Original => "Original",
            Self::Equalized => "Equalized",
        }
    }
}

/// What was counted of the pixels.
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
    /// Opacity.
    Alpha,
    /// The brightness of colours.
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

    /// As tables name it.
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
