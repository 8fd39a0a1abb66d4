//! Identifies a state of a file's content, or of a whole folder, where that is one input or output.

use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use walkdir::WalkDir;

use crate::fs::digest::Digest;

/// The properties of a file that identify a state of its content.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Stamp {
    /// Length in bytes.
    pub size: u64,
    /// Time of the last change of the content, in nanoseconds since 1970. For an object with an
    /// ETag, a number derived from that.
    pub mtime_ns: i64,
    /// The inode number, or 0 where inode numbers do not last.
    pub inode: u64,
}

impl Stamp {
    /// Returns the stamp of a file; `lasting_inodes` states whether its file system keeps inode
    /// numbers.
    pub fn of(metadata: &Metadata, lasting_inodes: bool) -> Self {
        let inode = if lasting_inodes { metadata.ino() } else { 0 };
        Self { size: metadata.len(), mtime_ns: mtime_ns(metadata), inode }
    }

    /// Returns the stamp of a path with this metadata: for a folder, that of the whole tree below
    /// it.
    ///
    /// # Errors
    /// When a part of the tree cannot be examined.
    pub(crate) fn at(path: &Path, metadata: &Metadata, lasting_inodes: bool) -> io::Result<Self> {
        let own = Self::of(metadata, lasting_inodes);
        if !metadata.is_dir() {
            return Ok(own);
        }
        Tree::of(path).map(|Tree { bytes, mtime_ns, .. }| Self { size: bytes, mtime_ns, ..own })
    }

    /// Returns the stamp of an object.
    pub fn of_object(object: &store::Entry) -> Self {
        let named = object.version.e_tag.as_ref().map(|name| Digest::of(name.as_bytes()).number());
        Self { size: object.size, mtime_ns: named.unwrap_or(object.version.modified_ns), inode: 0 }
    }

    /// Returns when the content changed last.
    pub(crate) fn modified(&self) -> SystemTime {
        let since_1970 = Duration::from_nanos(self.mtime_ns.unsigned_abs());
        if self.mtime_ns < 0 { UNIX_EPOCH - since_1970 } else { UNIX_EPOCH + since_1970 }
    }

    /// Returns whether the file at `path` is still in this state.
    pub fn is_still_of(&self, path: &Path) -> bool {
        let now = fs::metadata(path).and_then(|metadata| Self::at(path, &metadata, self.inode != 0));
        now.is_ok_and(|now| now == *self)
    }

    /// Returns whether this is the metadata of a file in this state.
    pub(crate) fn is_of(&self, metadata: &Metadata) -> bool {
        *self == Self::of(metadata, self.inode != 0)
    }
}

/// Totals of the tree below a folder, itself included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tree {
    /// The bytes of all files.
    pub(crate) bytes: u64,
    /// The last time that a part was written to.
    pub(crate) mtime_ns: i64,
    /// The last time that the inode of a part changed.
    pub(crate) ctime_ns: i64,
}

impl Tree {
    /// Examines the tree below a folder. Links are not followed.
    ///
    /// # Errors
    /// When a part cannot be examined.
    pub(crate) fn of(folder: &Path) -> io::Result<Self> {
        let mut tree = Self { mtime_ns: i64::MIN, ctime_ns: i64::MIN, ..Self::default() };
        for entry in WalkDir::new(folder) {
            let entry = entry?;
            // The folder may be reached through a link.
            let metadata = if entry.depth() == 0 { folder.metadata()? } else { entry.metadata()? };
            tree.add(&metadata);
        }
        Ok(tree)
    }

    fn add(&mut self, metadata: &Metadata) {
        self.bytes += if metadata.is_file() { metadata.len() } else { 0 };
        self.mtime_ns = self.mtime_ns.max(mtime_ns(metadata));
        self.ctime_ns = self.ctime_ns.max(ctime_ns(metadata));
    }
}

/// Returns a file's modification time in nanoseconds since 1970, saturated if out of range.
pub(crate) fn mtime_ns(metadata: &Metadata) -> i64 {
    nanoseconds(metadata.mtime(), metadata.mtime_nsec())
}

/// Returns when a file's inode changed last, for example by renaming the file, in the same way.
pub(crate) fn ctime_ns(metadata: &Metadata) -> i64 {
    nanoseconds(metadata.ctime(), metadata.ctime_nsec())
}

fn nanoseconds(seconds: i64, and: i64) -> i64 {
    seconds.saturating_mul(1_000_000_000).saturating_add(and)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stamp_is_of_one_content_at_one_place() {
        let folder = tempfile::tempdir().unwrap();
        let (path, copy) = (folder.path().join("a"), folder.path().join("b"));
        fs::write(&path, "content").unwrap();
        let metadata = fs::metadata(&path).unwrap();
        let (stamp, vague) = (Stamp::of(&metadata, true), Stamp::of(&metadata, false));
        assert!(stamp.is_still_of(&path) && vague.is_still_of(&path));
        fs::copy(&path, &copy).unwrap();
        let copied = fs::File::options().append(true).open(&copy).unwrap();
        copied.set_modified(metadata.modified().unwrap()).unwrap();
        assert!(!stamp.is_still_of(&copy) && vague.is_still_of(&copy));
        fs::write(&path, "more content").unwrap();
        assert!(!stamp.is_still_of(&path) && !vague.is_still_of(&path));
        fs::remove_file(&path).unwrap();
        assert!(!stamp.is_still_of(&path));
    }

    #[test]
    fn a_change_of_any_file_is_one_of_the_folder() {
        let place = tempfile::tempdir().unwrap();
        fs::create_dir(place.path().join("a")).unwrap();
        for name in ["a/one", "two"] {
            fs::write(place.path().join(name), name).unwrap();
        }
        let before = Tree::of(place.path()).unwrap();
        assert_eq!(before.bytes, 8);
        let file = fs::File::options().append(true).open(place.path().join("a/one")).unwrap();
        file.set_modified(SystemTime::now() + Duration::from_secs(5)).unwrap();
        let after = Tree::of(place.path()).unwrap();
        assert!(after.mtime_ns > before.mtime_ns && after.bytes == before.bytes);
    }
}
