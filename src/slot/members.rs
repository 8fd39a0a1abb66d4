//! The devices with slots in the pool, and their activity.

use std::mem;

use super::{Buffer, Kind, PoolState, SlotId, SlotPool};
use crate::slot::schedule::{DeviceId, Standing};

/// A device's action when one of its free slots gives up its memory.
pub type Release = Box<dyn Fn(SlotId) + Send + Sync>;

/// A device in the pool.
pub(super) struct Member {
    /// Whether it is a worker process, not the CPU.
    pub(super) is_worker: bool,
    /// The number of its slots of each [`Kind`].
    pub(super) slots: [usize; Kind::NUMBER],
    pub(super) standing: Standing,
    /// The number of pictures that it has and has not finished.
    pub(super) lent: usize,
    /// The number of its slots with new memory that are being filled.
    pub(super) filling: usize,
    pub(super) release: Release,
}

impl Member {
    /// Returns the number of all its slots.
    pub(super) fn slots(&self) -> usize {
        self.slots.iter().sum()
    }
}

impl SlotPool {
    /// Adds the CPU, with this many slots for pixels, which are handed out at once.
    pub fn join_cpu(&self, slots: usize) -> DeviceId {
        let (is_worker, standing, release) = (false, Standing::Up, Box::new(|_| ()));
        let slots_of = [0; Kind::NUMBER];
        let cpu = Member { is_worker, slots: slots_of, standing, lent: 0, filling: 0, release };
        self.join(cpu, slots)
    }

    /// Adds a worker with this many slots for pixels, which are handed out from [`SlotPool::up`]
    /// on.
    pub fn join_worker(&self, slots: usize, release: Release) -> DeviceId {
        let (is_worker, standing) = (true, Standing::Down);
        let slots_of = [0; Kind::NUMBER];
        let worker = Member { is_worker, slots: slots_of, standing, lent: 0, filling: 0, release };
        self.join(worker, slots)
    }

    fn join(&self, member: Member, slots: usize) -> DeviceId {
        self.change(|state| {
            let device = state.members.len();
            state.members.push(member);
            state.add(device, slots, Kind::Pixels);
            device
        })
    }

    /// Records that a worker has a picture more.
    pub fn lend(&self, device: DeviceId) {
        self.change(|state| state.members[device].lent += 1);
    }

    /// Records that a worker has finished this many pictures, or is gone.
    pub fn take_back(&self, device: DeviceId, pictures: usize) {
        self.change(|state| state.members[device].lent -= pictures);
    }

    /// Gives a device this many more slots.
    pub fn add(&self, device: DeviceId, slots: usize, kind: Kind) {
        self.change(|state| state.add(device, slots, kind));
    }

    /// Sets whether the CPU leaves the first attempt at every picture to workers while one is up or
    /// may still come up.
    pub fn wait_for_workers(&self, wait: bool) {
        self.change(|state| state.wait_for_workers = wait);
    }

    /// Marks the device as working.
    pub fn up(&self, device: DeviceId) {
        self.stand(device, Standing::Up);
    }

    /// Marks the device as not working for now.
    pub fn down(&self, device: DeviceId) {
        self.stand(device, Standing::Down);
    }

    /// Marks the device as one that may never work again: no picture waits for it. Should it work
    /// after all, [`SlotPool::up`] reverts this.
    pub fn retire(&self, device: DeviceId) {
        self.stand(device, Standing::Retired);
    }

    fn stand(&self, device: DeviceId, standing: Standing) {
        self.change(|state| state.members[device].standing = standing);
        self.changed.notify_all();
    }
}

impl PoolState {
    /// Takes back the buffer of a slot.
    pub(super) fn put_back(&mut self, mut buffer: Buffer) {
        self.note_filled(&mut buffer);
        self.free.push(buffer);
    }

    /// Records that a slot is not being filled.
    pub(super) fn note_filled(&mut self, buffer: &mut Buffer) {
        self.members[buffer.device].filling -= usize::from(mem::take(&mut buffer.is_fresh));
    }

    /// Returns whether no slot is taken.
    pub(super) fn has_all_slots(&self) -> bool {
        self.free.len() >= self.members.iter().map(Member::slots).sum()
    }

    fn add(&mut self, device: DeviceId, slots: usize, kind: Kind) {
        let member = &mut self.members[device];
        let first = member.slots();
        member.slots[kind as usize] += slots;
        let buffer = |id| Buffer { device, id: id as SlotId, kind, memory: None, is_fresh: false };
        self.free.extend((first..first + slots).map(buffer));
    }
}
