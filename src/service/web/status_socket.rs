//! The Unix socket for questions to the service, in the folder of its ledger.

use std::path::PathBuf;
use std::sync::Arc;

use tracing::{info, warn};

use super::answers::Answers;
use super::routes;
use super::server::{self, Server};
use crate::commands::socket::Listening;
use crate::fs::paths::Shown;
use crate::ledger;

/// The socket in the ledger's folder, and its server.
pub(crate) struct StatusSocket {
    folder: PathBuf,
    answers: Arc<Answers>,
    /// The server first: it ends before the socket's name is removed.
    serving: Option<(Server, Listening)>,
    /// Why it cannot be served, as last logged.
    complaint: Option<String>,
}

impl StatusSocket {
    pub(crate) fn new(folder: PathBuf, answers: Arc<Answers>) -> Self {
        Self { folder, answers, serving: None, complaint: None }
    }

    /// Creates the socket, if it does not exist or has lost its name. Only for the holder of the
    /// folder's lock.
    pub(crate) fn keep(&mut self) {
        if self.serving.as_ref().is_some_and(|(_, listening)| !listening.is_lost()) {
            return;
        }
        self.serving = None;
        let serving = Listening::start(&self.folder, ledger::FILE).and_then(|(listening, socket)| {
            Ok((server::start_at_socket(socket, routes::all(Arc::clone(&self.answers)))?, listening))
        });
        match serving {
            Ok(serving) => {
                self.serving = Some(serving);
                if self.complaint.take().is_some() {
                    info!("`histeqd status` is answered again");
                }
            }
            Err(why) => {
                let why = why.to_string();
                if self.complaint.as_ref() != Some(&why) {
                    let folder = Shown(&self.folder);
                    warn!(
                        "the socket in {folder} cannot be used: {why}; `histeqd status` reads the ledger instead"
                    );
                    self.complaint = Some(why);
                }
            }
        }
    }
}
