//! Temporary files and folders of this process.

use std::fs::File;
use std::io;
use std::path::Path;

use super::{affixes, lasting, lasting_name};
use crate::fs::beneath::Folder;
use crate::fs::digest::Digest;
use crate::fs::rename::{At, rename_new};

/// The permissions of a new output, before the process's umask removes some of them.
pub(super) const MODE: u32 = 0o644;

/// The kind of an output.
#[derive(Clone, Copy, Debug)]
pub(super) enum Kind {
    File,
    /// A folder, and a digest that is the same in other processes that may continue with it.
    Folder(Option<Digest>),
}

/// Creates the file or folder that becomes the output of this name. If it is for this process
/// alone, it is named with the first of these numbers that is free. Returns its name, and the open
/// file.
pub(super) fn create(
    kind: Kind,
    folder: &Folder,
    output: &Path,
    numbers: &mut dyn Iterator<Item = u64>,
) -> io::Result<(String, File)> {
    match kind {
        Kind::File => create_as(numbers, |name| folder.create_new(name, MODE)),
        Kind::Folder(of) => match of.and_then(|of| take_lasting(folder, output, of)) {
            Some(taken) => Ok(taken),
            None => create_as(numbers, |name| folder.create_folder(name)),
        },
    }
}

/// Takes the folder that another process may have left; `None` if there can be none.
fn take_lasting(folder: &Folder, output: &Path, of: Digest) -> Option<(String, File)> {
    let name = lasting_name(output, of)?;
    let file = lasting::take(folder, &name).ok()?;
    Some((name, file))
}

/// Renames a file in a folder to a temporary name of this process, with the first of these numbers
/// that is free. Returns the name.
pub(super) fn rename(
    folder: &Folder,
    from: &Path,
    numbers: &mut dyn Iterator<Item = u64>,
) -> io::Result<String> {
    let renamed = create_as(numbers, |name| {
        Ok(rename_new(At::folder(folder, from), At::folder(folder, Path::new(name)))?)
    });
    renamed.map(|(name, ())| name)
}

fn create_as<T>(
    numbers: &mut dyn Iterator<Item = u64>,
    create: impl Fn(&str) -> io::Result<T>,
) -> io::Result<(String, T)> {
    let (before, after) = affixes();
    for number in numbers {
        let name = format!("{before}{number}{after}");
        match create(&name) {
            // Left by an earlier process with our process ID, which was killed.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            created => return created.map(|created| (name, created)),
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
    /// Creates one that only this user may read. Also returns the open file.
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
        // An error is ignored: a leftover is hidden and recognizable as ours.
        let _ = self.folder.remove(self.name());
    }
}
