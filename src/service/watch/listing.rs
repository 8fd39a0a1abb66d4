//! The listings of watched folders: checks at an interval, the queue of folders to list, and the
//! entries found in them.

use std::fs::{self, Metadata};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Instant;

use walkdir::WalkDir;

use super::notifier::NotWatched;
use super::root::Root;
use super::{Known, Note, Watch, is_leftover};
use crate::fs::paths::{Identity, Shown, are_same};
use crate::selection::{Choice, Links, is_hidden};

/// The most entries listed in one turn, to keep messages from waiting for a long listing.
pub(super) const ENTRIES_A_TURN: usize = 256;

/// A recursive listing of a folder.
#[derive(Debug)]
pub(super) struct Walk {
    pub(super) root: usize,
    pub(super) folder: PathBuf,
    pub(super) entries: Option<walkdir::IntoIter>,
}

impl Watch {
    /// Lists a folder that appeared below a watched one.
    pub(super) fn enter(&mut self, folder: PathBuf) {
        // Watched folders below it lost their watches together with the folder that had its path
        // before, and the listing of another folder may not reach them.
        for number in 0..self.roots.len() {
            if self.roots[number].path.starts_with(&folder) && self.roots[number].path != folder {
                self.list(number);
            }
        }
        let Some(root) = self.way_to(&folder) else { return };
        if folder == self.roots[root].path {
            return self.list(root);
        }
        self.queue(root, folder);
    }

    /// Queues a folder to be listed after the waiting ones, unless one of their listings will reach
    /// it anyway.
    pub(super) fn queue(&mut self, root: usize, folder: PathBuf) {
        if self.roots[root].awaits(&folder) {
            return;
        }
        self.roots[root].waiting.insert(folder.clone());
        self.walks.push_back(Walk { root, folder, entries: None });
    }

    fn has_other_mounts(&mut self) -> bool {
        let Some(notifier) = &self.notifier else { return false };
        let folders = self.roots.iter().map(|root| root.path.as_path());
        // Both are checked, and thereby reset: either may be reported first.
        self.mounts.changed(folders) | notifier.take_unmounted()
    }

    /// Checks whether the watched folders exist, and which of them are to be listed.
    pub(super) fn check(&mut self, now: Instant) {
        if self.has_other_mounts() {
            self.notes.push(Note::Info(
                "file systems were mounted or unmounted; all folders are listed again".into(),
            ));
            self.roots.iter_mut().for_each(|root| root.next_listing = now);
        }
        for number in 0..self.roots.len() {
            let root = &mut self.roots[number];
            let found =
                fs::metadata(&root.path).ok().filter(Metadata::is_dir).map(|folder| Identity::of(&folder));
            if found != root.identity {
                if root.identity.is_some() {
                    self.notes.push(Note::Warning(format!("{} is gone or was replaced", Shown(&root.path))));
                    self.settle.gone_below(&root.path);
                    self.notifier.iter().for_each(|notifier| notifier.leave(&root.path));
                }
                root.identity = found;
                root.next_listing = now;
                if found.is_some() {
                    root.get_to_know(self.options.poll.is_some() || self.notifier.is_none());
                    let how = if root.polled { " by listing it" } else { "" };
                    self.notes.push(Note::Info(format!("watching {}{how}", Shown(&root.path))));
                }
            }
            for folder in root.denied_until(now) {
                let watched = self.notifier.as_ref().map(|notifier| notifier.watch(&folder));
                match watched {
                    Some(Err(NotWatched::Denied)) => self.roots[number].met_denial(&folder, now),
                    // Only a full listing finds that it can be listed again.
                    _ if folder == self.roots[number].path => self.roots[number].next_listing = now,
                    _ => self.enter(folder),
                }
            }
            let root = &mut self.roots[number];
            if root.identity.is_some() && root.next_listing <= now {
                root.next_listing = now + root.interval(&self.options);
                self.list(number);
            }
        }
    }

    pub(super) fn list(&mut self, number: usize) {
        let root = &mut self.roots[number];
        if root.listing {
            root.again |= !root.awaits(&root.path);
        } else {
            root.listing = true;
            let folder = root.path.clone();
            self.queue(number, folder);
        }
    }

    /// Continues the first listing.
    pub(super) fn walk(&mut self, known: Known<'_>, now: Instant) {
        let Some(mut walk) = self.walks.pop_front() else { return };
        let follow = self.options.selection.links != Links::Never;
        let mut entries = walk.entries.take().unwrap_or_else(|| {
            self.begun(&walk);
            WalkDir::new(&walk.folder).follow_links(follow).into_iter()
        });
        for _ in 0..ENTRIES_A_TURN {
            match entries.next() {
                // A watched folder may itself be a link, and walkdir then reports it as one.
                Some(Ok(entry)) if entry.file_type().is_dir() || entry.depth() == 0 => {
                    if codec::multiscales::is_image_folder(entry.path()) {
                        self.notes.extend(self.left_out.note_image(entry.path()));
                        entries.skip_current_dir();
                    } else if self.enters(entry.path(), &self.roots[walk.root].path) {
                        self.watch(entry.path(), walk.root, now);
                    } else {
                        self.note_left_out(entry.path(), true);
                        entries.skip_current_dir();
                    }
                }
                Some(Ok(entry)) => self.found(entry.path(), known, now),
                Some(Err(error)) => self.not_listed(&error, &walk, now),
                None => return self.walked(&walk),
            }
        }
        walk.entries = Some(entries);
        self.walks.push_front(walk);
    }

    fn begun(&mut self, walk: &Walk) {
        let root = &mut self.roots[walk.root];
        root.waiting.remove(&walk.folder);
        if walk.folder == root.path {
            root.begin();
        }
    }

    fn walked(&mut self, walk: &Walk) {
        let root = &mut self.roots[walk.root];
        if walk.folder == root.path {
            self.listed = true;
            if root.end() {
                let note = format!("all folders in {} are watched again", Shown(&root.path));
                self.notes.push(Note::Info(note));
            }
            if std::mem::take(&mut root.again) {
                self.list(walk.root);
            }
        }
    }

    fn found(&mut self, path: &Path, known: Known<'_>, now: Instant) {
        if is_leftover(path) {
            self.leftovers.push(path.to_owned());
        } else if !self.takes_name(path) {
            self.note_left_out(path, false);
        } else if let Some((metadata, root)) = self.file(path) {
            if let Some(below) = self.below(path)
                && !known(path, below, root.stamp(&metadata))
            {
                self.settle.listed(path, root.seen(path, &metadata), now);
            }
        } else {
            self.note_left_out(path, false);
        }
    }

    /// Returns whether a listing enters a folder: the watched folder `root` itself, or one below
    /// it.
    pub(super) fn enters(&self, folder: &Path, root: &Path) -> bool {
        let Ok(below) = folder.strip_prefix(root) else { return false };
        if below.as_os_str().is_empty() {
            return true;
        }
        let follows = || !folder.is_symlink() || self.follows(folder) && !leads_back(folder, root);
        !is_hidden(folder)
            && self.options.selection.folder(below) == Choice::Taken
            && follows()
            && !self.options.excluded.iter().any(|excluded| are_same(excluded, folder))
    }

    fn watch(&mut self, folder: &Path, root: usize, now: Instant) {
        let Some(notifier) = self.notifier.as_ref().filter(|_| !self.roots[root].polled) else { return };
        match notifier.watch(folder) {
            Ok(()) | Err(NotWatched::Gone) => {}
            // The listing reports it.
            Err(NotWatched::Denied) => self.roots[root].met_denial(folder, now),
            Err(why) => self.not_watched(folder, root, &why, now),
        }
    }

    pub(super) fn not_watched(&mut self, folder: &Path, root: usize, why: &NotWatched, now: Instant) {
        // There is one limit for all folders, and one report of it.
        let is_known = self.roots.iter().any(Root::is_short_of_watches);
        let root = &mut self.roots[root];
        let is_news = if matches!(why, NotWatched::Limit) {
            root.met_limit(&self.options, now);
            !is_known
        } else {
            root.met_closed(folder)
        };
        if is_news {
            let often = root.interval(&self.options).as_secs();
            let note = format!("{}: {why}; it is listed every {often} s instead", Shown(folder));
            self.notes.push(Note::Warning(note));
        }
    }

    pub(super) fn not_listed(&mut self, error: &walkdir::Error, walk: &Walk, now: Instant) {
        // Link loops have no I/O error.
        let Some(why) = error.io_error().filter(|why| why.kind() != ErrorKind::NotFound) else { return };
        let path = error.path().unwrap_or(&walk.folder);
        self.roots[walk.root].met_denial(path, now);
        if self.roots[walk.root].met_closed(path) {
            self.notes.push(Note::Warning(format!("not listed: {}: {why}", Shown(path))));
        }
    }
}

/// Returns whether a link leads to a folder that contains it, which a walk that starts below that
/// folder cannot know.
fn leads_back(link: &Path, root: &Path) -> bool {
    let mut above = link.ancestors().skip(1).take_while(|above| above.starts_with(root));
    above.any(|above| are_same(above, link))
}
