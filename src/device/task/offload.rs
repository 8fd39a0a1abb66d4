//! Work of a device for a thread that waits for it.

use std::path::{Path, PathBuf};

use crossbeam_channel::{Receiver, Sender, bounded};

use crate::slot::Slot;
use crate::slot::device_state::Offloaded;
use codec::coders::{Codestream, StreamWork, Streams};

/// A slot on its way through a device, which replaces the content by its result.
///
/// If it is dropped, the work is left to the waiting thread.
pub struct OffloadTask {
    /// The slot.
    pub slot: Slot,
    /// The work, which also describes the content at the start of the slot.
    pub offload: Offload,
    input: PathBuf,
    answer: Sender<Answer>,
}

/// The work of a device for the CPU on the start of a slot.
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
    /// Counts this work.
    pub(crate) fn add(&mut self, offload: &Offload) {
        *match offload {
            Offload::Codestream(_) => &mut self.codestreams,
            Offload::Streams(Streams { work: StreamWork::Inflate, .. }) => &mut self.inflated,
            Offload::Streams(Streams { work: StreamWork::Deflate, .. }) => &mut self.deflated,
        } += 1;
    }
}

/// The answer to a task. There is no answer if the device failed.
pub(crate) enum Answer {
    /// The slot has the result.
    Done(Slot),
    /// The device does not do the work.
    Declined,
}

impl OffloadTask {
    /// Creates the task for a part of this input; returns the receiver of the answer.
    pub(crate) fn new(slot: Slot, offload: Offload, input: &Path) -> (Self, Receiver<Answer>) {
        let (answer, waiting) = bounded(1);
        (Self { slot, offload, input: input.to_owned(), answer }, waiting)
    }

    /// Returns the path of the picture's input.
    pub fn input(&self) -> &Path {
        &self.input
    }

    /// Passes on the result.
    pub(crate) fn pass_on(self) {
        // The waiting thread is only gone if it panicked; that panic then ends the run.
        let _ = self.answer.send(Answer::Done(self.slot));
    }

    /// Leaves the work to others.
    pub(crate) fn decline(self) {
        let Self { slot, answer, .. } = self;
        drop(slot);
        // As above.
        let _ = answer.send(Answer::Declined);
    }
}
