//! One daemon an output folder.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, ErrorKind, Read, Seek, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};

use crate::paths::Shown;

/// The lock's name in histeqd's own folder.
const FILE: &str = "lock";

/// Why the lock was not given.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// Another process has it.
    #[error(
        "another histeqd{} works for {} already; end it, or choose another --out",
        process(pid),
        Shown(out)
    )]
    Taken {
        /// The output folder.
        out: PathBuf,
        /// The other process's id, as it wrote it; empty if it did not yet.
        pid: String,
    },
    /// The lock file cannot be made.
    #[error("the lock {}: {source}", Shown(path))]
    File {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

fn process(pid: &str) -> String {
    if pid.is_empty() { String::new() } else { format!(" (process {pid})") }
}

/// The right to work for an output folder. It ends with the value, and with the process however that ends.
#[derive(Debug)]
pub struct Lock {
    out: PathBuf,
    file: File,
}

impl Lock {
    /// Takes the lock of the output folder `out`, or says at once who has it.
    pub fn take(out: &Path) -> Result<Self, LockError> {
        let folder = out.join(super::FOLDER);
        let path = folder.join(FILE);
        let failed = |source| LockError::File { path: path.clone(), source };
        fs::create_dir_all(&folder).map_err(failed)?;
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path)
            .map_err(failed)?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(rustix::io::Errno::WOULDBLOCK) => {
                let mut pid = String::new();
                file.read_to_string(&mut pid).map_err(failed)?;
                return Err(LockError::Taken { out: out.into(), pid: pid.trim().into() });
            }
            Err(errno) => return Err(failed(errno.into())),
        }
        file.set_len(0).and_then(|()| file.rewind()).map_err(failed)?;
        writeln!(file, "{}", std::process::id()).map_err(failed)?;
        Ok(Self { out: out.into(), file })
    }

    /// Takes the lock again where its file was removed, or moved away with a folder above it, since.
    pub fn retake_if_lost(&mut self) -> Result<(), LockError> {
        let path = self.out.join(super::FOLDER).join(FILE);
        match self.is_at(&path) {
            Ok(true) => {}
            Ok(false) => *self = Self::take(&self.out)?,
            // A file system that does not answer has not lost it.
            Err(source) => return Err(LockError::File { path, source }),
        }
        Ok(())
    }

    fn is_at(&self, path: &Path) -> io::Result<bool> {
        let identity = |metadata: &Metadata| (metadata.dev(), metadata.ino());
        match fs::metadata(path) {
            Ok(there) => Ok(identity(&there) == identity(&self.file.metadata()?)),
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => Ok(false),
            Err(error) => Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_is_told_who_has_it_and_gets_it_afterwards() {
        let out = tempfile::tempdir().unwrap();
        let first = Lock::take(out.path()).unwrap();
        let why = Lock::take(out.path()).unwrap_err().to_string();
        let pid = std::process::id();
        assert!(why.starts_with(&format!("another histeqd (process {pid}) works for ")), "{why}");
        drop(first);
        Lock::take(out.path()).unwrap();
    }

    #[test]
    fn a_lock_whose_folder_went_is_taken_again_unless_another_was_faster() {
        let out = tempfile::tempdir().unwrap();
        let folder = out.path().join(super::super::FOLDER);
        let mut first = Lock::take(out.path()).unwrap();
        fs::remove_dir_all(&folder).unwrap();
        first.retake_if_lost().unwrap();
        assert!(matches!(Lock::take(out.path()), Err(LockError::Taken { .. })));
        fs::rename(&folder, out.path().join("away")).unwrap();
        let second = Lock::take(out.path()).unwrap();
        assert!(matches!(first.retake_if_lost(), Err(LockError::Taken { .. })));
        drop(second);
        first.retake_if_lost().unwrap();
        assert!(matches!(Lock::take(out.path()), Err(LockError::Taken { .. })));
    }
}
