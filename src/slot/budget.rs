//! The bounds on all slots: memory, and open files, one for each slot with memory that workers map.

use std::io;

use super::{Buffer, HUGE_STEP, Kind, Memory, PoolState, STEP, SlotPool};
use equalize::planes::PLANES;

impl SlotPool {
    /// Limits the number of slots with memory that workers map, but never to fewer than a split
    /// picture needs. Beyond the limit, takers wait for slots with such memory, or free slots give
    /// theirs up.
    pub fn bound_files(&self, files: u64) {
        self.change(|state| state.files_left = files.max(PLANES as u64));
    }
}

impl PoolState {
    /// Returns the step of the free slot at `at`, should it grow to `needed` bytes.
    pub(super) fn step(&self, at: usize, needed: u64) -> u64 {
        // The pages of private memory are taken when they are touched, those of shared memory at
        // once.
        let least = if self.members[self.free[at].device].is_worker { 4 * HUGE_STEP } else { HUGE_STEP / 4 };
        let huge = needed > least && self.share() >= least.max(HUGE_STEP);
        if huge { HUGE_STEP } else { STEP }
    }

    /// Returns the equal share of the memory bound for each slot that takes pixels of any size.
    fn share(&self) -> u64 {
        let slots: usize = self.members.iter().map(|member| member.slots[Kind::Pixels as usize]).sum();
        self.memory / (slots as u64).max(1)
    }

    /// Returns the size for a slot that grows: room for the largest picture so far, to avoid
    /// growing again (its pages are taken only when they are touched), but no more than its share
    /// of the bound.
    pub(super) fn fair_share(&self) -> u64 {
        self.largest.min(self.share())
    }

    /// Returns the bytes that can be given up: those of free slots, workspaces and buffers, and
    /// parked data.
    pub(super) fn spare(&self) -> u64 {
        let workspaces: u64 = self.workspaces.iter().map(|memory| memory.bytes().len() as u64).sum();
        let buffers: u64 = self.buffers.iter().map(|buffer| buffer.capacity() as u64).sum();
        self.free.iter().map(Buffer::capacity).sum::<u64>() + workspaces + buffers + self.parked_bytes()
    }

    /// Makes room for `bytes` bytes, including those of the free slot at `at`; gives up workspaces,
    /// buffers and the memory of other free slots if that is enough. Returns whether there is room.
    pub(super) fn make_room(&mut self, at: Option<usize>, bytes: u64) -> bool {
        let own = at.map_or(0, |at| self.free[at].capacity());
        if bytes <= self.memory_left + own && self.workspaces.is_empty() && self.buffers.is_empty() {
            return true;
        }
        if bytes > self.memory_left + self.spare() {
            self.lacks_memory = true;
            return false;
        }
        self.give_up_workspaces(bytes.saturating_sub(own));
        for other in 0..self.free.len() {
            if bytes <= self.memory_left + own {
                break;
            }
            if at != Some(other) {
                self.give_up(other);
            }
        }
        self.give_up_parked(bytes.saturating_sub(own));
        true
    }

    pub(super) fn give_up(&mut self, at: usize) {
        let slot = &mut self.free[at];
        if let Some(memory) = slot.memory.take() {
            (self.members[slot.device].release)(slot.id);
            self.memory_left += memory.bytes().len() as u64;
            self.files_left += u64::from(!memory.is_private());
        }
    }

    pub(super) fn grow(&mut self, at: usize, bytes: u64) -> io::Result<Buffer> {
        let slot = &mut self.free[at];
        let memory = if self.members[slot.device].is_worker {
            self.give_up(at);
            Memory::shared(bytes as usize)
        } else if let Some(memory) = slot.memory.take() {
            // Its pages are kept, and need not be cleared again.
            self.memory_left += memory.bytes().len() as u64;
            memory.resized(bytes as usize)
        } else {
            Memory::private(bytes as usize)
        };
        let memory = memory?;
        self.files_left -= u64::from(!memory.is_private());
        self.free[at].memory = Some(memory);
        self.memory_left -= bytes;
        Ok(self.free.remove(at))
    }

    /// Returns whether the limit on open files allows memory for the free slot at `at`; takes the
    /// file of another free slot if necessary.
    pub(super) fn make_file(&mut self, at: usize) -> bool {
        let needs_one = self.members[self.free[at].device].is_worker && self.free[at].memory.is_none();
        if !needs_one || self.files_left > 0 {
            return true;
        }
        let has_one = |memory: &Memory| !memory.is_private();
        let other = self.free.iter().position(|buffer| buffer.memory.as_ref().is_some_and(has_one));
        other.map(|other| self.give_up(other)).is_some()
    }
}
