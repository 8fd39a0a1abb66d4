//! A folder that the user wants watched.

use std::collections::HashSet;
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::Options;
use crate::source::filesystem::FileSystem;

/// How often a folder on a shared file system is listed, unless the user says.
pub(super) const POLL: Duration = Duration::from_secs(5);
/// How often a folder is listed in which some have no watch.
const WITHOUT_WATCHES: Duration = Duration::from_secs(30);

/// Device and inode number: which folder a name leads to.
pub(super) type Identity = (u64, u64);
/// That of none.
pub(super) const NO_FOLDER: Identity = (0, 0);

pub(super) fn identity(metadata: &Metadata) -> Identity {
    (metadata.dev(), metadata.ino())
}

/// A folder, and how it stands with its listings.
#[derive(Debug)]
pub(super) struct Root {
    pub(super) path: PathBuf,
    /// Which folder was listed last; none while there is none.
    pub(super) identity: Option<Identity>,
    pub(super) file_system: FileSystem,
    pub(super) polled: bool,
    pub(super) next_listing: Instant,
    /// A listing is under way or waits to be.
    pub(super) listing: bool,
    /// Another one has to follow it.
    pub(super) again: bool,
    /// Folders in it, or all of it, whose listing has not begun.
    pub(super) waiting: HashSet<PathBuf>,
    /// What was in the way of the last whole listing, and since.
    known: Obstacles,
    /// What was in the way since the last whole listing began.
    met: Obstacles,
}

/// What keeps folders from being watched and listed.
#[derive(Debug, Default)]
struct Obstacles {
    /// The kernel had no watch for one of them.
    limit: bool,
    /// These could not be listed, or not be watched for a cause of their own.
    closed: HashSet<PathBuf>,
}

impl Root {
    pub(super) fn new(path: PathBuf, now: Instant) -> Self {
        Self {
            path,
            identity: None,
            file_system: FileSystem { shared: false, lasting_inodes: true },
            polled: false,
            next_listing: now,
            listing: false,
            again: false,
            waiting: HashSet::new(),
            known: Obstacles::default(),
            met: Obstacles::default(),
        }
    }

    pub(super) fn get_to_know(&mut self, without_messages: bool) {
        self.file_system = FileSystem::of(&self.path).unwrap_or(self.file_system);
        self.polled = without_messages || self.file_system.shared;
    }

    /// How often it is listed.
    pub(super) fn interval(&self, options: &Options) -> Duration {
        match options.poll {
            Some(poll) => poll,
            None if self.polled => POLL,
            None if self.known.limit => options.rescan.min(WITHOUT_WATCHES),
            None => options.rescan,
        }
    }

    /// Whether a folder in it has no watch for lack of them.
    pub(super) fn is_short_of_watches(&self) -> bool {
        self.known.limit
    }

    /// Whether a listing that has not begun will come to a folder.
    pub(super) fn awaits(&self, folder: &Path) -> bool {
        folder.ancestors().any(|above| self.waiting.contains(above))
    }

    /// There was no watch for a folder in it, so that the next listing has to come sooner.
    pub(super) fn met_limit(&mut self, options: &Options, now: Instant) {
        self.known.limit = true;
        self.met.limit = true;
        self.next_listing = self.next_listing.min(now + self.interval(options));
    }

    /// A folder in it can be listed or watched no more, or not yet. Returns whether that is news.
    pub(super) fn met_closed(&mut self, folder: &Path) -> bool {
        self.met.closed.insert(folder.to_owned());
        self.known.closed.insert(folder.to_owned())
    }

    /// A listing of all of it begins.
    pub(super) fn begin(&mut self) {
        self.met = Obstacles::default();
    }

    /// A listing of all of it has ended. Returns whether all folders are watched again that lacked a watch.
    pub(super) fn end(&mut self) -> bool {
        self.listing = false;
        let before = std::mem::replace(&mut self.known, std::mem::take(&mut self.met));
        before.limit && !self.known.limit
    }
}
