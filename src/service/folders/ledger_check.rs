//! Checks the ledger regularly, on a thread of its own, because all of it is read.

use std::io;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded};

use crate::ledger::{Damage, Ledger};

/// The pause between checks.
const PAUSE: Duration = Duration::from_secs(20);
/// The share of the time that checks of a large ledger may take: one part in this many.
const SHARE: u32 = 20;

/// The thread that checks.
pub(crate) struct LedgerCheck {
    /// Closed to end the thread.
    _end: Sender<()>,
    found: Receiver<Damage>,
}

impl LedgerCheck {
    /// Starts the thread.
    ///
    /// # Errors
    /// When the thread cannot be created.
    pub(crate) fn start(folder: PathBuf) -> io::Result<Self> {
        let (end, ended) = bounded::<()>(0);
        let (tell, found) = bounded(1);
        // Never joined: a file system that hangs may block it forever.
        thread::Builder::new().name("ledger-check".into()).spawn(move || {
            let mut pause = PAUSE;
            while ended.recv_timeout(pause) == Err(RecvTimeoutError::Timeout) {
                let begun = Instant::now();
                if let Some(damage) = Ledger::damage(&folder) {
                    // If there is an older finding, that is enough.
                    let _ = tell.try_send(damage);
                }
                pause = PAUSE.max(begun.elapsed() * SHARE);
            }
        })?;
        Ok(Self { _end: end, found })
    }

    /// Returns the damage found since the last call.
    pub(crate) fn found(&self) -> Option<Damage> {
        self.found.try_recv().ok()
    }
}
