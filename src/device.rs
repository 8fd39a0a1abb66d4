//! Devices: where slots are equalized. A small trait, its implementations for the CPU and for worker processes, and the choice among them.

pub(crate) mod backoff;
mod choose;
pub mod cpu;
mod early;
pub mod find;
pub mod machine;
mod outlook;
mod required;
mod start;
pub mod supervisor;
pub mod task;
pub mod worker;

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use crate::config::Settings;
use crate::device::task::Task;
use crate::progress::Events;
use crate::slot::SlotPool;
use crate::slot::device_state::DeviceState;
use crate::slot::rates::Rates;
use crate::slot::schedule::DeviceId;
use codec::Cores;
use find::Finder;
pub use required::RequiredDevices;
pub use start::start;

/// A device: takes filled slots and passes them on equalized.
///
/// Whatever happens to the device, no task is lost: it comes out equalized, or its job goes back to be decoded again for another device, or
/// its failure is reported.
pub trait Device: Send + Sync {
    /// Returns the name that the summary and messages use.
    fn name(&self) -> Arc<str>;

    /// Returns its current state.
    fn state(&self) -> DeviceState;

    /// Takes a task whose slot belongs to this device. Does not wait for the picture; may wait for room in a worker's socket.
    fn submit(&self, task: Task);

    /// Lets the device's threads and processes end, because no more tasks will come.
    fn close(&self);
}

/// What the devices of a run are started with.
#[derive(Clone, Copy)]
pub struct Context<'a> {
    /// The run's settings.
    pub settings: &'a Settings,
    /// How many pictures there are at most.
    pub pictures: usize,
    /// How many of their parts, pages or planes, may be worked on at the same time.
    pub threads: usize,
    /// How many bytes the JPEGs among them have at most, judging by their names.
    pub jpeg_bytes: u64,
    /// Where the devices' slots are.
    pub pool: &'a Arc<SlotPool>,
    /// The cores that the CPU's lanes keep busy.
    pub cores: &'a Arc<Cores>,
    /// What its pictures cost so far.
    pub rates: &'a Rates,
    /// Where the devices are added.
    pub devices: &'a Devices,
    /// Ends the run early when a device that the user insists on cannot be used.
    pub required: &'a RequiredDevices,
    /// Where notes are sent.
    pub events: &'a Events,
}

/// The devices of a run, in the order in which they joined.
#[derive(Default)]
pub struct Devices {
    members: RwLock<Members>,
    finder: Finder,
    have_workers: AtomicBool,
}

#[derive(Default)]
struct Members {
    closed: bool,
    devices: Vec<Arc<dyn Device>>,
}

impl Devices {
    /// Adds the next device; one that comes after [`Devices::close`] is closed at once.
    fn add(&self, id: DeviceId, device: Arc<dyn Device>) {
        let mut members = self.members.write().unwrap_or_else(PoisonError::into_inner);
        assert_eq!(id, members.devices.len(), "devices are added in the order in which they join the pool");
        if members.closed {
            device.close();
        }
        members.devices.push(device);
    }

    /// Returns whether worker processes run, or start.
    pub fn have_workers(&self) -> bool {
        self.have_workers.load(Ordering::Relaxed)
    }

    fn get(&self, id: DeviceId) -> Arc<dyn Device> {
        Arc::clone(&self.members.read().unwrap_or_else(PoisonError::into_inner).devices[id])
    }

    /// Submits the task to the device that its slot belongs to.
    pub fn submit(&self, task: Task) {
        self.get(task.slot.device()).submit(task);
    }

    /// Returns the names of the devices that did a picture, each once, joined by `+`.
    pub fn names(&self, ids: &[DeviceId]) -> Arc<str> {
        let names: BTreeSet<Arc<str>> = ids.iter().map(|&id| self.get(id).name()).collect();
        names.into_iter().reduce(|all, name| format!("{all}+{name}").into()).expect("some device did it")
    }

    /// Returns the state of each device.
    pub fn states(&self) -> Vec<DeviceState> {
        let members = self.members.read().unwrap_or_else(PoisonError::into_inner);
        members.devices.iter().map(|device| device.state()).collect()
    }

    /// Lets all devices end. To be called once no task is under way.
    pub fn close(&self) {
        self.finder.cancel();
        let mut members = self.members.write().unwrap_or_else(PoisonError::into_inner);
        members.closed = true;
        members.devices.iter().for_each(|device| device.close());
    }

    /// Returns a guard to be dropped when the run is over: it releases the devices, and with them everything of the run that they hold.
    pub fn until_dropped(&self) -> impl Drop {
        Ending(self)
    }
}

struct Ending<'a>(&'a Devices);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.0.members.write().unwrap_or_else(PoisonError::into_inner).devices.clear();
    }
}
