//! The kernel's messages about watched folders, in the few words that matter here.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crossbeam_channel::{Receiver, Sender, TrySendError, bounded};
use notify::event::{AccessKind, AccessMode, CreateKind, ModifyKind, RenameMode};
use notify::{ErrorKind, Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher};

/// Messages that may wait. When more come, all of them count as lost, and the folders are listed instead.
const WAITING: usize = 16 * 1024;

/// What happened to a path in a watched folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Signal {
    /// A file was made; whoever made it may go on to write.
    Created(PathBuf),
    /// A file was written to.
    Written(PathBuf),
    /// A writer closed a file.
    Closed(PathBuf),
    /// A file or folder was moved here.
    Moved {
        /// Its path.
        to: PathBuf,
        /// Its path before, if it came from a watched folder.
        from: Option<PathBuf>,
    },
    /// A folder was made.
    Folder(PathBuf),
    /// A file or folder was removed, or moved away.
    Gone(PathBuf),
}

/// Why a folder is not watched.
#[derive(Debug, thiserror::Error)]
pub enum NotWatched {
    /// The kernel gives this user no more watches.
    #[error("the limit on watched folders is reached; raise it: sysctl fs.inotify.max_user_watches=1048576")]
    Limit,
    /// The folder is no more.
    #[error("it is gone")]
    Gone,
    /// Something else.
    #[error("{0}")]
    Other(notify::Error),
}

/// Watches single folders, not what is below them.
#[derive(Debug)]
pub struct Notifier {
    watcher: RecommendedWatcher,
    signals: Receiver<Signal>,
    lost: Arc<AtomicBool>,
}

impl Notifier {
    /// Watches nothing yet. Fails with a sentence that names the remedy.
    pub fn new() -> Result<Self, String> {
        let (sender, signals) = bounded(WAITING);
        let lost = Arc::new(AtomicBool::new(false));
        let mut listener = Listener { signals: sender, lost: Arc::clone(&lost), left: None };
        let watcher = notify::recommended_watcher(move |event| listener.hear(event));
        let watcher = watcher.map_err(|error| {
            format!(
                "the kernel gives no inotify instance ({error}); raise the limit: sysctl fs.inotify.max_user_instances=1024"
            )
        })?;
        Ok(Self { watcher, signals, lost })
    }

    /// The messages.
    pub fn signals(&self) -> &Receiver<Signal> {
        &self.signals
    }

    /// Whether messages were lost since this was last asked.
    pub fn take_lost(&self) -> bool {
        self.lost.swap(false, Ordering::Relaxed)
    }

    /// Watches a folder. One that is watched already is watched anew: it may be another folder by now.
    pub fn watch(&mut self, folder: &Path) -> Result<(), NotWatched> {
        let watched = self.watcher.watch(folder, RecursiveMode::NonRecursive);
        watched.map_err(|error| match &error.kind {
            ErrorKind::MaxFilesWatch => NotWatched::Limit,
            ErrorKind::PathNotFound => NotWatched::Gone,
            ErrorKind::Io(io) if io.kind() == std::io::ErrorKind::NotFound => NotWatched::Gone,
            _ => NotWatched::Other(error),
        })
    }
}

/// Passes on what the kernel says.
struct Listener {
    signals: Sender<Signal>,
    lost: Arc<AtomicBool>,
    /// The last name that was left, by the number of its move.
    left: Option<(usize, PathBuf)>,
}

impl Listener {
    fn hear(&mut self, event: notify::Result<Event>) {
        let signal = match event {
            Ok(event) if !event.need_rescan() => self.signal(event),
            // The kernel's queue was full, or cannot be read.
            _ => return self.lost.store(true, Ordering::Relaxed),
        };
        if let Some(signal) = signal
            && let Err(TrySendError::Full(_)) = self.signals.try_send(signal)
        {
            // Waiting here would block the thread that `watch` waits for.
            self.lost.store(true, Ordering::Relaxed);
        }
    }

    fn signal(&mut self, event: Event) -> Option<Signal> {
        let number = event.tracker();
        let path = event.paths.into_iter().next()?;
        Some(match event.kind {
            EventKind::Access(AccessKind::Close(AccessMode::Write)) => Signal::Closed(path),
            EventKind::Create(CreateKind::Folder) => Signal::Folder(path),
            EventKind::Create(_) => Signal::Created(path),
            EventKind::Modify(ModifyKind::Data(_)) => Signal::Written(path),
            EventKind::Modify(ModifyKind::Name(RenameMode::To)) => {
                let left = self.left.take().filter(|(left, _)| Some(*left) == number);
                Signal::Moved { to: path, from: left.map(|(_, from)| from) }
            }
            EventKind::Modify(ModifyKind::Name(RenameMode::From)) => {
                self.left = number.map(|number| (number, path.clone()));
                Signal::Gone(path)
            }
            EventKind::Remove(_) => Signal::Gone(path),
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::time::Duration;

    fn next(notifier: &Notifier) -> Signal {
        notifier.signals().recv_timeout(Duration::from_secs(5)).unwrap()
    }

    #[test]
    fn what_happens_to_files_and_folders_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join("watched").join(name);
        let elsewhere = folder.path().join("elsewhere");
        fs::create_dir(at("")).unwrap();
        let mut notifier = Notifier::new().unwrap();
        notifier.watch(&folder.path().join("watched")).unwrap();
        fs::write(at("a"), "x").unwrap();
        assert_eq!(next(&notifier), Signal::Created(at("a")));
        assert_eq!(next(&notifier), Signal::Written(at("a")));
        assert_eq!(next(&notifier), Signal::Closed(at("a")));
        fs::rename(at("a"), at("b")).unwrap();
        assert_eq!(next(&notifier), Signal::Gone(at("a")));
        assert_eq!(next(&notifier), Signal::Moved { to: at("b"), from: Some(at("a")) });
        fs::rename(at("b"), &elsewhere).unwrap();
        assert_eq!(next(&notifier), Signal::Gone(at("b")));
        fs::rename(&elsewhere, at("b")).unwrap();
        assert_eq!(next(&notifier), Signal::Moved { to: at("b"), from: None });
        fs::read(at("b")).unwrap();
        fs::create_dir(at("c")).unwrap();
        assert_eq!(next(&notifier), Signal::Folder(at("c")));
        fs::remove_file(at("b")).unwrap();
        assert_eq!(next(&notifier), Signal::Gone(at("b")));
        assert!(!notifier.take_lost());
    }

    #[test]
    fn messages_beyond_the_queue_count_as_lost() {
        let (signals, _signals) = bounded(1);
        let lost = Arc::new(AtomicBool::new(false));
        let mut listener = Listener { signals, lost: Arc::clone(&lost), left: None };
        let event = || Event::new(EventKind::Create(CreateKind::File)).add_path("a".into());
        listener.hear(Ok(event()));
        assert!(!lost.load(Ordering::Relaxed));
        listener.hear(Ok(event()));
        assert!(lost.load(Ordering::Relaxed));
    }

    #[test]
    fn a_folder_that_is_not_there_is_told_from_other_trouble() {
        let mut notifier = Notifier::new().unwrap();
        assert!(matches!(notifier.watch(Path::new("/nowhere/at/all")), Err(NotWatched::Gone)));
    }
}
