//! What pictures that wait for others leave in memory: kept until it is fetched, or until its room is needed, and then it has to be made again.

use std::any::Any;
use std::sync::Arc;

use super::{Held, PoolState, SlotPool};

/// The number of what was parked.
pub type ParkedId = u64;

/// Something in memory.
pub(super) struct Parked {
    bytes: u64,
    content: Box<dyn Any + Send>,
}

impl SlotPool {
    /// Keeps something of `bytes` bytes, made by `make`, if there is room for it now.
    pub fn park(&self, bytes: u64, make: impl FnOnce() -> Box<dyn Any + Send>) -> Option<ParkedId> {
        let mut state = self.lock();
        if bytes > state.memory_left || state.first_lacks {
            return None;
        }
        state.memory_left -= bytes;
        state.last_parked += 1;
        let id = state.last_parked;
        drop(state);
        // It is counted before it is there.
        let parked = Parked { bytes, content: make() };
        self.change(|state| state.parked.insert(id, parked));
        Some(id)
    }

    /// Returns what was parked, if its room was not needed, with the memory that it holds.
    pub fn unpark(self: &Arc<Self>, id: ParkedId) -> Option<(Box<dyn Any + Send>, Held)> {
        let Parked { bytes, content } = self.lock().parked.remove(&id)?;
        Some((content, Held::counted(self, bytes)))
    }
}

impl PoolState {
    /// Returns the bytes of all that is parked.
    pub(super) fn parked_bytes(&self) -> u64 {
        self.parked.values().map(|parked| parked.bytes).sum()
    }

    /// Gives up what was parked last until `wanted` bytes are left, or there is no more.
    pub(super) fn give_up_parked(&mut self, wanted: u64) {
        while self.memory_left < wanted
            && let Some((_, parked)) = self.parked.pop_last()
        {
            self.memory_left += parked.bytes;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schedule::Attempts;
    use crate::slot::STEP;

    #[test]
    fn what_is_parked_is_kept_until_its_room_is_needed() {
        let pool = Arc::new(SlotPool::new(8 * STEP));
        pool.join_cpu(2);
        let park = |bytes: u64, number: u64| pool.park(bytes, move || Box::new(number));
        let (first, second) = (park(2 * STEP, 1).unwrap(), park(2 * STEP, 2).unwrap());
        assert_eq!(pool.memory().0, 4 * STEP);
        assert!(park(4 * STEP + 1, 3).is_none(), "there is no room");
        let slot = pool.take(5 * STEP, 0, 0, &Attempts::default()).unwrap();
        assert!(pool.unpark(second).is_none(), "it was given up");
        let (content, held) = pool.unpark(first).unwrap();
        assert_eq!((content.downcast_ref(), held.bytes()), (Some(&1_u64), 2 * STEP));
        assert!(pool.unpark(first).is_none());
        drop(slot);
        let counted = pool.memory().0;
        drop(held);
        assert_eq!(pool.memory().0, counted - 2 * STEP);
    }
}
