//! Slots for codestreams that a device decodes while the picture's own slot waits for their samples.

use std::sync::Arc;

use super::{Kind, PoolState, Slot, SlotPool};
use crate::slot::schedule::Attempts;

impl SlotPool {
    /// Takes a slot of so many bytes on a device that decodes codestreams, if one has it now. Nobody waits for such a slot: whoever wants one
    /// holds another.
    pub fn try_take_codestream(self: &Arc<Self>, bytes: u64, attempts: &Attempts) -> Option<Slot> {
        let taken = self.lock().try_take_codestream(bytes, attempts)?;
        self.slot(taken, 0).ok()
    }
}

impl PoolState {
    fn try_take_codestream(&mut self, bytes: u64, attempts: &Attempts) -> Option<super::Buffer> {
        let device = self.schedule().codestream_decoder(attempts)?;
        // What those need that wait for memory is not taken from them.
        let has_memory = !self.lacks_memory || bytes <= self.memory_left;
        let taken = if has_memory { self.try_take_of(device, Kind::Codestream, bytes, 0)? } else { return None };
        taken.ok()
    }
}
