//! Pictures in progress and finished: the pictures in the pipeline, their ends on the way to the
//! ledger, and earlier failures. The module knows neither watched folders nor settings; the ledger
//! is passed in.

use std::collections::{HashMap, VecDeque};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crossbeam_channel::Sender;

use super::after::retried::Retried;
use super::rules::Candidate;
use super::watch::settle::{Ready, Verdict};
use crate::ledger::{Ledger, LedgerError, Outcome};
use crate::publish::Replaces;
use crate::source::Job;

/// The most failed pictures that are remembered. Others are tried again with a new ledger, and fail
/// again.
const REMEMBERED: usize = 1000;

/// A picture in the pipeline.
pub(super) struct Begun {
    pub(super) candidate: Candidate,
    /// The message for the log once its output is there.
    pub(super) told: Option<String>,
    /// The remarks about it.
    pub(super) remarks: Vec<String>,
    pub(super) at: Instant,
    /// Whether it must be the only one in progress: a killed process had it in progress.
    alone: bool,
}

/// A picture that failed for good.
#[derive(Clone)]
pub(super) struct Failure {
    pub(super) candidate: Candidate,
    pub(super) reason: String,
    /// Whether it was begun too often without an end, and no run is to begin it.
    pub(super) given_up: bool,
}

impl Failure {
    /// Writes it to a ledger, whatever the ledger has.
    fn write(&self, ledger: &Ledger) -> Result<(), LedgerError> {
        let Self { candidate, reason, given_up } = self;
        if *given_up {
            ledger.begin(&candidate.entry())?;
            return ledger.give_up(&candidate.input, reason);
        }
        ledger.refuse(&candidate.entry())?;
        ledger.failed(&candidate.input, reason, true)
    }
}

/// The end of a picture.
pub(super) enum End {
    Done {
        device: String,
        pixels: u64,
        bytes_out: u64,
    },
    Skipped,
    Failed(Box<Failure>),
    Retried {
        reason: String,
        pause: Duration,
    },
    /// An end that gives no information about it.
    Forgotten,
}

impl End {
    fn write(&self, ledger: &Ledger, input: &Path) -> Result<(), LedgerError> {
        match self {
            Self::Done { device, pixels, bytes_out } => {
                ledger.done(input, &Outcome { device, pixels: *pixels, bytes_out: *bytes_out })
            }
            Self::Skipped => ledger.skipped(input),
            Self::Failed(failure) => failure.write(ledger),
            Self::Retried { reason, pause } => ledger.retried(input, reason, *pause),
            Self::Forgotten => ledger.forget(input),
        }
    }
}

/// The pictures in progress, and the remaining work for finished ones.
pub(super) struct Pictures {
    /// `None` once no more jobs are handed out.
    jobs: Option<Sender<Job>>,
    begun: HashMap<PathBuf, Begun>,
    /// A picture that is to be begun next, once no other is in progress: a killed process had it in
    /// progress, and it may be the cause, for example by taking all memory.
    suspect: Option<Ready>,
    /// The ends that the ledger did not take yet, the oldest first. Until it does, no pictures are
    /// begun, which bounds their number by that of pictures in progress.
    unwritten: VecDeque<(PathBuf, End)>,
    retried: Retried,
    /// The pictures that failed for good since the start, for a new ledger.
    failures: HashMap<PathBuf, Failure>,
}

impl Pictures {
    /// Creates an empty set; jobs go to the pipeline.
    pub(super) fn new(jobs: Sender<Job>) -> Self {
        Self {
            jobs: Some(jobs),
            begun: HashMap::new(),
            suspect: None,
            unwritten: VecDeque::new(),
            retried: Retried::default(),
            failures: HashMap::new(),
        }
    }

    /// Begins no more pictures. Returns whether it began any before.
    pub(super) fn stop(&mut self) -> bool {
        self.jobs.take().is_some()
    }

    /// Returns whether no more are begun.
    pub(super) fn are_stopped(&self) -> bool {
        self.jobs.is_none()
    }

    /// Returns the number of pictures in progress.
    pub(super) fn begun(&self) -> usize {
        self.begun.len()
    }

    /// Returns whether another one may be begun now: the pipeline has room, and no picture has it
    /// or is to have it alone.
    pub(super) fn have_room(&self) -> bool {
        let is_isolating =
            self.suspect.is_some() && !self.begun.is_empty() || self.begun.values().any(|begun| begun.alone);
        self.jobs.as_ref().is_some_and(|jobs| !jobs.is_full()) && !is_isolating
    }

    /// Returns whether one waits to have the pipeline alone.
    pub(super) fn has_suspect(&self) -> bool {
        self.suspect.is_some()
    }

    /// Takes the one that waits to have the pipeline alone.
    pub(super) fn take_suspect(&mut self) -> Option<Ready> {
        self.suspect.take()
    }

    /// Puts one off until no other is in progress.
    pub(super) fn put_off(&mut self, candidate: Candidate) {
        self.suspect = Some(Ready { path: candidate.input, stamp: candidate.stamp });
    }

    /// Hands one to the pipeline: `alone` if no other may be in progress until it ends. Returns
    /// whether the pipeline took it.
    pub(super) fn begin(
        &mut self,
        candidate: Candidate,
        replaces: Replaces,
        told: Option<String>,
        alone: bool,
    ) -> bool {
        let job = Job {
            number: 0,
            mask: candidate.mask,
            settings: candidate.settings.clone(),
            input: candidate.input.clone(),
            output: candidate.output.clone(),
            named: false,
            is_folder: false,
            bytes: candidate.stamp.size,
            lasting_inodes: candidate.stamp.inode != 0,
            stamp: Some(candidate.stamp),
            changes: None,
            remakes: None,
            replaces,
            spooled: None,
            object: None,
            image: None,
            replaced: None,
            group: None,
            slice: None,
            is_shown: false,
        };
        self.begun.insert(
            job.input.clone(),
            Begun { candidate, told, remarks: Vec::new(), at: Instant::now(), alone },
        );
        // Fails only if the pipeline has ended, which is reported with its reason.
        self.jobs.as_ref().is_some_and(|jobs| jobs.send(job).is_ok())
    }

    /// Keeps a remark about one in progress.
    pub(super) fn remark(&mut self, input: &Path, remark: String) {
        if let Some(begun) = self.begun.get_mut(input) {
            begun.remarks.push(remark);
        }
    }

    /// Removes one that has left the pipeline from the pictures in progress.
    pub(super) fn take_ended(&mut self, input: &Path) -> Option<Begun> {
        self.begun.remove(input)
    }

    /// Returns the input in progress that has this output, other than `input`.
    pub(super) fn other_with(&self, output: &Path, input: &Path) -> Option<&Path> {
        let candidates = self.begun.values().map(|begun| &begun.candidate);
        let mut others = candidates.filter(|other| other.input != input);
        others.find(|other| other.output == output).map(|other| other.input.as_path())
    }

    /// Takes the blame from the pictures in progress, as soon as a stop is requested: whoever
    /// requested it may kill the process at any moment.
    pub(super) fn excuse(&self, ledger: &Ledger) -> Result<(), LedgerError> {
        ledger.excuse(self.begun.keys())
    }

    /// Writes the end of a picture to the ledger, at once or as soon as possible.
    pub(super) fn note(&mut self, input: &Path, end: End, ledger: &Ledger) -> Result<(), LedgerError> {
        if let End::Failed(failure) = &end
            && self.failures.len() < REMEMBERED
        {
            self.failures.insert(input.to_owned(), (**failure).clone());
        }
        let is_first = self.unwritten.is_empty();
        self.unwritten.push_back((input.to_owned(), end));
        if is_first { self.write_notes(ledger) } else { Ok(()) }
    }

    /// Writes the ends to the ledger that could not be written so far.
    pub(super) fn write_notes(&mut self, ledger: &Ledger) -> Result<(), LedgerError> {
        while let Some((input, end)) = self.unwritten.front() {
            match end.write(ledger, input) {
                Err(why) if why.may_pass() => return Err(why),
                // Another try would fail the same way: this picture is done again after a restart.
                written => {
                    self.unwritten.pop_front();
                    written?;
                }
            }
        }
        Ok(())
    }

    /// Writes the remembered pictures to a new ledger. Others that were done are done again.
    pub(super) fn rebuild(&self, ledger: &Ledger) -> Result<(), LedgerError> {
        self.begun.values().try_for_each(|begun| ledger.begin(&begun.candidate.entry()))?;
        self.failures.values().try_for_each(|failure| failure.write(ledger))
    }

    /// Forgets the past of an input: its picture has ended with this verdict.
    pub(super) fn forget_past(&mut self, input: &Path, verdict: Verdict) {
        if !matches!(verdict, Verdict::Retry(_)) {
            self.retried.forget(input);
        }
        self.failures.remove(input);
    }

    /// Forgets an input that is gone. Returns whether it was remembered as failed.
    pub(super) fn forget(&mut self, input: &Path) -> bool {
        self.retried.forget(input);
        self.failures.remove(input).is_some()
    }

    /// Forgets the failures that `are_meant`.
    pub(super) fn forget_failures(&mut self, are_meant: impl Fn(&Path) -> bool) {
        self.failures.retain(|input, _| !are_meant(input));
    }

    /// Returns whether a picture is retried for another reason than was logged last for it, and
    /// remembers this one.
    pub(super) fn is_news(&mut self, input: &Path, reason: &str) -> bool {
        self.retried.is_news(input, reason)
    }

    /// Returns whether the cause of a picture's failed write concerns all, as
    /// [`Retried::concerns_all`].
    pub(super) fn concerns_all(&mut self, input: &Path, openings: u64) -> bool {
        self.retried.concerns_all(input, openings)
    }

    /// Forgets failed writes: from now on, pictures go to another file system.
    pub(super) fn forget_writes(&mut self) {
        self.retried.forget_writes();
    }

    /// Forgets jobs that were on their way into the pipeline at a stop: they were never begun.
    pub(super) fn end(&mut self) {
        self.begun.clear();
    }
}
