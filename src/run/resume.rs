//! `--resume`: a single run that uses the ledger instead of the modification times of the outputs.
//!
//! It is the same ledger as the watching service's: the two can take turns on one output folder.

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError};

use crate::config::Settings;
use crate::error::{Error, PictureError, Refusal};
use crate::fs::paths::absolute;
use crate::fs::stamp::Stamp;
use crate::ledger::{self, Entry, Ledger, LedgerError, Lock, MOST_STARTS, Outcome, Standing};
use crate::progress::{Event, Events};
use crate::source::stop::Stop;
use crate::source::{Batches, Job, Plan, Skip, Skipped};
use codec::Limits;

/// Capacity of the queue of events to the ledger.
const WAITING: usize = 1024;
/// The interval of checks for a stop request.
const TICK: Duration = Duration::from_millis(200);

/// The ledger of a single run.
pub(crate) struct Resume {
    ledger: Mutex<Ledger>,
    limits: Limits,
    /// The inputs that a killed process had in progress: one of them may be the cause.
    suspects: Mutex<HashSet<PathBuf>>,
    /// The inputs, by their absolute paths, that the pipeline was given and has not ended.
    in_progress: Mutex<HashSet<PathBuf>>,
    /// Notified when one of them ends.
    ended: Condvar,
    _lock: Lock,
}

impl Resume {
    /// Takes the locks of the output folder and its ledger, and opens the ledger. Any note about it
    /// goes to `events`.
    pub(crate) fn open(settings: &Settings, events: &Events) -> Result<Self, Error> {
        let (lock, ledger, note) = ledger::take(&settings.out, settings.service.state.as_deref())?;
        if let Some(note) = note {
            events.note(note, true);
        }
        Ok(Self {
            ledger: Mutex::new(ledger),
            limits: settings.limits,
            suspects: Mutex::default(),
            in_progress: Mutex::default(),
            ended: Condvar::new(),
            _lock: lock,
        })
    }

    /// Moves the jobs that the ledger knows to be done, or not to be pictures, from the plan's jobs
    /// to its skipped files, and jobs that killed their process too often to the failed ones. The
    /// plan is incomplete if a stop is requested meanwhile. Any note about the ledger goes to
    /// `events`.
    pub(crate) fn leave_out_done(&self, plan: &mut Plan, stop: &Stop, events: &Events) -> Result<(), Error> {
        let mut left = Vec::with_capacity(plan.jobs.len());
        for mut job in std::mem::take(&mut plan.jobs).into_iter().take_while(|_| !stop.asked()) {
            job.stamp = stamp(&job);
            let known = self.with_entry(&job, Ledger::standing).or_else(|why| self.mend(why, events));
            match known? {
                Some(Standing::Done) => plan.skipped.push(Skipped::done(job.input, job.output)),
                Some(Standing::Skipped) => {
                    let (input, why) = (job.input, Skip::NotAPicture);
                    plan.skipped.push(Skipped { input, why, output: None });
                }
                Some(Standing::Failed { given_up: true, .. }) => self.give_up(job, plan),
                Some(Standing::Interrupted { starts }) if starts >= MOST_STARTS => self.give_up(job, plan),
                Some(Standing::Interrupted { .. }) => {
                    lock(&self.suspects).insert(job.input.clone());
                    left.push(job);
                }
                Some(Standing::Unknown | Standing::Failed { .. }) | None => left.push(job),
            }
        }
        plan.jobs = left;
        Ok(())
    }

    fn give_up(&self, job: Job, plan: &mut Plan) {
        let refusal = Refusal::KillsProcess { starts: MOST_STARTS };
        // After an error, the next run only gives it up once more.
        let _ = self.ledger().give_up(&absolute(&job.input), &refusal.to_string());
        plan.failed.push((job.input, PictureError::Refused(refusal)));
    }

    /// Replaces a damaged ledger by an empty one, which has no record of any picture.
    fn mend(&self, why: LedgerError, events: &Events) -> Result<Option<Standing>, LedgerError> {
        let note = self.ledger().mend(why)?;
        events.note(note, true);
        Ok(None)
    }

    /// Returns the batches of `jobs`, recorded as begun. Each suspect is alone in the pipeline: if
    /// it kills the process, no innocent picture becomes a suspect.
    pub(crate) fn batches(
        &self,
        jobs: Vec<Job>,
        threads: usize,
        stop: &Stop,
    ) -> impl Iterator<Item = Vec<Job>> {
        let is_suspect = |job: &Job| lock(&self.suspects).contains(&job.input);
        let (suspects, others): (Vec<_>, Vec<_>) = jobs.into_iter().partition(is_suspect);
        let suspects = suspects.into_iter().map(|job| (vec![job], true));
        let all = suspects.chain(Batches::of(others, threads).map(|batch| (batch, false)));
        let mut follows_suspect = false;
        all.map(move |(batch, is_suspect)| {
            if std::mem::replace(&mut follows_suspect, is_suspect) {
                self.wait_for_ends(stop);
            }
            batch.into_iter().map(|job| self.begin(job)).collect()
        })
    }

    /// Waits until no picture is in progress.
    fn wait_for_ends(&self, stop: &Stop) {
        let mut in_progress = lock(&self.in_progress);
        while !in_progress.is_empty() && !stop.asked() {
            let waited = self.ended.wait_timeout(in_progress, TICK);
            (in_progress, _) = waited.unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Runs `work`, and records its events in the ledger before they go on to `events`.
    pub(crate) fn keep<T>(
        &self,
        stop: &Stop,
        events: &Events,
        work: impl FnOnce(&Events) -> T,
    ) -> Result<T, Error> {
        let (inner, told) = Events::queue(WAITING);
        let done = thread::scope(|scope| {
            thread::Builder::new()
                .name("ledger".into())
                .spawn_scoped(scope, move || self.note_all(&told, stop, events))
                .map_err(Error::thread)?;
            let done = work(&inner);
            drop(inner);
            Ok(done)
        });
        // A stop may have left some that were given to the pipeline and never begun. After an
        // error, such a picture may only count as done if another process makes its output.
        self.excuse();
        let _ = self.ledger().forget_running();
        done
    }

    fn note_all(&self, told: &Receiver<Event>, stop: &Stop, events: &Events) {
        loop {
            match told.recv_timeout(TICK) {
                Ok(event) => {
                    self.note(&event);
                    events.send(event);
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            // From now on, the user may kill the run at any moment.
            if stop.asked() {
                self.excuse();
            }
        }
    }

    /// Excuses the pictures in progress: they are not the cause of the end.
    fn excuse(&self) {
        let left = std::mem::take(&mut *lock(&self.in_progress));
        if !left.is_empty() {
            // After an error, they are only begun alone next time.
            let _ = self.ledger().excuse(&left);
        }
    }

    /// Records that a job is about to be given to the pipeline. After an error of the ledger, the
    /// picture may only be processed again.
    fn begin(&self, job: Job) -> Job {
        // The input may have been replaced since the plan was made.
        let job = Job { stamp: stamp(&job), ..job };
        lock(&self.in_progress).insert(absolute(&job.input));
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
        // After an error, the picture may only be processed again.
        drop(noted);
        drop(ledger);
        if let Event::Done { input, .. }
        | Event::Skipped { input, planned: true, .. }
        | Event::Failed { input, planned: true, .. } = event
        {
            lock(&self.in_progress).remove(&absolute(input));
            self.ended.notify_all();
        }
    }

    /// Calls `ask` with the ledger and the job's entry. Returns `None` if the input is gone.
    fn with_entry<T>(
        &self,
        job: &Job,
        ask: impl FnOnce(&Ledger, &Entry<'_>) -> Result<T, LedgerError>,
    ) -> Result<Option<T>, LedgerError> {
        let Some(stamp) = job.stamp else { return Ok(None) };
        let (input, output) = (absolute(&job.input), absolute(&job.output));
        let settings = job.fingerprint(&self.limits);
        let entry = Entry { input: &input, stamp, settings: &settings, output: &output };
        ask(&self.ledger(), &entry).map(Some)
    }

    fn ledger(&self) -> MutexGuard<'_, Ledger> {
        lock(&self.ledger)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn stamp(job: &Job) -> Option<Stamp> {
    if let Some(listed) = job.listed_state() {
        return Some(listed);
    }
    let metadata = std::fs::metadata(&job.input).ok()?;
    Stamp::at(&job.input, &metadata, job.lasting_inodes).ok()
}
