//! The brightness of values: rescaled, and brought between black and white by a window or a table.
//!
//! Source: PS3.3, C.11.1 and C.11.2; PS3.4, N.2.

use super::dataset::DataSet;
use super::description::Description;
use super::groups::scope_of;
use super::items::Scope;
use super::pixels::Frame;
use super::{CONVERT, malformed, tags, unsupported};
use crate::io::reader::resize;
use crate::samples::mapped::{Form, Kind, NoData, Rows};
use crate::target::range::Unit;
use crate::{CodecError, Window};

/// Within groups: windows, and how values are rescaled.
const FRAME_WINDOWS: u32 = 0x0028_9132;
const FRAME_RESCALING: u32 = 0x0028_9145;
const MODALITY_TABLES: u32 = 0x0028_3000;
const WINDOW_TABLES: u32 = 0x0028_3010;
const TABLE_DESCRIPTOR: u32 = 0x0028_3002;
const TABLE_DATA: u32 = 0x0028_3006;
const WINDOW_FUNCTION: u32 = 0x0028_1056;

/// A line from stored values to others.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Rescale {
    slope: f64,
    intercept: f64,
}

impl Rescale {
    const IDENTITY: Self = Self { slope: 1.0, intercept: 0.0 };

    /// Returns that of a frame, if it states one.
    pub(super) fn of(set: &DataSet, frame: u32) -> Option<Self> {
        let scope = scope_of(set, frame, FRAME_RESCALING);
        let slope = scope.number(tags::RESCALE_SLOPE).filter(|slope| *slope != 0.0);
        let intercept = scope.number(tags::RESCALE_INTERCEPT);
        if slope.is_none() && intercept.is_none() {
            return None;
        }
        Some(Self { slope: slope.unwrap_or(1.0), intercept: intercept.unwrap_or(0.0) })
    }

    fn value(self, stored: f64) -> f64 {
        stored * self.slope + self.intercept
    }

    /// Returns the stored values of two values in a unit, the lesser one first.
    ///
    /// # Errors
    /// If a frame's values are not rescaled to that unit, or by a table.
    pub(super) fn stored(
        set: &DataSet,
        frame: u32,
        unit: Unit,
        ends: [f64; 2],
    ) -> Result<[f64; 2], CodecError> {
        let stated = scope_of(set, frame, FRAME_RESCALING).text(tags::RESCALE_TYPE);
        let is_right = match unit {
            Unit::Hounsfield => {
                stated.map_or(set.text(tags::MODALITY) == Some("CT"), |stated| stated == "HU")
            }
            Unit::Activity => set.text(tags::UNITS) == Some("BQML"),
            Unit::Rescaled => true,
        };
        if Scope::Whole(set).item(MODALITY_TABLES).is_some() {
            return Err(unsupported(
                format!("--range in {} for a DICOM file whose values are rescaled by a table", unit.suffix()),
                "give it in stored values, as in --range 0..4095",
            ));
        }
        let line = Self::of(set, frame).or((unit == Unit::Rescaled).then_some(Self::IDENTITY));
        let Some(Self { slope, intercept }) = line.filter(|_| is_right) else {
            return Err(unsupported(
                format!(
                    "--range in {} for a DICOM file whose values have another unit, or no slope",
                    unit.suffix()
                ),
                "give it in rescaled values, as in --range 0..4095rescaled",
            ));
        };
        let [one, other] = ends.map(|value| (value - intercept) / slope);
        Ok([one.min(other), one.max(other)])
    }

    /// Returns slope and intercept, unless they change nothing.
    pub(super) fn line(self) -> Option<[f64; 2]> {
        Some([self.slope, self.intercept]).filter(|line| *line != [1.0, 0.0])
    }
}

/// A table of values.
#[derive(Debug)]
struct Table {
    /// The value of the first entry.
    first: f64,
    entries: Vec<u16>,
    /// The highest value that an entry may have.
    top: f64,
}

impl Table {
    fn read(item: Scope<'_>, may_be_signed: bool) -> Option<Self> {
        let descriptor = item.find(TABLE_DESCRIPTOR)?;
        let &[count, first, bits] = descriptor.words().first_chunk()?;
        let is_signed = descriptor.kind.map_or(may_be_signed, |kind| kind == *b"SS");
        let count = if count == 0 { 1 << 16 } else { usize::from(count) };
        let data = item.find(TABLE_DATA)?;
        let mut entries = match data.value.len() {
            bytes if bytes < 2 * count => data.value.iter().copied().map(u16::from).collect(),
            _ => data.words(),
        };
        let first = if is_signed { first.cast_signed().into() } else { first.into() };
        entries.truncate(count);
        let is_whole = entries.len() == count && (1..=16).contains(&bits);
        is_whole.then(|| Self { first, entries, top: f64::from((1_u32 << bits) - 1) })
    }

    /// Returns the entry of a value, or the nearest entry outside the table.
    fn entry(&self, value: f64) -> f64 {
        let number = (value - self.first).clamp(0.0, (self.entries.len() - 1) as f64);
        self.entries[number as usize].into()
    }
}

/// Returns the modality table, if there is one; `Some(None)` if it is damaged.
fn modality_table(set: &DataSet, description: &Description) -> Option<Option<Table>> {
    Some(Table::read(Scope::Whole(set).item(MODALITY_TABLES)?, description.signed))
}

/// Returns whether gray values go through a modality table that ends below its beginning.
pub(super) fn has_falling_table(set: &DataSet, description: &Description) -> bool {
    let table = modality_table(set, description).flatten().filter(|_| description.is_gray());
    table.is_some_and(|table| table.entries.last() < table.entries.first())
}

/// Returns whether a frame's gray values are rescaled by a negative slope, and not by a table.
pub(super) fn has_falling_line(set: &DataSet, description: &Description, frame: u32) -> bool {
    let has_table = Scope::Whole(set).item(MODALITY_TABLES).is_some();
    description.is_gray() && !has_table && Rescale::of(set, frame).is_some_and(|line| line.slope < 0.0)
}

/// The step from stored values to rescaled ones.
#[derive(Debug)]
enum Modality {
    Line(Rescale),
    Table(Table),
}

/// The step from rescaled values to brightness.
#[derive(Debug)]
enum Voi {
    Linear { center: f64, width: f64 },
    LinearExact { center: f64, width: f64 },
    Sigmoid { center: f64, width: f64 },
    Table(Table),
}

/// How the values of a frame are shown.
#[derive(Debug)]
pub(super) struct Shown {
    modality: Modality,
    voi: Voi,
    padding: Option<NoData>,
    inverted: bool,
}

impl Shown {
    /// Returns how a frame is shown in the `window`.
    ///
    /// `None` if that is the file's own and the file has no window.
    ///
    /// # Errors
    /// If the file has no such window, or its tables are damaged.
    pub(super) fn find(
        set: &DataSet,
        description: &Description,
        frame: u32,
        window: Window,
    ) -> Result<Option<Self>, CodecError> {
        let modality = match modality_table(set, description) {
            Some(table) => Modality::Table(table.ok_or_else(damaged)?),
            None => Modality::Line(Rescale::of(set, frame).unwrap_or(Rescale::IDENTITY)),
        };
        let scope = scope_of(set, frame, FRAME_WINDOWS);
        let (wanted, uses_tables) = match window {
            Window::Given { .. } => (0, false),
            Window::Own => (0, true),
            Window::Number(number) => (usize::from(number) - 1, scope.number(tags::WINDOW_CENTER).is_none()),
        };
        let table = scope.find(WINDOW_TABLES).filter(|_| uses_tables).and_then(|tables| tables.item(wanted));
        let voi = match (table, window) {
            (Some(item), _) => {
                let may_be_signed = description.signed
                    || matches!(modality, Modality::Line(Rescale { intercept, .. }) if intercept < 0.0);
                Some(Voi::Table(Table::read(item, may_be_signed).ok_or_else(damaged)?))
            }
            (None, Window::Given { center, width }) => Some(windowed(scope, center, width)?),
            (None, _) => {
                let [center, width] = [tags::WINDOW_CENTER, tags::WINDOW_WIDTH]
                    .map(|tag| scope.find(tag)?.numbers().nth(wanted));
                center.zip(width).map(|(center, width)| windowed(scope, center, width)).transpose()?
            }
        };
        let (padding, inverted) = (description.padding, description.is_inverted());
        match (voi, window) {
            (Some(voi), _) => Ok(Some(Self { modality, voi, padding, inverted })),
            (None, Window::Number(number)) => Err(unsupported(
                format!("window {number} of a DICOM file that has fewer"),
                "use --window auto, or give one as CENTER,WIDTH",
            )),
            (None, _) => Ok(None),
        }
    }

    /// Returns the form of the brightness of a picture.
    pub(super) fn form() -> Form {
        Form { ends: Some((0.0, 1.0)), ..Form::of(Kind::Float64) }
    }

    /// Returns the brightness of a stored value, from 0 to 1; not a number if it is padding.
    fn brightness(&self, stored: f64) -> f64 {
        if self.padding.is_some_and(|padding| padding.has(stored)) {
            return f64::NAN;
        }
        let value = match &self.modality {
            Modality::Line(line) => line.value(stored),
            Modality::Table(table) => table.entry(stored),
        };
        let brightness = self.voi.brightness(value);
        if self.inverted { 1.0 - brightness } else { brightness }
    }
}

fn damaged() -> CodecError {
    malformed("a table of values is damaged")
}

/// Returns the window of this center and width, with the function that its scope states.
fn windowed(scope: Scope<'_>, center: f64, width: f64) -> Result<Voi, CodecError> {
    match scope.text(WINDOW_FUNCTION) {
        Some("SIGMOID") if width > 0.0 => Ok(Voi::Sigmoid { center, width }),
        Some("LINEAR_EXACT") if width > 0.0 => Ok(Voi::LinearExact { center, width }),
        None | Some("LINEAR") if width >= 1.0 => Ok(Voi::Linear { center, width }),
        None | Some("LINEAR" | "LINEAR_EXACT" | "SIGMOID") => {
            Err(malformed(format!("a window of width {width}")))
        }
        Some(other) => Err(unsupported(format!("a DICOM file with the window function {other}"), CONVERT)),
    }
}

impl Voi {
    /// Returns the brightness of a value, from 0 to 1.
    fn brightness(&self, value: f64) -> f64 {
        match self {
            Self::Linear { center, width } => {
                let (middle, span) = (center - 0.5, width - 1.0);
                match value - middle {
                    offset if offset <= -span / 2.0 => 0.0,
                    offset if offset > span / 2.0 => 1.0,
                    offset => offset / span + 0.5,
                }
            }
            Self::LinearExact { center, width } => ((value - center) / width + 0.5).clamp(0.0, 1.0),
            Self::Sigmoid { center, width } => 1.0 / (1.0 + (-4.0 * (value - center) / width).exp()),
            Self::Table(table) => (table.entry(value) / table.top).min(1.0),
        }
    }
}

/// The rows of a frame as they are shown: 64-bit floats from 0 to 1.
pub(super) struct ShownRows<'f> {
    rows: &'f Frame<'f>,
    shown: &'f Shown,
    /// The type of samples, and the bytes of a row of them.
    kind: Kind,
    row: usize,
    /// The brightness of every value of short samples, by their bits.
    table: Vec<f64>,
}

impl<'f> ShownRows<'f> {
    /// The most bytes of the table.
    pub(super) const TABLE_BYTES: u64 = (size_of::<f64>() << 16) as u64;

    pub(super) fn new(rows: &'f Frame<'f>, shown: &'f Shown, description: &Description) -> Self {
        let kind = description.kind();
        let row = description.width as usize * description.pixel_bytes();
        let table = match kind.bytes() {
            1 => (0..=u8::MAX).map(|bits| shown.brightness(kind.value(&[bits]))).collect(),
            2 => (0..=u16::MAX).map(|bits| shown.brightness(kind.value(&bits.to_ne_bytes()))).collect(),
            _ => Vec::new(),
        };
        Self { rows, shown, kind, row, table }
    }
}

/// The stored samples, and the buffer for reading them.
#[derive(Default)]
pub(super) struct Tool {
    inner: Vec<u8>,
    samples: Vec<u8>,
}

impl Rows for ShownRows<'_> {
    type Tool = Tool;

    fn at_once(&self) -> usize {
        self.rows.at_once()
    }

    fn tool_bytes(&self) -> u64 {
        self.rows.tool_bytes() + (self.at_once() * self.row) as u64
    }

    fn read(&self, tool: &mut Tool, first: usize, into: &mut [u8]) -> Result<(), CodecError> {
        let bytes = self.kind.bytes();
        let into = into.as_chunks_mut::<8>().0;
        resize(&mut tool.samples, into.len() * bytes)?;
        self.rows.read(&mut tool.inner, first, &mut tool.samples)?;
        for (to, sample) in into.iter_mut().zip(tool.samples.chunks_exact(bytes)) {
            let brightness = match *sample {
                [byte] => self.table[usize::from(byte)],
                [a, b] => self.table[usize::from(u16::from_ne_bytes([a, b]))],
                _ => self.shown.brightness(self.kind.value(sample)),
            };
            *to = brightness.to_ne_bytes();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Seek;

    use super::super::tests::{Made, decode, group, inner, slot_of};
    use super::*;
    use crate::{Cores, Target};

    /// Returns the levels and the colours of a file that is written with the levels of a file made.
    fn written(made: &Made) -> (Vec<u16>, String) {
        let target = &Target::AS_STORED;
        let (decoded, levels) = made.decoded(target).unwrap();
        let mut file = tempfile::tempfile().unwrap();
        let (mut slot, mut scratch) = (slot_of(&levels), Vec::new());
        crate::encode(&decoded, &mut slot, target, &mut scratch, &Cores::none(), &mut file).unwrap();
        file.rewind().unwrap();
        let (decoded, levels) = decode(&mut file, target).unwrap();
        let native = decoded.native_of::<crate::formats::dicom::Native>().unwrap();
        (levels, native.known.set.text(tags::PHOTOMETRIC).unwrap().to_owned())
    }

    #[test]
    fn what_falls_on_the_way_to_brightness_is_turned_around() {
        let table = [
            inner(TABLE_DESCRIPTOR, b"US", &[2, 0, 0, 0, 8, 0]),
            inner(TABLE_DATA, b"US", &[200, 0, 100, 0]),
        ];
        for (photometric, slope, has_table, is_turned) in [
            ("MONOCHROME2", "10", false, false),
            ("MONOCHROME1", "10", false, true),
            ("MONOCHROME2", "-10", false, true),
            ("MONOCHROME1", "-0.5", false, false),
            ("MONOCHROME2", "", true, true),
            ("MONOCHROME1", "", true, false),
        ] {
            let mut made =
                Made::new([2, 2], &[0, 1, 2, 3]).with(tags::PHOTOMETRIC, b"CS", photometric.as_bytes());
            if has_table {
                made = made.with_items(MODALITY_TABLES, [table.concat()]);
            } else {
                let of_frame = group(FRAME_RESCALING, &inner(tags::RESCALE_SLOPE, b"DS", slope.as_bytes()));
                made = made.with_items(tags::SHARED_GROUPS, [of_frame]);
            }
            let (_, levels) = made.decoded(&Target::AS_STORED).unwrap();
            let name = format!("{photometric} {slope} {has_table}");
            assert_eq!(levels.first() > levels.last(), is_turned, "{name}: {levels:?}");
            // Samples stay, and are shown as before: without the table, by their colours.
            let (again, kind) = written(&made);
            assert_eq!(again, levels, "{name}");
            let turned = if has_table { is_turned } else { photometric == "MONOCHROME1" };
            assert_eq!(kind, if turned { "MONOCHROME1" } else { "MONOCHROME2" }, "{name}");
        }
    }

    #[test]
    fn a_range_in_rescaled_values_is_of_any_modality() {
        let levels = |slope: Option<&str>, range: &str| {
            let made = Made::new([2, 1], &[0, 100]);
            let made = match slope {
                Some(slope) => made.with(tags::RESCALE_SLOPE, b"DS", slope.as_bytes()),
                None => made,
            };
            let target = Target { range: Some(range.parse().unwrap()), ..Target::AS_STORED };
            let (decoded, levels) = made.decoded(&target)?;
            Ok::<_, CodecError>((levels, decoded.rescale()))
        };
        // Levels stand for values, so that other slopes are no obstacle.
        assert_eq!(levels(Some("2"), "0..200rescaled").unwrap(), (vec![0, 65_535], None));
        assert_eq!(levels(Some("1"), "0..200rescaled").unwrap(), (vec![0, 32_768], None));
        assert_eq!(levels(None, "0..200rescaled").unwrap(), (vec![0, 32_768], None));
        assert_eq!(levels(Some("2"), "0..200").unwrap(), (vec![0, 32_768], Some([2.0, 0.0])));
        let error = levels(Some("2"), "0..200hu").unwrap_err().to_string();
        assert!(error.ends_with("as in --range 0..4095rescaled"), "{error}");
    }

    #[test]
    fn windows_are_those_of_the_standard() {
        // PS3.3, C.11.2.1.2.1: of center 2048 and width 4096, 0 is black and 4095 is white.
        let linear = Voi::Linear { center: 2048.0, width: 4096.0 };
        assert_eq!([0.0, 4095.0, 4096.0, -5.0].map(|value| linear.brightness(value)), [0.0, 1.0, 1.0, 0.0]);
        assert_eq!(linear.brightness(2047.5), 0.5);
        let narrow = Voi::Linear { center: 100.0, width: 1.0 };
        assert_eq!([99.0, 99.5, 100.0].map(|value| narrow.brightness(value)), [0.0, 0.0, 1.0]);
        let exact = Voi::LinearExact { center: 2048.0, width: 4096.0 };
        assert_eq!([0.0, 2048.0, 4096.0].map(|value| exact.brightness(value)), [0.0, 0.5, 1.0]);
        let sigmoid = Voi::Sigmoid { center: 10.0, width: 4.0 };
        assert_eq!(sigmoid.brightness(10.0), 0.5);
        assert!((sigmoid.brightness(11.0) - 1.0 / (1.0 + (-1.0_f64).exp())).abs() < 1e-12);
        let table = Voi::Table(Table { first: -1.0, entries: vec![0, 128, 255], top: 255.0 });
        assert_eq!([-9.0, -1.0, 1.0, 9.0].map(|value| table.brightness(value)), [0.0, 0.0, 1.0, 1.0]);
    }
}
