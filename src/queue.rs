//! A queue that several machines work on: `histeqd submit`, `work`, and the parts of `status` and
//! `retry` for `--queue`.
//!
//! ```text
//!  submit: scan ──▶ messages of a few pictures ──▶ queue
//!  work:   queue ──▶ check ──jobs──▶ pipeline ──events──▶ done, again, or dead
//! ```
//!
//! The queue lists the work to do, never finished work: that is recorded on the outputs. It may
//! therefore vanish, and a message may be delivered twice.

mod account;
mod begun;
mod follow;
#[doc(hidden)]
pub mod fuzzing;
mod message;
mod outgoing;
mod outputs;
mod report;
mod roots;
mod signature;
mod submit;
mod watch;
mod work;

use histeqd_queue::QueueError;

use crate::error::Error;

pub use report::{describe, retry};
pub use submit::submit;
pub use watch::watch;
pub use work::work;

/// Converts an error of the queue to one of the run.
fn unusable(why: &QueueError) -> Error {
    match why {
        QueueError::Address(..) | QueueError::Incomplete(..) | QueueError::Credentials { .. } => {
            Error::Usage(why.to_string())
        }
        _ => Error::CannotRun(why.to_string()),
    }
}
