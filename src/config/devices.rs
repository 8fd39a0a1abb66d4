//! `--devices`: names of devices.

use std::fmt;
use std::str::FromStr;

/// The devices that equalize.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeviceChoice {
    /// The GPUs that work, where they pay; otherwise the processor.
    Auto,
    /// The processor alone.
    Cpu,
    /// Every GPU; one that cannot be used is an error.
    All,
    /// This many worker processes that compute on the processor (`cpu-workers:2`), to try workers
    /// where there is no GPU.
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
                .map_err(|_| format!("{number:?} is not a number of workers"));
        }
        let mut names = Vec::new();
        for name in text.split(',') {
            let name = (name.trim().parse())
                .map_err(|why| if text.contains(',') { not_in_a_list(name) } else { why })?;
            if names.contains(&name) {
                return Err(format!("GPU {name} is listed twice"));
            }
            names.push(name);
        }
        Ok(Self::Listed(names))
    }
}

fn not_in_a_list(name: &str) -> String {
    format!(
        "{:?} cannot be part of a list, which holds only GPU numbers and UUIDs such as GPU-6a1b...",
        name.trim()
    )
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
        if text.starts_with("MIG-") {
            return Err(format!("choose a MIG instance by the environment: CUDA_VISIBLE_DEVICES={text}"));
        }
        match text.strip_prefix("GPU-") {
            Some(digits) if !digits.is_empty() => Ok(Self::Uuid(text.to_owned())),
            _ => Err(format!("{text:?} is not auto, cpu, all, a GPU's number or a UUID such as GPU-6a1b...")),
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
        let why = |text: &str| text.parse::<DeviceChoice>().unwrap_err();
        assert!(why("cpu, 0").starts_with("\"cpu\" cannot be part of a list, "), "{}", why("cpu, 0"));
        assert!(why("MIG-1").ends_with("CUDA_VISIBLE_DEVICES=MIG-1"));
        assert!(why("gpu").starts_with("\"gpu\" is not auto, cpu, all, "), "{}", why("gpu"));
    }
}
