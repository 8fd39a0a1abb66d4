//! The state that the pipeline's threads and the supervisor of a worker share.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crossbeam_channel::Receiver;

use super::health::Health;
use super::worker::Worker;
use crate::slot::SlotId;
use crate::slot::device_state::{DeviceUse, Offloaded};
use crate::slot::occupancy::Occupancy;

/// The state that the pipeline's threads and the supervisor share.
pub(super) struct Link {
    pub(super) state: Mutex<Lives>,
    pub(super) closed: Condvar,
    /// The slots that have given up their memory, which the worker must still unmap.
    ///
    /// The pool is locked when a slot is added, so that must not wait for the state: its holder may
    /// wait for room in the worker's socket.
    pub(super) released: Receiver<SlotId>,
}

#[derive(Default)]
pub(super) struct Lives {
    pub(super) closing: bool,
    pub(super) worker: Option<Worker>,
    pub(super) health: Health,
    /// Its work for the CPU.
    pub(super) offloaded: Offloaded,
    /// The number of JPEGs that it left to the CPU.
    pub(super) left: u64,
    /// The number of failures after which it was tried again.
    pub(super) failures: u64,
    /// The number of failures since it last completed a picture.
    pub(super) failures_in_a_row: u32,
    ready: Occupancy,
    busy: Occupancy,
    full: Occupancy,
    /// Processor time of the workers that have ended.
    pub(super) processor: Duration,
}

impl Link {
    pub(super) fn new(released: Receiver<SlotId>) -> Self {
        Self { state: Mutex::default(), closed: Condvar::new(), released }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Lives> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Lives {
    /// Records the present use of its worker with this many lanes.
    pub(super) fn note_use(&mut self, lanes: usize) {
        let worker = self.worker.as_ref();
        self.ready.set(worker.is_some_and(|worker| worker.ready));
        self.busy.set(worker.is_some_and(|worker| !worker.lent.is_empty()));
        self.full.set(worker.is_some_and(|worker| worker.is_full(lanes)));
    }

    pub(super) fn in_use(&self) -> DeviceUse {
        let Self { ready, busy, full, .. } = self;
        DeviceUse { ready: ready.total(), busy: busy.total(), full: full.total() }
    }
}
