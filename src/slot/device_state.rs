//! The state of a device, for those who monitor it.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// The state of a device.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceState {
    /// Its name.
    pub name: String,
    /// Whether it works now.
    pub up: bool,
    /// Whether its worker process is to start only when there is work.
    #[serde(default)]
    pub idle: bool,
    /// Why it does not, as a sentence.
    pub trouble: Option<String>,
    /// How often it failed.
    pub failures: u64,
    /// What it did for the CPU.
    #[serde(default)]
    pub offloaded: Offloaded,
    /// How many JPEGs it left to the CPU.
    #[serde(default)]
    pub left: u64,
    /// How long it was in use; `None` for the CPU, whose processor time tells that.
    #[serde(skip)]
    pub in_use: Option<DeviceUse>,
    /// Processor time of its worker processes that have ended.
    #[serde(skip)]
    pub processor: Duration,
}

/// How often a device did something for the CPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Offloaded {
    /// How many codestreams of JPEG 2000 it decoded.
    pub codestreams: u64,
    /// Of how many pictures or pages it inflated the strips or tiles.
    pub inflated: u64,
    /// Of how many it deflated them.
    pub deflated: u64,
}

/// How long a device was in use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeviceUse {
    /// How long it worked, after its starts.
    pub ready: Duration,
    /// How long it had pictures to work on.
    pub busy: Duration,
    /// How long it had more of them than it can begin at once.
    pub full: Duration,
}
