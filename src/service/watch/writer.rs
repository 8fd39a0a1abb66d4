//! Whether a process has a file open for writing: there is no message if it opened the file before
//! its folder was watched.
#![allow(unsafe_code)]

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// The request of fcntl(2) that chooses the signal for the holder of a lease (asm-generic/fcntl.h).
const F_SETSIG: libc::c_int = 10;

/// The knowledge about processes that have a file open for writing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Writer {
    /// There is no such process.
    Absent,
    /// There is at least one.
    Present,
    /// Unknown: the file is another user's, or on a file system without leases.
    Unknown,
}

impl Writer {
    /// Asks the kernel for a read lease, which it grants only if no process has the file open for
    /// writing (fcntl(2), `F_SETLEASE`), and only to the file's owner or with CAP_LEASE. The lease
    /// is given back at once.
    pub fn of(path: &Path) -> Self {
        // Without waiting for another process that has a lease.
        let opened = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path);
        let Ok(file) = opened else { return Self::Unknown };
        // If a writer comes in the instant of the lease, the kernel sends a signal. The default one
        // would end this process.
        match request(&file, F_SETSIG, libc::SIGURG)
            .and_then(|()| request(&file, libc::F_SETLEASE, libc::F_RDLCK))
        {
            // Closing the file gives the lease back too, should this fail.
            Ok(()) => {
                let _ = request(&file, libc::F_SETLEASE, libc::F_UNLCK);
                Self::Absent
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => Self::Present,
            Err(_) => Self::Unknown,
        }
    }
}

fn request(file: &File, request: libc::c_int, argument: libc::c_int) -> io::Result<()> {
    // SAFETY: these requests take an integer and write to no memory, and the descriptor is open.
    let done = unsafe { libc::fcntl(file.as_raw_fd(), request, argument) };
    if done == -1 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_writer_is_seen_until_it_closes_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let writer = File::create(&path).unwrap();
        assert_eq!(Writer::of(&path), Writer::Present);
        let reader = File::open(&path).unwrap();
        drop(writer);
        assert_eq!(Writer::of(&path), Writer::Absent);
        drop(reader);
        fs::remove_file(&path).unwrap();
        assert_eq!(Writer::of(&path), Writer::Unknown);
    }

    #[test]
    fn who_opens_the_file_meanwhile_disturbs_nobody() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        fs::write(&path, "").unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| (0..3000).for_each(|_| drop(OpenOptions::new().write(true).open(&path).unwrap())));
            (0..3000).for_each(|_| assert_ne!(Writer::of(&path), Writer::Unknown));
        });
        assert_eq!(Writer::of(&path), Writer::Absent);
    }
}
