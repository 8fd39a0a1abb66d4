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
    /// Why it does not, as a sentence.
    pub trouble: Option<String>,
    /// How often it failed.
    pub failures: u64,
    /// How long it has had pictures to work on; `None` for the CPU, whose processor time tells that.
    #[serde(skip)]
    pub busy: Option<Duration>,
    /// Processor time of its worker processes that have ended.
    #[serde(skip)]
    pub processor: Duration,
}
