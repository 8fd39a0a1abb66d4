//! The mapping between the kernel's watch descriptors and folders.

use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;
use std::path::{Path, PathBuf};

/// The watched folders, one watch descriptor each, with fast lookup by either however many there
/// are.
#[derive(Debug, Default)]
pub(super) struct Watches {
    folders: HashMap<i32, PathBuf>,
    numbers: BTreeMap<PathBuf, i32>,
}

impl Watches {
    /// Assigns a watch to a folder, whatever path the watch had before. Returns the watch that had
    /// this path before, if it was another.
    pub(super) fn insert(&mut self, number: i32, folder: &Path) -> Option<i32> {
        if let Some(before) = self.folders.insert(number, folder.to_owned()) {
            self.numbers.remove(&before);
        }
        let other = self.numbers.insert(folder.to_owned(), number)?;
        self.folders.remove(&other);
        Some(other)
    }

    /// Returns the folder of a watch.
    pub(super) fn folder(&self, number: i32) -> Option<&Path> {
        self.folders.get(&number).map(PathBuf::as_path)
    }

    /// Forgets a watch and returns its folder.
    pub(super) fn remove(&mut self, number: i32) -> Option<PathBuf> {
        let folder = self.folders.remove(&number)?;
        self.numbers.remove(&folder);
        Some(folder)
    }

    /// Forgets the watches of a folder and of all folders below it, and returns them.
    pub(super) fn remove_all(&mut self, folder: &Path) -> Vec<i32> {
        let below = self.numbers.range::<Path, _>((Bound::Included(folder), Bound::Unbounded));
        let numbers: Vec<_> =
            below.take_while(|(path, _)| path.starts_with(folder)).map(|(_, number)| *number).collect();
        for number in &numbers {
            self.remove(*number);
        }
        numbers
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_has_one_watch_and_a_watch_one_folder() {
        let mut watches = Watches::default();
        let [a, b] = ["/a", "/b"].map(Path::new);
        assert_eq!((watches.insert(1, a), watches.insert(1, a)), (None, None));
        assert_eq!(watches.insert(1, b), None, "it was renamed");
        assert_eq!(watches.folder(1), Some(b));
        assert_eq!(watches.insert(2, a), None);
        assert_eq!(watches.insert(3, a), Some(2), "another one has its name");
        assert_eq!((watches.folder(2), watches.folder(3)), (None, Some(a)));
        assert_eq!((watches.remove(3), watches.remove(3)), (Some(a.into()), None));
        assert_eq!((watches.numbers.len(), watches.folders.len()), (1, 1));
    }

    #[test]
    fn folders_go_with_all_below_and_nothing_beside() {
        let mut watches = Watches::default();
        for (folder, number) in ["/a", "/a/b", "/a/b/c", "/a b", "/a-", "/b"].into_iter().zip(0..) {
            watches.insert(number, Path::new(folder));
        }
        assert_eq!(watches.remove_all(Path::new("/a")), [0, 1, 2]);
        assert_eq!(watches.remove_all(Path::new("/a")), [0; 0]);
        assert_eq!((watches.numbers.len(), watches.folders.len()), (3, 3));
    }
}
