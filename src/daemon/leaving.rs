//! The thread that takes inputs away that are through. A move to another file system is a copy, and the loop waits for none.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crossbeam_channel::{Receiver, Sender, bounded};
use tracing::warn;

use super::inputs;
use crate::config::After;
use crate::paths::Shown;
use crate::source::stamp::Stamp;

/// Inputs that may wait; with more the loop waits too, and so nothing more is begun.
const WAITING: usize = 4096;

/// An input that is to leave its place.
pub(super) struct Errand {
    pub(super) input: PathBuf,
    /// Its path below the watched folder.
    pub(super) below: PathBuf,
    /// The state in which it may leave.
    pub(super) stamp: Stamp,
    pub(super) way: Way,
}

/// What becomes of an input.
pub(super) enum Way {
    /// It is done, and its output is there.
    Done { after: After, output: PathBuf },
    /// It cannot be done, and goes to that folder with the reason.
    Failed { folder: PathBuf, reason: String },
}

impl Errand {
    fn run(&self) {
        let Self { input, below, stamp, way } = self;
        let (result, what) = match way {
            Way::Done { after, output } => (inputs::settle(after, input, below, *stamp, output), "is done"),
            Way::Failed { folder, reason } => {
                (inputs::set_aside(folder, input, below, *stamp, reason), "failed")
            }
        };
        if let Err(why) = result {
            warn!("{} {what}, and stays where it is: {why}", Shown(input));
        }
    }
}

type UnderWay = Arc<Mutex<HashMap<PathBuf, Stamp>>>;

/// The loop's end: what is to be done.
pub(super) struct Leaving {
    errands: Sender<Errand>,
    under_way: UnderWay,
}

/// The thread's end.
pub(super) struct Taker {
    errands: Receiver<Errand>,
    under_way: UnderWay,
}

/// Both ends.
pub(super) fn leaving() -> (Leaving, Taker) {
    let (sender, errands) = bounded(WAITING);
    let under_way = UnderWay::default();
    (Leaving { errands: sender, under_way: Arc::clone(&under_way) }, Taker { errands, under_way })
}

impl Leaving {
    /// Has an input taken away, unless that is under way.
    pub(super) fn give(&self, errand: Errand) {
        if self.is_under_way(&errand.input, errand.stamp) {
            return;
        }
        lock(&self.under_way).insert(errand.input.clone(), errand.stamp);
        // Only a thread that panicked closes this way; the panic is then what ends the run.
        let _ = self.errands.send(errand);
    }

    /// Whether the input is about to leave in that state.
    pub(super) fn is_under_way(&self, input: &Path, stamp: Stamp) -> bool {
        lock(&self.under_way).get(input) == Some(&stamp)
    }
}

impl Taker {
    /// Works until the loop has ended and nothing waits.
    pub(super) fn run(self) {
        for errand in self.errands {
            errand.run();
            let mut under_way = lock(&self.under_way);
            // A newer state of it may wait already.
            if under_way.get(&errand.input) == Some(&errand.stamp) {
                under_way.remove(&errand.input);
            }
        }
    }
}

fn lock(under_way: &UnderWay) -> MutexGuard<'_, HashMap<PathBuf, Stamp>> {
    under_way.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn who_gives_an_errand_does_not_wait_for_it() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        // Opening a pipe waits for its other end, as a slow disk would have it.
        let pipe = at("slow.png");
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
        let errand = |name: &str, output: PathBuf| {
            fs::write(at(name), name).unwrap();
            let stamp = Stamp::of(&fs::metadata(at(name)).unwrap(), true);
            let way = Way::Done { after: After::Move(at("moved")), output };
            Errand { input: at(name), below: name.into(), stamp, way }
        };
        let (first, second) = (errand("a.png", pipe.clone()), errand("b.png", at("c.png")));
        let (a, b) = (first.stamp, second.stamp);
        fs::write(at("c.png"), "output").unwrap();

        let (leaving, taker) = leaving();
        let thread = std::thread::spawn(|| taker.run());
        leaving.give(first);
        leaving.give(second);
        assert!(leaving.is_under_way(&at("a.png"), a) && leaving.is_under_way(&at("b.png"), b));
        assert!(!leaving.is_under_way(&at("a.png"), b));

        drop(fs::OpenOptions::new().write(true).open(&pipe).unwrap());
        let under_way = Arc::clone(&leaving.under_way);
        drop(leaving);
        thread.join().unwrap();
        assert!(lock(&under_way).is_empty());
        // A pipe cannot be made durable.
        assert!(at("a.png").exists() && !at("moved/a.png").exists());
        assert!(!at("b.png").exists() && at("moved/b.png").exists());
    }
}
