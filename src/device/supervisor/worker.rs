//! A worker process as its supervisor sees it: the socket, and the loans.

use std::collections::{HashMap, HashSet};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::time::{Duration, Instant};

use crossbeam_channel::Receiver;
use rustix::event::{PollFd, PollFlags, Timespec};

use crate::device::task::{Content, OffloadTask, Task};
use crate::device::worker::OFFLOAD_LANES;
use crate::device::worker::protocol::{Channel, ToWorker};
use crate::slot::{Slot, SlotId};

/// A running worker.
pub(super) struct Worker {
    pub(super) channel: Channel,
    pub(super) ready: bool,
    /// Whether it has left no room for a message for as long as sending waits.
    pub(super) deaf: bool,
    /// The generation of the memory that the worker has mapped for each slot.
    pub(super) mapped: HashMap<SlotId, u64>,
    /// The loans to it. Only the worker reads or writes these slots meanwhile.
    pub(super) lent: HashMap<SlotId, Lent>,
    /// The kinds of work left to others that have been reported.
    pub(super) told: HashSet<&'static str>,
}

/// A loan to a worker, and its deadline.
pub(super) struct Lent {
    pub(super) loan: Loan,
    pub(super) deadline: Instant,
}

/// A loan to a worker.
pub(super) enum Loan {
    /// A picture to be equalized, and perhaps decoded or encoded.
    Picture(Task),
    /// Work for a waiting thread.
    Offload(OffloadTask),
}

impl Loan {
    pub(super) fn slot(&self) -> &Slot {
        match self {
            Self::Picture(task) => &task.slot,
            Self::Offload(task) => &task.slot,
        }
    }

    pub(super) fn input(&self) -> &Path {
        match self {
            Self::Picture(task) => task.input(),
            Self::Offload(task) => task.input(),
        }
    }

    /// Returns the number of bytes that decide how long it may take.
    pub(super) fn bytes(&self) -> u64 {
        match self {
            Self::Picture(task) => task.layout.bytes(),
            Self::Offload(task) => task.offload.slot_bytes(),
        }
    }

    /// Returns the message that hands it to the worker.
    fn message(&self) -> ToWorker {
        let slot = self.slot().id();
        let task = match self {
            Self::Picture(task) => task,
            Self::Offload(task) => return ToWorker::Offload { slot, offload: task.offload },
        };
        let (layout, byte_orders, order) = (task.layout, task.byte_orders, task.order);
        match task.content {
            Content::Compressed(jpeg) => ToWorker::Recode { slot, jpeg, order },
            Content::Pixels | Content::Encoded(_) => ToWorker::Work { slot, layout, byte_orders, order },
        }
    }
}

impl Worker {
    pub(super) fn new(channel: Channel) -> Self {
        let (mapped, lent) = (HashMap::new(), HashMap::new());
        Self { channel, ready: false, deaf: false, mapped, lent, told: HashSet::new() }
    }

    /// Returns whether it has more work than its lanes can begin at once.
    ///
    /// `lanes` of them are for pictures.
    pub(super) fn is_full(&self, lanes: usize) -> bool {
        let is_picture = |lent: &&Lent| matches!(lent.loan, Loan::Picture(_));
        let pictures = self.lent.values().filter(is_picture).count();
        pictures > lanes || self.lent.len() - pictures > OFFLOAD_LANES
    }

    pub(super) fn send(&mut self, message: &ToWorker, fd: Option<BorrowedFd<'_>>) -> io::Result<()> {
        if self.deaf {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let sent = self.channel.send(message, fd);
        self.deaf = sent.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock);
        sent
    }

    /// Makes the worker unmap slots that have given up their memory.
    pub(super) fn unmap(&mut self, released: &Receiver<SlotId>) {
        for slot in released.try_iter() {
            if self.mapped.remove(&slot).is_some() {
                // If the worker is gone or about to be, so is its mapping.
                let _ = self.send(&ToWorker::Unmap { slot }, None);
            }
        }
    }

    /// Lends the slot of a loan to the worker.
    ///
    /// # Errors
    /// If the worker cannot be reached; its supervisor is about to find out.
    pub(super) fn offer(&mut self, loan: &Loan) -> io::Result<()> {
        let (slot, memory) = (loan.slot().id(), loan.slot().memory());
        if self.mapped.get(&slot) != Some(&memory.generation) {
            let (bytes, generation) = (memory.bytes().len() as u64, memory.generation);
            self.send(&ToWorker::Map { slot, bytes, generation }, Some(memory.as_fd()))?;
            self.mapped.insert(slot, generation);
        }
        self.send(&loan.message(), None)
    }
}

/// Waits for at most `within` for a message or the end of the channel; returns whether one came.
pub(super) fn readable(channel: &Channel, within: Duration) -> io::Result<bool> {
    let fd = channel.as_fd();
    let mut polled = [PollFd::new(&fd, PollFlags::IN)];
    let timeout = Timespec { tv_sec: within.as_secs() as i64, tv_nsec: i64::from(within.subsec_nanos()) };
    match rustix::event::poll(&mut polled, Some(&timeout)) {
        Ok(ready) => Ok(ready > 0),
        Err(rustix::io::Errno::INTR) => Ok(false),
        Err(error) => Err(error.into()),
    }
}
