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
