//! The types of the keys that are parameters of methods, and how their values are spelled.

use std::fmt;
use std::str::FromStr;

use equalize::Strength;

/// CLAHE's clip limit: how high a peak of a tile's histogram may be, as a multiple of the mean; 0
/// for no limit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ClipLimit(pub f64);

impl FromStr for ClipLimit {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        match text.trim().parse() {
            Ok(limit) if (0.0..=1e6).contains(&limit) => Ok(Self(limit)),
            _ => Err(format!("{text:?} is not a number from 0 (no limit) to 1000000")),
        }
    }
}

impl fmt::Display for ClipLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A share of the samples of a picture, in parts per million, below all of them. It is written in
/// percent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Percent(pub u32);

impl Percent {
    /// All samples.
    pub(super) const ALL: u32 = 1_000_000;
}

impl FromStr for Percent {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let (whole, part) = text.trim().split_once('.').unwrap_or((text.trim(), "0"));
        let are_digits = [whole, part]
            .iter()
            .all(|digits| !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit()));
        let millionths = format!("{whole}{part:0<4}").parse().ok();
        millionths
            .filter(|&millionths| are_digits && part.len() <= 4 && millionths < Self::ALL)
            .map(Self)
            .ok_or_else(|| {
                format!("{text:?} is not a number of percent below 100 with at most four decimals")
            })
    }
}

impl fmt::Display for Percent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = format!("{}.{:04}", self.0 / 10_000, self.0 % 10_000);
        f.write_str(text.trim_end_matches('0').trim_end_matches('.'))
    }
}

/// The share of the samples above which the count of a level is cut, or off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plateau {
    /// Counts stay unchanged.
    Off,
    /// Counts are cut above this share; 0 is not allowed.
    Share(Percent),
}

impl FromStr for Plateau {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        if text.trim().eq_ignore_ascii_case("off") {
            return Ok(Self::Off);
        }
        match text.parse() {
            Ok(share) if share != Percent(0) => Ok(Self::Share(share)),
            _ => Err(format!(
                "{text:?} is neither off nor a number of percent above 0 and below 100 with at most four decimals"
            )),
        }
    }
}

impl fmt::Display for Plateau {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Off => f.write_str("off"),
            Self::Share(share) => share.fmt(f),
        }
    }
}

/// The share of the range that the brightest samples of a picture reach before the method, in
/// thousandths; 0 leaves them where they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exposure(pub Strength);

impl FromStr for Exposure {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        text.parse().map(Self)
    }
}

impl fmt::Display for Exposure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The number of levels, of 256, that a tile of CLAHE has to span to gain all of its contrast.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Noise(pub u8);

impl FromStr for Noise {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        text.trim().parse().map(Self).map_err(|_| format!("{text:?} is not a whole number from 0 to 255"))
    }
}

impl fmt::Display for Noise {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// CLAHE's grid of tiles, at least one in each direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grid {
    /// Tiles across.
    pub x: u32,
    /// Tiles down.
    pub y: u32,
    /// Tiles along a stack, if they are boxes.
    pub z: Option<u32>,
}

impl Grid {
    /// More tiles than anyone needs in one direction; each costs a table.
    const MAX: u32 = 1024;

    /// Returns the number of tiles in one direction, if it is allowed.
    fn tiles(text: &str) -> Option<u32> {
        text.trim().parse().ok().filter(|tiles| (1..=Self::MAX).contains(tiles))
    }
}

impl FromStr for Grid {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let sides: Vec<_> = text.split(['x', 'X']).map(Self::tiles).collect();
        match sides[..] {
            [Some(x), Some(y)] => Ok(Self { x, y, z: None }),
            [Some(x), Some(y), z @ Some(_)] => Ok(Self { x, y, z }),
            _ => Err(format!(
                "{text:?} is not a grid of tiles such as 8x8, or 8x8x4 for stacks, with 1 to {} each way",
                Self::MAX
            )),
        }
    }
}

impl fmt::Display for Grid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}x{}", self.x, self.y)?;
        self.z.map_or(Ok(()), |z| write!(f, "x{z}"))
    }
}

/// CLAHE's tile size: squares of about this many pixels a side, whatever the picture's size; or
/// off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TileSize {
    /// The tiles are given by their number, as a [`Grid`].
    Off,
    /// The tiles are squares of about this side.
    Pixels(u32),
}

impl TileSize {
    /// Smaller tiles have too few pixels for a histogram.
    const LEAST: u32 = 4;
}

impl FromStr for TileSize {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        match text.trim().parse() {
            _ if text.trim().eq_ignore_ascii_case("off") => Ok(Self::Off),
            Ok(side @ Self::LEAST..) => Ok(Self::Pixels(side)),
            _ => Err(format!("{text:?} is neither off nor a number of pixels, at least {}", Self::LEAST)),
        }
    }
}

impl fmt::Display for TileSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Off => f.write_str("off"),
            Self::Pixels(side) => side.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tiles_are_two_or_three_numbers_or_a_size() {
        assert_eq!("8x4".parse(), Ok(Grid { x: 8, y: 4, z: None }));
        assert_eq!("8x4x2".parse(), Ok(Grid { x: 8, y: 4, z: Some(2) }));
        assert_eq!(Grid { x: 8, y: 4, z: Some(1) }.to_string(), "8x4x1");
        for text in ["8", "8x", "0x8", "8x1025", "axb", "8x8x0", "8x8x8x8", "8x8x"] {
            assert!(text.parse::<Grid>().is_err(), "{text}");
        }
        assert_eq!("32".parse(), Ok(TileSize::Pixels(32)));
        assert_eq!("off".parse(), Ok(TileSize::Off));
        for text in ["0", "3", "32px", "-32"] {
            assert!(text.parse::<TileSize>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_share_is_a_percentage_with_at_most_four_decimals() {
        for (text, millionths) in
            [("0", 0), ("0.175", 1_750), (" 2 ", 20_000), ("99.9999", 999_999), ("0.0001", 1)]
        {
            let share = text.parse::<Percent>().unwrap();
            assert_eq!((share, share.to_string().as_str()), (Percent(millionths), text.trim()));
        }
        for text in ["", ".", "1.", ".5", "100", "-1", "0.12345", "1%", "much", "1e1"] {
            let why = text.parse::<Percent>().unwrap_err();
            assert_eq!(
                why,
                format!("{text:?} is not a number of percent below 100 with at most four decimals")
            );
        }
    }

    #[test]
    fn a_plateau_is_a_share_above_none_or_off() {
        assert_eq!("1.5".parse(), Ok(Plateau::Share(Percent(15_000))));
        assert_eq!(("OFF".parse(), Plateau::Off.to_string().as_str()), (Ok(Plateau::Off), "off"));
        for text in ["0", "0.0000", "100", "-1", "0.00001", "much"] {
            assert!(text.parse::<Plateau>().unwrap_err().contains("neither off nor"), "{text}");
        }
    }

    #[test]
    fn exposure_is_a_share_and_noise_a_number_of_levels() {
        assert_eq!(
            ("0.8".parse::<Exposure>().unwrap().to_string(), "0".parse()),
            ("0.8".to_owned(), Ok(Noise(0)))
        );
        assert_eq!("255".parse(), Ok(Noise(255)));
        for text in ["256", "-1", "1.5", "much"] {
            assert!(text.parse::<Noise>().unwrap_err().contains("from 0 to 255"), "{text}");
            assert!(text.parse::<Exposure>().unwrap_err().contains("from 0 to 1"), "{text}");
        }
    }

    #[test]
    fn a_clip_limit_is_a_finite_number_that_is_not_negative() {
        assert_eq!("2.5".parse(), Ok(ClipLimit(2.5)));
        assert_eq!("0".parse(), Ok(ClipLimit(0.0)));
        for text in ["-1", "inf", "NaN", "1e9", "much"] {
            assert!(text.parse::<ClipLimit>().is_err(), "{text}");
        }
    }
}
