//! Watches folders: feeds a [`Settle`] machine with the kernel's messages, with listings, and with checks of single files.
//!
//! Messages make things faster, but are never relied on alone: everything is listed at the start, whenever messages were lost, when a
//! folder comes back, when something is mounted or unmounted, and at an interval. File systems that other machines write to are only
//! listed. A folder is watched first and listed afterwards, so that nothing is missed in between.

mod left_out;
pub(crate) mod mounts;
pub mod notifier;
mod root;
pub mod settle;
pub mod writer;

use std::collections::VecDeque;
use std::fs::{self, Metadata};
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, never};
use walkdir::WalkDir;

use self::left_out::LeftOut;
use self::root::{POLL, Root};
use crate::fs::input::InputRoots;
use crate::fs::paths::{Identity, Shown, are_same};
use crate::fs::stamp::Stamp;
use crate::selection::{Choice, Links, Selection, is_hidden, is_of_folder_settings, promises_a_picture};
use crate::service::watch::mounts::Mounts;
use crate::service::watch::notifier::{NotWatched, Notifier, Signal};
use crate::service::watch::settle::{Doubt, Seen, Settle};
use crate::service::watch::writer::Writer;
use crate::source::holes;

/// How often to check whether the watched folders themselves exist.
const CHECK: Duration = Duration::from_secs(1);
/// How often at most the log says that events were lost.
const LOST_NOTE: Duration = Duration::from_secs(60);
/// The most entries listed in one turn, so that messages never wait for a long listing.
const ENTRIES_A_TURN: usize = 256;
/// The most messages handled in one turn, unless messages were lost.
const SIGNALS_A_TURN: usize = 1024;

/// What is watched, and how.
#[derive(Clone, Debug)]
pub struct Options {
    /// Which files and folders below the watched ones are taken.
    pub selection: Selection,
    /// Folders that are never entered: those that histeqd writes to.
    pub excluded: Vec<PathBuf>,
    /// Where what links lead to has to lie, if not all are followed.
    pub roots: InputRoots,
    /// How often everything is listed even though messages arrive.
    pub rescan: Duration,
    /// If set, everything is listed at this interval instead, without any messages.
    pub poll: Option<Duration>,
}

/// A recursive listing of a folder.
#[derive(Debug)]
struct Walk {
    root: usize,
    folder: PathBuf,
    entries: Option<walkdir::IntoIter>,
}

/// A sentence for the user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Note {
    /// Something to know.
    Info(String),
    /// Something that the user may want to change.
    Warning(String),
}

/// Says whether a file in a certain state needs no more attention, given its path, its path below the watched folder, and its stamp.
pub type Known<'a> = &'a mut dyn FnMut(&Path, &Path, Stamp) -> bool;

/// The prefix that an input's name gets while it is being removed: for an instant, or until the next start if the process is killed in that
/// instant.
pub const REMOVING: &str = ".histeqd-done-";

/// The watched folders.
#[derive(Debug)]
pub struct Watch {
    options: Options,
    roots: Vec<Root>,
    notifier: Option<Notifier>,
    mounts: Mounts,
    walks: VecDeque<Walk>,
    next_check: Instant,
    notes: Vec<Note>,
    next_lost_note: Instant,
    leftovers: Vec<PathBuf>,
    left_out: LeftOut,
    /// Whether a listing of all of a watched folder has ended.
    listed: bool,
}

impl Watch {
    /// Starts watching `folders`, which are absolute paths and need not exist yet.
    pub fn start(folders: Vec<PathBuf>, options: Options, now: Instant) -> Self {
        let mut notes = Vec::new();
        let notifier = if options.poll.is_some() { None } else { notifier(&mut notes) };
        let missing = folders.iter().filter(|folder| !folder.is_dir());
        let not_there = |path| {
            Note::Warning(format!("{} does not exist; it will be watched once it appears", Shown(path)))
        };
        notes.extend(missing.map(not_there));
        let roots = folders.into_iter().map(|path| Root::new(path, now)).collect();
        Self {
            options,
            roots,
            notifier,
            mounts: Mounts::new(),
            walks: VecDeque::new(),
            next_check: now,
            notes,
            next_lost_note: now,
            leftovers: Vec::new(),
            left_out: LeftOut::default(),
            listed: false,
        }
    }

    /// Returns a receiver that becomes ready when there is something to do before [`Watch::next_turn`].
    pub fn signals(&self) -> Receiver<Signal> {
        self.notifier.as_ref().map_or_else(never, |notifier| notifier.signals().clone())
    }

    /// Returns when the next turn is needed at the latest.
    pub fn next_turn(&self, now: Instant) -> Instant {
        if self.walks.is_empty() { self.next_check } else { now }
    }

    /// Returns whether a listing is under way.
    pub fn is_listing(&self) -> bool {
        !self.walks.is_empty()
    }

    /// Returns what the user should know, since the last call.
    pub fn take_notes(&mut self) -> Vec<Note> {
        std::mem::take(&mut self.notes)
    }

    /// Returns the files found with the prefix [`REMOVING`], since the last call.
    pub fn take_leftovers(&mut self) -> Vec<PathBuf> {
        std::mem::take(&mut self.leftovers)
    }

    /// Returns whether a listing of all of a watched folder has ended since the last call.
    pub fn take_listed(&mut self) -> bool {
        std::mem::take(&mut self.listed)
    }

    /// Continues with other options. Whether there are messages at all stays as it was.
    pub fn reconfigure(&mut self, options: Options, now: Instant) {
        self.options = options;
        self.left_out = LeftOut::default();
        self.list_all(now);
    }

    /// Returns the watched folders that do not exist, or cannot be listed.
    pub fn missing(&self) -> impl Iterator<Item = &Path> {
        let is_missing = |root: &&Root| root.identity.is_none() || root.is_closed();
        self.roots.iter().filter(is_missing).map(|root| root.path.as_path())
    }

    /// Returns the watched folders that are empty, as a mount point is before the mount.
    pub fn empty(&self) -> impl Iterator<Item = &Path> {
        let is_empty = |path: &&Path| fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_none());
        self.roots.iter().map(|root| root.path.as_path()).filter(is_empty)
    }

    /// Has everything listed soon.
    pub fn list_all(&mut self, now: Instant) {
        self.roots.iter_mut().for_each(|root| root.next_listing = now);
        self.next_check = now;
    }

    /// Returns the path of a file below the watched folder that it lies in.
    pub fn below<'p>(&self, path: &'p Path) -> Option<&'p Path> {
        self.roots.iter().find_map(|root| path.strip_prefix(&root.path).ok())
    }

    /// Returns the watched folder that a file lies in.
    pub fn root_of(&self, path: &Path) -> Option<&Path> {
        self.roots.iter().map(|root| root.path.as_path()).find(|root| path.starts_with(root))
    }

    /// Returns whether a folder is a watched one, by whatever path, or will be once it is there.
    pub fn is_watched(&self, folder: &Path) -> bool {
        self.roots.iter().any(|root| are_same(&root.path, folder))
    }

    /// Returns the folders that are never entered.
    pub fn excluded(&self) -> impl Iterator<Item = &Path> {
        self.options.excluded.iter().map(PathBuf::as_path)
    }

    /// Returns the current state of a file; `None` if it is not a file any more.
    pub fn look(&self, path: &Path) -> Option<Seen> {
        self.file(path).map(|(metadata, root)| Seen { doubt: doubt(path), ..root.seen(path, &metadata) })
    }

    /// Returns whether a link is followed.
    fn follows(&self, link: &Path) -> bool {
        match self.options.selection.links {
            Links::Follow => true,
            Links::Inside => self.options.roots.have(link),
            Links::Never => false,
        }
    }

    fn file(&self, path: &Path) -> Option<(Metadata, &Root)> {
        let mut metadata = fs::symlink_metadata(path).ok()?;
        if metadata.is_symlink() {
            metadata = fs::metadata(path).ok().filter(|_| self.follows(path))?;
        }
        if !metadata.is_file() {
            return None;
        }
        let root = self.roots.iter().find(|root| path.starts_with(&root.path))?;
        Some((metadata, root))
    }

    /// Does one piece of the pending work: handles `first` and other signals, looks at files that are due, and continues a listing.
    pub fn turn(&mut self, first: Option<Signal>, settle: &mut Settle, known: Known<'_>, now: Instant) {
        let lost = self.notifier.as_ref().is_some_and(Notifier::take_lost);
        let others = self.signals();
        // Messages from before the loss are all handled first: they may announce writers whose close was lost.
        let count = if lost { others.len() } else { others.len().min(SIGNALS_A_TURN) };
        for signal in first.into_iter().chain(others.try_iter().take(count)) {
            self.signal(signal, settle, now);
        }
        if lost {
            if self.next_lost_note <= now {
                self.notes.push(Note::Info(
                    "too many file events at once, some were lost; all folders are listed again".into(),
                ));
                self.next_lost_note = now + LOST_NOTE;
            }
            settle.lost_sight(now);
            self.list_all(now);
        }
        if self.next_check <= now {
            self.check(settle, now);
            self.next_check = now + CHECK;
        }
        while let Some(path) = settle.due(now) {
            let seen = self.look(&path);
            settle.looked(&path, seen, now);
        }
        self.walk(settle, known, now);
    }

    fn signal(&mut self, signal: Signal, settle: &mut Settle, now: Instant) {
        self.folders_with_other_settings(&signal).into_iter().for_each(|folder| self.list_below(&folder));
        match signal {
            Signal::Gone(path) => self.gone(path, settle),
            Signal::Folder(path) => self.enter(path),
            // If what was created is a folder, the name is a link to one.
            Signal::Moved { to: folder, .. } | Signal::Created(folder) if folder.is_dir() => {
                settle.gone(&folder);
                self.enter(folder);
            }
            Signal::Created(ref path) | Signal::Written(ref path) if self.takes(path) => {
                // Links are created without being opened, so no close follows. What a writer creates is empty at first, and the message of
                // what it has written since is on its way.
                let is_created = matches!(signal, Signal::Created(_));
                match fs::symlink_metadata(path) {
                    Ok(metadata) if metadata.is_symlink() || is_created && metadata.len() > 0 => {
                        self.let_settle(path, settle, now);
                    }
                    Ok(metadata) if metadata.is_file() => settle.touched(path, now),
                    _ => {}
                }
            }
            Signal::Moved { to: path, from } if self.takes(&path) => match self.look(&path) {
                // Somebody has it open, or may have had it open: it was put back because it had changed.
                Some(seen) if seen.writer == Writer::Present || from.as_deref().is_some_and(is_leftover) => {
                    settle.listed(&path, seen, now);
                }
                Some(seen) => settle.complete(&path, seen.stamp, seen.doubt, now),
                None => settle.gone(&path),
            },
            // The kernel tells that a file was closed a little before it is, so this is no time to ask for writers.
            Signal::Closed(path) if self.takes(&path) => match self.file(&path) {
                Some((metadata, root)) => settle.complete(&path, root.stamp(&metadata), doubt(&path), now),
                None => settle.gone(&path),
            },
            Signal::Closed(path) | Signal::Moved { to: path, .. } => self.note_left_out(&path, false),
            Signal::Created(_) | Signal::Written(_) => {}
        }
    }

    /// Returns the folders whose files with settings are others by now, as far as a message tells.
    fn folders_with_other_settings(&self, signal: &Signal) -> Vec<PathBuf> {
        let paths = match signal {
            Signal::Closed(path) | Signal::Gone(path) => [Some(path), None],
            Signal::Moved { to, from } => [Some(to), from.as_ref()],
            // A link is created and never closed.
            Signal::Created(path) if path.is_symlink() => [Some(path), None],
            Signal::Created(_) | Signal::Written(_) | Signal::Folder(_) => [None, None],
        };
        let of_settings = paths.into_iter().flatten().filter(|path| is_of_folder_settings(path));
        of_settings.filter_map(|path| path.parent()).map(Path::to_owned).collect()
    }

    /// Has a folder listed, if it is one that a listing reaches: something else is to be done with what is in it.
    pub fn list_below(&mut self, folder: &Path) {
        match self.way_to(folder) {
            Some(root) if folder == self.roots[root].path => self.list(root),
            Some(root) => self.queue(root, folder.to_owned()),
            None => {}
        }
    }

    /// Lets a file rest that exists, but that no message says is complete.
    fn let_settle(&mut self, path: &Path, settle: &mut Settle, now: Instant) {
        match self.look(path) {
            Some(seen) => settle.listed(path, seen, now),
            None => self.note_left_out(path, false),
        }
    }

    /// Handles a path that was removed or moved away, and may lead to something else by now.
    fn gone(&mut self, path: PathBuf, settle: &mut Settle) {
        match fs::metadata(&path) {
            Ok(metadata) if metadata.is_dir() => self.enter(path),
            Ok(_) => {}
            Err(_) => {
                settle.gone(&path);
                settle.gone_below(&path);
                // A new folder at this path may get the inode number of the old one, but has no watch.
                for root in self.roots.iter_mut().filter(|root| root.path == path && root.identity.is_some())
                {
                    root.identity = Some(Identity::NOTHING);
                }
            }
        }
    }

    /// Returns whether a path in a watched folder is to be taken. The folders above it are checked too, because messages come from all
    /// folders that were ever entered, whatever the options are by now.
    pub fn takes(&self, path: &Path) -> bool {
        self.takes_name(path) && path.parent().is_some_and(|folder| self.way_to(folder).is_some())
    }

    fn takes_name(&self, path: &Path) -> bool {
        self.below(path).is_some_and(|below| !is_hidden(path) && self.options.selection.takes_file(below))
    }

    /// Tells the user of a file or folder, if it is left out for its reserved name or is a link that is not followed.
    fn note_left_out(&mut self, path: &Path, is_folder: bool) {
        let Some(below) = self.below(path).filter(|_| !is_hidden(path)) else { return };
        let selection = &self.options.selection;
        let choice = if is_folder { selection.folder(below) } else { selection.file(below) };
        match choice {
            Choice::LeftOut(name) => self.notes.extend(self.left_out.note(path, name)),
            Choice::Taken if path.is_symlink() && !self.follows(path) => {
                self.notes.extend(self.left_out.note_link(path));
            }
            Choice::Taken | Choice::NotSelected => {}
        }
    }

    /// Returns the index of the watched folder whose listing reaches `folder`.
    fn way_to(&self, folder: &Path) -> Option<usize> {
        self.roots.iter().position(|root| {
            let mut way = folder.ancestors().take_while(|above| above.starts_with(&root.path));
            folder.starts_with(&root.path) && way.all(|above| self.enters(above, &root.path))
        })
    }

    /// Lists a folder that appeared below a watched one.
    fn enter(&mut self, folder: PathBuf) {
        // Watched folders below it lost their watches together with the folder that had its path before, and the listing of another folder
        // may not reach them.
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

    /// Has a folder listed after those that wait, unless one of their listings will reach it anyway.
    fn queue(&mut self, root: usize, folder: PathBuf) {
        if self.roots[root].awaits(&folder) {
            return;
        }
        self.roots[root].waiting.insert(folder.clone());
        self.walks.push_back(Walk { root, folder, entries: None });
    }

    fn has_other_mounts(&mut self) -> bool {
        let Some(notifier) = &self.notifier else { return false };
        let folders = self.roots.iter().map(|root| root.path.as_path());
        // Both are asked, and so reset: either may be reported first.
        self.mounts.changed(folders) | notifier.take_unmounted()
    }

    /// Checks whether the watched folders exist, and which of them are to be listed.
    fn check(&mut self, settle: &mut Settle, now: Instant) {
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
                    settle.gone_below(&root.path);
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
                    // Only a listing of all of it finds that it can be listed again.
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

    fn list(&mut self, number: usize) {
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
    fn walk(&mut self, settle: &mut Settle, known: Known<'_>, now: Instant) {
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
                    if self.enters(entry.path(), &self.roots[walk.root].path) {
                        self.watch(entry.path(), walk.root, now);
                    } else {
                        self.note_left_out(entry.path(), true);
                        entries.skip_current_dir();
                    }
                }
                Some(Ok(entry)) => self.found(entry.path(), settle, known, now),
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

    fn found(&mut self, path: &Path, settle: &mut Settle, known: Known<'_>, now: Instant) {
        if is_leftover(path) {
            self.leftovers.push(path.to_owned());
        } else if !self.takes_name(path) {
            self.note_left_out(path, false);
        } else if let Some((metadata, root)) = self.file(path) {
            if let Some(below) = self.below(path)
                && !known(path, below, root.stamp(&metadata))
            {
                settle.listed(path, root.seen(path, &metadata), now);
            }
        } else {
            self.note_left_out(path, false);
        }
    }

    /// Returns whether a listing enters a folder: the watched folder `root` itself, or one below it.
    fn enters(&self, folder: &Path, root: &Path) -> bool {
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

    fn not_watched(&mut self, folder: &Path, root: usize, why: &NotWatched, now: Instant) {
        // There is one limit for all folders, so it is reported once.
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

    fn not_listed(&mut self, error: &walkdir::Error, walk: &Walk, now: Instant) {
        // Link loops have no I/O error.
        let Some(why) = error.io_error().filter(|why| why.kind() != ErrorKind::NotFound) else { return };
        let path = error.path().unwrap_or(&walk.folder);
        self.roots[walk.root].met_denial(path, now);
        if self.roots[walk.root].met_closed(path) {
            self.notes.push(Note::Warning(format!("not listed: {}: {why}", Shown(path))));
        }
    }
}

fn notifier(notes: &mut Vec<Note>) -> Option<Notifier> {
    let note = |why: &String| Note::Warning(format!("folders are listed every {} s: {why}", POLL.as_secs()));
    Notifier::new().inspect_err(|why| notes.push(note(why))).ok()
}

/// Returns what speaks against a file's being complete.
fn doubt(path: &Path) -> Doubt {
    if holes::are_in(path) {
        Doubt::Holes
    } else if promises_a_picture(path) {
        Doubt::None
    } else {
        Doubt::Name
    }
}

/// Returns whether a link leads to a folder that contains it, which a walk that starts below that folder cannot know.
fn leads_back(link: &Path, root: &Path) -> bool {
    let mut above = link.ancestors().skip(1).take_while(|above| above.starts_with(root));
    above.any(|above| are_same(above, link))
}

fn is_leftover(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.as_bytes().starts_with(REMOVING.as_bytes()))
}

#[cfg(test)]
mod tests;
