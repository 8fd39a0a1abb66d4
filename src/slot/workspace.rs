//! Working memory of decoders. Like slots, it is reused from one picture to the next: new memory,
//! which the system clears page by page, took a sixth of the time of a set of JPEGs, a third of
//! them progressive.

use std::io;
use std::sync::Arc;

use super::{Memory, PoolState, Slot, SlotPool};
use codec::WorkspaceNeeds;

/// Working memory, all zero at first. When dropped, it goes back to the pool, which keeps it until
/// its room is needed.
pub struct Workspace {
    /// `None` if not requested, or not available.
    memory: Option<Memory>,
    /// Bytes of it that count as part of the slot's `aside`; the others count separately.
    aside: u64,
    pool: Arc<SlotPool>,
}

impl AsMut<[u8]> for Workspace {
    /// Returns the bytes, as many as were requested, or an empty slice.
    fn as_mut(&mut self) -> &mut [u8] {
        self.memory.as_mut().map_or(&mut [], |memory| &mut memory.bytes_mut()[..self.aside as usize])
    }
}

impl Slot {
    /// Returns a workspace. Its bytes are some of those that were taken aside, which have to be
    /// kept until it is dropped; the additional needs are taken aside too. It is empty if there is
    /// no room for that now, or no memory.
    pub fn workspace(&mut self, needs: WorkspaceNeeds) -> Workspace {
        let WorkspaceNeeds { bytes, additional } = needs;
        let mut workspace = Workspace { memory: None, aside: bytes, pool: Arc::clone(&self.pool) };
        let mut state = self.pool.lock();
        if bytes > 0 && additional <= state.memory_left {
            state.memory_left -= additional;
            self.aside += additional;
            let used = state.take_workspace(bytes);
            drop(state);
            let bytes = bytes as usize;
            let memory = used.map_or_else(|| Memory::private(bytes), |used| cleared(used, bytes));
            workspace.memory = memory.ok();
        }
        workspace
    }
}

/// Returns used memory of at least this many bytes, the first `bytes` of them zero.
fn cleared(mut used: Memory, bytes: usize) -> io::Result<Memory> {
    let length = used.bytes().len();
    used.bytes_mut()[..bytes.min(length)].fill(0);
    if length < bytes { used.resized(bytes) } else { Ok(used) }
}

impl PoolState {
    /// Takes the workspace that came back last. From then on, `bytes` of it no longer count
    /// separately.
    fn take_workspace(&mut self, bytes: u64) -> Option<Memory> {
        let memory = self.workspaces.pop()?;
        self.memory_left += bytes.min(memory.bytes().len() as u64);
        Some(memory)
    }

    /// Gives up free workspaces, and buffers of files, until `wanted` bytes are left, or there are
    /// no more.
    pub(super) fn give_up_workspaces(&mut self, wanted: u64) {
        while self.memory_left < wanted
            && let Some(memory) = self.workspaces.pop()
        {
            self.memory_left += memory.bytes().len() as u64;
        }
        while self.memory_left < wanted
            && let Some(buffer) = self.buffers.pop()
        {
            self.memory_left += buffer.capacity() as u64;
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::slot::STEP;
    use crate::slot::schedule::Attempts;

    #[test]
    fn a_workspace_is_kept_for_the_next_picture_and_is_zero_again() {
        let pool = Arc::new(SlotPool::new(64 * STEP));
        pool.join_cpu(1);
        let use_workspace = |bytes: u64| {
            let mut slot = pool.take(STEP, bytes, 0, &Attempts::default()).unwrap();
            let mut workspace = slot.workspace(WorkspaceNeeds { bytes, additional: 0 });
            assert_eq!(workspace.as_mut(), vec![0; bytes as usize]);
            workspace.as_mut().fill(7);
            let (counted, _) = pool.memory();
            drop(workspace);
            slot.keep_aside(0);
            counted - slot.bytes().len() as u64
        };
        let kept =
            || pool.lock().workspaces.iter().map(|memory| memory.bytes().len() as u64).collect::<Vec<_>>();
        for (bytes, counted, left) in [
            (3000, 3000, 3000),
            (1000, 3000, 3000),
            (3000, 3000, 3000),
            (9000, 9000, 9000),
            (0, 9000, 9000),
            (8999, 9000, 9000),
        ] {
            assert_eq!(use_workspace(bytes), counted);
            assert_eq!(kept(), [left]);
        }
        assert_eq!(pool.memory().0, pool.lock().free[0].capacity() + 9000);
    }

    #[test]
    fn a_workspace_is_kept_only_while_nobody_needs_its_room() {
        let pool = Arc::new(SlotPool::new(4 * STEP));
        pool.join_cpu(2);
        let mut slot = pool.take(2 * STEP, 2 * STEP, 0, &Attempts::default()).unwrap();
        let none = slot.workspace(WorkspaceNeeds { bytes: STEP, additional: 1 }).as_mut().len();
        assert_eq!(none, 0, "there is no room for what it needs besides");
        let workspace = slot.workspace(WorkspaceNeeds { bytes: 2 * STEP, additional: 0 });
        assert_eq!(pool.memory().0, 4 * STEP);
        drop(workspace);
        assert!(pool.lock().workspaces.is_empty(), "there is no room to count it for itself");

        let pool = Arc::new(SlotPool::new(6 * STEP));
        pool.join_cpu(1);
        let mut slot = pool.take(STEP, STEP, 0, &Attempts::default()).unwrap();
        let workspace = slot.workspace(WorkspaceNeeds { bytes: STEP, additional: STEP });
        let bytes_of_slot = slot.bytes().len() as u64;
        assert_eq!(pool.memory().0, bytes_of_slot + 2 * STEP);
        drop(workspace);
        drop(slot);
        assert_eq!(pool.memory().0, bytes_of_slot + STEP, "it is counted for itself");
        let slot = pool.take(6 * STEP, 0, 0, &Attempts::default()).unwrap();
        assert_eq!(pool.memory().0, slot.bytes().len() as u64, "it has been given up");
    }
}
