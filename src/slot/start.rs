//! What the workers of devices wait for before they start: each start takes the cores and the driver a second.

use std::mem;
use std::sync::PoisonError;

use super::{PoolState, SlotPool};
use crate::schedule::{DeviceId, Standing};

/// What has looked for a slot so far.
#[derive(Debug, Default)]
pub(super) struct Arrivals {
    /// A picture that could stay compressed.
    pub(super) compressed: bool,
    /// A picture that could not.
    pub(super) pixels: bool,
}

/// When a worker starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// At once.
    Now,
    /// When the first picture has come that could stay compressed.
    WithCompressed,
    /// When the first picture has come that could not stay compressed, or this device works or is given up.
    WithPixelsOrAfter(DeviceId),
}

impl SlotPool {
    /// Waits until a worker is to start, or until `given_up` is true; returns whether it is to start. Whoever makes `given_up` true calls
    /// [`SlotPool::look_again`].
    pub fn wait_for(&self, start: Start, given_up: impl Fn() -> bool) -> bool {
        let waits = |state: &mut PoolState| !state.has_come(start) && !given_up();
        let state = self.changed.wait_while(self.lock(), waits);
        state.unwrap_or_else(PoisonError::into_inner).has_come(start)
    }

    /// Returns whether a worker with this start is to start now.
    pub fn has_come(&self, start: Start) -> bool {
        self.lock().has_come(start)
    }

    /// Has the threads that wait in [`SlotPool::wait_for`] look again.
    pub fn look_again(&self) {
        drop(self.lock());
        self.changed.notify_all();
    }

    /// Notes that a picture of this kind has come.
    pub(super) fn note_arrival(&self, kind: impl FnOnce(&mut Arrivals) -> &mut bool) {
        if !mem::replace(kind(&mut self.lock().arrivals), true) {
            self.changed.notify_all();
        }
    }
}

impl PoolState {
    fn has_come(&self, start: Start) -> bool {
        let is_settled = |device: DeviceId| self.members[device].standing != Standing::Down;
        match start {
            Start::Now => true,
            Start::WithCompressed => self.arrivals.compressed,
            Start::WithPixelsOrAfter(device) => self.arrivals.pixels || is_settled(device),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schedule::Attempts;
    use std::sync::Arc;

    #[test]
    fn workers_start_with_the_pictures_that_they_are_for_or_one_after_the_other() {
        let pool = Arc::new(SlotPool::new(1 << 20));
        pool.join_cpu(2);
        let decoder = pool.join_worker(0, Box::new(|_| ()));
        let behind = Start::WithPixelsOrAfter(decoder);
        assert!(pool.has_come(Start::Now));
        assert!(!pool.wait_for(Start::WithCompressed, || true), "given up");
        let settled = |change: &dyn Fn()| {
            change();
            pool.has_come(behind)
        };
        assert_eq!(
            [
                settled(&|| ()),
                settled(&|| pool.up(decoder)),
                settled(&|| pool.down(decoder)),
                settled(&|| pool.retire(decoder))
            ],
            [false, true, false, true]
        );
        pool.down(decoder);
        let other = Arc::clone(&pool);
        let waiting = std::thread::spawn(move || other.wait_for(behind, || false));
        drop(pool.take(1, 0, 0, &Attempts::default()).unwrap());
        assert!(waiting.join().unwrap());
        assert!(!pool.has_come(Start::WithCompressed), "it could not stay compressed");
    }
}
