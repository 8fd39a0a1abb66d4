//! The buckets of a run, and the memory of objects on their way.

use std::collections::HashMap;
use std::env;
use std::fmt;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use rustix::fs::{MemfdFlags, memfd_create};

use crate::ahead::Ahead;
use crate::budget::{Budget, Share};
use crate::error::{Error, Kind};
use crate::remote::{self, Carrier};
use crate::{Content, Expected, Found, Labels, Listed, Url};

/// All buckets that a run uses. A copy stands for the same.
#[derive(Clone)]
pub struct Storage(Arc<Inner>);

struct Inner {
    /// Half of the memory for objects: that of objects to be written.
    for_uploads: u64,
    /// The other half: that of objects to be fetched.
    for_fetches: Arc<Budget>,
    carrier: OnceLock<Result<Carrier, Error>>,
    buckets: Mutex<HashMap<String, Bucket>>,
    ahead: Ahead,
}

impl Storage {
    /// Prepares buckets with at most `memory` bytes of objects on their way. Starts no threads.
    pub fn new(memory: u64) -> Self {
        Self(Arc::new(Inner {
            for_uploads: memory / 2,
            for_fetches: Arc::new(Budget::new(memory / 2)),
            carrier: OnceLock::new(),
            buckets: Mutex::default(),
            ahead: Ahead::default(),
        }))
    }

    /// Returns the bucket of a URL.
    ///
    /// # Errors
    /// When the settings in the environment cannot be used. Whether there is such a bucket is only
    /// known from its first answer.
    pub fn bucket(&self, url: &Url) -> Result<Bucket, Error> {
        let carrier = self
            .0
            .carrier
            .get_or_init(|| Carrier::start(self.0.for_uploads))
            .as_ref()
            .map_err(Clone::clone)?;
        let mut buckets = self.0.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(bucket) = buckets.get(url.bucket()) {
            return Ok(bucket.clone());
        }
        let (root, remote) = (url.with_key(""), remote::Bucket::open(carrier, url)?);
        let bucket = Bucket(Arc::new(Opened { root, remote, storage: self.clone() }));
        buckets.insert(url.bucket().to_owned(), bucket.clone());
        Ok(bucket)
    }

    pub(crate) fn ahead(&self) -> &Ahead {
        &self.0.ahead
    }

    /// Returns an empty file for an object of this length, and its share of the memory.
    ///
    /// The file is in memory if there is room. One that is too large for that lies on the disk, and
    /// counts as all of the memory, which keeps few of its kind under way.
    pub(crate) fn file_for(&self, size: u64) -> Result<Option<(File, Share)>, Error> {
        let budget = &self.0.for_fetches;
        let Some(share) = budget.take(size.min(budget.total())) else { return Ok(None) };
        let file = if size <= budget.total() { in_memory() } else { unnamed_file() };
        file.map(|file| Some((file, share))).map_err(|why| unkept(&why))
    }
}

impl fmt::Debug for Storage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Storage").finish_non_exhaustive()
    }
}

pub(crate) fn unkept(why: &io::Error) -> Error {
    Error::new(Kind::Other(format!("no room to store it: {why}; set TMPDIR to another folder")))
}

fn in_memory() -> io::Result<File> {
    Ok(memfd_create("histeqd", MemfdFlags::CLOEXEC)?.into())
}

/// Returns the folder of unnamed files.
///
/// It is the one that TMPDIR names, or else one for large temporary files, as /tmp is often in
/// memory.
pub fn unnamed_folder() -> PathBuf {
    let (named, large) = (env::var_os("TMPDIR").filter(|named| !named.is_empty()), Path::new("/var/tmp"));
    named
        .map(PathBuf::from)
        .unwrap_or_else(|| if large.is_dir() { large.to_owned() } else { env::temp_dir() })
}

/// Creates an unnamed file in [`unnamed_folder`].
///
/// # Errors
/// When it cannot be created.
pub fn unnamed_file() -> io::Result<File> {
    tempfile::tempfile_in(unnamed_folder())
}

/// A bucket. A copy stands for the same.
#[derive(Clone)]
pub struct Bucket(Arc<Opened>);

struct Opened {
    root: Url,
    remote: remote::Bucket,
    storage: Storage,
}

impl fmt::Debug for Bucket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Bucket").field(&self.0.root).finish()
    }
}

impl Bucket {
    /// Lists the objects below a folder, page by page as the iterator is asked for them.
    ///
    /// They are in the order of their names where the store keeps one.
    ///
    /// An object with the folder's own name is not in it. An error ends the list.
    pub fn list(&self, folder: &Url) -> impl Iterator<Item = Result<Listed, Error>> + use<> {
        self.0.remote.list(folder)
    }

    /// Returns the names of the folders directly below a folder, whole, a thousand or so at most.
    ///
    /// # Errors
    /// When there is no answer, or access is denied.
    pub fn folders(&self, folder: &Url) -> Result<Vec<String>, Error> {
        self.0.remote.folders(folder)
    }

    /// Asks for the records of these objects, [`AT_ONCE`](crate::AT_ONCE) at once.
    ///
    /// The answers come in their order, with `None` for a missing object.
    pub fn heads(&self, urls: Vec<Url>) -> impl Iterator<Item = Result<Option<Found>, Error>> + use<> {
        self.0.remote.heads(urls)
    }

    /// Asks for the record of an object; `None` if it is missing.
    ///
    /// # Errors
    /// When there is no answer, or access is denied.
    pub fn head(&self, url: &Url) -> Result<Option<Found>, Error> {
        self.0.remote.head(url)
    }

    /// Returns the URL of an object of this bucket.
    pub fn url(&self, key: &str) -> Url {
        self.0.root.with_key(key)
    }

    /// Writes an object from a file, whole or not at all, if the expected state is at its place.
    ///
    /// The file has this length; the object gets these labels.
    ///
    /// # Errors
    /// When it cannot be written. After an error of the network it may be there all the same.
    pub fn put(
        &self,
        url: &Url,
        file: &File,
        length: u64,
        labels: Labels<'_>,
        expected: &Expected,
    ) -> Result<(), Error> {
        self.0.remote.put(url, Content::File(file), length, labels, expected)
    }

    /// Reads an object of at most `most` bytes, in whatever state it is; `None` if it is missing.
    ///
    /// # Errors
    /// When it is longer, there is no answer, or access is denied.
    pub fn get(&self, url: &Url, most: u64) -> Result<Option<Vec<u8>>, Error> {
        self.0.remote.get(url, most)
    }

    /// Writes an object with this content and without labels, in the place of any other.
    ///
    /// # Errors
    /// As of [`Bucket::put`].
    pub fn put_bytes(&self, url: &Url, content: &[u8]) -> Result<(), Error> {
        let length = content.len() as u64;
        self.0.remote.put(url, Content::Bytes(content), length, Labels::default(), &Expected::Anything)
    }

    /// Deletes an object, if it is there.
    ///
    /// # Errors
    /// When there is no answer, or access is denied.
    pub fn delete(&self, url: &Url) -> Result<(), Error> {
        self.0.remote.delete(url)
    }

    pub(crate) fn remote(&self) -> &remote::Bucket {
        &self.0.remote
    }

    pub(crate) fn storage(&self) -> &Storage {
        &self.0.storage
    }
}
