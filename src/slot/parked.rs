//! Data of waiting pictures in memory: kept until it is fetched, or until its room is needed, when
//! it has to be made again.
//!
//! Pixels stay in the memory of their slot, if that is private to this process, and the slot
//! continues without it: they are not copied. They are copied if a worker has them mapped, or if
//! they take only a small part of the memory.

use std::any::Any;
use std::io;
use std::sync::Arc;

use super::{Buffer, Held, Kind, Memory, PoolState, Slot, SlotError, SlotPool};
use crate::slot::schedule::Request;

/// The number of a parked item.
pub type ParkedId = u64;

/// An item in memory, and the pixels that belong to it.
pub(super) struct Parked {
    /// Bytes that are counted for all of it.
    bytes: u64,
    content: Box<dyn Any + Send>,
    pixels: Pixels,
}

/// The place of the pixels.
enum Pixels {
    /// At the front of the memory of a slot.
    Kept(Memory),
    Copied(Vec<u8>),
}

/// Pixels that were parked, with their memory held until they are in a slot again.
pub struct Unparked {
    pixels: Pixels,
    held: Held,
}

impl SlotPool {
    /// Keeps the pixels at the front of a slot, and an item of `beside` bytes that belongs to them,
    /// if there is room for it now. The slot goes back.
    pub fn park(
        &self,
        mut slot: Slot,
        pixels: u64,
        beside: u64,
        content: impl FnOnce() -> Box<dyn Any + Send>,
    ) -> Option<ParkedId> {
        let buffer = slot.buffer.as_mut()?;
        let keeps = buffer.kind == Kind::Pixels
            && buffer.memory.as_ref().is_some_and(Memory::is_private)
            && slot.lead == 0
            && buffer.capacity() / 2 < pixels;
        // The memory of a slot is already counted.
        let more = if keeps { beside } else { pixels + beside };
        let id = {
            let mut state = self.lock();
            if more > state.memory_left || state.first_lacks {
                return None;
            }
            state.memory_left -= more;
            state.last_parked += 1;
            state.last_parked
        };
        // It is counted before it is there.
        let bytes = if keeps { buffer.capacity() + beside } else { more };
        let kept = buffer.memory.take_if(|_| keeps);
        let pixels =
            kept.map_or_else(|| Pixels::Copied(slot.bytes()[..pixels as usize].to_vec()), Pixels::Kept);
        let parked = Parked { bytes, content: content(), pixels };
        self.change(|state| state.parked.insert(id, parked));
        Some(id)
    }

    /// Returns the item that was parked with pixels, if its room was not needed, and the pixels.
    pub fn unpark(self: &Arc<Self>, id: ParkedId) -> Option<(Box<dyn Any + Send>, Unparked)> {
        let Parked { bytes, content, pixels } = self.lock().parked.remove(&id)?;
        Some((content, Unparked { pixels, held: Held::counted(self, bytes) }))
    }

    /// Waits for a slot with these pixels at its front and room for `bytes` bytes, as
    /// [`SlotPool::take`] does. Pixels in private memory stay there, and go to the CPU.
    ///
    /// # Errors
    /// [`SlotError`].
    pub fn take_parked<'a>(
        self: &Arc<Self>,
        Unparked { pixels, mut held }: Unparked,
        bytes: u64,
        aside: u64,
        request: impl Into<Request<'a>>,
    ) -> Result<Slot, SlotError> {
        let copy_into = |mut slot: Slot, pixels: &[u8]| {
            slot.bytes_mut()[..pixels.len()].copy_from_slice(pixels);
            slot
        };
        let memory = match pixels {
            Pixels::Copied(pixels) => {
                return Ok(copy_into(self.take(bytes, aside, held.bytes(), request)?, &pixels));
            }
            Pixels::Kept(memory) if (memory.bytes().len() as u64) < bytes => {
                return Ok(copy_into(self.take(bytes, aside, held.bytes(), request)?, memory.bytes()));
            }
            Pixels::Kept(memory) => memory,
        };
        // The bytes that it holds in addition to the memory count as taken aside from now on.
        let beside = held.bytes() - memory.bytes().len() as u64;
        let more = aside.saturating_sub(beside);
        let mut memory = Some(memory);
        let (buffer, other) = self.in_turn(more, held.bytes(), |state| {
            let taken = state.try_take_with(&mut memory, more);
            taken.map(io::Result::Ok)
        })?;
        drop(other);
        held.hand_over();
        Ok(Slot { buffer: Some(buffer), lead: 0, aside: beside + more, pool: Arc::clone(self) })
    }
}

impl PoolState {
    /// Takes a free slot of the CPU if there is one, and room for `more` bytes, and gives it this
    /// memory. The slot's own memory is returned too; it is no longer counted.
    fn try_take_with(&mut self, memory: &mut Option<Memory>, more: u64) -> Option<(Buffer, Option<Memory>)> {
        let is_of_cpu =
            |buffer: &Buffer| buffer.kind == Kind::Pixels && !self.members[buffer.device].is_worker;
        let bare = self.free.iter().position(|buffer| is_of_cpu(buffer) && buffer.memory.is_none());
        let at = bare.or_else(|| self.free.iter().rposition(is_of_cpu))?;
        if !self.make_room(None, more) {
            return None;
        }
        self.memory_left -= more;
        let mut buffer = self.free.remove(at);
        let other = std::mem::replace(&mut buffer.memory, memory.take());
        self.memory_left += other.as_ref().map_or(0, |other| other.bytes().len() as u64);
        Some((buffer, other))
    }

    /// Returns the bytes of all parked items.
    pub(super) fn parked_bytes(&self) -> u64 {
        self.parked.values().map(|parked| parked.bytes).sum()
    }

    /// Gives up the item that was parked last, and so on, until `wanted` bytes are left, or no
    /// items are.
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
    use crate::slot::STEP;
    use crate::slot::schedule::Attempts;

    fn pool(memory: u64, slots: usize) -> Arc<SlotPool> {
        let pool = Arc::new(SlotPool::new(memory));
        pool.join_cpu(slots);
        pool
    }

    fn slot(pool: &Arc<SlotPool>, bytes: u64, filled: u8) -> Slot {
        let mut slot = pool.take(bytes, 0, 0, &Attempts::default()).unwrap();
        slot.bytes_mut().fill(filled);
        slot
    }

    #[test]
    fn pixels_stay_in_the_memory_of_their_slot_until_its_room_is_needed() {
        let pool = pool(8 * STEP, 2);
        let park = |filled: u8| {
            let slot = slot(&pool, 2 * STEP, filled);
            let at = slot.bytes().as_ptr();
            let pixels = slot.bytes().len() as u64 - 5;
            (pool.park(slot, pixels, 10, || Box::new(filled)).unwrap(), at)
        };
        let ((first, at), (second, _)) = (park(1), park(2));
        let each = (pool.memory().0 - 20) / 2;
        assert!(each >= 2 * STEP && pool.slots()[0].taken == 0);
        let large = pool.take(7 * STEP - each, 0, 0, &Attempts::default()).unwrap();
        assert!(pool.unpark(second).is_none(), "it was given up");
        let (content, unparked) = pool.unpark(first).unwrap();
        assert_eq!(content.downcast_ref(), Some(&1_u8));
        let slot = pool.take_parked(unparked, 2 * STEP, 25, &Attempts::default()).unwrap();
        assert!(slot.bytes().as_ptr() == at && slot.bytes().iter().all(|&byte| byte == 1));
        assert_eq!(pool.memory().0, large.bytes().len() as u64 + each + 25);
        assert!(pool.unpark(first).is_none());
        drop((slot, large));
        let free: u64 = pool.lock().free.iter().map(Buffer::capacity).sum();
        assert_eq!(pool.memory().0, free);
    }

    #[test]
    fn pixels_are_copied_out_of_memory_that_is_mostly_not_theirs() {
        let pool = pool(8 * STEP, 1);
        let small = slot(&pool, 2 * STEP, 3);
        let at = small.bytes().as_ptr();
        let id = pool.park(small, STEP / 2, 0, || Box::new(())).unwrap();
        let taken = pool.memory().0;
        drop(slot(&pool, 2 * STEP, 9));
        let (_, unparked) = pool.unpark(id).unwrap();
        let slot = pool.take_parked(unparked, STEP, 0, &Attempts::default()).unwrap();
        assert!(
            slot.bytes().as_ptr() == at && slot.bytes()[..STEP as usize / 2].iter().all(|&byte| byte == 3)
        );
        assert_eq!(pool.memory().0, taken - STEP / 2);
    }

    #[test]
    fn nothing_is_parked_without_room_for_it() {
        let pool = pool(4 * STEP, 2);
        let one = slot(&pool, STEP, 1);
        let all = slot(&pool, 4 * STEP - one.bytes().len() as u64, 1);
        let pixels = one.bytes().len() as u64;
        assert!(pool.park(one, pixels, 1, || Box::new(())).is_none());
        drop(all);
        assert_eq!(pool.slots()[0].taken, 0);
    }

    #[test]
    fn a_slot_that_takes_parked_memory_gives_up_its_own() {
        let pool = pool(8 * STEP, 1);
        let parked = pool.park(slot(&pool, 2 * STEP, 1), 2 * STEP, 0, || Box::new(())).unwrap();
        let counted = pool.memory().0;
        drop(slot(&pool, 2 * STEP, 2));
        let (_, unparked) = pool.unpark(parked).unwrap();
        let slot = pool.take_parked(unparked, 2 * STEP, 0, &Attempts::default()).unwrap();
        assert_eq!((slot.bytes()[0], pool.memory().0), (1, counted));
    }
}
