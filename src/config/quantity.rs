//! Quantities as people write them: `4GiB`, `250MP`, `30s`.

use std::fmt;
use std::num::NonZeroUsize;
use std::str::FromStr;
use std::time::Duration;

/// The units of one kind of quantity, each with its size in the smallest unit.
struct Scale {
    /// A description of the quantity for messages: "a size such as 4GiB".
    what: &'static str,
    /// One of the smallest unit, for messages.
    least: &'static str,
    /// Every spelling that is accepted, ignoring case. The empty one is the unit of a bare number.
    read: &'static [(&'static str, u64)],
    /// The spellings for output, largest first; the last unit divides every value.
    written: &'static [(&'static str, u64)],
}

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;
const TIB: u64 = 1 << 40;

const BYTES: Scale = Scale {
    what: "a size in bytes, such as 512MiB or 4GiB",
    least: "1B",
    read: &[
        ("", 1),
        ("B", 1),
        ("KiB", KIB),
        ("MiB", MIB),
        ("GiB", GIB),
        ("TiB", TIB),
        ("K", KIB),
        ("M", MIB),
        ("G", GIB),
        ("T", TIB),
        ("kB", 1_000),
        ("MB", 1_000_000),
        ("GB", 1_000_000_000),
        ("TB", 1_000_000_000_000),
    ],
    written: &[("TiB", TIB), ("GiB", GIB), ("MiB", MIB), ("KiB", KIB), ("B", 1)],
};

const PIXELS: Scale = Scale {
    what: "a number of pixels, such as 250MP or 2GP",
    least: "1px",
    read: &[("", 1), ("px", 1), ("kP", 1_000), ("MP", 1_000_000), ("GP", 1_000_000_000)],
    written: &[("GP", 1_000_000_000), ("MP", 1_000_000), ("", 1)],
};

const MILLISECONDS: Scale = Scale {
    what: "a time, such as 500ms, 30s or 2min",
    least: "1ms",
    read: &[
        ("", 1_000),
        ("ms", 1),
        ("s", 1_000),
        ("sec", 1_000),
        ("m", 60_000),
        ("min", 60_000),
        ("h", 3_600_000),
    ],
    written: &[("h", 3_600_000), ("min", 60_000), ("s", 1_000), ("ms", 1)],
};

impl Scale {
    fn read(&self, text: &str) -> Result<u64, String> {
        let text = text.trim();
        let end = text.find(|c: char| !c.is_ascii_digit() && c != '.' && c != '_').unwrap_or(text.len());
        let (number, unit) = (text[..end].replace('_', ""), text[end..].trim());
        let refused = || format!("{text:?} is not {}", self.what);
        let (_, factor) =
            self.read.iter().find(|(name, _)| name.eq_ignore_ascii_case(unit)).ok_or_else(refused)?;
        if let Ok(whole) = number.parse::<u64>() {
            return whole.checked_mul(*factor).ok_or_else(|| format!("{text:?} is too large"));
        }
        let value = number.parse::<f64>().map_err(|_| refused())? * *factor as f64;
        if value < u64::MAX as f64 { Ok(value.round() as u64) } else { Err(refused()) }
    }

    /// Like [`Scale::read`], but refuses zero.
    fn read_some(&self, text: &str) -> Result<u64, String> {
        match self.read(text)? {
            0 => Err(format!("{:?} is not at least {}", text.trim(), self.least)),
            value => Ok(value),
        }
    }

    fn write(&self, value: u64, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let smallest = self.written.last().expect("a scale has a unit");
        let mut units = self.written.iter();
        let (name, factor) =
            units.find(|(_, unit)| value != 0 && value.is_multiple_of(*unit)).unwrap_or(smallest);
        write!(to, "{}{name}", value / factor)
    }
}

/// A number of bytes, at least one, written with a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bytes(pub u64);

/// A number of pixels, at least one, written with a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pixels(pub u64);

/// A duration in whole milliseconds, at least one, written with a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wait(pub Duration);

/// A [`Wait`] that may also be zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rest(pub Duration);

impl FromStr for Bytes {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        BYTES.read_some(text).map(Self)
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        BYTES.write(self.0, f)
    }
}

/// Memory for pictures in bytes: at least 1 MiB, enough for the smallest pictures and their
/// overhead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory(pub u64);

impl FromStr for Memory {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        match BYTES.read(text)? {
            0..MIB => Err(format!("{:?} is not at least 1MiB (a bare number means bytes)", text.trim())),
            bytes => Ok(Self(bytes)),
        }
    }
}

impl fmt::Display for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        BYTES.write(self.0, f)
    }
}

impl FromStr for Pixels {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        PIXELS.read_some(text).map(Self)
    }
}

impl fmt::Display for Pixels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        PIXELS.write(self.0, f)
    }
}

impl FromStr for Wait {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        MILLISECONDS.read_some(text).map(|milliseconds| Self(Duration::from_millis(milliseconds)))
    }
}

impl fmt::Display for Wait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        MILLISECONDS.write(self.0.as_millis() as u64, f)
    }
}

impl FromStr for Rest {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        MILLISECONDS.read(text).map(|milliseconds| Self(Duration::from_millis(milliseconds)))
    }
}

impl fmt::Display for Rest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Wait(self.0).fmt(f)
    }
}

/// A number of threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Count(pub NonZeroUsize);

impl Count {
    /// More than any machine can use, but few enough for the system to provide them.
    pub(super) const MAX: NonZeroUsize = NonZeroUsize::new(1024).expect("not 0");
}

impl FromStr for Count {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let number = text.trim().parse().ok().filter(|number| *number <= Self::MAX);
        number.map(Self).ok_or_else(|| format!("{text:?} is not a whole number from 1 to {}", Self::MAX))
    }
}

impl fmt::Display for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A value, or `auto`: a choice that suits the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OrAuto<T> {
    /// A choice that suits the machine.
    Auto,
    /// This value.
    Fixed(T),
}

impl<T: FromStr<Err = String>> FromStr for OrAuto<T> {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        if text.trim().eq_ignore_ascii_case("auto") {
            return Ok(Self::Auto);
        }
        text.parse().map(Self::Fixed).map_err(|why| format!("{why}; or use auto"))
    }
}

impl<T: fmt::Display> fmt::Display for OrAuto<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.write_str("auto"),
            Self::Fixed(value) => value.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_with_binary_and_decimal_units() {
        let cases = [
            ("17", 17),
            ("17B", 17),
            ("4GiB", 4 << 30),
            ("4gib", 4 << 30),
            ("4 GiB", 4 << 30),
            ("4G", 4 << 30),
            ("4GB", 4_000_000_000),
            ("1.5MiB", 3 << 19),
            ("1_000kB", 1_000_000),
        ];
        for (text, bytes) in cases {
            assert_eq!(text.parse(), Ok(Bytes(bytes)), "{text}");
        }
    }

    #[test]
    fn what_is_no_size_is_refused_with_an_example() {
        for text in ["", "GiB", "4 apples", "-4GiB", "1.2.3GiB", "4GiBs"] {
            let why = text.parse::<Bytes>().unwrap_err();
            assert!(why.contains("4GiB"), "{text}: {why}");
        }
        assert!("99999999TiB".parse::<Bytes>().unwrap_err().contains("too large"));
        assert!("99999999.5TiB".parse::<Bytes>().is_err());
    }

    #[test]
    fn quantities_are_written_in_the_largest_unit_that_is_exact() {
        assert_eq!(Bytes(4 << 30).to_string(), "4GiB");
        assert_eq!(Bytes((1 << 20) + 1).to_string(), "1048577B");
        assert_eq!(Bytes(0).to_string(), "0B");
        assert_eq!(Pixels(2_000_000_000).to_string(), "2GP");
        assert_eq!(Pixels(12_345).to_string(), "12345");
        assert_eq!(Wait(Duration::from_millis(90_000)).to_string(), "90s");
        assert_eq!(Wait(Duration::from_millis(1_500)).to_string(), "1500ms");
    }

    #[test]
    fn what_is_written_is_read_back() {
        for value in [1, 1023, 1024, 4 << 30, u64::MAX] {
            assert_eq!(Bytes(value).to_string().parse(), Ok(Bytes(value)));
            assert_eq!(Pixels(value).to_string().parse(), Ok(Pixels(value)));
        }
        for milliseconds in [1, 999, 60_000, 3_600_000] {
            let wait = Wait(Duration::from_millis(milliseconds));
            assert_eq!(wait.to_string().parse(), Ok(wait));
        }
        for rest in [Duration::ZERO, Duration::from_millis(500)].map(Rest) {
            assert_eq!(rest.to_string().parse(), Ok(rest));
        }
    }

    #[test]
    fn nothing_is_no_limit_and_no_wait() {
        for none in ["0", "0.4B", " 0GiB"] {
            let why = none.parse::<OrAuto<Bytes>>().unwrap_err();
            assert_eq!(why, format!("{:?} is not at least 1B; or use auto", none.trim()));
        }
        assert_eq!("0".parse::<Pixels>(), Err("\"0\" is not at least 1px".into()));
        assert_eq!("0.1ms".parse::<Wait>(), Err("\"0.1ms\" is not at least 1ms".into()));
    }

    #[test]
    fn memory_is_enough_for_a_picture() {
        assert_eq!("1MiB".parse(), Ok(Memory(1 << 20)));
        for little in ["12", "0", "1023KiB"] {
            let why = little.parse::<OrAuto<Memory>>().unwrap_err();
            assert_eq!(
                why,
                format!("{little:?} is not at least 1MiB (a bare number means bytes); or use auto")
            );
        }
    }

    #[test]
    fn a_bare_number_is_seconds_for_a_time() {
        assert_eq!("30".parse(), Ok(Wait(Duration::from_secs(30))));
        assert_eq!("0.25s".parse(), Ok(Wait(Duration::from_millis(250))));
    }

    #[test]
    fn auto_is_a_value_of_its_own_and_threads_have_a_range() {
        assert_eq!("auto".parse::<OrAuto<Count>>(), Ok(OrAuto::Auto));
        assert_eq!("4GiB".parse(), Ok(OrAuto::Fixed(Bytes(4 << 30))));
        assert!("1024".parse::<OrAuto<Count>>().is_ok());
        for number in ["0", "1025", "99999", "-1"] {
            let why = number.parse::<OrAuto<Count>>().unwrap_err();
            assert_eq!(why, format!("{number:?} is not a whole number from 1 to 1024; or use auto"));
        }
    }
}
