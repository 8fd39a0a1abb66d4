//! Notices file systems being mounted and unmounted. inotify reports no mounts, and an unmount only if a folder on it is watched.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read, Seek};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// The file systems that this process sees, one per line: see proc_pid_mountinfo(5).
const MOUNTS: &str = "/proc/self/mountinfo";
/// The index, among the fields of a line, of the mount point.
const PLACE: usize = 4;

/// The file systems that watched folders lie on, or that are mounted below them.
#[derive(Debug)]
pub(super) struct Mounts {
    /// The kernel's list; `None` if it cannot be read.
    told: Option<File>,
    /// Their lines in that list; `None` before the first check.
    near: Option<Vec<Vec<u8>>>,
}

impl Mounts {
    /// Creates a value that knows no file systems yet.
    pub(super) fn new() -> Self {
        Self { told: File::open(MOUNTS).ok(), near: None }
    }

    /// Returns whether the file systems that `folders` lie on, or that are mounted below them, have changed since the last call. One that
    /// was unmounted and mounted again in between looks unchanged, although its watches have ended.
    pub(super) fn changed<'a>(&mut self, folders: impl Iterator<Item = &'a Path>) -> bool {
        if self.near.is_some() && !self.told.as_ref().is_some_and(is_news) {
            return false;
        }
        let Ok(mounts) = self.read() else { return false };
        let near = near(&mounts, &folders.map(real).collect::<Vec<_>>());
        self.near.replace(near.clone()).is_some_and(|before| before != near)
    }

    fn read(&self) -> io::Result<Vec<u8>> {
        let mut told = self.told.as_ref().ok_or(io::ErrorKind::NotFound)?;
        let mut mounts = Vec::new();
        told.rewind()?;
        told.read_to_end(&mut mounts)?;
        Ok(mounts)
    }
}

/// Returns whether the list has changed, which the kernel reports only once.
fn is_news(told: &File) -> bool {
    let mut asked = [PollFd::new(told, PollFlags::PRI)];
    poll(&mut asked, Some(&Timespec::default())).is_ok_and(|count| count > 0)
}

/// The file system that a folder lies on, by the place where it is mounted.
#[derive(Debug)]
pub(crate) struct Home {
    mounts: Mounts,
    place: Option<PathBuf>,
    is_mounted: bool,
}

impl Home {
    /// The one of an existing folder.
    pub(crate) fn of(folder: &Path) -> Self {
        let (mounts, folder) = (Mounts::new(), real(folder));
        let told = mounts.read().unwrap_or_default();
        let place = places(&told)
            .filter(|place| folder.starts_with(place))
            .max_by_key(|place| place.as_os_str().len());
        Self { mounts, place, is_mounted: true }
    }

    /// Whether a file system is mounted in that place. Where the kernel does not tell, it counts as mounted.
    pub(crate) fn is_mounted(&mut self) -> bool {
        if self.mounts.told.as_ref().is_some_and(is_news)
            && let (Ok(told), Some(place)) = (self.mounts.read(), &self.place)
        {
            self.is_mounted = places(&told).any(|other| other == *place);
        }
        self.is_mounted
    }

    /// The place.
    pub(crate) fn place(&self) -> &Path {
        self.place.as_deref().unwrap_or(Path::new("/"))
    }
}

fn real(folder: &Path) -> PathBuf {
    folder.canonicalize().unwrap_or_else(|_| folder.to_owned())
}

/// Returns the lines of the file systems that `folders` lie on, except for the root file system, or that are mounted below them.
fn near(mounts: &[u8], folders: &[PathBuf]) -> Vec<Vec<u8>> {
    let is_near = |line: &&[u8]| {
        let Some(place) = place(line) else { return false };
        let is_root = place == Path::new("/");
        folders.iter().any(|folder| place.starts_with(folder) || !is_root && folder.starts_with(&place))
    };
    mounts.split(|byte| *byte == b'\n').filter(is_near).map(<[u8]>::to_vec).collect()
}

/// Where the file systems are mounted.
fn places(mounts: &[u8]) -> impl Iterator<Item = PathBuf> {
    mounts.split(|byte| *byte == b'\n').filter_map(place)
}

fn place(line: &[u8]) -> Option<PathBuf> {
    line.split(|byte| *byte == b' ').nth(PLACE).map(unescaped)
}

/// Decodes a path in which blanks, line breaks and backslashes are written as a backslash and three octal digits.
fn unescaped(mut written: &[u8]) -> PathBuf {
    let mut path = Vec::with_capacity(written.len());
    while let [first, rest @ ..] = written {
        written = rest;
        let digits = rest.get(..3).and_then(|digits| std::str::from_utf8(digits).ok());
        match digits.and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            Some(byte) if *first == b'\\' => {
                path.push(byte);
                written = &rest[3..];
            }
            _ => path.push(*first),
        }
    }
    PathBuf::from(OsString::from_vec(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOLD: &str = "\
22 1 254:0 / / rw,relatime - ext4 /dev/vda rw
30 22 8:1 / /srv/in\\040box rw - ext4 /dev/sda1 rw
31 30 8:2 / /srv/in\\040box/card\\134x\\040 rw - vfat /dev/sdb1 rw
32 22 0:40 / /srv/in rw - tmpfs none rw
33 22 0:41 / /run/user/1000 rw - tmpfs none rw
";

    #[test]
    fn what_lies_above_and_below_watched_folders_is_near() {
        let near_to = |folder: &str| {
            let lines = near(TOLD.as_bytes(), &[folder.into()]);
            lines.iter().map(|line| String::from_utf8_lossy(&line[..2]).into_owned()).collect::<Vec<_>>()
        };
        assert_eq!(near_to("/srv/in box"), ["30", "31"]);
        assert_eq!(near_to("/srv/in box/card\\x /a"), ["30", "31"]);
        assert_eq!(near_to("/srv"), ["30", "31", "32"]);
        assert_eq!(near_to("/home"), [""; 0]);
    }

    #[test]
    fn nothing_changes_where_nothing_is_told_or_mounted() {
        let folders = || [Path::new("/")].into_iter();
        assert!(!Mounts { told: None, near: None }.changed(folders()));
        let mut mounts = Mounts { told: File::open("/dev/null").ok(), near: None };
        assert!(!mounts.changed(folders()) && !mounts.changed(folders()));
    }
}
