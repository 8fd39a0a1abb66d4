//! A [`Disk`] as a mounted file system.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use fuser::{
    BackgroundSession, BsdFileFlags, Config, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags,
    Generation, INodeNo, LockOwner, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData,
    ReplyDirectory, ReplyEmpty, ReplyEntry, ReplyOpen, ReplyStatfs, ReplyWrite, ReplyXattr, Request,
    TimeOrNow, WriteFlags,
};

use super::disk::{Change, Disk, Inode, Node, Tree};
use crate::harness::{Place, skipped};

/// How long the kernel may cache answers.
const BELIEVED: Duration = Duration::from_millis(100);

/// A fault in one request.
#[derive(Clone, Copy, Debug)]
pub(super) enum Fault {
    /// It is not done.
    Refused(Errno),
    /// It is done, and reported as failed, as when an answer is lost and the request is sent once
    /// more.
    Unanswered(Errno),
}

/// The properties of a file system.
pub(super) struct Manners {
    /// Whether it can rename without replacing.
    pub(super) renames_only_new: bool,
    /// Whether it can rename from one folder to another.
    pub(super) moves: bool,
    /// Whether files have attributes of users.
    pub(super) attributes: bool,
    /// Returns the fault in a request of this kind, if any.
    pub(super) fault: Box<dyn Fn(&'static str) -> Option<Fault> + Send + Sync>,
}

impl Default for Manners {
    fn default() -> Self {
        Self { renames_only_new: true, moves: true, attributes: true, fault: Box::new(|_| None) }
    }
}

impl fmt::Debug for Manners {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Manners").finish_non_exhaustive()
    }
}

/// A mounted disk. It is unmounted when dropped.
pub(super) struct Mounted {
    disk: Arc<Mutex<Disk>>,
    session: Option<BackgroundSession>,
}

impl Mounted {
    /// Mounts a disk with this content in a place, as `disk`. Reports a skip and returns `None`
    /// where that is not allowed.
    pub(super) fn new(place: &Place, tree: Tree, manners: Manners) -> Option<Self> {
        let disk = Arc::new(Mutex::new(Disk::holding(tree)));
        let folder = place.path("disk");
        fs::create_dir_all(&folder).unwrap();
        let served = Served { disk: Arc::clone(&disk), manners };
        match fuser::spawn_mount(served, &folder, &Config::default()) {
            Ok(session) => Some(Self { disk, session: Some(session) }),
            Err(why) => {
                skipped(format_args!("no file system of ours can be mounted here: {why}"));
                None
            }
        }
    }

    pub(super) fn disk(&self) -> MutexGuard<'_, Disk> {
        lock(&self.disk)
    }

    /// Unmounts the disk, and returns it.
    pub(super) fn into_disk(self) -> Disk {
        let disk = Arc::clone(&self.disk);
        drop(self);
        Arc::into_inner(disk).unwrap().into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = self.session.take().map(BackgroundSession::umount_and_join);
    }
}

fn lock(disk: &Mutex<Disk>) -> MutexGuard<'_, Disk> {
    disk.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The server of the kernel's requests.
#[derive(Debug)]
struct Served {
    disk: Arc<Mutex<Disk>>,
    manners: Manners,
}

impl Served {
    /// Does a request that may fail by a [`Fault`].
    fn perform<T>(
        &self,
        kind: &'static str,
        work: impl FnOnce(&mut Disk) -> Result<T, Errno>,
    ) -> Result<T, Errno> {
        let fault = (self.manners.fault)(kind);
        if let Some(Fault::Refused(why)) = fault {
            return Err(why);
        }
        let done = work(&mut lock(&self.disk))?;
        match fault {
            Some(Fault::Unanswered(why)) => Err(why),
            _ => Ok(done),
        }
    }

    fn rename(
        &self,
        from: (Inode, OsString),
        to: (Inode, OsString),
        flags: RenameFlags,
    ) -> Result<(), Errno> {
        if !flags.is_empty() && (flags != RenameFlags::RENAME_NOREPLACE || !self.manners.renames_only_new) {
            return Err(Errno::EINVAL);
        }
        if from.0 != to.0 && !self.manners.moves {
            return Err(Errno::EXDEV);
        }
        self.perform("rename", |disk| {
            let inode = disk.tree.find(from.0, &from.1).ok_or(Errno::ENOENT)?;
            if flags == RenameFlags::RENAME_NOREPLACE && disk.tree.find(to.0, &to.1).is_some() {
                return Err(Errno::EEXIST);
            }
            disk.change(Change::Renamed { from, to, inode });
            Ok(())
        })
    }

    fn remove(&self, folder: Inode, name: &OsStr) -> Result<(), Errno> {
        self.perform("unlink", |disk| {
            let inode = disk.tree.find(folder, name).ok_or(Errno::ENOENT)?;
            if disk.tree.node(inode).is_some_and(|node| !node.entries.is_empty()) {
                return Err(Errno::ENOTEMPTY);
            }
            disk.change(Change::Removed { folder, name: name.to_owned() });
            Ok(())
        })
    }

    fn make(&self, folder: Inode, name: &OsStr, mode: u32) -> Result<FileAttr, Errno> {
        self.perform("create", |disk| {
            if disk.tree.find(folder, name).is_some() {
                return Err(Errno::EEXIST);
            }
            let inode = disk.make(folder, name, mode);
            disk.change(Change::Touched { inode, modified: SystemTime::now() });
            attributes(&disk.tree, inode)
        })
    }

    fn sync(&self, inode: Inode, data_only: bool, reply: ReplyEmpty) {
        let synced = self.perform("sync", |disk| {
            disk.change(Change::Synced { inode, data_only });
            Ok(())
        });
        answer(reply, synced);
    }
}

/// Returns the attributes of a file.
fn attributes(tree: &Tree, inode: Inode) -> Result<FileAttr, Errno> {
    let node = tree.node(inode).ok_or(Errno::ENOENT)?;
    let time = node.modified;
    Ok(FileAttr {
        ino: INodeNo(inode),
        size: node.content.len() as u64,
        blocks: node.content.len().div_ceil(512) as u64,
        atime: time,
        mtime: time,
        ctime: time,
        crtime: time,
        kind: kind(node),
        perm: (node.mode & 0o7777) as u16,
        nlink: 1,
        uid: 0,
        gid: 0,
        rdev: 0,
        blksize: 4096,
        flags: 0,
    })
}

fn kind(node: &Node) -> FileType {
    match node.mode & libc::S_IFMT {
        libc::S_IFDIR => FileType::Directory,
        libc::S_IFSOCK => FileType::Socket,
        _ => FileType::RegularFile,
    }
}

fn answer(reply: ReplyEmpty, done: Result<(), Errno>) {
    match done {
        Ok(()) => reply.ok(),
        Err(why) => reply.error(why),
    }
}

fn answer_entry(reply: ReplyEntry, found: Result<FileAttr, Errno>) {
    match found {
        Ok(found) => reply.entry(&BELIEVED, &found, Generation(0)),
        Err(why) => reply.error(why),
    }
}

impl Filesystem for Served {
    fn lookup(&self, _: &Request, INodeNo(folder): INodeNo, name: &OsStr, reply: ReplyEntry) {
        let found = self.perform("lookup", |disk| {
            let inode = disk.tree.find(folder, name).ok_or(Errno::ENOENT)?;
            attributes(&disk.tree, inode)
        });
        answer_entry(reply, found);
    }

    fn getattr(&self, _: &Request, INodeNo(inode): INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        match attributes(&lock(&self.disk).tree, inode) {
            Ok(found) => reply.attr(&BELIEVED, &found),
            Err(why) => reply.error(why),
        }
    }

    fn setattr(
        &self,
        _: &Request,
        INodeNo(inode): INodeNo,
        mode: Option<u32>,
        _: Option<u32>,
        _: Option<u32>,
        size: Option<u64>,
        _: Option<TimeOrNow>,
        modified: Option<TimeOrNow>,
        _: Option<SystemTime>,
        _: Option<FileHandle>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let cut = size.map_or(Ok(()), |length| {
            self.perform("cut", |disk| {
                disk.change(Change::Cut { file: inode, length });
                Ok(())
            })
        });
        if let Err(why) = cut {
            return reply.error(why);
        }
        let mut disk = lock(&self.disk);
        if let (Some(mode), Some(node)) = (mode, disk.tree.node(inode)) {
            let mode = node.mode & libc::S_IFMT | mode & 0o7777;
            disk.change(Change::Permitted { inode, mode });
        }
        let modified = match modified {
            Some(TimeOrNow::SpecificTime(time)) => Some(time),
            Some(TimeOrNow::Now) => Some(SystemTime::now()),
            None => size.map(|_| SystemTime::now()),
        };
        if let Some(modified) = modified {
            disk.change(Change::Touched { inode, modified });
        }
        match attributes(&disk.tree, inode) {
            Ok(found) => reply.attr(&BELIEVED, &found),
            Err(why) => reply.error(why),
        }
    }

    fn mknod(
        &self,
        _: &Request,
        INodeNo(folder): INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        _: u32,
        reply: ReplyEntry,
    ) {
        answer_entry(reply, self.make(folder, name, mode & !umask));
    }

    fn mkdir(
        &self,
        _: &Request,
        INodeNo(folder): INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        reply: ReplyEntry,
    ) {
        answer_entry(reply, self.make(folder, name, libc::S_IFDIR | mode & !umask));
    }

    fn create(
        &self,
        _: &Request,
        INodeNo(folder): INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        _: i32,
        reply: ReplyCreate,
    ) {
        match self.make(folder, name, libc::S_IFREG | mode & !umask) {
            Ok(made) => {
                reply.created(&BELIEVED, &made, Generation(0), FileHandle(0), FopenFlags::empty());
            }
            Err(why) => reply.error(why),
        }
    }

    fn unlink(&self, _: &Request, INodeNo(folder): INodeNo, name: &OsStr, reply: ReplyEmpty) {
        answer(reply, self.remove(folder, name));
    }

    fn rmdir(&self, _: &Request, INodeNo(folder): INodeNo, name: &OsStr, reply: ReplyEmpty) {
        answer(reply, self.remove(folder, name));
    }

    fn rename(
        &self,
        _: &Request,
        INodeNo(from): INodeNo,
        name: &OsStr,
        INodeNo(to): INodeNo,
        new: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        answer(reply, self.rename((from, name.to_owned()), (to, new.to_owned()), flags));
    }

    fn link(
        &self,
        _: &Request,
        INodeNo(inode): INodeNo,
        INodeNo(folder): INodeNo,
        name: &OsStr,
        reply: ReplyEntry,
    ) {
        let linked = self.perform("link", |disk| {
            if disk.tree.find(folder, name).is_some() {
                return Err(Errno::EEXIST);
            }
            disk.change(Change::Named { folder, name: name.to_owned(), inode });
            attributes(&disk.tree, inode)
        });
        answer_entry(reply, linked);
    }

    fn open(&self, _: &Request, _: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        match self.perform("open", |_| Ok(())) {
            Ok(()) => reply.opened(FileHandle(0), FopenFlags::empty()),
            Err(why) => reply.error(why),
        }
    }

    fn read(
        &self,
        _: &Request,
        INodeNo(inode): INodeNo,
        _: FileHandle,
        at: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let found = self.perform("read", |disk| {
            let content = &disk.tree.node(inode).ok_or(Errno::ESTALE)?.content;
            let begin = usize::try_from(at).unwrap().min(content.len());
            let end = begin.saturating_add(size as usize).min(content.len());
            Ok(content[begin..end].to_vec())
        });
        match found {
            Ok(content) => reply.data(&content),
            Err(why) => reply.error(why),
        }
    }

    fn write(
        &self,
        _: &Request,
        INodeNo(inode): INodeNo,
        _: FileHandle,
        at: u64,
        bytes: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let written = self.perform("write", |disk| {
            disk.write(inode, at, bytes);
            Ok(())
        });
        match written {
            Ok(()) => reply.written(u32::try_from(bytes.len()).unwrap()),
            Err(why) => reply.error(why),
        }
    }

    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        reply.ok();
    }

    fn fsync(&self, _: &Request, INodeNo(inode): INodeNo, _: FileHandle, data_only: bool, reply: ReplyEmpty) {
        self.sync(inode, data_only, reply);
    }

    fn fsyncdir(
        &self,
        _: &Request,
        INodeNo(inode): INodeNo,
        _: FileHandle,
        _data_only: bool,
        reply: ReplyEmpty,
    ) {
        self.sync(inode, false, reply);
    }

    fn readdir(
        &self,
        _: &Request,
        INodeNo(inode): INodeNo,
        _: FileHandle,
        at: u64,
        mut reply: ReplyDirectory,
    ) {
        let disk = lock(&self.disk);
        let Some(node) = disk.tree.node(inode) else { return reply.error(Errno::ESTALE) };
        let entries = node.entries.iter().enumerate().skip(usize::try_from(at).unwrap());
        for (number, (name, &inode)) in entries {
            let kind = disk.tree.node(inode).map_or(FileType::RegularFile, kind);
            if reply.add(INodeNo(inode), number as u64 + 1, kind, name) {
                break;
            }
        }
        reply.ok();
    }

    fn statfs(&self, _: &Request, _: INodeNo, reply: ReplyStatfs) {
        reply.statfs(1 << 24, 1 << 24, 1 << 24, 1 << 24, 1 << 24, 4096, 255, 4096);
    }

    fn setxattr(
        &self,
        _: &Request,
        INodeNo(inode): INodeNo,
        name: &OsStr,
        value: &[u8],
        _: i32,
        _: u32,
        reply: ReplyEmpty,
    ) {
        if !self.manners.attributes {
            return reply.error(Errno::EOPNOTSUPP);
        }
        let (name, value) = (name.to_owned(), value.to_owned());
        lock(&self.disk).change(Change::Marked { inode, name, value });
        reply.ok();
    }

    fn getxattr(&self, _: &Request, INodeNo(inode): INodeNo, name: &OsStr, size: u32, reply: ReplyXattr) {
        let disk = lock(&self.disk);
        match disk.tree.node(inode).and_then(|node| node.attributes.get(name)) {
            None => reply.error(Errno::NO_XATTR),
            Some(value) if size == 0 => reply.size(u32::try_from(value.len()).unwrap()),
            Some(value) if value.len() > size as usize => reply.error(Errno::ERANGE),
            Some(value) => reply.data(value),
        }
    }
}
