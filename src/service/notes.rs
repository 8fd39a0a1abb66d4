//! How pictures ended, on the way to the ledger. What cannot be written is kept until it can: until then nothing new is begun, so there is
//! no more of it than pictures that were in progress.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::Watching;
use crate::ledger::{Ledger, LedgerError, Outcome};

/// How a picture ended.
#[derive(Clone, Debug)]
pub(super) enum End {
    Done {
        device: String,
        pixels: u64,
        bytes_out: u64,
    },
    Skipped,
    Failed {
        reason: String,
    },
    GivenUp {
        reason: String,
    },
    Retried {
        reason: String,
        pause: Duration,
    },
    /// In a way that says nothing about it.
    Forgotten,
}

impl End {
    fn write(&self, ledger: &Ledger, input: &Path) -> Result<(), LedgerError> {
        match self {
            Self::Done { device, pixels, bytes_out } => {
                ledger.done(input, &Outcome { device, pixels: *pixels, bytes_out: *bytes_out })
            }
            Self::Skipped => ledger.skipped(input),
            Self::Failed { reason } => ledger.failed(input, reason, true),
            Self::GivenUp { reason } => ledger.give_up(input, reason),
            Self::Retried { reason, pause } => ledger.retried(input, reason, *pause),
            Self::Forgotten => ledger.forget(input),
        }
    }
}

/// The notes that are still to be written, the oldest first.
#[derive(Default)]
pub(super) struct Unwritten(VecDeque<(PathBuf, End)>);

impl Watching<'_> {
    /// Writes to the ledger how a picture ended, at once or as soon as that can be done.
    pub(super) fn note(&mut self, input: &Path, end: End) {
        let is_first = self.unwritten.0.is_empty();
        self.unwritten.0.push_back((input.to_owned(), end));
        if is_first && let Err(why) = self.write_notes() {
            self.ledger_failed(why);
        }
    }

    /// Writes the notes that could not be written so far.
    pub(super) fn write_notes(&mut self) -> Result<(), LedgerError> {
        while let Some((input, end)) = self.unwritten.0.front() {
            match end.write(self.output_access.ledger(), input) {
                Err(why) if why.may_pass() => return Err(why),
                // Another try would fail the same way: this picture is done again after a restart.
                written => {
                    self.unwritten.0.pop_front();
                    written?;
                }
            }
        }
        Ok(())
    }
}
