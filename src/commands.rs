//! The commands other than runs: each asks a running service, reads a ledger, or measures this
//! machine, prints, and ends.

pub mod bench;
pub mod explain;
pub mod pause;
pub mod retry;
pub(crate) mod socket;
pub mod status;
