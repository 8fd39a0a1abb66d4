//! Detects holes in a file: parts that were never written, or that a copy left out, and that read
//! as zeros.

use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::fs::{SeekFrom, seek};

use crate::fs::filesystem::{FileSystem, Finding};
use crate::fs::input::open;

/// Returns whether an open file has holes that its file system reports: many shared ones report
/// none. Afterwards the file's position is at its beginning.
pub(crate) fn has_holes(file: &File) -> bool {
    let (Ok(system), Ok(metadata)) = (FileSystem::of_file(file), file.metadata()) else { return false };
    match system.holes {
        Finding::None => return false,
        Finding::SparseSeek if metadata.blocks().saturating_mul(512) >= metadata.len() => return false,
        Finding::SparseSeek | Finding::Seek => {}
    }
    // An empty file has no hole, and no offset to search from.
    let found = seek(file, SeekFrom::Hole(0)).is_ok_and(|at| at < metadata.len());
    seek(file, SeekFrom::Start(0)).is_ok() && found
}

/// Returns whether the file at `path` has holes.
pub(crate) fn are_in(path: &Path) -> bool {
    open(path).is_ok_and(|file| has_holes(&file))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::io::{Read, Seek, Write};

    /// Longer than the blocks of any usual file system.
    const LONG: usize = 1 << 20;

    #[test]
    fn a_hole_is_seen_until_it_is_filled_and_the_file_is_read_from_its_beginning() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let mut file = File::options().create_new(true).read(true).write(true).open(&path).unwrap();
        assert!(!has_holes(&file), "it is empty");
        file.write_all(b"header").unwrap();
        assert!(!has_holes(&file));
        file.set_len(LONG as u64).unwrap();
        assert!(has_holes(&file) && are_in(&path));
        let mut read = String::new();
        (&file).take(6).read_to_string(&mut read).unwrap();
        assert_eq!(read, "header");
        file.rewind().unwrap();
        file.write_all(&vec![1; LONG]).unwrap();
        assert!(!has_holes(&file) && !are_in(&path));
        fs::remove_file(&path).unwrap();
        assert!(!are_in(&path));
    }
}
