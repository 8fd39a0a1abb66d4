//! The kernel's inotify messages about watched folders, reduced to the relevant ones.

mod watches;

use std::ffi::OsStr;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, TrySendError, bounded};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags};
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};

use self::watches::Watches;

/// Capacity of the queue of messages. When it overflows, messages count as lost, and the folders
/// are listed instead.
const WAITING: usize = 16 * 1024;
/// Bytes read at once: about a hundred messages of the greatest length, 17 bytes and the longest
/// name.
const BUFFER: usize = 32 * 1024;
/// How long to pause after the kernel refused a read.
const REFUSED: Duration = Duration::from_secs(1);

/// An event at a path in a watched folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Signal {
    /// A file was created; its creator may continue to write to it.
    Created(PathBuf),
    /// A file was written to.
    Written(PathBuf),
    /// A writer closed a file.
    Closed(PathBuf),
    /// A file or folder was moved to a path in a watched folder.
    Moved {
        /// Its new path.
        to: PathBuf,
        /// Its old path, if that was in a watched folder.
        from: Option<PathBuf>,
    },
    /// A folder was created.
    Folder(PathBuf),
    /// A file or folder was removed, or moved away.
    Gone(PathBuf),
}

/// Why a folder is not watched.
#[derive(Debug, thiserror::Error)]
pub enum NotWatched {
    /// The user's limit on watches is reached.
    #[error(
        "the limit on watched folders is reached; raise it with sysctl fs.inotify.max_user_watches=1048576"
    )]
    Limit,
    /// The folder does not exist any more.
    #[error("it is gone")]
    Gone,
    /// The folder may not be read.
    #[error("it may not be read")]
    Denied,
    /// Another error.
    #[error("{0}")]
    Other(io::Error),
}

impl From<Errno> for NotWatched {
    fn from(error: Errno) -> Self {
        match error {
            Errno::NOSPC => Self::Limit,
            Errno::NOENT | Errno::NOTDIR => Self::Gone,
            Errno::ACCESS => Self::Denied,
            error => Self::Other(error.into()),
        }
    }
}

/// Watches single folders, not the folders below them.
#[derive(Debug)]
pub struct Notifier {
    shared: Arc<Shared>,
    signals: Receiver<Signal>,
    /// The listening thread ends when this is closed.
    _end: OwnedFd,
}

impl Notifier {
    /// Creates a notifier without watches.
    ///
    /// # Errors
    /// When the user's limit on notifiers or threads is reached. The error is a sentence that names
    /// the remedy if there is one.
    pub fn new() -> Result<Self, String> {
        let kernel = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK).map_err(|error| {
            format!(
                "cannot create an inotify instance ({error}); raise the limit with sysctl fs.inotify.max_user_instances=1024"
            )
        })?;
        let (sender, signals) = bounded(WAITING);
        let shared = Arc::new(Shared::new(kernel));
        let mut listener = Listener { shared: Arc::clone(&shared), signals: sender, left: None };
        let (ended, end) = pipe_with(PipeFlags::CLOEXEC).map_err(|error| error.to_string())?;
        thread::Builder::new()
            .name("inotify".into())
            .spawn(move || listener.listen(&ended))
            .map_err(|error| format!("cannot start a thread ({error})"))?;
        Ok(Self { shared, signals, _end: end })
    }

    /// Returns the receiver of the messages.
    pub fn signals(&self) -> &Receiver<Signal> {
        &self.signals
    }

    /// Returns whether messages were lost since the last call.
    pub fn take_lost(&self) -> bool {
        self.shared.lost.swap(false, Ordering::Relaxed)
    }

    /// Returns whether a file system with watched folders was unmounted since the last call.
    pub fn take_unmounted(&self) -> bool {
        self.shared.unmounted.swap(false, Ordering::Relaxed)
    }

    /// Watches a folder. A path that is already watched is watched again: it may lead to another
    /// folder by now.
    ///
    /// # Errors
    /// Why it is not watched.
    pub fn watch(&self, folder: &Path) -> Result<(), NotWatched> {
        // Held to make messages about the new watch wait until its folder is known.
        let mut watches = self.shared.watches();
        let number = inotify::add_watch(&self.shared.kernel, folder, wanted())?;
        if let Some(other) = watches.insert(number, folder) {
            self.shared.end(other);
        }
        Ok(())
    }

    /// Stops watching a folder and all folders below it.
    pub fn leave(&self, folder: &Path) {
        self.shared.leave(folder);
    }
}

/// Returns the events that the kernel is to report, without those of processes that only open and
/// read.
fn wanted() -> WatchFlags {
    let writing = WatchFlags::MODIFY | WatchFlags::CLOSE_WRITE;
    writing | WatchFlags::CREATE | WatchFlags::DELETE | WatchFlags::MOVE | WatchFlags::ONLYDIR
}

/// The state shared by the listening thread and its owner.
#[derive(Debug)]
struct Shared {
    kernel: OwnedFd,
    watches: Mutex<Watches>,
    lost: AtomicBool,
    unmounted: AtomicBool,
}

impl Shared {
    fn new(kernel: OwnedFd) -> Self {
        let watches = Mutex::default();
        Self { kernel, watches, lost: AtomicBool::new(false), unmounted: AtomicBool::new(false) }
    }

    fn watches(&self) -> MutexGuard<'_, Watches> {
        self.watches.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn end(&self, number: i32) {
        // The kernel may have ended it already.
        let _ = inotify::remove_watch(&self.kernel, number);
    }

    /// Ends the watches of a folder and of all folders below it. The lock is held throughout: for a
    /// folder that was moved, the kernel would return its old watch descriptor again, and that new
    /// watch would be ended here.
    fn leave(&self, folder: &Path) {
        let mut watches = self.watches();
        watches.remove_all(folder).into_iter().for_each(|number| self.end(number));
    }
}

/// A message of the kernel about a watch, or about a name in its folder.
struct Message<'a> {
    number: i32,
    what: ReadFlags,
    /// Connects the two messages of a move.
    cookie: u32,
    name: Option<&'a OsStr>,
}

/// Passes on the kernel's messages.
struct Listener {
    shared: Arc<Shared>,
    signals: Sender<Signal>,
    /// The cookie and the old path of the last move away.
    left: Option<(u32, PathBuf)>,
}

impl Listener {
    /// Listens until the other end of the pipe `ended` is closed.
    fn listen(&mut self, ended: &OwnedFd) {
        let shared = Arc::clone(&self.shared);
        let mut buffer = [MaybeUninit::uninit(); BUFFER];
        let mut reader = inotify::Reader::new(&shared.kernel, &mut buffer);
        while waits(&shared.kernel, ended) {
            loop {
                match reader.next() {
                    Ok(event) => self.hear(&Message {
                        number: event.wd(),
                        what: event.events(),
                        cookie: event.cookie(),
                        name: event.file_name().map(|name| OsStr::from_bytes(name.to_bytes())),
                    }),
                    Err(Errno::AGAIN | Errno::INTR) => break,
                    Err(_) => {
                        self.lost();
                        thread::sleep(REFUSED);
                        break;
                    }
                }
                if reader.is_buffer_empty() {
                    break;
                }
            }
        }
    }

    fn lost(&self) {
        self.shared.lost.store(true, Ordering::Relaxed);
    }

    fn hear(&mut self, told: &Message<'_>) {
        if told.what.contains(ReadFlags::QUEUE_OVERFLOW) {
            return self.lost();
        }
        if let Some(signal) = self.signal(told)
            && let Err(TrySendError::Full(_)) = self.signals.try_send(signal)
        {
            // Waiting here would only make the kernel's queue overflow instead.
            self.lost();
        }
    }

    fn signal(&mut self, told: &Message<'_>) -> Option<Signal> {
        let is = |what| told.what.contains(what);
        // The kernel has ended the watch, or is about to.
        if is(ReadFlags::UNMOUNT) {
            self.shared.watches().remove(told.number)?;
            self.shared.unmounted.store(true, Ordering::Relaxed);
            return None;
        }
        if is(ReadFlags::IGNORED) {
            return self.shared.watches().remove(told.number).map(Signal::Gone);
        }
        let path = self.shared.watches().folder(told.number)?.join(told.name?);
        let is_folder = is(ReadFlags::ISDIR);
        if is(ReadFlags::DELETE) || is(ReadFlags::MOVED_FROM) {
            // It may be a folder, or a link to one. A new folder in its place is watched when its
            // own message arrives.
            self.shared.leave(&path);
        }
        Some(if is(ReadFlags::CLOSE_WRITE) {
            Signal::Closed(path)
        } else if is(ReadFlags::CREATE) {
            if is_folder { Signal::Folder(path) } else { Signal::Created(path) }
        } else if is(ReadFlags::MODIFY) {
            Signal::Written(path)
        } else if is(ReadFlags::MOVED_TO) {
            let left = self.left.take().filter(|(cookie, _)| *cookie == told.cookie);
            Signal::Moved { to: path, from: left.map(|(_, from)| from) }
        } else if is(ReadFlags::MOVED_FROM) {
            self.left = Some((told.cookie, path.clone()));
            Signal::Gone(path)
        } else if is(ReadFlags::DELETE) {
            Signal::Gone(path)
        } else {
            return None;
        })
    }
}

/// Waits for messages. Returns false if the other end of the pipe `ended` was closed.
fn waits(kernel: &OwnedFd, ended: &OwnedFd) -> bool {
    loop {
        let mut both = [PollFd::new(kernel, PollFlags::IN), PollFd::new(ended, PollFlags::IN)];
        match poll(&mut both, None) {
            Err(Errno::INTR) => {}
            // The pipe is never written to: any event on it means that it was closed.
            _ => return both[1].revents().is_empty(),
        }
    }
}

#[cfg(test)]
mod tests;
