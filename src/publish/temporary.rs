//! Temporary files of this process.

use std::fs::File;
use std::io;
use std::path::Path;

use super::affixes;
use crate::fs::beneath::Folder;

/// The permissions of a new output, before the process's umask removes some of them.
pub(super) const MODE: u32 = 0o644;

/// Creates something temporary in a folder, named with the first of these numbers that is free. Returns its name, and what was opened.
pub(super) type Create = fn(&Folder, &mut dyn Iterator<Item = u64>) -> io::Result<(String, File)>;

/// Creates a temporary file that becomes an output, as a [`Create`].
pub(super) fn create(folder: &Folder, numbers: &mut dyn Iterator<Item = u64>) -> io::Result<(String, File)> {
    create_as(numbers, |name| folder.create_new(name, MODE))
}

/// Creates a temporary folder that becomes an output, as a [`Create`].
pub(super) fn create_folder(
    folder: &Folder,
    numbers: &mut dyn Iterator<Item = u64>,
) -> io::Result<(String, File)> {
    create_as(numbers, |name| folder.create_folder(name))
}

fn create_as(
    numbers: &mut dyn Iterator<Item = u64>,
    create: impl Fn(&str) -> io::Result<File>,
) -> io::Result<(String, File)> {
    let (before, after) = affixes();
    for number in numbers {
        let name = format!("{before}{number}{after}");
        match create(&name) {
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
        let (name, file) = create_as(&mut (0..), |name| folder.create_new(name, 0o600))?;
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
