//! All that lies below a folder, where the folder is one input or output.

use std::fs::Metadata;
use std::io;
use std::path::Path;

use walkdir::WalkDir;

use crate::fs::stamp::{ctime_ns, mtime_ns};

/// What is below a folder, itself included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tree {
    /// The bytes of all files.
    pub(crate) bytes: u64,
    /// The last time that any of it was written to.
    pub(crate) mtime_ns: i64,
    /// The last time that the inode of any of it changed.
    pub(crate) ctime_ns: i64,
}

impl Tree {
    /// Looks at all that is below a folder. Links are not followed.
    ///
    /// # Errors
    /// When a part of it cannot be looked at.
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

#[cfg(test)]
mod tests {
    use std::fs;
    use std::time::{Duration, SystemTime};

    use super::*;

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
