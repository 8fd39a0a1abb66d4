//! The content of a file system, and its possible states after a power failure: all synced data,
//! and any part of the unsynced data.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::time::SystemTime;

pub(super) type Inode = u64;

pub(super) const ROOT: Inode = 1;

/// The unit that is written at once, or not at all.
const PAGE: usize = 4096;

/// A change that reaches the disk as a whole or not at all.
#[derive(Clone, Debug)]
pub(super) enum Change {
    Made { inode: Inode, mode: u32 },
    Written { file: Inode, at: u64, bytes: Vec<u8> },
    Cut { file: Inode, length: u64 },
    Touched { inode: Inode, modified: SystemTime },
    Permitted { inode: Inode, mode: u32 },
    Marked { inode: Inode, name: OsString, value: Vec<u8> },
    Named { folder: Inode, name: OsString, inode: Inode },
    Removed { folder: Inode, name: OsString },
    Renamed { from: (Inode, OsString), to: (Inode, OsString), inode: Inode },
    Synced { inode: Inode, data_only: bool },
}

/// A file, a folder or a socket.
#[derive(Clone, Debug)]
pub(super) struct Node {
    /// Kind and permissions.
    pub(super) mode: u32,
    pub(super) modified: SystemTime,
    pub(super) content: Vec<u8>,
    pub(super) attributes: BTreeMap<OsString, Vec<u8>>,
    pub(super) entries: BTreeMap<OsString, Inode>,
}

impl Node {
    fn new(mode: u32) -> Self {
        Self {
            mode,
            modified: SystemTime::UNIX_EPOCH,
            content: Vec::new(),
            attributes: BTreeMap::new(),
            entries: BTreeMap::new(),
        }
    }

    pub(super) fn is_folder(&self) -> bool {
        self.mode & libc::S_IFMT == libc::S_IFDIR
    }
}

/// The whole content at a moment.
#[derive(Clone, Debug)]
pub(super) struct Tree(HashMap<Inode, Node>);

impl Tree {
    pub(super) fn new() -> Self {
        Self(HashMap::from([(ROOT, Node::new(libc::S_IFDIR | 0o755))]))
    }

    pub(super) fn node(&self, inode: Inode) -> Option<&Node> {
        self.0.get(&inode)
    }

    pub(super) fn find(&self, folder: Inode, name: &OsStr) -> Option<Inode> {
        self.node(folder)?.entries.get(name).copied()
    }

    fn apply(&mut self, change: &Change) {
        match change {
            Change::Made { inode, mode } => drop(self.0.insert(*inode, Node::new(*mode))),
            Change::Written { file, at, bytes } => {
                let (content, at) = (&mut self.at(*file).content, usize::try_from(*at).unwrap());
                content.resize(content.len().max(at + bytes.len()), 0);
                content[at..at + bytes.len()].copy_from_slice(bytes);
            }
            Change::Cut { file, length } => {
                self.at(*file).content.resize(usize::try_from(*length).unwrap(), 0);
            }
            Change::Touched { inode, modified } => self.at(*inode).modified = *modified,
            Change::Permitted { inode, mode } => self.at(*inode).mode = *mode,
            Change::Marked { inode, name, value } => {
                self.at(*inode).attributes.insert(name.clone(), value.clone());
            }
            Change::Named { folder, name, inode } => {
                self.at(*folder).entries.insert(name.clone(), *inode);
            }
            Change::Removed { folder, name } => drop(self.at(*folder).entries.remove(name)),
            Change::Renamed { from, to, inode } => {
                self.at(from.0).entries.remove(&from.1);
                self.at(to.0).entries.insert(to.1.clone(), *inode);
            }
            Change::Synced { .. } => {}
        }
    }

    fn at(&mut self, inode: Inode) -> &mut Node {
        self.0.get_mut(&inode).expect("inodes are never reused")
    }

    /// Returns the files below a folder of the root, by their paths; empty if it does not exist.
    pub(super) fn files(&self, folder: &str) -> BTreeMap<String, &[u8]> {
        let mut files = BTreeMap::new();
        if let Some(inode) = self.find(ROOT, OsStr::new(folder)) {
            self.add_files(inode, "", &mut files);
        }
        files
    }

    fn add_files<'t>(&'t self, folder: Inode, below: &str, files: &mut BTreeMap<String, &'t [u8]>) {
        for (name, inode) in &self.0[&folder].entries {
            let (node, path) = (&self.0[inode], format!("{below}{}", name.to_string_lossy()));
            if node.is_folder() {
                self.add_files(*inode, &format!("{path}/"), files);
            } else {
                files.insert(path, &node.content);
            }
        }
    }
}

/// A disk: its content at the beginning, and all changes since.
#[derive(Debug)]
pub(super) struct Disk {
    before: Tree,
    pub(super) tree: Tree,
    changes: Vec<Change>,
    last: Inode,
}

impl Disk {
    /// Returns a disk with this content.
    pub(super) fn holding(tree: Tree) -> Self {
        let last = tree.0.keys().copied().max().unwrap_or(ROOT);
        Self { before: tree.clone(), tree, changes: Vec::new(), last }
    }

    /// Returns the number of changes so far: a moment.
    pub(super) fn now(&self) -> usize {
        self.changes.len()
    }

    pub(super) fn change(&mut self, change: Change) {
        self.tree.apply(&change);
        self.changes.push(change);
    }

    /// Makes a file, a folder or a socket in a folder.
    pub(super) fn make(&mut self, folder: Inode, name: &OsStr, mode: u32) -> Inode {
        self.last += 1;
        self.change(Change::Made { inode: self.last, mode });
        self.change(Change::Named { folder, name: name.to_owned(), inode: self.last });
        self.last
    }

    /// Writes into a file, page by page.
    pub(super) fn write(&mut self, file: Inode, mut at: u64, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let rest = PAGE - usize::try_from(at).unwrap() % PAGE;
            let (page, more) = bytes.split_at(rest.min(bytes.len()));
            self.change(Change::Written { file, at, bytes: page.to_vec() });
            (at, bytes) = (at + page.len() as u64, more);
        }
        self.change(Change::Touched { inode: file, modified: SystemTime::now() });
    }

    /// Returns the content after a power failure at a moment. An unsynced change survives if
    /// `keeps` returns true.
    pub(super) fn after_power_failure(&self, moment: usize, mut keeps: impl FnMut() -> bool) -> Tree {
        let mut synced = Synced::default();
        let mut kept: Vec<&Change> =
            self.changes[..moment].iter().rev().filter(|change| synced.takes(change) || keeps()).collect();
        kept.reverse();
        let mut tree = self.before.clone();
        kept.into_iter().for_each(|change| tree.apply(change));
        tree
    }
}

/// The inodes that are synced after a point in the changes.
#[derive(Default)]
struct Synced {
    whole: HashSet<Inode>,
    data: HashSet<Inode>,
}

impl Synced {
    /// Takes the previous change. Returns whether it is on the disk for certain.
    fn takes(&mut self, change: &Change) -> bool {
        let Self { whole, data } = self;
        match change {
            Change::Written { file, .. } | Change::Cut { file, .. } => {
                whole.contains(file) || data.contains(file)
            }
            Change::Touched { inode, .. }
            | Change::Permitted { inode, .. }
            | Change::Marked { inode, .. } => whole.contains(inode),
            Change::Named { folder, .. } | Change::Removed { folder, .. } => whole.contains(folder),
            Change::Renamed { from, to, .. } => whole.contains(&from.0) || whole.contains(&to.0),
            Change::Synced { inode, data_only: true } => {
                data.insert(*inode);
                true
            }
            Change::Synced { inode, data_only: false } => {
                whole.insert(*inode);
                true
            }
            // Without a name it does not appear.
            Change::Made { .. } => true,
        }
    }
}
