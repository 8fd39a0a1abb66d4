//! Unfinished outputs: with a temporary name, then complete except for their name, and at last
//! under it.

use std::fs::{File, Metadata, Permissions};
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use rustix::io::Errno;

use super::replaced::Place;
use super::{Appeared, PublishError, Publisher, Replaces, notes, remove, temporary};
use crate::config::Durability;
use crate::fs::beneath::Folder;
use crate::fs::paths::Identity;
use crate::fs::rename::{At, rename_new};
use crate::fs::stamp::Tree;
use crate::picture::recipe::Recipe;
use crate::picture::record::{Origin, Record};

/// How often the place of an output is looked at if files come to it meanwhile.
const LOOKS: usize = 5;

/// An output that has not appeared yet. Dropping it removes its files.
#[derive(Debug)]
pub struct Unpublished<'a> {
    hidden: Hidden<'a>,
    file: File,
    origin: Option<(Origin, Recipe)>,
    /// Whether it reaches the disk before it appears, whatever the publisher's durability.
    is_durable: bool,
    /// Its modification time, if not the time of writing.
    modified: Option<SystemTime>,
    /// Its permissions, if not those of any new file.
    permissions: Option<Permissions>,
}

impl<'a> Unpublished<'a> {
    pub(super) fn new(hidden: Hidden<'a>, file: File) -> Self {
        Self { hidden, file, origin: None, is_durable: false, modified: None, permissions: None }
    }

    /// Returns the name that it will have.
    pub fn output(&self) -> &Path {
        &self.hidden.output
    }

    /// Returns the file to write the output's content to, which is empty at first, or the folder,
    /// which may hold the work of an earlier process.
    pub fn file(&mut self) -> &mut File {
        &mut self.file
    }

    /// Attaches a record of the output's origin, and the recipe.
    pub fn record(&mut self, origin: Origin, recipe: Recipe) {
        self.origin = Some((origin, recipe));
    }

    /// Restricts the files that the output may replace: with another in its place, publishing
    /// fails.
    pub fn replace(&mut self, replaces: Replaces) {
        self.hidden.replaces = replaces;
    }

    /// Makes the output's content reach the disk before it appears.
    pub fn make_durable(&mut self) {
        self.is_durable = true;
    }

    /// Sets the output's modification time.
    pub fn modified_at(&mut self, time: SystemTime) {
        self.modified = Some(time);
    }

    /// Sets the output's permissions.
    pub fn permit(&mut self, permissions: Permissions) {
        self.permissions = Some(permissions);
    }

    /// Makes the output appear under its name, replacing an existing file if that is
    /// allowed. Returns its length in bytes.
    ///
    /// # Errors
    /// When it cannot be written, or has been abandoned by [`Publisher::abandon_all`].
    pub fn publish(self) -> Result<u64, PublishError> {
        self.seal()?.publish()
    }

    /// Completes the output except for its name, and closes its file.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn seal(self) -> Result<Sealed<'a>, PublishError> {
        let metadata = self.finish().map_err(|source| self.unwritten(source))?;
        let bytes = match metadata.is_dir() {
            true => Tree::of(&self.hidden.temporary).map_err(|source| self.unwritten(source))?.bytes,
            false => metadata.len(),
        };
        Ok(Sealed { hidden: self.hidden, bytes, file: Identity::of(&metadata) })
    }

    /// Converts an error of its file: the output is to blame.
    pub fn unwritten(&self, source: io::Error) -> PublishError {
        self.hidden.unwritten(source)
    }

    fn finish(&self) -> io::Result<Metadata> {
        if self.file.metadata()?.is_dir() {
            notes::remove_all(&self.file)?;
        }
        if let Some(time) = self.modified {
            self.file.set_modified(time)?;
        }
        if let Some(permissions) = &self.permissions {
            self.file.set_permissions(permissions.clone())?;
        }
        let metadata = self.file.metadata()?;
        if let Some((origin, recipe)) = &self.origin {
            Record::new(origin, &metadata).put_on(&self.file);
            recipe.put_on(&self.file);
        }
        if self.is_durable || self.hidden.publisher.durability == Durability::Full {
            match metadata.is_dir() {
                // All files below it.
                true => rustix::fs::syncfs(&self.file)?,
                false => self.file.sync_all()?,
            }
        }
        Ok(metadata)
    }
}

/// An output that is complete except for its name. Dropping it removes its files.
#[derive(Debug)]
pub struct Sealed<'a> {
    hidden: Hidden<'a>,
    bytes: u64,
    file: Identity,
}

impl Sealed<'_> {
    /// Returns the name that it will have.
    pub fn output(&self) -> &Path {
        &self.hidden.output
    }

    /// Makes the output appear, as [`Unpublished::publish`] does.
    ///
    /// # Errors
    /// When it cannot be renamed, or has been abandoned by [`Publisher::abandon_all`].
    pub fn publish(self) -> Result<u64, PublishError> {
        self.hidden.appear(self.file).map_err(|source| self.hidden.unwritten(source))?;
        Ok(self.bytes)
    }
}

/// A file with a temporary name, which is removed when this is dropped.
#[derive(Debug)]
pub(super) struct Hidden<'a> {
    pub(super) publisher: &'a Publisher,
    /// The root of the tree that both of these lie in.
    pub(super) root: PathBuf,
    pub(super) temporary: PathBuf,
    pub(super) output: PathBuf,
    /// The files that it may replace.
    pub(super) replaces: Replaces,
}

impl Hidden<'_> {
    /// Gives the file its name.
    fn appear(&self, file: Identity) -> io::Result<()> {
        let (folder, name) = Folder::of(&self.root, &self.output)?;
        match self.rename(&folder, name) {
            Ok(()) => drop(self.publisher.live().remove(&self.temporary)),
            // Over a network, the rename may have been done and the answer lost.
            Err(_) if folder.metadata(name).is_ok_and(|there| Identity::of(&there) == file) => {}
            Err(why) => return Err(why),
        }
        if self.publisher.durability == Durability::Full {
            folder.sync()?;
        }
        Ok(())
    }

    fn rename(&self, folder: &Folder, name: &Path) -> io::Result<()> {
        let temporary = Path::new(self.temporary.file_name().unwrap_or_default());
        for _ in 0..LOOKS {
            let renamed = match Place::of(self.replaces, folder, name, &self.output, temporary)? {
                Place::Free => rename_new(At::folder(folder, temporary), At::folder(folder, name)),
                Place::Replaceable => {
                    return folder
                        .rename(temporary, name)
                        .or_else(|why| self.take_place(folder, temporary, name, why));
                }
                Place::Same => return folder.remove(temporary),
                Place::Taken => break,
            };
            match renamed {
                // It came after the look.
                Err(Errno::EXIST) => {}
                renamed => return Ok(renamed?),
            }
        }
        Err(io::Error::other(Appeared("file")))
    }

    /// Replaces a folder that is not empty, for which a rename is not enough. Only images are
    /// removed.
    fn take_place(&self, folder: &Folder, temporary: &Path, name: &Path, why: io::Error) -> io::Result<()> {
        if why.kind() != io::ErrorKind::DirectoryNotEmpty {
            return Err(why);
        }
        if !codec::multiscales::is_image_folder(&self.output) {
            return Err(io::ErrorKind::IsADirectory.into());
        }
        // The old content must not get the name of a folder that a later process continues with.
        let passing = temporary::rename(folder, temporary, &mut self.publisher.numbers())?;
        let exchanged = folder.exchange(&passing, name);
        // An error is ignored: a leftover is hidden and recognizable as ours.
        let _ = folder.remove_all(&passing);
        exchanged
    }

    fn unwritten(&self, source: io::Error) -> PublishError {
        PublishError::new(&self.output, source)
    }
}

impl Drop for Hidden<'_> {
    fn drop(&mut self) {
        if self.publisher.live().remove(&self.temporary).is_some() {
            remove(&self.root, &self.temporary);
        }
    }
}
