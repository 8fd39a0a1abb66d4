//! Temporary folders that survive a killed process, for a later one to continue with. A process
//! that writes to one has locked it.

use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::fs::{FlockOperation, flock};
use rustix::process::geteuid;

use crate::fs::beneath::Folder;
use crate::fs::paths::Identity;

/// Creates the folder of this name, or opens the existing one. The lock on it ends with the last
/// duplicate of the file.
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
    taken
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

#[cfg(test)]
mod tests {
    use std::fs;

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
        std::os::unix::fs::symlink("output", place.path().join("link")).unwrap();
        assert!(take(&folder, "link").is_err() && place.path().join("output/chunk").exists());
    }
}
