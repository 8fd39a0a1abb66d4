use super::listing::ENTRIES_A_TURN;
use super::notifier::NotWatched;
use super::root::WITHOUT_WATCHES;
use super::*;
use crate::service::watch::settle::{Counts, Ending, Ready};
use rustix::thread::{CapabilitySet, capabilities, set_capabilities};
use std::collections::HashSet;
use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::thread;

impl Watch {
    /// Returns whether no listing is in progress or waiting.
    fn is_listed(&self) -> bool {
        self.walks.is_empty() && self.roots.iter().all(|root| !root.listing)
    }
}

const REST: Duration = Duration::from_millis(50);

struct Case {
    folder: tempfile::TempDir,
    watch: Watch,
}

fn options(excluded: &[PathBuf]) -> Options {
    Options {
        selection: Selection::new(&[], &["no*".into()], Links::Inside).unwrap(),
        roots: InputRoots::default(),
        excluded: excluded.to_vec(),
        rescan: Duration::from_secs(3600),
        poll: None,
    }
}

impl Case {
    fn new() -> Self {
        Self::with(|inbox| options(&[inbox.join("out")]))
    }

    fn with(options: impl FnOnce(&Path) -> Options) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let inbox = folder.path().join("in");
        fs::create_dir(&inbox).unwrap();
        let watch = Watch::start(vec![inbox.clone()], options(&inbox), REST, Instant::now());
        Self { folder, watch }
    }

    fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join("in").join(name)
    }

    fn write(&self, name: &str) {
        fs::create_dir_all(self.at(name).parent().unwrap()).unwrap();
        fs::write(self.at(name), name).unwrap();
    }

    fn turn(&mut self) {
        self.turn_knowing(&mut |_, _, _| false);
    }

    fn turn_knowing(&mut self, known: Known<'_>) {
        self.watch.turn(None, known, Instant::now());
    }

    /// Takes turns for long enough that files come to rest and become ready.
    fn run(&mut self) {
        let mut turns = 0;
        let until = Instant::now() + REST * 4;
        // On a busy machine, time may pass without turns.
        while Instant::now() < until || turns < 50 {
            self.turn();
            turns += 1;
            thread::sleep(Duration::from_millis(2));
        }
    }

    fn ready(&mut self) -> Vec<Ready> {
        self.run();
        let mut ready: Vec<_> = std::iter::from_fn(|| self.watch.take()).collect();
        ready.sort_by(|a, b| a.path.cmp(&b.path));
        ready
    }

    /// Takes all files that are ready, ends their jobs as done, and returns their names.
    fn done(&mut self) -> Vec<String> {
        let ready = self.ready();
        ready
            .into_iter()
            .map(|ready| {
                self.watch.finish(&ready.path, Ending::Good);
                self.watch.below(&ready.path).unwrap().to_str().unwrap().to_owned()
            })
            .collect()
    }
}

#[test]
fn what_is_there_at_the_start_is_found_whole() {
    let mut case = Case::new();
    for name in ["a.png", "b/c/d.png", ".hidden/e.png", ".f.png", "no.png", "nope/g.png", "out/h.png"] {
        case.write(name);
    }
    assert_eq!(case.done(), ["a.png", "b/c/d.png"]);
    assert!(case.watch.is_listed());
    assert_eq!(case.done(), [""; 0]);
}

#[test]
fn what_comes_later_is_found_wherever_it_is_put() {
    let mut case = Case::new();
    case.run();
    case.write("a.png");
    case.write("b/c.png");
    case.write(".hidden.png");
    fs::write(case.folder.path().join("elsewhere"), "x").unwrap();
    fs::rename(case.folder.path().join("elsewhere"), case.at("moved.png")).unwrap();
    assert_eq!(case.done(), ["a.png", "b/c.png", "moved.png"]);
    case.write("b/d.png");
    assert_eq!(case.done(), ["b/d.png"]);
}

#[test]
fn whole_folders_can_be_moved_in_about_and_out() {
    let mut case = Case::new();
    case.run();
    let outside = case.folder.path().join("outside");
    fs::create_dir_all(outside.join("deep")).unwrap();
    fs::write(outside.join("deep/a.png"), "x").unwrap();
    fs::rename(&outside, case.at("one")).unwrap();
    assert_eq!(case.done(), ["one/deep/a.png"]);
    fs::rename(case.at("one"), case.at("two")).unwrap();
    assert_eq!(case.done(), ["two/deep/a.png"]);
    case.write("two/deep/b.png");
    assert_eq!(case.done(), ["two/deep/b.png"]);
    fs::rename(case.at("two"), &outside).unwrap();
    case.run();
    fs::write(outside.join("deep/c.png"), "x").unwrap();
    assert_eq!(case.done(), [""; 0]);
    fs::rename(&outside, case.at("one")).unwrap();
    assert_eq!(case.done(), ["one/deep/a.png", "one/deep/b.png", "one/deep/c.png"]);
}

#[test]
fn a_file_is_left_alone_while_its_writer_has_it_open() {
    let mut case = Case::new();
    case.run();
    let mut writer = OpenOptions::new().create_new(true).write(true).open(case.at("slow.png")).unwrap();
    for _ in 0..3 {
        writer.write_all(b"x").unwrap();
        assert_eq!(case.done(), [""; 0]);
    }
    assert_eq!(case.watch.settle.counts(), Counts { incomplete: 1, ..Counts::default() });
    drop(writer);
    let ready = case.ready();
    assert_eq!((ready.len(), ready[0].stamp.size), (1, 3));
}

#[test]
fn links_are_files_and_are_never_opened_to_be_made() {
    let mut case = Case::new();
    case.run();
    fs::write(case.folder.path().join("target"), "x").unwrap();
    std::os::unix::fs::symlink(case.folder.path().join("target"), case.at("soft.png")).unwrap();
    fs::hard_link(case.folder.path().join("target"), case.at("hard.png")).unwrap();
    assert_eq!(case.done(), ["hard.png", "soft.png"]);
    // The steps of an SFTP server for a rename.
    fs::write(case.folder.path().join("upload"), "x").unwrap();
    fs::hard_link(case.folder.path().join("upload"), case.at("sent.png")).unwrap();
    fs::remove_file(case.folder.path().join("upload")).unwrap();
    assert_eq!(case.done(), ["sent.png"]);
}

#[test]
fn a_link_to_a_folder_is_followed_whenever_it_is_made() {
    let follow = || Options { selection: Selection::new(&[], &[], Links::Follow).unwrap(), ..options(&[]) };
    let mut case = Case::with(|_| follow());
    case.run();
    let outside = case.folder.path().join("outside");
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("a.png"), "x").unwrap();
    std::os::unix::fs::symlink(&outside, case.at("link")).unwrap();
    assert_eq!(case.done(), ["link/a.png"]);
}

#[test]
fn a_link_that_leads_out_is_left_out_and_said_to_be() {
    for (links, done) in
        [(Links::Inside, &["a.png", "near/a.png", "near.png"][..]), (Links::Never, &["a.png"])]
    {
        let mut case = Case::with(|inbox| Options {
            selection: Selection::new(&[], &[], links).unwrap(),
            roots: InputRoots::within(vec![inbox.to_owned()]),
            ..options(&[])
        });
        let outside = case.folder.path().join("outside");
        fs::create_dir(&outside).unwrap();
        fs::write(outside.join("b.png"), "x").unwrap();
        let link = |target: &Path, name: &str| std::os::unix::fs::symlink(target, case.at(name)).unwrap();
        link(&outside, "out");
        link(&outside.join("b.png"), "out.png");
        case.write("sub/a.png");
        assert_eq!(case.done(), ["sub/a.png"]);
        case.write("a.png");
        let link = |target: &str, name: &str| std::os::unix::fs::symlink(target, case.at(name)).unwrap();
        link("a.png", "near.png");
        link("sub", "near");
        link("../outside/b.png", "late.png");
        assert_eq!(case.done(), done, "{links:?}");
        let notes = std::mem::take(&mut case.watch.notes);
        let told = |note: &&Note| matches!(note, Note::Info(text) if text.contains("--links follow"));
        assert_eq!(notes.iter().filter(told).count(), 1, "{notes:?}");
    }
}

#[test]
fn a_link_that_leads_back_into_itself_is_not_followed_wherever_it_comes_from() {
    let follow = || Options { selection: Selection::new(&[], &[], Links::Follow).unwrap(), ..options(&[]) };
    let mut case = Case::with(|_| follow());
    case.write("a.png");
    case.run();
    let outside = case.folder.path().join("outside");
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("b.png"), "x").unwrap();
    std::os::unix::fs::symlink("..", outside.join("up")).unwrap();
    fs::rename(&outside, case.at("d")).unwrap();
    assert_eq!(case.done(), ["a.png", "d/b.png"]);
    case.write("c.png");
    assert_eq!(case.done(), ["c.png"]);
}

#[test]
fn a_file_that_changes_or_goes_is_noticed() {
    let mut case = Case::new();
    case.write("a.png");
    assert_eq!(case.done(), ["a.png"]);
    fs::write(case.at("a.png"), "longer than before").unwrap();
    assert_eq!(case.done(), ["a.png"]);
    let open = OpenOptions::new().write(true).create_new(true).open(case.at("b.png")).unwrap();
    case.run();
    fs::remove_file(case.at("b.png")).unwrap();
    drop(open);
    assert_eq!(case.done(), [""; 0]);
    assert_eq!(case.watch.settle.counts(), Counts::default());
}

#[test]
fn other_options_count_for_folders_that_are_watched_already() {
    let mut case = Case::with(|_| options(&[]));
    case.write("archive/a.png");
    case.write("b/a.png");
    assert_eq!(case.done(), ["archive/a.png", "b/a.png"]);
    let selection = Selection::new(&[], &["b".into()], Links::Inside).unwrap();
    let options = Options { selection, ..options(&[case.at("archive")]) };
    case.watch.reconfigure(options, REST);
    case.run();
    for name in ["archive/b.png", "archive/archive/c.png", "b/c.png", "b/d/e.png", "f.png"] {
        case.write(name);
    }
    assert_eq!(case.done(), ["f.png"]);
}

#[test]
fn known_files_are_not_taken_from_a_listing() {
    let mut case = Case::new();
    case.write("a.png");
    case.write("b.png");
    let known = case.at("a.png");
    for _ in 0..3 {
        case.turn_knowing(&mut |path, _, _| path == known);
    }
    assert_eq!(case.done(), ["b.png"]);
}

#[test]
fn a_watched_folder_may_go_and_come_back() {
    let mut case = Case::new();
    case.turn();
    assert_eq!([false, true].map(|inputs_go| case.watch.may_be_unmounted(inputs_go).len()), [1, 0]);
    case.write("a.png");
    assert_eq!(case.done(), ["a.png"]);
    let away = case.folder.path().join("away");
    fs::rename(case.folder.path().join("in"), &away).unwrap();
    case.watch.list_all();
    case.run();
    assert_eq!((case.watch.missing().count(), case.watch.may_be_unmounted(true).len()), (1, 1));
    assert!(
        std::mem::take(&mut case.watch.notes)
            .iter()
            .any(|note| matches!(note, Note::Warning(why) if why.contains("is gone")))
    );
    fs::write(away.join("b.png"), "x").unwrap();
    fs::rename(&away, case.folder.path().join("in")).unwrap();
    case.watch.list_all();
    assert_eq!(case.done(), ["a.png", "b.png"]);
    assert_eq!(case.watch.missing().count(), 0);
    case.write("c.png");
    assert_eq!(case.done(), ["c.png"]);
}

/// Some file systems give a new folder the inode number of the one that was removed.
#[test]
fn a_watched_folder_that_went_is_another_when_it_is_back() {
    let mut case = Case::new();
    case.run();
    let before = case.watch.roots[0].identity;
    assert!(before.is_some());
    let (signals, inbox) = (case.watch.signals().clone(), case.at(""));
    fs::remove_dir(&inbox).unwrap();
    let gone = signals.recv_timeout(Duration::from_secs(5)).unwrap();
    assert!(matches!(gone, Signal::Gone(_)), "{gone:?}");
    case.watch.turn(Some(gone), &mut |_, _, _| false, Instant::now());
    assert_ne!(case.watch.roots[0].identity, before);
}

#[test]
fn lost_messages_lead_to_a_listing() {
    let mut case = Case::new();
    case.run();
    for number in 0..WAITING_AND_MORE {
        fs::write(case.at(&format!("{number}.png")), "x").unwrap();
    }
    let mut found: HashSet<String> = case.done().into_iter().collect();
    while !case.watch.is_listed() || case.watch.settle.counts() != Counts::default() {
        found.extend(case.done());
    }
    assert_eq!(found.len(), WAITING_AND_MORE);
}

/// A number of files with more messages, three for each, than any queue holds.
const WAITING_AND_MORE: usize = 12_000;

#[test]
fn a_watched_folder_may_be_a_link() {
    let mut case = Case::new();
    fs::rename(case.at(""), case.folder.path().join("real")).unwrap();
    std::os::unix::fs::symlink("real", case.folder.path().join("in")).unwrap();
    case.run();
    case.write("a.png");
    assert_eq!(case.done(), ["a.png"]);
}

#[test]
fn polling_needs_no_messages() {
    let mut case = Case::with(|_| Options { poll: Some(Duration::from_millis(20)), ..options(&[]) });
    case.run();
    case.write("a/b.png");
    case.watch.list_all();
    assert_eq!(case.done(), ["a/b.png"]);
}

#[test]
fn what_is_put_back_because_it_changed_has_to_rest() {
    let mut case = Case::new();
    case.write("a.png");
    assert_eq!(case.done(), ["a.png"]);
    fs::rename(case.at("a.png"), case.at(".histeqd-done-a.png")).unwrap();
    fs::write(case.at(".histeqd-done-a.png"), "half of another").unwrap();
    fs::rename(case.at(".histeqd-done-a.png"), case.at("a.png")).unwrap();
    while case.watch.settle.counts() == Counts::default() {
        case.turn();
    }
    assert_eq!(case.watch.settle.counts(), Counts { incomplete: 1, ..Counts::default() });
    assert_eq!(case.done(), ["a.png"]);
}

#[test]
fn leftovers_of_a_removal_are_named_and_not_taken() {
    let mut case = Case::new();
    case.write(".histeqd-done-a.png");
    assert_eq!(case.done(), [""; 0]);
    assert_eq!(case.watch.take_leftovers(), [case.at(".histeqd-done-a.png")]);
}

#[test]
fn a_folder_that_may_not_be_read_is_tried_again_soon_and_alone() {
    let mut case = Case::new();
    case.write("deep/a.png");
    case.write("b.png");
    assert_eq!(case.done(), ["b.png", "deep/a.png"]);
    let (begin, deep) = (Instant::now(), case.at("deep"));
    case.watch.roots[0].met_denial(&deep, begin);
    let waiting = |case: &mut Case, at| {
        case.watch.check(at);
        case.watch.walks.iter().map(|walk| walk.folder.clone()).collect::<Vec<_>>()
    };
    assert_eq!(waiting(&mut case, begin + WITHOUT_WATCHES - CHECK), [""; 0].map(PathBuf::from));
    assert_eq!(waiting(&mut case, begin + WITHOUT_WATCHES), [deep]);
}

#[test]
fn a_watched_folder_that_cannot_be_listed_is_missing() {
    let mut case = Case::new();
    let root = &mut case.watch.roots[0];
    root.met_closed(&root.path.clone());
    assert!(case.watch.missing().any(|folder| folder == case.watch.roots[0].path));
}

#[test]
fn folders_without_a_watch_are_listed_soon_and_until_they_have_one() {
    let mut case = Case::new();
    case.write("a.png");
    assert_eq!(case.done(), ["a.png"]);
    let (begin, seconds) = (Instant::now(), Duration::from_secs);
    let limit = NotWatched::Limit;
    case.watch.not_watched(&case.at("deep"), 0, &limit, begin);
    case.watch.not_watched(&case.at("deeper"), 0, &limit, begin);
    let listed_at = |case: &mut Case, at| {
        case.watch.check(begin + seconds(at));
        let is_listed = !case.watch.is_listed();
        while !case.watch.is_listed() {
            case.watch.walk(&mut |_, _, _| false, begin + seconds(at));
        }
        is_listed
    };
    let notes = std::mem::take(&mut case.watch.notes);
    let about_limit = |note: &&Note| matches!(note, Note::Warning(why) if why.contains("max_user_watches"));
    assert_eq!(notes.iter().filter(about_limit).count(), 1, "{notes:?}");
    assert_eq!(
        [29, 30, 59, 60, 89, 3659, 3660].map(|at| listed_at(&mut case, at)),
        [false, true, false, true, false, false, true]
    );
    let again = format!("all folders in {} are watched again", case.at("").display());
    assert_eq!(std::mem::take(&mut case.watch.notes), [Note::Info(again.replace("/ ", " "))]);
}

/// Makes file permissions apply to this thread, whoever runs it.
fn without_privileges() {
    let mut sets = capabilities(None).unwrap();
    sets.effective -= CapabilitySet::DAC_OVERRIDE | CapabilitySet::DAC_READ_SEARCH;
    set_capabilities(None, sets).unwrap();
}

#[test]
fn a_folder_that_cannot_be_listed_is_named_once_until_it_can_be() {
    without_privileges();
    let mut case = Case::new();
    let closed = case.at("lost\nfound");
    case.write("lost\nfound/a.png");
    let allow = |mode| fs::set_permissions(&closed, fs::Permissions::from_mode(mode)).unwrap();
    let list = |case: &mut Case| {
        case.watch.list_all();
        case.run();
        let notes = std::mem::take(&mut case.watch.notes).into_iter();
        let troubles = notes.filter_map(|note| if let Note::Warning(why) = note { Some(why) } else { None });
        troubles.collect::<Vec<_>>()
    };
    let named = format!("not listed: {}: Permission denied (os error 13)", Shown(&closed));
    assert!(named.contains("/lost\\nfound\": "), "{named}");
    allow(0o000);
    assert_eq!(list(&mut case).concat(), named);
    assert_eq!(list(&mut case), [""; 0]);
    allow(0o700);
    assert_eq!(list(&mut case), [""; 0]);
    assert_eq!(case.done(), ["lost\nfound/a.png"]);
    allow(0o000);
    assert_eq!(list(&mut case), [named]);
    allow(0o700);
}

#[test]
fn a_folder_that_could_not_be_listed_for_any_cause_is_listed_again() {
    let mut case = Case::new();
    case.run();
    let now = Instant::now();
    // The error of a listing with another cause than a lack of rights: its name is too long.
    let error = walkdir::WalkDir::new(case.at(&"n".repeat(300))).into_iter().next().unwrap().unwrap_err();
    let root = case.watch.roots[0].path.clone();
    case.watch.not_listed(&error, &Walk { root: 0, folder: root.clone(), entries: None }, now);
    assert!(case.watch.roots[0].denied_until(now).is_empty());
    let later = now + Duration::from_secs(30);
    assert_eq!(case.watch.roots[0].denied_until(later), [case.at(&"n".repeat(300))]);
    // The folder itself is listed with its contents.
    case.watch.roots[0].met_closed(&root);
    case.watch.roots[0].met_denial(&root, now);
    case.write("a.png");
    case.watch.turn(None, &mut |_, _, _| false, later);
    case.run();
    assert!(!case.watch.roots[0].is_closed() && case.done() == ["a.png"]);
}

#[test]
fn a_folder_that_is_renamed_to_and_fro_is_listed_once_more() {
    let mut case = Case::new();
    for number in 0..=ENTRIES_A_TURN {
        case.write(&format!("a/{number}.png"));
    }
    case.write("a/b/c.png");
    assert_eq!(case.done().len(), ENTRIES_A_TURN + 2);
    let rename = |case: &mut Case| {
        for _ in 0..100 {
            case.watch.enter(case.at("a"));
            case.watch.enter(case.at("a/b"));
        }
        case.watch.walks.len()
    };
    assert_eq!(rename(&mut case), 1);
    case.turn();
    assert_eq!(rename(&mut case), 2, "one is under way, and may have passed what was renamed");
    case.watch.list_all();
    case.turn();
    case.watch.enter(case.at("d"));
    assert_eq!(case.watch.walks.iter().filter(|walk| walk.folder == case.at("")).count(), 1);
    assert!(!case.watch.walks.iter().any(|walk| walk.folder == case.at("d")));
    case.run();
    assert!(case.watch.is_listed() && case.watch.roots[0].waiting.is_empty());
}

#[test]
fn what_was_put_back_is_remembered_until_it_is_gone_or_touched() {
    let mut case = Case::new();
    let [gone, touched, left, last] = ["gone", "touched", "left", "last"].map(|name| case.at(name));
    for input in [&gone, &touched, &left, &last] {
        fs::write(input, "input").unwrap();
        case.watch.note_put_back(input.clone());
    }
    assert!([&gone, &touched, &left].iter().all(|input| case.watch.put_back_at(input) == ctime(input)));
    fs::remove_file(&gone).unwrap();
    while ctime(&touched) == case.watch.put_back_at(&touched) {
        fs::write(&touched, "another").unwrap();
    }
    case.watch.note_put_back(last.clone());
    assert_eq!(case.watch.put_back.len(), 2);
    assert!(case.watch.put_back_at(&left).is_some() && case.watch.put_back_at(&last).is_some());
}
