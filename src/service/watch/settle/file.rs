//! One file that is not done yet: its phase, and its known state.

use std::time::Instant;

use super::{LONGEST_OPEN, Seen};
use crate::fs::stamp::Stamp;
use crate::service::watch::writer::Writer;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    Open,
    Resting,
    Ready,
    Running(Meanwhile),
    Pausing,
}

/// Changes of a file while its job was running.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Meanwhile {
    Nothing,
    /// A writer has it open.
    Open,
    /// A writer closed it, or another file was moved over it.
    Complete,
    /// It was found changed, or went away.
    Other,
}

#[derive(Debug)]
pub(super) struct File {
    pub(super) phase: Phase,
    /// As last seen; `None` before that.
    pub(super) stamp: Option<Stamp>,
    /// When the stamp last changed, or a writer was last noticed.
    pub(super) since: Instant,
    /// Whether the file is known to be complete, and not only likely to be.
    pub(super) certain: bool,
    /// Whether a writer was noticed, without a sign since that it closed the file.
    pub(super) open: bool,
    pub(super) attempts: u32,
    /// The time when it has to be examined; mirrored in `Settle::due`.
    pub(super) due: Option<Instant>,
}

impl File {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            phase: Phase::Resting,
            stamp: None,
            since: now,
            certain: false,
            open: false,
            attempts: 0,
            due: None,
        }
    }

    pub(super) fn hear_of(&mut self, writer: Writer) {
        match writer {
            Writer::Absent => self.open = false,
            Writer::Present => self.open = true,
            Writer::Unknown => {}
        }
    }

    /// Returns whether to wait for a writer that has it open: not forever, if it does not write.
    pub(super) fn is_written(&self, seen: Seen, now: Instant) -> bool {
        let is_silent = seen.older_than(LONGEST_OPEN)
            || self.stamp == Some(seen.stamp) && now >= self.since + LONGEST_OPEN;
        seen.writer == Writer::Present && !is_silent
    }

    /// Records the stamp; if it differs, knowledge of the old content is dropped.
    pub(super) fn renew(&mut self, stamp: Stamp, now: Instant) {
        if self.stamp != Some(stamp) {
            self.stamp = Some(stamp);
            self.since = now;
            self.attempts = 0;
        }
    }
}
