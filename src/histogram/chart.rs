//! The histogram plot: a title, a legend, and a panel for each stage.

use std::path::Path;

use plotters::prelude::*;
use plotters::style::text_anchor::HPos;

use super::{Channel, Histograms, Scale, Stage};
use crate::fs::paths::Shown;
use equalize::histogram::rebin;
use plot::{self, Drawing, Drawn, FAINT_INK, GRID, INK, LABEL, Page, SMALL, TITLE};

/// Bins of a plot. If a picture has more levels, they are merged.
const BINS: usize = 256;

/// The width of the chart, in units of about one screen pixel.
const WIDTH: u32 = 800;
/// Height of the title and the legend.
const HEAD: u32 = 64;
/// Height of a panel with its labels.
const PANEL: u32 = 330;
/// Height of the margin at the bottom.
const FOOT: u32 = 14;
/// Space to the left of a panel, for labels.
const LEFT: u32 = 64;
/// Space to the right of a panel.
const RIGHT: u32 = 24;
/// Space for labels below a panel's axis.
const BELOW: u32 = 30;
/// Space for the name above a panel.
const ABOVE: u32 = 26;

/// Neighbouring bars whose heights differ by more than this fraction of the panel's height are not
/// joined by a line.
const CLIFF: f64 = 0.15;
/// Opacity of the stem of an isolated bar.
const STEM: f64 = 0.35;

/// Room above the highest bar, as a factor of its height.
const HEADROOM: f64 = 1.06;
/// The lowest value of a logarithmic panel, as a fraction of one pixel's share, so that a bin with
/// one pixel is visible.
const BELOW_ONE: f64 = 0.6;

/// The chart to draw.
struct Chart<'a> {
    histograms: &'a Histograms<'a>,
    scale: Scale,
    panels: Vec<Panel>,
    /// The share of pixels at the top of a panel.
    top: f64,
    /// The share of a single pixel.
    one: f64,
}

/// The panel of one stage.
struct Panel {
    stage: Stage,
    channels: Vec<Curve>,
}

/// The curve of one channel: the share of the pixels in each bin.
struct Curve {
    channel: Channel,
    shares: Vec<f64>,
}

impl Channel {
    /// Returns the channel's colour, and the opacity of the area below its curve; 0 if it has none.
    const fn paint(self) -> (RGBColor, f64) {
        match self {
            Self::Red => (RGBColor(229, 72, 77), 0.30),
            Self::Green => (RGBColor(48, 164, 108), 0.30),
            Self::Blue => (RGBColor(62, 99, 221), 0.30),
            Self::Gray => (RGBColor(78, 86, 97), 0.38),
            Self::Luma => (RGBColor(28, 32, 36), 0.0),
            Self::Alpha => (RGBColor(171, 74, 186), 0.0),
        }
    }

    const fn label(self) -> &'static str {
        match self {
            Self::Red => "red",
            Self::Green => "green",
            Self::Blue => "blue",
            Self::Gray => "gray",
            Self::Luma => "luma",
            Self::Alpha => "alpha",
        }
    }
}

/// Draws the histograms. Returns the content of the plot's file, in the format that the extension
/// of `path` names.
pub(super) fn draw(histograms: &Histograms<'_>, scale: Scale, path: &Path) -> Result<Vec<u8>, String> {
    plot::draw(&Chart::new(histograms, scale), path)
}

impl<'a> Chart<'a> {
    fn new(histograms: &'a Histograms<'a>, scale: Scale) -> Self {
        let bins = BINS.min(histograms.levels);
        let pixels = histograms.layout.pixels() as f64;
        let panels = histograms.stages().map(|(stage, counts)| {
            let channels = histograms.channels(counts).map(|(channel, counts)| Curve {
                channel,
                shares: rebin(counts, bins).into_iter().map(|count| count as f64 / pixels).collect(),
            });
            Panel { stage, channels: channels.collect() }
        });
        let panels: Vec<Panel> = panels.collect();
        let one = 1.0 / pixels;
        Self { histograms, scale, top: top(&panels, scale).max(one) * HEADROOM, one, panels }
    }

    /// Draws the picture's name, its size and depth, and a legend of the channels' colours.
    fn draw_head<B: DrawingBackend>(&self, page: &Page<'_, B>) -> Drawn<B> {
        let layout = &self.histograms.layout;
        let name = self.histograms.input.file_name().unwrap_or(self.histograms.input.as_os_str());
        let (left, right) = (f64::from(LEFT), f64::from(WIDTH - RIGHT));
        page.text(&shortened(&Shown(name).to_string()), (left, 25.0), TITLE, INK, HPos::Left)?;
        let bits = layout.depth.bytes() * 8;
        let scale = if self.scale == Scale::Logarithmic { ", logarithmic" } else { "" };
        let what = format!("{} × {} pixels, {bits} bit{scale}", layout.width, layout.height);
        page.text(&what, (left, 47.0), LABEL, FAINT_INK, HPos::Left)?;
        let mut x = right;
        for curve in self.panels[0].channels.iter().rev() {
            let (colour, opacity) = curve.channel.paint();
            page.text(curve.channel.label(), (x, 47.0), LABEL, INK, HPos::Right)?;
            x -= 8.0 + 6.2 * curve.channel.label().len() as f64;
            let swatch = [(x - 10.0, 42.0), (x, 42.0), (x, 52.0), (x - 10.0, 52.0)];
            page.area(&swatch, colour.mix(opacity.max(0.06)))?;
            page.line(&[swatch[0], swatch[1], swatch[2], swatch[3], swatch[0]], colour.to_rgba(), 1.0)?;
            x -= 24.0;
        }
        Ok(())
    }

    fn draw_grid<B: DrawingBackend>(&self, page: &Page<'_, B>, frame: &Frame) -> Drawn<B> {
        for share in self.ticks() {
            let y = self.y(frame, share);
            page.line(&[(frame.left, y), (frame.right, y)], GRID.to_rgba(), 1.0)?;
            page.text(&percent(share), (frame.left - 8.0, y), SMALL, FAINT_INK, HPos::Right)?;
        }
        page.line(&[(frame.left, frame.bottom), (frame.right, frame.bottom)], FAINT_INK.to_rgba(), 1.0)?;
        let levels = self.histograms.levels;
        for level in [0, levels / 4, levels / 2, levels * 3 / 4, levels - 1] {
            let x = frame.left + (frame.right - frame.left) * (level as f64 + 0.5) / levels as f64;
            page.line(&[(x, frame.bottom), (x, frame.bottom + 4.0)], FAINT_INK.to_rgba(), 1.0)?;
            page.text(&level.to_string(), (x, frame.bottom + 14.0), SMALL, FAINT_INK, HPos::Center)?;
        }
        Ok(())
    }

    /// Draws all areas first, then all lines, so that no area dims another channel's line.
    fn draw_curves<B: DrawingBackend>(&self, page: &Page<'_, B>, frame: &Frame, panel: &Panel) -> Drawn<B> {
        let steps: Vec<_> = panel.channels.iter().map(|curve| self.steps(frame, &curve.shares)).collect();
        for (curve, steps) in panel.channels.iter().zip(&steps) {
            let (colour, opacity) = curve.channel.paint();
            if opacity > 0.0 {
                let ends = [(frame.right, frame.bottom), (frame.left, frame.bottom)];
                page.area(&[&steps.concat()[..], &ends].concat(), colour.mix(opacity))?;
            }
        }
        for (curve, steps) in panel.channels.iter().zip(&steps) {
            let width = if curve.channel == Channel::Luma { 1.5 } else { 1.0 };
            let (colour, opacity) = curve.channel.paint();
            let lines = lines(steps, (frame.bottom - frame.top) * CLIFF);
            // The other lines lie on the axis.
            for line in lines.filter(|line| line.iter().any(|bar| bar[0].1 <= frame.bottom - 0.5)) {
                // Without an area below it, an isolated bar would float: it gets a stem.
                if let (&[[left, right]], 0.0) = (line, opacity) {
                    let middle = f64::midpoint(left.0, right.0);
                    page.line(&[(middle, frame.bottom), (middle, left.1)], colour.mix(STEM), width)?;
                }
                page.line(&line.concat(), colour.mix(0.9), width)?;
            }
        }
        self.draw_cut(page, frame, panel)
    }

    /// Labels the bars of the darkest and the lightest bin with their shares where they are too
    /// high to fit.
    fn draw_cut<B: DrawingBackend>(&self, page: &Page<'_, B>, frame: &Frame, panel: &Panel) -> Drawn<B> {
        for (side, x) in [(HPos::Left, frame.left + 10.0), (HPos::Right, frame.right - 10.0)] {
            let ends = panel.channels.iter().map(|curve| match side {
                HPos::Right => (curve, curve.shares[curve.shares.len() - 1]),
                _ => (curve, curve.shares[0]),
            });
            for (line, (curve, share)) in ends.filter(|(_, share)| *share > self.top).enumerate() {
                let text = format!("{} {}", curve.channel.label(), percent(share));
                let y = frame.top + 8.0 + 14.0 * line as f64;
                page.text(&text, (x, y), SMALL, curve.channel.paint().0, side)?;
            }
        }
        Ok(())
    }

    /// Returns the tops of the bars from left to right.
    fn steps(&self, frame: &Frame, shares: &[f64]) -> Vec<Bar> {
        let width = (frame.right - frame.left) / shares.len() as f64;
        let bars = shares.iter().enumerate().map(|(number, &share)| {
            let (x, y) = (frame.left + width * number as f64, self.y(frame, share));
            [(x, y), (x + width, y)]
        });
        bars.collect()
    }

    /// Returns the y coordinate of a share in a panel.
    fn y(&self, frame: &Frame, share: f64) -> f64 {
        let height = match self.scale {
            Scale::Linear => share / self.top,
            Scale::Logarithmic => {
                let floor = self.one * BELOW_ONE;
                (share.max(floor) / floor).ln() / (self.top / floor).ln()
            }
        };
        frame.bottom - (frame.bottom - frame.top) * height.clamp(0.0, 1.0)
    }

    /// Returns the round shares to label.
    fn ticks(&self) -> Vec<f64> {
        match self.scale {
            Scale::Linear => {
                let step = round_step(self.top / 4.0);
                (1..).map(|n| step * f64::from(n)).take_while(|&share| share <= self.top).collect()
            }
            Scale::Logarithmic => {
                let decades = (0..).map(|n| 10f64.powi(-n));
                decades.take_while(|&share| share >= self.one).filter(|&share| share <= self.top).collect()
            }
        }
    }
}

impl Drawing for Chart<'_> {
    fn size(&self) -> (u32, u32) {
        (WIDTH, HEAD + PANEL * self.panels.len() as u32 + FOOT)
    }

    fn draw<B: DrawingBackend>(&self, page: &Page<'_, B>) -> Drawn<B> {
        self.draw_head(page)?;
        for (number, panel) in self.panels.iter().enumerate() {
            let y = f64::from(HEAD + PANEL * number as u32 + ABOVE);
            let frame = Frame {
                left: f64::from(LEFT),
                right: f64::from(WIDTH - RIGHT),
                top: y,
                bottom: y + f64::from(PANEL - ABOVE - BELOW),
            };
            self.draw_grid(page, &frame)?;
            self.draw_curves(page, &frame, panel)?;
            if self.panels.len() > 1 {
                page.text(panel.stage.title(), (frame.left, frame.top - 12.0), LABEL, INK, HPos::Left)?;
            }
        }
        Ok(())
    }
}

/// Returns the highest share that has to fit into the panels. A linear scale ignores the darkest
/// and the lightest bin, where clipped values collect, and alpha: they would flatten the rest.
fn top(panels: &[Panel], scale: Scale) -> f64 {
    let curves = panels.iter().flat_map(|panel| &panel.channels);
    let all = curves.clone().flat_map(|curve| &curve.shares).copied().fold(0.0, f64::max);
    let inner = curves
        .filter(|curve| curve.channel != Channel::Alpha)
        .flat_map(|curve| &curve.shares[1..curve.shares.len() - 1])
        .copied()
        .fold(0.0, f64::max);
    if scale == Scale::Linear && inner > 0.0 { inner } else { all }
}

/// Groups the tops of neighbouring bars into lines, broken at cliffs. The comb-like histogram of an
/// equalized picture is then drawn as its envelope and its valleys instead of a thicket of vertical
/// lines.
fn lines(steps: &[Bar], cliff: f64) -> impl Iterator<Item = &[Bar]> {
    steps.chunk_by(move |left, right| (left[1].1 - right[0].1).abs() <= cliff)
}

/// Returns the smallest number of the form 1, 2 or 5 times a power of ten that is not below
/// `least`.
fn round_step(least: f64) -> f64 {
    let decade = 10f64.powf(least.log10().floor());
    [1.0, 2.0, 5.0, 10.0]
        .map(|factor| factor * decade)
        .into_iter()
        .find(|&step| step >= least)
        .unwrap_or(least)
}

fn percent(share: f64) -> String {
    let percent = share * 100.0;
    let digits = (1.0 - percent.log10().floor()).clamp(0.0, 12.0) as usize;
    let text = format!("{percent:.digits$}");
    let short = if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
    format!("{short} %")
}

/// Shortens a name to fit above the plot.
fn shortened(name: &str) -> String {
    const FITS: usize = 60;
    if name.chars().count() <= FITS {
        return name.to_owned();
    }
    let head: String = name.chars().take(FITS - 1).collect();
    head + "…"
}

/// The position of a panel on the page.
struct Frame {
    left: f64,
    right: f64,
    top: f64,
    bottom: f64,
}

/// The left and right ends of the top of a bar.
type Bar = [(f64, f64); 2];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_short() {
        let labels = [1.0, 0.5, 0.128, 0.02, 0.001, 0.000_01].map(percent);
        assert_eq!(labels, ["100 %", "50 %", "13 %", "2 %", "0.1 %", "0.001 %"]);
    }

    #[test]
    fn steps_are_round() {
        assert_eq!(
            [0.011, 0.02, 0.04, 0.7].map(|least| (round_step(least) * 1e4).round()),
            [200.0, 200.0, 500.0, 10000.0]
        );
    }
}
