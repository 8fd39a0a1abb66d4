//! Renames that replace no file.

use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;

use rustix::fs::{AtFlags, CWD, RenameFlags};
use rustix::fs::{linkat, renameat, renameat_with, statat, unlinkat};
use rustix::io::Errno;

use crate::fs::beneath::{Folder, sync_folder};
use crate::fs::paths::folder_of;

/// A file: its name in an open folder, or its path.
#[derive(Clone, Copy)]
pub(crate) struct At<'a>(pub(crate) BorrowedFd<'a>, pub(crate) &'a Path);

impl<'a> At<'a> {
    pub(crate) fn folder(folder: &'a Folder, name: &'a Path) -> Self {
        Self(folder.as_fd(), name)
    }

    pub(crate) fn path(path: &'a Path) -> Self {
        Self(CWD, path)
    }
}

/// Renames a file, and fails if the new name is taken.
pub(crate) fn rename_new(from: At<'_>, to: At<'_>) -> Result<(), Errno> {
    match renameat_with(from.0, from.1, to.0, to.1, RenameFlags::NOREPLACE) {
        // NFS and other file systems do not support the flag.
        Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => link_new(from, to),
        done => done,
    }
}

/// Does the same as [`rename_new`] in two steps: if the process is killed in between, or the power
/// fails, the file may be left with both names.
fn link_new(from: At<'_>, to: At<'_>) -> Result<(), Errno> {
    match linkat(from.0, from.1, to.0, to.1, AtFlags::empty()) {
        Ok(()) => remove_old(from, to),
        // NFS may have done it, lost the answer, and repeated it.
        Err(Errno::EXIST) if are_same(from, to) => remove_old(from, to),
        Err(why @ (Errno::EXIST | Errno::XDEV)) => Err(why),
        Err(_) if statat(to.0, to.1, AtFlags::SYMLINK_NOFOLLOW).is_ok() => Err(Errno::EXIST),
        // Hard links are not supported either.
        Err(_) => renameat(from.0, from.1, to.0, to.1),
    }
}

/// Removes the old name of a file once its new one is on the disk.
fn remove_old(from: At<'_>, to: At<'_>) -> Result<(), Errno> {
    sync_folder(to.0, folder_of(to.1))?;
    match unlinkat(from.0, from.1, AtFlags::empty()) {
        Err(Errno::NOENT) => Ok(()),
        removed => removed,
    }
}

/// Returns whether both are names of one file.
fn are_same(one: At<'_>, other: At<'_>) -> bool {
    matches!((inode(one), inode(other)), (Ok(one), Ok(other)) if one == other)
}

/// Returns the device and the inode number of a file.
fn inode(At(folder, name): At<'_>) -> Result<(u64, u64), Errno> {
    statat(folder, name, AtFlags::SYMLINK_NOFOLLOW).map(|there| (there.st_dev, there.st_ino))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn without_the_flag_a_rename_replaces_nothing_either() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let link_new = |from: &str, to: &str| link_new(At::path(&at(from)), At::path(&at(to)));
        fs::write(at("a"), "input").unwrap();
        fs::write(at("out"), "output").unwrap();
        assert_eq!(link_new("a", "out"), Err(Errno::EXIST));
        assert_eq!(fs::read(at("out")).unwrap(), b"output");
        link_new("a", "b").unwrap();
        assert_eq!((fs::read(at("b")).unwrap(), at("a").exists()), (b"input".to_vec(), false));
        fs::hard_link(at("b"), at("twice")).unwrap();
        link_new("b", "twice").unwrap();
        assert_eq!((fs::read(at("twice")).unwrap(), at("b").exists()), (b"input".to_vec(), false));
        // Folders cannot be hard-linked.
        fs::create_dir(at("c")).unwrap();
        assert_eq!(link_new("c", "twice"), Err(Errno::EXIST));
        link_new("c", "d").unwrap();
        assert!(at("d").is_dir() && !at("c").exists());
    }
}
