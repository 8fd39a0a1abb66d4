//! Workers that are started before it is known which GPUs there are.

use crate::device::worker::{Process, WorkerArgs, abandon};
use crate::slot::schedule::DeviceId;

/// Workers that run, or are about to. Those that nobody takes are killed.
#[derive(Default)]
pub(super) struct EarlyWorkers {
    processes: Vec<(String, Process)>,
    /// The devices that have joined with such a worker.
    joined: Vec<(String, DeviceId)>,
}

impl EarlyWorkers {
    /// Starts workers. One that cannot be started is started again by whoever wants it, and reported then.
    pub(super) fn start(all: impl Iterator<Item = WorkerArgs>) -> Self {
        let processes = all.filter_map(|args| Some((args.name(), args.spawn(0).ok()?))).collect();
        Self { processes, joined: Vec::new() }
    }

    /// Returns the worker of this name, if it was started.
    pub(super) fn take(&mut self, args: &WorkerArgs) -> Option<Process> {
        let at = self.processes.iter().position(|(name, _)| *name == args.name())?;
        Some(self.processes.swap_remove(at).1)
    }

    /// Returns whether the worker of this name was started, and nobody has taken it.
    pub(super) fn has(&self, args: &WorkerArgs) -> bool {
        self.processes.iter().any(|(name, _)| *name == args.name())
    }

    /// Notes that the worker of this name has joined as a device.
    pub(super) fn note_joined(&mut self, args: &WorkerArgs, device: DeviceId) {
        self.joined.push((args.name(), device));
    }

    /// Returns the device as which the worker of this name has joined.
    pub(super) fn joined(&self, args: &WorkerArgs) -> Option<DeviceId> {
        self.joined.iter().find(|(name, _)| *name == args.name()).map(|&(_, device)| device)
    }
}

impl Drop for EarlyWorkers {
    fn drop(&mut self) {
        // They have done nothing yet.
        self.processes.drain(..).for_each(|(_, process)| abandon(process.child));
    }
}
