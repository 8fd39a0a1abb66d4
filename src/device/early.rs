//! Workers that start before the GPUs are known.

use crate::device::worker::{Process, WorkerArgs, abandon};
use crate::slot::schedule::DeviceId;

/// Workers that run or are starting. Those that are not taken are killed.
#[derive(Default)]
pub(super) struct EarlyWorkers {
    processes: Vec<(String, Process)>,
    /// The names of such workers that have joined, and their devices.
    joined: Vec<(String, DeviceId)>,
}

impl EarlyWorkers {
    /// Starts workers.
    ///
    /// A worker that cannot be started is tried again by its device, which reports the failure.
    pub(super) fn start(all: impl Iterator<Item = WorkerArgs>) -> Self {
        let processes = all.filter_map(|args| Some((args.name(), args.spawn(0).ok()?))).collect();
        Self { processes, joined: Vec::new() }
    }

    /// Returns the worker of this name if it was started and not yet taken.
    pub(super) fn take(&mut self, args: &WorkerArgs) -> Option<Process> {
        let at = self.processes.iter().position(|(name, _)| *name == args.name())?;
        Some(self.processes.swap_remove(at).1)
    }

    /// Returns whether the worker of this name was started and not yet taken.
    pub(super) fn has(&self, args: &WorkerArgs) -> bool {
        self.processes.iter().any(|(name, _)| *name == args.name())
    }

    /// Records that the worker of this name has joined as this device.
    pub(super) fn note_joined(&mut self, args: &WorkerArgs, device: DeviceId) {
        self.joined.push((args.name(), device));
    }

    /// Returns the device of the worker of this name, if that has joined.
    pub(super) fn joined(&self, args: &WorkerArgs) -> Option<DeviceId> {
        self.joined.iter().find(|(name, _)| *name == args.name()).map(|&(_, device)| device)
    }
}

impl Drop for EarlyWorkers {
    fn drop(&mut self) {
        // They have not begun any work.
        self.processes.drain(..).for_each(|(_, process)| abandon(process.child));
    }
}
