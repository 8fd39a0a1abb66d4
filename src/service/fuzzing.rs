//! Entry points for fuzz targets: the server.

use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::Arc;

use crossbeam_channel::{Receiver, bounded};
use tokio::runtime::{Builder, Runtime};

use super::web::access::Caller;
use super::web::answers::{Answers, ChangeRequest};
use super::web::{routes, server};

/// The server of a service without pictures, for network clients, one after the other.
pub struct Site {
    runtime: Runtime,
    routes: axum::Router,
    changes: Receiver<ChangeRequest>,
}

impl Site {
    /// Creates it. The error is a sentence.
    pub fn new() -> Result<Self, String> {
        let (sender, changes) = bounded(1);
        let routes = routes::all(Arc::new(Answers::without_data(sender)?));
        let runtime = Builder::new_current_thread().enable_all().build();
        Ok(Self { runtime: runtime.map_err(|error| error.to_string())?, routes, changes })
    }

    /// Returns the answer to a client that sends exactly these bytes.
    ///
    /// # Errors
    /// When there can be no connection, or an answer does not come.
    pub fn answer(&self, sent: &[u8]) -> io::Result<Vec<u8>> {
        let (mut client, server) = UnixStream::pair()?;
        client.write_all(sent)?;
        client.shutdown(Shutdown::Write)?;
        server.set_nonblocking(true)?;
        self.runtime.block_on(async {
            let stream = tokio::net::UnixStream::from_std(server)?;
            // Invalid requests get no answer.
            let _ = server::answer_one(stream, Caller::Network { port: 1 }, self.routes.clone(), || {}).await;
            io::Result::Ok(())
        })?;
        let mut answer = Vec::new();
        client.read_to_end(&mut answer)?;
        Ok(answer)
    }

    /// Returns whether a client has requested a change.
    pub fn has_changed(&self) -> bool {
        !self.changes.is_empty()
    }
}
