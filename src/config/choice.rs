//! The closed choices behind the keys, and how they are spelled.

use std::fmt;
use std::str::FromStr;

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use crate::codec::{Format, JpegQuality, PngLevel};

/// How contrast is enhanced, without the method's numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MethodName {
    /// Histogram equalization of the whole picture.
    Global,
}

/// What is equalized in a colour picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Color {
    /// The brightness; the colours stay.
    Luma,
    /// Each channel by itself.
    PerChannel,
    /// The brightness, and nothing else is written.
    Gray,
}

/// The format of the outputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FormatName {
    /// Each picture's own.
    Keep,
    /// PNG.
    Png,
    /// JPEG.
    #[value(alias = "jpg")]
    #[serde(alias = "jpg")]
    Jpeg,
    /// TIFF.
    #[value(alias = "tif")]
    #[serde(alias = "tif")]
    Tiff,
    /// PGM, PPM or PAM, whichever holds the picture.
    Pnm,
    /// BMP.
    Bmp,
    /// WebP, without loss.
    #[value(name = "webp")]
    #[serde(rename = "webp")]
    WebP,
}

impl From<FormatName> for Option<Format> {
    fn from(name: FormatName) -> Self {
        Some(match name {
            FormatName::Keep => return None,
            FormatName::Png => Format::Png,
            FormatName::Jpeg => Format::Jpeg,
            FormatName::Tiff => Format::Tiff,
            FormatName::Pnm => Format::Pnm,
            FormatName::Bmp => Format::Bmp,
            FormatName::WebP => Format::WebP,
        })
    }
}

/// How small PNGs are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PngLevelName {
    /// Least work, largest files.
    Fast,
    /// Most of the gain for little work.
    Balanced,
    /// Most work, smallest files.
    Small,
}

impl From<PngLevelName> for PngLevel {
    fn from(name: PngLevelName) -> Self {
        match name {
            PngLevelName::Fast => Self::Fast,
            PngLevelName::Balanced => Self::Balanced,
            PngLevelName::Small => Self::Small,
        }
    }
}

/// When an output counts as written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Durability {
    /// When it is on the disk under its final name.
    Full,
    /// When the system has it.
    Fast,
}

impl FromStr for JpegQuality {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        match (text, text.parse()) {
            ("keep", _) => Ok(Self::Keep),
            (_, Ok(quality @ 1..=100)) => Ok(Self::Value(quality)),
            _ => Err(format!("{text:?} is neither keep nor a number from 1 to 100")),
        }
    }
}

impl fmt::Display for JpegQuality {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Keep => f.write_str("keep"),
            Self::Value(quality) => quality.fmt(f),
        }
    }
}

/// What equalizes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeviceChoice {
    /// The GPUs that work, and the processor where there is none.
    Auto,
    /// The processor alone.
    Cpu,
    /// Every GPU; one that cannot be used is an error.
    All,
    /// So many worker processes that compute on the processor (`cpu-workers:2`): what tests of the worker protocol use.
    CpuWorkers(u32),
    /// These GPUs, at least one; one that cannot be used is an error.
    Listed(Vec<DeviceName>),
}

/// How a user names a GPU.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum DeviceName {
    /// Its number among the GPUs that the process can see.
    Index(u32),
    /// Its UUID as the driver writes it, or the beginning of one: `GPU-6a1b…`.
    Uuid(String),
}

impl FromStr for DeviceChoice {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        match text.trim().to_ascii_lowercase().as_str() {
            "auto" => return Ok(Self::Auto),
            "cpu" => return Ok(Self::Cpu),
            "all" => return Ok(Self::All),
            _ => {}
        }
        if let Some(number) = text.strip_prefix("cpu-workers:") {
            return number
                .parse()
                .map(Self::CpuWorkers)
                .map_err(|_| format!("{number:?} is no number of workers"));
        }
        let mut names = Vec::new();
        for name in text.split(',') {
            let name = name.trim().parse()?;
            if names.contains(&name) {
                return Err(format!("GPU {name} is listed twice"));
            }
            names.push(name);
        }
        Ok(Self::Listed(names))
    }
}

impl fmt::Display for DeviceChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.write_str("auto"),
            Self::Cpu => f.write_str("cpu"),
            Self::All => f.write_str("all"),
            Self::CpuWorkers(number) => write!(f, "cpu-workers:{number}"),
            Self::Listed(names) => {
                let names: Vec<_> = names.iter().map(ToString::to_string).collect();
                f.write_str(&names.join(","))
            }
        }
    }
}

impl FromStr for DeviceName {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        if let Ok(index) = text.parse() {
            return Ok(Self::Index(index));
        }
        let uuid = text.strip_prefix("GPU-").or_else(|| text.strip_prefix("MIG-"));
        match uuid {
            Some(digits) if !digits.is_empty() => Ok(Self::Uuid(text.to_owned())),
            _ => Err(format!(
                "{text:?} is none of auto, cpu, all, a GPU's number or a UUID such as GPU-6a1b..."
            )),
        }
    }
}

impl fmt::Display for DeviceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Index(index) => index.fmt(f),
            Self::Uuid(uuid) => f.write_str(uuid),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_are_words_numbers_or_uuids() {
        let uuid = DeviceName::Uuid("GPU-6a1b".into());
        let cases = [
            ("auto", DeviceChoice::Auto),
            ("CPU", DeviceChoice::Cpu),
            ("all", DeviceChoice::All),
            ("cpu-workers:2", DeviceChoice::CpuWorkers(2)),
            ("0", DeviceChoice::Listed(vec![DeviceName::Index(0)])),
            ("2, GPU-6a1b", DeviceChoice::Listed(vec![DeviceName::Index(2), uuid])),
        ];
        for (text, choice) in cases {
            assert_eq!(text.parse(), Ok(choice.clone()), "{text}");
            assert_eq!(choice.to_string().parse(), Ok(choice), "{text}");
        }
    }

    #[test]
    fn what_names_no_device_is_refused() {
        for text in ["", "gpu", "0,", "-1", "GPU-", "0;1", "cpu,0"] {
            assert!(text.parse::<DeviceChoice>().is_err(), "{text}");
        }
        assert_eq!("1,0,1".parse::<DeviceChoice>(), Err("GPU 1 is listed twice".into()));
    }

    #[test]
    fn quality_is_keep_or_a_percentage() {
        assert_eq!("keep".parse(), Ok(JpegQuality::Keep));
        assert_eq!("92".parse(), Ok(JpegQuality::Value(92)));
        for text in ["0", "101", "256", "-1", "best", "Keep it"] {
            assert!(text.parse::<JpegQuality>().is_err(), "{text}");
        }
    }
}
