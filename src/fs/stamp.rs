//! Identifies a state of a file's content, or of a whole folder, where that is one input or output.

use std::fs::{self, Metadata};
use std::io;
use std::os::unix::ffi::OsStrExt;
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
    /// ETag, a number derived from that; for a folder, a digest over its files.
    pub mtime_ns: i64,
    /// The inode number, or 0 where inode numbers do not last, and for a folder.
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
        if metadata.is_dir() {
            return Ok(Tree::of(path)?.stamp());
        }
        Ok(Self::of(metadata, lasting_inodes))
    }

    /// Returns the stamp of an object.
    pub fn of_object(object: &store::Entry) -> Self {
        let named = object.version.e_tag.as_ref().map(|name| Digest::of(name.as_bytes()).number());
        Self { size: object.size, mtime_ns: named.unwrap_or(object.version.modified_ns), inode: 0 }
    }

    /// Returns when the content changed last.
    pub(crate) fn modified(&self) -> SystemTime {
        time_of(self.mtime_ns)
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

/// The state of the tree below a folder, itself included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tree {
    /// The bytes of all files.
    pub(crate) bytes: u64,
    /// A digest of the path, the length and the modification time of each file.
    ///
    /// The latest time alone would not show a file that was written in place while another has a
    /// later time. Folders do not count: a copy of the tree has other times for them.
    pub(crate) digest: i64,
    /// A digest of the path and the ctime of each file.
    ///
    /// It shows writers that set the time back, but also copies and new permissions.
    pub(crate) changes: i64,
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
            let below = entry.path().strip_prefix(folder).unwrap_or(entry.path());
            tree.add(below.as_os_str().as_bytes(), &metadata);
        }
        Ok(tree)
    }

    fn add(&mut self, path: &[u8], metadata: &Metadata) {
        let (mtime, ctime) = (mtime_ns(metadata), ctime_ns(metadata));
        self.mtime_ns = self.mtime_ns.max(mtime);
        self.ctime_ns = self.ctime_ns.max(ctime);
        if metadata.is_dir() {
            return;
        }
        // Sums, as files are listed in any order.
        let digest = |numbers: &[i64]| {
            let numbers = numbers.iter().flat_map(|number| number.to_le_bytes());
            Digest::of(&numbers.chain(path.iter().copied()).collect::<Vec<_>>()).number()
        };
        self.bytes += if metadata.is_file() { metadata.len() } else { 0 };
        self.digest = self.digest.wrapping_add(digest(&[metadata.len().cast_signed(), mtime]));
        self.changes = self.changes.wrapping_add(digest(&[ctime]));
    }

    /// Returns the stamp of the folder.
    pub(crate) fn stamp(&self) -> Stamp {
        Stamp { size: self.bytes, mtime_ns: self.digest, inode: 0 }
    }
}

/// Returns a time that is given in nanoseconds since 1970.
pub(crate) fn time_of(ns: i64) -> SystemTime {
    let since_1970 = Duration::from_nanos(ns.unsigned_abs());
    if ns < 0 { UNIX_EPOCH - since_1970 } else { UNIX_EPOCH + since_1970 }
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
    fn a_change_of_any_file_is_one_of_the_folder_and_a_copy_is_none() {
        let place = tempfile::tempdir().unwrap();
        let at = |name: &str| place.path().join(name);
        let set = |name: &str, time| {
            fs::File::options().append(true).open(at(name)).unwrap().set_modified(time).unwrap();
        };
        let (now, second) = (SystemTime::now(), Duration::from_secs(1));
        let write = |folder: &str| {
            fs::create_dir_all(at(folder).join("a")).unwrap();
            for (number, name) in (1..).zip(["a/one", "a/two", "last"]) {
                fs::write(at(folder).join(name), name).unwrap();
                set(&format!("{folder}/{name}"), now + number * 1000 * second);
            }
            Tree::of(&at(folder)).unwrap()
        };
        let before = write("in");
        assert_eq!((before.bytes, before.stamp().size), (14, 14));
        // Times of files go by the ticks of the kernel's clock, which are up to 10 ms long.
        std::thread::sleep(Duration::from_millis(20));
        let copy = write("copy");
        assert_eq!(copy.stamp(), before.stamp());
        assert_ne!(copy.changes, before.changes);
        // Another file has a later time.
        set("in/a/one", now + 5 * second);
        let after = Tree::of(&at("in")).unwrap();
        assert_eq!((after.mtime_ns, after.bytes), (before.mtime_ns, before.bytes));
        assert_ne!(after.stamp(), before.stamp());
        set("in/a/one", now + 1000 * second);
        let back = Tree::of(&at("in")).unwrap();
        assert!(back.stamp() == before.stamp() && back.changes != before.changes);
        fs::rename(at("in/a/one"), at("in/a/1")).unwrap();
        assert_ne!(Tree::of(&at("in")).unwrap().stamp(), before.stamp());
    }
}
