//! Temporary files of processes that were killed.

use std::fs;
use std::path::Path;

use walkdir::WalkDir;

/// Removes the temporary files below the output folder `out` that no living process will finish, and returns how many
/// there were. What only looks like one is left alone. To be called before this process makes its own.
pub fn remove_leftovers(out: &Path) -> usize {
    let files =
        WalkDir::new(out).into_iter().filter_map(Result::ok).filter(|entry| entry.file_type().is_file());
    let abandoned = files.filter(|file| file.file_name().to_str().and_then(maker).is_some_and(is_gone));
    abandoned.filter(|file| fs::remove_file(file.path()).is_ok()).count()
}

/// The process that made a temporary file of this name.
fn maker(name: &str) -> Option<u32> {
    let (pid, number) = name.strip_prefix(".histeqd-")?.strip_suffix(".tmp")?.split_once('-')?;
    number.parse::<u64>().ok()?;
    pid.parse().ok()
}

/// A process that had our id before us is gone.
fn is_gone(pid: u32) -> bool {
    pid == std::process::id() || !Path::new("/proc").join(pid.to_string()).exists()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_ours_of_processes_that_are_gone_are_removed() {
        let out = tempfile::tempdir().unwrap();
        let folder = out.path().join("a");
        fs::create_dir(&folder).unwrap();
        let own = format!(".histeqd-{}-3.tmp", std::process::id());
        let gone = ".histeqd-4194999-0.tmp".to_owned();
        let kept =
            [".histeqd-1-0.tmp", ".histeqd-x-0.tmp", ".histeqd-4194999.tmp", "a.tmp", ".histeqd-4194999-0"];
        for name in kept.iter().map(ToString::to_string).chain([own, gone]) {
            fs::write(folder.join(name), "").unwrap();
        }
        assert_eq!(remove_leftovers(out.path()), 2);
        let mut left: Vec<_> = fs::read_dir(&folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        left.sort();
        let mut kept = kept.map(str::to_owned);
        kept.sort();
        assert_eq!(left, kept);
    }
}
