//! Storage of an image that is not a file: values under keys, as in Zarr.

use std::fmt;
use std::fs::File;
use std::io;
use std::sync::Arc;

/// A store of an image: values under keys, which are paths with slashes such as "0/c/1/2".
///
/// Errors name the key.
pub trait ImageStore: fmt::Debug + Send + Sync {
    /// Reads a value of at most `most` bytes; `None` if there is no value.
    ///
    /// # Errors
    /// When it is longer, or cannot be read.
    fn read(&self, key: &str, most: u64) -> io::Result<Option<Vec<u8>>>;

    /// Opens a value of any length as a file, at its start; `None` if there is no value.
    ///
    /// # Errors
    /// When it cannot be read.
    fn open(&self, key: &str) -> io::Result<Option<File>>;

    /// Calls `take` with the keys of all values, except those that `skips` is true for.
    ///
    /// `skips` may be given the folders above a key too.
    ///
    /// # Errors
    /// The first of `take`, and when keys cannot be listed, or are no keys of Zarr.
    fn each_key(
        &self,
        skips: &dyn Fn(&str) -> bool,
        take: &mut dyn FnMut(&str) -> io::Result<()>,
    ) -> io::Result<()>;

    /// Writes a value, in the place of another if there is one.
    ///
    /// # Errors
    /// When it cannot be written.
    fn write(&self, key: &str, value: &[u8]) -> io::Result<()>;

    /// Writes the rest of a file, as [`ImageStore::write`] does. Returns the number of bytes.
    ///
    /// # Errors
    /// When it cannot be read or written.
    fn write_file(&self, key: &str, value: File) -> io::Result<u64>;

    /// Removes a value, if it is there.
    ///
    /// # Errors
    /// When it cannot be removed.
    fn remove(&self, key: &str) -> io::Result<()>;
}

/// The source of a picture, or the destination of its pages.
#[derive(Debug)]
pub enum Medium {
    /// A file, or the folder of an image.
    File(File),
    /// Another store of an image.
    Image(Arc<dyn ImageStore>),
}

/// A borrowed [`Medium`].
#[derive(Clone, Copy, Debug)]
pub enum MediumRef<'m> {
    /// A file, or the folder of an image.
    File(&'m File),
    /// Another store of an image.
    Image(&'m Arc<dyn ImageStore>),
}

impl<'m> From<&'m File> for MediumRef<'m> {
    fn from(file: &'m File) -> Self {
        Self::File(file)
    }
}

impl<'m> From<&'m Medium> for MediumRef<'m> {
    fn from(medium: &'m Medium) -> Self {
        match medium {
            Medium::File(file) => Self::File(file),
            Medium::Image(store) => Self::Image(store),
        }
    }
}
