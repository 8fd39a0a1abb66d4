//! The range of values that the user gives.

use std::fmt;
use std::str::FromStr;

/// The values between which levels are spread, if they are not the picture's extremes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Range {
    pub(crate) low: f64,
    pub(crate) high: f64,
    /// The unit of the values, if they are not as stored: a rescaled one of DICOM.
    pub(crate) unit: Option<Unit>,
}

/// A unit of rescaled values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    /// Of computed tomography.
    Hounsfield,
    /// Becquerels a millilitre, of positron emission.
    Activity,
    /// Of any modality, whatever RescaleSlope and RescaleIntercept make of stored values.
    Rescaled,
}

impl Unit {
    const ALL: [Self; 3] = [Self::Hounsfield, Self::Activity, Self::Rescaled];

    /// Returns the suffix of values of this unit.
    pub(crate) const fn suffix(self) -> &'static str {
        match self {
            Self::Hounsfield => "hu",
            Self::Activity => "bqml",
            Self::Rescaled => "rescaled",
        }
    }
}

impl Range {
    /// Returns the range between two finite values, if the first is less.
    pub fn new(low: f64, high: f64) -> Option<Self> {
        (low.is_finite() && high.is_finite() && low < high).then_some(Self { low, high, unit: None })
    }

    /// Returns the range with ends of few digits, at most a hundredth of its width farther out.
    ///
    /// `None` if that is not a range.
    pub(crate) fn rounded(self) -> Option<Self> {
        let digits = 2 - (self.high - self.low).log10().floor() as i32;
        let unit = 10_f64.powi(-digits);
        let round = |units: f64| format!("{:.*}", digits.max(0) as usize, units * unit).parse().ok();
        Self::new(round((self.low / unit).floor())?, round((self.high / unit).ceil())?)
    }

    /// Returns the least range that includes all of these, without a unit; `None` without ranges.
    pub fn of_all(ranges: impl IntoIterator<Item = Option<Self>>) -> Option<Self> {
        ranges.into_iter().flatten().reduce(|one, other| Self {
            low: one.low.min(other.low),
            high: one.high.max(other.high),
            unit: None,
        })
    }
}

/// Returns a value and its unit.
fn parse_end(text: &str) -> Option<(f64, Option<Unit>)> {
    let text = text.trim().to_ascii_lowercase();
    let unit = Unit::ALL.into_iter().find(|unit| text.ends_with(unit.suffix()));
    let number = text.strip_suffix(unit.map_or("", Unit::suffix))?;
    Some((number.trim_end().parse().ok()?, unit))
}

impl FromStr for Range {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let ends = text.trim().split_once("..");
        let numbers = ends.and_then(|(low, high)| Some((parse_end(low)?, parse_end(high)?)));
        // The unit is that of both, and may be left out after the lower one.
        let range = numbers
            .filter(|(low, high)| low.1.is_none() || low.1 == high.1)
            .and_then(|((low, _), (high, unit))| Some(Self { unit, ..Self::new(low, high)? }));
        range.ok_or_else(|| {
            format!(
                "{text:?} is not a range such as 0..1, -1000..3000 or -1000hu..400hu, whose first number is less"
            )
        })
    }
}

impl fmt::Display for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unit = self.unit.map_or("", Unit::suffix);
        write!(f, "{}{unit}..{}{unit}", self.low, self.high)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rounded_range_has_few_digits_and_all_values() {
        for (low, high, rounded) in [
            (0.123_456, 0.987_65, "0.123..0.988"),
            (-3.2174, 2.6349, "-3.22..2.64"),
            (12.0, 123_456.7, "0..124000"),
            (-1e300, 1e300, "-1e300..1e300"),
            (1e-30, 3e-30, "1e-30..3e-30"),
        ] {
            let range = Range::new(low, high).unwrap().rounded().unwrap();
            let expected: Range = rounded.parse().unwrap();
            let near = |a: f64, b: f64| (a - b).abs() <= (high - low) * 0.02;
            assert!(near(range.low, expected.low) && near(range.high, expected.high), "{range}");
            assert!(range.low <= low && range.high >= high, "{range}");
        }
        let range = |text: &str| text.parse::<Range>().unwrap();
        assert_eq!(range("0.123456..0.98765").rounded(), Some(range("0.123..0.988")));
        assert_eq!(Range::of_all([Some(range("-1..2")), None, Some(range("0..3"))]), Some(range("-1..3")));
        assert_eq!(Range::of_all([None]), None);
    }

    #[test]
    fn a_range_is_two_finite_numbers_in_order() {
        for (text, low, high) in
            [("0..1", 0.0, 1.0), ("-1000..3e3", -1000.0, 3000.0), (" -0.5 .. -.25 ", -0.5, -0.25)]
        {
            let range = text.parse::<Range>().unwrap();
            assert_eq!(range, Range { low, high, unit: None }, "{text}");
            assert_eq!(range.to_string().parse(), Ok(range));
        }
        let hounsfield: Range = "-1000HU .. 400 hu".parse().unwrap();
        assert_eq!(hounsfield, Range { low: -1000.0, high: 400.0, unit: Some(Unit::Hounsfield) });
        assert_eq!(hounsfield.to_string(), "-1000hu..400hu");
        assert_eq!("-1000..400hu".parse(), Ok(hounsfield));
        let rescaled: Range = "0..4095rescaled".parse().unwrap();
        assert_eq!(rescaled, Range { low: 0.0, high: 4095.0, unit: Some(Unit::Rescaled) });
        for text in [
            "0hu..1", "hu..1hu", "", "..", "0..", "1..0", "1..1", "0..inf", "nan..1", "0-1", "0...1..2",
            "a..b",
        ] {
            let why = text.parse::<Range>().unwrap_err();
            assert!(why.contains("is not a range such as 0..1"), "{why}");
        }
    }
}
