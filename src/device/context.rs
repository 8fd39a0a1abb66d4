//! What devices are started with.

use super::machine::Machine;
use crate::config::Settings;
use crate::progress::Events;
use crate::source::Workload;
use crate::source::stop::Stop;

/// What devices are started with, for one run or for several.
#[derive(Clone, Copy)]
pub struct Context<'a> {
    /// The settings of the runs, of which those about devices, memory and threads matter here.
    pub settings: &'a Settings,
    /// How much there is to do.
    pub workload: Workload,
    /// Where the devices are added, and what else they compute with.
    pub machine: &'a Machine,
    /// Asked when a device that the user insists on cannot be used.
    pub stop: &'a Stop,
    /// Where notes are sent.
    pub events: &'a Events,
}
