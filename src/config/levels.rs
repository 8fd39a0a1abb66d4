//! `--levels`, `--shift` and `--no-data`: the number of levels, their place in the samples, and the
//! no-data value.

use std::fmt;
use std::str::FromStr;

use codec::LevelCount;

/// The number of levels that samples are taken to have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LevelsChoice {
    /// As many as the samples' bits allow.
    Full,
    /// As many as the file states.
    Auto,
    /// This many.
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

/// The unused low bits of 16-bit samples, whose levels lie in the upper ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shift(u8);

impl FromStr for Shift {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        match text.trim().parse() {
            Ok(bits @ 0..=15) => Ok(Self(bits)),
            _ => Err(format!("{text:?} is not a number from 0 to 15")),
        }
    }
}

impl fmt::Display for Shift {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Returns the number and the place of the levels.
///
/// A page may be examined for them only if it is by itself: if it shares no table with others.
///
/// # Errors
/// A sentence for the user, about levels for which the upper bits have no room.
pub(super) fn count(
    levels: LevelsChoice,
    Shift(shift): Shift,
    is_by_itself: bool,
) -> Result<LevelCount, String> {
    let room = 1_u32 << (u16::BITS - u32::from(shift));
    Ok(match levels {
        LevelsChoice::Number(number) if u32::from(number) > room => {
            return Err(format!("--shift {shift} leaves room for {room} levels, not for --levels {number}"));
        }
        LevelsChoice::Number(levels) if shift > 0 => LevelCount::Upper { levels, shift },
        LevelsChoice::Full | LevelsChoice::Auto if shift > 0 => {
            LevelCount::Upper { levels: room as u16, shift }
        }
        LevelsChoice::Number(number) => LevelCount::Number(number),
        LevelsChoice::Auto if is_by_itself => LevelCount::Seen,
        LevelsChoice::Auto => LevelCount::Stated,
        LevelsChoice::Full => LevelCount::Full,
    })
}

/// The no-data value: samples with it belong to no level.
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

    #[test]
    fn levels_have_to_fit_above_the_shift() {
        let of = |levels: &str, shift: &str| count(levels.parse().unwrap(), shift.parse().unwrap(), true);
        assert_eq!(of("full", "0"), Ok(LevelCount::Full));
        assert_eq!(of("4096", "0"), Ok(LevelCount::Number(4096)));
        assert_eq!(of("auto", "0"), Ok(LevelCount::Seen));
        for (levels, shift, number, bits) in
            [("full", "4", 4096, 4), ("auto", "1", 32_768, 1), ("1000", "4", 1000, 4), ("2", "15", 2, 15)]
        {
            assert_eq!(of(levels, shift), Ok(LevelCount::Upper { levels: number, shift: bits }));
        }
        let why = of("4097", "4").unwrap_err();
        assert_eq!(why, "--shift 4 leaves room for 4096 levels, not for --levels 4097");
        let together = count(LevelsChoice::Auto, Shift(0), false);
        assert_eq!(together, Ok(LevelCount::Stated), "pages of one table have the same levels");
        for text in ["16", "-1", "4 bits", ""] {
            assert_eq!(text.parse::<Shift>(), Err(format!("{text:?} is not a number from 0 to 15")));
        }
    }
}
