//! Devices that outlast a run. A service whose pictures come in portions, or with settings that
//! change, makes each portion a run of its own; the devices are started once for all of them,
//! because starting a GPU takes seconds.

use std::thread::{self, Builder};

use tracing::{info, warn};

use crate::config::Settings;
use crate::device::machine::Machine;
use crate::device::{Context, while_started};
use crate::error::Error;
use crate::progress::{Event, Events};
use crate::source::Workload;
use crate::source::stop::Stop;

/// Capacity of the queue of notes from devices.
const WAITING: usize = 64;

/// Starts devices, whose notes go to the log, lets `work` do its runs on them, and ends them.
///
/// # Errors
/// If the user insists on a device that cannot be used, or the system cannot start a thread;
/// otherwise those of `work`.
pub(crate) fn with_devices(
    settings: &Settings,
    stop: &Stop,
    work: impl FnOnce(&Machine) -> Result<(), Error>,
) -> Result<(), Error> {
    let machine = Machine::new(settings.memory, settings.threads);
    thread::scope(|scope| {
        let (events, told) = Events::queue(WAITING);
        Builder::new()
            .name("devices".to_owned())
            .spawn_scoped(scope, move || told.iter().for_each(log))
            .map_err(Error::thread)?;
        let workload = Workload::ENDLESS;
        let context = Context { settings, workload, machine: &machine, stop, events: &events };
        while_started(context, || work(&machine)).map(drop)
    })
}

fn log(event: Event) {
    match event {
        Event::Device { note, trouble: true } => warn!("{note}"),
        Event::Device { note, trouble: false } => info!("{note}"),
        _ => {}
    }
}

/// Returns whether devices that were started with some settings also suit others.
pub(crate) fn suit(started_with: &Settings, others: &Settings) -> bool {
    let of_devices = |settings: &Settings| {
        let &Settings { jpeg, memory, threads, split_channels, device_timeout, gpu_idle, .. } = settings;
        (jpeg, memory, threads, split_channels, device_timeout, gpu_idle)
    };
    started_with.devices == others.devices && of_devices(started_with) == of_devices(others)
}
