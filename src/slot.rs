//! Slots: the only large memory, but for the decoders' workspaces. A slot is one reusable buffer that carries one picture through
//! the pipeline; the pool of them is both the memory bound and the back-pressure.
//!
//! The memory of a slot whose device is a worker process is a sealed memfd, so that the worker can map the same pages and
//! pin them. The CPU's slots are private memory, which can have huge pages.

mod budget;
mod compressed;
mod heaps;
mod memory;
mod split;
mod workspace;

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use crate::files;

pub use compressed::{Needs, Room};
pub use heaps::bound_heaps;
pub use memory::Memory;
pub use split::Slots;
pub use workspace::Workspace;

/// Which device a slot belongs to: its place in the pipeline's list of devices.
pub type DeviceId = usize;

/// Which slot of its device.
pub type SlotId = u32;

/// A slot as the pool keeps it.
struct Buffer {
    device: DeviceId,
    id: SlotId,
    /// Whether it is for compressed pictures.
    compressed: bool,
    /// Whether it is for [`SMALL`] pictures.
    small: bool,
    memory: Option<Memory>,
}

impl Buffer {
    /// One for decoded pictures of any size.
    fn new(device: DeviceId, id: usize) -> Self {
        Self { device, id: id as SlotId, compressed: false, small: false, memory: None }
    }

    fn capacity(&self) -> u64 {
        self.memory.as_ref().map_or(0, |memory| memory.bytes().len() as u64)
    }
}

/// One reusable buffer. Whoever holds the value holds the bytes; dropped, it goes back to its pool.
pub struct Slot {
    buffer: Option<Buffer>,
    /// Bytes of its memory that are left out at the front.
    lead: usize,
    aside: u64,
    pool: Arc<SlotPool>,
}

impl Slot {
    fn buffer(&self) -> &Buffer {
        self.buffer.as_ref().expect("only drop takes the buffer")
    }

    /// The device it belongs to.
    pub fn device(&self) -> DeviceId {
        self.buffer().device
    }

    /// Its number among its device's slots.
    pub fn id(&self) -> SlotId {
        self.buffer().id
    }

    /// The memory behind it.
    pub fn memory(&self) -> &Memory {
        self.buffer().memory.as_ref().expect("a taken slot has memory")
    }

    /// The bytes, at least as many as were asked for.
    pub fn bytes(&self) -> &[u8] {
        &self.memory().bytes()[self.lead..]
    }

    /// The bytes, to be written.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        let memory = self.buffer.as_mut().and_then(|buffer| buffer.memory.as_mut());
        &mut memory.expect("a taken slot has memory").bytes_mut()[self.lead..]
    }

    /// Lets the bytes begin at an address that is `lead` above a page's, unless a worker is to find them at the front of its
    /// memory. So many bytes fewer are left.
    pub fn begin_at(&mut self, lead: usize) {
        self.lead = if self.memory().is_private() { lead } else { 0 };
    }

    /// Of the memory that was taken aside no more than `bytes` bytes are needed any longer.
    pub fn keep_aside(&mut self, bytes: u64) {
        let released = self.aside.saturating_sub(bytes);
        if released > 0 {
            self.aside -= released;
            self.pool.change(|state| state.memory_left += released);
        }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let (released, buffer) = (std::mem::take(&mut self.aside), self.buffer.take());
        self.pool.change(|state| {
            state.memory_left += released;
            state.free.extend(buffer);
        });
    }
}

/// Which devices may take a picture.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Claim {
    /// Devices on which it failed before, or that declined it. After two of them only the CPU remains.
    pub failed_on: Vec<DeviceId>,
    /// A device would not decode it, so that the processor has to.
    pub declined: bool,
}

/// Why no slot can be had.
#[derive(Debug, thiserror::Error)]
pub enum SlotError {
    /// More than the whole bound.
    #[error(
        "the picture needs {needed} bytes of memory, more than --memory allows ({allowed} bytes); raise --memory"
    )]
    LargerThanMemory {
        /// Bytes that the picture needs.
        needed: u64,
        /// Bytes that `--memory` allows.
        allowed: u64,
    },
    /// The system gave no memory.
    #[error(
        "the system gave no memory for the picture ({needed} bytes): {source}; {}",
        files::remedy(source).unwrap_or("lower --memory or --threads")
    )]
    System {
        /// Bytes that the picture needs.
        needed: u64,
        /// What the system said.
        source: io::Error,
    },
}

/// What a device does when the memory of one of its free slots is given up.
pub type Release = Box<dyn Fn(SlotId) + Send + Sync>;

/// How many slots a device has, and how many of them hold pictures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotUse {
    /// All that it has.
    pub all: usize,
    /// Those that are taken.
    pub taken: usize,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Standing {
    /// Works: its slots are handed out.
    Up,
    /// Restarting: may work again.
    Down,
    /// May not work again: nobody waits for it.
    Retired,
}

/// How large a slot may be.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fit {
    /// As large as it is, and with room to spare if it has to grow.
    Loose,
    /// Just as large as what is asked for.
    Tight,
}

struct Member {
    accelerator: bool,
    /// All its slots.
    slots: usize,
    /// Those for compressed pictures.
    compressed: usize,
    /// Whether it can encode the pixels that it is given.
    encodes: bool,
    standing: Standing,
    release: Release,
}

impl Member {
    /// Whether it is one that pixels may go to instead of the CPU.
    fn is_accelerator_of_pixels(&self) -> bool {
        self.accelerator && self.slots > self.compressed
    }
}

struct State {
    memory: u64,
    memory_left: u64,
    slots: u64,
    /// Those of them that are for compressed pictures.
    compressed: u64,
    /// Those of them that are for small pictures.
    small: u64,
    /// Whether a picture has come that could go into one of those.
    decoders_wanted: bool,
    largest: u64,
    free: Vec<Buffer>,
    /// How many more slots may get memory that workers map.
    files_left: u64,
    /// Those that no decoder has.
    workspaces: Vec<Memory>,
    members: Vec<Member>,
    wait_for_accelerators: bool,
    /// Those who wait for slots, in the order of their turns. Each has a condition of its own: a change concerns the first alone, and
    /// 64 decoders that all woke for it would wait for each other.
    takers: VecDeque<Arc<Condvar>>,
}

/// The free slots of all devices, within one bound on memory.
pub struct SlotPool {
    state: Mutex<State>,
    /// Signalled when decoders are wanted, or no longer waited for.
    wanted: Condvar,
}

/// Slots grow in steps, so that a folder of nearly equal pictures settles at once.
const STEP: u64 = 256 * 1024;
/// Bytes of a small picture: a slot of one step has room for it.
const SMALL: u64 = 192 * 1024;
/// The steps of the CPU's slots larger than a quarter of this: private memory of whole huge pages gets them, and keeps them when it grows.
const HUGE_STEP: u64 = 2 * 1024 * 1024;

impl SlotPool {
    /// A pool that will never hold more than `memory` bytes.
    pub fn new(memory: u64) -> Self {
        let state = State {
            memory,
            memory_left: memory,
            slots: 0,
            compressed: 0,
            small: 0,
            decoders_wanted: false,
            largest: 0,
            free: Vec::new(),
            files_left: u64::MAX,
            workspaces: Vec::new(),
            members: Vec::new(),
            wait_for_accelerators: false,
            takers: VecDeque::new(),
        };
        Self { state: Mutex::new(state), wanted: Condvar::new() }
    }

    /// Adds a device with so many slots. The CPU's are handed out at once, an accelerator's from [`SlotPool::up`] on.
    pub fn join(&self, accelerator: bool, slots: usize, release: Release) -> DeviceId {
        let standing = if accelerator { Standing::Down } else { Standing::Up };
        self.change(|state| {
            let device = state.members.len();
            state.members.push(Member {
                accelerator,
                slots,
                compressed: 0,
                encodes: false,
                standing,
                release,
            });
            state.slots += slots as u64;
            state.free.extend((0..slots).map(|id| Buffer::new(device, id)));
            device
        })
    }

    /// Gives a device so many slots more, for pictures alone that take next to no memory. To hand one of those on costs as much as
    /// what is done to it, so it pays to have many under way.
    pub fn add_small(&self, device: DeviceId, slots: usize) {
        self.change(|state| {
            let member = &mut state.members[device];
            let first = member.slots;
            member.slots += slots;
            state.slots += slots as u64;
            state.small += slots as u64;
            let small = |id| Buffer { small: true, ..Buffer::new(device, id) };
            state.free.extend((first..first + slots).map(small));
        });
    }

    /// The CPU takes no first tries while an accelerator is up or may still come up.
    pub fn wait_for_accelerators(&self, wait: bool) {
        self.change(|state| state.wait_for_accelerators = wait);
    }

    /// The device works.
    pub fn up(&self, device: DeviceId) {
        self.stand(device, Standing::Up);
    }

    /// The device does not work for now.
    pub fn down(&self, device: DeviceId) {
        self.stand(device, Standing::Down);
    }

    /// The device may not work again; no picture waits for it. Should it work after all, [`SlotPool::up`] says so.
    pub fn retire(&self, device: DeviceId) {
        self.stand(device, Standing::Retired);
    }

    /// How the slots of each device are used, in the order in which the devices joined.
    pub fn slots(&self) -> Vec<SlotUse> {
        let state = self.lock();
        let count = |(device, member): (DeviceId, &Member)| {
            let free = state.free.iter().filter(|buffer| buffer.device == device).count();
            SlotUse { all: member.slots, taken: member.slots.saturating_sub(free) }
        };
        state.members.iter().enumerate().map(count).collect()
    }

    /// Bytes that slots and workspaces have, taken or free, with what their takers use aside; and how many there may be.
    pub fn memory(&self) -> (u64, u64) {
        let state = self.lock();
        (state.memory - state.memory_left, state.memory)
    }

    fn stand(&self, device: DeviceId, standing: Standing) {
        self.change(|state| state.members[device].standing = standing);
    }

    /// Waits for a slot with room for `bytes` bytes on a device that `claim` admits, and for `aside` bytes more that its
    /// taker uses elsewhere until [`Slot::keep_aside`]. Takers are served in order, so a large picture is not
    /// overtaken for ever by small ones.
    ///
    /// # Errors
    /// [`SlotError`].
    pub fn take(self: &Arc<Self>, bytes: u64, aside: u64, claim: &Claim) -> Result<Slot, SlotError> {
        let needed = bytes.max(1);
        let total = needed.saturating_add(aside);
        let buffer = self
            .in_turn(total, |state| state.try_take(needed, aside, &state.admitted_now(claim), Fit::Loose))?;
        Ok(Slot { buffer: Some(buffer), lead: 0, aside, pool: Arc::clone(self) })
    }

    /// Waits for this taker's turn and then until it gets what it wants, `total` bytes in all.
    fn in_turn<T>(
        &self,
        total: u64,
        mut take: impl FnMut(&mut State) -> Option<io::Result<T>>,
    ) -> Result<T, SlotError> {
        let mut state = self.lock();
        if total > state.memory {
            return Err(SlotError::LargerThanMemory { needed: total, allowed: state.memory });
        }
        let refused = |source| SlotError::System { needed: total, source };
        if state.takers.is_empty()
            && let Some(taken) = take(&mut state)
        {
            return taken.map_err(refused);
        }
        let turn = Arc::new(Condvar::new());
        state.takers.push_back(Arc::clone(&turn));
        let taken = loop {
            state = turn.wait(state).unwrap_or_else(PoisonError::into_inner);
            if state.takers.front().is_some_and(|first| Arc::ptr_eq(first, &turn))
                && let Some(taken) = take(&mut state)
            {
                break taken;
            }
        };
        state.takers.pop_front();
        wake_first(state);
        taken.map_err(refused)
    }

    /// Changes the state, and has the first of those who wait look again.
    fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let mut state = self.lock();
        let value = change(&mut state);
        wake_first(state);
        value
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Unlocks the state first: who wakes needs it.
fn wake_first(state: MutexGuard<'_, State>) {
    let first = state.takers.front().cloned();
    drop(state);
    if let Some(first) = first {
        first.notify_one();
    }
}

impl State {
    /// A slot if one can be had now: of those that came back last, whose pages are still warm, the first that is large
    /// enough, else the first, grown.
    fn try_take(
        &mut self,
        needed: u64,
        aside: u64,
        admitted: &[bool],
        fit: Fit,
    ) -> Option<io::Result<Buffer>> {
        let suits = |bytes: u64| bytes == needed || (bytes > needed && fit == Fit::Loose);
        let is_small = needed <= SMALL;
        let admits = |slot: &Buffer| !slot.compressed && (is_small || !slot.small) && admitted[slot.device];
        let fits = |slot: &Buffer| admits(slot) && suits(slot.capacity());
        let taken = if let Some(at) = self.free.iter().rposition(fits)
            && self.make_room(at, self.free[at].capacity() + aside)
        {
            Ok(self.free.remove(at))
        } else {
            let at = self.free.iter().rposition(admits).filter(|&at| self.make_file(at))?;
            let rounded = (needed + needed / 8).next_multiple_of(self.step(at, needed));
            self.largest = self.largest.max(rounded);
            let fair = if self.free[at].small { rounded } else { self.fair_share() };
            let sizes = [fair, rounded, needed];
            let mut sizes = sizes.into_iter().filter(|&bytes| suits(bytes));
            let bytes = sizes.find(|bytes| self.make_room(at, bytes + aside))?;
            self.grow(at, bytes)
        };
        if taken.is_ok() {
            self.memory_left -= aside;
        }
        Some(taken)
    }

    /// Whether the CPU is to wait for an accelerator that is not up yet.
    fn accelerators_may_come(&self) -> bool {
        let may_come = |m: &Member| m.is_accelerator_of_pixels() && m.standing == Standing::Down;
        self.wait_for_accelerators && self.members.iter().any(may_come)
    }

    /// By device: whether its slots may be taken for this claim.
    fn admitted(&self, claim: &Claim) -> Vec<bool> {
        let usable = |device: DeviceId, member: &Member| {
            member.is_accelerator_of_pixels()
                && member.standing == Standing::Up
                && claim.failed_on.len() < 2
                && !claim.failed_on.contains(&device)
        };
        let accelerators: Vec<bool> = self.members.iter().enumerate().map(|(i, m)| usable(i, m)).collect();
        let any_up = accelerators.contains(&true);
        let cpu = !any_up && (!claim.failed_on.is_empty() || !self.accelerators_may_come());
        self.members
            .iter()
            .zip(accelerators)
            .map(|(member, usable)| usable || (!member.accelerator && cpu))
            .collect()
    }
}

#[cfg(test)]
mod tests;
