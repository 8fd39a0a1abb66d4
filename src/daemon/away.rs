//! Puts inputs away that are through, on a thread of its own: a copy to another file system may take longer than the loop may be
//! silent, and than the pipeline may be without work.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded, unbounded};
use tracing::{info, warn};

use super::inputs;
use crate::config::After;
use crate::paths::Shown;
use crate::source::stamp::Stamp;

/// How long the end of the service waits for what is still to be put away. The next start does the rest.
const GRACE: Duration = Duration::from_secs(10);

/// An input that is through.
pub(super) struct Through {
    pub(super) input: PathBuf,
    /// Its path below the watched folder.
    pub(super) below: PathBuf,
    /// Its state when it was begun.
    pub(super) stamp: Stamp,
    pub(super) fate: Fate,
}

/// What is to become of an input.
pub(super) enum Fate {
    /// It is done. `durable`: its output has reached the disk.
    Done { after: After, output: PathBuf, durable: bool },
    /// It failed for that reason, and goes below the folder.
    Failed { folder: PathBuf, reason: String },
}

impl Through {
    fn put_away(&self) {
        let Self { input, below, stamp, fate } = self;
        // Not even for a moment is a file renamed that somebody has put there since.
        if !stamp.is_still_of(input) {
            return;
        }
        let (how, put) = match fate {
            Fate::Done { after, output, durable } => {
                ("is done", inputs::settle(after, input, below, *stamp, output, *durable))
            }
            Fate::Failed { folder, reason } => {
                ("failed", inputs::set_aside(folder, input, below, *stamp, reason))
            }
        };
        if let Err(why) = put {
            warn!("{} {how}, and stays where it is: {why}", Shown(input));
        }
    }
}

/// Inputs that are still to be put away.
#[derive(Default)]
struct Waiting(Mutex<HashMap<PathBuf, Arc<Through>>>);

impl Waiting {
    fn lock(&self) -> MutexGuard<'_, HashMap<PathBuf, Arc<Through>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts an input away as is wanted now, and once more if something else is wanted by then.
    fn put_away(&self, input: &Path) {
        let wanted = || self.lock().get(input).cloned();
        while let Some(one) = wanted() {
            one.put_away();
            let mut waiting = self.lock();
            if waiting.get(input).is_some_and(|now| Arc::ptr_eq(now, &one)) {
                waiting.remove(input);
            }
        }
    }
}

/// The thread that puts inputs away, one after the other.
pub(super) struct Away {
    /// None when it is to end.
    turns: Option<Sender<PathBuf>>,
    waiting: Arc<Waiting>,
    /// Closed when the thread has ended.
    ended: Receiver<()>,
}

impl Away {
    /// Starts it.
    ///
    /// # Errors
    /// When the system gives no thread.
    pub(super) fn start() -> io::Result<Self> {
        // Paths are small; where inputs are put away more slowly than they are done, they are what fills the disk.
        let (turns, to_put) = unbounded::<PathBuf>();
        let (alive, ended) = bounded(0);
        let waiting = Arc::new(Waiting::default());
        let put = Arc::clone(&waiting);
        // Nobody waits for it in the end: a file system that hangs may hold it for ever.
        thread::Builder::new().name("put-away".into()).spawn(move || {
            let _alive: Sender<()> = alive;
            to_put.iter().for_each(|input| put.put_away(&input));
        })?;
        Ok(Self { turns: Some(turns), waiting, ended })
    }

    /// Has an input put away when its turn comes; one that waits already, in its old place.
    pub(super) fn put(&self, one: Through) {
        let Some(turns) = &self.turns else { return };
        let input = one.input.clone();
        if self.waiting.lock().insert(input.clone(), Arc::new(one)).is_none() {
            // Only a thread that panicked closes this way; its inputs stay where they are.
            let _ = turns.send(input);
        }
    }

    /// Whether an input is still to be put away, or is just being.
    pub(super) fn has(&self, input: &Path) -> bool {
        self.waiting.lock().contains_key(input)
    }

    /// Whether that is so of an input in that state.
    pub(super) fn has_in_state(&self, input: &Path, stamp: Stamp) -> bool {
        self.waiting.lock().get(input).is_some_and(|one| one.stamp == stamp)
    }

    /// What is still to be put away stays, until it is put again.
    pub(super) fn forget(&self) {
        self.waiting.lock().clear();
    }

    /// How many inputs are still to be put away.
    pub(super) fn waiting(&self) -> usize {
        self.waiting.lock().len()
    }

    /// Waits until everything is put away, but not for long.
    pub(super) fn end(&mut self) {
        self.turns = None;
        if self.ended.recv_timeout(GRACE) == Err(RecvTimeoutError::Timeout) {
            info!("{} inputs are still to be put away, at the next start", self.waiting());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, OpenOptions};
    use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
    use std::time::Instant;

    use rustix::fs::{CWD, FileType, Mode, mknodat};

    use super::*;

    /// A thread, inputs, and an output that hangs whoever wants to make it durable, until somebody is there who writes.
    struct Case {
        folder: tempfile::TempDir,
        away: Away,
    }

    impl Case {
        fn new() -> Self {
            let case = Self { folder: tempfile::tempdir().unwrap(), away: Away::start().unwrap() };
            mknodat(CWD, case.output(), FileType::Fifo, Mode::RWXU, 0).unwrap();
            case
        }

        fn output(&self) -> PathBuf {
            self.folder.path().join("output")
        }

        fn input(&self, name: &str) -> PathBuf {
            let input = self.folder.path().join(name);
            fs::write(&input, "input").unwrap();
            input
        }

        fn put(&self, input: &Path, fate: Fate) {
            let (below, stamp) = (input.file_name().unwrap().into(), stamp(input));
            self.away.put(Through { input: input.to_owned(), below, stamp, fate });
        }

        /// Has it removed; one whose output is not `durable` hangs.
        fn remove(&self, input: &Path, durable: bool) {
            self.put(input, Fate::Done { after: After::Delete, output: self.output(), durable });
        }
    }

    fn stamp(input: &Path) -> Stamp {
        Stamp::of(&fs::metadata(input).unwrap(), true)
    }

    /// Lets the one go on who waits to read from a FIFO; whether there was one.
    fn release(fifo: &Path) -> bool {
        let flags = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
        OpenOptions::new().write(true).custom_flags(flags).open(fifo).is_ok()
    }

    fn wait_until(so: impl Fn() -> bool, what: &str) {
        let begun = Instant::now();
        while !so() {
            assert!(begun.elapsed() < GRACE, "{what}");
            thread::sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn a_file_system_that_hangs_holds_nobody_but_the_inputs_behind() {
        let mut case = Case::new();
        let [first, second] = ["first", "second"].map(|name| case.input(name));
        case.remove(&first, false);
        case.remove(&second, true);
        case.remove(&second, true);
        let queued = || case.away.turns.as_ref().map(Sender::len);
        wait_until(|| queued() == Some(1), "the second waits once");
        assert!(case.away.has(&first) && case.away.has(&second) && second.exists());
        wait_until(|| release(&case.output()), "the first is looked at");
        wait_until(|| case.away.waiting() == 0, "both are through");
        assert!(!second.exists());
        assert!(first.exists(), "its output cannot be made durable, so it stays");
        case.away.end();
    }

    #[test]
    fn what_was_replaced_while_it_waited_is_not_touched() {
        let case = Case::new();
        let [first, replaced] = ["first", "replaced"].map(|name| case.input(name));
        case.remove(&first, false);
        case.remove(&replaced, true);
        fs::write(&replaced, "another").unwrap();
        let inode = fs::metadata(&replaced).unwrap().ino();
        wait_until(|| release(&case.output()), "the first is looked at");
        wait_until(|| case.away.waiting() == 0, "both are through");
        assert_eq!(fs::read(&replaced).unwrap(), b"another");
        assert_eq!(fs::metadata(&replaced).unwrap().ino(), inode);
    }

    #[test]
    fn what_is_to_go_elsewhere_by_now_is_not_removed() {
        let case = Case::new();
        let [first, kept] = ["first", "kept"].map(|name| case.input(name));
        case.remove(&first, false);
        case.remove(&kept, true);
        assert!(case.away.has_in_state(&kept, stamp(&kept)));
        case.away.forget();
        let folder = case.folder.path().join("archive");
        case.put(&kept, Fate::Failed { folder: folder.clone(), reason: "none".into() });
        // The first may have been forgotten before it was looked at.
        let is_through = || {
            release(&case.output());
            case.away.waiting() == 0
        };
        wait_until(is_through, "it is through");
        assert!(!kept.exists() && folder.join("kept").exists());
    }

    #[test]
    fn the_end_waits_for_what_is_still_to_be_put_away() {
        let mut case = Case::new();
        let inputs: Vec<PathBuf> = (0..50).map(|number| case.input(&number.to_string())).collect();
        inputs.iter().for_each(|input| case.remove(input, true));
        case.away.end();
        assert!(!inputs.iter().any(|input| input.exists()));
    }
}
