//! Removal of temporary files left by killed processes.

use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::thread;
use std::time::{Duration, SystemTime};

use crossbeam_channel::{TryRecvError, bounded};
use walkdir::{DirEntry, WalkDir};

use super::lasting;
use crate::fs::beneath::Folder;
use crate::fs::boot::boot_id;
use crate::picture::record::Digest;

/// A temporary file younger than this may belong to a process that is not visible yet, or not any
/// more.
pub const YOUNG: Duration = Duration::from_secs(60);

/// The age from which a temporary file that was made elsewhere, on another machine or in another
/// container, is abandoned: no picture takes that long. A folder of that age is not continued
/// either.
const ABANDONED: Duration = Duration::from_secs(24 * 3600);

/// The prefix and suffix of the names of temporary files. In between are the process ID, where that
/// counts, and a unique part, separated by hyphens.
const BEFORE: &str = ".histeqd-";
const AFTER: &str = ".tmp";

/// Stands for the process in the name of a folder that belongs to the holder of its lock.
const NOBODY: u32 = 0;

/// Returns the prefix and suffix of the names of this process's temporary files; a unique part goes
/// in between.
pub(crate) fn affixes() -> (String, &'static str) {
    (format!("{BEFORE}{}-{}-", std::process::id(), here()), AFTER)
}

/// Returns the name of an output's temporary folder that a later process may continue with: one of
/// the same program, within the same boot of the machine, for an output of this name and with this
/// digest (`of`). `None` where these are not known.
pub(super) fn lasting_name(output: &Path, of: Digest) -> Option<String> {
    let (name, boot) = (output.file_name()?, boot_id());
    let common = [name.as_bytes(), env!("CARGO_PKG_VERSION").as_bytes()].join(&0);
    let (place, one) = (Digest::of(boot.as_bytes()), Digest::of(&common).with(Some(of)));
    (!boot.is_empty()).then(|| format!("{BEFORE}{NOBODY}-{place}-{one}{AFTER}"))
}

/// Returns a digest that separates the processes in this `/proc` from those of other machines and
/// containers with the same output folder.
fn here() -> Digest {
    static HERE: OnceLock<Digest> = OnceLock::new();
    *HERE.get_or_init(|| {
        let read = |file: &str| std::fs::read(file).unwrap_or_default();
        let [host, machine] = [read("/proc/sys/kernel/hostname"), read("/etc/machine-id")];
        let namespace = std::fs::read_link("/proc/self/ns/pid").unwrap_or_default();
        Digest::of(&[&host, &machine, namespace.as_os_str().as_bytes()].join(&0))
    })
}

/// Removes abandoned temporary files at `place`, or below it; it lies in the folder `root`, or is
/// it.
///
/// Returns the number of removed files, and the files to judge again once they are older than
/// [`YOUNG`]. Files that only look similar are left alone. Among millions of outputs this takes a
/// while; it ends early once `enough` returns true.
pub fn remove_leftovers(root: &Path, place: &Path, enough: impl Fn() -> bool) -> (usize, Vec<PathBuf>) {
    remove_to_depth(usize::MAX, root, place, enough)
}

/// Like [`remove_leftovers`], but only this many folders deep: with 1, in `place` itself.
fn remove_to_depth(
    depth: usize,
    root: &Path,
    place: &Path,
    enough: impl Fn() -> bool,
) -> (usize, Vec<PathBuf>) {
    // If no file can be created there, assume that its clock agrees with ours.
    let now = clock(root).unwrap_or_else(|_| SystemTime::now());
    let mut entries = WalkDir::new(place).max_depth(depth).into_iter();
    let (mut removed, mut young) = (0, Vec::new());
    while let Some(entry) = entries.next().filter(|_| !enough()) {
        let Ok(file) = entry else { continue };
        let (is_folder, maker) = (file.file_type().is_dir(), maker(&file));
        if is_folder && maker.is_some() {
            entries.skip_current_dir();
        }
        match maker {
            _ if !is_folder && !file.file_type().is_file() => {}
            None => {}
            // A folder's own time does not show the last write to its files.
            Some(Maker::Here(process)) if is_folder && process == std::process::id() => {}
            Some(Maker::Elsewhere | Maker::Locked) if !is_older(&file, ABANDONED, now) => {}
            Some(Maker::Here(process)) if is_seen(process) => {}
            // It may belong to this process, or to an earlier one with the same process ID.
            Some(Maker::Here(process)) if process == std::process::id() && !is_older(&file, YOUNG, now) => {}
            Some(Maker::Here(_)) if !is_older(&file, YOUNG, now) => young.push(file.into_path()),
            Some(Maker::Locked) => removed += usize::from(remove_unlocked(root, file.path()).is_ok()),
            Some(_) => removed += usize::from(remove(root, file.path()).is_ok()),
        }
    }
    (removed, young)
}

/// Does `work`, and meanwhile removes leftovers below `out`, as many as it can, and at most `depth`
/// folders deep.
///
/// # Errors
/// When the thread for that cannot be created.
pub fn with_leftovers_removed<T>(out: &Path, depth: usize, work: impl FnOnce() -> T) -> io::Result<T> {
    let (working, ended) = bounded::<()>(0);
    thread::scope(|scope| {
        thread::Builder::new().name("tidy".into()).spawn_scoped(scope, || {
            remove_to_depth(depth, out, out, move || ended.try_recv() == Err(TryRecvError::Disconnected))
        })?;
        let _working = working;
        Ok(work())
    })
}

fn remove(root: &Path, file: &Path) -> io::Result<()> {
    let (folder, name) = Folder::of(root, file)?;
    folder.remove_all(name)
}

/// Removes a folder unless another process writes to it, and locks it against others meanwhile.
fn remove_unlocked(root: &Path, path: &Path) -> io::Result<()> {
    let (folder, name) = Folder::of(root, path)?;
    let _locked = lasting::lock(&folder, name)?;
    folder.remove_all(name)
}

/// Returns the current time by the clock of the folder's file system: the modification time of a
/// new file.
fn clock(folder: &Path) -> io::Result<SystemTime> {
    tempfile::tempfile_in(folder)?.metadata()?.modified()
}

/// Returns whether `/proc` shows that a process, other than this one, is alive.
fn is_seen(process: u32) -> bool {
    process != std::process::id() && Path::new("/proc").join(process.to_string()).exists()
}

fn is_older(file: &DirEntry, than: Duration, now: SystemTime) -> bool {
    let written = file.metadata().ok().and_then(|metadata| metadata.modified().ok());
    written.is_some_and(|written| now.duration_since(written).is_ok_and(|age| age > than))
}

/// The maker of a temporary file.
enum Maker {
    /// A process of this machine: if alive, `/proc` shows it.
    Here(u32),
    /// Another machine, or a container with processes of its own.
    Elsewhere,
    /// The holder of its lock.
    Locked,
}

/// Returns the maker of a temporary file; `None` if the name is not that of one.
fn maker(file: &DirEntry) -> Option<Maker> {
    let name = file.file_name().to_str()?;
    let (process, rest) = name.strip_prefix(BEFORE)?.strip_suffix(AFTER)?.split_once('-')?;
    let (place, one) = rest.split_once('-')?;
    let process = process.parse().ok()?;
    let are_ours = [place, one]
        .iter()
        .all(|part| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_alphanumeric()));
    are_ours.then(|| match process {
        NOBODY => Maker::Locked,
        _ if place == here().to_string() => Maker::Here(process),
        _ => Maker::Elsewhere,
    })
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::time::Instant;

    use super::*;

    /// Returns the name of a temporary file of a process of this machine that is gone.
    fn gone() -> String {
        format!(".histeqd-4194999-{}-0.tmp", here())
    }

    fn write(file: &Path, age: Duration) {
        fs::File::create(file).unwrap().set_modified(SystemTime::now() - age).unwrap();
    }

    #[test]
    fn only_ours_of_processes_that_are_gone_are_removed() {
        let out = tempfile::tempdir().unwrap();
        let folder = out.path().join("a");
        fs::create_dir(&folder).unwrap();
        let own = affixes().0 + "3.tmp";
        let alive = format!(".histeqd-1-{}-0.tmp", here());
        let mut kept = [
            &alive,
            ".histeqd-1-elsewhere-0.tmp",
            ".histeqd-4194999--0.tmp",
            ".histeqd-4194999-0.tmp",
            ".histeqd-4194999-elsewhere-.tmp",
            ".histeqd-4194999-elsewhere-0",
            ".histeqd-4194999.tmp",
            ".histeqd-x-elsewhere-0.tmp",
            "a.tmp",
        ];
        kept.sort_unstable();
        let others = format!(".histeqd-4194999-{}-Xy3.tmp", here());
        let gone = gone();
        let removed = [&gone, &own, &others];
        kept.iter().for_each(|name| write(&folder.join(name), 2 * YOUNG));
        removed.iter().for_each(|name| write(&folder.join(name), 2 * YOUNG));
        assert_eq!(remove_leftovers(out.path(), out.path(), || true), (0, Vec::new()));
        assert_eq!(remove_leftovers(out.path(), out.path(), || false), (removed.len(), Vec::new()));
        let mut left: Vec<_> = fs::read_dir(&folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        left.sort();
        assert_eq!(left, kept);
    }

    #[test]
    fn a_folder_of_a_process_that_is_gone_is_removed_with_all_that_is_in_it_and_no_link_is_followed() {
        let out = tempfile::tempdir().unwrap();
        let at = |name: &str| out.path().join(name);
        let own = affixes().0 + "3.tmp";
        for folder in [&gone(), &own] {
            fs::create_dir_all(at(folder).join("0/1")).unwrap();
            fs::write(at(folder).join("0/1/2"), "chunk").unwrap();
            let made = fs::File::open(at(folder)).unwrap();
            made.set_modified(SystemTime::now() - 2 * YOUNG).unwrap();
        }
        fs::create_dir(at("kept")).unwrap();
        fs::write(at("kept/file"), "").unwrap();
        std::os::unix::fs::symlink("../kept", at(&gone()).join("link")).unwrap();
        fs::File::open(at(&gone())).unwrap().set_modified(SystemTime::now() - 2 * YOUNG).unwrap();
        assert_eq!(remove_leftovers(out.path(), out.path(), || false), (1, Vec::new()));
        assert!(!at(&gone()).exists() && at("kept/file").exists() && at(&own).exists());
    }

    #[test]
    fn what_is_young_may_be_somebody_s_and_is_looked_at_again() {
        let out = tempfile::tempdir().unwrap();
        let (gone, own) = (out.path().join(gone()), out.path().join(affixes().0 + "0.tmp"));
        [&gone, &own].into_iter().for_each(|file| write(file, YOUNG / 2));
        assert_eq!(remove_leftovers(out.path(), out.path(), || false), (0, vec![gone.clone()]));
        write(&gone, 2 * YOUNG);
        assert_eq!(remove_leftovers(out.path(), &gone, || false), (1, Vec::new()));
        assert!(!gone.exists() && own.exists());
    }

    #[test]
    fn a_file_of_another_machine_is_left_alone_for_a_day() {
        let out = tempfile::tempdir().unwrap();
        let at = |name: &str| out.path().join(name);
        // Another machine has a process with the same ID as this one, too.
        let same = format!(".histeqd-{}-elsewhere-0.tmp", std::process::id());
        for name in [".histeqd-1-elsewhere-0.tmp", &same] {
            write(&at(name), ABANDONED / 2);
            assert_eq!(remove_leftovers(out.path(), out.path(), || false), (0, Vec::new()));
            write(&at(name), 2 * ABANDONED);
            assert_eq!(remove_leftovers(out.path(), out.path(), || false), (1, Vec::new()));
        }
    }

    #[test]
    fn a_folder_to_go_on_with_is_left_alone_for_a_day_and_while_it_is_locked() {
        let out = tempfile::tempdir().unwrap();
        let folder = Folder::open(out.path(), Path::new("")).unwrap();
        let name = lasting_name(Path::new("a.zarr"), Digest::of(b"")).unwrap();
        let taken = lasting::take(&folder, &name).unwrap();
        fs::write(out.path().join(&name).join("chunk"), "chunk").unwrap();
        let tidied = |age| {
            taken.set_modified(SystemTime::now() - age).unwrap();
            remove_leftovers(out.path(), out.path(), || false)
        };
        assert_eq!([ABANDONED / 2, 2 * ABANDONED].map(tidied), [(0, Vec::new()), (0, Vec::new())]);
        drop(taken);
        let left = fs::File::open(out.path().join(&name)).unwrap();
        for (age, removed) in [(ABANDONED / 2, 0), (2 * ABANDONED, 1)] {
            left.set_modified(SystemTime::now() - age).unwrap();
            assert_eq!(remove_leftovers(out.path(), out.path(), || false), (removed, Vec::new()));
        }
        assert!(!out.path().join(&name).exists());
    }

    #[test]
    fn the_end_of_the_work_ends_the_search() {
        let out = tempfile::tempdir().unwrap();
        write(&out.path().join(gone()), 2 * YOUNG);
        let is_there = || out.path().join(gone()).exists();
        let wait = || {
            let start = Instant::now();
            while is_there() && start.elapsed() < Duration::from_secs(60) {
                thread::sleep(Duration::from_millis(1));
            }
        };
        with_leftovers_removed(out.path(), usize::MAX, wait).unwrap();
        assert!(!is_there());
        assert_eq!(with_leftovers_removed(&out.path().join("none"), 1, || 5).unwrap(), 5);
    }
}
