//! The Unix socket that a running service answers on, in the folder of its ledger. It speaks HTTP,
//! like `--listen`.
//!
//! The folder's path may be longer than the address of a Unix socket, so both ends reach it by way
//! of an open file.

use std::fmt;
use std::fs::{Permissions, set_permissions};
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat, fstat, open, openat, statat, unlinkat};
use rustix::io::Errno;

use crate::error::Error;

/// The socket's name in the folder.
const FILE: &str = "socket";
/// How long a service may take to answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(15);
/// The longest answer that is read, in bytes.
const LONGEST_ANSWER: u64 = 16 << 20;

/// A socket that listens in a folder.
#[derive(Debug)]
pub(crate) struct Listening {
    folder: PathBuf,
    /// Device and inode of the socket.
    identity: (u64, u64),
}

impl Listening {
    /// Creates the socket in `folder`, and replaces one that a killed process left. Whoever may
    /// read the file `like` there may connect. The caller holds the lock of the folder.
    ///
    /// # Errors
    /// Any I/O error, or that a file of another kind has the socket's name. Only sockets are
    /// replaced, and no link is followed.
    pub(crate) fn start(folder: &Path, like: &str) -> io::Result<(Self, OwnedFd)> {
        let opened = open(folder, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
        match statat(&opened, FILE, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(there) if is_socket(&there) => unlinkat(&opened, FILE, AtFlags::empty())?,
            Ok(_) => return Err(io::Error::other("another file has its name; remove it")),
            Err(Errno::NOENT) => {}
            Err(errno) => return Err(errno.into()),
        }
        let listener = UnixListener::bind(format!("/proc/self/fd/{}/{FILE}", opened.as_raw_fd()))?;
        let socket = openat(&opened, FILE, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())?;
        let bound = fstat(&socket)?;
        if !is_socket(&bound) {
            return Err(io::Error::other("something else has taken its name"));
        }
        let readers = statat(&opened, like, AtFlags::SYMLINK_NOFOLLOW)?.st_mode & 0o444;
        // Connecting takes the permission to write.
        set_permissions(by_descriptor(&socket), Permissions::from_mode(readers | readers >> 1))?;
        Ok((Self { folder: folder.to_owned(), identity: identity(&bound) }, listener.into()))
    }

    /// Returns whether the socket has been removed, or another file has its name.
    pub(crate) fn is_lost(&self) -> bool {
        let there = statat(rustix::fs::CWD, self.folder.join(FILE), AtFlags::SYMLINK_NOFOLLOW);
        there.map_or_else(|errno| errno == Errno::NOENT, |there| identity(&there) != self.identity)
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        if !self.is_lost() {
            // A stale socket is harmless: the kernel refuses connections to it, and the next
            // service replaces it.
            let _ = std::fs::remove_file(self.folder.join(FILE));
        }
    }
}

/// The answer of a service: the HTTP status and the body.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) body: String,
}

/// Returns the error for a service that refuses a request.
pub(super) fn refusal(why: impl fmt::Display) -> Error {
    Error::CannotRun(format!("the running service refuses: {why}"))
}

/// Sends a request to the service that keeps its ledger in `folder`; `None` if no service listens
/// there.
///
/// # Errors
/// When a service listens but refuses the connection or does not answer.
pub(crate) fn ask(folder: &Path, method: &str, url: &str, body: &str) -> io::Result<Option<Answer>> {
    let Some(mut stream) = connect(folder)? else { return Ok(None) };
    let until = Instant::now() + ANSWER_TIMEOUT;
    stream.set_write_timeout(Some(ANSWER_TIMEOUT))?;
    let length = body.len();
    write!(stream, "{method} {url} HTTP/1.1\r\nHost: histeqd\r\nContent-Length: {length}\r\n\r\n{body}")?;
    let mut answer = Vec::new();
    loop {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() || answer.len() as u64 > LONGEST_ANSWER {
            return Err(io::ErrorKind::TimedOut.into());
        }
        stream.set_read_timeout(Some(left))?;
        let mut piece = [0; 8192];
        match stream.read(&mut piece)? {
            0 => break,
            count => answer.extend_from_slice(&piece[..count]),
        }
    }
    parse(&String::from_utf8_lossy(&answer)).ok_or_else(|| io::ErrorKind::InvalidData.into()).map(Some)
}

fn connect(folder: &Path) -> io::Result<Option<UnixStream>> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let socket = match open(folder.join(FILE), flags, Mode::empty()) {
        Ok(socket) if is_socket(&fstat(&socket)?) => socket,
        Ok(_) | Err(Errno::NOENT | Errno::NOTDIR) => return Ok(None),
        Err(errno) => return Err(errno.into()),
    };
    match UnixStream::connect(by_descriptor(&socket)) {
        // The socket's process was killed, or runs on another machine.
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => Ok(None),
        stream => stream.map(Some),
    }
}

fn parse(answer: &str) -> Option<Answer> {
    let (head, body) = answer.split_once("\r\n\r\n")?;
    let status = head.split_ascii_whitespace().nth(1)?.parse().ok()?;
    Some(Answer { status, body: body.to_owned() })
}

fn by_descriptor(file: &OwnedFd) -> PathBuf {
    format!("/proc/self/fd/{}", file.as_raw_fd()).into()
}

fn is_socket(stat: &Stat) -> bool {
    FileType::from_raw_mode(stat.st_mode) == FileType::Socket
}

fn identity(stat: &Stat) -> (u64, u64) {
    (stat.st_dev, stat.st_ino)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::{FileTypeExt, symlink};

    /// Creates a folder with a long path, and a file `like` in it that everyone may read.
    fn folder() -> (tempfile::TempDir, PathBuf) {
        let place = tempfile::tempdir().unwrap();
        let folder = place.path().join("a".repeat(200));
        fs::create_dir(&folder).unwrap();
        fs::write(folder.join("like"), "").unwrap();
        fs::set_permissions(folder.join("like"), Permissions::from_mode(0o644)).unwrap();
        (place, folder)
    }

    #[test]
    fn it_listens_below_a_long_path_to_who_may_read() {
        let (_place, folder) = folder();
        assert!(connect(&folder).unwrap().is_none());
        let (listening, socket) = Listening::start(&folder, "like").unwrap();
        assert_eq!(fs::metadata(folder.join(FILE)).unwrap().permissions().mode() & 0o777, 0o666);
        assert!(connect(&folder).unwrap().is_some() && !listening.is_lost());
        drop(socket);
        assert!(connect(&folder).unwrap().is_none(), "nobody accepts any more");
        drop(listening);
        assert!(!folder.join(FILE).exists());
    }

    #[test]
    fn what_a_killed_process_left_is_replaced_and_nothing_else() {
        let (place, folder) = folder();
        let (first, socket) = Listening::start(&folder, "like").unwrap();
        std::mem::forget(first);
        drop(socket);
        let (second, _socket) = Listening::start(&folder, "like").unwrap();
        assert!(connect(&folder).unwrap().is_some());
        fs::remove_file(folder.join(FILE)).unwrap();
        assert!(second.is_lost());
        let elsewhere = place.path().join("elsewhere");
        drop(UnixListener::bind(&elsewhere).unwrap());
        symlink(&elsewhere, folder.join(FILE)).unwrap();
        assert!(Listening::start(&folder, "like").is_err());
        assert!(connect(&folder).unwrap().is_none(), "no link is followed");
        assert!(fs::symlink_metadata(&elsewhere).unwrap().file_type().is_socket());
        drop(second);
        assert!(fs::symlink_metadata(folder.join(FILE)).unwrap().is_symlink());
        fs::remove_file(folder.join(FILE)).unwrap();
        fs::write(folder.join(FILE), "somebody's").unwrap();
        assert!(Listening::start(&folder, "like").is_err());
        assert_eq!(fs::read(folder.join(FILE)).unwrap(), b"somebody's");
    }
}
