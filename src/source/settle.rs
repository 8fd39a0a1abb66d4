//! Which files of a watched folder are complete, and what is to become of each.
//!
//! A pure state machine: what was seen goes in, jobs come out, the time is an argument. It touches no file and no clock.
//!
//! ```text
//!              close after write, rename into the folder
//!            ┌──────────────────────────────────────────┐
//!  a writer  │       size and mtime rested              ▼        take          finished
//!  ───────▶ Open ───────▶ Resting ──────────────────▶ Ready ───────────▶ Running ───────▶ forgotten
//!            ▲  patience     ▲                          ▲                  │
//!            │               │ other size or mtime      │ time is up       │ the cause can pass
//!            └───────────────┴───────────────────── Pausing ◀─────────────┘
//! ```

use std::collections::{BTreeMap, BTreeSet, HashSet, VecDeque};
use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::stamp::Stamp;

/// How long a file that somebody has open, and does not write to, is waited for before it is tried as it is. Writers close
/// what they open, even when they are killed; so this is for what writes without opening, such as truncate(2).
const PATIENCE: Duration = Duration::from_secs(300);
/// A file that did not change for so long is complete, whoever may have it open: a picture that is broken then is broken.
const CERTAIN_AGE: Duration = Duration::from_secs(120);
/// A file that did not change for so long needs not be watched for another while.
const RESTED_AGE: Duration = Duration::from_secs(10);
/// The first pause after a failure; every further one is twice as long.
const FIRST_PAUSE: Duration = Duration::from_secs(2);
/// The longest pause.
const LONGEST_PAUSE: Duration = Duration::from_secs(300);

/// A stamp, and how long it is that the file was last changed, where the clocks can be trusted to tell.
#[derive(Clone, Copy, Debug)]
pub struct Seen {
    /// The file's stamp.
    pub stamp: Stamp,
    /// Now minus mtime; `None` where it is another machine's clock that wrote the mtime.
    pub age: Option<Duration>,
}

impl Seen {
    fn older_than(&self, age: Duration) -> bool {
        self.age.is_some_and(|own| own >= age)
    }
}

/// How a job ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// With an output, or with the finding that there is nothing to do.
    Good,
    /// For a cause that can pass: no room, a device, a busy system.
    Passing,
    /// For a cause that lies in the file.
    Broken,
}

/// What follows from how a job ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The ending is about the file as it is now.
    Settled,
    /// The file changed meanwhile: it will come again.
    Changed,
    /// The cause can pass, or the file may still be written: it will be tried again after this pause.
    Retry(Duration),
    /// The file is no more.
    Gone,
}

/// A file that is ready to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ready {
    /// Its path.
    pub path: PathBuf,
    /// Its content's state.
    pub stamp: Stamp,
}

/// How many files are in which phase.
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

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Open,
    Resting,
    Ready,
    Running(Meanwhile),
    Pausing,
}

/// What happened to a file while its job was running.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Meanwhile {
    Nothing,
    /// Somebody writes to it.
    Open,
    /// Somebody wrote to it and closed it, or moved another file over it.
    Complete,
    /// It was found different, or went away.
    Other,
}

#[derive(Debug)]
struct File {
    phase: Phase,
    /// As last looked at; none before the first look.
    stamp: Option<Stamp>,
    /// Since when the stamp is the same.
    since: Instant,
    /// Whether the file is known to be complete, and not only likely to be.
    certain: bool,
    attempts: u32,
    /// When it has to be looked at; mirrored in `Settle::due`.
    due: Option<Instant>,
}

/// All files that are not done yet.
#[derive(Debug)]
pub struct Settle {
    rest: Duration,
    files: BTreeMap<PathBuf, File>,
    ready: VecDeque<PathBuf>,
    due: BTreeSet<(Instant, PathBuf)>,
    gone: Vec<PathBuf>,
}

impl Settle {
    /// Nothing seen yet. `rest` is how long size and mtime must stay the same where nobody said that the file is complete.
    pub fn new(rest: Duration) -> Self {
        Self { rest, files: BTreeMap::new(), ready: VecDeque::new(), due: BTreeSet::new(), gone: Vec::new() }
    }

    /// The file was closed or moved here. Some writers open it again, and some still have open what they move.
    pub fn complete(&mut self, path: &Path, stamp: Stamp, now: Instant) {
        let file = self.file(path, now);
        match &mut file.phase {
            Phase::Running(Meanwhile::Nothing) if file.stamp == Some(stamp) => {}
            Phase::Running(meanwhile) => *meanwhile = Meanwhile::Complete,
            _ => {
                file.renew(stamp, now);
                file.certain = false;
                self.make_ready(path);
            }
        }
    }

    /// A writer was seen at the file.
    pub fn touched(&mut self, path: &Path, now: Instant) {
        let file = self.file(path, now);
        file.since = now;
        file.certain = false;
        match &mut file.phase {
            Phase::Running(meanwhile) => *meanwhile = Meanwhile::Open,
            _ => {
                file.phase = Phase::Open;
                self.look_at(path, now + PATIENCE);
            }
        }
    }

    /// The file was found by listing its folder, which tells nothing of writers.
    pub fn listed(&mut self, path: &Path, seen: Seen, now: Instant) {
        let rest = self.rest;
        let file = self.file(path, now);
        let same = file.stamp == Some(seen.stamp);
        match &mut file.phase {
            Phase::Open => {}
            Phase::Running(meanwhile @ Meanwhile::Nothing) if !same => *meanwhile = Meanwhile::Other,
            Phase::Running(_) => {}
            Phase::Ready | Phase::Pausing | Phase::Resting if same => {}
            Phase::Ready | Phase::Pausing | Phase::Resting => {
                file.renew(seen.stamp, now);
                file.certain = seen.older_than(CERTAIN_AGE);
                if seen.older_than(RESTED_AGE.max(rest)) {
                    self.make_ready(path);
                } else {
                    file.phase = Phase::Resting;
                    self.look_at(path, now + rest);
                }
            }
        }
    }

    /// The file is no more under this name.
    pub fn gone(&mut self, path: &Path) {
        match self.files.get_mut(path) {
            // The job knows best; its end will find the file gone.
            Some(File { phase: Phase::Running(meanwhile), .. }) => *meanwhile = Meanwhile::Other,
            Some(_) => {
                self.forget(path);
                self.gone.push(path.to_owned());
            }
            None => {}
        }
    }

    /// Files that went while they were waited for, since this was last asked.
    pub fn take_gone(&mut self) -> Vec<PathBuf> {
        std::mem::take(&mut self.gone)
    }

    /// A folder is no more, and so are the files below it.
    pub fn gone_below(&mut self, folder: &Path) {
        let below = self.files.range::<Path, _>((Bound::Excluded(folder), Bound::Unbounded));
        let paths: Vec<_> =
            below.map(|(path, _)| path).take_while(|path| path.starts_with(folder)).cloned().collect();
        for path in paths {
            self.gone(&path);
        }
    }

    /// Messages of writers were lost: who has a file open is not known any more.
    pub fn lost_sight(&mut self, now: Instant) {
        let rest = self.rest;
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

    /// When the next file has to be looked at.
    pub fn next_due(&self) -> Option<Instant> {
        self.due.first().map(|(at, _)| *at)
    }

    /// A file that has to be looked at by now; the answer goes to [`Settle::looked`].
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

    /// A file that was due is now like this, or gone.
    pub fn looked(&mut self, path: &Path, seen: Option<Seen>, now: Instant) {
        let rest = self.rest;
        let Some(seen) = seen else { return self.gone(path) };
        let Some(file) = self.files.get_mut(path) else { return };
        let same = file.stamp == Some(seen.stamp);
        let needed = match file.phase {
            Phase::Open => PATIENCE,
            Phase::Resting => rest,
            Phase::Pausing if same => return self.make_ready(path),
            Phase::Pausing => rest,
            Phase::Ready | Phase::Running(_) => return,
        };
        if !same {
            file.renew(seen.stamp, now);
            file.certain = false;
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

    /// The next file that is ready, in the order in which they became so. It counts as running from here on.
    pub fn take(&mut self) -> Option<Ready> {
        while let Some(path) = self.ready.pop_front() {
            // What was touched or is gone since has left its name in the queue.
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

    /// A job ended; `seen` is its file as it is after that.
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
            match meanwhile {
                Meanwhile::Open => self.look_at(path, now + PATIENCE),
                Meanwhile::Complete => self.make_ready(path),
                Meanwhile::Nothing | Meanwhile::Other => self.look_at(path, now + rest),
            }
            return Verdict::Changed;
        }
        let final_failure = file.certain || seen.older_than(CERTAIN_AGE);
        if ending == Ending::Good || ending == Ending::Broken && final_failure {
            self.forget(path);
            return Verdict::Settled;
        }
        let pause = FIRST_PAUSE.saturating_mul(1 << file.attempts.min(16)).min(LONGEST_PAUSE);
        file.attempts += 1;
        file.phase = Phase::Pausing;
        // Where clocks cannot be trusted, a file is certain when it has rested for so long in our sight.
        file.certain |= now.duration_since(file.since) + pause >= CERTAIN_AGE;
        self.look_at(path, now + pause);
        Verdict::Retry(pause)
    }

    /// From now on files have to rest for so long.
    pub fn set_rest(&mut self, rest: Duration) {
        self.rest = rest;
    }

    /// Whether [`Settle::take`] may have something.
    pub fn has_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// How many files are in which phase.
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

    /// Clears the queue of names that were left in it, before they are more than files: nothing may be taken for days.
    fn forget_left_names(&mut self) {
        if self.ready.len() > 2 * self.files.len() + 64 {
            let mut seen = HashSet::new();
            let is_ready = |path: &Path| self.files.get(path).is_some_and(|file| file.phase == Phase::Ready);
            self.ready.retain(|path| is_ready(path) && seen.insert(path.clone()));
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

impl File {
    fn new(now: Instant) -> Self {
        Self { phase: Phase::Resting, stamp: None, since: now, certain: false, attempts: 0, due: None }
    }

    /// Another content: what was known of the old one is no more.
    fn renew(&mut self, stamp: Stamp, now: Instant) {
        if self.stamp != Some(stamp) {
            self.stamp = Some(stamp);
            self.since = now;
            self.attempts = 0;
        }
    }
}

#[cfg(test)]
mod tests;
