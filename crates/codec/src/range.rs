//! The range of values that the user gives.

use std::fmt;
use std::str::FromStr;

/// The values between which a picture's levels are spread, if they are not its own least and greatest.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Range {
    pub(crate) low: f64,
    pub(crate) high: f64,
}

impl Range {
    /// Returns the range between two finite values, the first of which is less.
    pub fn new(low: f64, high: f64) -> Option<Self> {
        (low.is_finite() && high.is_finite() && low < high).then_some(Self { low, high })
    }
}

impl FromStr for Range {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let ends = text.trim().split_once("..");
        let numbers =
            ends.and_then(|(low, high)| Some((low.trim().parse().ok()?, high.trim().parse().ok()?)));
        numbers.and_then(|(low, high)| Self::new(low, high)).ok_or_else(|| {
            format!("{text:?} is not a range such as 0..1 or -1000..3000, whose first number is less")
        })
    }
}

impl fmt::Display for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}..{}", self.low, self.high)
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
            assert_eq!(range, Range { low, high }, "{text}");
            assert_eq!(range.to_string().parse(), Ok(range));
        }
        for text in ["", "..", "0..", "1..0", "1..1", "0..inf", "nan..1", "0-1", "0...1..2", "a..b"] {
            let why = text.parse::<Range>().unwrap_err();
            assert!(why.contains("is not a range such as 0..1"), "{why}");
        }
    }
}
