//! Opens input files, and restricts them to certain folders.

use std::fs::{File, read_link};
use std::io::{self, ErrorKind};
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::OFlags;

use crate::fs::paths::Shown;

/// The folders that files must be in to be read, whatever links lead to them; by default they may
/// be anywhere.
#[derive(Clone, Debug, Default)]
pub struct InputRoots(Option<Arc<[PathBuf]>>);

/// A file outside the folders.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a link leads out of the input folders, to {}", Shown(.0))]
pub struct Outside(PathBuf);

impl InputRoots {
    /// Restricts files to these folders, or these files themselves.
    pub fn within(folders: Vec<PathBuf>) -> Self {
        Self(Some(folders.into()))
    }

    /// Returns whether the target of a path is in one of the folders. If that is unknown, opening
    /// the file will show.
    pub(crate) fn have(&self, path: &Path) -> bool {
        match path.canonicalize() {
            Ok(real) => self.hold(&real),
            Err(why) => matches!(why.kind(), ErrorKind::NotFound | ErrorKind::PermissionDenied),
        }
    }

    /// Opens a file for reading, as [`open`] does. The check asks the kernel for the place of the
    /// opened file, since the path may lead elsewhere by then.
    ///
    /// # Errors
    /// When it cannot be opened, or is [`Outside`].
    pub(crate) fn open(&self, path: &Path) -> io::Result<File> {
        let file = open(path)?;
        if self.0.is_some() && !self.hold(&read_link(format!("/proc/self/fd/{}", file.as_raw_fd()))?) {
            return Err(io::Error::other(Outside(path.to_owned())));
        }
        Ok(file)
    }

    /// Opens a file that the settings name. Without restrictions it may be a pipe, and opening
    /// waits for the writer.
    ///
    /// # Errors
    /// As of [`InputRoots::open`].
    pub(crate) fn open_named(&self, path: &Path) -> io::Result<File> {
        if self.0.is_some() { self.open(path) } else { File::open(path) }
    }

    fn hold(&self, real: &Path) -> bool {
        let Some(folders) = &self.0 else { return true };
        folders.iter().any(|folder| folder.canonicalize().is_ok_and(|folder| real.starts_with(folder)))
    }
}

/// Returns the file outside the folders, if that is the error.
pub(crate) fn outside(error: &io::Error) -> Option<&Outside> {
    error.get_ref()?.downcast_ref()
}

/// Opens a file for reading, without waiting for the writer of a pipe, should one have taken the
/// file's place since it was found. The caller has to check the type of the opened file.
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

    #[test]
    fn what_is_opened_lies_in_the_folders_wherever_links_lead() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        for name in ["in/sub", "inner", "other"] {
            std::fs::create_dir_all(at(name)).unwrap();
            std::fs::write(at(name).join("a"), "").unwrap();
        }
        for (target, link) in [
            ("sub/a", "in/file"),
            ("sub", "in/folder"),
            ("../other/a", "in/out"),
            ("../inner", "in/near"),
            ("in", "alias"),
        ] {
            std::os::unix::fs::symlink(target, at(link)).unwrap();
        }
        for root in ["in", "alias"] {
            let roots = InputRoots::within(vec![at(root)]);
            for inside in ["in/sub/a", "in/file", "in/folder/a", "alias/sub/a"] {
                assert!(roots.have(&at(inside)) && roots.open(&at(inside)).is_ok(), "{root} {inside}");
            }
            for out in ["in/out", "in/near/a", "other/a", "in/../other/a"] {
                let why = roots.open(&at(out)).unwrap_err();
                assert!(!roots.have(&at(out)) && outside(&why).is_some(), "{root} {out}");
            }
        }
        assert!(InputRoots::default().open(&at("in/out")).is_ok());
        let file = InputRoots::within(vec![at("in/out")]);
        assert!(
            file.open(&at("in/out")).is_ok() && file.open(&at("in/sub/a")).is_err(),
            "a file given by name"
        );
    }
}
