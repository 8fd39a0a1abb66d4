//! Memory that a picture holds before it has a slot: its file and its metadata. It is counted
//! before the file is read.
//!
//! A picture that holds memory and waits for more could wait forever: all decoders might hold
//! files, with no room for pixels left. Therefore, if the first waiting picture lacks memory while
//! all slots are free, the pictures that wait after it give up their memory, and begin again.

use std::sync::{Arc, Condvar, MutexGuard, PoisonError};

use codec::Budget;

use super::{PoolState, SlotError, SlotPool};

/// Bytes of capacity of a file's buffer that is kept for another file: enough for a camera's JPEG.
const BUFFER_KEPT: usize = 16 << 20;

/// The divisor of all memory that gives the size above which a picture is cut into bands, if it can
/// be: they are decoded, equalized and encoded at the same time.
const CUT_ABOVE: u64 = 4;

/// Returns the bytes of pixels above which a picture is cut into bands, with this much memory in
/// all.
pub const fn most_at_once(memory: u64) -> u64 {
    memory / CUT_ABOVE
}

/// The memory that a picture holds. When dropped, it counts no longer.
pub struct Held {
    bytes: u64,
    /// Whether a picture that is large compared to all memory may be cut into bands.
    may_be_cut: bool,
    pool: Arc<SlotPool>,
}

impl Held {
    /// Returns the initial value, without memory.
    pub fn nothing(pool: &Arc<SlotPool>) -> Self {
        Self::counted(pool, 0)
    }

    /// Sets whether a picture that is large compared to all memory is cut into bands.
    #[must_use]
    pub fn with_bands(mut self, may_be_cut: bool) -> Self {
        self.may_be_cut = may_be_cut;
        self
    }

    /// Returns the bytes of pixels above which a picture is cut into bands.
    pub fn most_at_once(&self) -> u64 {
        if self.may_be_cut { most_at_once(self.pool.memory().1) } else { u64::MAX }
    }

    /// Returns the bytes that all pictures may hold together.
    pub fn memory(&self) -> u64 {
        self.pool.memory().1
    }

    /// Returns the holder of bytes that have already been counted.
    pub(super) fn counted(pool: &Arc<SlotPool>, bytes: u64) -> Self {
        Self { bytes, may_be_cut: false, pool: Arc::clone(pool) }
    }

    /// Returns the bytes that it holds.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Waits until it may hold `bytes` bytes more.
    ///
    /// # Errors
    /// [`SlotError::LargerThanMemory`].
    pub fn hold(&mut self, bytes: u64) -> Result<(), SlotError> {
        if !self.pool.lock().hold_at_once(bytes) {
            self.pool.in_turn(bytes, self.bytes, |state| state.hold(bytes).then_some(Ok(())))?;
        }
        self.bytes += bytes;
        Ok(())
    }

    /// Holds `bytes` bytes more if they are left now and no picture waits for them. Returns whether
    /// it does.
    pub fn try_hold(&mut self, bytes: u64) -> bool {
        let has = {
            let mut state = self.pool.lock();
            state.takers.is_empty() && state.hold_at_once(bytes)
        };
        self.bytes += if has { bytes } else { 0 };
        has
    }

    /// Leaves the counting of its bytes to a slot.
    pub(super) fn hand_over(&mut self) {
        self.bytes = 0;
    }

    /// Returns the buffer of an earlier file, empty if none was kept. Its capacity is counted as
    /// held.
    pub fn buffer(&mut self) -> Vec<u8> {
        self.pool.change(|state| {
            let buffer = state.buffers.pop().unwrap_or_default();
            let capacity = buffer.capacity() as u64;
            state.memory_left += capacity.min(self.bytes);
            self.bytes = self.bytes.max(capacity);
            buffer
        })
    }

    /// Keeps the buffer of a file for another one, unless it is very large, until its room is
    /// needed.
    pub fn keep(mut self, buffer: Vec<u8>) {
        let capacity = buffer.capacity() as u64;
        if buffer.capacity() <= BUFFER_KEPT && capacity <= self.bytes {
            self.bytes -= capacity;
            self.pool.change(|state| state.buffers.push(buffer));
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if self.bytes > 0 {
            self.pool.change(|state| state.memory_left += self.bytes);
        }
    }
}

impl SlotPool {
    /// Waits, without holding memory, until no other picture is beginning again after it had to
    /// give up its memory. Until the guard is dropped, no other begins: two that take memory in
    /// several steps, each of most of it, would make each other give up forever.
    pub fn begin_again(&self) -> MutexGuard<'_, ()> {
        self.again.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Memory that no picture in progress needs now.
pub(crate) struct Spare(Held);

impl Spare {
    pub(crate) fn of(pool: &Arc<SlotPool>) -> Self {
        Self(Held::nothing(pool))
    }
}

impl Budget for Spare {
    fn hold(&mut self, bytes: u64) -> Result<(), u64> {
        if self.0.try_hold(bytes) { Ok(()) } else { Err(0) }
    }
}

/// A thread that waits for its turn.
pub(super) struct Taker {
    /// A condition variable of its own: a change concerns the first thread alone, and 64 decoders
    /// that all woke up for it would wait for each other.
    pub(super) turn: Arc<Condvar>,
    /// Bytes that it holds meanwhile.
    pub(super) held: u64,
    /// Whether it has to give them up.
    pub(super) gives_up: bool,
}

impl PoolState {
    /// Counts `bytes` bytes as held if they are left now. This may overtake waiting pictures,
    /// because a file can be read meanwhile, but not one that others give up memory for.
    fn hold_at_once(&mut self, bytes: u64) -> bool {
        let is_left = bytes <= self.memory_left && !self.first_lacks;
        self.memory_left -= if is_left { bytes } else { 0 };
        is_left
    }

    /// Counts `bytes` bytes as held if there is room.
    fn hold(&mut self, bytes: u64) -> bool {
        let has_room = self.make_room(None, bytes);
        self.memory_left -= if has_room { bytes } else { 0 };
        has_room
    }

    /// Makes all takers after the first give up their memory, if the first needs `total` bytes that
    /// cannot be freed otherwise.
    pub(super) fn let_first_pass(&mut self, total: u64) {
        if !self.has_all_slots() || total <= self.memory_left + self.spare() {
            return;
        }
        self.first_lacks = true;
        for taker in self.takers.iter_mut().skip(1).filter(|taker| taker.held > 0) {
            taker.gives_up = true;
            taker.turn.notify_one();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::thread;
    use std::time::Duration;

    use super::*;
    use crate::slot::STEP;
    use crate::slot::schedule::Attempts;

    /// Returns a pool of `steps` steps with two slots.
    fn pool(steps: u64) -> Arc<SlotPool> {
        let pool = Arc::new(SlotPool::new(steps * STEP));
        pool.join_cpu(2);
        pool
    }

    fn holding(pool: &Arc<SlotPool>, bytes: u64) -> Held {
        let mut held = Held::nothing(pool);
        held.hold(bytes).unwrap();
        held
    }

    #[test]
    fn what_is_held_counts_until_it_is_dropped() {
        let pool = pool(4);
        let held = holding(&pool, 3 * STEP);
        assert_eq!((held.bytes(), pool.memory().0), (3 * STEP, 3 * STEP));
        assert!(pool.take(STEP, STEP, 3 * STEP, &Attempts::default()).is_err(), "it never fits besides");
        drop(pool.take(STEP, 0, 3 * STEP, &Attempts::default()).unwrap());
        drop(held);
        assert_eq!(pool.memory().0, STEP, "the slot keeps its memory");
        drop(holding(&pool, 4 * STEP));
        assert!(Held::nothing(&pool).hold(4 * STEP + 1).is_err());
        assert_eq!(pool.memory().0, 0, "a free slot gives up its memory for a file");
    }

    #[test]
    fn a_buffer_is_kept_for_the_next_file_while_nobody_needs_its_room() {
        let pool = pool(6);
        let kept = |held: u64| {
            let mut held = holding(&pool, held);
            let buffer = held.buffer();
            (buffer, held)
        };
        let (empty, held) = kept(2 * STEP);
        assert_eq!(empty.capacity(), 0);
        held.keep(Vec::with_capacity(2 * STEP as usize));
        assert_eq!(pool.memory().0, 2 * STEP);
        for wanted in [STEP, 2 * STEP, 2 * STEP + 5] {
            let (buffer, held) = kept(wanted);
            assert_eq!(buffer.capacity() as u64, 2 * STEP);
            assert_eq!((held.bytes(), pool.memory().0), (wanted.max(2 * STEP), wanted.max(2 * STEP)));
            held.keep(buffer);
            assert_eq!(pool.memory().0, 2 * STEP);
        }
        drop(pool.take(5 * STEP, STEP, 0, &Attempts::default()).unwrap());
        assert_eq!(kept(STEP).0.capacity(), 0, "it was given up");
    }

    #[test]
    fn those_behind_give_up_what_they_hold_if_the_first_would_wait_for_ever() {
        let pool = pool(8);
        let (first, second) = (holding(&pool, 3 * STEP), holding(&pool, 3 * STEP));
        let wait = |held: Held| {
            let pool = Arc::clone(&pool);
            let waiting = thread::spawn(move || {
                let taken = pool.take(4 * STEP, 0, held.bytes(), &Attempts::default());
                taken.map(|slot| (slot, held))
            });
            thread::sleep(Duration::from_millis(50));
            waiting
        };
        let (first, second) = (wait(first), wait(second));
        assert!(matches!(second.join().unwrap(), Err(SlotError::GivenUp)));
        let (slot, held) = first.join().unwrap().unwrap();
        assert_eq!(held.bytes(), 3 * STEP);
        assert!(pool.lock().hold_at_once(STEP), "files may be read again");
        drop(slot);
    }

    #[test]
    fn nobody_gives_up_anything_while_a_slot_may_come_back() {
        let pool = pool(8);
        let slot = pool.take(4 * STEP, 0, 0, &Attempts::default()).unwrap();
        let held = [holding(&pool, STEP), holding(&pool, STEP)];
        let waiting = held.map(|held| {
            let pool = Arc::clone(&pool);
            thread::spawn(move || drop(pool.take(4 * STEP, 0, held.bytes(), &Attempts::default()).unwrap()))
        });
        thread::sleep(Duration::from_millis(50));
        assert!(waiting.iter().all(|thread| !thread.is_finished()));
        drop(slot);
        waiting.into_iter().for_each(|thread| thread.join().unwrap());
    }
}
