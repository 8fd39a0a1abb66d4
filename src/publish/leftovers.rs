//! Removal of temporary files left by killed processes.

use std::io;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, SystemTime};

use crossbeam_channel::{TryRecvError, bounded};
use walkdir::{DirEntry, WalkDir};

use crate::beneath::Folder;

/// A temporary file younger than this may belong to a process that cannot be seen from here: in another container, or on another host.
pub const YOUNG: Duration = Duration::from_secs(60);

/// What the names of temporary files begin and end with. In between are the process ID, a hyphen, and something unique.
const BEFORE: &str = ".histeqd-";
const AFTER: &str = ".tmp";

/// Returns what the names of this process's temporary files begin and end with; something unique goes in between.
pub(crate) fn affixes() -> (String, &'static str) {
    (format!("{BEFORE}{}-", std::process::id()), AFTER)
}

/// Removes the temporary files at `place`, or below it, that nobody will finish; it lies in the folder `root`, or is it. Returns how many it
/// removed, and the files that cannot be judged until they are older than [`YOUNG`]. Files that only look similar are left alone. Among
/// millions of outputs this takes a while; it ends early once `enough` returns true.
pub fn remove_leftovers(root: &Path, place: &Path, enough: impl Fn() -> bool) -> (usize, Vec<PathBuf>) {
    remove_to_depth(usize::MAX, root, place, enough)
}

/// Like [`remove_leftovers`], but only so many folders deep: with 1, in `place` itself.
fn remove_to_depth(
    depth: usize,
    root: &Path,
    place: &Path,
    enough: impl Fn() -> bool,
) -> (usize, Vec<PathBuf>) {
    // If no file can be created there, assume that its clock agrees with ours.
    let now = clock(root).unwrap_or_else(|_| SystemTime::now());
    let files = WalkDir::new(place)
        .max_depth(depth)
        .into_iter()
        .take_while(|_| !enough())
        .filter_map(Result::ok)
        .filter(|entry| entry.file_type().is_file());
    let (mut removed, mut young) = (0, Vec::new());
    for file in files {
        match maker(&file) {
            Some(maker) if is_seen(maker) => {}
            Some(_) if is_old(&file, now) => removed += usize::from(remove(root, file.path()).is_ok()),
            // It may belong to this process, or to an earlier one with the same process ID.
            Some(maker) if maker == std::process::id() => {}
            Some(_) => young.push(file.into_path()),
            None => {}
        }
    }
    (removed, young)
}

/// Does `work`, and meanwhile removes leftovers below `out`, as far as it gets, and no more than `depth` folders deep.
///
/// # Errors
/// When the thread for that cannot be created.
pub fn with_leftovers_removed<T>(out: &Path, depth: usize, work: impl FnOnce() -> T) -> io::Result<T> {
    let (working, ended) = bounded::<()>(0);
    let ended = move || ended.try_recv() == Err(TryRecvError::Disconnected);
    thread::scope(|scope| {
        thread::Builder::new()
            .name("tidy".into())
            .spawn_scoped(scope, || remove_to_depth(depth, out, out, ended))?;
        let _working = working;
        Ok(work())
    })
}

fn remove(root: &Path, file: &Path) -> io::Result<()> {
    let (folder, name) = Folder::of(root, file)?;
    folder.remove(name)
}

/// Returns the current time by the clock of the folder's file system: the modification time of a new file.
fn clock(folder: &Path) -> io::Result<SystemTime> {
    tempfile::tempfile_in(folder)?.metadata()?.modified()
}

/// Returns whether `/proc` shows that `maker`, another process than this, is alive.
fn is_seen(maker: u32) -> bool {
    maker != std::process::id() && Path::new("/proc").join(maker.to_string()).exists()
}

fn is_old(file: &DirEntry, now: SystemTime) -> bool {
    let written = file.metadata().ok().and_then(|metadata| metadata.modified().ok());
    written.is_some_and(|written| now.duration_since(written).is_ok_and(|age| age > YOUNG))
}

/// Returns the ID of the process that made a temporary file; `None` if the name is not that of one.
fn maker(file: &DirEntry) -> Option<u32> {
    let name = file.file_name().to_str()?;
    let (pid, one) = name.strip_prefix(BEFORE)?.strip_suffix(AFTER)?.split_once('-')?;
    let is_ours = !one.is_empty() && one.bytes().all(|byte| byte.is_ascii_alphanumeric());
    pid.parse().ok().filter(|_| is_ours)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::time::Instant;

    use super::*;

    const GONE: &str = ".histeqd-4194999-0.tmp";

    fn write(file: &Path, age: Duration) {
        fs::File::create(file).unwrap().set_modified(SystemTime::now() - age).unwrap();
    }

    #[test]
    fn only_ours_of_processes_that_are_gone_are_removed() {
        let out = tempfile::tempdir().unwrap();
        let folder = out.path().join("a");
        fs::create_dir(&folder).unwrap();
        let own = format!(".histeqd-{}-3.tmp", std::process::id());
        let kept = [
            ".histeqd-1-0.tmp",
            ".histeqd-4194999-.tmp",
            ".histeqd-4194999-0",
            ".histeqd-4194999.tmp",
            ".histeqd-x-0.tmp",
            "a.tmp",
        ];
        let removed = [GONE, &own, ".histeqd-4194999-Xy3.tmp"];
        kept.iter().chain(&removed).for_each(|name| write(&folder.join(name), 2 * YOUNG));
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
    fn what_is_young_may_be_somebody_s_and_is_looked_at_again() {
        let out = tempfile::tempdir().unwrap();
        let (gone, own) = (out.path().join(GONE), out.path().join(affixes().0 + "0.tmp"));
        [&gone, &own].into_iter().for_each(|file| write(file, YOUNG / 2));
        assert_eq!(remove_leftovers(out.path(), out.path(), || false), (0, vec![gone.clone()]));
        write(&gone, 2 * YOUNG);
        assert_eq!(remove_leftovers(out.path(), &gone, || false), (1, Vec::new()));
        assert!(!gone.exists() && own.exists());
    }

    #[test]
    fn the_end_of_the_work_ends_the_search() {
        let out = tempfile::tempdir().unwrap();
        write(&out.path().join(GONE), 2 * YOUNG);
        let is_there = || out.path().join(GONE).exists();
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
