//! Decides which files of a watched folder are complete, and the next step of each.
//!
//! A pure state machine: observations go in, jobs come out, the time is an argument. It touches no
//! file and no clock.
//!
//! ```text
//!              close after write, rename into the folder
//!            ┌──────────────────────────────────────────┐
//!  a writer  │       size and mtime at rest             ▼        take          finished
//!  ───────▶ Open ───────▶ Resting ──────────────────▶ Ready ───────────▶ Running ──────▶ forgotten
//!            ▲  patience     ▲                          ▲                  │
//!            │               │ other size or mtime      │ time is up       │ failed for now
//!            └───────────────┴───────────────────── Pausing ◀─────────────┘
//! ```
//!
//! A file that is found without a message, while the kernel reports that a writer has it open, is
//! Open too. A file that may be incomplete although no writer has it open (see [`Doubt`]) is never
//! ready at once: it goes from Open to Resting.

mod file;
mod seen;

use std::collections::{BTreeMap, BTreeSet, HashSet, VecDeque};
use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::writer::Writer;
use crate::device::backoff::Backoff;
use crate::fs::stamp::Stamp;
use file::{File, Meanwhile, Phase};
pub use seen::{Doubt, Seen};

/// How long to wait for a file that a writer has open but does not write to, before it is tried as
/// it is: a long-lived process may never close it. Some changes come without an open file, too,
/// such as truncate(2).
const LONGEST_OPEN: Duration = Duration::from_secs(300);
/// How long a broken picture may still become whole while a writer has it open and does not write
/// to it.
const LONGEST_SILENCE: Duration = Duration::from_secs(24 * 3600);
/// The age from which a file is complete, unless a writer was noticed: a picture that is broken
/// then stays broken.
const CERTAIN_AGE: Duration = Duration::from_secs(120);
/// The age from which a file is ready at once when it is listed, without having to rest any longer.
/// Without messages about writers, and where the kernel does not report them either, a file has to
/// rest this long, and one with holes does too.
const RESTED_AGE: Duration = Duration::from_secs(10);
/// The interval of checks whether a writer still has a file open, if its open was not reported.
const ASK_AGAIN: Duration = Duration::from_secs(2);

/// The end of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// An output, or the finding that no work was needed.
    Good,
    /// As [`Ending::Good`], and the file is to be removed or moved away: not while a writer has it
    /// open.
    Leaving,
    /// A failure with a cause that can pass: no space, a device, a busy system.
    Passing,
    /// A failure that every file would have had. The file is ready again at once; it is for the
    /// caller to hold all of them back.
    Held,
    /// A failure with its cause in the file, which the rest of the file could mend.
    Broken,
    /// A failure that no further bytes can mend: a format that is not read, several pages, too many
    /// pixels.
    Refused,
}

/// The verdict on a file after its job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The ending applies to the file as it is now.
    Settled,
    /// The file changed meanwhile: it will become ready again.
    Changed,
    /// The cause can pass, or the file may still be written: it will be tried again after this
    /// pause.
    Retry(Duration),
    /// The file is gone.
    Gone,
}

/// A file that is ready to be processed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ready {
    /// Its path.
    pub path: PathBuf,
    /// The state of its content.
    pub stamp: Stamp,
}

/// The number of files in each phase.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Being written, or not yet known to be complete.
    pub incomplete: usize,
    /// Complete, and waiting for the pipeline.
    pub ready: usize,
    /// In the pipeline.
    pub running: usize,
    /// Failed, and waiting for the next try.
    pub pausing: usize,
}

/// The state machine: all files that are not done yet.
#[derive(Debug)]
pub struct Settle {
    rest: Duration,
    files: BTreeMap<PathBuf, File>,
    ready: VecDeque<PathBuf>,
    due: BTreeSet<(Instant, PathBuf)>,
    gone: Vec<PathBuf>,
}

impl Settle {
    /// Creates a machine without files. `rest` is how long size and mtime must stay the same if no
    /// message reports a file as complete.
    pub fn new(rest: Duration) -> Self {
        Self { rest, files: BTreeMap::new(), ready: VecDeque::new(), due: BTreeSet::new(), gone: Vec::new() }
    }

    /// Records that a file was closed or moved here. That does not make it certain to be complete:
    /// some writers open a file again, and some move it while they still have it open. With a
    /// `doubt`, it has to rest.
    pub fn complete(&mut self, path: &Path, stamp: Stamp, doubt: Doubt, now: Instant) {
        let rest = self.rest;
        let file = self.file(path, now);
        file.open = false;
        match &mut file.phase {
            Phase::Running(Meanwhile::Nothing) if file.stamp == Some(stamp) => {}
            Phase::Running(meanwhile) if doubt == Doubt::None => *meanwhile = Meanwhile::Complete,
            Phase::Running(meanwhile) => *meanwhile = Meanwhile::Other,
            _ => {
                file.renew(stamp, now);
                file.certain = false;
                if doubt == Doubt::None {
                    return self.make_ready(path);
                }
                (file.phase, file.since) = (Phase::Resting, now);
                self.look_at(path, now + doubt.rest(rest));
            }
        }
    }

    /// Records that a writer has a file open.
    pub fn touched(&mut self, path: &Path, now: Instant) {
        let file = self.file(path, now);
        file.since = now;
        file.certain = false;
        file.open = true;
        match &mut file.phase {
            Phase::Running(meanwhile) => *meanwhile = Meanwhile::Open,
            _ => {
                file.phase = Phase::Open;
                self.look_at(path, now + LONGEST_OPEN);
            }
        }
    }

    /// Records a file that was found by listing its folder.
    pub fn listed(&mut self, path: &Path, seen: Seen, now: Instant) {
        let rest = self.rest;
        let file = self.file(path, now);
        file.hear_of(seen.writer);
        let same = file.stamp == Some(seen.stamp);
        let is_written = file.is_written(seen, now);
        match &mut file.phase {
            // The decision is made when it is due.
            Phase::Open => {}
            Phase::Running(meanwhile @ Meanwhile::Nothing) if !same => *meanwhile = Meanwhile::Other,
            Phase::Running(_) => {}
            Phase::Ready | Phase::Pausing | Phase::Resting if is_written => {
                file.renew(seen.stamp, now);
                self.wait_for_writer(path, now);
            }
            Phase::Ready | Phase::Pausing | Phase::Resting if same => {}
            Phase::Ready | Phase::Pausing | Phase::Resting => {
                file.renew(seen.stamp, now);
                file.certain = seen.older_than(CERTAIN_AGE);
                // Long enough for any doubt, which a listing does not check for.
                if seen.older_than(Doubt::Holes.rest(rest)) {
                    self.make_ready(path);
                } else {
                    file.phase = Phase::Resting;
                    self.look_at(path, now + rest);
                }
            }
        }
    }

    /// Records that the name has no file any more.
    pub fn gone(&mut self, path: &Path) {
        match self.files.get_mut(path) {
            // Left to the end of the job, which will find the file gone.
            Some(File { phase: Phase::Running(meanwhile), .. }) => *meanwhile = Meanwhile::Other,
            Some(_) => {
                self.forget(path);
                self.gone.push(path.to_owned());
            }
            // It may have been finished before.
            None => self.gone.push(path.to_owned()),
        }
    }

    /// Returns the paths that disappeared and were not in progress, since the last call. They need
    /// not have been files, or known.
    pub fn take_gone(&mut self) -> Vec<PathBuf> {
        std::mem::take(&mut self.gone)
    }

    /// Records that a folder is gone, and with it the files below it.
    pub fn gone_below(&mut self, folder: &Path) {
        let below = self.files.range::<Path, _>((Bound::Excluded(folder), Bound::Unbounded));
        let paths: Vec<_> =
            below.map(|(path, _)| path).take_while(|path| path.starts_with(folder)).cloned().collect();
        for path in paths {
            self.gone(&path);
        }
    }

    /// Records that messages about writers were lost: which files are open is unknown.
    pub fn lost_sight(&mut self, now: Instant) {
        let rest = self.rest;
        for file in self.files.values_mut() {
            file.open = false;
            if file.phase == Phase::Running(Meanwhile::Open) {
                file.phase = Phase::Running(Meanwhile::Other);
            }
        }
        let open = self.files.iter_mut().filter(|(_, file)| file.phase == Phase::Open);
        let paths: Vec<_> = open
            .map(|(path, file)| {
                file.phase = Phase::Resting;
                file.since = now;
                path.clone()
            })
            .collect();
        for path in paths {
            self.look_at(&path, now + rest);
        }
    }

    /// Makes files below a folder that failed for now due at once: the cause may have been removed.
    pub fn retry_below(&mut self, folder: &Path, now: Instant) {
        let below = self.files.range::<Path, _>((Bound::Excluded(folder), Bound::Unbounded));
        let below = below.take_while(|(path, _)| path.starts_with(folder));
        let pausing = below.filter(|(_, file)| file.phase == Phase::Pausing);
        let paths: Vec<_> = pausing.map(|(path, _)| path.clone()).collect();
        paths.iter().for_each(|path| self.look_at(path, now));
    }

    /// Returns the time when the next file has to be examined.
    pub fn next_due(&self) -> Option<Instant> {
        self.due.first().map(|(at, _)| *at)
    }

    /// Takes a file that has to be examined by now; the finding goes to [`Settle::looked`].
    pub fn due(&mut self, now: Instant) -> Option<PathBuf> {
        let (at, _) = self.due.first()?;
        if *at > now {
            return None;
        }
        let (_, path) = self.due.pop_first()?;
        if let Some(file) = self.files.get_mut(&path) {
            file.due = None;
        }
        Some(path)
    }

    /// Records the state of a file that was due, or that it is gone.
    pub fn looked(&mut self, path: &Path, seen: Option<Seen>, now: Instant) {
        let rest = self.rest;
        let Some(seen) = seen else { return self.gone(path) };
        let Some(file) = self.files.get_mut(path) else { return };
        file.hear_of(seen.writer);
        let same = file.stamp == Some(seen.stamp);
        let needed = match (file.phase, seen.writer) {
            (Phase::Open, Writer::Present | Writer::Unknown) => LONGEST_OPEN,
            (Phase::Pausing, _) if same => return self.make_ready(path),
            (Phase::Open | Phase::Resting | Phase::Pausing, _) => seen.rest(rest),
            (Phase::Ready | Phase::Running(_), _) => return,
        };
        if file.phase == Phase::Open && file.stamp.is_none() {
            // The first look at it: the writer was noticed before.
            file.stamp = Some(seen.stamp);
        } else if !same {
            file.renew(seen.stamp, now);
            file.certain = false;
        }
        if file.is_written(seen, now) {
            return self.wait_for_writer(path, now);
        }
        if file.phase == Phase::Pausing {
            file.phase = Phase::Resting;
        }
        let complete_at = file.since + needed;
        if complete_at <= now {
            file.certain |= seen.older_than(CERTAIN_AGE);
            self.make_ready(path);
        } else {
            self.look_at(path, complete_at);
        }
    }

    /// Takes the next ready file, in the order in which the files became ready. It counts as
    /// running from then on.
    pub fn take(&mut self) -> Option<Ready> {
        while let Some(path) = self.ready.pop_front() {
            // Files that were touched or went away since have left their names in the queue.
            let Some(file) = self.files.get_mut(&path) else { continue };
            if file.phase != Phase::Ready {
                continue;
            }
            file.phase = Phase::Running(Meanwhile::Nothing);
            let stamp = file.stamp.expect("a file becomes ready by being looked at");
            return Some(Ready { path, stamp });
        }
        None
    }

    /// Records the end of a job; `seen` is the state of its file after that.
    pub fn finished(&mut self, path: &Path, ending: Ending, seen: Option<Seen>, now: Instant) -> Verdict {
        let rest = self.rest;
        let Some(file) = self.files.get_mut(path) else { return Verdict::Gone };
        let Phase::Running(meanwhile) = file.phase else { return Verdict::Changed };
        let Some(seen) = seen else {
            self.forget(path);
            return Verdict::Gone;
        };
        if meanwhile != Meanwhile::Nothing || file.stamp != Some(seen.stamp) {
            file.renew(seen.stamp, now);
            file.attempts = 0;
            file.certain = false;
            file.phase = if meanwhile == Meanwhile::Open { Phase::Open } else { Phase::Resting };
            // It may have been written to again since it was complete, without a message.
            let is_complete = seen.doubt == Doubt::None && seen.writer != Writer::Present;
            match meanwhile {
                Meanwhile::Open => self.look_at(path, now + LONGEST_OPEN),
                Meanwhile::Complete if is_complete => self.make_ready(path),
                Meanwhile::Nothing | Meanwhile::Other | Meanwhile::Complete => self.look_at(path, now + rest),
            }
            return Verdict::Changed;
        }
        if ending == Ending::Held {
            self.make_ready(path);
            return Verdict::Retry(Duration::ZERO);
        }
        file.hear_of(seen.writer);
        if ending == Ending::Leaving && file.is_written(seen, now) {
            self.wait_for_writer(path, now);
            return Verdict::Changed;
        }
        let writes = file.open && now.duration_since(file.since) < LONGEST_SILENCE;
        let is_final = match ending {
            Ending::Good | Ending::Leaving => true,
            Ending::Broken => !writes && (file.certain || seen.older_than(CERTAIN_AGE)),
            // A writer that has it open may still overwrite the cause of the refusal.
            Ending::Refused => !writes,
            Ending::Passing | Ending::Held => false,
        };
        if is_final {
            self.forget(path);
            return Verdict::Settled;
        }
        file.attempts = file.attempts.saturating_add(1);
        let pause = Backoff::OF_A_FILE.after(file.attempts);
        file.phase = Phase::Pausing;
        // Where clocks cannot be trusted, a file is certain once it has been seen to rest for this
        // long.
        file.certain |= now.duration_since(file.since) + pause >= CERTAIN_AGE;
        self.look_at(path, now + pause);
        Verdict::Retry(pause)
    }

    /// Sets how long files have to rest from now on.
    pub fn set_rest(&mut self, rest: Duration) {
        self.rest = rest;
    }

    /// Returns whether [`Settle::take`] may have a file.
    pub fn has_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// Counts the files in each phase.
    pub fn counts(&self) -> Counts {
        let mut counts = Counts::default();
        for file in self.files.values() {
            match file.phase {
                Phase::Open | Phase::Resting => counts.incomplete += 1,
                Phase::Ready => counts.ready += 1,
                Phase::Running(_) => counts.running += 1,
                Phase::Pausing => counts.pausing += 1,
            }
        }
        counts
    }

    /// Waits for a writer that is only known by its open file.
    fn wait_for_writer(&mut self, path: &Path, now: Instant) {
        let Some(file) = self.files.get_mut(path) else { return };
        (file.phase, file.certain) = (Phase::Open, false);
        let again = (now + ASK_AGAIN).min(file.since + LONGEST_OPEN);
        self.look_at(path, again);
    }

    fn file(&mut self, path: &Path, now: Instant) -> &mut File {
        if !self.files.contains_key(path) {
            self.files.insert(path.to_owned(), File::new(now));
        }
        self.files.get_mut(path).expect("it was put there")
    }

    fn forget(&mut self, path: &Path) {
        if let Some(file) = self.files.remove(path)
            && let Some(at) = file.due
        {
            self.due.remove(&(at, path.to_owned()));
        }
    }

    fn look_at(&mut self, path: &Path, at: Instant) {
        let Some(file) = self.files.get_mut(path) else { return };
        if let Some(old) = file.due.replace(at) {
            self.due.remove(&(old, path.to_owned()));
        }
        self.due.insert((at, path.to_owned()));
    }

    /// Clears the queue of stale names when they get too many: it may be days until the next file
    /// is taken.
    fn forget_left_names(&mut self) {
        if self.ready.len() > 2 * self.files.len() + 64 {
            let mut seen = HashSet::new();
            self.ready.retain(|path| {
                let is_ready = self.files.get(path).is_some_and(|file| file.phase == Phase::Ready);
                is_ready && seen.insert(path.clone())
            });
        }
    }

    fn make_ready(&mut self, path: &Path) {
        let Some(file) = self.files.get_mut(path) else { return };
        if let Some(at) = file.due.take() {
            self.due.remove(&(at, path.to_owned()));
        }
        if file.phase != Phase::Ready {
            file.phase = Phase::Ready;
            self.ready.push_back(path.to_owned());
            self.forget_left_names();
        }
    }
}

#[cfg(test)]
mod tests;
