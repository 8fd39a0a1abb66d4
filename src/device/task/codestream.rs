//! A codestream that a device decodes for a thread that waits for it.

use std::path::{Path, PathBuf};

use crossbeam_channel::{Receiver, Sender, bounded};

use crate::slot::Slot;
use codec::Codestream;

/// A codestream in a slot, on its way through a device that puts its samples in its place. Dropped, it is left to whoever waits.
pub struct CodestreamTask {
    /// The slot.
    pub slot: Slot,
    /// The codestream at its start.
    pub codestream: Codestream,
    input: PathBuf,
    answer: Sender<Answer>,
}

/// What became of a codestream. There is none if the device failed.
pub(crate) enum Answer {
    /// The slot has its samples.
    Decoded(Slot),
    /// The device does not decode it.
    Declined,
}

impl CodestreamTask {
    /// Creates the task for a codestream of this input; returns where the answer comes.
    pub(crate) fn new(slot: Slot, codestream: Codestream, input: &Path) -> (Self, Receiver<Answer>) {
        let (answer, waiting) = bounded(1);
        (Self { slot, codestream, input: input.to_owned(), answer }, waiting)
    }

    /// Returns the path of the picture's input.
    pub fn input(&self) -> &Path {
        &self.input
    }

    /// Passes on the samples.
    pub(crate) fn pass_on(self) {
        // Whoever waits is only gone if it panicked; that panic then ends the run.
        let _ = self.answer.send(Answer::Decoded(self.slot));
    }

    /// Leaves it to others.
    pub(crate) fn decline(self) {
        let Self { slot, answer, .. } = self;
        drop(slot);
        // As above.
        let _ = answer.send(Answer::Declined);
    }
}
