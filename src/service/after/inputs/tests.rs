use std::ffi::OsStr;
use std::fs::File;
use std::iter;
use std::os::unix::ffi::OsStrExt;
use std::time::Duration;

use super::*;
use crate::service::after::numbered::MAX_NAME;
use crate::service::watch::notifier::{Notifier, Signal};
use std::os::unix::fs::MetadataExt;

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

    fn dispose(&self, after: &After) -> io::Result<bool> {
        self.settle_durable(after, false)
    }

    fn settle_durable(&self, after: &After, durable: bool) -> io::Result<bool> {
        let (out, output) = (self.at(""), self.at("out.png"));
        let pending = (!durable).then_some((&out, &output));
        dispose(after, self.finished(&self.at("a.png")), Path::new("sub/a.png"), pending)
    }

    /// Returns an input in the state of `a.png`.
    fn finished<'p>(&self, path: &'p Path) -> Finished<'p> {
        Finished { path, stamp: self.stamp, links: Links::Inside }
    }

    fn folder(&self) -> Folder {
        Folder::open(self.folder.path(), Path::new("")).unwrap()
    }

    fn copy_to(&self, name: &str) -> io::Result<bool> {
        self.copy_following(name, Links::Inside)
    }

    fn copy_following(&self, name: &str, links: Links) -> io::Result<bool> {
        copy_to(Finished { links, ..self.finished(&self.at("a.png")) }, &self.folder(), Path::new(name))
    }

    /// Makes a copy of the input as a killed process may have left it.
    fn copy(&self, to: &str) {
        fs::copy(self.at("a.png"), self.at(to)).unwrap();
        let modified = fs::metadata(self.at("a.png")).unwrap().modified().unwrap();
        File::open(self.at(to)).unwrap().set_modified(modified).unwrap();
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
    assert!(case.dispose(&After::Keep).unwrap());
    assert_eq!(case.names(), ["a.png", "out.png"]);
    assert!(case.dispose(&After::Move(case.at("old"))).unwrap());
    assert_eq!(fs::read(case.at("old/sub/a.png")).unwrap(), b"input");
    assert_eq!(case.names(), ["old", "out.png"]);
    let case = Case::new();
    assert!(case.dispose(&After::Delete).unwrap());
    assert_eq!(case.names(), ["out.png"]);
}

#[test]
fn an_input_that_is_another_by_now_stays() {
    for after in [After::Delete, After::Move("moved".into())] {
        let case = Case::new();
        fs::write(case.at("a.png"), "another input").unwrap();
        let after = if after == After::Delete { after } else { After::Move(case.at("moved")) };
        assert!(!case.dispose(&after).unwrap());
        assert_eq!(fs::read(case.at("a.png")).unwrap(), b"another input");
    }
}

#[test]
fn what_is_put_back_comes_from_the_name_that_the_watch_knows() {
    let case = Case::new();
    fs::write(case.at("a.png"), "another input").unwrap();
    let notifier = Notifier::new().unwrap();
    notifier.watch(case.folder.path()).unwrap();
    let back = Signal::Moved { to: case.at("a.png"), from: Some(case.at(".histeqd-done-a.png")) };
    let next = || notifier.signals().recv_timeout(Duration::from_secs(5)).ok();
    for after in [After::Delete, After::Move(case.at("moved"))] {
        assert!(!case.dispose(&after).unwrap());
        assert!(iter::from_fn(next).any(|signal| signal == back), "{after:?}");
    }
    assert_eq!(case.names(), ["a.png", "moved", "out.png"]);
}

#[test]
fn nothing_is_touched_unless_the_output_reaches_the_disk() {
    let case = Case::new();
    let no_output = case.at("out.png/cannot-be-opened");
    let pending = Some((&case.at(""), &no_output));
    let settled = dispose(&After::Delete, case.finished(&case.at("a.png")), Path::new("a.png"), pending);
    assert_eq!(settled.unwrap_err().kind(), io::ErrorKind::NotADirectory);
    assert_eq!(case.names(), ["a.png", "out.png"]);
}

#[test]
fn an_output_may_be_taken_away_before_its_input_goes() {
    for durable in [true, false] {
        let case = Case::new();
        fs::remove_file(case.at("out.png")).unwrap();
        assert!(case.settle_durable(&After::Delete, durable).unwrap());
        assert!(case.names().is_empty());
    }
}

#[test]
fn what_a_link_leads_to_is_moved_whole_and_itself_stays() {
    let case = Case::new();
    fs::create_dir(case.at("in")).unwrap();
    let link = case.at("in/a.png");
    std::os::unix::fs::symlink("../a.png", &link).unwrap();
    let input = Finished { links: Links::Follow, ..case.finished(&link) };
    assert!(dispose(&After::Move(case.at("old")), input, Path::new("a.png"), None).unwrap());
    assert_eq!(fs::read(case.at("old/a.png")).unwrap(), b"input");
    assert!(!case.at("old/a.png").is_symlink());
    assert_eq!(fs::read_dir(case.at("in")).unwrap().count(), 0);
    assert_eq!(case.names(), ["a.png", "in", "old", "out.png"]);
}

#[test]
fn a_link_is_moved_as_one_where_not_all_are_followed() {
    for links in [Links::Inside, Links::Never] {
        let case = Case::new();
        fs::create_dir(case.at("in")).unwrap();
        let link = case.at("in/a.png");
        std::os::unix::fs::symlink("../a.png", &link).unwrap();
        let input = Finished { links, ..case.finished(&link) };
        assert!(set_aside(&case.at("failed"), input, Path::new("sub/a.png"), "damaged").unwrap());
        let moved = case.at("failed/sub/a.png");
        assert!(moved.is_symlink() && !link.is_symlink());
        assert_eq!(
            moved.canonicalize().unwrap(),
            case.at("a.png").canonicalize().unwrap(),
            "it leads there still"
        );
        std::os::unix::fs::symlink("../a.png", &link).unwrap();
        assert!(dispose(&After::Move(case.at("failed")), input, Path::new("sub/a.png"), None).unwrap());
        assert!(case.at("failed/sub/a.2.png").is_symlink(), "nothing is replaced");
    }
}

#[test]
fn a_link_that_took_the_place_of_an_input_is_not_copied() {
    let case = Case::new();
    fs::rename(case.at("a.png"), case.at("secret")).unwrap();
    std::os::unix::fs::symlink("secret", case.at("a.png")).unwrap();
    assert!(case.copy_to("b.png").is_err());
    assert_eq!(case.names(), ["a.png", "out.png", "secret"]);
}

#[test]
fn an_input_that_is_another_by_now_stays_whatever_its_name() {
    // Neither name has a temporary one to move the file aside with: one has no room for it, and the
    // other is not UTF-8.
    for name in [OsStr::from_bytes(&[b'a'; MAX_NAME]), OsStr::from_bytes(b"caf\xe9.png")] {
        let case = Case::new();
        let input = case.folder.path().join(name);
        fs::write(&input, "another input").unwrap();
        let gone = dispose(&After::Delete, case.finished(&input), Path::new(name), None);
        assert!(!gone.unwrap());
        assert_eq!(fs::read(&input).unwrap(), b"another input");
        let stamp = Stamp::of(&fs::metadata(&input).unwrap(), true);
        assert!(
            dispose(&After::Delete, Finished { stamp, ..case.finished(&input) }, Path::new(name), None)
                .unwrap()
        );
        assert!(!input.exists());
    }
}

#[test]
fn what_changed_while_it_was_copied_is_not_put_away() {
    let case = Case::new();
    // The target of a link is copied, as between file systems.
    fs::rename(case.at("a.png"), case.at("b.png")).unwrap();
    std::os::unix::fs::symlink("b.png", case.at("a.png")).unwrap();
    fs::write(case.at("b.png"), "another input").unwrap();
    let input = case.at("a.png");
    let input = Finished { links: Links::Follow, ..case.finished(&input) };
    assert!(!dispose(&After::Move(case.at("old")), input, Path::new("sub/a.png"), None).unwrap());
    assert_eq!(fs::read_dir(case.at("old/sub")).unwrap().count(), 0);
    assert_eq!(fs::read(case.at("a.png")).unwrap(), b"another input");
}

#[test]
fn a_moved_input_replaces_no_other() {
    let case = Case::new();
    fs::create_dir_all(case.at("old/sub")).unwrap();
    fs::write(case.at("old/sub/a.png"), "an older one").unwrap();
    assert!(case.dispose(&After::Move(case.at("old"))).unwrap());
    assert_eq!(fs::read(case.at("old/sub/a.png")).unwrap(), b"an older one");
    assert_eq!(fs::read(case.at("old/sub/a.2.png")).unwrap(), b"input");
}

#[test]
fn what_cannot_be_done_is_set_aside_with_the_reason() {
    let case = Case::new();
    let failed = case.at("failed");
    assert!(set_aside(&failed, case.finished(&case.at("a.png")), Path::new("a.png"), "damaged PNG").unwrap());
    assert_eq!(fs::read(failed.join("a.png")).unwrap(), b"input");
    assert_eq!(fs::read(failed.join("a.png.reason.txt")).unwrap(), b"damaged PNG\n");
    assert_eq!(case.names(), ["failed", "out.png"]);
}

#[test]
fn a_name_without_room_for_a_reason_has_it_under_a_shorter_one() {
    let case = Case::new();
    let long = format!("{}.png", "a".repeat(248));
    fs::rename(case.at("a.png"), case.at(&long)).unwrap();
    assert!(
        set_aside(&case.at("failed"), case.finished(&case.at(&long)), Path::new(&long), "damaged").unwrap()
    );
    assert_eq!(fs::read(case.at("failed").join(&long)).unwrap(), b"input");
    let short = format!("{}{NOTE_SUFFIX}", "a".repeat(MAX_NAME - NOTE_SUFFIX.len()));
    assert_eq!(fs::read(case.at("failed").join(short)).unwrap(), b"damaged\n");
}

#[test]
fn the_next_failure_of_a_name_has_a_reason_of_its_own() {
    let case = Case::new();
    let failed = case.at("failed");
    fs::create_dir(&failed).unwrap();
    fs::write(failed.join("a.png"), "an older one").unwrap();
    fs::write(failed.join("a.png.reason.txt"), "older\n").unwrap();
    assert!(set_aside(&failed, case.finished(&case.at("a.png")), Path::new("a.png"), "newer").unwrap());
    assert_eq!(fs::read(failed.join("a.2.png")).unwrap(), b"input");
    assert_eq!(fs::read(failed.join("a.2.png.reason.txt")).unwrap(), b"newer\n");
    assert_eq!(fs::read(failed.join("a.png.reason.txt")).unwrap(), b"older\n");
}

#[test]
fn a_reason_replaces_no_file_that_has_its_name() {
    let case = Case::new();
    let failed = case.at("failed");
    fs::create_dir(&failed).unwrap();
    fs::write(failed.join("a.png.reason.txt"), "a picture").unwrap();
    assert!(set_aside(&failed, case.finished(&case.at("a.png")), Path::new("a.png"), "damaged").unwrap());
    assert_eq!(fs::read(failed.join("a.png.reason.txt")).unwrap(), b"a picture");
    assert_eq!(fs::read(failed.join("a.2.png")).unwrap(), b"input");
    assert_eq!(fs::read(failed.join("a.2.png.reason.txt")).unwrap(), b"damaged\n");
    // A file may still appear under that name at the last moment.
    let folder = Folder::open(&failed, Path::new("")).unwrap();
    assert!(!write_note(&folder, Path::new("a.png.reason.txt"), "damaged\n").unwrap());
    assert_eq!(fs::read(failed.join("a.png.reason.txt")).unwrap(), b"a picture");
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
    let mut case = Case::new();
    // Address 0 is not mapped, and reading therefore fails after the copy has begun.
    fs::remove_file(case.at("a.png")).unwrap();
    std::os::unix::fs::symlink("/proc/self/mem", case.at("a.png")).unwrap();
    case.stamp = Stamp::of(&fs::metadata(case.at("a.png")).unwrap(), false);
    assert!(case.copy_following("b.png", Links::Follow).is_err());
    assert_eq!(case.names(), ["a.png", "out.png"]);
}

#[test]
fn a_copy_to_another_file_system_is_whole_before_the_input_goes() {
    let case = Case::new();
    let time = |name| fs::metadata(case.at(name)).unwrap().modified().unwrap();
    let before = time("a.png");
    assert!(case.copy_to("b.png").unwrap());
    assert_eq!(fs::read(case.at("b.png")).unwrap(), b"input");
    assert_eq!(time("b.png"), before);
    assert_eq!(case.names(), ["b.png", "out.png"]);
}

#[test]
fn a_kill_between_a_copy_and_the_removal_leaves_no_second_copy() {
    let case = Case::new();
    fs::create_dir_all(case.at("old/sub")).unwrap();
    case.copy("old/sub/a.png");
    assert!(case.dispose(&After::Move(case.at("old"))).unwrap());
    assert_eq!(case.names(), ["old", "out.png"]);
    assert_eq!(fs::read_dir(case.at("old/sub")).unwrap().count(), 1);
}

#[test]
fn a_name_that_comes_again_and_again_gets_the_next_number() {
    let case = Case::new();
    let old = case.at("old");
    fs::create_dir(&old).unwrap();
    fs::write(old.join("a.png"), "an older one").unwrap();
    let folder = Folder::open(&old, Path::new("")).unwrap();
    let name =
        || name_for(case.finished(&case.at("a.png")), &folder, Path::new("a.png"), |name| folder.has(name));
    for number in 2..40 {
        let next = name();
        assert_eq!(next, numbered(Path::new("a.png"), number));
        fs::write(old.join(next), "an older one").unwrap();
    }
    case.copy("old/a.40.png");
    assert_eq!(name(), Path::new("a.40.png"));
}

#[test]
fn a_copy_takes_no_other_file_s_place_on_its_way() {
    let case = Case::new();
    let metadata = fs::metadata(case.at("a.png")).unwrap();
    let others = format!(".histeqd-{}-{}.tmp", std::process::id(), metadata.ino());
    fs::write(case.at(&others), "somebody's").unwrap();
    assert!(case.copy_to("b.png").unwrap());
    assert_eq!(fs::read(case.at(&others)).unwrap(), b"somebody's");
}

#[test]
fn a_link_to_the_input_is_no_copy_of_it() {
    let case = Case::new();
    fs::create_dir_all(case.at("old/sub")).unwrap();
    std::os::unix::fs::symlink(case.at("a.png"), case.at("old/sub/a.png")).unwrap();
    assert!(case.dispose(&After::Move(case.at("old"))).unwrap());
    assert_eq!(fs::read(case.at("old/sub/a.2.png")).unwrap(), b"input");
}

#[test]
fn an_input_that_has_its_new_name_already_only_loses_the_old_one() {
    let case = Case::new();
    fs::create_dir_all(case.at("old/sub")).unwrap();
    fs::hard_link(case.at("a.png"), case.at("old/sub/a.png")).unwrap();
    assert!(case.dispose(&After::Move(case.at("old"))).unwrap());
    assert_eq!(fs::read(case.at("old/sub/a.png")).unwrap(), b"input");
    assert!(!case.at("a.png").exists() && !case.at("old/sub/a.2.png").exists());
}

#[test]
fn a_file_of_the_same_time_and_length_is_still_another() {
    let case = Case::new();
    fs::create_dir_all(case.at("old/sub")).unwrap();
    case.copy("old/sub/a.png");
    fs::write(case.at("old/sub/a.png"), "INPUT").unwrap();
    let time = fs::metadata(case.at("a.png")).unwrap().modified().unwrap();
    File::open(case.at("old/sub/a.png")).unwrap().set_modified(time).unwrap();
    assert!(case.dispose(&After::Move(case.at("old"))).unwrap());
    assert_eq!(fs::read(case.at("old/sub/a.png")).unwrap(), b"INPUT");
    assert_eq!(fs::read(case.at("old/sub/a.2.png")).unwrap(), b"input");
}

#[test]
fn a_kill_between_a_reason_and_its_file_leaves_one_reason() {
    let case = Case::new();
    let failed = case.at("failed");
    fs::create_dir(&failed).unwrap();
    fs::write(failed.join("a.png.reason.txt"), "damaged\n").unwrap();
    assert!(set_aside(&failed, case.finished(&case.at("a.png")), Path::new("a.png"), "damaged").unwrap());
    assert_eq!(fs::read(failed.join("a.png.reason.txt")).unwrap(), b"damaged\n");
    assert_eq!(fs::read_dir(&failed).unwrap().count(), 2);
}

#[test]
fn what_is_not_set_aside_leaves_no_reason() {
    let case = Case::new();
    let failed = case.at("failed");
    fs::write(case.at("a.png"), "another input").unwrap();
    assert!(!set_aside(&failed, case.finished(&case.at("a.png")), Path::new("a.png"), "damaged").unwrap());
    assert_eq!(case.names(), ["a.png", "failed", "out.png"]);
    assert_eq!(fs::read_dir(&failed).unwrap().count(), 0);
}

#[test]
fn a_number_finds_room_in_the_longest_name() {
    let numbered = |name: &str| numbered(Path::new(name), 12).to_str().unwrap().to_owned();
    assert_eq!(numbered("old/a.tar.gz"), "old/a.tar.12.gz");
    assert_eq!(numbered("old/a"), "old/a.12");
    assert_eq!(numbered(&format!("{}.png", "a".repeat(251))), format!("{}.12.png", "a".repeat(248)));
    assert_eq!(numbered(&format!("{}.png", "é".repeat(125))), format!("{}.12.png", "é".repeat(124)));
}

#[test]
fn a_pipe_in_the_place_of_an_input_is_neither_read_nor_put_away() {
    let case = Case::new();
    fs::remove_file(case.at("a.png")).unwrap();
    rustix::fs::mknodat(CWD, case.at("a.png"), rustix::fs::FileType::Fifo, rustix::fs::Mode::RWXU, 0)
        .unwrap();
    assert!(!case.copy_following("b.png", Links::Follow).unwrap());
    assert!(case.copy_to("b.png").unwrap_err().to_string().contains("a pipe"));
    assert!(!case.dispose(&After::Move(case.at("old"))).unwrap());
    assert_eq!(case.names(), ["a.png", "old", "out.png"]);
    assert_eq!(fs::read_dir(case.at("old/sub")).unwrap().count(), 0);
}

#[test]
fn no_input_goes_before_an_output_that_is_a_link_or_a_pipe() {
    for make in [
        |path: &Path| std::os::unix::fs::symlink("a.png", path).unwrap(),
        |path: &Path| {
            rustix::fs::mknodat(CWD, path, rustix::fs::FileType::Fifo, rustix::fs::Mode::RWXU, 0).unwrap();
        },
    ] {
        let case = Case::new();
        fs::remove_file(case.at("out.png")).unwrap();
        make(&case.at("out.png"));
        let why = case.dispose(&After::Delete).unwrap_err().to_string();
        assert!(why.ends_with(" and not a regular file; move it away"), "{why}");
        assert_eq!(case.names(), ["a.png", "out.png"]);
    }
}
