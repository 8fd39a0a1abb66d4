//! Memory that decoders work in. It goes from one picture to the next, as slots do: anew from the system, which clears it page by page,
//! it took a sixth of the time of JPEGs of which a third was progressive.

use std::io;
use std::sync::Arc;

use super::{Memory, Slot, SlotPool, State};
use crate::codec::WorkspaceNeeds;

/// Memory to work in, all zero at first. Dropped, it goes back to the pool, which keeps it as long as nobody needs its room.
pub struct Workspace {
    /// None where none was asked for, or none could be had.
    memory: Option<Memory>,
    /// Bytes of it that are counted with the slot's; the others are counted for themselves.
    aside: u64,
    pool: Arc<SlotPool>,
}

impl AsMut<[u8]> for Workspace {
    /// The bytes, as many as were asked for, or none.
    fn as_mut(&mut self) -> &mut [u8] {
        self.memory.as_mut().map_or(&mut [], |memory| &mut memory.bytes_mut()[..self.aside as usize])
    }
}

impl Slot {
    /// A workspace, whose bytes are some of those that were taken aside, which have to be kept until it is dropped. What is needed
    /// beside it is taken aside too. Empty where there is no room for that now, or no memory.
    pub fn workspace(&mut self, needs: WorkspaceNeeds) -> Workspace {
        let WorkspaceNeeds { bytes, beside } = needs;
        let mut workspace = Workspace { memory: None, aside: bytes, pool: Arc::clone(&self.pool) };
        let mut state = self.pool.lock();
        if bytes > 0 && beside <= state.memory_left {
            state.memory_left -= beside;
            self.aside += beside;
            let used = state.take_workspace(bytes);
            drop(state);
            let bytes = bytes as usize;
            let memory = used.map_or_else(|| Memory::private(bytes), |used| cleared(used, bytes));
            workspace.memory = memory.ok();
        }
        workspace
    }
}

/// Used memory with at least so many bytes, and those without a trace of its use.
fn cleared(mut used: Memory, bytes: usize) -> io::Result<Memory> {
    let length = used.bytes().len();
    used.bytes_mut()[..bytes.min(length)].fill(0);
    if length < bytes { used.resized(bytes) } else { Ok(used) }
}

impl State {
    /// The workspace that came back last. So many bytes of it are no longer counted for themselves.
    fn take_workspace(&mut self, bytes: u64) -> Option<Memory> {
        let memory = self.workspaces.pop()?;
        self.memory_left += bytes.min(memory.bytes().len() as u64);
        Some(memory)
    }

    /// Gives up free workspaces until so many bytes are left, or there are none.
    pub(super) fn give_up_workspaces(&mut self, wanted: u64) {
        while self.memory_left < wanted
            && let Some(memory) = self.workspaces.pop()
        {
            self.memory_left += memory.bytes().len() as u64;
        }
    }
}

impl Drop for Workspace {
    fn drop(&mut self) {
        let Some(memory) = self.memory.take() else { return };
        self.pool.change(|state| {
            if let Some(left) = state.memory_left.checked_sub(self.aside) {
                state.memory_left = left;
                state.workspaces.push(memory);
            } else {
                let bytes = memory.bytes().len() as u64;
                drop(memory);
                state.memory_left += bytes - self.aside;
            }
        });
    }
}
