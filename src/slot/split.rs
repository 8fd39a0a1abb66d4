//! Slots for a picture with planes that go to different devices.

use std::cmp::Reverse;
use std::io;
use std::sync::Arc;

use super::{Buffer, Fit, Kind, PoolState, Slot, SlotError, SlotPool};
use crate::slot::schedule::Attempts;
use equalize::planes::PLANES;

/// The slots of one picture.
pub struct Slots {
    /// The slot of the whole picture.
    pub whole: Slot,
    /// The slots of its planes; empty if it is not split.
    pub planes: Vec<Slot>,
}

impl From<Slot> for Slots {
    fn from(whole: Slot) -> Self {
        Self { whole, planes: Vec::new() }
    }
}

impl SlotPool {
    /// Waits until all slots of a picture to split are available: one on the CPU, which no worker
    /// has to map, with room for `whole` bytes and with `aside` and `held` as in
    /// [`SlotPool::take`], and one per plane with room for `plane` bytes, spread over as many as
    /// possible of the devices that `attempts` admit. Devices that the user insists on are waited
    /// for.
    ///
    /// # Errors
    /// [`SlotError`].
    pub fn take_split(
        self: &Arc<Self>,
        whole: u64,
        aside: u64,
        plane: u64,
        held: u64,
        attempts: &Attempts,
    ) -> Result<Slots, SlotError> {
        self.note_arrival(|arrivals| &mut arrivals.pixels);
        let total = (PLANES as u64).saturating_mul(plane).saturating_add(whole).saturating_add(aside);
        let sizes = Sizes { whole: whole.max(1), aside, plane };
        let taken = self.in_turn(total, held, |state| state.try_take_split(sizes, attempts))?;
        let mut taken = taken.into_iter();
        let whole = taken.next().expect("the first is the whole picture's");
        // All of them become slots, which give themselves back should one fail.
        let planes: Vec<_> = taken.map(|buffer| self.slot(buffer, 0)).collect();
        let whole = self.slot(whole, aside)?;
        Ok(Slots { whole, planes: planes.into_iter().collect::<Result<_, _>>()? })
    }
}

/// Bytes of a split picture: in its own slot, aside, and in the slot of each plane.
#[derive(Clone, Copy)]
struct Sizes {
    whole: u64,
    aside: u64,
    plane: u64,
}

impl PoolState {
    /// Takes the slots of a split picture if all are available now, the whole picture's first.
    fn try_take_split(&mut self, sizes: Sizes, attempts: &Attempts) -> Option<io::Result<Vec<Buffer>>> {
        if self.schedule().may_still_come(attempts) {
            return None;
        }
        let all_are_here = self.has_all_slots();
        let taken = self.take_all_or_none(sizes, attempts, Fit::Loose);
        // If all slots are free, waiting is in vain: only room to spare can be in the way.
        if taken.is_none() && all_are_here {
            self.take_all_or_none(sizes, attempts, Fit::Tight)
        } else {
            taken
        }
    }

    fn take_all_or_none(
        &mut self,
        sizes: Sizes,
        attempts: &Attempts,
        fit: Fit,
    ) -> Option<io::Result<Vec<Buffer>>> {
        let mut taken = Vec::with_capacity(1 + PLANES);
        let outcome = self.take_parts(sizes, attempts, fit, &mut taken);
        if !matches!(outcome, Some(Ok(()))) {
            self.memory_left += if taken.is_empty() { 0 } else { sizes.aside };
            self.free.append(&mut taken);
        }
        outcome.map(|parts| parts.map(|()| taken))
    }

    /// Takes the slots of a split picture one by one, as far as they are available.
    fn take_parts(
        &mut self,
        sizes: Sizes,
        attempts: &Attempts,
        fit: Fit,
        taken: &mut Vec<Buffer>,
    ) -> Option<io::Result<()>> {
        match self.try_take(sizes.whole, sizes.aside, &self.schedule().cpu_alone(), fit)? {
            Ok(buffer) => taken.push(buffer),
            Err(error) => return Some(Err(error)),
        }
        let admitted = self.schedule().admitted(attempts);
        for _ in 0..PLANES {
            let takes_pixels = |buffer: &&Buffer| buffer.kind != Kind::Compressed;
            let count = |buffers: &[Buffer], device| {
                buffers.iter().filter(takes_pixels).filter(|buffer| buffer.device == device).count()
            };
            // The device with the fewest of this picture's planes, and among these the one with the
            // most free slots, which lets later pictures even out the load.
            let free = self.free.iter().filter(takes_pixels).map(|buffer| buffer.device);
            let device = free
                .filter(|&device| admitted[device])
                .min_by_key(|&device| (count(&taken[1..], device), Reverse(count(&self.free, device))))?;
            let only: Vec<bool> = (0..admitted.len()).map(|other| other == device).collect();
            match self.try_take(sizes.plane, 0, &only, fit)? {
                Ok(buffer) => taken.push(buffer),
                Err(error) => return Some(Err(error)),
            }
        }
        Some(Ok(()))
    }
}
