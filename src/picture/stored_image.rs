//! OME-Zarr images in object storage: each is the set of objects below a folder.

use std::fs::File;
use std::io;
use std::sync::Arc;

use codec::multiscales::ImageStore;
use codec::waiting_for_file;
use store::{Bucket, Entry, Expected, Labels, Listed, Object, Url};

use super::record::Digest;
use crate::fs::stamp::Stamp;

/// The objects below a folder, by their paths relative to it.
#[derive(Clone, Debug)]
pub(crate) struct ObjectFolder {
    bucket: Bucket,
    url: Url,
}

impl ObjectFolder {
    pub(crate) fn new(bucket: &Bucket, url: Url) -> Self {
        Self { bucket: bucket.clone(), url }
    }

    /// Returns the bucket that it lies in.
    pub(crate) fn bucket(&self) -> &Bucket {
        &self.bucket
    }

    /// Returns the URLs of these objects.
    pub(crate) fn urls<'k>(&self, keys: impl IntoIterator<Item = &'k str>) -> Vec<Url> {
        keys.into_iter().map(|key| self.url_of(key)).collect()
    }

    fn url_of(&self, key: &str) -> Url {
        match self.url.key() {
            "" => self.bucket.url(key),
            folder => self.bucket.url(&format!("{folder}/{key}")),
        }
    }

    /// Calls `take` with each object and its path, except empty ones, which only mark a folder for
    /// some programs.
    fn each_entry(&self, take: &mut dyn FnMut(&str, &Entry) -> io::Result<()>) -> io::Result<()> {
        for listed in self.bucket.list(&self.url) {
            match listed.map_err(io::Error::other)? {
                Listed::Object(entry) if entry.size > 0 => {
                    let url = self.bucket.url(&entry.key);
                    url.below(&self.url).map_or(Ok(()), |key| take(key, &entry))?;
                }
                Listed::Object(_) | Listed::Marker(_) => {}
                Listed::Unusable(one) => {
                    let why = format!("{}: {}; copy it under another name", one.name.escape_debug(), one.why);
                    return Err(io::Error::other(why));
                }
            }
        }
        Ok(())
    }
}

/// Returns the error of an object; one of the bucket or of access concerns all, and stays
/// unchanged.
fn failed(key: &str, why: store::Error) -> io::Error {
    match why.concerns_bucket() || why.is_denied() {
        true => io::Error::other(why),
        false => io::Error::other(format!("{key}: {why}")),
    }
}

impl ImageStore for ObjectFolder {
    fn read(&self, key: &str, most: u64) -> io::Result<Option<Vec<u8>>> {
        waiting_for_file(|| self.bucket.get(&self.url_of(key), most)).map_err(|why| failed(key, why))
    }

    fn open(&self, key: &str) -> io::Result<Option<File>> {
        let found = self.bucket.head(&self.url_of(key)).map_err(|why| failed(key, why))?;
        let object = found.map(|found| Object::new(self.bucket.clone(), found.entry));
        object.map(|object| object.open()).transpose().map_err(|why| failed(key, why))
    }

    fn each_key(
        &self,
        skips: &dyn Fn(&str) -> bool,
        take: &mut dyn FnMut(&str) -> io::Result<()>,
    ) -> io::Result<()> {
        self.each_entry(&mut |key, _| if skips(key) { Ok(()) } else { take(key) })
    }

    fn write(&self, key: &str, value: &[u8]) -> io::Result<()> {
        self.bucket.put_bytes(&self.url_of(key), value).map_err(|why| failed(key, why))
    }

    fn write_file(&self, key: &str, value: File) -> io::Result<u64> {
        let length = value.metadata()?.len();
        let put = self.bucket.put(&self.url_of(key), &value, length, Labels::default(), &Expected::Anything);
        put.map(|()| length).map_err(|why| failed(key, why))
    }

    fn remove(&self, key: &str) -> io::Result<()> {
        self.bucket.delete(&self.url_of(key)).map_err(|why| failed(key, why))
    }
}

/// The state of an image's objects, gathered one by one in any order.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ObjectsState {
    bytes: u64,
    digest: i64,
    /// The time of the last write to any of them, in nanoseconds since 1970.
    pub(crate) newest_ns: i64,
}

impl ObjectsState {
    /// Adds an object by its path below the image, unless it only marks a folder.
    pub(crate) fn add(&mut self, key: &str, entry: &Entry) {
        if entry.size == 0 {
            return;
        }
        let Stamp { size, mtime_ns, .. } = Stamp::of_object(entry);
        let state = [size.to_le_bytes(), mtime_ns.to_le_bytes()];
        self.bytes += size;
        self.digest =
            self.digest.wrapping_add(Digest::of(&[state.as_flattened(), key.as_bytes()].concat()).number());
        self.newest_ns = self.newest_ns.max(entry.version.modified_ns);
    }

    /// Returns the stamp of the image.
    pub(crate) fn stamp(&self) -> Stamp {
        Stamp { size: self.bytes, mtime_ns: self.digest, inode: 0 }
    }
}

/// An image in the state in which its objects were listed.
#[derive(Clone, Debug)]
pub struct StoredImage {
    folder: Arc<ObjectFolder>,
    stamp: Stamp,
}

impl StoredImage {
    pub(crate) fn new(folder: ObjectFolder, stamp: Stamp) -> Arc<Self> {
        Arc::new(Self { folder: Arc::new(folder), stamp })
    }

    /// Returns the stamp of that state.
    pub(crate) fn stamp(&self) -> Stamp {
        self.stamp
    }

    /// Returns its objects.
    pub(crate) fn store(&self) -> Arc<dyn ImageStore> {
        Arc::clone(&self.folder) as Arc<dyn ImageStore>
    }

    /// Returns whether all objects are in the state that was listed, without additions.
    pub(crate) fn is_unchanged(&self) -> bool {
        let mut now = ObjectsState::default();
        let listed = self.folder.each_entry(&mut |key, entry| {
            now.add(key, entry);
            Ok(())
        });
        listed.is_ok() && now.stamp() == self.stamp
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_state_is_that_of_the_objects_and_their_paths_in_any_order() {
        let entry = |size, modified_ns| {
            let mut version = store::Version::default();
            version.modified_ns = modified_ns;
            Entry { key: String::new(), size, version }
        };
        let of = |objects: &[(&str, Entry)]| {
            let mut state = ObjectsState::default();
            objects.iter().for_each(|(key, entry)| state.add(key, entry));
            (state.stamp(), state.newest_ns)
        };
        let all = of(&[("a", entry(1, 5)), ("b", entry(2, 3))]);
        assert_eq!(all, of(&[("b", entry(2, 3)), ("folder", entry(0, 9)), ("a", entry(1, 5))]));
        assert_eq!((all.0.size, all.1), (3, 5));
        for other in [
            of(&[("a", entry(2, 5)), ("b", entry(1, 3))]),
            of(&[("a", entry(1, 5)), ("c", entry(2, 3))]),
            of(&[("a", entry(1, 4)), ("b", entry(2, 3))]),
            of(&[("a", entry(1, 5))]),
        ] {
            assert_ne!(all.0, other.0);
        }
    }
}
