//! From ready to begun: takes the files that are ready, has each examined, and carries out the
//! decision.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use tracing::{info, warn};

use super::Watching;
use crate::config::FolderError;
use crate::error::PictureError;
use crate::fs::paths::Shown;
use crate::fs::stamp::Stamp;
use crate::ledger::LedgerError;
use crate::service::after::inputs;
use crate::service::examine::Next;
use crate::service::pictures::{End, Failure};
use crate::service::rules::{Candidate, was_done};
use crate::service::watch::settle::{Ending, Ready, Verdict};

impl Watching<'_> {
    /// Renames inputs back that a killed process was about to remove.
    pub(super) fn put_leftovers_back(&mut self) {
        for path in self.watch.take_leftovers() {
            // An input that is being removed right now is not a leftover.
            let Some(original) = inputs::original(&path).filter(|input| !self.finished_inputs.has(input))
            else {
                continue;
            };
            match inputs::put_back(&path) {
                Ok(_) => {
                    self.pictures.forget(&path);
                    self.watch.note_put_back(original);
                }
                Err(why) if self.pictures.is_news(&path, &why.to_string()) => {
                    warn!("{}: {why}", Shown(&path));
                }
                Err(_) => {}
            }
        }
    }

    /// Begins files that are ready, as far as the pipeline has room.
    pub(super) fn feed(&mut self) {
        while self.pictures.have_room() && (self.pictures.has_suspect() || self.watch.has_ready()) {
            if self.is_paused
                || !self.has_output()
                || self.output.trouble().is_some()
                || !self.gate.may_start(Instant::now())
            {
                return;
            }
            let next = self.pictures.take_suspect().or_else(|| self.watch.take());
            if !next.is_some_and(|ready| self.begin(&ready)) {
                self.gate.allow_another_try();
            }
        }
    }

    /// Begins a file that is ready. Returns whether it went into the pipeline.
    fn begin(&mut self, ready: &Ready) -> bool {
        self.try_to_begin(ready).unwrap_or_else(|why| {
            self.gate.close(why.to_string(), Instant::now());
            self.ledger_failed(why);
            self.finish(&ready.path, Ending::Held);
            false
        })
    }

    fn try_to_begin(&mut self, Ready { path, stamp }: &Ready) -> Result<bool, LedgerError> {
        // An unwritten end may concern this picture.
        self.pictures.write_notes(self.output.ledger())?;
        // It may have been excluded while it waited.
        let Some(below) = self.watch.below(path).filter(|_| self.watch.takes(path)) else {
            self.finish(path, Ending::Good);
            return Ok(false);
        };
        let settings = match self.rules.settings_of(path, below) {
            Ok(settings) => settings,
            Err(why) => return self.wait_for_settings(path, below, *stamp, why).map(|()| false),
        };
        let candidate = self.rules.candidate(self.output.ledger(), path, below, *stamp, &settings)?;
        let next = self.examiner().examine(&candidate)?;
        self.follow(candidate, next)
    }

    /// Carries out the decision about a file. Returns whether it went into the pipeline.
    fn follow(&mut self, mut candidate: Candidate, next: Next) -> Result<bool, LedgerError> {
        let (input, stamp) = (candidate.input.clone(), candidate.stamp);
        match next {
            Next::Begin { place, alone } => {
                if alone {
                    info!("{} was in progress when histeqd was killed; it is processed alone", Shown(&input));
                }
                candidate.output = place.output;
                self.output.ledger().begin(&candidate.entry())?;
                return Ok(self.pictures.begin(candidate, place.replaces, place.told, alone));
            }
            Next::PutOff => self.pictures.put_off(candidate),
            Next::Refuse(refusal) => self.refuse(&candidate, &refusal.into())?,
            Next::GiveUp(refusal) => {
                if self.finish(&input, Ending::Good) == Verdict::Settled {
                    let reason = refusal.to_string();
                    self.reporter.given_up(&input, &reason);
                    let fate = self.rules.fate_of_failed(&reason);
                    let failure = Failure { candidate, reason, given_up: true };
                    self.note(&input, End::Failed(failure.into()));
                    self.put_away(&input, stamp, fate);
                }
            }
            Next::PutAway { durable } => {
                if self.finish(&input, self.rules.ending_of_done()) == Verdict::Settled {
                    self.put_away(&input, stamp, self.rules.fate_of_done(&candidate.output, durable));
                }
            }
            Next::SetAside(reason) => {
                if self.finish(&input, Ending::Good) == Verdict::Settled {
                    self.put_away(&input, stamp, self.rules.fate_of_failed(&reason));
                }
            }
            Next::PassOver => drop(self.finish(&input, Ending::Good)),
        }
        Ok(false)
    }

    /// Makes a picture wait that cannot be begun for now. It is never recorded as running: after a
    /// kill, another input's output would be taken for its own.
    fn refuse(&mut self, candidate: &Candidate, why: &PictureError) -> Result<(), LedgerError> {
        self.output.ledger().refuse(&candidate.entry())?;
        self.failed(candidate, why);
        Ok(())
    }

    /// Makes a picture wait for its folder's settings, which cannot be used.
    fn wait_for_settings(
        &mut self,
        input: &Path,
        below: &Path,
        stamp: Stamp,
        why: Arc<FolderError>,
    ) -> Result<(), LedgerError> {
        if self.rules.inputs_stay() && was_done(self.output.ledger(), input, stamp) {
            self.finish(input, Ending::Good);
            return Ok(());
        }
        let candidate = self.rules.candidate_without_settings(input, below, stamp);
        self.refuse(&candidate, &PictureError::Folder(why))
    }
}
