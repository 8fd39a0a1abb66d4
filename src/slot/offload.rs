//! Slots for the work of a device that the picture's own slot waits for.

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use super::{Buffer, Kind, PoolState, Slot, SlotPool};
use crate::slot::schedule::Attempts;

/// The interval of checks for a free slot: the waiting threads hold others, and therefore wait in
/// no line.
const INTERVAL: Duration = Duration::from_millis(5);

impl SlotPool {
    /// Takes a slot of this many bytes for codestreams or streams on a device that has one now.
    pub fn try_take_additional(
        self: &Arc<Self>,
        kind: Kind,
        bytes: u64,
        attempts: &Attempts,
    ) -> Option<Slot> {
        let taken = self.lock().try_take_additional(kind, bytes, attempts)?;
        self.slot(taken, 0).ok()
    }

    /// Takes such a slot for a codestream as soon as one is free. `None` if no device that these
    /// attempts admit decodes codestreams, or may come to.
    pub fn take_codestream(self: &Arc<Self>, bytes: u64, attempts: &Attempts) -> Option<Slot> {
        let mut state = self.lock();
        loop {
            if let Some(taken) = state.try_take_additional(Kind::Codestream, bytes, attempts) {
                drop(state);
                return self.slot(taken, 0).ok();
            }
            if !state.may_decode_codestreams(bytes, attempts) {
                return None;
            }
            let waited = self.changed.wait_timeout(state, INTERVAL);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Records that no more devices join.
    pub fn have_joined(&self) {
        self.lock().awaits_devices = false;
        self.changed.notify_all();
    }
}

impl PoolState {
    fn try_take_additional(&mut self, kind: Kind, bytes: u64, attempts: &Attempts) -> Option<Buffer> {
        let schedule = self.schedule();
        let device = match kind {
            Kind::Codestream => schedule.codestream_decoder(attempts),
            Kind::Streams => schedule.stream_coder(attempts),
            Kind::Pixels | Kind::Small | Kind::Compressed => None,
        }?;
        // Memory that waiting takers need is not taken from them.
        let has_memory = !self.lacks_memory || bytes <= self.memory_left;
        let taken = if has_memory { self.try_take_of(device, kind, bytes, 0)? } else { return None };
        taken.ok()
    }

    fn may_decode_codestreams(&self, bytes: u64, attempts: &Attempts) -> bool {
        bytes <= self.memory && (self.awaits_devices || self.schedule().may_decode_codestreams(attempts))
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;
    use crate::slot::STEP;

    #[test]
    fn what_only_devices_decode_waits_for_one_as_long_as_one_may_come() {
        let pool = Arc::new(SlotPool::new(8 * STEP));
        pool.join_cpu(1);
        let any = Attempts::default();
        assert!(pool.try_take_additional(Kind::Codestream, 1, &any).is_none());
        let other = Arc::clone(&pool);
        let waiting = thread::spawn(move || other.take_codestream(STEP, &Attempts::default()).is_some());
        let worker = pool.join_worker(0, Box::new(|_| ()));
        pool.add(worker, 1, Kind::Codestream);
        pool.have_joined();
        pool.up(worker);
        assert!(waiting.join().unwrap());
        let slot = pool.try_take_additional(Kind::Codestream, STEP, &any).unwrap();
        assert!(pool.try_take_additional(Kind::Codestream, STEP, &any).is_none(), "it has no other");
        drop(slot);
        let failed = Attempts { failed_on: vec![worker], ..Attempts::default() };
        assert!(pool.take_codestream(STEP, &failed).is_none());
        assert!(pool.take_codestream(9 * STEP, &any).is_none(), "it never fits");
        pool.retire(worker);
        assert!(pool.take_codestream(STEP, &any).is_none());
    }

    #[test]
    fn a_codestream_takes_no_memory_from_those_that_wait_for_some() {
        let pool = Arc::new(SlotPool::new(4 * STEP));
        pool.join_cpu(2);
        let worker = pool.join_worker(0, Box::new(|_| ()));
        pool.add(worker, 1, Kind::Codestream);
        pool.up(worker);
        let any = Attempts::default();
        let slots = [2, 1].map(|steps| pool.take(steps * STEP, 0, 0, &any).unwrap());
        let mut state = pool.lock();
        state.lacks_memory = true;
        let left = state.memory_left;
        drop(state);
        assert!(pool.try_take_additional(Kind::Codestream, left + 1, &any).is_none());
        drop(slots);
    }
}
