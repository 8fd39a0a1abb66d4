//! A queue that several machines work on: `histeqd submit`, `work`, and what `status` and `retry` do with `--queue`.
//!
//! ```text
//!  submit: scan ──▶ messages of a few pictures ──▶ queue ──▶ work: check ──jobs──▶ pipeline ──events──▶ done, again, or dead
//! ```
//!
//! The queue says what is to be done, never what was: that is what the outputs say. So it may vanish, and a message may be delivered twice.

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

/// Returns what an error of the queue means for the run.
fn unusable(why: &QueueError) -> Error {
    match why {
        QueueError::Address(..) | QueueError::Incomplete(..) | QueueError::Credentials { .. } => {
            Error::Usage(why.to_string())
        }
        _ => Error::CannotRun(why.to_string()),
    }
}
