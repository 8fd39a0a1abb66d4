//! `--resume`: a single run that goes by the ledger instead of the modification times of the outputs.
//!
//! It is the same ledger as the watching service's, so that the two can take turns on one output folder.

use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;

use crate::config::Settings;
use crate::error::Error;
use crate::ledger::{self, Entry, Ledger, LedgerError, Lock, Outcome, Standing};
use crate::pipeline::Stop;
use crate::progress::{Event, Events};
use crate::source::stamp::Stamp;
use crate::source::{Job, Plan, Skip};

/// Capacity of the queue of events to the ledger.
const WAITING: usize = 1024;

/// The ledger of a single run.
pub(crate) struct Resume {
    ledger: Mutex<Ledger>,
    settings: String,
    _lock: Lock,
}

impl Resume {
    /// Takes the locks of the output folder and its ledger, and opens the ledger. Any note about it goes to `events`.
    pub(crate) fn open(settings: &Settings, events: &Events) -> Result<Self, Error> {
        let (lock, ledger, note) = ledger::take(&settings.out, settings.service.state.as_deref())?;
        if let Some(note) = note {
            events.note(note, true);
        }
        Ok(Self { ledger: Mutex::new(ledger), settings: settings.fingerprint(), _lock: lock })
    }

    /// Moves the jobs that the ledger knows to be done, or not to be pictures, from the plan's jobs to its skipped files. The plan is
    /// incomplete if a stop is requested meanwhile. Any note about the ledger goes to `events`.
    pub(crate) fn leave_out_done(&self, plan: &mut Plan, stop: &Stop, events: &Events) -> Result<(), Error> {
        let mut left = Vec::with_capacity(plan.jobs.len());
        for mut job in std::mem::take(&mut plan.jobs).into_iter().take_while(|_| !stop.asked()) {
            job.stamp = stamp(&job);
            let known = self.with_entry(&job, Ledger::standing).or_else(|why| self.mend(why, events));
            match known? {
                Some(Standing::Done) => plan.skipped.push((job.input, Skip::AlreadyDone)),
                Some(Standing::Skipped) => plan.skipped.push((job.input, Skip::NotAPicture)),
                Some(Standing::Unknown | Standing::Failed { .. }) | None => left.push(job),
            }
        }
        plan.jobs = left;
        Ok(())
    }

    /// Replaces a damaged ledger by an empty one, which knows nothing about any picture.
    fn mend(&self, why: LedgerError, events: &Events) -> Result<Option<Standing>, LedgerError> {
        let note = self.ledger().mend(why)?;
        events.note(note, true);
        Ok(None)
    }

    /// Runs `work`, and records its events in the ledger before they go on to `events`.
    pub(crate) fn keep<T>(&self, events: &Events, work: impl FnOnce(&Events) -> T) -> Result<T, Error> {
        let (inner, told) = Events::queue(WAITING);
        let done = thread::scope(|scope| {
            let listen = move || {
                for event in told {
                    self.note(&event);
                    events.tell(event);
                }
            };
            thread::Builder::new()
                .name("ledger".into())
                .spawn_scoped(scope, listen)
                .map_err(Error::thread)?;
            let done = work(&inner);
            drop(inner);
            Ok(done)
        });
        // A stop may have left some that were given to the pipeline and never begun. An error only means that such a picture may count as
        // done if somebody else makes its output.
        let _ = self.ledger().forget_running();
        done
    }

    /// Records that a job is about to be given to the pipeline. An error of the ledger only means that the picture may be done again.
    pub(crate) fn begin(&self, job: Job) -> Job {
        // The input may have been replaced since the plan was made.
        let job = Job { stamp: stamp(&job), ..job };
        let _ = self.with_entry(&job, Ledger::begin);
        job
    }

    fn note(&self, event: &Event) {
        let ledger = self.ledger();
        let noted = match event {
            Event::Done { input, pixels, bytes_out, device, .. } => {
                ledger.done(&absolute(input), &Outcome { device, pixels: *pixels, bytes_out: *bytes_out })
            }
            Event::Skipped { input, planned: true, .. } => ledger.skipped(&absolute(input)),
            Event::Failed { input, error, planned: true } => {
                ledger.failed(&absolute(input), &error.to_string(), !error.is_transient())
            }
            _ => Ok(()),
        };
        // An error only means that the picture may be done again.
        drop(noted);
    }

    /// Calls `ask` with the ledger and the job's entry. Returns `None` if the input is gone.
    fn with_entry<T>(
        &self,
        job: &Job,
        ask: impl FnOnce(&Ledger, &Entry<'_>) -> Result<T, LedgerError>,
    ) -> Result<Option<T>, LedgerError> {
        let Some(stamp) = job.stamp else { return Ok(None) };
        let (input, output) = (absolute(&job.input), absolute(&job.output));
        let entry = Entry { input: &input, stamp, settings: &self.settings, output: &output };
        ask(&self.ledger(), &entry).map(Some)
    }

    fn ledger(&self) -> MutexGuard<'_, Ledger> {
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn stamp(job: &Job) -> Option<Stamp> {
    std::fs::metadata(&job.input).ok().map(|metadata| Stamp::of(&metadata, job.lasting_inodes))
}

/// Returns the absolute path, by which the service records it too.
fn absolute(path: &PathBuf) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.clone())
}
