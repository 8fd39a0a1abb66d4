//! The access to outputs: owns the output folder's file system, its lock and its ledger, all of
//! which can disappear while the service runs, and the regular maintenance of the ledger. It does
//! not know pictures.

use std::collections::HashSet;
use std::path::Path;
use std::time::{Duration, Instant};

use tracing::{info, warn};

use crate::config::Settings;
use crate::error::Error;
use crate::fs::paths::Shown;
use crate::ledger::{self, Ledger, LedgerError, Lock, LockError, Pruned};
use crate::progress::pictures;
use crate::service::folders::ledger_check::LedgerCheck;
use crate::service::watch::mounts::{Home, Mounted};
use crate::source::stop::Stop;

/// The file system of the output folder, and the right to it and to its ledger.
pub(crate) struct OutputAccess {
    home: Home,
    /// Why writing is impossible while [`Self::home`] is gone.
    unmounted: Option<String>,
    /// The time when another file system took the place of [`Self::home`].
    moved_in: Option<Instant>,
    lock: Lock,
    ledger: Ledger,
    /// Why no pictures are started while the lock or the ledger is gone.
    lost: Option<String>,
    /// Set once another process has taken over the output folder or the ledger.
    superseded: Option<LockError>,
    /// The stop to request in that case.
    stop: Stop,
    /// The messages logged about the ledger since it last worked.
    complaints: HashSet<String>,
    /// Why it did not work the last time.
    ledger_trouble: Option<String>,
    check: LedgerCheck,
    /// Progress of the search for old rows, and the time of its next turn.
    pruned: Pruned,
    next_prune: Instant,
}

/// The interval of searches of the ledger for old rows.
const PRUNE: Duration = Duration::from_secs(24 * 3600);
/// The age from which a row is forgotten if its input is gone.
const OLD: Duration = Duration::from_secs(30 * 24 * 3600);
/// The most rows checked in one turn: a slow file system must not hold up the loop.
const PRUNED_A_TURN: u32 = 1000;
/// How long a call of the ledger, and with it the loop, may wait for another process.
const LEDGER_TIMEOUT: Duration = Duration::from_secs(1);

/// The state of the output folder's file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OutputMount {
    /// It is mounted, as at the last look.
    Same,
    /// Another one has taken its place since the last look.
    New,
    /// It is gone. The folder in its place must get neither outputs nor a ledger.
    Gone,
}

impl OutputAccess {
    /// Takes the locks, creating the output folder if necessary, and opens the ledger. `stop` is
    /// requested if another process takes over. Also returns why the ledger is a new one, if it
    /// replaces another.
    ///
    /// # Errors
    /// When another process has one of the locks, or one of the files cannot be used.
    pub(crate) fn take(settings: &Settings, stop: &Stop) -> Result<(Self, Option<String>), Error> {
        let (lock, ledger, note) = ledger::take(&settings.out, settings.service.state.as_deref())?;
        note.iter().for_each(|note| warn!("{note}"));
        ledger.set_patience(LEDGER_TIMEOUT);
        let folder = ledger::folder(&settings.out, settings.service.state.as_deref());
        let access = Self {
            home: Home::of(&settings.out),
            unmounted: None,
            moved_in: None,
            lock,
            ledger,
            lost: None,
            superseded: None,
            stop: stop.clone(),
            complaints: HashSet::new(),
            ledger_trouble: None,
            check: LedgerCheck::start(folder).map_err(Error::thread)?,
            pruned: Pruned::default(),
            next_prune: Instant::now(),
        };
        Ok((access, note))
    }

    pub(crate) fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// Returns why writing is impossible, if it is.
    pub(crate) fn trouble(&self) -> Option<&str> {
        self.unmounted.as_deref().or(self.lost.as_deref())
    }

    /// Returns whether another file system took the place of the output folder's after `time`.
    pub(crate) fn has_moved_since(&self, time: Instant) -> bool {
        self.moved_in.is_some_and(|moved_in| time < moved_in)
    }

    /// Ends the access, once no picture is in progress. The error names the other process that has
    /// taken over, if one has.
    pub(crate) fn leave(self) -> Result<(), LockError> {
        self.superseded.map_or(Ok(()), Err)?;
        // After an error, a picture that was never begun may only count as done if another process
        // makes its output.
        let _ = self.ledger.forget_running();
        Ok(())
    }

    /// Checks the output folder's file system. Continues in another one that is now mounted in its
    /// place, if its lock and ledger can be taken.
    pub(crate) fn look(&mut self) -> OutputMount {
        match self.home.look() {
            Mounted::Nothing if self.unmounted.is_none() => {
                let why = format!(
                    "{}, the mount point of the output folder, is not mounted",
                    Shown(self.home.place())
                );
                warn!("{why}; nothing more is started until it is");
                self.unmounted = Some(why);
            }
            Mounted::Other => return self.move_in(),
            Mounted::Same | Mounted::Nothing => {}
        }
        if self.unmounted.is_some() { OutputMount::Gone } else { OutputMount::Same }
    }

    fn move_in(&mut self) -> OutputMount {
        let ready = self.retake_lock().map_err(|why| why.to_string());
        match ready.and_then(|()| self.reopen_ledger().map_err(|why| why.to_string())) {
            Ok(note) => note.into_iter().for_each(|note| warn!("{note}")),
            Err(why) => {
                if self.unmounted.as_ref() != Some(&why) {
                    warn!("{why}");
                    self.unmounted = Some(why);
                }
                return OutputMount::Gone;
            }
        }
        info!("{} is mounted again", Shown(self.home.place()));
        self.home.accept();
        (self.unmounted, self.moved_in) = (None, Some(Instant::now()));
        OutputMount::New
    }

    fn reopen_ledger(&mut self) -> Result<Option<String>, LedgerError> {
        let note = self.ledger.reopen()?;
        // The process that left pictures in progress there may have lost the file system before
        // their outputs were on it.
        self.ledger.forget_running()?;
        Ok(note)
    }

    /// Returns why the ledger cannot be written, if it cannot.
    pub(crate) fn ledger_trouble(&self) -> Option<String> {
        self.ledger_trouble.clone()
    }

    /// Retakes the lock and reopens the ledger if their files were removed, or moved away with
    /// their folder, and replaces a ledger that was found damaged. Returns why the ledger is
    /// another one now, if it is: then everything has to be listed again.
    pub(crate) fn keep(&mut self) -> Option<String> {
        self.keep_files().or_else(|| {
            let mended = self.ledger.mend_found(self.check.found()?)?;
            self.mended(mended)
        })
    }

    fn keep_files(&mut self) -> Option<String> {
        let retaken = self.retake_lock().map_err(|why| why.to_string());
        if self.superseded.is_some() {
            return None;
        }
        let note = match retaken.and_then(|()| self.ledger.reopen_if_deleted().map_err(|why| why.to_string()))
        {
            Ok(note) => note,
            Err(why) => {
                if self.lost.as_ref() != Some(&why) {
                    warn!("{why}; nothing more is started until this is resolved");
                }
                self.lost = Some(why);
                return None;
            }
        };
        if let Some(note) = &note {
            warn!("{note}; everything in the watched folders is processed again");
            self.ledger.set_patience(LEDGER_TIMEOUT);
        }
        if self.lost.take().is_some() {
            info!("outputs can be written again");
        }
        note
    }

    /// Retakes the lock if its file is gone. If another process was faster, asks the service to
    /// stop.
    fn retake_lock(&mut self) -> Result<(), LockError> {
        self.lock.retake_if_lost().or_else(|why| match why {
            LockError::File { .. } => Err(why),
            LockError::Taken { .. } | LockError::LedgerTaken { .. } => {
                self.superseded = Some(why);
                self.stop.ask();
                Ok(())
            }
        })
    }

    /// Logs, once for each cause, why a call of the ledger failed. Returns why the ledger is an
    /// empty one now, if it was damaged: then everything has to be listed again, and the pictures
    /// that it should know are done again.
    pub(crate) fn ledger_failed(&mut self, why: LedgerError) -> Option<String> {
        let mended = self.ledger.mend(why);
        self.mended(mended)
    }

    fn mended(&mut self, mended: Result<String, LedgerError>) -> Option<String> {
        match mended {
            Ok(note) => {
                warn!("{note}");
                self.ledger.set_patience(LEDGER_TIMEOUT);
                Some(note)
            }
            Err(why) => {
                let why = why.to_string();
                // There is no point in waiting again for a ledger that does not work.
                self.ledger.set_patience(Duration::ZERO);
                self.ledger_trouble = Some(why.clone());
                if !self.complaints.contains(&why) {
                    warn!("{why}");
                    self.complaints.insert(why);
                }
                None
            }
        }
    }

    /// Records that a call of the ledger succeeded. Returns whether one had failed before.
    pub(crate) fn ledger_works(&mut self) -> bool {
        let works_again = self.ledger_trouble.take().is_some();
        if works_again {
            self.ledger.set_patience(LEDGER_TIMEOUT);
        }
        if !std::mem::take(&mut self.complaints).is_empty() {
            info!("the ledger can be written again");
        }
        works_again
    }

    /// Returns whether the search for old rows of the ledger is due.
    pub(crate) fn is_to_prune(&self, now: Instant) -> bool {
        self.next_prune <= now
    }

    /// Continues the search for old rows, except of inputs in the folders `missing`; `inputs_go` as
    /// for [`Ledger::prune`].
    ///
    /// # Errors
    /// When a call of the ledger fails. The search then ends.
    pub(crate) fn prune(
        &mut self,
        missing: &[&Path],
        inputs_go: bool,
        now: Instant,
    ) -> Result<(), LedgerError> {
        self.next_prune = now + PRUNE;
        let Pruned { forgotten: before, last } = std::mem::take(&mut self.pruned);
        let pruned = self.ledger.prune(OLD, missing, inputs_go, &last.unwrap_or_default(), PRUNED_A_TURN)?;
        let forgotten = before + pruned.forgotten;
        if pruned.last.is_some() {
            (self.next_prune, self.pruned) = (now, Pruned { forgotten, ..pruned });
        } else if forgotten > 0 {
            info!("removed {} from the ledger whose input is long gone", pictures(forgotten as u64));
        }
        Ok(())
    }
}
