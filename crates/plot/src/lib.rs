//! The common parts of all plots: the page, its colours and font, and the file formats.
//!
//! ```
//! use std::path::Path;
//!
//! use histeqd_plot::{Drawing, Drawn, INK, Page, TITLE, draw};
//! use plotters::prelude::DrawingBackend;
//! use plotters::style::text_anchor::HPos;
//!
//! struct Greeting;
//!
//! impl Drawing for Greeting {
//!     fn size(&self) -> (u32, u32) {
//!         (200, 50)
//!     }
//!
//!     fn draw<B: DrawingBackend>(&self, page: &Page<'_, B>) -> Drawn<B> {
//!         page.text("hello", (100.0, 25.0), TITLE, INK, HPos::Center)
//!     }
//! }
//!
//! let svg = draw(&Greeting, Path::new("greeting.svg")).unwrap();
//! assert!(svg.starts_with(b"<svg"));
//! ```

mod png;

use std::ffi::OsStr;
use std::path::Path;
use std::sync::Once;

use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::register_font;
use plotters::style::text_anchor::{HPos, Pos, VPos};

/// The font of the plots, built in to spare an installation. See the README in its folder.
const FONT: &[u8] = include_bytes!("font/Roboto-Latin.ttf");

/// The file format of a plot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlotFormat {
    /// A raster image.
    Png,
    /// Vector graphics.
    Svg,
}

impl PlotFormat {
    /// Returns the format that the extension of a plot's name stands for, if any.
    pub fn of(path: &Path) -> Option<Self> {
        let extension = path.extension().and_then(OsStr::to_str)?.to_ascii_lowercase();
        match extension.as_str() {
            "png" => Some(Self::Png),
            "svg" => Some(Self::Svg),
            _ => None,
        }
    }
}

/// The background.
pub const PAPER: RGBColor = RGBColor(252, 252, 253);
/// Titles and curves.
pub const INK: RGBColor = RGBColor(28, 32, 36);
/// Labels.
pub const FAINT_INK: RGBColor = RGBColor(104, 112, 122);
/// Lines of a grid.
pub const GRID: RGBColor = RGBColor(226, 229, 234);

// Text sizes, in the units of `Drawing::size`.
/// The size of titles.
pub const TITLE: f64 = 19.0;
/// The size of labels.
pub const LABEL: f64 = 13.0;
/// The size of remarks.
pub const SMALL: f64 = 11.5;

/// The result of drawing on a backend.
pub type Drawn<B> = Result<(), DrawingAreaErrorKind<<B as DrawingBackend>::ErrorType>>;

/// Something that can be drawn on a page.
pub trait Drawing {
    /// Returns the width and height, in units of about one screen pixel.
    fn size(&self) -> (u32, u32);

    /// Draws on a page of that size.
    fn draw<B: DrawingBackend>(&self, page: &Page<'_, B>) -> Drawn<B>;
}

/// Draws. Returns the content of the plot's file, in the format that the extension of `path` names.
///
/// # Errors
/// The obstacle, in words.
pub fn draw(drawing: &impl Drawing, path: &Path) -> Result<Vec<u8>, String> {
    register();
    let drawn = match PlotFormat::of(path) {
        Some(PlotFormat::Png) => png::draw(drawing),
        Some(PlotFormat::Svg) => draw_svg(drawing),
        None => return Err("its name ends neither in .png nor in .svg".to_owned()),
    };
    drawn.map_err(|error| error.to_string())
}

fn draw_svg(drawing: &impl Drawing) -> Result<Vec<u8>, Box<dyn std::error::Error>> {
    let mut text = String::new();
    draw_on(SVGBackend::with_string(&mut text, drawing.size()), drawing, 1)?;
    Ok(text.into_bytes())
}

/// Draws on any backend, with all lengths scaled by `zoom`.
fn draw_on<B: DrawingBackend>(
    backend: B,
    drawing: &impl Drawing,
    zoom: u32,
) -> Result<(), DrawingAreaErrorKind<B::ErrorType>> {
    let area: DrawingArea<B, Shift> = backend.into_drawing_area();
    area.fill(&PAPER)?;
    drawing.draw(&Page { area: &area, zoom: f64::from(zoom) })?;
    area.present()
}

/// Registers the font, once.
fn register() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // It fails only if the data is not a font.
        let _ = register_font("sans-serif", FontStyle::Normal, FONT);
    });
}

/// The drawing area, with lengths in the drawing's units.
pub struct Page<'a, B: DrawingBackend> {
    area: &'a DrawingArea<B, Shift>,
    zoom: f64,
}

impl<B: DrawingBackend> Page<'_, B> {
    fn place(&self, (x, y): (f64, f64)) -> (i32, i32) {
        ((x * self.zoom).round() as i32, (y * self.zoom).round() as i32)
    }

    fn places(&self, points: &[(f64, f64)]) -> Vec<(i32, i32)> {
        points.iter().map(|&point| self.place(point)).collect()
    }

    /// Draws a line through some points.
    pub fn line(&self, points: &[(f64, f64)], colour: RGBAColor, width: f64) -> Drawn<B> {
        let style = colour.stroke_width((width * self.zoom).round() as u32);
        self.area.draw(&PathElement::new(self.places(points), style))
    }

    /// Draws a filled polygon.
    pub fn area(&self, points: &[(f64, f64)], colour: RGBAColor) -> Drawn<B> {
        self.area.draw(&Polygon::new(self.places(points), colour.filled()))
    }

    /// Draws text centred vertically on `at`; `side` is its end, or middle, at that point.
    pub fn text(&self, text: &str, at: (f64, f64), size: f64, colour: RGBColor, side: HPos) -> Drawn<B> {
        let style =
            ("sans-serif", size * self.zoom).into_font().color(&colour).pos(Pos::new(side, VPos::Center));
        self.area.draw(&Text::new(text.to_owned(), self.place(at), style))
    }
}
