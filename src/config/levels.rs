//! `--levels` and `--no-data`: how many levels samples have, and which of them is none.

use std::fmt;
use std::str::FromStr;

use codec::LevelCount;

/// How many levels samples are taken to have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LevelsChoice {
    /// As many as there is room for.
    Full,
    /// As many as the file says.
    Auto,
    /// So many.
    Number(u16),
}

impl FromStr for LevelsChoice {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        match text.trim() {
            full if full.eq_ignore_ascii_case("full") => Ok(Self::Full),
            auto if auto.eq_ignore_ascii_case("auto") => Ok(Self::Auto),
            "65536" => Ok(Self::Full),
            number => match number.parse() {
                Ok(number @ 2..) => Ok(Self::Number(number)),
                _ => Err(format!("{text:?} is neither full, auto nor a number from 2 to 65536")),
            },
        }
    }
}

impl fmt::Display for LevelsChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Full => f.write_str("full"),
            Self::Auto => f.write_str("auto"),
            Self::Number(number) => number.fmt(f),
        }
    }
}

impl From<LevelsChoice> for LevelCount {
    fn from(choice: LevelsChoice) -> Self {
        match choice {
            LevelsChoice::Full => Self::Full,
            LevelsChoice::Auto => Self::Stated,
            LevelsChoice::Number(number) => Self::Number(number),
        }
    }
}

/// The value of samples that are none.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NoData(pub f64);

impl FromStr for NoData {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        match text.trim().parse() {
            Ok(value) if f64::is_finite(value) => Ok(Self(value)),
            _ => Err(format!("{text:?} is not a number")),
        }
    }
}

impl fmt::Display for NoData {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_full_auto_or_a_number() {
        for (text, choice) in [
            ("full", LevelsChoice::Full),
            ("Auto", LevelsChoice::Auto),
            (" 4096", LevelsChoice::Number(4096)),
            ("2", LevelsChoice::Number(2)),
            ("65536", LevelsChoice::Full),
        ] {
            assert_eq!(text.parse(), Ok(choice));
        }
        for text in ["0", "1", "65537", "-5", "12 bits", ""] {
            let why = text.parse::<LevelsChoice>().unwrap_err();
            assert_eq!(why, format!("{text:?} is neither full, auto nor a number from 2 to 65536"));
        }
    }
}
