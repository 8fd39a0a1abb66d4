//! Plots of histograms: the channels over each other, translucent, one panel a stage.

mod chart;
mod png;

use std::ffi::OsStr;
use std::path::Path;
use std::sync::Once;

use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::register_font;

use super::{Histograms, Scale};
use chart::Chart;

/// The font of the plots, so that none needs to be installed. See the README beside it.
const FONT: &[u8] = include_bytes!("font/Roboto-Latin.ttf");

/// What a plot is written as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlotFormat {
    /// Pixels.
    Png,
    /// Lines and areas.
    Svg,
}

impl PlotFormat {
    /// The format that the name of a plot says, if it is one.
    pub fn of(path: &Path) -> Option<Self> {
        let extension = path.extension().and_then(OsStr::to_str)?.to_ascii_lowercase();
        match extension.as_str() {
            "png" => Some(Self::Png),
            "svg" => Some(Self::Svg),
            _ => None,
        }
    }
}

/// Draws the histograms; returns the content of a file with the name `path`.
pub(super) fn draw(histograms: &Histograms<'_>, scale: Scale, path: &Path) -> Result<Vec<u8>, String> {
    register();
    let chart = Chart::new(histograms, scale);
    let drawn = match PlotFormat::of(path) {
        Some(PlotFormat::Png) => png::draw(&chart),
        Some(PlotFormat::Svg) => draw_svg(&chart),
        None => return Err("its name ends neither in .png nor in .svg".to_owned()),
    };
    drawn.map_err(|error| error.to_string())
}

fn draw_svg(chart: &Chart<'_>) -> Result<Vec<u8>, Box<dyn std::error::Error>> {
    let mut text = String::new();
    draw_on(SVGBackend::with_string(&mut text, chart.size(1)), chart, 1)?;
    Ok(text.into_bytes())
}

/// Draws on any backend, every length `zoom` times.
fn draw_on<B: DrawingBackend>(
    backend: B,
    chart: &Chart<'_>,
    zoom: u32,
) -> Result<(), DrawingAreaErrorKind<B::ErrorType>> {
    let area: DrawingArea<B, Shift> = backend.into_drawing_area();
    chart.draw(&area, zoom)?;
    area.present()
}

/// Makes the font known, once.
fn register() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // It fails only for what is no font.
        let _ = register_font("sans-serif", FontStyle::Normal, FONT);
    });
}
