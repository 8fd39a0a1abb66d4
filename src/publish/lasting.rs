//! Temporary folders that survive a killed process, for a later one to continue with. A process
//! that writes to one has locked it.

use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::fs::{AtFlags, Dir, FileType, FlockOperation, Mode, OFlags};
use rustix::fs::{flock, openat, statat};
use rustix::process::geteuid;

use crate::fs::beneath::Folder;
use crate::fs::paths::Identity;

/// A folder to list, but not through a link.
const LISTED: OFlags = OFlags::DIRECTORY.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// Creates the folder of this name, or opens the existing one. The lock on it ends with the last
/// duplicate of the file. A folder with content that could not be continued with is made anew.
///
/// # Errors
/// When another process writes to it, or it cannot be created, or not be locked, or is another
/// user's.
pub(super) fn take(folder: &Folder, name: &str) -> io::Result<File> {
    let is_new = folder.create_folder(name).is_ok();
    let taken = lock(folder, Path::new(name)).and_then(must_be_own);
    if is_new && taken.as_ref().is_err_and(|why| why.kind() != ErrorKind::WouldBlock) {
        folder.remove_all(name)?;
    }
    let taken = taken?;
    if is_new || is_usable(&taken).unwrap_or(false) {
        return Ok(taken);
    }
    folder.remove_all(name)?;
    folder.create_folder(name)?;
    lock(folder, Path::new(name)).and_then(must_be_own)
}

/// Opens and locks the folder of this name.
///
/// # Errors
/// When another process has locked it, or it cannot be opened or locked.
pub(super) fn lock(folder: &Folder, name: &Path) -> io::Result<File> {
    let file = folder.open_folder(name)?;
    flock(&file, FlockOperation::NonBlockingLockExclusive)?;
    // It may have become an output, or have been removed, before it was locked.
    let is_still_there = Identity::of(&folder.metadata(name)?) == Identity::of(&file.metadata()?);
    if is_still_there { Ok(file) } else { Err(ErrorKind::WouldBlock.into()) }
}

/// Refuses a folder that another user may have prepared.
fn must_be_own(file: File) -> io::Result<File> {
    let is_own = file.metadata()?.uid() == geteuid().as_raw();
    if is_own { Ok(file) } else { Err(ErrorKind::PermissionDenied.into()) }
}

/// Returns whether a folder only has files and folders that this process can have left: its user's,
/// who may write to them, and no links to elsewhere.
fn is_usable(folder: impl AsFd) -> io::Result<bool> {
    let user = geteuid().as_raw();
    for entry in Dir::read_from(&folder)? {
        let entry = entry?;
        let name = entry.file_name();
        if name == c"." || name == c".." {
            continue;
        }
        let there = statat(&folder, name, AtFlags::SYMLINK_NOFOLLOW)?;
        let may = Mode::from_raw_mode(there.st_mode);
        let is_usable = there.st_uid == user
            && match FileType::from_raw_mode(there.st_mode) {
                FileType::RegularFile => there.st_nlink == 1 && may.contains(Mode::RUSR.union(Mode::WUSR)),
                FileType::Directory => {
                    may.contains(Mode::RWXU) && is_usable(openat(&folder, name, LISTED, Mode::empty())?)?
                }
                _ => false,
            };
        if !is_usable {
            return Ok(false);
        }
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn one_process_at_a_time_has_a_folder_and_the_next_finds_what_is_in_it() {
        let place = tempfile::tempdir().unwrap();
        let folder = Folder::open(place.path(), Path::new("")).unwrap();
        let first = take(&folder, "a").unwrap();
        fs::write(place.path().join("a/chunk"), "chunk").unwrap();
        let duplicate = first.try_clone().unwrap();
        drop(first);
        assert_eq!(take(&folder, "a").unwrap_err().kind(), ErrorKind::WouldBlock);
        assert!(place.path().join("a/chunk").exists());
        drop(duplicate);
        let second = take(&folder, "a").unwrap();
        assert!(place.path().join("a/chunk").exists());
        // A folder that has become an output must not be taken.
        fs::rename(place.path().join("a"), place.path().join("output")).unwrap();
        drop(take(&folder, "a").unwrap());
        assert!(!place.path().join("a/chunk").exists());
        drop(second);
        for prepare in [
            |at: &Path| fs::hard_link(at.join("../output/chunk"), at.join("0/chunk")).unwrap(),
            |at: &Path| std::os::unix::fs::symlink("../../output/chunk", at.join("0/chunk")).unwrap(),
            |at: &Path| fs::set_permissions(at.join("0"), fs::Permissions::from_mode(0o500)).unwrap(),
        ] {
            fs::create_dir_all(place.path().join("a/0")).unwrap();
            prepare(&place.path().join("a"));
            drop(take(&folder, "a").unwrap());
            assert!(!place.path().join("a/0").exists(), "it is begun again");
            assert_eq!(fs::read(place.path().join("output/chunk")).unwrap(), b"chunk");
        }
        std::os::unix::fs::symlink("output", place.path().join("link")).unwrap();
        assert!(take(&folder, "link").is_err() && place.path().join("output/chunk").exists());
    }
}
