//! What becomes of a run whose devices cannot be used.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::error::Error;
use crate::pipeline::Stop;

/// Whether the run is to fail where a device cannot be used, and the reason once one could not.
#[derive(Clone, Default)]
pub struct Insist(Arc<Mutex<Insistence>>);

#[derive(Default)]
struct Insistence {
    on: bool,
    stop: Stop,
    broken: Option<String>,
}

impl Insist {
    /// By default a device that cannot be used is only noted; `stop` is asked once the user insists.
    pub fn new(stop: Stop) -> Self {
        Self(Arc::new(Mutex::new(Insistence { stop, ..Insistence::default() })))
    }

    fn lock(&self) -> MutexGuard<'_, Insistence> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The user insists.
    pub(super) fn on(&self) {
        self.lock().on = true;
    }

    /// Whether the user insists.
    pub(super) fn is_on(&self) -> bool {
        self.lock().on
    }

    /// A device cannot be used.
    pub(super) fn refused(&self, reason: &str) {
        let mut insistence = self.lock();
        if insistence.on {
            insistence.stop.abort();
            insistence.broken.get_or_insert_with(|| reason.to_owned());
        }
    }

    /// Why the run was ended, if it was.
    pub fn broken(&self) -> Option<Error> {
        self.lock().broken.clone().map(Error::CannotRun)
    }
}
