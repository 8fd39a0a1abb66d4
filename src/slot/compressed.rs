//! Slots for JPEGs that stay compressed until they are on a GPU.
//!
//! They are separate from those for pixels because they are small, and because some must exist however many decoded pictures wait for an
//! encoder, so that a GPU that decodes never starves. This choice is the whole scheduler: a GPU's compressed slot while one
//! is free, because there are just enough to keep its decoders busy; else the CPU decodes, into a slot of a device that encodes if one is
//! free, or into its own.

use std::io;
use std::sync::{Arc, PoisonError};

use super::{Attempts, Buffer, DeviceId, Fit, Kind, STEP, Slot, SlotError, SlotPool, Standing, State};

/// The slot of a picture that the CPU or a device could decode.
pub enum Room {
    /// A slot for its pixels: the CPU decodes and encodes it.
    Pixels(Slot),
    /// A slot for its pixels, on a device that encodes: the CPU decodes it.
    Planes(Slot),
    /// A slot for its file, on a device that decodes it.
    Compressed(Slot),
}

/// What a picture needs, depending on whether the CPU or a device decodes it.
#[derive(Clone, Copy, Debug)]
pub struct Needs {
    /// Bytes of a slot for its pixels.
    pub pixels: u64,
    /// Bytes of its chroma planes and its file, which are behind the pixels for a device that encodes.
    pub behind: u64,
    /// Bytes that the CPU takes besides the slot for pixels, until [`Slot::keep_aside`].
    pub aside: u64,
    /// Bytes of a slot for its file and the output.
    pub compressed: u64,
    /// Bytes that the CPU takes besides the slot for the file.
    pub compressed_aside: u64,
}

impl SlotPool {
    /// Notes that a device can encode the pixels that it is given.
    pub fn encodes(&self, device: DeviceId) {
        self.change(|state| state.members[device].encodes = true);
    }

    /// Waits until a picture has come that could stay compressed, or until `given_up` is true; returns whether one has come. Whoever makes
    /// `given_up` true calls [`SlotPool::look_again`].
    pub fn decoders_wanted(&self, given_up: impl Fn() -> bool) -> bool {
        let waits = |state: &mut State| !state.decoders_wanted && !given_up();
        let state = self.wanted.wait_while(self.lock(), waits);
        state.unwrap_or_else(PoisonError::into_inner).decoders_wanted
    }

    /// Has the threads that wait in [`SlotPool::decoders_wanted`] look again.
    pub fn look_again(&self) {
        drop(self.lock());
        self.wanted.notify_all();
    }

    /// Waits for whichever slot is available first, with `held` as in [`SlotPool::take`], and prefers one for the compressed picture. With `insist`, takes only such a slot, as
    /// long as some device that `attempts` admit has or may come to have one.
    ///
    /// # Errors
    /// [`SlotError`].
    pub fn take_either(
        self: &Arc<Self>,
        needs: Needs,
        held: u64,
        attempts: &Attempts,
        insist: bool,
    ) -> Result<Room, SlotError> {
        let Needs { pixels, behind, aside, compressed, compressed_aside } = needs;
        let total = pixels.saturating_add(aside).max(compressed.saturating_add(compressed_aside));
        if !std::mem::replace(&mut self.lock().decoders_wanted, true) {
            self.wanted.notify_all();
        }
        self.in_turn(total, held, |state| {
            if let Some(taken) = state.try_take_compressed(compressed, compressed_aside, attempts) {
                return Some(taken.map(|buffer| Room::Compressed(self.slot(buffer, compressed_aside))));
            }
            let with_all = pixels.saturating_add(behind);
            let encode = state.may_encode(attempts)
                && with_all.saturating_add(aside).saturating_add(held) <= state.memory;
            let admitted = match (state.may_decode(attempts), insist) {
                (true, true) => return None,
                (true, false) if !encode && !state.workers_may_come() => state.cpu_alone(),
                _ => state.admitted_now(attempts),
            };
            let encode =
                encode && state.members.iter().zip(&admitted).any(|(m, &admitted)| m.encodes && admitted);
            let bytes = if encode { with_all } else { pixels };
            let taken = state.try_take(bytes.max(1), aside, &admitted, Fit::Loose)?;
            Some(taken.map(|buffer| match encode && state.members[buffer.device].encodes {
                true => Room::Planes(self.slot(buffer, aside)),
                false => Room::Pixels(self.slot(buffer, aside)),
            }))
        })
    }
}

impl State {
    /// Takes a slot for a compressed picture if one is available now, on the device that has the most.
    fn try_take_compressed(
        &mut self,
        needed: u64,
        aside: u64,
        attempts: &Attempts,
    ) -> Option<io::Result<Buffer>> {
        let is_compressed = |buffer: &&Buffer| buffer.kind == Kind::Compressed;
        let free = |buffer: &&Buffer| is_compressed(buffer) && self.decodes_now(buffer.device, attempts);
        let count =
            |device| self.free.iter().filter(is_compressed).filter(|buffer| buffer.device == device).count();
        let device = self.free.iter().filter(free).map(|buffer| buffer.device).max_by_key(|&d| count(d))?;
        let of_device = |buffer: &Buffer| buffer.kind == Kind::Compressed && buffer.device == device;
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
            self.grow(at, bytes)
        };
        if taken.is_ok() {
            self.memory_left -= aside;
        }
        Some(taken)
    }

    fn decodes_now(&self, device: DeviceId, attempts: &Attempts) -> bool {
        self.members[device].standing == Standing::Up && attempts.decodes_on(device)
    }

    /// Returns whether a device that encodes is up, so that pixels are worth the trip to it.
    fn may_encode(&self, attempts: &Attempts) -> bool {
        !attempts.declined && self.encodes_now()
    }

    fn encodes_now(&self) -> bool {
        self.members.iter().any(|member| member.encodes && member.standing == Standing::Up)
    }

    /// Returns, by device, whether its slots may be taken now after these attempts. A device that encodes may still be starting nvJPEG, or
    /// pinning its slots one after the other: while all its slots are taken, the CPU equalizes and encodes what it decodes itself.
    pub(super) fn admitted_now(&self, attempts: &Attempts) -> Vec<bool> {
        let admitted = self.admitted(attempts);
        let alone = self.encodes_now() && !self.wait_for_workers && !self.has_free(&admitted);
        if alone { self.cpu_alone() } else { admitted }
    }

    /// Returns whether an admitted device has a free slot for pixels, of whatever size.
    fn has_free(&self, admitted: &[bool]) -> bool {
        self.free.iter().any(|buffer| buffer.kind != Kind::Compressed && admitted[buffer.device])
    }

    /// Returns, by device, whether it is the CPU. When it decodes and encodes pictures while a device does so too, it also equalizes
    /// them: the trip over the bus and back was measured to take longer, and kept both from better work.
    pub(super) fn cpu_alone(&self) -> Vec<bool> {
        self.members.iter().map(|member| !member.is_worker).collect()
    }

    /// Returns whether a device that `attempts` admit decodes JPEGs, or may come to do so.
    fn may_decode(&self, attempts: &Attempts) -> bool {
        self.members.iter().enumerate().any(|(device, member)| {
            member.slots[Kind::Compressed as usize] > 0
                && member.standing != Standing::Retired
                && attempts.decodes_on(device)
        })
    }
}

impl Attempts {
    fn decodes_on(&self, device: DeviceId) -> bool {
        !self.declined && self.admit(device)
    }
}
