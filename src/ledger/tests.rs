use super::error::unusable;
use super::*;
use crate::picture::record::{Digest, Origin};
use std::ffi::OsStr;
use std::fs::File;
use std::os::unix::fs::FileExt;

pub(super) struct Case {
    folder: tempfile::TempDir,
    pub(super) ledger: Ledger,
}

const STAMP: Stamp = Stamp { size: 10, mtime_ns: 1_700_000_000_123_456_789, inode: 7 };
pub(super) const OUTCOME: Outcome<'static> = Outcome { device: "cpu", pixels: 100, bytes_out: 50 };

impl Case {
    pub(super) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (ledger, note) = Ledger::open(&folder.path().join("state")).unwrap();
        assert_eq!(note, None);
        Self { folder, ledger }
    }

    pub(super) fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }
}

pub(super) fn entry<'a>(input: &'a Path, output: &'a Path) -> Entry<'a> {
    Entry { input, stamp: STAMP, settings: "global", output }
}

#[test]
fn a_picture_is_done_for_one_stamp_one_output_and_one_set_of_settings() {
    let case = Case::new();
    let (input, output, other) = (case.at("a.png"), case.at("out.png"), case.at("other.png"));
    let done = entry(&input, &output);
    assert_eq!(case.ledger.standing(&done).unwrap(), Standing::Unknown);
    case.ledger.begin(&done).unwrap();
    case.ledger.done(&input, &OUTCOME).unwrap();
    assert_eq!(case.ledger.standing(&done).unwrap(), Standing::Done);
    let changed = [
        Entry { stamp: Stamp { size: 11, ..STAMP }, ..done },
        Entry { stamp: Stamp { mtime_ns: STAMP.mtime_ns + 1, ..STAMP }, ..done },
        Entry { stamp: Stamp { inode: 8, ..STAMP }, ..done },
        Entry { settings: "clahe", ..done },
        Entry { output: &other, ..done },
        Entry { input: &other, ..done },
    ];
    for entry in changed {
        assert_eq!(case.ledger.standing(&entry).unwrap(), Standing::Unknown, "{entry:?}");
    }
}

#[test]
fn a_text_of_settings_is_kept_once() {
    let case = Case::new();
    for (name, settings) in [("a", "global"), ("b", "clahe"), ("c", "global"), ("a", "clahe")] {
        let input = case.at(name);
        let entry = Entry { settings, ..entry(&input, &input) };
        case.ledger.begin(&entry).unwrap();
        case.ledger.done(&input, &OUTCOME).unwrap();
        assert_eq!(case.ledger.standing(&entry).unwrap(), Standing::Done);
    }
    let kept: Vec<_> = rows(&case.ledger.db, "SELECT settings FROM picture ORDER BY input");
    assert_eq!(kept, [r#"Text("2")"#, r#"Text("2")"#, r#"Text("1")"#]);
    assert_eq!(rows(&case.ledger.db, "SELECT text FROM settings").len(), 2);
}

#[test]
fn failures_are_known_for_good_or_tried_again() {
    let case = Case::new();
    let (input, output) = (case.at("a.png"), case.at("out.png"));
    let entry = entry(&input, &output);
    case.ledger.begin(&entry).unwrap();
    case.ledger.failed(&input, "no room", false).unwrap();
    assert_eq!(case.ledger.standing(&entry).unwrap(), Standing::Unknown);
    case.ledger.failed(&input, "broken", true).unwrap();
    assert_eq!(
        case.ledger.standing(&entry).unwrap(),
        Standing::Failed { reason: "broken".into(), given_up: false }
    );
    case.ledger.skipped(&input).unwrap();
    assert_eq!(case.ledger.standing(&entry).unwrap(), Standing::Skipped);
    case.ledger.forget(&input).unwrap();
    assert_eq!(case.ledger.standing(&entry).unwrap(), Standing::Unknown);
}

#[test]
fn what_was_under_way_is_done_exactly_if_its_output_appeared_since() {
    let case = Case::new();
    let (input, output) = (case.at("a.png"), case.at("out.png"));
    let entry = entry(&input, &output);
    fs::write(&output, "of an earlier run").unwrap();
    case.ledger.begin(&entry).unwrap();
    let interrupted = Standing::Interrupted { starts: 1 };
    assert_eq!(case.ledger.standing(&entry).unwrap(), interrupted);
    let temporary = case.at("temporary");
    // Times of files are a few milliseconds apart or the same.
    std::thread::sleep(Duration::from_millis(20));
    fs::write(&temporary, "new").unwrap();
    fs::write(&output, "of an earlier run, and edited").unwrap();
    assert_eq!(case.ledger.standing(&entry).unwrap(), interrupted, "the same file as before");
    fs::rename(&temporary, &output).unwrap();
    assert_eq!(case.ledger.standing(&entry).unwrap(), Standing::Done);
    assert_eq!(case.ledger.report().unwrap().bytes_out, 3);
}

#[test]
fn what_another_input_made_is_not_taken_for_that_of_a_picture_under_way() {
    let case = Case::new();
    let (input, output) = (case.at("a.png"), case.at("out.png"));
    let entry = entry(&input, &output);
    case.ledger.begin(&entry).unwrap();
    let file = File::create(&output).unwrap();
    let made_from = |input| {
        let origin = Origin { input, settings: Digest::of(b"") };
        Record::new(&origin, &file.metadata().unwrap()).put_on(&file);
    };
    made_from(Stamp { mtime_ns: 1, ..STAMP });
    if Record::of(&output).is_some() {
        assert_eq!(case.ledger.standing(&entry).unwrap(), Standing::Interrupted { starts: 1 });
    }
    made_from(STAMP);
    assert_eq!(case.ledger.standing(&entry).unwrap(), Standing::Done);
}

#[test]
fn after_a_power_failure_no_output_counts_as_that_of_a_picture_in_progress() {
    let place = tempfile::tempdir().unwrap();
    let (input, output) = (place.path().join("a.png"), place.path().join("out/a.png"));
    let taken = || take(&place.path().join("out"), None).unwrap();
    let (lock, ledger, _) = taken();
    ledger.begin(&entry(&input, &output)).unwrap();
    drop((lock, ledger));
    fs::write(&output, "").unwrap();
    let file = folder(&place.path().join("out"), None).join("lock");
    let lines = fs::read_to_string(&file).unwrap();
    let boot = lines.lines().nth(1).unwrap();
    fs::write(&file, lines.replace(boot, "of another start")).unwrap();
    let (_lock, ledger, _) = taken();
    assert_eq!(ledger.standing(&entry(&input, &output)).unwrap(), Standing::Interrupted { starts: 1 });
}

#[test]
fn an_output_that_was_copied_with_its_time_did_not_appear() {
    let case = Case::new();
    let (input, output, copy) = (case.at("a.png"), case.at("out.png"), case.at("copy.png"));
    fs::write(&output, "of an earlier run").unwrap();
    case.ledger.begin(&entry(&input, &output)).unwrap();
    // As after a restore of the whole output folder from a backup.
    fs::copy(&output, &copy).unwrap();
    let modified = fs::metadata(&output).unwrap().modified().unwrap();
    File::options().write(true).open(&copy).unwrap().set_modified(modified).unwrap();
    fs::rename(&copy, &output).unwrap();
    let interrupted = Standing::Interrupted { starts: 1 };
    assert_eq!(case.ledger.standing(&entry(&input, &output)).unwrap(), interrupted);
}

#[test]
fn it_is_all_there_after_a_restart() {
    let case = Case::new();
    let (input, output) = (case.at("a.png"), case.at("out.png"));
    case.ledger.begin(&entry(&input, &output)).unwrap();
    case.ledger.done(&input, &OUTCOME).unwrap();
    let Case { folder, ledger } = case;
    drop(ledger);
    let (again, note) = Ledger::open(&folder.path().join("state")).unwrap();
    assert_eq!(note, None);
    assert_eq!(again.standing(&entry(&input, &output)).unwrap(), Standing::Done);
}

#[test]
fn a_name_may_be_any_bytes() {
    let case = Case::new();
    let input = case.folder.path().join(OsStr::from_bytes(b"caf\xe9\n.png"));
    let output = case.at("out.png");
    case.ledger.begin(&entry(&input, &output)).unwrap();
    case.ledger.failed(&input, "broken", true).unwrap();
    assert_eq!(case.ledger.report().unwrap().failures[0].input, input);
}

#[test]
fn two_inputs_with_one_output_are_rivals_while_both_exist() {
    let case = Case::new();
    let (first, second, output) = (case.at("a.jpg"), case.at("a.png"), case.at("out/a.png"));
    let rivals = |input: &PathBuf| case.ledger.rivals(&entry(input, &output), false).unwrap();
    fs::write(&first, "").unwrap();
    fs::write(&second, "").unwrap();
    case.ledger.begin(&entry(&first, &output)).unwrap();
    assert_eq!(rivals(&second), [first.as_path()]);
    assert!(rivals(&first).is_empty());
    case.ledger.refuse(&entry(&second, &output)).unwrap();
    case.ledger.failed(&first, "no room", false).unwrap();
    assert!(rivals(&first).is_empty(), "who was refused keeps nobody away");
    assert!(rivals(&second).is_empty(), "nor does who has no output");
    case.ledger.begin(&entry(&first, &output)).unwrap();
    fs::remove_file(&first).unwrap();
    assert!(rivals(&second).is_empty());
}

#[test]
fn where_inputs_go_an_output_that_stands_is_its_inputs() {
    let case = Case::new();
    let (first, second, output) = (case.at("a.jpg"), case.at("a.png"), case.at("a.out.png"));
    let rivals = |input: &PathBuf| case.ledger.rivals(&entry(input, &output), true).unwrap();
    let does = |input: &PathBuf| {
        case.ledger.begin(&entry(input, &output)).unwrap();
        fs::write(&output, "").unwrap();
        case.ledger.done(input, &Outcome { device: "cpu", pixels: 1, bytes_out: 1 }).unwrap();
    };
    does(&first);
    assert_eq!(rivals(&second), [first.as_path()]);
    fs::remove_file(&output).unwrap();
    assert!(rivals(&second).is_empty(), "it was collected");
    does(&second);
    assert_eq!(rivals(&first), [second.as_path()]);
    assert!(rivals(&second).is_empty(), "it may come again");
}

#[test]
fn who_lost_an_output_to_another_input_is_not_done() {
    let case = Case::new();
    let (first, second, output) = (case.at("one/a.png"), case.at("two/a.png"), case.at("out.png"));
    for input in [&first, &second] {
        case.ledger.begin(&entry(input, &output)).unwrap();
        case.ledger.done(input, &OUTCOME).unwrap();
    }
    assert_eq!(case.ledger.standing(&entry(&first, &output)).unwrap(), Standing::Unknown);
    assert_eq!(case.ledger.standing(&entry(&second, &output)).unwrap(), Standing::Done);
}

#[test]
fn what_was_refused_is_not_done_by_anothers_output() {
    let case = Case::new();
    let (input, output) = (case.at("a.png"), case.at("a.out.png"));
    case.ledger.refuse(&entry(&input, &output)).unwrap();
    fs::write(&output, "").unwrap();
    assert_eq!(case.ledger.standing(&entry(&input, &output)).unwrap(), Standing::Unknown);
}

#[test]
fn a_ledger_that_is_deleted_is_begun_anew() {
    let mut case = Case::new();
    let (input, output) = (case.at("a.png"), case.at("out.png"));
    case.ledger.begin(&entry(&input, &output)).unwrap();
    case.ledger.done(&input, &OUTCOME).unwrap();
    assert_eq!(case.ledger.reopen_if_deleted().unwrap(), None);
    fs::remove_dir_all(case.at("state")).unwrap();
    assert!(case.ledger.reopen_if_deleted().unwrap().is_some());
    assert_eq!(case.ledger.standing(&entry(&input, &output)).unwrap(), Standing::Unknown);
    case.ledger.begin(&entry(&input, &output)).unwrap();
    let seen_by_others = Ledger::read(&case.at("state")).unwrap().expect("its write-ahead log is there");
    drop(seen_by_others);
    fs::write(
        case.at("garbage"),
        "no database, although it is longer than a header of a hundred bytes".repeat(9),
    )
    .unwrap();
    let state = case.at("state");
    ["ledger.sqlite-wal", "ledger.sqlite-shm"]
        .iter()
        .for_each(|log| fs::remove_file(state.join(log)).unwrap());
    fs::rename(case.at("garbage"), case.at("state").join(FILE)).unwrap();
    let note = case.ledger.reopen_if_deleted().unwrap().unwrap();
    assert!(note.contains("the ledger could not be used"), "{note}");
    case.ledger.begin(&entry(&input, &output)).unwrap();
}

#[test]
fn a_ledger_that_is_none_or_of_another_version_is_set_aside() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join(FILE), "this is no database, whatever its name says".repeat(100)).unwrap();
    let (ledger, note) = Ledger::open(folder.path()).unwrap();
    assert!(note.unwrap().contains("ledger.broken-"));
    ledger.db.pragma_update(None, "user_version", 99).unwrap();
    drop(ledger);
    let (_, note) = Ledger::open(folder.path()).unwrap();
    assert!(note.unwrap().contains("its version is 99"));
}

#[test]
fn who_reads_a_damaged_ledger_is_told_which_and_what_mends_it() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join(FILE);
    fs::write(&file, [7; 5000]).unwrap();
    let why = Ledger::read(folder.path()).unwrap_err().to_string();
    assert!(why.starts_with(&format!("the ledger {} is damaged (", file.display())), "{why}");
    assert!(why.ends_with("the next --watch or --resume sets it aside and starts another"), "{why}");
    assert!(file.exists());
}

#[test]
fn a_ledger_whose_damage_is_found_later_is_set_aside_too() {
    let Case { folder, ledger } = Case::new();
    let (input, output) = (folder.path().join("a.png"), folder.path().join("out.png"));
    drop(ledger);
    let file = folder.path().join("state").join(FILE);
    let page = u64::from(root_page(&file, "picture") - 1) * 4096;
    File::options().write(true).open(&file).unwrap().write_all_at(&[7; 4096], page).unwrap();
    let (mut ledger, note) = Ledger::open(&folder.path().join("state")).unwrap();
    assert_eq!(note, None);
    let why = ledger.standing(&entry(&input, &output)).unwrap_err();
    assert!(ledger.mend(why).unwrap().contains("ledger.broken-"));
    ledger.begin(&entry(&input, &output)).unwrap();
    ledger.done(&input, &OUTCOME).unwrap();
    let full = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_FULL);
    ledger.mend(rusqlite::Error::SqliteFailure(full, None).into()).unwrap_err();
    drop(ledger);
    let (ledger, note) = Ledger::open(&folder.path().join("state")).unwrap();
    assert_eq!((ledger.standing(&entry(&input, &output)).unwrap(), note), (Standing::Done, None));
}

#[test]
fn a_ledger_that_took_the_place_of_a_damaged_one_is_not_set_aside() {
    let mut case = Case::new();
    let (input, output) = (case.at("a.png"), case.at("out.png"));
    fs::rename(case.at("state"), case.at("away")).unwrap();
    let (other, _) = Ledger::open(&case.at("state")).unwrap();
    other.begin(&entry(&input, &output)).unwrap();
    other.done(&input, &OUTCOME).unwrap();
    case.ledger.mend(unusable("damaged".into()).into()).unwrap_err();
    let (again, note) = Ledger::open(&case.at("state")).unwrap();
    assert_eq!((again.standing(&entry(&input, &output)).unwrap(), note), (Standing::Done, None));
}

/// Returns the number, counted from 1, of a table's first page.
fn root_page(file: &Path, table: &str) -> u32 {
    let db = Connection::open(file).unwrap();
    db.query_row("SELECT rootpage FROM sqlite_schema WHERE name = ?1", [table], |row| row.get(0)).unwrap()
}

#[test]
fn old_pictures_are_forgotten_when_their_inputs_are_gone() {
    let case = Case::new();
    let (kept, gone) = (case.at("kept.png"), case.at("gone.png"));
    fs::write(&kept, "").unwrap();
    for input in [&kept, &gone] {
        case.ledger.begin(&entry(input, input)).unwrap();
        case.ledger.done(input, &OUTCOME).unwrap();
    }
    let prune = |age, after: &Path, most| {
        let Pruned { forgotten, last } = case.ledger.prune(age, &[], true, after, most).unwrap();
        (forgotten, last)
    };
    let start = Path::new("");
    assert_eq!(prune(Duration::from_secs(60), start, 10), (0, None));
    std::thread::sleep(Duration::from_millis(2));
    assert_eq!(prune(Duration::ZERO, start, 1), (1, Some(gone.clone())));
    assert_eq!(prune(Duration::ZERO, &gone, 1), (0, Some(kept.clone())));
    assert_eq!(prune(Duration::ZERO, &kept, 1), (0, None));
    assert_eq!(case.ledger.standing(&entry(&gone, &gone)).unwrap(), Standing::Unknown);
    assert_eq!(case.ledger.standing(&entry(&kept, &kept)).unwrap(), Standing::Done);
}

#[test]
fn what_owns_an_output_is_not_forgotten_where_inputs_go() {
    let case = Case::new();
    let (input, output) = (case.at("gone.png"), case.at("out.png"));
    fs::write(&output, "").unwrap();
    case.ledger.begin(&entry(&input, &output)).unwrap();
    case.ledger.done(&input, &OUTCOME).unwrap();
    std::thread::sleep(Duration::from_millis(2));
    let forgotten =
        |inputs_go| case.ledger.prune(Duration::ZERO, &[], inputs_go, Path::new(""), 10).unwrap().forgotten;
    assert_eq!(forgotten(true), 0);
    fs::remove_file(&output).unwrap();
    assert_eq!(forgotten(true), 1);
    fs::write(&output, "").unwrap();
    case.ledger.begin(&entry(&input, &output)).unwrap();
    case.ledger.done(&input, &OUTCOME).unwrap();
    std::thread::sleep(Duration::from_millis(2));
    assert_eq!(forgotten(false), 1);
}

#[test]
fn what_may_be_away_with_its_folder_is_not_forgotten() {
    let case = Case::new();
    let [away, there, like] = ["away/a.png", "there/a.png", "away.png"].map(|name| case.at(name));
    for input in [&away, &there, &like] {
        case.ledger.begin(&entry(input, input)).unwrap();
    }
    let folder = case.at("away");
    let pruned = case.ledger.prune(Duration::ZERO, &[&folder], true, Path::new(""), 10).unwrap();
    assert_eq!(pruned.forgotten, 2);
    assert_eq!(case.ledger.report().unwrap().running, 1);
    assert_eq!(case.ledger.prune(Duration::ZERO, &[], true, Path::new(""), 10).unwrap().forgotten, 1);
}

#[test]
fn what_cannot_be_looked_at_is_not_forgotten() {
    let case = Case::new();
    // Whatever the reason, the system does not report the input as gone. Links in a circle stop
    // even root.
    std::os::unix::fs::symlink("circle", case.at("circle")).unwrap();
    let [hidden, gone] = ["circle/a.png", "gone.png"].map(|name| case.at(name));
    for input in [&hidden, &gone] {
        case.ledger.begin(&entry(input, input)).unwrap();
    }
    assert_eq!(case.ledger.prune(Duration::ZERO, &[], true, Path::new(""), 10).unwrap().forgotten, 1);
    assert_eq!(case.ledger.report().unwrap().running, 1);
}

#[test]
fn what_never_ended_is_forgotten_when_its_input_is_gone() {
    let case = Case::new();
    let [retried, failed, running, done] =
        ["retried.png", "failed.png", "running.png", "done.png"].map(|name| case.at(name));
    for input in [&retried, &failed, &running, &done] {
        case.ledger.begin(&entry(input, input)).unwrap();
    }
    case.ledger.failed(&retried, "no room", false).unwrap();
    case.ledger.failed(&failed, "broken", true).unwrap();
    case.ledger.done(&done, &OUTCOME).unwrap();
    case.ledger.forget_gone(std::slice::from_ref(&done)).unwrap();
    assert_eq!(case.ledger.all_failed().unwrap(), [failed.as_path()]);
    case.ledger.forget_gone(&[retried.clone(), failed]).unwrap();
    let report = case.ledger.report().unwrap();
    assert_eq!((report.done, report.retrying, report.failed), (1, 0, 0));
    case.ledger.refuse(&entry(&retried, &retried)).unwrap();
    case.ledger.prune(Duration::from_secs(60), &[], true, Path::new(""), 10).unwrap();
    let report = case.ledger.report().unwrap();
    assert_eq!((report.done, report.retrying, report.running), (1, 0, 0));
}

/// The delay in seconds that a test on a busy machine must tolerate.
const A_WHILE: u64 = 50;

#[test]
fn the_report_counts_and_names() {
    let case = Case::new();
    for (name, state) in [("a", "done"), ("b", "done"), ("c", "failed"), ("d", "retry"), ("e", "running")] {
        let (input, output) = (case.at(name), case.at(name).with_extension("out"));
        case.ledger.begin(&entry(&input, &output)).unwrap();
        match state {
            "done" => case.ledger.done(&input, &OUTCOME).unwrap(),
            "failed" => case.ledger.failed(&input, "broken", true).unwrap(),
            "retry" => case.ledger.retried(&input, "no room", Duration::from_secs(900)).unwrap(),
            _ => {}
        }
    }
    let service =
        ServiceReport { pid: 5, waiting: 3, held: Some("no room".into()), ..ServiceReport::default() };
    case.ledger.say(&service).unwrap();
    let report = Ledger::read(&case.at("state")).unwrap().unwrap().report().unwrap();
    assert_eq!((report.done, report.failed, report.retrying, report.running), (2, 1, 1, 1));
    assert_eq!((report.last_minute, report.last_hour, report.last_hour_pixels), (2, 2, 200));
    assert_eq!(report.bytes_out, 100);
    assert!(report.last_done_seconds_ago.is_some_and(|seconds| seconds < A_WHILE));
    let [FailedPicture { reason, again_in_seconds: None, .. }] = &report.failures[..] else {
        panic!("{report:?}")
    };
    assert_eq!(reason, "broken");
    let [FailedPicture { reason, again_in_seconds: Some(seconds), .. }] = &report.retries[..] else {
        panic!("{report:?}")
    };
    assert!(reason == "no room" && (900 - A_WHILE..=900).contains(seconds), "{report:?}");
    assert_eq!(report.service.map(|said| ServiceReport { seconds_ago: 0, ..said }), Some(service));
}

#[test]
fn the_retries_that_are_next_are_named_first_and_not_all() {
    let case = Case::new();
    for seconds in (1..30).rev() {
        let input = case.at(&seconds.to_string());
        case.ledger.begin(&entry(&input, &input)).unwrap();
        case.ledger.retried(&input, "no room", Duration::from_secs(100 * seconds)).unwrap();
    }
    let report = case.ledger.report().unwrap();
    let named = report.retries.iter().filter_map(|retry| retry.again_in_seconds);
    let hundreds: Vec<u64> = named.map(|seconds| (seconds + A_WHILE) / 100).collect();
    assert_eq!(hundreds, Vec::from_iter(1..=10));
    assert_eq!(report.retrying, 29);
}

#[test]
fn the_sums_follow_every_change() {
    let case = Case::new();
    let [first, second, output] = ["a.jpg", "a.png", "a.out.png"].map(|name| case.at(name));
    let of_rows = "SELECT state, count(*), coalesce(sum(bytes_out), 0) FROM picture GROUP BY state";
    let kept = "SELECT * FROM total WHERE pictures <> 0 OR bytes_out <> 0";
    let check =
        |step: &str| assert_eq!(rows(&case.ledger.db, kept), rows(&case.ledger.db, of_rows), "{step}");
    let does = |input: &PathBuf| {
        case.ledger.begin(&entry(input, &output)).unwrap();
        check("begun");
        case.ledger.done(input, &OUTCOME).unwrap();
        check("done");
    };
    does(&first);
    does(&first);
    does(&second);
    case.ledger.begin(&entry(&first, &first)).unwrap();
    check("begun again");
    case.ledger.failed(&first, "broken", true).unwrap();
    case.ledger.retried(&second, "no room", Duration::ZERO).unwrap();
    check("failed");
    case.ledger.forget_gone(&[second]).unwrap();
    check("gone");
    case.ledger.forget(&first).unwrap();
    check("forgotten");
    assert!(rows(&case.ledger.db, kept).is_empty());
}

/// Returns the rows that a query finds, each as text.
fn rows(db: &Connection, query: &str) -> Vec<String> {
    let mut query = db.prepare(query).unwrap();
    let columns = query.column_count();
    let text = |row: &Row<'_>| {
        let values = (0..columns).map(|column| row.get::<_, rusqlite::types::Value>(column));
        values.map(|value| value.map(|value| format!("{value:?}"))).collect::<Result<String, _>>()
    };
    query.query_map([], text).unwrap().collect::<Result<_, _>>().unwrap()
}

#[test]
fn a_report_looks_at_no_more_pictures_than_it_has_to() {
    let case = Case::new();
    let plan = |query: &str| rows(&case.ledger.db, &format!("EXPLAIN QUERY PLAN {query}")).concat();
    let last = plan(report::LAST_DONE);
    assert!(last.contains("SEARCH picture USING COVERING INDEX picture_by_end (state=?)"), "{last}");
    let since = plan(&report::DONE_SINCE.replace("?1", "0"));
    assert!(since.contains("COVERING INDEX picture_by_end (state=? AND finished>?)"), "{since}");
}

#[test]
fn a_ledger_of_an_older_version_is_brought_up_to_date_and_keeps_what_it_knows() {
    let third = "ALTER TABLE picture DROP COLUMN starts;";
    let second = format!("{third} DROP TRIGGER picture_comes; DROP TRIGGER picture_goes; DROP TRIGGER picture_changes; DROP TABLE total;
                  DROP INDEX picture_by_end; CREATE INDEX picture_by_end ON picture (state, finished);
                  UPDATE picture SET settings = 'global'; DROP TABLE settings;");
    let first = format!("{second} ALTER TABLE picture DROP COLUMN again;");
    let made = "SELECT name, sql FROM sqlite_schema WHERE name <> 'picture' ORDER BY name";
    for (version, back) in [(1, first.as_str()), (2, second.as_str()), (3, third)] {
        let Case { folder, ledger } = Case::new();
        let (input, state) = (folder.path().join("a.png"), folder.path().join("state"));
        let new = rows(&ledger.db, made);
        ledger.begin(&entry(&input, &input)).unwrap();
        ledger.done(&input, &OUTCOME).unwrap();
        ledger.db.execute_batch(&format!("{back} PRAGMA user_version = {version};")).unwrap();
        drop(ledger);
        assert!(matches!(Ledger::read(&state), Err(LedgerError::OlderVersion(_))));
        let (ledger, note) = Ledger::open(&state).unwrap();
        assert_eq!(note, None);
        assert_eq!(rows(&ledger.db, made), new);
        assert_eq!(
            rows(&ledger.db, "SELECT text FROM settings WHERE id = (SELECT settings FROM picture)").len(),
            1
        );
        let done = entry(&input, &input);
        assert_eq!(ledger.standing(&done).unwrap(), Standing::Done);
        assert_eq!(ledger.standing(&Entry { settings: "clahe", ..done }).unwrap(), Standing::Unknown);
        ledger.retried(&input, "no room", Duration::from_secs(9)).unwrap();
        ledger.done(&input, &OUTCOME).unwrap();
        let report = Ledger::read(&state).unwrap().unwrap().report().unwrap();
        assert_eq!((report.done, report.bytes_out, report.retrying), (1, 50, 0));
    }
}

#[test]
fn there_is_nothing_to_read_where_no_ledger_is() {
    let folder = tempfile::tempdir().unwrap();
    assert!(Ledger::read(folder.path()).unwrap().is_none());
    // The state while a service is only just creating it.
    let db = Connection::open(folder.path().join(FILE)).unwrap();
    db.pragma_update(None, "journal_mode", "wal").unwrap();
    assert!(Ledger::read(folder.path()).unwrap().is_none());
}
