//! What becomes of a run if a device cannot be used.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::error::Error;
use crate::stop::Stop;

/// Whether the run must fail if a device cannot be used, and the reason once that has happened.
#[derive(Clone, Default)]
pub struct Insist(Arc<Mutex<Insistence>>);

#[derive(Default)]
struct Insistence {
    on: bool,
    stop: Stop,
    broken: Option<String>,
}

impl Insist {
    /// Begins without insisting: a device that cannot be used is only noted. Once the user insists, such a device stops the run by `stop`.
    pub fn new(stop: Stop) -> Self {
        Self(Arc::new(Mutex::new(Insistence { stop, ..Insistence::default() })))
    }

    fn lock(&self) -> MutexGuard<'_, Insistence> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes the run insist on its devices.
    pub(super) fn on(&self) {
        self.lock().on = true;
    }

    /// Returns whether the run insists on its devices.
    pub(super) fn is_on(&self) -> bool {
        self.lock().on
    }

    /// Reports that a device cannot be used.
    pub(super) fn refused(&self, reason: &str) {
        let mut insistence = self.lock();
        if insistence.on {
            insistence.stop.abort();
            insistence.broken.get_or_insert_with(|| reason.to_owned());
        }
    }

    /// Returns why the run was ended, if it was.
    pub fn broken(&self) -> Option<Error> {
        self.lock().broken.clone().map(Error::CannotRun)
    }
}
