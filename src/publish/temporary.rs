//! Temporary files of this process.

use std::fs::File;
use std::io;
use std::path::Path;

use super::affixes;
use crate::fs::beneath::Folder;

/// Creates a temporary file with these permissions, named with the first of these numbers that is free. Returns its name too.
///
/// # Errors
/// When it cannot be created.
pub(super) fn create(
    folder: &Folder,
    mode: u32,
    numbers: impl Iterator<Item = u64>,
) -> io::Result<(String, File)> {
    let (before, after) = affixes();
    for number in numbers {
        let name = format!("{before}{number}{after}");
        match folder.create_new(&name, mode) {
            // Left by an earlier process with our process ID, which was killed.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            created => return created.map(|file| (name, file)),
        }
    }
    Err(io::ErrorKind::AlreadyExists.into())
}

/// A temporary file that is removed when it is dropped, unless it has been renamed.
#[derive(Debug)]
pub(crate) struct Temporary<'f> {
    folder: &'f Folder,
    name: String,
}

impl<'f> Temporary<'f> {
    /// Creates one that only this user may read. Returns the open file too.
    ///
    /// # Errors
    /// When it cannot be created.
    pub(crate) fn create(folder: &'f Folder) -> io::Result<(Self, File)> {
        let (name, file) = create(folder, 0o600, 0..)?;
        Ok((Self { folder, name }, file))
    }

    pub(crate) fn name(&self) -> &Path {
        Path::new(&self.name)
    }
}

impl Drop for Temporary<'_> {
    fn drop(&mut self) {
        // There is nobody to report an error to, and a leftover is hidden and recognizable as ours.
        let _ = self.folder.remove(self.name());
    }
}
