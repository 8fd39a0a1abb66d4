//! The only code that writes to the output tree. An output appears complete, by a rename, or not at
//! all. No link below the root of the tree is followed; an output replaces one of the same name.

mod image_upload;
mod lasting;
mod leftovers;
pub(crate) mod notes;
mod published;
mod replaced;
mod stream;
mod temporary;
mod unpublished;
mod upload;

use std::collections::HashMap;
use std::fmt;
use std::fs::File;
use std::io::{self, Seek};
use std::iter;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock};

use crate::config::Durability;
use crate::fs::beneath::Folder;
use crate::fs::digest::Digest;
use crate::fs::files;
use crate::fs::input;
use crate::fs::paths::{Shown, folder_of};

pub use image_upload::ImageUpload;
pub use leftovers::{YOUNG, remove_leftovers, with_leftovers_removed};
use leftovers::{affixes, lasting_name};
pub use published::Published;
pub use replaced::Replaces;
use replaced::are_same;
pub use stream::{Pending, Stream};
use temporary::Kind;
pub(crate) use temporary::Temporary;
use unpublished::Hidden;
pub use unpublished::{Sealed, Unpublished};
pub use upload::Upload;

/// Returns whether the file system of `output`, below the folder `root`, ignores case in names.
///
/// The test creates an empty file in the closest existing folder and removes it at once; where it
/// cannot be created, the answer is no.
pub fn ignores_case(root: &Path, output: &Path) -> bool {
    let below = output.strip_prefix(root).unwrap_or(Path::new(""));
    let inside = below.ancestors().skip(1).map(|below| (root, below));
    let above = root.ancestors().skip(1).map(|folder| (folder, Path::new("")));
    let Some(folder) = inside.chain(above).find_map(|(root, below)| Folder::open(root, below).ok()) else {
        return false;
    };
    Temporary::create(&folder)
        .is_ok_and(|(probe, _)| folder.has(probe.name().as_os_str().to_ascii_uppercase()))
}

/// Writes outputs. Shared by all threads.
#[derive(Debug)]
pub struct Publisher {
    durability: Durability,
    next: AtomicU64,
    /// Set by [`Publisher::abandon_all`]. Temporary files are created under the read lock: none can
    /// be created after that.
    closed: RwLock<bool>,
    /// The temporary files, each with the root of its tree.
    live: Mutex<HashMap<PathBuf, PathBuf>>,
}

impl Publisher {
    /// Creates a publisher; `durability` decides when its outputs count as written.
    pub fn new(durability: Durability) -> Self {
        Self {
            durability,
            next: AtomicU64::new(0),
            closed: RwLock::new(false),
            live: Mutex::new(HashMap::new()),
        }
    }

    /// Checks that outputs can be created in the folder `out`, by creating the folder and an empty
    /// file that is removed at once.
    ///
    /// # Errors
    /// When they cannot be created.
    pub fn check(&self, out: &Path) -> Result<(), PublishError> {
        let begun = self.begin(out, &out.join("any"));
        begun.map(drop).map_err(|why| PublishError { path: out.to_owned(), ..why })
    }

    /// Starts the output `output`, which lies below the folder `root`: creates its folder if that
    /// is missing, and a temporary file in it.
    ///
    /// # Errors
    /// When one of them cannot be created, for example because a link is in the way.
    pub fn begin(&self, root: &Path, output: &Path) -> Result<Unpublished<'_>, PublishError> {
        self.begin_as(Kind::File, root, output)
    }

    fn begin_as(&self, kind: Kind, root: &Path, output: &Path) -> Result<Unpublished<'_>, PublishError> {
        match self.create(kind, root, output) {
            Err(error) if error.source.kind() == io::ErrorKind::NotFound => {
                let made = Folder::create_of(root, output, self.durability == Durability::Full);
                made.map_err(|source| PublishError::new(folder_of(output), source))?;
                self.create(kind, root, output)
            }
            done => done,
        }
    }

    /// Starts an output that is a folder, as [`Publisher::begin`] does for a file. If the inputs to
    /// its content have a digest (`of`), it continues with the remains of an earlier process that
    /// began the same output and was killed.
    ///
    /// # Errors
    /// As of [`Publisher::begin`].
    pub fn begin_folder(
        &self,
        root: &Path,
        output: &Path,
        of: Option<Digest>,
    ) -> Result<Unpublished<'_>, PublishError> {
        self.begin_as(Kind::Folder(of), root, output)
    }

    /// Writes the output `output`, below the folder `root`, with the content of a file, unless that
    /// is there already.
    ///
    /// # Errors
    /// When the output cannot be written, or a file that must not be replaced is there.
    pub fn copy(
        &self,
        root: &Path,
        file: &mut File,
        output: &Path,
        replaces: Replaces,
    ) -> Result<(), PublishError> {
        let both = file.try_clone().and_then(|file| are_same(file, input::open(output)?));
        if both.unwrap_or(false) {
            return Ok(());
        }
        let mut copy = self.begin(root, output)?;
        copy.replace(replaces);
        file.rewind().and_then(|()| io::copy(file, copy.file())).map_err(|why| copy.unwritten(why))?;
        copy.publish().map(drop)
    }

    /// Returns whether there are remains of an output that [`Publisher::begin_folder`] would
    /// continue with.
    pub fn has_left(&self, root: &Path, output: &Path, of: Digest) -> bool {
        lasting_name(output, of)
            .zip(Folder::of(root, output).ok())
            .is_some_and(|(name, (folder, _))| folder.has(name))
    }

    /// Creates a file without a name, in the folder of the output `output`, for data that cannot be
    /// written there yet.
    ///
    /// # Errors
    /// As for [`Publisher::begin`].
    pub fn spill(&self, root: &Path, output: &Path) -> Result<File, PublishError> {
        let mut unnamed = self.begin(root, output)?;
        unnamed.file().try_clone().map_err(|source| unnamed.unwritten(source))
    }

    /// Removes all temporary files and refuses to create more, for a process that is about to exit.
    /// Published outputs stay.
    pub fn abandon_all(&self) {
        *self.closed.write().unwrap_or_else(PoisonError::into_inner) = true;
        for (temporary, root) in self.live().drain() {
            remove(&root, &temporary);
        }
    }

    fn create(&self, kind: Kind, root: &Path, output: &Path) -> Result<Unpublished<'_>, PublishError> {
        let closed = self.closed.read().unwrap_or_else(PoisonError::into_inner);
        if *closed {
            return Err(PublishError::new(output, io::Error::other("histeqd is stopping")));
        }
        let created = Folder::of(root, output)
            .and_then(|(folder, name)| temporary::create(kind, &folder, name, &mut self.numbers()));
        let (name, file) = created.map_err(|source| PublishError::of_creation(output, source))?;
        let temporary = output.with_file_name(name);
        self.live().insert(temporary.clone(), root.to_owned());
        let (root, output) = (root.to_owned(), output.to_owned());
        let hidden = Hidden { publisher: self, root, temporary, output, replaces: Replaces::Any };
        Ok(Unpublished::new(hidden, file))
    }

    /// Returns numbers that are not used by temporary files of this publisher.
    fn numbers(&self) -> impl Iterator<Item = u64> {
        iter::repeat_with(|| self.next.fetch_add(1, Ordering::Relaxed))
    }

    fn live(&self) -> MutexGuard<'_, HashMap<PathBuf, PathBuf>> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Removes a file or folder if possible. An error is ignored: a leftover is hidden and recognizable
/// as ours.
fn remove(root: &Path, temporary: &Path) {
    let _ = Folder::of(root, temporary).and_then(|(folder, name)| folder.remove_all(name));
}

/// Why an output could not be written, with a remedy for the user.
#[derive(Debug, thiserror::Error)]
pub struct PublishError {
    path: PathBuf,
    source: io::Error,
}

/// The reason of an output whose place has been taken meanwhile, by a file or an object.
#[derive(Debug, thiserror::Error)]
#[error("another {0} of that name has appeared")]
struct Appeared(&'static str);

impl PublishError {
    fn new(path: &Path, source: io::Error) -> Self {
        Self { path: path.to_owned(), source }
    }

    /// Returns the error of an output whose temporary file could not be created.
    fn of_creation(output: &Path, source: io::Error) -> Self {
        if source.kind() != io::ErrorKind::StorageFull {
            return Self::new(folder_of(output), source);
        }
        // An empty file takes an inode, and mostly no space.
        let why = format!("there is no room for another file (see df -i): {source}");
        Self::new(output, io::Error::new(io::ErrorKind::StorageFull, why))
    }

    /// Returns the error of an output that object storage does not accept, or gives no answer
    /// about.
    pub(crate) fn of_store(output: &Path, why: store::Error) -> Self {
        Self::new(output, io::Error::other(why))
    }

    /// Returns whether the disk is full: every other output will fail too until there is space.
    fn is_full(&self) -> bool {
        matches!(self.source.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
    }

    /// Returns whether another file is in the place of the output and stays there.
    pub(crate) fn is_of_another(&self) -> bool {
        self.source.get_ref().is_some_and(<dyn std::error::Error + Send + Sync>::is::<Appeared>)
    }

    /// Returns whether every other output would fail too until this has passed: no space, or no
    /// writing at all.
    pub fn affects_all(&self) -> bool {
        use io::ErrorKind as Kind;
        let is_bucket = |why: &store::Error| why.concerns_bucket() || why.is_denied();
        self.is_full()
            || matches!(self.source.kind(), Kind::ReadOnlyFilesystem | Kind::StaleNetworkFileHandle)
            || self.source.get_ref().and_then(|why| why.downcast_ref()).is_some_and(is_bucket)
    }

    /// Returns whether the same output may succeed at another time.
    pub fn is_transient(&self) -> bool {
        self.source.kind() != io::ErrorKind::InvalidFilename
    }

    /// Returns the message for a service, which continues by itself.
    pub fn in_service(&self) -> String {
        if self.is_full() { format!("{}; free some space", self.fault()) } else { self.to_string() }
    }

    /// Returns the reason without the name of the output.
    pub fn kind(&self) -> String {
        let remedy = self.remedy().map_or_else(String::new, |remedy| format!("; {remedy}"));
        format!("cannot be written: {}{remedy}", self.source)
    }

    fn fault(&self) -> String {
        format!("cannot write {}: {}", Shown(&self.path), self.source)
    }

    fn remedy(&self) -> Option<&'static str> {
        use io::ErrorKind as Kind;
        Some(match self.source.kind() {
            Kind::StorageFull | Kind::QuotaExceeded => {
                "free some space and run the same command again; it continues where it stopped"
            }
            Kind::PermissionDenied | Kind::ReadOnlyFilesystem => {
                "choose another --out, or make this one writable"
            }
            Kind::NotADirectory | Kind::AlreadyExists => {
                "a file is in the way of a folder; move it away or choose another --out"
            }
            Kind::IsADirectory => {
                "a folder is in the way of the output; move it away or choose another --out"
            }
            Kind::InvalidFilename => "the name is too long for the output's file system",
            _ => return files::remedy(&self.source),
        })
    }
}

impl fmt::Display for PublishError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.fault())?;
        self.remedy().map_or(Ok(()), |remedy| write!(f, "; {remedy}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::io::Write;
    use std::os::unix::fs::PermissionsExt;
    use std::process;

    fn names(folder: &Path) -> Vec<String> {
        let mut names: Vec<_> = fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn an_output_appears_whole_with_its_folders_and_nothing_else() {
        for durability in [Durability::Full, Durability::Fast] {
            let folder = tempfile::tempdir().unwrap();
            let output = folder.path().join("a/b/c.png");
            let publisher = Publisher::new(durability);
            let mut unpublished = publisher.begin(folder.path(), &output).unwrap();
            unpublished.file().write_all(b"whole").unwrap();
            assert!(!output.exists());
            assert_eq!(unpublished.publish().unwrap(), 5);
            assert_eq!(fs::read(&output).unwrap(), b"whole");
            assert_eq!(names(output.parent().unwrap()), ["c.png"]);
            assert_eq!(fs::metadata(&output).unwrap().permissions().mode() & 0o777 & !temporary::MODE, 0);
        }
    }

    #[test]
    fn the_temporary_file_is_hidden_and_named_as_ours() {
        let folder = tempfile::tempdir().unwrap();
        let publisher = Publisher::new(Durability::Fast);
        let _unpublished = publisher.begin(folder.path(), &folder.path().join("c.png")).unwrap();
        let names = names(folder.path());
        assert!(
            names.len() == 1 && names[0].starts_with(&format!(".histeqd-{}-", process::id())),
            "{names:?}"
        );
        assert!(names[0].ends_with("-0.tmp"), "{names:?}");
    }

    #[test]
    fn a_dropped_output_leaves_the_old_one_alone_and_no_trace() {
        let folder = tempfile::tempdir().unwrap();
        let output = folder.path().join("c.png");
        fs::write(&output, "old").unwrap();
        let publisher = Publisher::new(Durability::Full);
        publisher.begin(folder.path(), &output).unwrap().file().write_all(b"half").unwrap();
        assert_eq!(names(folder.path()), ["c.png"]);
        assert_eq!(fs::read(&output).unwrap(), b"old");
    }

    #[test]
    fn an_output_that_replaces_nothing_appears_only_where_nothing_is() {
        let folder = tempfile::tempdir().unwrap();
        let publisher = Publisher::new(Durability::Fast);
        let publish = || {
            let mut unpublished = publisher.begin(folder.path(), &folder.path().join("c.png")).unwrap();
            unpublished.file().write_all(b"new").unwrap();
            unpublished.replace(Replaces::Nothing);
            unpublished.publish()
        };
        assert_eq!(publish().unwrap(), 3);
        fs::write(folder.path().join("c.png"), "another's").unwrap();
        let why = publish().unwrap_err();
        assert!(why.to_string().ends_with("c.png: another file of that name has appeared"), "{why}");
        assert!(why.is_transient() && !why.affects_all());
        assert_eq!(fs::read(folder.path().join("c.png")).unwrap(), b"another's");
        assert_eq!(names(folder.path()), ["c.png"]);
    }

    #[test]
    fn a_leftover_with_our_number_is_not_touched() {
        let folder = tempfile::tempdir().unwrap();
        let leftover = folder.path().join(affixes().0 + "0.tmp");
        fs::write(&leftover, "another's").unwrap();
        let publisher = Publisher::new(Durability::Fast);
        let mut unpublished = publisher.begin(folder.path(), &folder.path().join("c.png")).unwrap();
        unpublished.file().write_all(b"ours").unwrap();
        unpublished.publish().unwrap();
        assert_eq!(fs::read(leftover).unwrap(), b"another's");
    }

    #[test]
    fn abandoning_removes_every_temporary_file_and_allows_no_more() {
        let folder = tempfile::tempdir().unwrap();
        let publisher = Publisher::new(Durability::Fast);
        let outputs: Vec<_> = (0..3).map(|n| folder.path().join(format!("{n}.png"))).collect();
        publisher.begin(folder.path(), &outputs[0]).unwrap().publish().unwrap();
        let late = publisher.begin(folder.path(), &outputs[1]).unwrap();
        publisher.abandon_all();
        assert_eq!(names(folder.path()), ["0.png"]);
        assert!(late.publish().is_err());
        assert!(publisher.begin(folder.path(), &outputs[2]).is_err());
        assert_eq!(names(folder.path()), ["0.png"]);
    }

    #[test]
    fn who_begins_the_same_folder_after_a_kill_goes_on_with_it_and_nobody_else() {
        let folder = tempfile::tempdir().unwrap();
        let output = folder.path().join("c.zarr");
        let (killed, publisher) = (Publisher::new(Durability::Fast), Publisher::new(Durability::Fast));
        let same = Some(Digest::of(b"same"));
        let begin = |of| publisher.begin_folder(folder.path(), &output, of);
        let left = killed.begin_folder(folder.path(), &output, same).unwrap();
        let name = names(folder.path()).remove(0);
        fs::write(folder.path().join(&name).join("chunk"), "chunk").unwrap();
        // Two processes at a time write to folders of their own.
        let second = begin(same).unwrap();
        assert_eq!(names(folder.path()).len(), 2);
        drop(second);
        assert_eq!(names(folder.path()), [name]);
        // The process ends without a chance to clean up.
        killed.live().clear();
        assert!(publisher.has_left(folder.path(), &output, Digest::of(b"same")));
        assert!(!publisher.has_left(folder.path(), &output, Digest::of(b"other")));
        drop(left);
        for of in [Some(Digest::of(b"other")), None] {
            let other = begin(of).unwrap();
            assert_eq!(names(folder.path()).len(), 2);
            drop(other);
        }
        begin(same).unwrap().publish().unwrap();
        assert_eq!(names(folder.path()), ["c.zarr"]);
        assert_eq!(names(&output), ["chunk"]);
        drop(begin(same).unwrap());
        assert_eq!(names(folder.path()), ["c.zarr"]);
    }

    #[test]
    fn many_threads_make_the_same_folders() {
        let folder = tempfile::tempdir().unwrap();
        let publisher = Publisher::new(Durability::Full);
        std::thread::scope(|scope| {
            for n in 0..8 {
                let output = folder.path().join(format!("x/y/z/{n}.png"));
                let (publisher, folder) = (&publisher, folder.path());
                scope.spawn(move || publisher.begin(folder, &output).unwrap().publish().unwrap());
            }
        });
        assert_eq!(names(&folder.path().join("x/y/z")).len(), 8);
    }

    #[test]
    fn what_is_in_the_way_is_named_with_a_remedy() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        fs::write(&file, "").unwrap();
        let publisher = Publisher::new(Durability::Fast);
        let why = publisher.begin(folder.path(), &file.join("c.png")).unwrap_err().to_string();
        assert!(why.starts_with(&format!("cannot write {}: Not a directory", file.display())), "{why}");
        assert!(why.ends_with("move it away or choose another --out"), "{why}");

        let taken = folder.path().join("folder");
        fs::create_dir(&taken).unwrap();
        let why = publisher.begin(folder.path(), &taken).unwrap().publish().unwrap_err().to_string();
        assert!(why.contains("a folder is in the way of the output"), "{why}");
    }

    #[test]
    fn a_full_or_read_only_output_gets_a_remedy() {
        let why = |kind: io::ErrorKind| PublishError::new(Path::new("done"), kind.into());
        assert!(why(io::ErrorKind::StorageFull).to_string().contains("free some space"));
        assert!(why(io::ErrorKind::StorageFull).is_full());
        let in_service = why(io::ErrorKind::StorageFull).in_service();
        assert_eq!(in_service, "cannot write done: no storage space; free some space");
        assert!(why(io::ErrorKind::ReadOnlyFilesystem).to_string().contains("choose another --out"));
    }

    #[test]
    fn what_stops_every_output_is_waited_for_and_a_name_that_is_too_long_is_not() {
        use io::ErrorKind as Kind;
        let error = |kind: Kind| PublishError::new(Path::new("done"), kind.into());
        for kind in
            [Kind::StorageFull, Kind::QuotaExceeded, Kind::ReadOnlyFilesystem, Kind::StaleNetworkFileHandle]
        {
            assert!(error(kind).affects_all() && error(kind).is_transient(), "{kind:?}");
        }
        for kind in [Kind::PermissionDenied, Kind::IsADirectory, Kind::InvalidFilename] {
            assert!(!error(kind).affects_all(), "{kind:?}");
        }
        assert!(error(Kind::PermissionDenied).is_transient());
        assert!(!error(Kind::InvalidFilename).is_transient(), "a service would try it forever");
    }

    #[test]
    fn a_failed_write_is_the_outputs_fault_and_not_the_inputs() {
        let folder = tempfile::tempdir().unwrap();
        let publisher = Publisher::new(Durability::Fast);
        let unpublished = publisher.begin(folder.path(), &folder.path().join("c.png")).unwrap();
        let why = unpublished.unwritten(io::ErrorKind::StorageFull.into()).to_string();
        assert!(
            why.starts_with("cannot write ") && why.contains("c.png: no storage space; free some space"),
            "{why}"
        );
    }

    #[test]
    fn a_check_leaves_the_folder_and_nothing_in_it() {
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("done");
        Publisher::new(Durability::Fast).check(&out).unwrap();
        assert!(names(&out).is_empty());
    }
}
