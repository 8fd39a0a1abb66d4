//! The [`Settle`] state machine against a simulated folder: writers of every habit, lost messages,
//! failing jobs, and hours of simulated time.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use histeqd::fs::stamp::Stamp;
use histeqd::service::watch::settle::{Counts, Doubt, Ending, Ready, Seen, Settle, Verdict};
use histeqd::service::watch::writer::Writer;
use proptest::prelude::*;

const REST: Duration = Duration::from_millis(500);
/// The time without a write after which a broken picture may be given up.
const CERTAIN: Duration = Duration::from_secs(120);
/// The time without a change after which a file with holes is taken.
const HOLES_REST: Duration = Duration::from_secs(10);
/// The last one is no picture's name.
const NAMES: [&str; 4] = ["a.png", "b.png", "c/d.png", "c/e"];

#[derive(Clone, Debug)]
enum Step {
    /// A program creates the file, or opens the existing one, and keeps it open.
    Open(usize),
    /// It writes a piece.
    Write(usize),
    /// It reserves room for later writes: the file gets a hole, which the next piece fills.
    Reserve(usize),
    /// It closes the file, with the picture complete (`true`) or perhaps not yet (`false`).
    Close(usize, bool),
    /// A complete picture is moved into place, over any file there.
    MoveIn(usize),
    Remove(usize),
    /// From here on messages are lost, until a [`Step::Notice`].
    GoDeaf,
    Notice,
    List,
    Pass(u64),
    /// The pipeline takes and reads the next file.
    Take,
    /// It finishes its oldest job; with `false`, the job fails for a cause that can pass.
    Finish(bool),
}

fn step() -> impl Strategy<Value = Step> {
    let file = 0..NAMES.len();
    prop_oneof![
        2 => file.clone().prop_map(Step::Open),
        4 => file.clone().prop_map(Step::Write),
        1 => file.clone().prop_map(Step::Reserve),
        3 => (file.clone(), any::<bool>()).prop_map(|(file, whole)| Step::Close(file, whole)),
        2 => file.clone().prop_map(Step::MoveIn),
        1 => file.prop_map(Step::Remove),
        1 => Just(Step::GoDeaf),
        1 => Just(Step::Notice),
        1 => Just(Step::List),
        4 => prop_oneof![1u64..600, 1_000u64..70_000].prop_map(Step::Pass),
        4 => Just(Step::Take),
        4 => prop::bool::weighted(0.9).prop_map(Step::Finish),
    ]
}

#[derive(Clone, Copy, Debug)]
struct File {
    stamp: Stamp,
    changed: Instant,
    open: bool,
    whole: bool,
    holes: bool,
}

/// A job of the pipeline, with the file as it was when it was read, if it still existed.
struct Job {
    path: PathBuf,
    read: Option<File>,
}

struct World {
    settle: Settle,
    start: Instant,
    now: Instant,
    files: BTreeMap<PathBuf, File>,
    inodes: u64,
    deaf: bool,
    jobs: Vec<Job>,
    /// The ledger: for each settled file its stamp, and whether its picture was good.
    settled: BTreeMap<PathBuf, (Stamp, bool)>,
}

/// Returns the doubt about a file's completeness.
fn doubt(path: &Path, file: &File) -> Doubt {
    match path.extension() {
        _ if file.holes => Doubt::Holes,
        Some(_) => Doubt::None,
        None => Doubt::Name,
    }
}

impl World {
    fn new() -> Self {
        let start = Instant::now();
        Self {
            settle: Settle::new(REST),
            start,
            now: start,
            files: BTreeMap::new(),
            inodes: 0,
            deaf: false,
            jobs: Vec::new(),
            settled: BTreeMap::new(),
        }
    }

    fn new_file(&mut self, size: u64, open: bool) -> File {
        self.inodes += 1;
        let mtime_ns = (self.now - self.start).as_nanos() as i64;
        let stamp = Stamp { size, mtime_ns, inode: self.inodes };
        File { stamp, changed: self.now, open, whole: !open, holes: false }
    }

    fn seen(&self, path: &Path) -> Option<Seen> {
        self.files.get(path).map(|file| {
            let writer = if file.open { Writer::Present } else { Writer::Absent };
            let (age, doubt) = (Some(self.now - file.changed), doubt(path, file));
            Seen { stamp: file.stamp, age, writer, doubt }
        })
    }

    fn step(&mut self, step: &Step) {
        match *step {
            Step::Open(name) => {
                let path = PathBuf::from(NAMES[name]);
                if !self.files.contains_key(&path) {
                    let file = self.new_file(0, true);
                    self.files.insert(path.clone(), file);
                    self.tell(|settle, now| settle.touched(&path, now));
                } else if let Some(file) = self.files.get_mut(&path) {
                    file.open = true;
                }
            }
            Step::Write(name) => self.write(Path::new(NAMES[name]), false),
            Step::Reserve(name) => {
                self.write(Path::new(NAMES[name]), false);
                if let Some(file) = self.files.get_mut(Path::new(NAMES[name])).filter(|file| file.open) {
                    file.holes = true;
                }
            }
            Step::Close(name, whole) => self.close(Path::new(NAMES[name]), whole),
            Step::MoveIn(name) => {
                let (path, file) = (PathBuf::from(NAMES[name]), self.new_file(7, false));
                self.files.insert(path.clone(), file);
                self.tell(|settle, now| settle.complete(&path, file.stamp, doubt(&path, &file), now));
            }
            Step::Remove(name) => {
                self.files.remove(Path::new(NAMES[name]));
                self.tell(|settle, _| settle.gone(Path::new(NAMES[name])));
            }
            Step::GoDeaf => self.deaf = true,
            Step::Notice => self.notice(),
            Step::List => self.list(),
            Step::Pass(milliseconds) => self.pass(Duration::from_millis(milliseconds)),
            Step::Take => {
                self.take();
            }
            Step::Finish(good_day) => self.finish(good_day),
        }
    }

    /// Writes another piece to an open file; the last one completes the picture.
    fn write(&mut self, path: &Path, last: bool) {
        let Some(file) = self.files.get_mut(path).filter(|file| file.open) else { return };
        file.stamp.size += 1;
        file.stamp.mtime_ns = (self.now - self.start).as_nanos() as i64;
        file.changed = self.now;
        (file.whole, file.holes) = (last, false);
        self.tell(|settle, now| settle.touched(path, now));
    }

    fn close(&mut self, path: &Path, whole: bool) {
        if whole && self.files.get(path).is_some_and(|file| !file.whole) {
            self.write(path, true);
        }
        let Some(file) = self.files.get_mut(path).filter(|file| file.open) else { return };
        file.open = false;
        let (stamp, doubt) = (file.stamp, doubt(path, file));
        self.tell(|settle, now| settle.complete(path, stamp, doubt, now));
    }

    fn tell(&mut self, message: impl FnOnce(&mut Settle, Instant)) {
        if !self.deaf {
            message(&mut self.settle, self.now);
        }
    }

    fn notice(&mut self) {
        if std::mem::take(&mut self.deaf) {
            self.settle.lost_sight(self.now);
            self.list();
        }
    }

    fn list(&mut self) {
        let paths: Vec<_> = self.files.keys().cloned().collect();
        for path in paths {
            let seen = self.seen(&path).unwrap();
            if self.settled.get(&path).is_none_or(|(stamp, _)| *stamp != seen.stamp) {
                self.settle.listed(&path, seen, self.now);
            }
        }
    }

    fn pass(&mut self, time: Duration) {
        let until = self.now + time;
        while let Some(at) = self.settle.next_due().filter(|at| *at <= until) {
            self.now = self.now.max(at);
            while let Some(path) = self.settle.due(self.now) {
                self.settle.looked(&path, self.seen(&path), self.now);
            }
        }
        self.now = until;
    }

    /// Has the pipeline take and read the next file. Returns whether there was one.
    fn take(&mut self) -> bool {
        let Some(Ready { path, stamp }) = self.settle.take() else { return false };
        let read = self.files.get(&path).copied();
        if let Some(file) = read.filter(|file| file.stamp == stamp) {
            let needed = match doubt(&path, &file) {
                Doubt::None => Duration::ZERO,
                Doubt::Name => REST,
                Doubt::Holes => HOLES_REST,
            };
            let rested = self.now - file.changed;
            assert!(
                rested >= needed,
                "{path:?} was taken after {rested:?} in spite of {:?}",
                doubt(&path, &file)
            );
        }
        self.jobs.push(Job { path, read });
        true
    }

    fn finish(&mut self, good_day: bool) {
        if self.jobs.is_empty() {
            return;
        }
        let Job { path, read } = self.jobs.remove(0);
        let ending = match read {
            Some(file) if good_day && file.whole => Ending::Good,
            Some(_) if good_day => Ending::Broken,
            _ => Ending::Passing,
        };
        let verdict = self.settle.finished(&path, ending, self.seen(&path), self.now);
        if verdict == Verdict::Settled {
            let file = self.files[&path];
            assert_eq!(file.stamp, read.unwrap().stamp, "{path:?} was settled in a state that was not read");
            let rested = self.now - file.changed;
            assert!(ending == Ending::Good || rested >= CERTAIN, "{path:?} was given up after {rested:?}");
            self.settled.insert(path, (file.stamp, ending == Ending::Good));
        }
    }

    /// Lets everything come to rest: writers complete and close their files, lost messages are
    /// noticed, and the service gets an hour.
    fn come_to_rest(&mut self) {
        NAMES.iter().for_each(|name| self.close(Path::new(name), true));
        self.notice();
        for _ in 0..120 {
            self.list();
            self.pass(Duration::from_secs(30));
            while self.take() {}
            while !self.jobs.is_empty() {
                self.finish(true);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_file_is_settled_as_it_is_in_the_end(steps in prop::collection::vec(step(), 1..120)) {
        let mut world = World::new();
        steps.iter().for_each(|step| world.step(step));
        world.come_to_rest();
        for (path, file) in &world.files {
            prop_assert_eq!(world.settled.get(path), Some(&(file.stamp, file.whole)), "{:?}", path);
        }
        prop_assert_eq!(world.settle.counts(), Counts::default());
        prop_assert_eq!(world.settle.next_due(), None, "nothing is looked at for ever");
    }
}
