//! What the service stands on: the output folder's file system, its lock and its ledger. All of them can go while it runs.

use std::time::Instant;

use tracing::{info, warn};

use super::Watching;
use super::hold::Hold;
use crate::ledger::{LedgerError, LockError};
use crate::paths::Shown;
use crate::source::mounts::Mounted;

impl Watching<'_> {
    /// Logs, once for each cause, why a call of the ledger failed. A damaged ledger is replaced by an empty one, and the pictures it should
    /// know are done again.
    pub(super) fn ledger_failed(&mut self, why: LedgerError, now: Instant) {
        match self.ledger.mend(why) {
            Ok(note) => {
                warn!("{note}");
                self.watch.list_all(now);
            }
            Err(why) => {
                let why = why.to_string();
                if !self.complaints.contains(&why) {
                    warn!("{why}");
                    self.complaints.insert(why);
                }
            }
        }
    }

    /// Notes that a call of the ledger did not fail.
    pub(super) fn ledger_works(&mut self) {
        if !std::mem::take(&mut self.complaints).is_empty() {
            info!("the ledger can be written again");
        }
    }

    /// Retakes the lock and reopens the ledger if their files were removed, or moved away with their folder. If another process was faster,
    /// asks the service to stop.
    pub(super) fn hold_on(&mut self, now: Instant) {
        if self.is_unmounted() {
            return;
        }
        let retaken = self.retake_lock().map_err(|why| why.to_string());
        if self.superseded.is_some() {
            return;
        }
        match retaken.and_then(|()| self.ledger.reopen_if_deleted().map_err(|why| why.to_string())) {
            Err(why) => {
                if self.lost.as_ref() != Some(&why) {
                    warn!("{why}; nothing more is started until this is resolved");
                }
                self.lost = Some(why);
                return;
            }
            Ok(None) => {}
            Ok(Some(note)) => {
                warn!("{note}; everything in the watched folders is processed again");
                self.watch.list_all(now);
            }
        }
        if self.lost.take().is_some() {
            info!("outputs can be written again");
        }
    }

    /// Whether the output folder's file system is gone. What is in its place must get neither outputs nor a ledger.
    pub(super) fn is_unmounted(&mut self) -> bool {
        match self.home.look() {
            Mounted::Nothing if self.unmounted.is_none() => {
                let why = format!("{}, where the output folder is, is not mounted", Shown(self.home.place()));
                warn!("{why}; nothing more is started until it is");
                self.unmounted = Some(why);
            }
            Mounted::Other => self.move_in(),
            Mounted::Same | Mounted::Nothing => {}
        }
        self.unmounted.is_some()
    }

    /// Continues in the file system that is mounted now where the output folder's was, if its lock and ledger can be had.
    fn move_in(&mut self) {
        let ready = self.retake_lock().map_err(|why| why.to_string());
        match ready.and_then(|()| self.ledger.reopen().map_err(|why| why.to_string())) {
            Ok(note) => note.into_iter().for_each(|note| warn!("{note}")),
            Err(why) => {
                if self.unmounted.as_ref() != Some(&why) {
                    warn!("{why}");
                    self.unmounted = Some(why);
                }
                return;
            }
        }
        info!("{} is mounted again", Shown(self.home.place()));
        let now = Instant::now();
        self.home.accept();
        (self.unmounted, self.moved_in) = (None, Some(now));
        // What held outputs up concerned the other file system.
        self.hold = Hold::default();
        self.watch.list_all(now);
    }

    /// Retakes the lock if its file is gone. If another process was faster, asks the service to stop.
    fn retake_lock(&mut self) -> Result<(), LockError> {
        self.lock.retake_if_lost().or_else(|why| match why {
            LockError::File { .. } => Err(why),
            LockError::Taken { .. } | LockError::LedgerTaken { .. } => {
                self.superseded = Some(why);
                self.control.stop.ask();
                Ok(())
            }
        })
    }
}
