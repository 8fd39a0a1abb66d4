//! Files and folders beneath a root folder, reached without following links: the target of a link
//! is not histeqd's to write.
//!
//! The roots are the folders that the user names: the output folder, those of `--after move:DIR`,
//! `--failed` and `--state`. A root may itself be a link, or be reached through one. Beneath it
//! every folder is opened relative to its root, and no link put in its place between a check and
//! the use is followed. No descriptor is kept: a folder that was removed, mounted or unmounted
//! meanwhile is noticed.

use std::ffi::OsStr;
use std::fs::{self, File, Metadata};
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, RenameFlags, ResolveFlags};
use rustix::fs::{mkdirat, openat, openat2, renameat, renameat_with, statat, unlinkat};
use rustix::io::Errno;

use crate::fs::paths::Shown;

/// A folder that is only a step to its entries needs no read permission.
const FOLDER: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);
/// A folder to list, or one that is a picture.
const LISTED: OFlags = OFlags::DIRECTORY.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
/// Neither follows a link nor waits for the other end of a pipe.
const FILE: OFlags = OFlags::NOFOLLOW.union(OFlags::NONBLOCK).union(OFlags::CLOEXEC);
/// The permissions of new folders and files, before the process's umask removes some of them.
const NEW_FOLDER: Mode = Mode::from_raw_mode(0o777);
const NEW_FILE: Mode = Mode::from_raw_mode(0o666);

/// An obstacle in the place of a folder or a file. It is the source of the I/O errors of this
/// module.
#[derive(Debug, thiserror::Error)]
pub enum Obstacle {
    /// A link where a folder should be.
    #[error(
        "{} is a link, and links below {} are not followed; use mount --bind instead, or give its target as another --out",
        Shown(link),
        Shown(root)
    )]
    Link {
        /// The link.
        link: PathBuf,
        /// The folder that the user named.
        root: PathBuf,
    },
    /// A link, a pipe or the like where a file should be.
    #[error("{} is {what} and not a regular file; move it away", Shown(path))]
    NotAFile {
        /// Its path.
        path: PathBuf,
        /// Its type, with its article.
        what: &'static str,
    },
}

impl From<Obstacle> for io::Error {
    fn from(obstacle: Obstacle) -> Self {
        Self::other(obstacle)
    }
}

/// An open folder: a root, or one beneath a root.
#[derive(Debug)]
pub(crate) struct Folder {
    fd: OwnedFd,
    path: PathBuf,
}

impl AsFd for Folder {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Folder {
    /// Opens the folder `below` the folder `root`. An empty root is the current folder, and an
    /// empty `below` the root.
    ///
    /// # Errors
    /// When it cannot be opened, for example because a part of `below` is a link.
    pub(crate) fn open(root: &Path, below: &Path) -> io::Result<Self> {
        let top = if root.as_os_str().is_empty() { Path::new(".") } else { root };
        let fd = openat(CWD, top, FOLDER, Mode::empty())?;
        if below.as_os_str().is_empty() {
            return Ok(Self { fd, path: top.to_owned() });
        }
        let opened = match openat2(&fd, below, FOLDER, Mode::empty(), resolve()) {
            // A kernel before 5.6, or a sandbox that does not know the call.
            Err(Errno::NOSYS | Errno::PERM) => walk(fd, below),
            opened => opened,
        };
        match opened {
            Ok(fd) => Ok(Self { fd, path: root.join(below) }),
            Err(errno) => Err(why_not(root, below, errno)),
        }
    }

    /// Wraps an open file that is a folder.
    ///
    /// # Errors
    /// When the process has no more descriptors.
    pub(crate) fn of_open(file: &File) -> io::Result<Self> {
        Ok(Self { fd: file.try_clone()?.into(), path: PathBuf::new() })
    }

    /// Opens the folder of the file `path`, which lies beneath `root`. Returns the file's name too.
    ///
    /// # Errors
    /// As of [`Folder::open`].
    pub(crate) fn of<'p>(root: &Path, path: &'p Path) -> io::Result<(Self, &'p Path)> {
        let (below, name) = split(root, path)?;
        Ok((Self::open(root, below)?, name))
    }

    /// Opens the folder `below` the folder `root`, and creates it and missing folders above it. If
    /// `durable`, each created folder is synced to the disk.
    ///
    /// # Errors
    /// When it cannot be created or opened.
    pub(crate) fn create(root: &Path, below: &Path, durable: bool) -> io::Result<Self> {
        match Self::open(root, below) {
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            opened => return opened,
        }
        let (Some(above), Some(name)) = (below.parent(), below.file_name()) else {
            create_root(root, durable)?;
            return Self::open(root, below);
        };
        let above = Self::create(root, above, durable)?;
        match mkdirat(&above, name, NEW_FOLDER) {
            // Another thread was faster.
            Err(Errno::EXIST) => {}
            made => {
                made?;
                above.sync_if(durable)?;
            }
        }
        Self::open(root, below)
    }

    /// Does the same as [`Folder::create`] for the folder of a file. Returns the file's name too.
    ///
    /// # Errors
    /// When it cannot be created or opened.
    pub(crate) fn create_of<'p>(root: &Path, path: &'p Path, durable: bool) -> io::Result<(Self, &'p Path)> {
        let (below, name) = split(root, path)?;
        Ok((Self::create(root, below, durable)?, name))
    }

    /// Creates a file, which must not exist yet, for reading and writing. `mode` are its
    /// permissions, before the process's umask removes some of them.
    ///
    /// # Errors
    /// When it exists or cannot be created.
    pub(crate) fn create_new(&self, name: impl AsRef<Path>, mode: u32) -> io::Result<File> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        Ok(openat(self, name.as_ref(), flags, Mode::from_raw_mode(mode))?.into())
    }

    /// Creates a folder, which must not exist yet, and opens it.
    ///
    /// # Errors
    /// When a file or folder has its name, or it cannot be created.
    pub(crate) fn create_folder(&self, name: impl AsRef<Path>) -> io::Result<File> {
        mkdirat(self, name.as_ref(), NEW_FOLDER)?;
        self.open_folder(name)
    }

    /// Opens a folder in the folder, so that its entries can be read.
    ///
    /// # Errors
    /// When it cannot be opened, or is no folder.
    pub(crate) fn open_folder(&self, name: impl AsRef<Path>) -> io::Result<File> {
        Ok(openat(self, name.as_ref(), LISTED, Mode::empty())?.into())
    }

    /// Opens a regular file for reading.
    ///
    /// # Errors
    /// When it cannot be opened, or is not a regular file.
    pub(crate) fn read(&self, name: impl AsRef<Path>) -> io::Result<File> {
        self.open_file(name, OFlags::RDONLY)
    }

    /// Opens a regular file for reading and writing, and creates it if it is missing.
    ///
    /// # Errors
    /// When it cannot be opened or created, or is not a regular file.
    pub(crate) fn write(&self, name: impl AsRef<Path>) -> io::Result<File> {
        self.open_file(name, OFlags::RDWR | OFlags::CREATE)
    }

    fn open_file(&self, name: impl AsRef<Path>, flags: OFlags) -> io::Result<File> {
        // Checked before, as some devices act when they are opened, and after, as it may have been
        // replaced meanwhile.
        let name = name.as_ref();
        self.must_be_a_file(name)?;
        let file = File::from(openat(self, name, flags | FILE, NEW_FILE)?);
        match not_a_file(FileType::from_raw_mode(rustix::fs::fstat(&file)?.st_mode)) {
            Some(what) => Err(Obstacle::NotAFile { path: self.path.join(name), what }.into()),
            None => Ok(file),
        }
    }

    /// Checks, without opening it, that a name is free or has a regular file.
    ///
    /// # Errors
    /// When it has another type of file, or cannot be examined.
    pub(crate) fn must_be_a_file(&self, name: impl AsRef<Path>) -> io::Result<()> {
        let name = name.as_ref();
        let there = match statat(self, name, AtFlags::SYMLINK_NOFOLLOW) {
            Err(Errno::NOENT) => return Ok(()),
            there => there?,
        };
        match not_a_file(FileType::from_raw_mode(there.st_mode)) {
            Some(what) => Err(Obstacle::NotAFile { path: self.path.join(name), what }.into()),
            None => Ok(()),
        }
    }

    /// Returns the metadata of a name; of the link itself, if it is one.
    ///
    /// # Errors
    /// When the name is missing or cannot be examined.
    pub(crate) fn metadata(&self, name: impl AsRef<Path>) -> io::Result<Metadata> {
        // Opens the path only: that waits for no other process, and closing it releases no lock of
        // this process on the file.
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        File::from(openat(self, name.as_ref(), flags, Mode::empty())?).metadata()
    }

    /// Returns whether a name is known to exist.
    pub(crate) fn has(&self, name: impl AsRef<Path>) -> bool {
        statat(self, name.as_ref(), AtFlags::SYMLINK_NOFOLLOW).is_ok()
    }

    /// Renames a file in the folder, and replaces a file with the new name.
    ///
    /// # Errors
    /// Any I/O error.
    pub(crate) fn rename(&self, from: impl AsRef<Path>, to: impl AsRef<Path>) -> io::Result<()> {
        Ok(renameat(self, from.as_ref(), self, to.as_ref())?)
    }

    /// Exchanges two names.
    ///
    /// # Errors
    /// When one of them is missing, or the file system does not support it.
    pub(crate) fn exchange(&self, one: impl AsRef<Path>, other: impl AsRef<Path>) -> io::Result<()> {
        Ok(renameat_with(self, one.as_ref(), self, other.as_ref(), RenameFlags::EXCHANGE)?)
    }

    /// Removes a file, or a folder and its contents.
    ///
    /// # Errors
    /// Any I/O error.
    pub(crate) fn remove_all(&self, name: impl AsRef<Path>) -> io::Result<()> {
        Ok(remove_all(self.as_fd(), name.as_ref())?)
    }

    /// Removes a file.
    ///
    /// # Errors
    /// Any I/O error.
    pub(crate) fn remove(&self, name: impl AsRef<Path>) -> io::Result<()> {
        Ok(unlinkat(self, name.as_ref(), AtFlags::empty())?)
    }

    /// Syncs the folder's entries to the disk, as far as possible: see [`sync_folder`].
    ///
    /// # Errors
    /// Any other I/O error.
    pub(crate) fn sync(&self) -> io::Result<()> {
        Ok(sync_folder(self.as_fd(), Path::new(""))?)
    }

    fn sync_if(&self, durable: bool) -> io::Result<()> {
        if durable { self.sync() } else { Ok(()) }
    }
}

/// Syncs the entries of a folder, by its path from another, to the disk, as far as possible.
///
/// A folder that may be written to but not read cannot be opened, and some file systems cannot sync
/// folders (they answer EINVAL or ENOTSUP); neither means that the files are in danger.
///
/// # Errors
/// Any other I/O error.
pub(crate) fn sync_folder(from: BorrowedFd<'_>, path: &Path) -> Result<(), Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    match openat(from, Path::new(".").join(path), flags, Mode::empty()).and_then(rustix::fs::fsync) {
        Err(Errno::ACCESS | Errno::PERM | Errno::INVAL | Errno::OPNOTSUPP) => Ok(()),
        done => done,
    }
}

/// Removes a name from a folder, with its contents if it is a folder. No link is followed.
fn remove_all(from: BorrowedFd<'_>, name: &Path) -> Result<(), Errno> {
    match unlinkat(from, name, AtFlags::empty()) {
        Err(Errno::ISDIR | Errno::PERM) => {}
        removed => return removed,
    }
    let folder = openat(from, name, LISTED, Mode::empty())?;
    for entry in Dir::read_from(&folder)? {
        let entry = entry?;
        let name = OsStr::from_bytes(entry.file_name().to_bytes());
        if name != "." && name != ".." {
            remove_all(folder.as_fd(), Path::new(name))?;
        }
    }
    unlinkat(from, name, AtFlags::REMOVEDIR)
}

fn resolve() -> ResolveFlags {
    ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS
}

/// Opens the folder `below` another, one step after the other.
fn walk(mut fd: OwnedFd, below: &Path) -> Result<OwnedFd, Errno> {
    for step in below.components() {
        let Component::Normal(name) = step else { return Err(Errno::XDEV) };
        fd = openat(&fd, name, FOLDER | OFlags::NOFOLLOW, Mode::empty())?;
    }
    Ok(fd)
}

/// Returns why the folder `below` the folder `root` could not be opened: because of the first link
/// on the way, if there is one.
fn why_not(root: &Path, below: &Path, errno: Errno) -> io::Error {
    // Opening a link in a walk fails as opening a file does, since a link is no folder.
    if matches!(errno, Errno::LOOP | Errno::NOTDIR) {
        let mut link = root.to_owned();
        for step in below.components() {
            link.push(step);
            if link.is_symlink() {
                return Obstacle::Link { link, root: root.to_owned() }.into();
            }
        }
    }
    errno.into()
}

/// Splits the path of a file beneath `root` into the path of its folder below the root, and its
/// name.
fn split<'p>(root: &Path, path: &'p Path) -> io::Result<(&'p Path, &'p Path)> {
    // Relative paths lie beneath `.`, with or without it as a prefix.
    let beneath_current = root == Path::new(".") && path.is_relative();
    let below = path.strip_prefix(root).ok().or_else(|| beneath_current.then_some(path));
    let parts = below.and_then(|below| Some((below.parent()?, Path::new(below.file_name()?))));
    parts.ok_or_else(|| {
        let why = format!("{} is not the name of a file below {}", Shown(path), Shown(root));
        io::Error::new(ErrorKind::InvalidInput, why)
    })
}

/// Creates a root and missing folders above it.
fn create_root(root: &Path, durable: bool) -> io::Result<()> {
    let above = root.parent().unwrap_or(Path::new(""));
    let made = match fs::create_dir(root) {
        Err(error) if error.kind() == ErrorKind::NotFound && !above.as_os_str().is_empty() => {
            create_root(above, durable)?;
            fs::create_dir(root)
        }
        made => made,
    };
    match made {
        // Another thread was faster.
        Err(error) if error.kind() == ErrorKind::AlreadyExists && root.is_dir() => Ok(()),
        made => {
            made?;
            Folder::open(above, Path::new(""))?.sync_if(durable)
        }
    }
}

/// Returns the type of a file, with its article; `None` for a regular file.
fn not_a_file(kind: FileType) -> Option<&'static str> {
    Some(match kind {
        FileType::RegularFile => return None,
        FileType::Symlink => "a link",
        FileType::Directory => "a folder",
        FileType::Fifo => "a pipe",
        FileType::Socket => "a socket",
        _ => "a device",
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use rustix::fs::mknodat;

    use super::*;

    /// Creates a root with a folder `a/b`, and next to the root a folder `elsewhere/b`.
    fn place() -> (tempfile::TempDir, PathBuf) {
        let place = tempfile::tempdir().unwrap();
        let root = place.path().join("root");
        fs::create_dir_all(root.join("a/b")).unwrap();
        fs::create_dir_all(place.path().join("elsewhere/b")).unwrap();
        (place, root)
    }

    #[test]
    fn a_link_on_the_way_is_named_and_not_followed_and_the_root_may_be_one() {
        let (place, root) = place();
        symlink("../elsewhere", root.join("out")).unwrap();
        symlink("a", root.join("within")).unwrap();
        symlink("root", place.path().join("alias")).unwrap();
        for name in ["out", "within"] {
            for below in [name.to_owned(), format!("{name}/b"), format!("{name}/b/new")] {
                let why = Folder::create(&root, Path::new(&below), false).unwrap_err().to_string();
                let link = root.join(name);
                assert!(
                    why.starts_with(&format!(
                        "{} is a link, and links below {} ",
                        link.display(),
                        root.display()
                    )),
                    "{why}"
                );
                assert!(why.contains("mount --bind") && why.contains("--out"), "{why}");
            }
        }
        assert!(!place.path().join("elsewhere/b/new").exists());
        let alias = place.path().join("alias");
        Folder::create(&alias, Path::new("a/b/new"), false).unwrap();
        assert!(root.join("a/b/new").is_dir());
    }

    #[test]
    fn old_kernels_find_the_same_step_by_step() {
        let (_place, root) = place();
        symlink("../elsewhere", root.join("out")).unwrap();
        fs::write(root.join("file"), "").unwrap();
        let open = || openat(CWD, &root, FOLDER, Mode::empty()).unwrap();
        for below in ["a", "a/b", "a/./b"] {
            walk(open(), Path::new(below)).unwrap();
            openat2(open(), below, FOLDER, Mode::empty(), resolve()).unwrap();
        }
        for below in ["out", "out/b", "a/none", "file", "file/b", "..", "a/../../elsewhere", "/"] {
            let told = |errno| why_not(&root, Path::new(below), errno).to_string();
            let walked = walk(open(), Path::new(below)).unwrap_err();
            let opened = openat2(open(), below, FOLDER, Mode::empty(), resolve()).unwrap_err();
            assert_eq!(told(walked), told(opened), "{below}");
        }
    }

    #[test]
    fn only_regular_files_are_opened_and_nothing_is_waited_for() {
        let (_place, root) = place();
        let folder = Folder::open(&root, Path::new("a")).unwrap();
        fs::write(root.join("victim"), "kept").unwrap();
        symlink("../victim", root.join("a/link")).unwrap();
        symlink("../nothing", root.join("a/dangling")).unwrap();
        mknodat(CWD, root.join("a/pipe"), FileType::Fifo, Mode::RWXU, 0).unwrap();
        let whats = [("link", "a link"), ("dangling", "a link"), ("pipe", "a pipe"), ("b", "a folder")];
        for (name, what) in whats {
            for opened in [folder.write(name), folder.read(name)] {
                let why = opened.unwrap_err().to_string();
                let path = root.join("a").join(name);
                assert_eq!(why, format!("{} is {what} and not a regular file; move it away", path.display()));
            }
            assert_eq!(folder.create_new(name, 0o600).unwrap_err().kind(), ErrorKind::AlreadyExists);
        }
        assert!(!root.join("nothing").exists());
        folder.create_new("new", 0o600).unwrap();
        folder.rename("new", "link").unwrap();
        assert_eq!(fs::read(root.join("victim")).unwrap(), b"kept");
        folder.write("link").unwrap();
    }

    #[test]
    fn a_path_that_leaves_the_root_is_refused() {
        let (_place, root) = place();
        for path in [root.join("../elsewhere/b/file"), root.join("a/../../elsewhere/file"), root.join("..")] {
            assert!(Folder::create_of(&root, &path, false).is_err(), "{}", path.display());
        }
        assert!(Folder::of(&root, Path::new("/etc/passwd")).is_err());
    }
}
