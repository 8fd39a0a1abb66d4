//! The ladder as a bar chart, on a logarithmic axis because times differ by factors of thousands.

use plotters::prelude::*;
use plotters::style::text_anchor::HPos;

use super::report::{Figures, LadderReport, Outcome, RungReport};
use super::table::time;
use plot::{Drawing, Drawn, FAINT_INK, GRID, INK, LABEL, Page, SMALL, TITLE};

/// The width of the drawing, in units of about one screen pixel.
const WIDTH: f64 = 900.0;
/// Height of the title and the legend.
const HEAD: f64 = 70.0;
/// Height of a section's name.
const SECTION: f64 = 34.0;
/// Height of a rung: two bars and the space below them.
const RUNG: f64 = 28.0;
/// Height of a bar.
const BAR: f64 = 10.0;
/// Height of the axis labels at the bottom.
const FOOT: f64 = 36.0;
/// The left and the right end of the axis; the rungs' names are to the left of it.
const LEFT: f64 = 250.0;
const RIGHT: f64 = WIDTH - 24.0;
const MARGIN: f64 = 24.0;

/// The end of the axis as a multiple of the longest time: room for the label of its bar.
const HEADROOM: f64 = 4.0;

/// The most characters of a reason that fit next to the names.
const REASON_FITS: usize = 90;

/// The kind of time that a bar shows.
#[derive(Clone, Copy)]
enum Kind {
    Kernels,
    Whole,
}

impl Kind {
    const ALL: [Self; 2] = [Self::Kernels, Self::Whole];

    const fn colour(self) -> RGBColor {
        match self {
            Self::Kernels => RGBColor(62, 99, 221),
            Self::Whole => RGBColor(150, 158, 168),
        }
    }

    const fn label(self) -> &'static str {
        match self {
            Self::Kernels => "kernels, the picture in the GPU's memory",
            Self::Whole => "whole, host memory to host memory",
        }
    }

    const fn of(self, figures: &Figures) -> Option<f64> {
        match self {
            Self::Kernels => figures.kernel_seconds,
            Self::Whole => figures.whole_seconds,
        }
    }
}

/// The ladder to draw.
pub(super) struct Bars<'a> {
    climbed: &'a LadderReport,
    /// Seconds at the left and at the right end of the axis.
    from: f64,
    to: f64,
}

impl<'a> Bars<'a> {
    pub(super) fn new(climbed: &'a LadderReport) -> Self {
        let times = || climbed.sections.iter().flat_map(|section| &section.rungs).flat_map(times);
        let shortest = times().fold(f64::INFINITY, f64::min);
        let longest = times().fold(0.0, f64::max);
        if longest <= 0.0 {
            return Self { climbed, from: 1e-6, to: 1.0 };
        }
        Self { climbed, from: 10_f64.powf(shortest.log10().floor()), to: longest * HEADROOM }
    }

    fn x(&self, seconds: f64) -> f64 {
        let share = (seconds / self.from).ln() / (self.to / self.from).ln();
        LEFT + (RIGHT - LEFT) * share.clamp(0.0, 1.0)
    }

    fn decades(&self) -> impl Iterator<Item = f64> + '_ {
        // Each power is computed from its integer exponent, for round labels without the error of
        // repeated multiplication.
        let first = self.from.log10().round() as i32;
        (first..).map(|exponent| 10_f64.powi(exponent)).take_while(|&seconds| seconds < self.to)
    }

    fn bottom(&self) -> f64 {
        HEAD + self.climbed.shown().map(|(_, rungs)| SECTION + RUNG * rungs.len() as f64).sum::<f64>()
    }

    fn draw_head<B: DrawingBackend>(&self, page: &Page<'_, B>) -> Drawn<B> {
        let (width, height) = self.climbed.size;
        let device = self.climbed.gpu.as_ref().map_or("one CPU thread", |gpu| gpu.name.as_str());
        let title = format!("Equalizing {width} × {height} pixels of 8 bit: {device}");
        page.text(&title, (MARGIN, 26.0), TITLE, INK, HPos::Left)?;
        let mut x = MARGIN;
        for kind in Kind::ALL {
            bar(page, (x, x + 14.0), 45.0, kind.colour())?;
            page.text(kind.label(), (x + 20.0, 50.0), LABEL, INK, HPos::Left)?;
            x += 44.0 + 6.4 * kind.label().len() as f64;
        }
        Ok(())
    }

    fn draw_axis<B: DrawingBackend>(&self, page: &Page<'_, B>) -> Drawn<B> {
        let bottom = self.bottom();
        for seconds in self.decades() {
            let x = self.x(seconds);
            page.line(&[(x, HEAD), (x, bottom)], GRID.to_rgba(), 1.0)?;
            page.text(&decade(seconds), (x, bottom + 14.0), SMALL, FAINT_INK, HPos::Center)?;
        }
        Ok(())
    }

    fn draw_rung<B: DrawingBackend>(&self, page: &Page<'_, B>, rung: &RungReport, y: f64) -> Drawn<B> {
        page.text(rung.name, (LEFT - 10.0, y + BAR), LABEL, INK, HPos::Right)?;
        let reason = match &rung.outcome {
            Outcome::Measured(figures) => return self.draw_bars(page, figures, y),
            Outcome::Skipped { reason } => format!("skipped: {reason}"),
            Outcome::Failed { reason } => format!("failed: {reason}"),
        };
        let short: String = reason.chars().take(REASON_FITS).collect();
        page.text(&short, (LEFT + 6.0, y + BAR), SMALL, FAINT_INK, HPos::Left)
    }

    fn draw_bars<B: DrawingBackend>(&self, page: &Page<'_, B>, figures: &Figures, y: f64) -> Drawn<B> {
        let known: Vec<_> =
            Kind::ALL.into_iter().filter_map(|kind| Some((kind, kind.of(figures)?))).collect();
        // A single bar is centred.
        let mut y = if known.len() == 1 { y + BAR / 2.0 } else { y };
        for (kind, seconds) in known {
            let end = self.x(seconds);
            bar(page, (LEFT, end), y, kind.colour())?;
            page.text(&time(seconds), (end + 6.0, y + BAR / 2.0), SMALL, FAINT_INK, HPos::Left)?;
            y += BAR;
        }
        Ok(())
    }
}

impl Drawing for Bars<'_> {
    fn size(&self) -> (u32, u32) {
        (WIDTH as u32, (self.bottom() + FOOT) as u32)
    }

    fn draw<B: DrawingBackend>(&self, page: &Page<'_, B>) -> Drawn<B> {
        self.draw_head(page)?;
        self.draw_axis(page)?;
        let mut y = HEAD;
        for (section, rungs) in self.climbed.shown() {
            page.text(section.title, (MARGIN, y + SECTION / 2.0), LABEL + 2.0, INK, HPos::Left)?;
            y += SECTION;
            for rung in rungs {
                self.draw_rung(page, rung, y)?;
                y += RUNG;
            }
        }
        Ok(())
    }
}

fn bar<B: DrawingBackend>(
    page: &Page<'_, B>,
    (from, to): (f64, f64),
    top: f64,
    colour: RGBColor,
) -> Drawn<B> {
    let bottom = top + BAR - 1.0;
    page.area(&[(from, top), (to, top), (to, bottom), (from, bottom)], colour.to_rgba())
}

fn times(rung: &RungReport) -> impl Iterator<Item = f64> {
    let figures = if let Outcome::Measured(figures) = &rung.outcome { Some(figures) } else { None };
    Kind::ALL.into_iter().filter_map(move |kind| kind.of(figures?))
}

/// Formats a power of ten, in seconds.
fn decade(seconds: f64) -> String {
    match seconds {
        seconds if seconds < 0.9e-3 => format!("{:.0} µs", seconds * 1e6),
        seconds if seconds < 0.9 => format!("{:.0} ms", seconds * 1e3),
        seconds => format!("{seconds:.0} s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::tests::made_up;
    use std::path::Path;

    fn svg(climbed: &LadderReport) -> String {
        let bytes = plot::draw(&Bars::new(climbed), Path::new("ladder.svg")).unwrap();
        String::from_utf8(bytes).unwrap()
    }

    /// Returns the number of filled shapes of a colour.
    fn shapes(svg: &str, RGBColor(r, g, b): RGBColor) -> usize {
        svg.matches(&format!("fill=\"#{r:02X}{g:02X}{b:02X}\"")).count()
    }

    #[test]
    fn every_time_has_a_bar_and_every_rung_a_name() {
        let svg = svg(&made_up());
        // One of each is in the legend.
        assert_eq!((shapes(&svg, Kind::Kernels.colour()), shapes(&svg, Kind::Whole.colour())), (2, 4));
        for text in [
            "upload",
            "texture unit",
            "8.00 µs",
            "4.20 ms",
            "skipped: there is only one GPU",
            "failed: WRONG",
        ] {
            assert!(svg.contains(text), "{text}:\n{svg}");
        }
    }

    #[test]
    fn bars_are_as_long_as_the_logarithm_of_their_times() {
        let climbed = made_up();
        let bars = Bars::new(&climbed);
        assert_eq!((bars.from * 1e9).round(), 1000.0);
        assert_eq!(bars.x(bars.from), LEFT);
        assert_eq!(bars.x(bars.to), RIGHT);
        let steps: Vec<f64> = bars.decades().map(|seconds| bars.x(seconds)).collect();
        assert_eq!(steps.len(), 5);
        assert!(steps.windows(3).all(|at| (at[2] - 2.0 * at[1] + at[0]).abs() < 1e-6), "{steps:?}");
    }

    #[test]
    fn the_axis_is_labelled_with_round_times() {
        assert_eq!(
            [1e-6, 1e-5, 1e-4, 1e-3, 0.1, 1.0].map(decade),
            ["1 µs", "10 µs", "100 µs", "1 ms", "100 ms", "1 s"]
        );
    }

    #[test]
    fn a_ladder_without_a_time_can_be_drawn() {
        let mut climbed = made_up();
        climbed.sections[0].rungs.drain(..3);
        assert!(svg(&climbed).contains("two GPUs"));
    }

    #[test]
    fn a_png_is_one() {
        let png = plot::draw(&Bars::new(&made_up()), Path::new("ladder.png")).unwrap();
        assert!(png.starts_with(b"\x89PNG\r\n"));
    }
}
