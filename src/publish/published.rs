//! Facts about outputs that have appeared.

use std::iter;

/// An output that has appeared.
#[derive(Clone, Copy, Debug, Default)]
pub struct Published {
    /// Its length.
    pub bytes: u64,
    /// Whether it replaced an output with other settings that appeared during this run.
    pub replaces_another: bool,
}

impl Published {
    pub(super) fn new(bytes: u64) -> Self {
        Self { bytes, replaces_another: false }
    }
}

/// Several outputs as one.
impl iter::Sum for Published {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::default(), |sum, one| Self {
            bytes: sum.bytes + one.bytes,
            replaces_another: sum.replaces_another || one.replaces_another,
        })
    }
}
