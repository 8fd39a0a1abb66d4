//! The devices of a machine.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use super::Device;
use super::find::Finder;
use crate::device::task::{OffloadTask, Task};
use crate::slot::device_state::DeviceState;
use crate::slot::schedule::DeviceId;

/// The devices of a machine, in the order in which they joined.
#[derive(Default)]
pub struct Devices {
    members: RwLock<Members>,
    pub(super) finder: Finder,
    pub(super) have_workers: AtomicBool,
}

#[derive(Default)]
struct Members {
    closed: bool,
    devices: Vec<Arc<dyn Device>>,
}

impl Devices {
    /// Adds the next device.
    ///
    /// A device that is added after [`Devices::close`] is closed at once.
    pub(super) fn add(&self, id: DeviceId, device: Arc<dyn Device>) {
        let mut members = self.members.write().unwrap_or_else(PoisonError::into_inner);
        assert_eq!(id, members.devices.len(), "devices are added in the order in which they join the pool");
        if members.closed {
            device.close();
        }
        members.devices.push(device);
    }

    /// Returns whether worker processes run or are starting.
    pub fn have_workers(&self) -> bool {
        self.have_workers.load(Ordering::Relaxed)
    }

    fn get(&self, id: DeviceId) -> Arc<dyn Device> {
        Arc::clone(&self.members.read().unwrap_or_else(PoisonError::into_inner).devices[id])
    }

    /// Submits the task to the device of its slot.
    pub fn submit(&self, task: Task) {
        self.get(task.slot.device()).submit(task);
    }

    /// Hands the work to the device of its slot.
    pub(super) fn offload(&self, task: OffloadTask) {
        self.get(task.slot.device()).offload(task);
    }

    /// Returns the names of the devices that processed a picture, each once, joined by `+`.
    pub fn names(&self, ids: &[DeviceId]) -> Arc<str> {
        let names: BTreeSet<Arc<str>> = ids.iter().map(|&id| self.get(id).name()).collect();
        names.into_iter().reduce(|all, name| format!("{all}+{name}").into()).expect("some device did it")
    }

    /// Returns the state of each device.
    pub fn states(&self) -> Vec<DeviceState> {
        let members = self.members.read().unwrap_or_else(PoisonError::into_inner);
        members.devices.iter().map(|device| device.state()).collect()
    }

    /// Ends all devices. Must be called only when no task is under way.
    pub(super) fn close(&self) {
        self.finder.cancel();
        let mut members = self.members.write().unwrap_or_else(PoisonError::into_inner);
        members.closed = true;
        members.devices.iter().for_each(|device| device.close());
    }

    /// Drops the devices, and thereby everything that they hold.
    pub(super) fn clear(&self) {
        self.members.write().unwrap_or_else(PoisonError::into_inner).devices.clear();
    }
}
