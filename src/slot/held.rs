//! Memory that a picture holds before it has a slot: its file and its metadata. It is counted before anything is read.
//!
//! Whoever holds memory and waits for more could wait for ever: all decoders might hold files, and none of them have room for pixels. So if
//! the first that waits lacks memory while all slots are free, those that wait behind it give up what they hold, and begin again.

use std::sync::{Arc, Condvar};

use super::{SlotError, SlotPool, State};

/// Bytes of capacity of a file's buffer that is kept for another file: enough for a camera's JPEG.
const BUFFER_KEPT: usize = 16 << 20;

/// The memory that a picture holds. When dropped, it counts no longer.
pub struct Held {
    bytes: u64,
    pool: Arc<SlotPool>,
}

impl Held {
    /// Returns what a picture holds at first: nothing.
    pub fn nothing(pool: &Arc<SlotPool>) -> Self {
        Self { bytes: 0, pool: Arc::clone(pool) }
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

    /// Returns the buffer of an earlier file, empty if none was kept. What it has counts as part of what is held.
    pub fn buffer(&mut self) -> Vec<u8> {
        self.pool.change(|state| {
            let buffer = state.buffers.pop().unwrap_or_default();
            let capacity = buffer.capacity() as u64;
            state.memory_left += capacity.min(self.bytes);
            self.bytes = self.bytes.max(capacity);
            buffer
        })
    }

    /// Keeps the buffer of a file for another one, unless it is very large, until its room is needed.
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

/// A thread that waits for its turn.
pub(super) struct Taker {
    /// A condition variable of its own: a change concerns the first thread alone, and 64 decoders that all woke up for it would wait for each
    /// other.
    pub(super) turn: Arc<Condvar>,
    /// Bytes that it holds meanwhile.
    pub(super) held: u64,
    /// Whether it has to give them up.
    pub(super) gives_up: bool,
}

impl State {
    /// Counts `bytes` bytes as held if they are left now. This may overtake those that wait, because a file can be read meanwhile, but not
    /// those for whom others give up what they hold.
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

    /// Has all that wait behind the first give up what they hold, if it needs `total` bytes that nothing else will free.
    pub(super) fn let_first_pass(&mut self, total: u64) {
        let all: usize = self.members.iter().map(super::Member::slots).sum();
        if self.free.len() < all || total <= self.memory_left + self.spare() {
            return;
        }
        self.first_lacks = true;
        for taker in self.takers.iter_mut().skip(1).filter(|taker| taker.held > 0) {
            taker.gives_up = true;
            taker.turn.notify_one();
        }
    }
}
