//! Fetches of objects before they are opened, in the order in which they are going to be.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::AT_ONCE;

/// An object that can be fetched before it is opened.
pub(crate) trait Upcoming: Send + Sync {
    /// Starts to fetch it, with a place among those that were begun, if there is room.
    ///
    /// Returns whether it is dealt with.
    fn come(&self, place: &mut dyn FnMut() -> Place) -> bool;
}

/// The objects that are going to be opened.
#[derive(Default)]
pub(crate) struct Ahead {
    upcoming: Mutex<VecDeque<Arc<dyn Upcoming>>>,
    /// The number of objects that were begun and not opened yet.
    begun: Arc<AtomicUsize>,
}

/// The place of an object among those that were begun, until this is dropped.
pub(crate) struct Place(Arc<AtomicUsize>);

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Ahead {
    pub(crate) fn announce(&self, objects: impl IntoIterator<Item = Arc<dyn Upcoming>>) {
        self.upcoming.lock().unwrap_or_else(PoisonError::into_inner).extend(objects);
        self.go_on();
    }

    /// Begins as many more as there is room for.
    pub(crate) fn go_on(&self) {
        let mut upcoming = self.upcoming.lock().unwrap_or_else(PoisonError::into_inner);
        while self.begun.load(Ordering::Relaxed) < AT_ONCE
            && let Some(next) = upcoming.front()
            && next.come(&mut || self.place())
        {
            upcoming.pop_front();
        }
    }

    fn place(&self) -> Place {
        self.begun.fetch_add(1, Ordering::Relaxed);
        Place(Arc::clone(&self.begun))
    }
}
