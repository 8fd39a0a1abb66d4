//! The window that the user asks for.

use std::fmt;
use std::str::FromStr;

/// The values of a picture that are shown from black to white.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Window {
    /// The first window of the file, or its table.
    Own,
    /// A window of the file, by its number from 1.
    Number(u16),
    /// A given number of values around a middle one, in rescaled values.
    Given {
        /// The middle.
        center: f64,
        /// The number of values.
        width: f64,
    },
}

impl FromStr for Window {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let text = text.trim();
        if text.eq_ignore_ascii_case("auto") {
            return Ok(Self::Own);
        }
        if let Ok(number @ 1..) = text.parse() {
            return Ok(Self::Number(number));
        }
        let pair = text.split_once(',');
        let numbers =
            pair.and_then(|(center, width)| Some((center.trim().parse().ok()?, width.trim().parse().ok()?)));
        match numbers {
            Some((center, width)) if f64::is_finite(center) && f64::is_finite(width) && width > 0.0 => {
                Ok(Self::Given { center, width })
            }
            _ => Err(format!(
                "{text:?} is neither auto, the number of a window of the file, nor a CENTER,WIDTH such as 40,400"
            )),
        }
    }
}

impl fmt::Display for Window {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Own => f.write_str("auto"),
            Self::Number(number) => number.fmt(f),
            Self::Given { center, width } => write!(f, "{center},{width}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_is_the_files_or_a_center_and_a_width() {
        for (text, window) in [
            ("auto", Window::Own),
            ("2", Window::Number(2)),
            ("-600, 1500", Window::Given { center: -600.0, width: 1500.0 }),
        ] {
            assert_eq!(text.parse(), Ok(window));
            assert_eq!(window.to_string().parse(), Ok(window));
        }
        for text in ["", "0", "-1", "40,0", "40,-1", "nan,5", "1,2,3", "none"] {
            assert!(text.parse::<Window>().is_err(), "{text}");
        }
    }
}
