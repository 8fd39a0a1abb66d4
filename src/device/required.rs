//! The devices that a run insists on: it fails if one cannot be used.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::error::Error;
use crate::source::stop::Stop;

/// Whether the run must fail if a device cannot be used, and the reason once it has to.
#[derive(Clone, Default)]
pub(super) struct RequiredDevices(Arc<Mutex<Requirement>>);

#[derive(Default)]
struct Requirement {
    on: bool,
    stop: Stop,
    failure: Option<String>,
}

impl RequiredDevices {
    /// Creates a requirement that is not in force yet: a device that cannot be used is only noted.
    ///
    /// After [`RequiredDevices::demand`], such a device stops the run by `stop`.
    pub(super) fn new(stop: Stop) -> Self {
        Self(Arc::new(Mutex::new(Requirement { stop, ..Requirement::default() })))
    }

    fn lock(&self) -> MutexGuard<'_, Requirement> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes the run insist on its devices.
    pub(super) fn demand(&self) {
        self.lock().on = true;
    }

    /// Returns whether the run insists on its devices.
    pub(super) fn are_demanded(&self) -> bool {
        self.lock().on
    }

    /// Reports that a device cannot be used.
    pub(super) fn unusable(&self, reason: &str) {
        let mut requirement = self.lock();
        if requirement.on {
            requirement.stop.abort();
            requirement.failure.get_or_insert_with(|| reason.to_owned());
        }
    }

    /// Returns the reason why the run was ended, if it was.
    pub(super) fn failure(&self) -> Option<Error> {
        self.lock().failure.clone().map(Error::CannotRun)
    }
}
