//! Signs that a file is complete or not.

use std::time::Duration;

use super::RESTED_AGE;
use crate::fs::stamp::Stamp;
use crate::service::watch::writer::Writer;

/// A reason to doubt that a file is complete although no writer has it open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Doubt {
    /// No reason.
    None,
    /// Its name is not that of a picture: it may be a temporary one.
    Name,
    /// It has holes, which its writer may fill in later.
    Holes,
}

impl Doubt {
    /// Returns how long a file must not have changed to be complete, given the `rest` of other
    /// files.
    pub(super) fn rest(self, rest: Duration) -> Duration {
        match self {
            Self::None | Self::Name => rest,
            Self::Holes => (2 * rest).max(RESTED_AGE),
        }
    }
}

/// A file's stamp, the time since its last change, where the clocks can be trusted, and whether it
/// is being written to.
#[derive(Clone, Copy, Debug)]
pub struct Seen {
    /// The file's stamp.
    pub stamp: Stamp,
    /// Now minus mtime; `None` where another machine's clock may have set the mtime.
    pub age: Option<Duration>,
    /// Whether a process has it open for writing. [`Writer::Absent`] on file systems where that is
    /// never known, and for very old files.
    pub writer: Writer,
    /// Whether it may be incomplete all the same; [`Doubt::None`] in a listing, which does not
    /// check for that.
    pub doubt: Doubt,
}

impl Seen {
    pub(super) fn older_than(&self, age: Duration) -> bool {
        self.age.is_some_and(|own| own >= age)
    }

    /// Returns how long it must not have changed to be complete, if no message reports it as
    /// complete, given the `rest` of most files.
    pub(super) fn rest(&self, rest: Duration) -> Duration {
        let rest = self.doubt.rest(rest);
        if self.writer == Writer::Unknown { rest.max(RESTED_AGE) } else { rest }
    }
}
