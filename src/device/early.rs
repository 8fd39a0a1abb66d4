//! Workers that are started before it is known which GPUs there are.

use crate::device::worker::{Process, WorkerArgs, abandon};

/// Workers that run, or are about to. Those that nobody takes are killed.
#[derive(Default)]
pub(super) struct EarlyWorkers(Vec<(String, Process)>);

impl EarlyWorkers {
    /// Starts workers. One that cannot be started is started again by whoever wants it, and reported then.
    pub(super) fn start(all: impl Iterator<Item = WorkerArgs>) -> Self {
        Self(all.filter_map(|args| Some((args.name(), args.spawn(0).ok()?))).collect())
    }

    /// Returns the worker of this name, if it was started.
    pub(super) fn take(&mut self, args: &WorkerArgs) -> Option<Process> {
        let at = self.0.iter().position(|(name, _)| *name == args.name())?;
        Some(self.0.swap_remove(at).1)
    }
}

impl Drop for EarlyWorkers {
    fn drop(&mut self) {
        // They have done nothing yet.
        self.0.drain(..).for_each(|(_, process)| abandon(process.child));
    }
}
