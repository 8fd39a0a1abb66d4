//! What a device does for a thread that waits for it.

use std::path::{Path, PathBuf};

use crossbeam_channel::{Receiver, Sender, bounded};

use crate::slot::Slot;
use crate::slot::device_state::Offloaded;
use codec::{Codestream, StreamWork, Streams};

/// Something in a slot, on its way through a device that puts what it makes of it in its place. Dropped, it is left to whoever waits.
pub struct OffloadTask {
    /// The slot.
    pub slot: Slot,
    /// What is at its start.
    pub offload: Offload,
    input: PathBuf,
    answer: Sender<Answer>,
}

/// What a device does for the CPU with the start of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum Offload {
    /// Decodes a codestream.
    Codestream(Codestream),
    /// Inflates or deflates streams.
    Streams(Streams),
}

impl Offload {
    /// Returns the bytes of slot that it takes.
    pub const fn slot_bytes(&self) -> u64 {
        match self {
            Self::Codestream(codestream) => codestream.slot_bytes(),
            Self::Streams(streams) => streams.bytes,
        }
    }
}

impl Offloaded {
    /// Adds what was done.
    pub(crate) fn add(&mut self, offload: &Offload) {
        *match offload {
            Offload::Codestream(_) => &mut self.codestreams,
            Offload::Streams(Streams { work: StreamWork::Inflate, .. }) => &mut self.inflated,
            Offload::Streams(Streams { work: StreamWork::Deflate, .. }) => &mut self.deflated,
        } += 1;
    }
}

/// What became of it. There is no answer if the device failed.
pub(crate) enum Answer {
    /// The slot has what was made.
    Done(Slot),
    /// The device does not do it.
    Declined,
}

impl OffloadTask {
    /// Creates the task for a part of this input; returns where the answer comes.
    pub(crate) fn new(slot: Slot, offload: Offload, input: &Path) -> (Self, Receiver<Answer>) {
        let (answer, waiting) = bounded(1);
        (Self { slot, offload, input: input.to_owned(), answer }, waiting)
    }

    /// Returns the path of the picture's input.
    pub fn input(&self) -> &Path {
        &self.input
    }

    /// Passes on what was made.
    pub(crate) fn pass_on(self) {
        // Whoever waits is only gone if it panicked; that panic then ends the run.
        let _ = self.answer.send(Answer::Done(self.slot));
    }

    /// Leaves it to others.
    pub(crate) fn decline(self) {
        let Self { slot, answer, .. } = self;
        drop(slot);
        // As above.
        let _ = answer.send(Answer::Declined);
    }
}
