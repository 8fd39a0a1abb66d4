//! Opens input files.

use std::fs::File;
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::OFlags;

/// Opens a file for reading, without waiting for the writer of a pipe, should one have taken the file's place since it was found. What was
/// opened has to be checked.
///
/// # Errors
/// When it cannot be opened.
pub(crate) fn open(path: &Path) -> io::Result<File> {
    let at_once = OFlags::NONBLOCK.bits().cast_signed();
    match File::options().read(true).custom_flags(at_once).open(path) {
        // Another process has a lease on the file; a blocking `open` waits until it is given up.
        Err(error) if error.kind() == io::ErrorKind::WouldBlock && path.is_file() => File::open(path),
        opened => opened,
    }
}

#[cfg(test)]
mod tests {
    use rustix::fs::{CWD, FileType, Mode, mknodat};

    use super::*;

    #[test]
    fn a_pipe_in_the_place_of_an_input_is_not_waited_for_and_a_link_is_followed() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        mknodat(CWD, at("pipe"), FileType::Fifo, Mode::RWXU, 0).unwrap();
        std::fs::write(at("file"), "content").unwrap();
        std::os::unix::fs::symlink("file", at("link")).unwrap();
        let is_file = |name: &str| open(&at(name)).unwrap().metadata().unwrap().is_file();
        assert_eq!(["pipe", "file", "link"].map(is_file), [false, true, true]);
    }
}
