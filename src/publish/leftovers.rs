//! Temporary files of processes that were killed.

use std::fs;
use std::path::Path;
use std::time::{Duration, SystemTime};

use walkdir::{DirEntry, WalkDir};

/// A file that is older than this process by so much was not begun by it, nor is anybody writing it, whichever clock wrote its time.
const CERTAINLY_OLDER: Duration = Duration::from_secs(60);

/// Removes the temporary files below the output folder `out` that no living process will finish, and returns how many
/// there were. What only looks like one is left alone. `started`: before this process made its first one. Among millions of
/// outputs it takes its time; it ends early once `enough` says so.
pub fn remove_leftovers(out: &Path, started: SystemTime, enough: impl Fn() -> bool) -> usize {
    let files = WalkDir::new(out)
        .into_iter()
        .take_while(|_| !enough())
        .filter_map(Result::ok)
        .filter(|entry| entry.file_type().is_file());
    files
        .filter(|file| is_abandoned(file, started, others_are_seen()))
        .filter(|file| fs::remove_file(file.path()).is_ok())
        .count()
}

/// Whether `/proc` shows other users' processes: systemd's `ProtectProc=invisible` hides them.
fn others_are_seen() -> bool {
    Path::new("/proc/1").exists()
}

fn is_abandoned(file: &DirEntry, started: SystemTime, others_are_seen: bool) -> bool {
    let Some(maker) = file.file_name().to_str().and_then(maker) else { return false };
    if maker != std::process::id() {
        let lives = Path::new("/proc").join(maker.to_string()).exists();
        if lives || others_are_seen {
            return !lives;
        }
    }
    let written = file.metadata().ok().and_then(|metadata| metadata.modified().ok());
    written.is_some_and(|written| written + CERTAINLY_OLDER < started)
}

/// The process that made a temporary file of this name.
fn maker(name: &str) -> Option<u32> {
    let (pid, number) = name.strip_prefix(".histeqd-")?.strip_suffix(".tmp")?.split_once('-')?;
    number.parse::<u64>().ok()?;
    pid.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_ours_of_processes_that_are_gone_are_removed() {
        let out = tempfile::tempdir().unwrap();
        let folder = out.path().join("a");
        fs::create_dir(&folder).unwrap();
        let own = |number| format!(".histeqd-{}-{number}.tmp", std::process::id());
        let (live, of_the_id_before, gone) = (own(0), own(3), ".histeqd-4194999-0.tmp".to_owned());
        let kept = [
            ".histeqd-1-0.tmp",
            ".histeqd-x-0.tmp",
            ".histeqd-4194999.tmp",
            "a.tmp",
            ".histeqd-4194999-0",
            &live,
        ];
        for name in kept.iter().copied().chain([&*of_the_id_before, &*gone]) {
            fs::write(folder.join(name), "").unwrap();
        }
        let now = SystemTime::now();
        let old = fs::File::options().write(true).open(folder.join(&of_the_id_before)).unwrap();
        old.set_modified(now - 2 * CERTAINLY_OLDER).unwrap();
        let hidden = WalkDir::new(&folder)
            .into_iter()
            .map(Result::unwrap)
            .filter(|entry| is_abandoned(entry, now, false));
        assert_eq!(
            hidden.map(|entry| entry.file_name().to_owned()).collect::<Vec<_>>(),
            [&*of_the_id_before]
        );
        assert_eq!(remove_leftovers(out.path(), now, || true), 0);
        assert_eq!(remove_leftovers(out.path(), now, || false), 2);
        let mut left: Vec<_> = fs::read_dir(&folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        left.sort();
        let mut kept = kept.map(ToOwned::to_owned);
        kept.sort();
        assert_eq!(left, kept);
    }
}
