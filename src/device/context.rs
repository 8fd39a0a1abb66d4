//! The parameters for the start of devices.

use super::machine::Machine;
use crate::config::Settings;
use crate::progress::Events;
use crate::source::Workload;
use crate::source::stop::Stop;

/// The parameters for the start of devices, for one run or for several.
#[derive(Clone, Copy)]
pub struct Context<'a> {
    /// The settings of the runs.
    pub settings: &'a Settings,
    /// The amount of work.
    pub workload: Workload,
    /// The memory and the cores of the runs; the devices are added to it.
    pub machine: &'a Machine,
    /// The stop signal for the runs, if a device that the user insists on cannot be used.
    pub stop: &'a Stop,
    /// The receiver of notes.
    pub events: &'a Events,
}
