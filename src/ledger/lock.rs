//! Locks that allow one process per output folder, and one per ledger.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, ErrorKind, Read, Seek, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};

use super::rooted;
use crate::fs::beneath::Folder;
use crate::fs::boot::boot_id;
use crate::fs::paths::{Identity, Shown, folder_of};

/// The lock's file name, in histeqd's own folder and in the ledger's.
const FILE: &str = "lock";

/// Why the lock could not be taken.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// Another process writes to the output folder.
    #[error(
        "another histeqd{} is already using {}; stop it, or choose another --out",
        process(pid),
        Shown(out)
    )]
    Taken {
        /// The output folder.
        out: PathBuf,
        /// The other process's ID, as it wrote it; empty if it has not yet.
        pid: String,
    },
    /// Another process keeps the ledger of another output folder in the same folder.
    #[error(
        "another histeqd{} already keeps its ledger in {}{}; stop it, or choose another --state",
        process(pid),
        Shown(folder),
        purpose(out)
    )]
    LedgerTaken {
        /// The ledger's folder.
        folder: PathBuf,
        /// The other process's ID, as it wrote it; empty if it has not yet.
        pid: String,
        /// The other process's output folder, as it wrote it; empty if it has not yet.
        out: PathBuf,
    },
    /// The lock file cannot be created or used.
    #[error("the lock {}: {source}", Shown(path))]
    File {
        /// The file.
        path: PathBuf,
        /// The I/O error.
        source: io::Error,
    },
}

fn process(pid: &str) -> String {
    if pid.is_empty() { String::new() } else { format!(" (process {pid})") }
}

fn purpose(out: &Path) -> String {
    if out.as_os_str().is_empty() { String::new() } else { format!(", for {}", Shown(out)) }
}

/// The right to write to an output folder and to keep its ledger. It ends when the value is
/// dropped, and with the process, however that ends.
#[derive(Debug)]
pub struct Lock {
    out: PathBuf,
    of_out: LockFile,
    ledger: PathBuf,
    /// `None` if the ledger is in the output folder.
    of_ledger: Option<LockFile>,
}

impl Lock {
    /// Takes the locks of the output folder `out` and of its ledger's folder. Does not wait: if
    /// another process holds one of them, the error names the lock.
    ///
    /// # Errors
    /// When another process holds a lock, or a lock file cannot be created or used.
    pub fn take(out: &Path, ledger: &Path) -> Result<Self, LockError> {
        // If the ledger is taken, an output folder that has never been used stays untouched.
        if !out.join(super::FOLDER).join(FILE).exists() {
            must_be_free(ledger)?;
        }
        let of_out = of_out(out)?;
        let is_same = of_out.is_at(ledger).unwrap_or(false);
        let of_ledger = if is_same { None } else { Some(of_ledger(ledger, out)?) };
        Ok(Self { out: out.into(), of_out, ledger: ledger.into(), of_ledger })
    }

    /// Returns whether the ledger's last holder, if there was one, may have been ended by a power
    /// failure.
    pub(super) fn may_follow_power_failure(&self) -> bool {
        self.for_ledger().first_since_boot
    }

    /// Records that the ledger has no claims left that a power failure made false. Until then, the
    /// next holder has to repeat the check.
    ///
    /// # Errors
    /// When the lock file cannot be written.
    pub(super) fn power_failure_is_over(&self) -> Result<(), LockError> {
        let LockFile { path, file, holder, .. } = self.for_ledger();
        holder.write(file).map_err(|source| LockError::File { path: path.clone(), source })
    }

    fn for_ledger(&self) -> &LockFile {
        self.of_ledger.as_ref().unwrap_or(&self.of_out)
    }

    /// Retakes the locks whose files were removed, or moved away with a folder above them.
    ///
    /// # Errors
    /// As of [`Lock::take`]. The lock is then as lost as before.
    pub fn retake_if_lost(&mut self) -> Result<(), LockError> {
        if self.of_out.is_lost()? {
            self.of_out = of_out(&self.out)?;
        }
        if let Some(file) = &mut self.of_ledger
            && file.is_lost()?
        {
            *file = of_ledger(&self.ledger, &self.out)?;
        }
        Ok(())
    }
}

fn of_out(out: &Path) -> Result<LockFile, LockError> {
    LockFile::take(&out.join(super::FOLDER), out, |Holder { pid, .. }| LockError::Taken {
        out: out.into(),
        pid,
    })
}

fn of_ledger(folder: &Path, out: &Path) -> Result<LockFile, LockError> {
    LockFile::take(folder, out, |holder| ledger_taken(folder, holder))
}

fn ledger_taken(folder: &Path, Holder { pid, out, .. }: Holder) -> LockError {
    LockError::LedgerTaken { folder: folder.into(), pid, out }
}

/// Fails if another process keeps its ledger in a folder, and creates no files there.
fn must_be_free(folder: &Path) -> Result<(), LockError> {
    // Any other trouble is reported when the lock is taken.
    let (root, below) = rooted(folder);
    let opened = Folder::open(root, below).and_then(|folder| folder.read(FILE));
    let Ok(file) = opened else { return Ok(()) };
    match flock(&file, FlockOperation::NonBlockingLockShared) {
        Err(rustix::io::Errno::WOULDBLOCK) => Err(ledger_taken(
            folder,
            Holder::read(&file).map_err(|source| LockError::File { path: folder.join(FILE), source })?,
        )),
        _ => Ok(()),
    }
}

/// The holder of a lock, as it wrote into the lock file.
#[derive(Clone, Debug)]
struct Holder {
    pid: String,
    /// The boot of the machine; empty if it is not known.
    boot: String,
    out: PathBuf,
}

impl Holder {
    fn this(out: &Path) -> io::Result<Self> {
        let pid = std::process::id().to_string();
        Ok(Self { pid, boot: boot_id(), out: std::path::absolute(out)? })
    }

    fn read(mut file: &File) -> io::Result<Self> {
        let mut text = Vec::new();
        file.read_to_end(&mut text)?;
        let text = text.strip_suffix(b"\n").unwrap_or(&text);
        let mut lines = text.splitn(3, |byte| *byte == b'\n');
        let [pid, boot, out] = [lines.next(), lines.next(), lines.next()].map(Option::unwrap_or_default);
        let [pid, boot] = [pid, boot].map(|line| String::from_utf8_lossy(line).into_owned());
        Ok(Self { pid, boot, out: OsStr::from_bytes(out).into() })
    }

    fn write(&self, mut file: &File) -> io::Result<()> {
        let Self { pid, boot, out } = self;
        file.set_len(0).and_then(|()| file.rewind())?;
        file.write_all(&[pid.as_bytes(), boot.as_bytes(), out.as_os_str().as_bytes(), b""].join(&b'\n'))
    }
}

/// A lock file whose lock this process holds.
#[derive(Debug)]
struct LockFile {
    path: PathBuf,
    file: File,
    /// This process.
    holder: Holder,
    /// Whether no holder is known since the machine was started.
    first_since_boot: bool,
}

impl LockFile {
    /// Takes the lock in `folder` for the output folder `out`; `taken` makes the error if another
    /// process holds it.
    fn take(folder: &Path, out: &Path, taken: impl FnOnce(Holder) -> LockError) -> Result<Self, LockError> {
        let path = folder.join(FILE);
        let failed = |source| LockError::File { path: path.clone(), source };
        let (root, below) = rooted(folder);
        // Durable, as this often creates the output folder, on which outputs rely.
        let folder = Folder::create(root, below, true).map_err(failed)?;
        let file = folder.write(FILE).map_err(failed)?;
        let locked = flock(&file, FlockOperation::NonBlockingLockExclusive);
        let holder = || Holder::read(&file).map_err(failed);
        match locked {
            Ok(()) => {}
            Err(rustix::io::Errno::WOULDBLOCK) => return Err(taken(holder()?)),
            Err(errno) => return Err(failed(errno.into())),
        }
        let (last, holder) = (holder()?, Holder::this(out).map_err(failed)?);
        let first_since_boot = holder.boot.is_empty() || last.boot != holder.boot;
        Holder { boot: last.boot, ..holder.clone() }.write(&file).map_err(failed)?;
        Ok(Self { path, file, holder, first_since_boot })
    }

    fn is_lost(&self) -> Result<bool, LockError> {
        // If the file system does not answer, the lock is not lost.
        self.is_at(folder_of(&self.path))
            .map(|is_there| !is_there)
            .map_err(|source| LockError::File { path: self.path.clone(), source })
    }

    /// Returns whether it is the lock file of the ledger's folder `folder`.
    fn is_at(&self, folder: &Path) -> io::Result<bool> {
        let (root, below) = rooted(folder);
        match Folder::open(root, below).and_then(|folder| folder.metadata(FILE)) {
            Ok(there) => Ok(Identity::of(&there) == Identity::of(&self.file.metadata()?)),
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => Ok(false),
            Err(error) => Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn ledger(out: &Path) -> PathBuf {
        out.join(super::super::FOLDER)
    }

    fn take(out: &Path) -> Result<Lock, LockError> {
        Lock::take(out, &ledger(out))
    }

    #[test]
    fn the_second_is_told_who_has_it_and_gets_it_afterwards() {
        let out = tempfile::tempdir().unwrap();
        let first = take(out.path()).unwrap();
        let why = take(out.path()).unwrap_err().to_string();
        let pid = std::process::id();
        assert!(why.starts_with(&format!("another histeqd (process {pid}) is already using ")), "{why}");
        drop(first);
        take(out.path()).unwrap();
    }

    #[test]
    fn a_lock_whose_folder_went_is_taken_again_unless_another_was_faster() {
        let out = tempfile::tempdir().unwrap();
        let (folder, away) = (ledger(out.path()), out.path().join("away"));
        let mut first = take(out.path()).unwrap();
        fs::remove_dir_all(&folder).unwrap();
        first.retake_if_lost().unwrap();
        assert!(matches!(take(out.path()), Err(LockError::Taken { .. })));
        fs::rename(&folder, away).unwrap();
        let second = take(out.path()).unwrap();
        assert!(matches!(first.retake_if_lost(), Err(LockError::Taken { .. })));
        drop(second);
        first.retake_if_lost().unwrap();
        assert!(matches!(take(out.path()), Err(LockError::Taken { .. })));
    }

    #[test]
    fn a_ledger_is_one_output_folder_s_at_a_time() {
        let place = tempfile::tempdir().unwrap();
        let [one, two, state] = ["one", "two\n2", "state"].map(|name| place.path().join(name));
        let mut first = Lock::take(&two, &state).unwrap();
        let why = Lock::take(&one, &state).unwrap_err();
        let LockError::LedgerTaken { folder, pid, out } = &why else { panic!("{why}") };
        assert_eq!((folder, pid, out), (&state, &std::process::id().to_string(), &two));
        assert!(!one.exists(), "nothing is made for who is refused");
        fs::remove_dir_all(&state).unwrap();
        first.retake_if_lost().unwrap();
        assert!(matches!(Lock::take(&one, &state), Err(LockError::LedgerTaken { .. })));
        drop(first);
        Lock::take(&one, &state).unwrap();
    }

    #[test]
    fn who_has_it_next_knows_whether_the_machine_was_started_meanwhile() {
        let out = tempfile::tempdir().unwrap();
        let take = || take(out.path()).unwrap();
        assert!(take().may_follow_power_failure(), "nobody had it");
        let lock = take();
        assert!(lock.may_follow_power_failure(), "nobody has seen to it");
        lock.power_failure_is_over().unwrap();
        drop(lock);
        assert!(!take().may_follow_power_failure());
        let file = ledger(out.path()).join(FILE);
        let text = fs::read_to_string(&file).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        let [_, boot, folder] = lines[..] else { panic!("{text}") };
        assert_eq!((boot.len(), Path::new(folder)), (36, out.path()));
        fs::write(&file, text.replace(boot, "of another start")).unwrap();
        assert!(take().may_follow_power_failure());
    }

    #[test]
    fn the_output_folder_s_own_ledger_may_be_named_in_other_words() {
        let place = tempfile::tempdir().unwrap();
        let (out, alias) = (place.path().join("out"), place.path().join("alias"));
        std::os::unix::fs::symlink("out", &alias).unwrap();
        let mut lock = Lock::take(&out, &alias.join(super::super::FOLDER)).unwrap();
        lock.retake_if_lost().unwrap();
    }
}
