//! The parts of a file that takes long.

/// The number of completed parts of a file, and of all its parts, in all passes.
#[derive(Clone, Copy, Debug)]
pub struct CompletedParts {
    /// The number of completed ones.
    pub number: usize,
    /// The number of all.
    pub all: usize,
}

impl CompletedParts {
    /// Returns the completed share of the file.
    pub(crate) fn share(self) -> f64 {
        (self.number as f64 / self.all.max(1) as f64).min(1.0)
    }
}
