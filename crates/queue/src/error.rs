//! Errors of a queue.

use std::fmt::Display;
use std::io;
use std::path::PathBuf;

/// The reason why a queue cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum QueueError {
    /// The address is not that of a queue.
    #[error(
        "{0} is not the address of a queue: {1}; write nats://HOST/NAME, with a name of letters, digits and hyphens"
    )]
    Address(String, String),
    /// The server cannot be reached, or refuses the connection.
    #[error("the queue's server {server} cannot be used: {why}")]
    Unreachable {
        /// The server, without a password.
        server: String,
        /// The failure.
        why: String,
    },
    /// A file with credentials cannot be used.
    #[error("{variable} names {}, which cannot be used: {source}", file.display())]
    Credentials {
        /// The environment variable that names it.
        variable: &'static str,
        /// The file.
        file: PathBuf,
        /// The I/O error.
        source: io::Error,
    },
    /// An environment variable has no effect without another one.
    #[error("{0} is set, and {1} is not")]
    Incomplete(&'static str, &'static str),
    /// The server keeps no messages.
    #[error(
        "the queue's server has no JetStream, which keeps the messages; start it with --jetstream (`nats-server --jetstream`)"
    )]
    NoJetStream,
    /// There is no such queue.
    #[error("there is no queue {0} on this server; `histeqd submit` creates it")]
    Missing(String),
    /// The server gave no answer.
    #[error("the queue's server does not answer")]
    Silent,
    /// The server refused something.
    #[error("{what}: {why}")]
    Failed {
        /// The request.
        what: &'static str,
        /// The reason.
        why: String,
    },
    /// The system has no thread for it.
    #[error("cannot start a thread: {0}")]
    Thread(io::Error),
}

impl QueueError {
    pub(crate) fn failed(what: &'static str, why: &(impl Display + ?Sized)) -> Self {
        Self::Failed { what, why: why.to_string() }
    }

    /// Returns whether it may pass by itself: the server is gone for a while, or busy.
    pub fn is_transient(&self) -> bool {
        matches!(self, Self::Silent | Self::Failed { .. } | Self::Missing(_))
    }
}
