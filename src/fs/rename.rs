//! Renames that replace no file.

use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;

use rustix::fs::{AtFlags, CWD, RenameFlags};
use rustix::fs::{linkat, renameat, renameat_with, statat, unlinkat};
use rustix::io::Errno;

use crate::fs::beneath::Folder;

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

/// Renames a file without replacing one that has the new name.
pub(crate) fn rename_new(from: At<'_>, to: At<'_>) -> Result<(), Errno> {
    match renameat_with(from.0, from.1, to.0, to.1, RenameFlags::NOREPLACE) {
        // NFS and other file systems do not support the flag.
        Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => link_new(from, to),
        done => done,
    }
}

/// Does the same as [`rename_new`] in two steps: a process that is killed in between leaves the file with both names.
fn link_new(from: At<'_>, to: At<'_>) -> Result<(), Errno> {
    match linkat(from.0, from.1, to.0, to.1, AtFlags::empty()) {
        Ok(()) => unlinkat(from.0, from.1, AtFlags::empty()),
        Err(why @ (Errno::EXIST | Errno::XDEV)) => Err(why),
        Err(_) if statat(to.0, to.1, AtFlags::SYMLINK_NOFOLLOW).is_ok() => Err(Errno::EXIST),
        // Hard links are not supported either.
        Err(_) => renameat(from.0, from.1, to.0, to.1),
    }
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
        // Folders cannot be hard-linked.
        fs::create_dir(at("c")).unwrap();
        assert_eq!(link_new("c", "b"), Err(Errno::EXIST));
        link_new("c", "d").unwrap();
        assert!(at("d").is_dir() && !at("c").exists());
    }
}
