//! Detects mounts and unmounts. inotify reports no mounts, and an unmount only if a folder on the
//! file system is watched.

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
pub(crate) struct Mounts {
    /// The kernel's list; `None` if it cannot be read.
    told: Option<File>,
    /// Their lines in that list; `None` before the first check.
    near: Option<Vec<Vec<u8>>>,
}

impl Mounts {
    /// Creates a value that knows no file systems yet.
    pub(crate) fn new() -> Self {
        Self { told: File::open(MOUNTS).ok(), near: None }
    }

    /// Returns whether the file systems that `folders` lie on, or that are mounted below them, have
    /// changed since the last call. One that was unmounted and mounted again in between looks
    /// unchanged, although its watches have ended.
    pub(crate) fn changed<'a>(&mut self, folders: impl Iterator<Item = &'a Path>) -> bool {
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

/// The file system that a folder lies on: the topmost one at its mount point.
#[derive(Debug)]
pub(crate) struct Home {
    mounts: Mounts,
    place: PathBuf,
    /// The mount's ID; `None` if unknown.
    id: Option<Vec<u8>>,
    /// The ID of the current mount there.
    now: Option<Vec<u8>>,
    is_unread: bool,
}

/// The mount in the place of a [`Home`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mounted {
    /// The same as before.
    Same,
    /// No mount.
    Nothing,
    /// Another file system, or the same one mounted again.
    Other,
}

impl Home {
    /// Returns the file system of an existing folder.
    pub(crate) fn of(folder: &Path) -> Self {
        let (mounts, folder) = (Mounts::new(), real(folder));
        let table = mounts.read().unwrap_or_default();
        let above =
            table.split(|byte| *byte == b'\n').filter_map(place).filter(|place| folder.starts_with(place));
        let place = above.max_by_key(|place| place.as_os_str().len()).unwrap_or_else(|| "/".into());
        let id = topmost(&table, &place);
        Self { mounts, place, now: id.clone(), id, is_unread: false }
    }

    /// Returns the current mount there.
    pub(crate) fn look(&mut self) -> Mounted {
        self.is_unread |= self.mounts.told.as_ref().is_some_and(is_news);
        if self.is_unread
            && let Ok(table) = self.mounts.read()
        {
            self.is_unread = false;
            self.now = topmost(&table, &self.place);
        }
        match &self.now {
            now if *now == self.id => Mounted::Same,
            None => Mounted::Nothing,
            Some(_) => Mounted::Other,
        }
    }

    /// Accepts the file system that is mounted there now as the home.
    pub(crate) fn accept(&mut self) {
        self.id.clone_from(&self.now);
    }

    /// Returns the mount point.
    pub(crate) fn place(&self) -> &Path {
        &self.place
    }
}

/// Returns the ID of the mount that is on top at a mount point.
fn topmost(mounts: &[u8], at: &Path) -> Option<Vec<u8>> {
    let mut lines = mounts.rsplit(|byte| *byte == b'\n');
    let line = lines.find(|line| place(line).is_some_and(|place| place == at))?;
    line.split(|byte| *byte == b' ').next().map(<[u8]>::to_vec)
}

fn real(folder: &Path) -> PathBuf {
    folder.canonicalize().unwrap_or_else(|_| folder.to_owned())
}

/// Returns the lines of the file systems that `folders` lie on, except for the root file system, or
/// that are mounted below them.
fn near(mounts: &[u8], folders: &[PathBuf]) -> Vec<Vec<u8>> {
    let lines = mounts.split(|byte| *byte == b'\n').filter(|line| {
        let Some(place) = place(line) else { return false };
        let is_root = place == Path::new("/");
        folders.iter().any(|folder| place.starts_with(folder) || !is_root && folder.starts_with(&place))
    });
    lines.map(<[u8]>::to_vec).collect()
}

/// Returns the mount point in a line of the table.
fn place(line: &[u8]) -> Option<PathBuf> {
    line.split(|byte| *byte == b' ').nth(PLACE).map(unescaped)
}

/// Decodes a path in which blanks, line breaks and backslashes are written as a backslash and three
/// octal digits.
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
    fn the_last_mount_at_a_mount_point_is_on_top() {
        let id =
            |place: &str| topmost(TOLD.as_bytes(), Path::new(place)).map(|id| String::from_utf8(id).unwrap());
        assert_eq!(id("/srv/in box").unwrap(), "30");
        assert_eq!(id("/srv/in").unwrap(), "32");
        assert_eq!(id("/srv"), None);
        let stacked = format!("{TOLD}34 30 8:3 / /srv/in\\040box rw - ext4 /dev/sdc1 rw\n");
        assert_eq!(topmost(stacked.as_bytes(), Path::new("/srv/in box")).unwrap(), b"34");
    }

    #[test]
    fn a_home_is_lost_and_found() {
        // It is mounted in a chroot too, where the root is no mount point.
        let mut home = Home::of(Path::new("/proc"));
        assert_eq!(home.look(), Mounted::Same);
        home.now = None;
        assert_eq!(home.look(), Mounted::Nothing);
        home.now = Some(b"another".to_vec());
        assert_eq!(home.look(), Mounted::Other);
        home.accept();
        assert_eq!(home.look(), Mounted::Same);
    }

    #[test]
    fn nothing_changes_where_nothing_is_told_or_mounted() {
        let folders = || [Path::new("/")].into_iter();
        assert!(!Mounts { told: None, near: None }.changed(folders()));
        let mut mounts = Mounts { told: File::open("/dev/null").ok(), near: None };
        assert!(!mounts.changed(folders()) && !mounts.changed(folders()));
    }
}
