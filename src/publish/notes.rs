//! Notes in the temporary folder of an output, for a process that continues it. They are no part of
//! the output.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::ffi::OsStrExt;

use rustix::fs::Dir;

use crate::fs::beneath::Folder;

/// The prefix of their file names.
const BEFORE: &str = ".histeqd-note-";
/// The most bytes of a note.
const LONGEST: u64 = 32 << 20;

/// Writes a note. A process that is killed may leave part of it.
///
/// # Errors
/// When it cannot be written.
pub(crate) fn write(folder: &File, name: &str, text: &str) -> io::Result<()> {
    let mut file = Folder::of_open(folder)?.write(format!("{BEFORE}{name}"))?;
    file.set_len(0)?;
    file.write_all(text.as_bytes())
}

/// Reads a note.
///
/// # Errors
/// When it does not exist, or cannot be read.
pub(crate) fn read(folder: &File, name: &str) -> io::Result<Vec<u8>> {
    let file = Folder::of_open(folder)?.read(format!("{BEFORE}{name}"))?;
    let mut text = Vec::new();
    file.take(LONGEST).read_to_end(&mut text)?;
    Ok(text)
}

/// Removes all notes.
///
/// # Errors
/// When one cannot be removed.
pub(super) fn remove_all(folder: &File) -> io::Result<()> {
    let notes = Folder::of_open(folder)?;
    for entry in Dir::read_from(folder)? {
        let entry = entry?;
        let name = OsStr::from_bytes(entry.file_name().to_bytes());
        if name.as_bytes().starts_with(BEFORE.as_bytes()) {
            notes.remove(name)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn notes_are_read_again_until_they_are_removed_and_nothing_else_is() {
        let place = tempfile::tempdir().unwrap();
        let folder = File::open(place.path()).unwrap();
        fs::write(place.path().join("chunk"), "chunk").unwrap();
        assert!(read(&folder, "a").is_err());
        write(&folder, "a", "a long text").unwrap();
        write(&folder, "a", "text").unwrap();
        write(&folder, "b", "other").unwrap();
        assert_eq!(
            (read(&folder, "a").unwrap(), read(&folder, "b").unwrap()),
            (b"text".into(), b"other".into())
        );
        remove_all(&folder).unwrap();
        let left: Vec<_> =
            fs::read_dir(place.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(left, ["chunk"]);
    }
}
