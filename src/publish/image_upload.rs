//! An OME-Zarr image as an output in object storage. Its objects are written as they come, and last
//! of all the metadata that makes programs take them for an image.

use std::collections::{BTreeMap, HashSet};
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use codec::multiscales;
use codec::multiscales::ImageStore;
use store::{Bucket, Entry, Found, Url, Version};

use super::{PublishError, Published, Upload};
use crate::picture::recipe::Recipe;
use crate::picture::record::{Digest, Origin, Record};
use crate::picture::stored_image::ObjectFolder;

/// The message where two runs wrote chunks of one name.
const MIXED: &str =
    "another run wrote an image of this name meanwhile, and both are mixed; run the same command again";

/// An image for object storage. Dropping it leaves its objects, as another run may be writing the
/// same.
#[derive(Debug)]
pub struct ImageUpload {
    store: Arc<ImageOutput>,
    output: PathBuf,
    origin: Option<(Origin, Option<Recipe>)>,
}

impl ImageUpload {
    /// Starts the output `output`. An existing image stops being one: that of which this is the
    /// document, or one that histeqd wrote.
    ///
    /// # Errors
    /// When its name cannot be that of objects, another image is there, or the bucket gives no
    /// answer or no access.
    pub fn begin(bucket: &Bucket, output: &Path, replaced: Option<&Version>) -> Result<Self, PublishError> {
        let failed = |why| PublishError::of_store(output, why);
        let url = Url::parse(output).map_err(failed)?;
        let is_empty = bucket.list(&url).next().transpose().map_err(failed)?.is_none();
        let folder = ObjectFolder::new(bucket, url);
        let replaces = !is_empty && {
            let former = former(&folder).map_err(failed)?;
            if former.iter().any(|(_, found)| is_of_others(found, replaced)) {
                let source = io::Error::other("another image of that name has appeared");
                return Err(PublishError::new(output, source));
            }
            let urls = former.iter().map(|(url, _)| url);
            urls.clone().try_for_each(|url| bucket.delete(url)).map_err(failed)?;
            urls.len() > 0
        };
        let store = ImageOutput::new(folder, is_empty, replaces);
        Ok(Self { store: Arc::new(store), output: output.to_owned(), origin: None })
    }

    /// Attaches a record of the image's origin, and the recipe if everyone who may read the image
    /// may see it.
    pub fn record(&mut self, origin: Origin, recipe: Option<Recipe>) {
        self.origin = Some((origin, recipe));
    }

    /// Returns the name that it will have.
    pub fn output(&self) -> &Path {
        &self.output
    }

    /// Returns the store to write it to.
    pub fn store(&self) -> Arc<dyn ImageStore> {
        Arc::clone(&self.store) as Arc<dyn ImageStore>
    }

    /// Converts an error of its objects.
    pub fn unwritten(&self, source: io::Error) -> PublishError {
        PublishError::new(&self.output, source)
    }

    /// Makes it an image. The rest of a previous one is deleted.
    ///
    /// # Errors
    /// When it cannot be written, or another run has written another one meanwhile.
    pub(super) fn publish(mut self) -> Result<Published, PublishError> {
        let (last, told) = self.store.complete().map_err(|source| self.unwritten(source))?;
        let mut upload = Upload::begin(self.store.folder.bucket(), &self.output.join(last), None)?;
        upload.file().write_all(&told).map_err(|source| upload.unwritten(source))?;
        if let Some((origin, recipe)) = self.origin.take() {
            upload.record(origin, recipe);
        }
        if upload.is_in_the_way()? {
            let mixed = || io::Error::other(MIXED);
            let why = self.store.folder.remove(last).err().unwrap_or_else(mixed);
            return Err(self.unwritten(why));
        }
        let published = upload.publish()?;
        Ok(Published { bytes: self.store.written.load(Ordering::Relaxed), ..published })
    }
}

/// The objects of an unfinished image.
#[derive(Debug)]
struct ImageOutput {
    folder: ObjectFolder,
    /// Whether the folder was empty when it was begun.
    is_new: bool,
    /// Whether an image was there.
    replaces: bool,
    /// The metadata that is written last.
    documents: Mutex<BTreeMap<String, Vec<u8>>>,
    /// The written objects, as digests of the keys.
    keys: Mutex<HashSet<Digest>>,
    /// The bytes of all these.
    written: AtomicU64,
}

/// Returns the metadata that makes the existing objects an image: it is deleted before they are
/// overwritten, chunk by chunk.
fn former(folder: &ObjectFolder) -> Result<Vec<(Url, Found)>, store::Error> {
    let urls = folder.urls(multiscales::METADATA);
    let found = urls.iter().cloned().zip(folder.bucket().heads(urls.clone()));
    found.filter_map(|(url, found)| found.map(|found| Some((url, found?))).transpose()).collect()
}

/// Returns whether a document is of an image that was not seen and that histeqd did not write.
/// Only the document that makes it an image has a record.
fn is_of_others(found: &Found, replaced: Option<&Version>) -> bool {
    let Entry { key, version, size } = &found.entry;
    let names_image = multiscales::DOCUMENTS.into_iter().any(|name| key.rsplit('/').next() == Some(name));
    let is_own = |record: Record| record.is_of_length(*size);
    names_image && replaced != Some(version) && !Record::of_found(found).is_some_and(is_own)
}

impl ImageOutput {
    fn new(folder: ObjectFolder, is_new: bool, replaces: bool) -> Self {
        Self {
            folder,
            is_new,
            replaces,
            documents: Mutex::default(),
            keys: Mutex::default(),
            written: AtomicU64::new(0),
        }
    }

    /// Deletes the objects of a previous image that this one lacks.
    fn delete_former(&self) -> io::Result<()> {
        if !self.replaces {
            return Ok(());
        }
        let keys = lock(&self.keys);
        self.folder
            .each_key(&|key| keys.contains(&Digest::of(key.as_bytes())), &mut |key| self.folder.remove(key))
    }

    /// Writes the metadata that was kept, except the last document. Returns that one's name and
    /// content.
    fn complete(&self) -> io::Result<(&'static str, Vec<u8>)> {
        self.delete_former()?;
        let mut documents = lock(&self.documents);
        let mut names = multiscales::DOCUMENTS.into_iter();
        let last = names.find(|name| documents.get(*name).is_some_and(|text| multiscales::says_image(text)));
        let last = last.ok_or_else(|| io::Error::other("it has no metadata of an image"))?;
        let told = documents.remove(last).unwrap_or_default();
        documents.iter().try_for_each(|(name, text)| self.folder.write(name, text))?;
        Ok((last, told))
    }

    fn note(&self, key: &str, bytes: u64) {
        lock(&self.keys).insert(Digest::of(key.as_bytes()));
        self.written.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Keeps metadata of the image itself until the end.
    fn keep(&self, key: &str, text: Vec<u8>) -> u64 {
        let bytes = text.len() as u64;
        self.note(key, bytes);
        lock(&self.documents).insert(key.to_owned(), text);
        bytes
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl ImageStore for ImageOutput {
    fn read(&self, key: &str, most: u64) -> io::Result<Option<Vec<u8>>> {
        self.folder.read(key, most)
    }

    fn open(&self, key: &str) -> io::Result<Option<File>> {
        self.folder.open(key)
    }

    fn each_key(
        &self,
        skips: &dyn Fn(&str) -> bool,
        take: &mut dyn FnMut(&str) -> io::Result<()>,
    ) -> io::Result<()> {
        self.folder.each_key(skips, take)
    }

    fn write(&self, key: &str, value: &[u8]) -> io::Result<()> {
        if multiscales::METADATA.contains(&key) {
            self.keep(key, value.to_vec());
            return Ok(());
        }
        self.folder.write(key, value)?;
        self.note(key, value.len() as u64);
        Ok(())
    }

    fn write_file(&self, key: &str, mut value: File) -> io::Result<u64> {
        if multiscales::METADATA.contains(&key) {
            let length = value.metadata()?.len();
            if length > multiscales::LONGEST {
                let most = multiscales::LONGEST;
                let why = format!("{key}: it has {length} bytes, more than the limit of {most}");
                return Err(io::Error::other(why));
            }
            let mut text = Vec::new();
            value.read_to_end(&mut text)?;
            return Ok(self.keep(key, text));
        }
        let bytes = self.folder.write_file(key, value)?;
        self.note(key, bytes);
        Ok(bytes)
    }

    // In a folder that was empty, there is no need to ask.
    fn remove(&self, key: &str) -> io::Result<()> {
        if self.is_new { Ok(()) } else { self.folder.remove(key) }
    }
}
