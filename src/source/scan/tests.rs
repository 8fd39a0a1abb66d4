use std::ffi::OsStr;
use std::fs::{create_dir_all, hard_link, write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use super::*;
use crate::config::{LinksChoice, Request, Written};
use crate::publish::ignores_case;
use crate::source::job::Job;

/// A folder to fill and to scan.
struct Case {
    folder: tempfile::TempDir,
    written: Written,
}

impl Case {
    fn new(files: &[&str]) -> Self {
        let case = Self { folder: tempfile::tempdir().unwrap(), written: Written::default() };
        for file in files {
            case.file(file);
        }
        case
    }

    fn path(&self, name: impl AsRef<Path>) -> PathBuf {
        self.folder.path().join(name)
    }

    fn file(&self, name: impl AsRef<Path>) {
        let path = self.path(name);
        create_dir_all(path.parent().unwrap()).unwrap();
        write(path, "content").unwrap();
    }

    fn link(&self, target: &str, name: &str) {
        symlink(self.path(target), self.path(name)).unwrap();
    }

    fn try_scan(&self, inputs: &[&str], out: &str) -> Result<Plan, Error> {
        let inputs = inputs.iter().map(|input| self.path(input)).collect();
        let request = Request { inputs, out: self.path(out), ..Request::default() };
        scan(&Settings::resolve(self.written.clone(), request).unwrap(), &Stop::default())
    }

    /// Scans, and returns the jobs as "input -> output", the skips and the failures as "input:
    /// why", with all paths relative to the folder of the case.
    fn scan(&self, inputs: &[&str], out: &str) -> Scanned {
        let plan = self.try_scan(inputs, out).unwrap();
        let numbers: Vec<_> = plan.jobs.iter().map(|job| job.number).collect();
        assert_eq!(numbers, (0..plan.jobs.len()).collect::<Vec<_>>());
        let base = format!("{}/", self.folder.path().display());
        let short = |text: String| text.replace(&base, "");
        let job = |job: &Job| short(format!("{} -> {}", job.input.display(), job.output.display()));
        let skip = |skipped: &Skipped| short(format!("{}: {:?}", skipped.input.display(), skipped.why));
        let fail = |(path, why): &(PathBuf, PictureError)| short(format!("{}: {why}", path.display()));
        Scanned {
            jobs: plan.jobs.iter().map(job).collect(),
            skipped: plan.skipped.iter().map(skip).collect(),
            failed: plan.failed.iter().map(fail).collect(),
        }
    }
}

struct Scanned {
    jobs: Vec<String>,
    skipped: Vec<String>,
    failed: Vec<String>,
}

impl Scanned {
    fn only_jobs(self) -> Vec<String> {
        assert!(self.skipped.is_empty() && self.failed.is_empty(), "{:?} {:?}", self.skipped, self.failed);
        self.jobs
    }
}

#[test]
fn the_tree_is_mirrored_in_the_order_of_names() {
    let case = Case::new(&["in/b.png", "in/a/c.png", "in/a/b/x.jpg", "in/z"]);
    let expected = [
        "in/a/b/x.jpg -> out/a/b/x.jpg",
        "in/a/c.png -> out/a/c.png",
        "in/b.png -> out/b.png",
        "in/z -> out/z",
    ];
    assert_eq!(case.scan(&["in"], "out").only_jobs(), expected);
}

#[test]
fn a_file_given_by_name_goes_right_into_the_output_folder() {
    let case = Case::new(&["in/a/b.txt", "in/c.txt"]);
    let plan = case.try_scan(&["in/a/b.txt", "in"], "out").unwrap();
    assert_eq!(plan.jobs[0].output, case.path("out/b.txt"));
    let must: Vec<_> = plan.jobs.iter().map(Job::must_be_a_picture).collect();
    assert_eq!(must, [true, false, false]);
}

#[test]
fn hidden_files_and_folders_are_left_out_but_not_a_hidden_input() {
    let case = Case::new(&["in/.a.png", "in/.b/c.png", "in/.histeqd-1-2.tmp", ".hidden/a.png"]);
    assert!(case.scan(&["in"], "out").only_jobs().is_empty());
    assert_eq!(case.scan(&[".hidden"], "out").only_jobs(), [".hidden/a.png -> out/a.png"]);
    assert_eq!(case.scan(&["in/.a.png"], "out").only_jobs(), ["in/.a.png -> out/.a.png"]);
}

#[test]
fn the_output_folder_inside_an_input_is_not_entered() {
    let case = Case::new(&["in/a.png", "in/done/old.png"]);
    assert_eq!(case.scan(&["in"], "in/done").only_jobs(), ["in/a.png -> in/done/a.png"]);
    case.link("in/done", "link");
    assert_eq!(case.scan(&["in"], "link").only_jobs(), ["in/a.png -> link/a.png"]);
}

#[test]
fn an_output_folder_that_is_an_input_is_wrong_usage() {
    let case = Case::new(&["in/a.png"]);
    assert!(matches!(case.try_scan(&["in"], "in"), Err(Error::Usage(_))));
    assert!(matches!(case.try_scan(&["in"], "in/a.png"), Err(Error::CannotRun(_))));
}

#[test]
fn globs_select_in_folders_and_not_what_is_named() {
    let mut case = Case::new(&["in/a.png", "in/b.jpg", "in/thumbs/c.png", "x.txt"]);
    case.written.include = Some(vec!["*.png".into()]);
    case.written.exclude = Some(vec!["thumbs".into()]);
    let expected = ["in/a.png -> out/a.png", "x.txt -> out/x.txt"];
    assert_eq!(case.scan(&["in", "x.txt"], "out").only_jobs(), expected);
}

#[test]
fn reserved_names_are_skipped_with_what_they_are_for_unless_asked_for() {
    let files =
        ["in/a.png", "in/b/@eaDir/a.png/THUMB.png", "in/#recycle/c.png", "in/a.png~", "in/d.png.part"];
    let mut case = Case::new(&files);
    let scanned = case.scan(&["in"], "out");
    assert_eq!(scanned.jobs, ["in/a.png -> out/a.png"]);
    let expected = [
        "in/#recycle: Reserved(SystemFolder)",
        "in/a.png~: Reserved(Backup)",
        "in/b/@eaDir: Reserved(SystemFolder)",
        "in/d.png.part: Reserved(Incomplete)",
    ];
    assert_eq!(scanned.skipped, expected);
    assert!(scanned.failed.is_empty());
    let named = case.scan(&["in/#recycle", "in/d.png.part"], "out").only_jobs();
    assert_eq!(named, ["in/#recycle/c.png -> out/c.png", "in/d.png.part -> out/d.png.part"]);
    case.written.include = Some(["*.png", "@eaDir", "#recycle", "*~", "*.part"].map(Into::into).into());
    assert_eq!(case.scan(&["in"], "out").only_jobs().len(), files.len());
}

#[test]
fn a_format_replaces_the_extension() {
    let mut case = Case::new(&["in/a.jpg", "in/b.png"]);
    case.written.format = Some(crate::config::FormatName::Png);
    assert_eq!(case.scan(&["in"], "out").only_jobs(), ["in/a.jpg -> out/a.png", "in/b.png -> out/b.png"]);
}

#[test]
fn inputs_that_would_share_an_output_are_refused_with_both_names() {
    let mut case = Case::new(&["in/a.jpg", "in/a.png", "in/b.png"]);
    case.written.format = Some(crate::config::FormatName::Png);
    let scanned = case.scan(&["in"], "out");
    assert_eq!(scanned.jobs, ["in/b.png -> out/b.png"]);
    let rest = "would have the same output, out/a.png; rename one, or use different output folders";
    assert_eq!(scanned.failed, [format!("in/a.jpg: in/a.png {rest}"), format!("in/a.png: in/a.jpg {rest}")]);
}

#[test]
fn files_of_one_name_from_two_folders_are_refused_too() {
    let case = Case::new(&["x/a.png", "y/a.png"]);
    let scanned = case.scan(&["x", "y"], "out");
    assert!(scanned.jobs.is_empty());
    assert_eq!(scanned.failed.len(), 2);
}

#[test]
fn the_same_file_given_twice_is_done_once() {
    let case = Case::new(&["in/a.png"]);
    let plan = case.try_scan(&["in", "in/a.png", "in/../in"], "out").unwrap();
    assert_eq!(plan.jobs.len(), 1);
    assert!(plan.jobs[0].named && plan.failed.is_empty());
}

#[test]
fn an_output_that_would_replace_an_input_is_refused() {
    let case = Case::new(&["out/a.png", "in/a.png"]);
    let scanned = case.scan(&["in/a.png", "out/a.png"], "elsewhere");
    assert_eq!(scanned.failed.len(), 2, "they share an output");
    let scanned = case.scan(&["out/a.png"], "out");
    assert!(scanned.jobs.is_empty());
    let why = "out/a.png: its output out/a.png would replace an input; choose another --out";
    assert_eq!(scanned.failed, [why]);
}

#[test]
fn an_output_in_an_input_folder_is_refused_whatever_is_selected_there() {
    let mut case = Case::new(&["n/in/x.png", "n/in/in/x.png", "n/in/in/y.png", "n/in/z.png"]);
    case.written.include = Some(vec!["in/*".into(), "z.png".into()]);
    let scanned = case.scan(&["n/in"], "n");
    assert_eq!(scanned.jobs, ["n/in/z.png -> n/z.png"]);
    let why = |name: &str| {
        let output = format!("n/in/{name}.png");
        format!(
            "n/in/in/{name}.png: its output {output} would lie in the input folder n/in; choose another --out"
        )
    };
    assert_eq!(scanned.failed, ["x", "y"].map(why));
}

#[test]
fn names_that_differ_in_case_are_one_only_where_the_file_system_says_so() {
    let case = Case::new(&["in/A.png", "in/a.png", "in/É.png", "in/é.png", "in/b.png."]);
    assert!(
        !ignores_case(&case.path("out"), &case.path("out/a.png")),
        "the tests run on a usual file system"
    );
    assert_eq!(case.scan(&["in"], "out").only_jobs().len(), 5);
    let left = fs::read_dir(case.path("")).unwrap().count();
    assert_eq!(left, 1, "nothing of the probe is left beside the input folder");
}

#[test]
fn what_is_done_is_skipped_until_the_input_is_newer() {
    let mut case = Case::new(&["in/a.png", "out/a.png"]);
    assert_eq!(case.scan(&["in"], "out").skipped, ["in/a.png: AlreadyDone"]);

    let output = fs::File::options().write(true).open(case.path("out/a.png")).unwrap();
    let input_time = fs::metadata(case.path("in/a.png")).unwrap().modified().unwrap();
    output.set_modified(input_time).unwrap();
    assert_eq!(case.scan(&["in"], "out").skipped.len(), 1, "the same time is done");
    output.set_modified(input_time - Duration::from_nanos(1000)).unwrap();
    assert_eq!(case.scan(&["in"], "out").only_jobs().len(), 1);

    output.set_modified(input_time).unwrap();
    case.written.overwrite = Some(true);
    assert_eq!(case.scan(&["in"], "out").only_jobs().len(), 1);
}

#[test]
fn an_input_of_a_time_to_come_is_done_until_it_changes() {
    let case = Case::new(&["in/a.png"]);
    let open = |name| fs::File::options().write(true).open(case.path(name)).unwrap();
    open("in/a.png").set_modified(SystemTime::now() + Duration::from_secs(10_000)).unwrap();
    case.file("out/a.png");
    assert_eq!(case.scan(&["in"], "out").skipped, ["in/a.png: AlreadyDone"]);
    open("out/a.png").set_modified(SystemTime::now() - Duration::from_secs(10)).unwrap();
    assert_eq!(case.scan(&["in"], "out").only_jobs().len(), 1, "it was changed since");
}

#[test]
fn links_are_followed_as_far_as_they_may_be() {
    let mut case = Case::new(&["in/a.png", "in/sub/c.png", "more/b.png"]);
    case.link("more", "in/folder");
    case.link("more/b.png", "in/link.png");
    case.link("in/sub", "in/near");
    case.link("in/a.png", "in/same.png");
    let own = ["in/a.png -> out/a.png", "in/sub/c.png -> out/sub/c.png"].map(str::to_owned);
    let near = ["in/near/c.png -> out/near/c.png", "in/same.png -> out/same.png"].map(str::to_owned);
    let far = ["in/folder/b.png -> out/folder/b.png", "in/link.png -> out/link.png"].map(str::to_owned);
    let all = [own.clone(), near.clone(), far].concat();
    for (links, mut jobs, mut skipped) in [
        (LinksChoice::Auto, all.clone(), vec![]),
        (LinksChoice::Follow, all, vec![]),
        (LinksChoice::Inside, [own.clone(), near].concat(), vec!["in/folder: Link", "in/link.png: Link"]),
        (
            LinksChoice::Never,
            own.to_vec(),
            vec!["in/folder: Link", "in/link.png: Link", "in/near: Link", "in/same.png: Link"],
        ),
    ] {
        case.written.links = Some(links);
        let scanned = case.scan(&["in"], "out");
        jobs.sort_unstable();
        skipped.sort_unstable();
        let mut found = scanned.jobs.clone();
        found.sort_unstable();
        assert_eq!(
            (found, &scanned.skipped[..]),
            (jobs, &skipped.iter().map(ToString::to_string).collect::<Vec<_>>()[..]),
            "{links:?}"
        );
    }
}

#[test]
fn a_link_given_by_name_is_followed() {
    let case = Case::new(&["real/a.png"]);
    case.link("real", "in");
    assert_eq!(case.scan(&["in"], "out").only_jobs(), ["in/a.png -> out/a.png"]);
}

#[test]
fn link_loops_are_reported_and_left() {
    let mut case = Case::new(&["in/a/b.png"]);
    case.link("in", "in/a/up");
    case.link("in/self", "in/self");
    case.written.links = Some(LinksChoice::Follow);
    let scanned = case.scan(&["in"], "out");
    assert_eq!(scanned.jobs, ["in/a/b.png -> out/a/b.png"]);
    assert_eq!(scanned.skipped, ["in/a/up: LinkLoop"]);
    assert_eq!(scanned.failed.len(), 1);
    assert!(scanned.failed[0].starts_with("in/self: cannot be read: "), "{}", scanned.failed[0]);
}

#[test]
fn links_to_nothing_and_missing_inputs_are_failures() {
    for links in [LinksChoice::Inside, LinksChoice::Follow] {
        let mut case = Case::new(&["in/a.png"]);
        case.written.links = Some(links);
        case.link("nowhere", "in/dangling.png");
        case.link("nowhere", "in/.#editor-lock");
        let scanned = case.scan(&["in", "missing"], "out");
        assert_eq!(scanned.jobs, ["in/a.png -> out/a.png"]);
        let why = "cannot be read: No such file or directory (os error 2)";
        assert_eq!(scanned.failed, [format!("in/dangling.png: {why}"), format!("missing: {why}")]);
    }
}

#[test]
fn what_is_no_file_is_skipped_in_folders_and_refused_by_name() {
    let case = Case::new(&["in/a.png"]);
    let _socket = std::os::unix::net::UnixListener::bind(case.path("in/socket")).unwrap();
    assert_eq!(case.scan(&["in"], "out").skipped, ["in/socket: NotAFile"]);
    assert_eq!(case.scan(&["in/socket"], "out").failed, ["in/socket: not a regular file"]);
}

#[test]
fn names_are_bytes() {
    let case = Case::new(&["in/with space.png", "in/é.png"]);
    let odd = Path::new("in").join(OsStr::from_bytes(b"caf\xe9.png"));
    case.file(&odd);
    let plan = case.try_scan(&["in"], "out").unwrap();
    assert_eq!(plan.jobs.len(), 3);
    assert!(plan.jobs.iter().any(|job| job.input == case.path(&odd)));
}

#[test]
fn two_names_of_one_file_are_two_pictures() {
    let case = Case::new(&["in/a.png"]);
    hard_link(case.path("in/a.png"), case.path("in/b.png")).unwrap();
    assert_eq!(case.scan(&["in"], "out").only_jobs().len(), 2);
}

#[test]
fn a_scan_that_is_stopped_looks_at_nothing_more() {
    let case = Case::new(&["in/a.png", "in/b.png"]);
    let stop = Stop::default();
    stop.ask();
    let request = Request { inputs: vec![case.path("in")], out: case.path("out"), ..Request::default() };
    let plan = scan(&Settings::resolve(case.written.clone(), request).unwrap(), &stop).unwrap();
    assert!(plan.jobs.is_empty());
}
