//! Slots for JPEGs that stay compressed until they are on a GPU.
//!
//! They are separate from those for pixels because they are small, and because some must exist
//! however many decoded pictures wait for an encoder: a GPU that decodes then never starves.

use std::io;
use std::sync::Arc;

use super::{Buffer, Fit, Kind, PoolState, STEP, Slot, SlotError, SlotPool};
use crate::slot::schedule::{DeviceId, Patience, Request};

/// The slot of a picture that the CPU or a device could decode.
pub enum Room {
    /// A slot for its pixels: the CPU decodes and encodes it.
    Pixels(Slot),
    /// A slot for its file, on a device that decodes it.
    Compressed(Slot),
}

/// The needs of a picture, depending on whether the CPU or a device decodes it.
#[derive(Clone, Copy, Debug)]
pub struct Needs {
    /// Bytes of a slot for its pixels.
    pub pixels: u64,
    /// Bytes that the CPU takes in addition to the slot for pixels, until [`Slot::keep_aside`].
    pub aside: u64,
    /// Bytes of a slot for its file and the output.
    pub compressed: u64,
    /// Bytes that the CPU takes in addition to the slot for the file.
    pub compressed_aside: u64,
}

impl SlotPool {
    /// Waits for whichever slot is available first, with `held` as in [`SlotPool::take`], and
    /// prefers one for the compressed picture. `patience` says how long it waits for such a slot.
    ///
    /// # Errors
    /// [`SlotError`].
    pub fn take_either<'a>(
        self: &Arc<Self>,
        needs: Needs,
        held: u64,
        request: impl Into<Request<'a>>,
        patience: Patience,
    ) -> Result<Room, SlotError> {
        let request = request.into();
        let Needs { pixels, aside, compressed, compressed_aside } = needs;
        let total = pixels.saturating_add(aside).max(compressed.saturating_add(compressed_aside));
        self.note_arrival(|arrivals| &mut arrivals.compressed);
        let (buffer, aside, room) = self.in_turn(total, held, |state| {
            let destinations = state.schedule().choose(request, patience);
            let decoder = destinations.compressed;
            if let Some(taken) =
                decoder.and_then(|id| state.try_take_of(id, Kind::Compressed, compressed, compressed_aside))
            {
                let room: fn(Slot) -> Room = Room::Compressed;
                return Some(taken.map(|buffer| (buffer, compressed_aside, room)));
            }
            let taken = state.try_take(pixels.max(1), aside, &destinations.pixels?, Fit::Loose)?;
            Some(taken.map(|buffer| {
                let room: fn(Slot) -> Room = Room::Pixels;
                (buffer, aside, room)
            }))
        })?;
        self.slot(buffer, aside).map(room)
    }
}

impl PoolState {
    /// Takes a slot of a device for compressed data, if memory allows it now.
    pub(super) fn try_take_of(
        &mut self,
        device: DeviceId,
        kind: Kind,
        needed: u64,
        aside: u64,
    ) -> Option<io::Result<Buffer>> {
        let of_device = |buffer: &Buffer| buffer.kind == kind && buffer.device == device;
        let large = self.free.iter().rposition(|b| of_device(b) && b.capacity() >= needed);
        let taken = if let Some(at) =
            large.filter(|&at| self.make_room(Some(at), self.free[at].capacity() + aside))
        {
            Ok(self.free.remove(at))
        } else {
            let at = self.free.iter().rposition(of_device).filter(|&at| self.make_file(at))?;
            let rounded = (needed + needed / 4).next_multiple_of(STEP);
            let bytes =
                [rounded, needed].into_iter().find(|&bytes| self.make_room(Some(at), bytes + aside))?;
            self.grow(at, bytes).map(|buffer| Buffer { is_fresh: true, ..buffer })
        };
        if let Ok(buffer) = &taken {
            self.memory_left -= aside;
            self.members[device].filling += usize::from(buffer.is_fresh);
        }
        Some(taken)
    }
}
