//! Watches folders: the kernel's messages, listings and looks at single files go into a [`Settle`] machine.
//!
//! Messages are an accelerator and never the only way: everything is listed at the start, whenever messages were lost,
//! when a folder comes back, and at an interval. On file systems that other machines write to there are listings alone.
//! A folder is watched first and listed after, so that nothing can fall between.

use std::collections::VecDeque;
use std::fs::{self, Metadata};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use crossbeam_channel::{Receiver, never};
use walkdir::WalkDir;

use super::Selection;
use super::filesystem::FileSystem;
use super::notifier::{NotWatched, Notifier, Signal};
use super::settle::{Seen, Settle};
use super::stamp::Stamp;
use crate::paths::Shown;

/// How often a folder on a shared file system is listed, unless the user says.
const POLL: Duration = Duration::from_secs(5);
/// How often it is looked whether the watched folders themselves are there.
const CHECK: Duration = Duration::from_secs(1);
/// What is done in one turn, so that messages never wait for a long listing.
const ENTRIES_A_TURN: usize = 256;
const SIGNALS_A_TURN: usize = 1024;

/// What is watched, and how.
#[derive(Clone, Debug)]
pub struct Options {
    /// Which files and folders below the watched ones are taken.
    pub selection: Selection,
    /// Folders that are never entered: those that histeqd writes to.
    pub excluded: Vec<PathBuf>,
    /// How often everything is listed although messages come.
    pub rescan: Duration,
    /// List at this interval and do without messages.
    pub poll: Option<Duration>,
}

/// Device and inode number: which folder a name leads to.
type Identity = (u64, u64);

/// A folder that the user wants watched.
#[derive(Debug)]
struct Root {
    path: PathBuf,
    /// Which folder was listed last; none while there is none.
    identity: Option<Identity>,
    file_system: FileSystem,
    polled: bool,
    next_listing: Instant,
    /// A listing is under way or waits to be.
    listing: bool,
    /// Another one has to follow it.
    again: bool,
}

/// A listing of a folder and all below.
#[derive(Debug)]
struct Walk {
    root: usize,
    folder: PathBuf,
    entries: Option<walkdir::IntoIter>,
}

/// A sentence for the user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Note {
    /// As it should be.
    Fine(String),
    /// Something that the user may want to change.
    Trouble(String),
}

/// Whether a file in a certain state needs no more attention, by its path, its path below the watched folder, and its stamp.
pub type Known<'a> = &'a mut dyn FnMut(&Path, &Path, Stamp) -> bool;

/// Inputs that are about to be removed have their name behind this one, for an instant, or until the next start if the
/// process is killed in it.
pub const REMOVING: &str = ".histeqd-done-";

/// Watched folders.
#[derive(Debug)]
pub struct Watch {
    options: Options,
    roots: Vec<Root>,
    notifier: Option<Notifier>,
    walks: VecDeque<Walk>,
    next_check: Instant,
    short_of_watches: bool,
    notes: Vec<Note>,
    leftovers: Vec<PathBuf>,
}

impl Watch {
    /// Starts to watch `folders`, absolute paths; they need not exist yet.
    pub fn start(folders: Vec<PathBuf>, options: Options, now: Instant) -> Self {
        let mut notes = Vec::new();
        let notifier = if options.poll.is_some() { None } else { notifier(&mut notes) };
        let missing = folders.iter().filter(|folder| !folder.is_dir());
        let not_there =
            |path| Note::Trouble(format!("{} is not there; it is watched as soon as it is", Shown(path)));
        notes.extend(missing.map(not_there));
        let roots = folders.into_iter().map(|path| Root::new(path, now)).collect();
        Self {
            options,
            roots,
            notifier,
            walks: VecDeque::new(),
            next_check: now,
            short_of_watches: false,
            notes,
            leftovers: Vec::new(),
        }
    }

    /// Becomes readable when there is something to do before [`Watch::next_turn`].
    pub fn signals(&self) -> Receiver<Signal> {
        self.notifier.as_ref().map_or_else(never, |notifier| notifier.signals().clone())
    }

    /// When the next turn is needed at the latest.
    pub fn next_turn(&self, now: Instant) -> Instant {
        if self.walks.is_empty() { self.next_check } else { now }
    }

    /// What the user should know since this was last asked.
    pub fn take_notes(&mut self) -> Vec<Note> {
        std::mem::take(&mut self.notes)
    }

    /// Files named [`REMOVING`] since this was last asked.
    pub fn take_leftovers(&mut self) -> Vec<PathBuf> {
        std::mem::take(&mut self.leftovers)
    }

    /// Goes on with other options. Whether there are messages at all stays as it was.
    pub fn reconfigure(&mut self, options: Options, now: Instant) {
        self.options = options;
        self.list_all(now);
    }

    /// The watched folders that are not there.
    pub fn missing(&self) -> impl Iterator<Item = &Path> {
        self.roots.iter().filter(|root| root.identity.is_none()).map(|root| root.path.as_path())
    }

    /// Whether no listing is under way.
    pub fn is_listed(&self) -> bool {
        self.walks.is_empty() && self.roots.iter().all(|root| !root.listing)
    }

    /// Lists everything, soon.
    pub fn list_all(&mut self, now: Instant) {
        self.roots.iter_mut().for_each(|root| root.next_listing = now);
        self.next_check = now;
    }

    /// The path of a file below the watched folder that it lies in.
    pub fn below<'p>(&self, path: &'p Path) -> Option<&'p Path> {
        self.roots.iter().find_map(|root| path.strip_prefix(&root.path).ok())
    }

    /// The watched folders that a path lies in.
    pub fn roots_of<'p>(&'p self, path: &'p Path) -> impl Iterator<Item = &'p Path> {
        self.roots.iter().map(|root| root.path.as_path()).filter(move |root| path.starts_with(root))
    }

    /// How a file is now; none if it is no file any more.
    pub fn look(&self, path: &Path) -> Option<Seen> {
        let metadata = fs::metadata(path).ok().filter(Metadata::is_file)?;
        let root = self.roots.iter().find(|root| path.starts_with(&root.path))?;
        Some(seen(&metadata, root))
    }

    /// One piece of the work that there is: what `first` and other signals say, files that are due, and a part of a listing.
    pub fn turn(&mut self, first: Option<Signal>, settle: &mut Settle, known: Known<'_>, now: Instant) {
        let lost = self.notifier.as_ref().is_some_and(Notifier::take_lost);
        let others = self.signals();
        // Messages from before the loss may speak of writers whose close was lost.
        let count = if lost { others.len() } else { others.len().min(SIGNALS_A_TURN) };
        for signal in first.into_iter().chain(others.try_iter().take(count)) {
            self.signal(signal, settle, now);
        }
        if lost {
            self.notes.push(Note::Fine("messages were lost in a crowd; all folders are listed".into()));
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
        match signal {
            Signal::Gone(path) => self.gone(path, settle),
            Signal::Folder(path) => self.enter(path),
            // One that is made is a link to one.
            Signal::Moved { to: folder, .. } | Signal::Created(folder) if folder.is_dir() => {
                settle.gone(&folder);
                self.enter(folder);
            }
            Signal::Created(path) | Signal::Written(path) if self.takes(&path) => {
                match fs::symlink_metadata(&path) {
                    // Links are made without being opened.
                    Ok(metadata) if metadata.is_symlink() || metadata.nlink() > 1 => {
                        self.let_settle(&path, settle, now);
                    }
                    Ok(metadata) if metadata.is_file() => settle.touched(&path, now),
                    _ => {}
                }
            }
            // Put back because it changed: somebody may have it open.
            Signal::Moved { to, from: Some(from) } if is_leftover(&from) && self.takes(&to) => {
                self.let_settle(&to, settle, now);
            }
            Signal::Closed(path) | Signal::Moved { to: path, .. } if self.takes(&path) => {
                match self.look(&path) {
                    Some(seen) => settle.complete(&path, seen.stamp, now),
                    None => settle.gone(&path),
                }
            }
            Signal::Created(_) | Signal::Written(_) | Signal::Closed(_) | Signal::Moved { .. } => {}
        }
    }

    /// A file is there, and nobody said that it is whole.
    fn let_settle(&self, path: &Path, settle: &mut Settle, now: Instant) {
        if let Some(seen) = self.look(path) {
            settle.listed(path, seen, now);
        }
    }

    /// A path was left, and may stand for something else by now.
    fn gone(&mut self, path: PathBuf, settle: &mut Settle) {
        match fs::metadata(&path) {
            Ok(metadata) if metadata.is_dir() => self.enter(path),
            Ok(_) => {}
            Err(_) => {
                settle.gone(&path);
                settle.gone_below(&path);
            }
        }
    }

    /// Whether a path in a watched folder is one to take. Messages come from all folders that were ever entered, whatever the
    /// options are by then.
    pub fn takes(&self, path: &Path) -> bool {
        self.takes_name(path) && path.parent().is_some_and(|folder| self.way_to(folder).is_some())
    }

    fn takes_name(&self, path: &Path) -> bool {
        self.below(path).is_some_and(|below| !hidden(path) && self.options.selection.takes_file(below))
    }

    /// The watched folder from which a listing comes to this one.
    fn way_to(&self, folder: &Path) -> Option<usize> {
        self.roots.iter().position(|root| {
            let mut way = folder.ancestors().take_while(|above| above.starts_with(&root.path));
            folder.starts_with(&root.path) && way.all(|above| self.enters(above, &root.path))
        })
    }

    /// Lists a folder that appeared below a watched one.
    fn enter(&mut self, folder: PathBuf) {
        let Some(root) = self.way_to(&folder) else { return };
        if folder == self.roots[root].path {
            return self.list(root);
        }
        self.walks.push_back(Walk { root, folder, entries: None });
    }

    /// Looks whether the watched folders are there, and which are to be listed.
    fn check(&mut self, settle: &mut Settle, now: Instant) {
        for number in 0..self.roots.len() {
            let root = &mut self.roots[number];
            let found =
                fs::metadata(&root.path).ok().filter(Metadata::is_dir).map(|folder| identity(&folder));
            if found != root.identity {
                if root.identity.is_some() {
                    self.notes.push(Note::Trouble(format!(
                        "{} is gone, or another folder by now",
                        Shown(&root.path)
                    )));
                    settle.gone_below(&root.path);
                }
                root.identity = found;
                root.next_listing = now;
                if found.is_some() {
                    root.get_to_know(self.options.poll.is_some() || self.notifier.is_none());
                    let how = if root.polled { " by listing it" } else { "" };
                    self.notes.push(Note::Fine(format!("watching {}{how}", Shown(&root.path))));
                }
            }
            if root.identity.is_some() && root.next_listing <= now {
                root.next_listing = now + interval(&self.options, root.polled, self.short_of_watches);
                self.list(number);
            }
        }
    }

    fn list(&mut self, number: usize) {
        let root = &mut self.roots[number];
        if root.listing {
            root.again = true;
        } else {
            root.listing = true;
            self.walks.push_back(Walk { root: number, folder: root.path.clone(), entries: None });
        }
    }

    /// Goes on with the first listing.
    fn walk(&mut self, settle: &mut Settle, known: Known<'_>, now: Instant) {
        let Some(mut walk) = self.walks.pop_front() else { return };
        let follow = self.options.selection.follow_links;
        let mut entries = walk
            .entries
            .take()
            .unwrap_or_else(|| WalkDir::new(&walk.folder).follow_links(follow).into_iter());
        for _ in 0..ENTRIES_A_TURN {
            match entries.next() {
                // A watched folder can itself be a link, and is one to walkdir.
                Some(Ok(entry)) if entry.file_type().is_dir() || entry.depth() == 0 => {
                    if self.enters(entry.path(), &self.roots[walk.root].path) {
                        self.watch(entry.path(), walk.root);
                    } else {
                        entries.skip_current_dir();
                    }
                }
                Some(Ok(entry)) => self.found(entry.path(), settle, known, now),
                Some(Err(error)) => self.unreadable(&error),
                None => return self.walked(&walk),
            }
        }
        walk.entries = Some(entries);
        self.walks.push_front(walk);
    }

    fn walked(&mut self, walk: &Walk) {
        let root = &mut self.roots[walk.root];
        if walk.folder == root.path {
            root.listing = false;
            if std::mem::take(&mut root.again) {
                self.list(walk.root);
            }
        }
    }

    fn found(&mut self, path: &Path, settle: &mut Settle, known: Known<'_>, now: Instant) {
        if is_leftover(path) {
            self.leftovers.push(path.to_owned());
        } else if self.takes_name(path)
            && let Some(seen) = self.look(path)
            && let Some(below) = self.below(path)
            && !known(path, below, seen.stamp)
        {
            settle.listed(path, seen, now);
        }
    }

    /// Whether a listing that comes to a folder, a watched one or one below it, goes into it.
    fn enters(&self, folder: &Path, root: &Path) -> bool {
        let Ok(below) = folder.strip_prefix(root) else { return false };
        if below.as_os_str().is_empty() {
            return true;
        }
        let follow = self.options.selection.follow_links;
        let follows = || !folder.is_symlink() || follow && !leads_back(folder, root);
        !hidden(folder)
            && self.options.selection.enters_folder(below)
            && follows()
            && !self.options.excluded.iter().any(|excluded| same_folder(excluded, folder))
    }

    fn watch(&mut self, folder: &Path, root: usize) {
        let Some(notifier) = self.notifier.as_mut().filter(|_| !self.roots[root].polled) else { return };
        match notifier.watch(folder) {
            Ok(()) | Err(NotWatched::Gone) => {}
            Err(NotWatched::Limit) if self.short_of_watches => {}
            Err(why) => {
                self.short_of_watches |= matches!(why, NotWatched::Limit);
                let often = interval(&self.options, false, self.short_of_watches).as_secs();
                let note = format!("{}: {why}; it is listed every {often} s instead", Shown(folder));
                self.notes.push(Note::Trouble(note));
            }
        }
    }

    fn unreadable(&mut self, error: &walkdir::Error) {
        let gone = error.io_error().is_some_and(|error| error.kind() == std::io::ErrorKind::NotFound);
        if !gone && error.loop_ancestor().is_none() {
            self.notes.push(Note::Trouble(format!("not listed: {error}")));
        }
    }
}

impl Root {
    fn new(path: PathBuf, now: Instant) -> Self {
        Self {
            path,
            identity: None,
            file_system: FileSystem { shared: false, lasting_inodes: true },
            polled: false,
            next_listing: now,
            listing: false,
            again: false,
        }
    }

    fn get_to_know(&mut self, without_messages: bool) {
        self.file_system = FileSystem::of(&self.path).unwrap_or(self.file_system);
        self.polled = without_messages || self.file_system.shared;
    }
}

fn notifier(notes: &mut Vec<Note>) -> Option<Notifier> {
    let note = |why: &String| Note::Trouble(format!("folders are listed every {} s: {why}", POLL.as_secs()));
    Notifier::new().inspect_err(|why| notes.push(note(why))).ok()
}

/// How often a folder is listed.
fn interval(options: &Options, polled: bool, short_of_watches: bool) -> Duration {
    match options.poll {
        Some(poll) => poll,
        None if polled => POLL,
        None if short_of_watches => options.rescan.min(POLL * 6),
        None => options.rescan,
    }
}

fn seen(metadata: &Metadata, root: &Root) -> Seen {
    let stamp = Stamp::of(metadata, root.file_system.lasting_inodes);
    let own_clock = !root.file_system.shared;
    let age = metadata.modified().ok().filter(|_| own_clock);
    let age = age.map(|modified| SystemTime::now().duration_since(modified).unwrap_or_default());
    Seen { stamp, age }
}

fn identity(metadata: &Metadata) -> Identity {
    (metadata.dev(), metadata.ino())
}

/// Whether a link leads to a folder that it lies in, as a walk that starts below that cannot know.
fn leads_back(link: &Path, root: &Path) -> bool {
    let mut above = link.ancestors().skip(1).take_while(|above| above.starts_with(root));
    above.any(|above| same_folder(above, link))
}

fn same_folder(one: &Path, other: &Path) -> bool {
    let found = |folder: &Path| fs::metadata(folder).ok().map(|folder| identity(&folder));
    one == other || found(one).is_some_and(|one| found(other) == Some(one))
}

fn is_leftover(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.as_bytes().starts_with(REMOVING.as_bytes()))
}

/// Hidden are the names with a leading dot, and so is everything of histeqd's own.
fn hidden(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.as_bytes().starts_with(b"."))
}

#[cfg(test)]
mod tests;
