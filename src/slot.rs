//! Slots: all large memory is a slot, or is counted by their pool. A slot is a reusable buffer for
//! one picture in the pipeline; the pool is both the memory bound and the back-pressure.
//!
//! A worker's slots are sealed memfds: it can map the same pages and pin them. The CPU's slots are
//! private memory. Both get huge pages where the system has some.

mod budget;
mod compressed;
pub mod device_state;
mod heaps;
mod held;
mod members;
mod memory;
pub mod occupancy;
mod offload;
mod parked;
pub mod rates;
pub mod schedule;
mod split;
mod start;
mod workspace;

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use std::{io, mem};

use crate::fs::files;
use crate::slot::schedule::starts::Workers;
use crate::slot::schedule::{DeviceId, Request, Schedule};

pub use compressed::{Needs, Room};
pub use heaps::{limit_heap_retention, share_heap_in_limited_space};
pub(crate) use held::Spare;
use held::Taker;
pub use held::{Held, most_at_once};
use members::Member;
pub use members::Release;
pub use memory::Memory;
use occupancy::Occupancy;
use parked::Parked;
pub use parked::{ParkedId, Unparked};
pub use split::Slots;
use start::Arrivals;
pub use start::Start;
pub use workspace::Workspace;

/// The number of a slot among those of its device.
pub type SlotId = u32;

/// The use of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Decoded pictures of any size.
    Pixels,
    /// Decoded pictures of at most `SMALL` bytes, which take next to no memory. Handing one on
    /// costs as much as processing it: it pays to have many under way.
    Small,
    /// Compressed pictures.
    Compressed,
    /// Codestreams that a device decodes for the CPU, and their samples.
    Codestream,
    /// Streams that a device inflates or deflates for the CPU, and their data.
    Streams,
}

impl Kind {
    /// The number of kinds.
    const NUMBER: usize = 5;
}

/// A slot as the pool keeps it.
struct Buffer {
    device: DeviceId,
    id: SlotId,
    kind: Kind,
    memory: Option<Memory>,
    /// Whether its memory is new and being filled, if it is for compressed pictures.
    is_fresh: bool,
}

impl Buffer {
    fn capacity(&self) -> u64 {
        self.memory.as_ref().map_or(0, |memory| memory.bytes().len() as u64)
    }
}

/// One reusable buffer, whose bytes the holder owns; when dropped, it goes back to its pool.
pub struct Slot {
    buffer: Option<Buffer>,
    /// Bytes to skip at the front of its memory.
    lead: usize,
    aside: u64,
    pool: Arc<SlotPool>,
}

impl Slot {
    fn buffer(&self) -> &Buffer {
        self.buffer.as_ref().expect("only drop takes the buffer")
    }

    /// Returns the device that the slot belongs to.
    pub fn device(&self) -> DeviceId {
        self.buffer().device
    }

    /// Returns the slot's number among its device's slots.
    pub fn id(&self) -> SlotId {
        self.buffer().id
    }

    /// Returns the memory of the slot.
    pub fn memory(&self) -> &Memory {
        self.buffer().memory.as_ref().expect("a taken slot has memory")
    }

    /// Returns the bytes, at least as many as were requested.
    pub fn bytes(&self) -> &[u8] {
        &self.memory().bytes()[self.lead..]
    }

    /// Returns the bytes for writing.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        let memory = self.buffer.as_mut().and_then(|buffer| buffer.memory.as_mut());
        &mut memory.expect("a taken slot has memory").bytes_mut()[self.lead..]
    }

    /// Makes the bytes begin `lead` bytes later, which leaves as many fewer. Shared memory stays
    /// unchanged, because a worker expects the bytes at its front.
    pub fn begin_at(&mut self, lead: usize) {
        self.lead = if self.memory().is_private() { lead } else { 0 };
    }

    /// Records that the slot is filled.
    pub fn note_filled(&mut self) {
        let Some(buffer) = self.buffer.as_mut().filter(|buffer| buffer.is_fresh) else { return };
        self.pool.change(|state| state.note_filled(buffer));
    }

    /// Keeps at most `bytes` of the bytes that were taken aside, and releases the rest.
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
        let (released, buffer) = (mem::take(&mut self.aside), self.buffer.take());
        self.pool.change(|state| {
            state.memory_left += released;
            buffer.into_iter().for_each(|buffer| state.put_back(buffer));
            state.last_use = Instant::now();
        });
    }
}

/// Why there is no slot for a picture.
#[derive(Debug, thiserror::Error)]
pub enum SlotError {
    /// The picture needs more than the whole memory bound.
    #[error(
        "the picture needs {needed} bytes of memory, but --memory allows {allowed}; raise --memory to {needed}"
    )]
    LargerThanMemory {
        /// Bytes that the picture needs.
        needed: u64,
        /// Bytes that `--memory` allows.
        allowed: u64,
    },
    /// It has to give up its memory for a picture that waits first; then it may try again.
    #[error("others need the memory that the picture holds")]
    GivenUp,
    /// The system provided no memory.
    #[error(
        "cannot allocate {needed} bytes for the picture: {source}; {}",
        files::remedy(source).unwrap_or("lower --memory or --threads")
    )]
    System {
        /// Bytes that the picture needs.
        needed: u64,
        /// The error of the operating system.
        source: io::Error,
    },
}

/// The number of a device's slots, and of those that hold pictures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotUse {
    /// All slots of the device.
    pub all: usize,
    /// The slots that are taken.
    pub taken: usize,
}

/// The allowed size of a slot, compared to the request.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fit {
    /// At least as large; one that has to grow gets room to spare.
    Loose,
    /// Exactly as large.
    Tight,
}

struct PoolState {
    memory: u64,
    memory_left: u64,
    arrivals: Arrivals,
    wanted: Workers,
    largest: u64,
    free: Vec<Buffer>,
    /// How many more slots may get memory that workers map, each of which takes an open file.
    files_left: u64,
    /// The free workspaces.
    workspaces: Vec<Memory>,
    /// The free buffers of files.
    buffers: Vec<Vec<u8>>,
    /// Data in memory of pictures that wait for others.
    parked: BTreeMap<ParkedId, Parked>,
    last_parked: ParkedId,
    members: Vec<Member>,
    wait_for_workers: bool,
    /// The waiting threads, in the order of their turns.
    takers: VecDeque<Taker>,
    /// Whether more devices may join.
    awaits_devices: bool,
    /// Whether workers rest, because there is no work for them.
    rests: bool,
    /// The last time that a slot was taken or given back.
    last_use: Instant,
    /// Whether others give up memory for the first of them.
    first_lacks: bool,
    /// Whether the last attempt to take a slot or memory failed for lack of memory.
    lacks_memory: bool,
    /// The time that the first waiting thread lacked memory.
    without_memory: Occupancy,
}

/// The free slots of all devices, within one bound on memory.
pub struct SlotPool {
    state: Mutex<PoolState>,
    /// Signalled when [`SlotPool::wait_for`] may succeed, and by [`SlotPool::look_again`].
    changed: Condvar,
    /// See [`SlotPool::begin_again`].
    again: Mutex<()>,
}

/// The step in which slots grow, in bytes: slots stop growing after a first few similar pictures.
const STEP: u64 = 256 * 1024;
/// The most bytes of a small picture: a slot of one step has room for it.
const SMALL: u64 = 192 * 1024;
/// The step for slots of the CPU above a quarter of this, and of workers above four times this:
/// memory of a multiple of this size gets huge pages, and keeps them when it grows.
const HUGE_STEP: u64 = 2 * 1024 * 1024;

impl SlotPool {
    /// Creates a pool that never holds more than `memory` bytes.
    pub fn new(memory: u64) -> Self {
        let state = PoolState {
            memory,
            memory_left: memory,
            arrivals: Arrivals::default(),
            wanted: Workers::default(),
            largest: 0,
            free: Vec::new(),
            files_left: u64::MAX,
            workspaces: Vec::new(),
            buffers: Vec::new(),
            parked: BTreeMap::new(),
            last_parked: 0,
            members: Vec::new(),
            wait_for_workers: false,
            takers: VecDeque::new(),
            awaits_devices: true,
            rests: false,
            last_use: Instant::now(),
            first_lacks: false,
            lacks_memory: false,
            without_memory: Occupancy::default(),
        };
        Self { state: Mutex::new(state), changed: Condvar::new(), again: Mutex::new(()) }
    }

    /// Returns the use of each device's slots, in the order in which the devices joined.
    pub fn slots(&self) -> Vec<SlotUse> {
        let state = self.lock();
        let count = |(device, member): (DeviceId, &Member)| {
            let free = state.free.iter().filter(|buffer| buffer.device == device).count();
            SlotUse { all: member.slots(), taken: member.slots().saturating_sub(free) }
        };
        state.members.iter().enumerate().map(count).collect()
    }

    /// Returns the bytes of slots, workspaces, buffers (taken or free) and pictures, and the bound.
    pub fn memory(&self) -> (u64, u64) {
        let state = self.lock();
        (state.memory - state.memory_left, state.memory)
    }

    /// Returns how long pictures in their turn waited for memory so far.
    pub fn waited_for_memory(&self) -> Duration {
        self.lock().without_memory.total()
    }

    /// Waits for a slot with room for `bytes` bytes on a device for this request, and for `aside`
    /// more bytes that its taker uses elsewhere until [`Slot::keep_aside`], while it still holds
    /// `held` bytes. Takers are served in order: small pictures cannot always overtake a large one.
    ///
    /// # Errors
    /// [`SlotError`].
    pub fn take<'a>(
        self: &Arc<Self>,
        bytes: u64,
        aside: u64,
        held: u64,
        request: impl Into<Request<'a>>,
    ) -> Result<Slot, SlotError> {
        let request = request.into();
        self.note_arrival(|arrivals| &mut arrivals.pixels);
        let needed = bytes.max(1);
        let total = needed.saturating_add(aside);
        let buffer = self.in_turn(total, held, |state| {
            state.try_take(needed, aside, &state.schedule().admitted_now(request), Fit::Loose)
        })?;
        self.slot(buffer, aside)
    }

    /// Returns a taken buffer as a slot that gives itself back. Takes its pages without a lock.
    fn slot(self: &Arc<Self>, mut buffer: Buffer, aside: u64) -> Result<Slot, SlotError> {
        if let Some(Err(source)) = buffer.memory.as_mut().map(Memory::take_pages) {
            let needed = buffer.capacity();
            self.change(|state| {
                state.memory_left += aside;
                state.put_back(buffer);
                state.give_up(state.free.len() - 1);
            });
            return Err(SlotError::System { needed, source });
        }
        Ok(Slot { buffer: Some(buffer), lead: 0, aside, pool: Arc::clone(self) })
    }

    /// Checks that a picture that needs this many bytes in all is within the bound on memory.
    ///
    /// # Errors
    /// [`SlotError::LargerThanMemory`].
    pub fn admits(&self, needed: u64) -> Result<(), SlotError> {
        let (_, allowed) = self.memory();
        if needed > allowed { Err(SlotError::LargerThanMemory { needed, allowed }) } else { Ok(()) }
    }

    /// Waits for this taker's turn, then until `take` succeeds; needs `total` bytes beyond `held`.
    fn in_turn<T>(
        &self,
        total: u64,
        held: u64,
        mut take: impl FnMut(&mut PoolState) -> Option<io::Result<T>>,
    ) -> Result<T, SlotError> {
        self.admits(total.saturating_add(held))?;
        let mut state = self.lock();
        state.last_use = Instant::now();
        if mem::take(&mut state.rests) {
            self.changed.notify_all();
        }
        let refused = |source| SlotError::System { needed: total, source };
        if state.takers.is_empty()
            && let Some(taken) = state.attempt(&mut take)
        {
            return taken.map_err(refused);
        }
        let turn = Arc::new(Condvar::new());
        state.takers.push_back(Taker { turn: Arc::clone(&turn), held, gives_up: false });
        if held > 0
            && let Some(first) = state.takers.front()
        {
            // It may be all that the first waits for.
            first.turn.notify_one();
        }
        let taken = loop {
            state = turn.wait(state).unwrap_or_else(PoisonError::into_inner);
            let is_own = |taker: &Taker| Arc::ptr_eq(&taker.turn, &turn);
            if state.takers.front().is_some_and(is_own) {
                if let Some(taken) = state.attempt(&mut take) {
                    break taken;
                }
                state.let_first_pass(total);
            } else if state.takers.iter().any(|taker| is_own(taker) && taker.gives_up) {
                state.takers.retain(|taker| !is_own(taker));
                return Err(SlotError::GivenUp);
            }
        };
        state.takers.pop_front();
        state.first_lacks = false;
        wake_first(state);
        taken.map_err(refused)
    }

    /// Changes the state, and wakes the first waiting taker to try again.
    fn change<T>(&self, change: impl FnOnce(&mut PoolState) -> T) -> T {
        let mut state = self.lock();
        let value = change(&mut state);
        wake_first(state);
        value
    }

    fn lock(&self) -> MutexGuard<'_, PoolState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Wakes the first waiting taker, after unlocking the state, which the taker needs.
fn wake_first(state: MutexGuard<'_, PoolState>) {
    let first = state.takers.front().map(|taker| Arc::clone(&taker.turn));
    drop(state);
    if let Some(first) = first {
        first.notify_one();
    }
}

impl PoolState {
    /// Calls `take` for the first taker, and records whether it waits for memory.
    fn attempt<T>(&mut self, take: &mut impl FnMut(&mut Self) -> Option<T>) -> Option<T> {
        self.lacks_memory = false;
        let taken = take(self);
        let lacks = taken.is_none() && self.lacks_memory;
        self.without_memory.set(lacks);
        taken
    }

    /// Takes a slot if one is available now: the last that came back and is large enough, as its
    /// pages are still warm; otherwise the last that came back, grown.
    fn try_take(
        &mut self,
        needed: u64,
        aside: u64,
        admitted: &[bool],
        fit: Fit,
    ) -> Option<io::Result<Buffer>> {
        let suits = |bytes: u64| bytes == needed || (bytes > needed && fit == Fit::Loose);
        let admits = |slot: &Buffer| {
            let of_kind = slot.kind == Kind::Pixels || (slot.kind == Kind::Small && needed <= SMALL);
            of_kind && admitted[slot.device]
        };
        let fitting = self.free.iter().rposition(|slot| admits(slot) && suits(slot.capacity()));
        let taken = if let Some(at) = fitting
            && self.make_room(Some(at), self.free[at].capacity() + aside)
        {
            Ok(self.free.remove(at))
        } else {
            let at = self.free.iter().rposition(admits).filter(|&at| self.make_file(at))?;
            let rounded = (needed + needed / 8).next_multiple_of(self.step(at, needed));
            self.largest = self.largest.max(rounded);
            let fair = if self.free[at].kind == Kind::Small { rounded } else { self.fair_share() };
            let sizes = [fair, rounded, needed];
            let mut sizes = sizes.into_iter().filter(|&bytes| suits(bytes));
            let bytes = sizes.find(|bytes| self.make_room(Some(at), bytes + aside))?;
            self.grow(at, bytes)
        };
        if taken.is_ok() {
            self.memory_left -= aside;
        }
        Some(taken)
    }

    /// Returns the activity of the devices.
    fn schedule(&self) -> Schedule {
        let of_member = |member: &Member| schedule::Device {
            is_worker: member.is_worker,
            standing: member.standing,
            takes_pixels: member.slots[Kind::Pixels as usize] > 0,
            decodes: member.slots[Kind::Compressed as usize] > 0,
            decodes_codestreams: member.slots[Kind::Codestream as usize] > 0,
            free_codestream: 0,
            free_streams: 0,
            free_compressed: 0,
            fresh_compressed: 0,
            filling: member.filling,
            slots: member.slots[Kind::Pixels as usize],
            lent: member.lent,
        };
        let mut devices: Vec<_> = self.members.iter().map(of_member).collect();
        for buffer in &self.free {
            let device = &mut devices[buffer.device];
            match (buffer.kind, &buffer.memory) {
                (Kind::Compressed, Some(_)) => device.free_compressed += 1,
                (Kind::Compressed, None) => device.fresh_compressed += 1,
                (Kind::Codestream, _) => device.free_codestream += 1,
                (Kind::Streams, _) => device.free_streams += 1,
                (Kind::Pixels | Kind::Small, _) => {}
            }
        }
        Schedule { devices, wait_for_workers: self.wait_for_workers }
    }
}

#[cfg(test)]
mod tests;
