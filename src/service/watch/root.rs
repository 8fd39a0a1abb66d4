//! A folder that the user wants watched.

use std::collections::{HashMap, HashSet};
use std::fs::Metadata;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use super::Options;
use crate::fs::filesystem::{FileSystem, Finding};
use crate::fs::paths::Identity;
use crate::fs::stamp::Stamp;
use crate::service::watch::settle::{Doubt, Seen};
use crate::service::watch::writer::Writer;

/// The interval of listings of a folder without messages, such as one on a shared file system,
/// unless the user sets one.
pub(super) const POLL: Duration = Duration::from_secs(5);
/// The interval of listings of a folder while some folders in it have no watch, and of new attempts
/// at unreadable ones.
pub(super) const WITHOUT_WATCHES: Duration = Duration::from_secs(30);
/// The age from which a file is not checked for writers: waiting for them would be given up anyway.
const LONG_AGO: Duration = Duration::from_secs(24 * 3600);

/// A watched folder, and the state of its listings.
#[derive(Debug)]
pub(super) struct Root {
    pub(super) path: PathBuf,
    /// The folder that was last found at `path`; `None` if there was none.
    pub(super) identity: Option<Identity>,
    pub(super) file_system: FileSystem,
    pub(super) polled: bool,
    pub(super) next_listing: Instant,
    /// Whether a listing of all of it is in progress or waiting.
    pub(super) listing: bool,
    /// Whether another one has to follow it.
    pub(super) again: bool,
    /// The folders in it, or itself, that wait in the queue of listings.
    pub(super) waiting: HashSet<PathBuf>,
    /// The folders in it, or itself, that may not or cannot be read, and the time of the next
    /// attempt.
    denied: HashMap<PathBuf, Instant>,
    /// The obstacles met during the last full listing and since.
    known: Obstacles,
    /// The obstacles met since the current full listing began; they replace `known` when it ends.
    met: Obstacles,
}

/// Obstacles to watching or listing folders.
#[derive(Debug, Default)]
struct Obstacles {
    /// Whether the kernel had no watch left for one of them.
    limit: bool,
    /// Folders that could not be listed, or could not be watched for another reason.
    closed: HashSet<PathBuf>,
}

impl Root {
    pub(super) fn new(path: PathBuf, now: Instant) -> Self {
        Self {
            path,
            identity: None,
            file_system: FileSystem { shared: false, lasting_inodes: true, holes: Finding::Seek },
            polled: false,
            next_listing: now,
            listing: false,
            again: false,
            waiting: HashSet::new(),
            denied: HashMap::new(),
            known: Obstacles::default(),
            met: Obstacles::default(),
        }
    }

    pub(super) fn get_to_know(&mut self, without_messages: bool) {
        self.file_system = FileSystem::of(&self.path).unwrap_or(self.file_system);
        self.polled = without_messages || self.file_system.shared;
    }

    /// Returns the stamp of a file in it.
    pub(super) fn stamp(&self, metadata: &Metadata) -> Stamp {
        Stamp::of(metadata, self.file_system.lasting_inodes)
    }

    /// Returns the state of a file in it that was found by listing it, without reasons for doubt.
    pub(super) fn seen(&self, path: &Path, metadata: &Metadata) -> Seen {
        let own_clock = !self.file_system.shared;
        let age = metadata.modified().ok().filter(|_| own_clock);
        let age = age.map(|modified| SystemTime::now().duration_since(modified).unwrap_or_default());
        // The kernel knows only the writers on this machine, and some shared file systems refuse
        // every lease.
        let is_asked = !self.file_system.shared && age.is_none_or(|age| age <= LONG_AGO);
        let writer = if is_asked { Writer::of(path) } else { Writer::Absent };
        Seen { stamp: self.stamp(metadata), age, writer, doubt: Doubt::None }
    }

    /// Returns the interval of its listings.
    pub(super) fn interval(&self, options: &Options) -> Duration {
        match options.poll {
            Some(poll) => poll,
            None if self.polled => POLL,
            None if self.known.limit => options.rescan.min(WITHOUT_WATCHES),
            None => options.rescan,
        }
    }

    /// Returns whether a folder in it has no watch because the limit was reached.
    pub(super) fn is_short_of_watches(&self) -> bool {
        self.known.limit
    }

    /// Returns whether a queued listing that has not begun will reach `folder`.
    pub(super) fn awaits(&self, folder: &Path) -> bool {
        folder.ancestors().any(|above| self.waiting.contains(above))
    }

    /// Records that there was no watch left for a folder in it: the next listing has to come
    /// sooner.
    pub(super) fn met_limit(&mut self, options: &Options, now: Instant) {
        self.known.limit = true;
        self.met.limit = true;
        self.next_listing = self.next_listing.min(now + self.interval(options));
    }

    /// Records that a folder in it may not or cannot be read: it is tried again, as no message
    /// reports when it can be.
    pub(super) fn met_denial(&mut self, folder: &Path, now: Instant) {
        self.denied.insert(folder.to_owned(), now + WITHOUT_WATCHES);
    }

    /// Takes the unreadable folders that are due for another attempt.
    pub(super) fn denied_until(&mut self, now: Instant) -> Vec<PathBuf> {
        self.denied.extract_if(|_, again| *again <= now).map(|(folder, _)| folder).collect()
    }

    /// Returns whether it cannot be listed itself.
    pub(super) fn is_closed(&self) -> bool {
        self.known.closed.contains(&self.path)
    }

    /// Records that a folder in it cannot be listed or watched. Returns whether that is new.
    pub(super) fn met_closed(&mut self, folder: &Path) -> bool {
        self.met.closed.insert(folder.to_owned());
        self.known.closed.insert(folder.to_owned())
    }

    /// Records that a listing of all of it begins.
    pub(super) fn begin(&mut self) {
        self.met = Obstacles::default();
    }

    /// Records that a listing of all of it has ended. Returns whether all folders are watched again
    /// after some had no watch.
    pub(super) fn end(&mut self) -> bool {
        self.listing = false;
        let before = std::mem::replace(&mut self.known, std::mem::take(&mut self.met));
        before.limit && !self.known.limit
    }
}
