//! A record of the chunks of an array that have been written, in its folder until all are.
//!
//! A process that goes on after one that was killed leaves these chunks out. The chunks themselves
//! do not show it: one that is there may be half a chunk, and one that is missing may be done,
//! because it only holds the fill value.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use super::folder::{Folder, below};

/// The file's name in the array's folder.
///
/// It has a byte for each chunk, in C order, which is 1 once the chunk is written.
const NAME: &str = ".histeqd-written";

/// The chunks of an array that have been written.
#[derive(Debug)]
pub(super) struct Written {
    file: File,
    /// The folder that the array lies in.
    folder: Folder,
    /// The number of chunks along each axis.
    counts: Vec<u64>,
}

impl Written {
    /// Opens the record of the array at a path, empty at first.
    ///
    /// # Errors
    /// When the file can be neither opened nor created.
    pub(super) fn open(folder: &Folder, array: &str, counts: Vec<u64>) -> io::Result<Self> {
        Ok(Self { file: folder.keep(&below(array, NAME))?, folder: folder.clone(), counts })
    }

    /// Returns whether the chunk with these numbers has been written.
    pub(super) fn has(&self, chunk: &[u64]) -> bool {
        let mut byte = [0];
        self.file.read_at(&mut byte, self.place(chunk)).is_ok_and(|_| byte == [1])
    }

    /// Records that a chunk is written.
    ///
    /// The time of the folder changes too, as a sign that it is still being written to.
    ///
    /// # Errors
    /// When that cannot be written.
    pub(super) fn note(&self, chunk: &[u64]) -> io::Result<()> {
        self.file.write_all_at(&[1], self.place(chunk))?;
        self.folder.touch();
        Ok(())
    }

    /// Removes the record: the array is complete.
    ///
    /// # Errors
    /// When the file cannot be removed.
    pub(super) fn forget(folder: &Folder, array: &str) -> io::Result<()> {
        folder.remove_file(&below(array, NAME))
    }

    fn place(&self, chunk: &[u64]) -> u64 {
        chunk.iter().zip(&self.counts).fold(0, |place, (number, count)| place * count + number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_noted_is_known_to_who_opens_it_next_until_it_is_forgotten() {
        let place = tempfile::tempdir().unwrap();
        let folder = Folder::of(&File::open(place.path()).unwrap()).unwrap();
        let open = || Written::open(&folder, "a/0", vec![2, 3]).unwrap();
        let chunks = || (0..2).flat_map(|y| (0..3).map(move |x| [y, x]));
        let first = open();
        assert!(chunks().all(|chunk| !first.has(&chunk)));
        first.note(&[0, 2]).unwrap();
        first.note(&[1, 1]).unwrap();
        let noted: Vec<_> = chunks().filter(|chunk| open().has(chunk)).collect();
        assert_eq!(noted, [[0, 2], [1, 1]]);
        Written::forget(&folder, "a/0").unwrap();
        assert!(chunks().all(|chunk| !open().has(&chunk)));
    }
}
