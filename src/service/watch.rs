//! Arriving files: owns the watched folders and the state of their files. Feeds a [`Settle`]
//! machine with the kernel's messages, with listings, and with checks of single files. The module
//! does not know outputs and pictures.
//!
//! Messages speed things up, but are never relied on alone: everything is listed at the start,
//! whenever messages were lost, when a folder comes back, when a file system is mounted or
//! unmounted, and at an interval. File systems that other machines write to are only listed. A
//! folder is watched first and listed afterwards, which leaves no gap.

mod left_out;
mod listing;
pub(crate) mod mounts;
pub mod notifier;
mod root;
pub mod settle;
pub mod writer;

use std::collections::{HashMap, VecDeque};
use std::fs::{self, Metadata};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, never};
use tracing::{info, warn};

use self::left_out::LeftOut;
use self::listing::Walk;
use self::root::{POLL, Root};
use crate::fs::input::InputRoots;
use crate::fs::paths::{Identity, Shown, are_same};
use crate::fs::stamp::{Stamp, ctime_ns};
use crate::selection::{Choice, Links, Selection, is_hidden, is_of_folder_settings, promises_a_picture};
use crate::service::watch::mounts::Mounts;
use crate::service::watch::notifier::{Notifier, Signal};
use crate::service::watch::settle::{Counts, Doubt, Ending, Ready, Seen, Settle, Verdict};
use crate::service::watch::writer::Writer;
use crate::source::holes;

/// The interval of checks whether the watched folders themselves exist.
const CHECK: Duration = Duration::from_secs(1);
/// The least interval between messages in the log that events were lost.
const LOST_NOTE: Duration = Duration::from_secs(60);
/// The most messages handled in one turn, unless messages were lost.
const SIGNALS_A_TURN: usize = 1024;

/// The options of a watch.
#[derive(Clone, Debug)]
pub struct Options {
    /// The selection of files and folders below the watched ones.
    pub selection: Selection,
    /// Folders that are never entered: those that histeqd writes to.
    pub excluded: Vec<PathBuf>,
    /// The folders that the targets of links must be in, if not all links are followed.
    pub roots: InputRoots,
    /// The interval of listings of everything even though messages arrive.
    pub rescan: Duration,
    /// If set, everything is listed at this interval instead, without any messages.
    pub poll: Option<Duration>,
}

/// A sentence for the user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Note {
    /// Something to know.
    Info(String),
    /// Something that the user may want to change.
    Warning(String),
}

/// A function that returns whether a file in a certain state needs no more attention, given its
/// path, its path below the watched folder, and its stamp.
pub type Known<'a> = &'a mut dyn FnMut(&Path, &Path, Stamp) -> bool;

/// The prefix of an input's name while it is being removed: for an instant, or until the next start
/// if the process is killed in that instant.
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
    /// Whether a full listing of a watched folder has ended.
    listed: bool,
    /// The files that are not done yet.
    settle: Settle,
    /// The inputs that a killed process was about to remove and that this one renamed back, with
    /// their ctimes since then.
    put_back: HashMap<PathBuf, i64>,
}

impl Watch {
    /// Starts watching `folders`, which are absolute paths and need not exist yet. Files that no
    /// message reports as complete have to `rest`.
    pub fn start(folders: Vec<PathBuf>, options: Options, rest: Duration, now: Instant) -> Self {
        let mut notes = Vec::new();
        let notifier = if options.poll.is_some() { None } else { notifier(&mut notes) };
        let missing = folders.iter().filter(|folder| !folder.is_dir());
        notes.extend(missing.map(|path| {
            Note::Warning(format!("{} does not exist; it will be watched once it appears", Shown(path)))
        }));
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
            settle: Settle::new(rest),
            put_back: HashMap::new(),
        }
    }

    /// Returns a receiver that becomes ready when there is work before the next turn.
    pub fn signals(&self) -> Receiver<Signal> {
        self.notifier.as_ref().map_or_else(never, |notifier| notifier.signals().clone())
    }

    /// Returns the time until the next turn is needed unless a message arrives, `longest` at most.
    pub(crate) fn pause(&self, now: Instant, longest: Duration) -> Duration {
        let next_turn = if self.walks.is_empty() { self.next_check } else { now };
        let due = self.settle.next_due().unwrap_or(now + longest);
        due.min(next_turn).saturating_duration_since(now).min(longest)
    }

    /// Returns whether a listing is under way.
    pub fn is_listing(&self) -> bool {
        !self.walks.is_empty()
    }

    /// Logs the notes for the user since the last call.
    pub(crate) fn log_notes(&mut self) {
        for note in std::mem::take(&mut self.notes) {
            match note {
                Note::Info(note) => info!("{note}"),
                Note::Warning(note) => warn!("{note}"),
            }
        }
    }

    /// Returns the files found with the prefix [`REMOVING`], since the last call.
    pub fn take_leftovers(&mut self) -> Vec<PathBuf> {
        std::mem::take(&mut self.leftovers)
    }

    /// Returns whether a full listing of a watched folder has ended since the last call.
    pub fn take_listed(&mut self) -> bool {
        std::mem::take(&mut self.listed)
    }

    /// Records that an input got its name back from this process. Earlier ones with a new ctime are
    /// dropped: they have changed since.
    pub(crate) fn note_put_back(&mut self, input: PathBuf) {
        self.put_back.retain(|input, at| ctime(input) == Some(*at));
        if let Some(now) = ctime(&input) {
            self.put_back.insert(input, now);
        }
    }

    /// Returns the ctime that an input had after it was renamed back, if it was.
    pub(crate) fn put_back_at(&self, input: &Path) -> Option<i64> {
        self.put_back.get(input).copied()
    }

    /// Returns whether [`Watch::take`] may have a file.
    pub(crate) fn has_ready(&self) -> bool {
        self.settle.has_ready()
    }

    /// Takes the next file that is ready.
    pub(crate) fn take(&mut self) -> Option<Ready> {
        self.settle.take()
    }

    /// Records how the picture of a file ended. Returns the verdict, by the ending and the current
    /// state of the file.
    pub(crate) fn finish(&mut self, input: &Path, ending: Ending) -> Verdict {
        let seen = self.look(input);
        self.settle.finished(input, ending, seen, Instant::now())
    }

    /// Returns the paths that disappeared since the last call, as [`Settle::take_gone`].
    pub(crate) fn take_gone(&mut self) -> Vec<PathBuf> {
        self.settle.take_gone()
    }

    /// Makes files below a folder that failed for now due at once, as [`Settle::retry_below`].
    pub(crate) fn retry_below(&mut self, folder: &Path) {
        self.settle.retry_below(folder, Instant::now());
    }

    /// Counts the files in each phase.
    pub(crate) fn counts(&self) -> Counts {
        self.settle.counts()
    }

    /// Continues with other options. Whether there are messages at all stays unchanged.
    pub fn reconfigure(&mut self, options: Options, rest: Duration) {
        self.settle.set_rest(rest);
        self.options = options;
        self.left_out = LeftOut::default();
        self.list_all();
    }

    /// Returns the watched folders that do not exist, or cannot be listed.
    pub fn missing(&self) -> impl Iterator<Item = &Path> {
        let missing = self.roots.iter().filter(|root| root.identity.is_none() || root.is_closed());
        missing.map(|root| root.path.as_path())
    }

    /// Returns the watched folders that may be unmounted, with their files gone only for now: the
    /// missing ones, and the empty ones, unless that is normal because `inputs_go`.
    pub(crate) fn may_be_unmounted(&self, inputs_go: bool) -> Vec<&Path> {
        let roots = self.roots.iter().map(|root| root.path.as_path()).filter(|_| !inputs_go);
        let empty = roots.filter(|path| fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_none()));
        self.missing().chain(empty).collect()
    }

    /// Schedules a listing of everything.
    pub fn list_all(&mut self) {
        let now = Instant::now();
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

    /// Returns whether a folder is a watched one, by whatever path, or will be once it exists.
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

    fn stamp(&self, path: &Path) -> Option<Stamp> {
        self.file(path).map(|(metadata, root)| root.stamp(&metadata))
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

    /// Does one piece of the pending work: handles `first` and other signals, examines files that
    /// are due, and continues a listing.
    pub fn turn(&mut self, first: Option<Signal>, known: Known<'_>, now: Instant) {
        let lost = self.notifier.as_ref().is_some_and(Notifier::take_lost);
        let others = self.signals();
        // Messages from before the loss are all handled first: they may announce writers, with the
        // messages of their closes lost.
        let count = if lost { others.len() } else { others.len().min(SIGNALS_A_TURN) };
        for signal in first.into_iter().chain(others.try_iter().take(count)) {
            self.signal(signal, now);
        }
        if lost {
            if self.next_lost_note <= now {
                self.notes.push(Note::Info(
                    "too many file events at once, some were lost; all folders are listed again".into(),
                ));
                self.next_lost_note = now + LOST_NOTE;
            }
            self.settle.lost_sight(now);
            self.list_all();
        }
        if self.next_check <= now {
            self.check(now);
            self.next_check = now + CHECK;
        }
        while let Some(path) = self.settle.due(now) {
            let seen = self.look(&path);
            self.settle.looked(&path, seen, now);
        }
        self.walk(known, now);
    }

    fn signal(&mut self, signal: Signal, now: Instant) {
        self.folders_with_other_settings(&signal).into_iter().for_each(|folder| self.list_below(&folder));
        match signal {
            Signal::Gone(path) => self.gone(path),
            Signal::Folder(path) => self.enter(path),
            // If a folder was created, the name is a link to one.
            Signal::Moved { to: folder, .. } | Signal::Created(folder) if folder.is_dir() => {
                self.settle.gone(&folder);
                self.enter(folder);
            }
            Signal::Created(ref path) | Signal::Written(ref path) if self.takes(path) => {
                // Links are created without being opened, and no close follows. A writer's new file
                // is empty at first, and the message of its first write is on its way.
                let is_created = matches!(signal, Signal::Created(_));
                match fs::symlink_metadata(path) {
                    Ok(metadata) if metadata.is_symlink() || is_created && metadata.len() > 0 => {
                        self.let_settle(path, now);
                    }
                    Ok(metadata) if metadata.is_file() => self.settle.touched(path, now),
                    _ => {}
                }
            }
            Signal::Moved { to: path, from } if self.takes(&path) => match self.look(&path) {
                // A process has it open, or may have had it open: it was put back because it had
                // changed.
                Some(seen) if seen.writer == Writer::Present || from.as_deref().is_some_and(is_leftover) => {
                    self.settle.listed(&path, seen, now);
                }
                Some(seen) => self.settle.complete(&path, seen.stamp, seen.doubt, now),
                None => self.settle.gone(&path),
            },
            // The kernel reports a close a little before it happens: this is no time to ask for
            // writers.
            Signal::Closed(path) if self.takes(&path) => match self.stamp(&path) {
                Some(stamp) => self.settle.complete(&path, stamp, doubt(&path), now),
                None => self.settle.gone(&path),
            },
            Signal::Closed(path) | Signal::Moved { to: path, .. } => self.note_left_out(&path, false),
            Signal::Created(_) | Signal::Written(_) => {}
        }
    }

    /// Returns the folders with settings files that a message reports as changed.
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

    /// Lists a folder, if listings reach it: there is a new decision to make about its files.
    pub fn list_below(&mut self, folder: &Path) {
        match self.way_to(folder) {
            Some(root) if folder == self.roots[root].path => self.list(root),
            Some(root) => self.queue(root, folder.to_owned()),
            None => {}
        }
    }

    /// Lets a file rest that exists, but that no message reports as complete.
    fn let_settle(&mut self, path: &Path, now: Instant) {
        match self.look(path) {
            Some(seen) => self.settle.listed(path, seen, now),
            None => self.note_left_out(path, false),
        }
    }

    /// Handles a path that was removed or moved away, and may lead to another file by now.
    fn gone(&mut self, path: PathBuf) {
        match fs::metadata(&path) {
            Ok(metadata) if metadata.is_dir() => self.enter(path),
            Ok(_) => {}
            Err(_) => {
                self.settle.gone(&path);
                self.settle.gone_below(&path);
                // A new folder at this path may get the inode number of the old one, but has no
                // watch.
                for root in self.roots.iter_mut().filter(|root| root.path == path && root.identity.is_some())
                {
                    root.identity = Some(Identity::NOTHING);
                }
            }
        }
    }

    /// Returns whether a path in a watched folder is selected. The folders above it are checked
    /// too, because messages come from all folders that were ever entered, whatever the current
    /// options.
    pub fn takes(&self, path: &Path) -> bool {
        self.takes_name(path) && path.parent().is_some_and(|folder| self.way_to(folder).is_some())
    }

    fn takes_name(&self, path: &Path) -> bool {
        self.below(path).is_some_and(|below| !is_hidden(path) && self.options.selection.takes_file(below))
    }

    /// Notifies the user of a file or folder, if it is left out for its reserved name or is a link
    /// that is not followed.
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

    /// Returns the index of the watched folder with a listing that reaches `folder`.
    fn way_to(&self, folder: &Path) -> Option<usize> {
        self.roots.iter().position(|root| {
            let mut way = folder.ancestors().take_while(|above| above.starts_with(&root.path));
            folder.starts_with(&root.path) && way.all(|above| self.enters(above, &root.path))
        })
    }
}

fn notifier(notes: &mut Vec<Note>) -> Option<Notifier> {
    let notifier = Notifier::new().inspect_err(|why| {
        notes.push(Note::Warning(format!("folders are listed every {} s: {why}", POLL.as_secs())));
    });
    notifier.ok()
}

/// Returns the reason to doubt that a file is complete.
fn doubt(path: &Path) -> Doubt {
    if holes::are_in(path) {
        Doubt::Holes
    } else if promises_a_picture(path) {
        Doubt::None
    } else {
        Doubt::Name
    }
}

fn ctime(path: &Path) -> Option<i64> {
    fs::symlink_metadata(path).ok().map(|metadata| ctime_ns(&metadata))
}

fn is_leftover(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.as_bytes().starts_with(REMOVING.as_bytes()))
}

#[cfg(test)]
mod tests;
