//! Holds all pictures back while outputs cannot be written, instead of letting each one find out.

use std::time::{Duration, Instant};

use tracing::info;

use crate::device::backoff::Backoff;

const BACKOFF: Backoff = Backoff { first: Duration::from_secs(1), longest: Duration::from_secs(30) };

/// A gate for new pictures: open, or closed for a pause, after which one picture is let through to
/// try.
#[derive(Debug, Default)]
pub(crate) struct Gate {
    closed: Option<Closed>,
    /// The number of times that a written picture has opened it.
    openings: u64,
}

#[derive(Debug)]
struct Closed {
    why: String,
    /// The number of tries that have failed in a row, including the first failure.
    failures: u32,
    until: Instant,
    trying: bool,
}

impl Gate {
    /// Closes the gate: a picture could not be written for a cause that concerns all of them.
    pub(crate) fn close(&mut self, why: String, now: Instant) {
        // Pictures in progress when it was closed fail the same way; only a failed try lengthens
        // the pause.
        let failures = match &self.closed {
            Some(closed) if closed.trying => closed.failures.saturating_add(1),
            Some(closed) => closed.failures,
            None => 1,
        };
        let until = now + BACKOFF.after(failures);
        self.closed = Some(Closed { why, failures, until, trying: false });
    }

    /// Opens the gate: a picture was written.
    pub(crate) fn open(&mut self) {
        if self.closed.take().is_some() {
            self.openings += 1;
            info!("outputs can be written again");
        }
    }

    /// Returns the number of times that a written picture has opened it.
    pub(crate) fn openings(&self) -> u64 {
        self.openings
    }

    /// Opens the gate without a written picture: no picture is waiting to try, or outputs go
    /// elsewhere now.
    pub(crate) fn release(&mut self) {
        self.closed = None;
    }

    /// Allows another try: the end of the picture that was let through gave no information about
    /// the output.
    pub(crate) fn allow_another_try(&mut self) {
        if let Some(closed) = &mut self.closed {
            closed.trying = false;
        }
    }

    /// Returns whether a picture may be begun now. The first one after a pause is the one that
    /// tries.
    pub(crate) fn may_start(&mut self, now: Instant) -> bool {
        match &mut self.closed {
            None => true,
            Some(closed) if closed.trying || now < closed.until => false,
            Some(closed) => {
                closed.trying = true;
                true
            }
        }
    }

    /// Returns the time until a picture may be begun.
    pub(crate) fn left(&self, now: Instant) -> Duration {
        self.closed.as_ref().map_or(Duration::ZERO, |closed| closed.until.saturating_duration_since(now))
    }

    /// Returns why no pictures are begun, if the gate is closed.
    pub(crate) fn why(&self) -> Option<&str> {
        self.closed.as_ref().map(|closed| closed.why.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_picture_tries_after_growing_pauses() {
        let mut gate = Gate::default();
        let mut now = Instant::now();
        assert!(gate.may_start(now) && gate.may_start(now));
        gate.close("full".into(), now);
        gate.close("full".into(), now);
        for pause in [1, 2, 4, 8, 16, 30, 30] {
            assert!(!gate.may_start(now + Duration::from_millis(pause * 1000 - 1)));
            now += Duration::from_secs(pause);
            assert!(gate.may_start(now));
            assert!(!gate.may_start(now), "one at a time");
            gate.close("full".into(), now);
        }
        assert_eq!(gate.why(), Some("full"));
        gate.open();
        gate.open();
        assert_eq!(gate.openings(), 1);
        assert!(gate.may_start(now));
    }

    #[test]
    fn a_try_that_says_nothing_makes_room_for_another() {
        let mut gate = Gate::default();
        let now = Instant::now();
        gate.close("full".into(), now);
        assert!(gate.may_start(now + BACKOFF.first));
        gate.allow_another_try();
        assert!(gate.may_start(now + BACKOFF.first));
    }
}
