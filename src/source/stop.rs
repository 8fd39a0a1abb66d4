//! The request to end a run.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

/// A shared request to end a run early: pictures under way are finished, no new ones are begun.
#[derive(Clone, Debug, Default)]
pub struct Stop(Arc<AtomicU8>);

impl Stop {
    const BY_USER: u8 = 1;
    const ABORTED: u8 = 2;

    /// Requests the stop.
    pub fn ask(&self) {
        self.0.store(Self::BY_USER, Ordering::Relaxed);
    }

    /// Asks because the run cannot go on, unless the user was faster.
    pub fn abort(&self) {
        let _ = self.0.compare_exchange(0, Self::ABORTED, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// Returns whether the stop was requested.
    pub fn asked(&self) -> bool {
        self.0.load(Ordering::Relaxed) != 0
    }

    /// Returns whether the run cannot go on, and the user did not ask.
    pub fn aborted(&self) -> bool {
        self.0.load(Ordering::Relaxed) == Self::ABORTED
    }

    /// Returns whether the user asked.
    pub fn asked_by_user(&self) -> bool {
        self.0.load(Ordering::Relaxed) == Self::BY_USER
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_abort_is_not_the_users_wish_unless_the_user_asks_too() {
        let stop = Stop::default();
        assert!(!stop.asked());
        stop.clone().abort();
        assert!(stop.asked() && !stop.asked_by_user() && stop.aborted());
        stop.ask();
        assert!(stop.asked_by_user() && !stop.aborted());
        stop.abort();
        assert!(stop.asked_by_user(), "the wish stays");
    }
}
