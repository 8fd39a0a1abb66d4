//! What becomes of inputs when they are through: they stay, are removed, are moved, or are set aside with a reason.
//!
//! An input is only touched in the very state that was done. Where somebody replaces it at the last moment, the new file is
//! left in its place: a file is moved first, looked at under its new name, and moved back if it is another.

use std::fs::{self, File, FileTimes, Metadata};
use std::io::{self, BufRead, BufReader};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;

use crate::config::After;
use crate::source::stamp::Stamp;
use crate::source::watch::REMOVING;

/// Does with an input, whose output is published, what the user wants. `below` is its path below the watched folder. `durable`: the
/// output has reached the disk, and whoever wants it may have taken it away by now. Returns whether the input was still the same file.
///
/// # Errors
/// The system's; the input is then where it was.
pub(super) fn settle(
    after: &After,
    input: &Path,
    below: &Path,
    stamp: Stamp,
    output: &Path,
    durable: bool,
) -> io::Result<bool> {
    if *after != After::Keep && !durable {
        make_durable(output)?;
    }
    match after {
        After::Keep => Ok(true),
        After::Delete => remove(input, stamp),
        After::Move(folder) => move_to(input, &name_for(input, &folder.join(below))?, stamp),
    }
}

/// Moves an input that cannot be done below `folder`, and writes the reason beside it.
///
/// # Errors
/// The system's; the input is then where it was.
pub(super) fn set_aside(
    folder: &Path,
    input: &Path,
    below: &Path,
    stamp: Stamp,
    reason: &str,
) -> io::Result<bool> {
    let target = name_for(input, &folder.join(below))?;
    let mut note = target.clone().into_os_string();
    note.push(".reason.txt");
    // Before the file itself, so that no kill leaves it there without its reason.
    match fs::write(&note, format!("{reason}\n")) {
        // A name that has no room for more is moved without.
        Err(error) if error.kind() == io::ErrorKind::InvalidFilename => {}
        written => written.inspect_err(|_| drop(fs::remove_file(&note)))?,
    }
    let moved = move_to(input, &target, stamp);
    if fs::symlink_metadata(&target).is_err() {
        let _ = fs::remove_file(note);
    }
    moved
}

/// The name that an input has which is about to be removed, and has another name meanwhile.
pub(super) fn original(path: &Path) -> Option<PathBuf> {
    let name = path.file_name()?.to_str()?.strip_prefix(REMOVING)?;
    Some(path.with_file_name(name))
}

/// Gives an input back its name that a killed process was about to remove.
///
/// # Errors
/// The system's.
pub(super) fn put_back(path: &Path) -> io::Result<bool> {
    let Some(original) = original(path) else { return Ok(false) };
    match rename_new(path, &original) {
        // A newer file has its place.
        Err(Errno::EXIST) => fs::remove_file(path)?,
        // It has been removed meanwhile.
        Err(Errno::NOENT) => return Ok(false),
        other => other?,
    }
    Ok(true)
}

/// Renames a file unless there is one of the new name.
fn rename_new(from: &Path, to: &Path) -> Result<(), Errno> {
    match renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
        // NFS and other file systems do not know the flag.
        Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => link_new(from, to),
        done => done,
    }
}

/// The same in two steps: a killed process leaves the file with both names.
fn link_new(from: &Path, to: &Path) -> Result<(), Errno> {
    match rustix::fs::link(from, to) {
        Ok(()) => rustix::fs::unlink(from),
        Err(why @ (Errno::EXIST | Errno::XDEV)) => Err(why),
        Err(_) if fs::symlink_metadata(to).is_ok() => Err(Errno::EXIST),
        // No links there either.
        Err(_) => rustix::fs::rename(from, to),
    }
}

fn make_durable(output: &Path) -> io::Result<()> {
    File::open(output)?.sync_all()?;
    File::open(output.parent().unwrap_or(Path::new(".")))?.sync_all()
}

fn remove(input: &Path, stamp: Stamp) -> io::Result<bool> {
    let Some(name) = input.file_name().and_then(|name| name.to_str()) else {
        // A name that cannot be given back after a kill is not changed.
        return Ok(stamp.is_still_of(input) && fs::remove_file(input).is_ok());
    };
    let aside = input.with_file_name(format!("{REMOVING}{name}"));
    match fs::rename(input, &aside) {
        Err(error) if error.kind() == io::ErrorKind::InvalidFilename => {
            return Ok(stamp.is_still_of(input) && fs::remove_file(input).is_ok());
        }
        other => other?,
    }
    if !stamp.is_still_of(&aside) {
        put_back(&aside)?;
        return Ok(false);
    }
    fs::remove_file(aside)?;
    Ok(true)
}

/// Moves an input to a name from [`name_for`]; returns whether it was still the same file.
fn move_to(input: &Path, target: &Path, stamp: Stamp) -> io::Result<bool> {
    if is_copy(input, target) {
        make_durable(target)?;
        return remove(input, stamp);
    }
    if fs::symlink_metadata(input)?.is_symlink() {
        // From elsewhere it might lead nowhere.
        return copy_to(input, target, stamp);
    }
    match rename_new(input, target) {
        Err(Errno::XDEV) => return copy_to(input, target, stamp),
        other => other?,
    }
    if stamp.is_still_of(target) {
        return Ok(true);
    }
    // Where a still newer file has the place by now, this one was replaced by it.
    match rename_new(target, input) {
        Err(Errno::EXIST) => fs::remove_file(target)?,
        other => other?,
    }
    Ok(false)
}

/// To another file system: a whole and durable copy first, of the same time.
fn copy_to(input: &Path, target: &Path, stamp: Stamp) -> io::Result<bool> {
    let folder = target.parent().unwrap_or(Path::new("."));
    let metadata = fs::metadata(input)?;
    // No other input's, and after a kill its own again.
    let partial = folder.join(format!(".histeqd-{:x}-{:x}.part", metadata.dev(), metadata.ino()));
    // Half a copy on a disk that is full would only make it fuller.
    let discard = || drop(fs::remove_file(&partial));
    copy(input, &metadata, &partial).inspect_err(|_| discard())?;
    if !stamp.is_still_of(input) {
        discard();
        return Ok(false);
    }
    rename_new(&partial, target).inspect_err(|_| discard())?;
    File::open(folder)?.sync_all()?;
    remove(input, stamp)
}

fn copy(from: &Path, metadata: &Metadata, to: &Path) -> io::Result<()> {
    fs::copy(from, to)?;
    let copy = File::open(to)?;
    copy.set_times(FileTimes::new().set_accessed(metadata.accessed()?).set_modified(metadata.modified()?))?;
    copy.sync_all()
}

/// The name that an input gets when it is moved: `target`, or the same with a number before the extension where another file has
/// that. A copy that a killed process made of it, and could not remove it afterwards, is no other.
fn name_for(input: &Path, target: &Path) -> io::Result<PathBuf> {
    if let Some(folder) = target.parent() {
        fs::create_dir_all(folder)?;
    }
    let is_taken = |name: &Path| fs::symlink_metadata(name).is_ok();
    if !is_taken(target) || is_copy(input, target) {
        return Ok(target.to_owned());
    }
    // A camera may always use one name: what comes last is found among a million in forty looks.
    let (mut taken, mut free) = (1, 2);
    while is_taken(&numbered(target, free)) {
        (taken, free) = (free, 2 * free);
    }
    while free - taken > 1 {
        let middle = taken.midpoint(free);
        *(if is_taken(&numbered(target, middle)) { &mut taken } else { &mut free }) = middle;
    }
    let last = numbered(target, taken);
    Ok(if taken > 1 && is_copy(input, &last) { last } else { numbered(target, free) })
}

fn numbered(target: &Path, number: u64) -> PathBuf {
    let mut name = target.file_stem().unwrap_or_default().to_owned();
    name.push(format!(".{number}"));
    if let Some(extension) = target.extension() {
        name.push(".");
        name.push(extension);
    }
    target.with_file_name(name)
}

/// Whether a file is what [`copy_to`] makes of the input: another file, of its time and with its bytes.
fn is_copy(input: &Path, copy: &Path) -> bool {
    let (Ok(of_input), Ok(of_copy)) = (fs::metadata(input), fs::symlink_metadata(copy)) else { return false };
    let identity = |metadata: &Metadata| (metadata.dev(), metadata.ino());
    identity(&of_input) != identity(&of_copy)
        && Stamp::of(&of_input, false) == Stamp::of(&of_copy, false)
        && has_same_bytes(input, copy).unwrap_or(false)
}

fn has_same_bytes(one: &Path, other: &Path) -> io::Result<bool> {
    let (mut one, mut other) = (BufReader::new(File::open(one)?), BufReader::new(File::open(other)?));
    loop {
        let (left, right) = (one.fill_buf()?, other.fill_buf()?);
        let count = left.len().min(right.len());
        if count == 0 || left[..count] != right[..count] {
            return Ok(left.is_empty() && right.is_empty());
        }
        one.consume(count);
        other.consume(count);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Case {
        folder: tempfile::TempDir,
        stamp: Stamp,
    }

    impl Case {
        fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            fs::write(folder.path().join("a.png"), "input").unwrap();
            fs::write(folder.path().join("out.png"), "output").unwrap();
            let metadata = fs::metadata(folder.path().join("a.png")).unwrap();
            let stamp = Stamp::of(&metadata, true);
            Self { folder, stamp }
        }

        fn at(&self, name: &str) -> PathBuf {
            self.folder.path().join(name)
        }

        fn settle(&self, after: &After) -> io::Result<bool> {
            self.settle_durable(after, false)
        }

        fn settle_durable(&self, after: &After, durable: bool) -> io::Result<bool> {
            let (input, output) = (self.at("a.png"), self.at("out.png"));
            settle(after, &input, Path::new("sub/a.png"), self.stamp, &output, durable)
        }

        /// What a killed process may have left.
        fn copy(&self, to: &str) {
            copy(&self.at("a.png"), &fs::metadata(self.at("a.png")).unwrap(), &self.at(to)).unwrap();
        }

        fn names(&self) -> Vec<String> {
            let entries = fs::read_dir(self.folder.path()).unwrap();
            let mut names: Vec<_> =
                entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
            names.sort();
            names
        }
    }

    #[test]
    fn an_input_stays_goes_or_moves() {
        let case = Case::new();
        assert!(case.settle(&After::Keep).unwrap());
        assert_eq!(case.names(), ["a.png", "out.png"]);
        assert!(case.settle(&After::Move(case.at("old"))).unwrap());
        assert_eq!(fs::read(case.at("old/sub/a.png")).unwrap(), b"input");
        assert_eq!(case.names(), ["old", "out.png"]);
        let case = Case::new();
        assert!(case.settle(&After::Delete).unwrap());
        assert_eq!(case.names(), ["out.png"]);
    }

    #[test]
    fn an_input_that_is_another_by_now_stays() {
        for after in [After::Delete, After::Move("moved".into())] {
            let case = Case::new();
            fs::write(case.at("a.png"), "another input").unwrap();
            let after = if after == After::Delete { after } else { After::Move(case.at("moved")) };
            assert!(!case.settle(&after).unwrap());
            assert_eq!(fs::read(case.at("a.png")).unwrap(), b"another input");
        }
    }

    #[test]
    fn nothing_is_touched_without_an_output() {
        let case = Case::new();
        fs::remove_file(case.at("out.png")).unwrap();
        assert!(case.settle(&After::Delete).is_err());
        assert_eq!(case.names(), ["a.png"]);
    }

    #[test]
    fn an_output_on_disk_may_be_taken_away_before_its_input_goes() {
        let case = Case::new();
        fs::remove_file(case.at("out.png")).unwrap();
        assert!(case.settle_durable(&After::Delete, true).unwrap());
        assert!(case.names().is_empty());
    }

    #[test]
    fn what_a_link_leads_to_is_moved_whole_and_itself_stays() {
        let case = Case::new();
        fs::create_dir(case.at("in")).unwrap();
        let link = case.at("in/a.png");
        std::os::unix::fs::symlink("../a.png", &link).unwrap();
        let moved = settle(&After::Move(case.at("old")), &link, Path::new("a.png"), case.stamp, &link, true);
        assert!(moved.unwrap());
        assert_eq!(fs::read(case.at("old/a.png")).unwrap(), b"input");
        assert_eq!(fs::read_dir(case.at("in")).unwrap().count(), 0);
        assert_eq!(case.names(), ["a.png", "in", "old", "out.png"]);
    }

    #[test]
    fn without_the_flag_a_rename_replaces_nothing_either() {
        let case = Case::new();
        assert_eq!(link_new(&case.at("a.png"), &case.at("out.png")), Err(Errno::EXIST));
        assert_eq!(fs::read(case.at("out.png")).unwrap(), b"output");
        link_new(&case.at("a.png"), &case.at("b.png")).unwrap();
        assert_eq!(fs::read(case.at("b.png")).unwrap(), b"input");
        // There are no links to folders.
        fs::create_dir(case.at("c")).unwrap();
        assert_eq!(link_new(&case.at("c"), &case.at("b.png")), Err(Errno::EXIST));
        link_new(&case.at("c"), &case.at("d")).unwrap();
        assert_eq!(case.names(), ["b.png", "d", "out.png"]);
    }

    #[test]
    fn a_moved_input_replaces_no_other() {
        let case = Case::new();
        fs::create_dir_all(case.at("old/sub")).unwrap();
        fs::write(case.at("old/sub/a.png"), "an older one").unwrap();
        assert!(case.settle(&After::Move(case.at("old"))).unwrap());
        assert_eq!(fs::read(case.at("old/sub/a.png")).unwrap(), b"an older one");
        assert_eq!(fs::read(case.at("old/sub/a.2.png")).unwrap(), b"input");
    }

    #[test]
    fn what_cannot_be_done_is_set_aside_with_the_reason() {
        let case = Case::new();
        let failed = case.at("failed");
        assert!(
            set_aside(&failed, &case.at("a.png"), Path::new("a.png"), case.stamp, "damaged PNG").unwrap()
        );
        assert_eq!(fs::read(failed.join("a.png")).unwrap(), b"input");
        assert_eq!(fs::read(failed.join("a.png.reason.txt")).unwrap(), b"damaged PNG\n");
        assert_eq!(case.names(), ["failed", "out.png"]);
    }

    #[test]
    fn a_name_without_room_for_a_reason_is_set_aside_all_the_same() {
        let case = Case::new();
        let long = format!("{}.png", "a".repeat(248));
        fs::rename(case.at("a.png"), case.at(&long)).unwrap();
        assert!(
            set_aside(&case.at("failed"), &case.at(&long), Path::new(&long), case.stamp, "damaged").unwrap()
        );
        assert_eq!(fs::read(case.at("failed").join(&long)).unwrap(), b"input");
    }

    #[test]
    fn the_next_failure_of_a_name_has_a_reason_of_its_own() {
        let case = Case::new();
        let failed = case.at("failed");
        fs::create_dir(&failed).unwrap();
        fs::write(failed.join("a.png"), "an older one").unwrap();
        fs::write(failed.join("a.png.reason.txt"), "older\n").unwrap();
        assert!(set_aside(&failed, &case.at("a.png"), Path::new("a.png"), case.stamp, "newer").unwrap());
        assert_eq!(fs::read(failed.join("a.2.png")).unwrap(), b"input");
        assert_eq!(fs::read(failed.join("a.2.png.reason.txt")).unwrap(), b"newer\n");
        assert_eq!(fs::read(failed.join("a.png.reason.txt")).unwrap(), b"older\n");
    }

    #[test]
    fn a_kill_between_the_two_steps_of_a_removal_is_mended() {
        let case = Case::new();
        let aside = case.at(".histeqd-done-a.png");
        fs::rename(case.at("a.png"), &aside).unwrap();
        assert!(put_back(&aside).unwrap());
        assert_eq!(case.names(), ["a.png", "out.png"]);
        fs::write(&aside, "older").unwrap();
        assert!(put_back(&aside).unwrap());
        assert_eq!(fs::read(case.at("a.png")).unwrap(), b"input");
        assert!(!put_back(&case.at("a.png")).unwrap());
    }

    #[test]
    fn a_copy_that_fails_leaves_the_input_and_nothing_else() {
        let case = Case::new();
        // Its first bytes belong to nobody, so that reading fails once the copy is begun.
        fs::remove_file(case.at("a.png")).unwrap();
        std::os::unix::fs::symlink("/proc/self/mem", case.at("a.png")).unwrap();
        assert!(copy_to(&case.at("a.png"), &case.at("b.png"), case.stamp).is_err());
        assert_eq!(case.names(), ["a.png", "out.png"]);
    }

    #[test]
    fn a_copy_to_another_file_system_is_whole_before_the_input_goes() {
        let case = Case::new();
        let time = |name| fs::metadata(case.at(name)).unwrap().modified().unwrap();
        let before = time("a.png");
        assert!(copy_to(&case.at("a.png"), &case.at("b.png"), case.stamp).unwrap());
        assert_eq!(fs::read(case.at("b.png")).unwrap(), b"input");
        assert_eq!(time("b.png"), before);
        assert_eq!(case.names(), ["b.png", "out.png"]);
    }

    #[test]
    fn a_kill_between_a_copy_and_the_removal_leaves_no_second_copy() {
        let case = Case::new();
        fs::create_dir_all(case.at("old/sub")).unwrap();
        case.copy("old/sub/a.png");
        assert!(case.settle(&After::Move(case.at("old"))).unwrap());
        assert_eq!(case.names(), ["old", "out.png"]);
        assert_eq!(fs::read_dir(case.at("old/sub")).unwrap().count(), 1);
    }

    #[test]
    fn a_name_that_comes_again_and_again_gets_the_next_number() {
        let case = Case::new();
        let old = case.at("old");
        fs::create_dir(&old).unwrap();
        for number in 2..40 {
            fs::write(old.join("a.png"), "an older one").unwrap();
            assert_eq!(
                name_for(&case.at("a.png"), &old.join("a.png")).unwrap(),
                numbered(&old.join("a.png"), number)
            );
            fs::write(numbered(&old.join("a.png"), number), "an older one").unwrap();
        }
        case.copy("old/a.40.png");
        assert_eq!(name_for(&case.at("a.png"), &old.join("a.png")).unwrap(), old.join("a.40.png"));
    }

    #[test]
    fn a_copy_takes_no_other_file_s_place_on_its_way() {
        let case = Case::new();
        fs::write(case.at("b.png.part"), "somebody's").unwrap();
        assert!(copy_to(&case.at("a.png"), &case.at("b.png"), case.stamp).unwrap());
        assert_eq!(fs::read(case.at("b.png.part")).unwrap(), b"somebody's");
    }

    #[test]
    fn another_name_of_the_input_is_no_copy_of_it() {
        for link in [fs::hard_link, std::os::unix::fs::symlink::<PathBuf, PathBuf>] {
            let case = Case::new();
            fs::create_dir_all(case.at("old/sub")).unwrap();
            link(case.at("a.png"), case.at("old/sub/a.png")).unwrap();
            assert!(case.settle(&After::Move(case.at("old"))).unwrap());
            assert_eq!(fs::read(case.at("old/sub/a.2.png")).unwrap(), b"input");
        }
    }

    #[test]
    fn a_file_of_the_same_time_and_length_is_still_another() {
        let case = Case::new();
        fs::create_dir_all(case.at("old/sub")).unwrap();
        case.copy("old/sub/a.png");
        fs::write(case.at("old/sub/a.png"), "INPUT").unwrap();
        let time = fs::metadata(case.at("a.png")).unwrap().modified().unwrap();
        File::open(case.at("old/sub/a.png")).unwrap().set_modified(time).unwrap();
        assert!(case.settle(&After::Move(case.at("old"))).unwrap());
        assert_eq!(fs::read(case.at("old/sub/a.png")).unwrap(), b"INPUT");
        assert_eq!(fs::read(case.at("old/sub/a.2.png")).unwrap(), b"input");
    }

    #[test]
    fn a_kill_between_a_reason_and_its_file_leaves_one_reason() {
        let case = Case::new();
        let failed = case.at("failed");
        fs::create_dir(&failed).unwrap();
        fs::write(failed.join("a.png.reason.txt"), "of the killed process\n").unwrap();
        assert!(set_aside(&failed, &case.at("a.png"), Path::new("a.png"), case.stamp, "damaged").unwrap());
        assert_eq!(fs::read(failed.join("a.png.reason.txt")).unwrap(), b"damaged\n");
        assert_eq!(fs::read_dir(&failed).unwrap().count(), 2);
    }

    #[test]
    fn what_is_not_set_aside_leaves_no_reason() {
        let case = Case::new();
        let failed = case.at("failed");
        fs::write(case.at("a.png"), "another input").unwrap();
        assert!(!set_aside(&failed, &case.at("a.png"), Path::new("a.png"), case.stamp, "damaged").unwrap());
        assert_eq!(case.names(), ["a.png", "failed", "out.png"]);
        assert_eq!(fs::read_dir(&failed).unwrap().count(), 0);
    }
}
