//! Names with a number, for a file with the same name as another.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// The most bytes that file systems allow in a name.
pub(crate) const MAX_NAME: usize = 255;

/// Returns the greatest number with a taken name, given that the name without a number, which
/// counts as 1, is taken. A binary search over numbers finds the last of a million in forty checks;
/// numbers after a gap are not found.
pub(crate) fn last_taken(name: &Path, is_taken: impl Fn(&Path) -> bool) -> u64 {
    let (mut taken, mut free) = (1, 2);
    while is_taken(&numbered(name, free)) {
        (taken, free) = (free, 2 * free);
    }
    while free - taken > 1 {
        let middle = taken.midpoint(free);
        *(if is_taken(&numbered(name, middle)) { &mut taken } else { &mut free }) = middle;
    }
    taken
}

/// Returns whether a path is another one with a number.
pub(crate) fn is_numbered(numbered_name: &Path, name: &Path) -> bool {
    let stem = numbered_name.file_stem().and_then(OsStr::to_str);
    // Without an extension, the number takes its place.
    let ends = [stem.and_then(|stem| stem.rsplit_once('.')).map(|(_, end)| end), extension(numbered_name)];
    let mut numbers = ends.into_iter().flatten().filter_map(|end| end.parse().ok());
    numbers.any(|number: u64| numbered(name, number) == numbered_name)
}

fn extension(path: &Path) -> Option<&str> {
    path.extension().and_then(OsStr::to_str)
}

/// Returns the path with a number before the extension, and a shortened name if there is no room
/// for both.
pub(crate) fn numbered(target: &Path, number: u64) -> PathBuf {
    let mut end = OsString::from(format!(".{number}"));
    if let Some(extension) = target.extension() {
        end.push(".");
        end.push(extension);
    }
    let mut name = start_of(target.file_stem().unwrap_or_default(), end.len());
    name.push(end);
    target.with_file_name(name)
}

/// Returns as much of a name as leaves room for this many more bytes, without splitting a
/// character.
pub(crate) fn start_of(name: &OsStr, room: usize) -> OsString {
    let name = name.as_bytes();
    let mut length = name.len().min(MAX_NAME.saturating_sub(room));
    // The bytes inside a character begin with the bits 10.
    while length > 0 && name.get(length).is_some_and(|byte| byte >> 6 == 0b10) {
        length -= 1;
    }
    OsStr::from_bytes(&name[..length]).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_a_number_is_known() {
        let long = format!("{}.tif", "é".repeat(125));
        for name in ["a/scan.tif", "a/scan", "a/scan.2.tif", "a/.tif", long.as_str()].map(Path::new) {
            for number in [2, 10, 12_345] {
                assert!(is_numbered(&numbered(name, number), name), "{}", name.display());
            }
            assert!(!is_numbered(name, name));
        }
        for other in
            ["a/scan.02.tif", "b/scan.2.tif", "a/scan.2.png", "a/scan.x.tif", "a/scans.2.tif", "a/2.tif"]
        {
            assert!(!is_numbered(Path::new(other), Path::new("a/scan.tif")), "{other}");
        }
    }

    #[test]
    fn the_last_number_is_found_with_few_checks() {
        for last in [1, 2, 3, 4, 100, 1_000_000] {
            let checks = std::cell::Cell::new(0);
            let found = last_taken(Path::new("a.tif"), |name| {
                checks.set(checks.get() + 1);
                let number = extension(name.file_stem().unwrap().as_ref()).unwrap().parse::<u64>().unwrap();
                number <= last
            });
            assert_eq!(found, last);
            assert!(checks.get() <= 40);
        }
    }
}
