//! The range of values that the user gives.

use std::fmt;
use std::str::FromStr;

/// The values between which a picture's levels are spread, if they are not its own least and greatest.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Range {
    pub(crate) low: f64,
    pub(crate) high: f64,
    /// Whether they are Hounsfield units, which DICOM's rescaling tells the stored values of.
    pub(crate) is_hounsfield: bool,
}

impl Range {
    /// Returns the range between two finite values, the first of which is less.
    pub fn new(low: f64, high: f64) -> Option<Self> {
        (low.is_finite() && high.is_finite() && low < high).then_some(Self {
            low,
            high,
            is_hounsfield: false,
        })
    }
}

/// What stands behind values in Hounsfield units.
const HOUNSFIELD: &str = "hu";

/// Returns the value and whether it is in Hounsfield units.
fn parse_end(text: &str) -> Option<(f64, bool)> {
    let text = text.trim().to_ascii_lowercase();
    let (number, is_hounsfield) = match text.strip_suffix(HOUNSFIELD) {
        Some(number) => (number, true),
        None => (&text[..], false),
    };
    Some((number.trim_end().parse().ok()?, is_hounsfield))
}

impl FromStr for Range {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let ends = text.trim().split_once("..");
        let numbers = ends.and_then(|(low, high)| Some((parse_end(low)?, parse_end(high)?)));
        let range =
            numbers.filter(|(low, high)| low.1 == high.1).and_then(|((low, is_hounsfield), (high, _))| {
                Some(Self { is_hounsfield, ..Self::new(low, high)? })
            });
        range.ok_or_else(|| {
            format!(
                "{text:?} is not a range such as 0..1, -1000..3000 or -1000hu..400hu, whose first number is less"
            )
        })
    }
}

impl fmt::Display for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unit = if self.is_hounsfield { HOUNSFIELD } else { "" };
        write!(f, "{}{unit}..{}{unit}", self.low, self.high)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_is_two_finite_numbers_in_order() {
        for (text, low, high) in
            [("0..1", 0.0, 1.0), ("-1000..3e3", -1000.0, 3000.0), (" -0.5 .. -.25 ", -0.5, -0.25)]
        {
            let range = text.parse::<Range>().unwrap();
            assert_eq!(range, Range { low, high, is_hounsfield: false }, "{text}");
            assert_eq!(range.to_string().parse(), Ok(range));
        }
        let hounsfield: Range = "-1000HU .. 400 hu".parse().unwrap();
        assert_eq!(hounsfield, Range { low: -1000.0, high: 400.0, is_hounsfield: true });
        assert_eq!(hounsfield.to_string(), "-1000hu..400hu");
        for text in [
            "0hu..1", "0..1hu", "hu..1hu", "", "..", "0..", "1..0", "1..1", "0..inf", "nan..1", "0-1",
            "0...1..2", "a..b",
        ] {
            let why = text.parse::<Range>().unwrap_err();
            assert!(why.contains("is not a range such as 0..1"), "{why}");
        }
    }
}
