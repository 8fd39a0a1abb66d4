//! The state of a device, for monitoring.

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
    /// Why it does not work, as a sentence.
    pub trouble: Option<String>,
    /// The number of its failures.
    pub failures: u64,
    /// The work that it did for the CPU.
    #[serde(default)]
    pub offloaded: Offloaded,
    /// JPEGs that it left to the CPU.
    #[serde(default)]
    pub left: u64,
    /// The time that it was in use; `None` for the CPU, which has its processor time instead.
    #[serde(skip)]
    pub in_use: Option<DeviceUse>,
    /// Processor time of its worker processes that have ended.
    #[serde(skip)]
    pub processor: Duration,
}

/// Counts of a device's work for the CPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Offloaded {
    /// Codestreams of JPEG 2000 that it decoded.
    pub codestreams: u64,
    /// Pictures or pages with strips or tiles that it inflated.
    pub inflated: u64,
    /// Pictures or pages with strips or tiles that it deflated.
    pub deflated: u64,
}

/// The time that a device was in use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeviceUse {
    /// The time that it worked, after its starts.
    pub ready: Duration,
    /// The time that it had pictures to work on.
    pub busy: Duration,
    /// The time that it had more pictures than it can begin at once.
    pub full: Duration,
}
