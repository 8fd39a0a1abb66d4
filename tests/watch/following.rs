//! Files and folders that appear, change and disappear in a watched folder.

use std::collections::BTreeMap;
use std::fs::{self, File, Permissions};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::thread;
use std::time::Duration;

use histeqd::ledger::Lock;
use rustix::process::Signal;

use super::service::{
    Service, drop_in, expected, make_old, outputs, picture, times_done, wait_for, write_slowly,
};
use crate::harness::{BRIGHT, DULL, Place, wait};

fn is_bright(place: &Place, name: &str) -> bool {
    fs::read(place.path("out").join(name)).is_ok_and(|output| output == BRIGHT)
}

#[test]
fn what_is_there_and_what_comes_is_done_and_a_stop_is_a_good_end() {
    let place = Place::with(&["in/early.pgm", "in/a/deep.pgm"]);
    place.file("in/notes.txt", "no picture");
    let service = Service::start(&place, "");
    drop_in(&place, "late.pgm", DULL);
    drop_in(&place, "b/c/later.pgm", DULL);
    let names = ["early.pgm", "a/deep.pgm", "late.pgm", "b/c/later.pgm"];
    wait("four outputs", || names.iter().all(|name| is_bright(&place, name)));
    fs::rename(place.path("in/b"), place.path("in/moved")).unwrap();
    wait("the moved folder's output", || is_bright(&place, "moved/c/later.pgm"));
    assert_eq!(service.stop(), Some(0));
    assert_eq!(outputs(&place).len(), 5, "{:?}", outputs(&place));
}

#[test]
fn a_restart_does_nothing_twice_unless_something_changed() {
    let place = Place::with(&["in/a.pgm", "in/b.pgm"]);
    let service = Service::start(&place, "");
    wait("two outputs", || is_bright(&place, "a.pgm") && is_bright(&place, "b.pgm"));
    service.stop();
    let done = |service: &Service| times_done(&service.log(), "a.pgm") + times_done(&service.log(), "b.pgm");
    let service = Service::start(&place, "");
    drop_in(&place, "c.pgm", DULL);
    wait("the third output", || is_bright(&place, "c.pgm"));
    assert_eq!(done(&service), 2);
    service.stop();
    let service = Service::start(&place, "--method clahe");
    wait("other settings to take effect", || done(&service) == 4);
    service.stop();
    fs::remove_dir_all(place.path("out/.histeqd")).unwrap();
    let service = Service::start(&place, "--method clahe");
    wait("a deleted ledger to cost rework", || done(&service) == 6);
}

#[test]
fn a_slow_writer_gets_one_output_and_no_failure() {
    let place = Place::new();
    let service = Service::start(&place, "");
    let content = picture(1, 20);
    write_slowly(&place.path("in/open.pgm"), &content, 12, Duration::from_millis(150));
    fs::write(place.path("in/again.pgm"), "").unwrap();
    for byte in content.chunks(content.len().div_ceil(12)) {
        File::options().append(true).open(place.path("in/again.pgm")).unwrap().write_all(byte).unwrap();
        thread::sleep(Duration::from_millis(150));
    }
    let inputs = ["open.pgm", "again.pgm"].map(|name| (name.to_owned(), content.clone()));
    wait_for(&place, &expected(&BTreeMap::from(inputs)));
    assert!(!service.log().contains("failed: "), "{}", service.log());
    assert_eq!(times_done(&service.log(), "open.pgm"), 1);
}

#[test]
fn a_file_that_was_opened_before_its_folder_was_watched_is_waited_for() {
    // Without its end the file would be a picture too, of another profile.
    let whole = [DULL, &[0; 100]].concat();
    let place = Place::new();
    let begin = |name: &str| {
        let path = place.path("in").join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let mut file = File::create(path).unwrap();
        file.write_all(DULL).unwrap();
        file
    };
    let mut early = begin("early.pgm");
    let service = Service::start(&place, "--after move:kept --settle 100ms");
    let mut late = begin("new/late.pgm");
    thread::sleep(Duration::from_secs(2));
    assert_eq!(outputs(&place), [""; 0]);
    for file in [&mut early, &mut late] {
        file.write_all(&[0; 100]).unwrap();
    }
    drop((early, late));
    wait("both inputs to move", || {
        place.path("kept/early.pgm").exists() && place.path("kept/new/late.pgm").exists()
    });
    assert_eq!((place.read("kept/early.pgm"), place.read("kept/new/late.pgm")), (whole.clone(), whole));
    assert_eq!(service.stop(), Some(0));
}

#[test]
fn a_file_that_is_moved_while_it_is_written_is_no_failure() {
    let place = Place::new();
    let service = Service::start(&place, "--failed bad");
    let content = picture(1, 200);
    let mut file = File::create(place.path("in/partial")).unwrap();
    file.write_all(&content[..9000]).unwrap();
    fs::rename(place.path("in/partial"), place.path("in/a.pgm")).unwrap();
    thread::sleep(Duration::from_secs(2));
    file.write_all(&content[9000..]).unwrap();
    drop(file);
    wait_for(&place, &expected(&BTreeMap::from([("a.pgm".to_owned(), content)])));
    let log = service.log();
    assert!(!log.contains("failed: ") && !log.contains("not complete yet: "), "{log}");
}

#[test]
fn a_file_that_is_replaced_again_and_again_ends_as_the_last_one() {
    let place = Place::new();
    let service = Service::start(&place, "");
    let mut last = Vec::new();
    for round in 0..40 {
        last = picture(round, 300);
        if round % 2 == 0 {
            drop_in(&place, "a.pgm", &last);
        } else {
            fs::write(place.path("in/a.pgm"), &last).unwrap();
        }
        thread::sleep(Duration::from_millis(round * 7 % 60));
    }
    wait_for(&place, &expected(&BTreeMap::from([("a.pgm".to_owned(), last)])));
    assert!(!service.log().contains("failed: "), "{}", service.log());
}

#[test]
fn inputs_go_where_the_user_wants_them() {
    let place = Place::with(&["in/x/a.pgm"]);
    place.file("in/broken.pgm", b"P5\n4 4\n255\nshort");
    make_old(&place.path("in/broken.pgm"));
    for folder in ["out", "kept/x", "bad"] {
        place.file(format!("{folder}/.histeqd-4194999-elsewhere-0.tmp"), "half");
        make_old(&place.path(format!("{folder}/.histeqd-4194999-elsewhere-0.tmp")));
    }
    let service = Service::start(&place, "--after move:kept --failed bad");
    wait("the input to move", || place.path("kept/x/a.pgm").exists());
    wait("the broken input to be set aside", || place.path("bad/broken.pgm.reason.txt").exists());
    wait("the leftovers of a kill to go", || {
        ["out", "kept", "bad"]
            .iter()
            .all(|folder| !place.tree(folder).iter().any(|name| name.ends_with(".tmp")))
    });
    assert_eq!((place.read("kept/x/a.pgm"), place.read("out/x/a.pgm")), (DULL.to_vec(), BRIGHT.to_vec()));
    assert!(String::from_utf8(place.read("bad/broken.pgm.reason.txt")).unwrap().contains("truncated"));
    service.stop();
    let service = Service::start(&place, "--after delete");
    drop_in(&place, "y.pgm", DULL);
    wait("the input to be removed", || is_bright(&place, "y.pgm") && !place.path("in/y.pgm").exists());
    service.stop();
    assert_eq!(place.tree("in"), [""; 0]);
}

#[test]
fn an_input_that_is_put_back_because_its_output_was_lost_is_done_again() {
    let place = Place::with(&["in/a.pgm"]);
    let service = Service::start(&place, "--after move:kept");
    let is_away = || place.path("kept/a.pgm").exists();
    wait("the input to move", is_away);
    fs::rename(place.path("kept/a.pgm"), place.path("in/a.pgm")).unwrap();
    wait("the input to move although it was done", is_away);
    assert_eq!(times_done(&service.log(), "a.pgm"), 1);
    fs::remove_file(place.path("out/a.pgm")).unwrap();
    fs::rename(place.path("kept/a.pgm"), place.path("in/a.pgm")).unwrap();
    wait("another output", || is_bright(&place, "a.pgm") && is_away());
    assert_eq!(times_done(&service.log(), "a.pgm"), 2);
}

#[test]
fn an_inbox_that_goes_and_comes_back_is_watched_again() {
    let place = Place::with(&["in/a.pgm"]);
    let service = Service::start(&place, "");
    wait("the first output", || is_bright(&place, "a.pgm"));
    fs::rename(place.path("in"), place.path("away")).unwrap();
    wait("the loss to be noticed", || service.log().contains("is gone"));
    fs::write(place.path("away/b.pgm"), DULL).unwrap();
    fs::rename(place.path("away"), place.path("in")).unwrap();
    wait("the second output", || is_bright(&place, "b.pgm"));
    drop_in(&place, "c.pgm", DULL);
    wait("the third output", || is_bright(&place, "c.pgm"));
    assert_eq!(times_done(&service.log(), "a.pgm"), 1);
}

#[test]
fn one_service_per_output_folder_with_public_status() {
    let place = Place::with(&["in/a.pgm"]);
    let service = Service::start(&place, "");
    wait("the output", || is_bright(&place, "a.pgm"));
    let second = place.run("--watch in --out out");
    second.exits(3).says(&format!("another histeqd (process {})", service.pid()));
    wait("the status", || {
        let status = place.histeqd("status out --json").output().unwrap();
        let status: serde_json::Value = serde_json::from_slice(&status.stdout).unwrap();
        status["done"] == 1 && status["daemon"]["pid"] == service.pid()
    });
    let text = String::from_utf8(place.histeqd("status out").output().unwrap().stdout).unwrap();
    assert!(text.contains("done      1, the last one"), "{text}");
    place.run("status nowhere").exits(3).says("there is no ledger");
    let pid = service.pid();
    assert_eq!(service.stop(), Some(0));
    let text = String::from_utf8(place.histeqd("status out").output().unwrap().stdout).unwrap();
    assert!(text.contains(&format!("process {pid}, stopped ")), "{text}");
}

#[test]
fn the_status_names_what_is_tried_again_and_when() {
    let place = Place::with(&["in/a.pgm", "in/a.bmp"]);
    let service = Service::start(&place, "--format png");
    let is_told = || {
        let status = place.run("status out --json").exits(0).json();
        let retry = status["retries"][0].as_object()?.clone();
        let input = retry["input"].as_str()?.to_owned();
        (retry["again_in_seconds"].as_u64()? > 0 && status["failures"][0].is_null()).then_some(input)
    };
    let mut named = None;
    wait("the one whose output is the other's", || {
        named = is_told();
        named.is_some()
    });
    let input = named.unwrap();
    wait("the same for people", || {
        let text = place.run("status out").exits(0).stdout();
        let line = text.lines().find(|line| line.contains(&format!(": {input}: "))).unwrap_or_default();
        line.contains(" ago, retried in ") && line.contains(" would have the same output")
    });
    assert_eq!(service.stop(), Some(0));
    place.run("status out").exits(0).prints(&format!(" ago, retried at the next start: {input}: "));
}

#[test]
fn a_ledger_that_may_not_be_read_is_not_called_missing() {
    let place = Place::with(&["in/a.pgm"]);
    place.run("in --out out --resume").exits(0);
    let mode = |mode| fs::set_permissions(place.path("out/.histeqd"), Permissions::from_mode(mode)).unwrap();
    mode(0);
    let told = place.run_without_privileges("status out");
    mode(0o700);
    let Some(told) = told else { return };
    told.exits(3).says("error: the ledger out/.histeqd/ledger.sqlite cannot be read: Permission denied");
    told.says("; run this as the user of the service");
}

#[test]
fn a_ledger_belongs_to_one_output_folder() {
    let place = Place::with(&["in/a.pgm"]);
    let service = Service::start(&place, "--state state");
    wait("the output", || is_bright(&place, "a.pgm"));
    let other = place.run("--watch in --out other --state state");
    other
        .exits(3)
        .says(&format!("another histeqd (process {}) already keeps its ledger in state", service.pid()));
    other.says(&format!("in state, for {}; stop it, or choose another --state", place.path("out").display()));
    place.run("in --out other --resume --state state").exits(3).says("keeps its ledger in state");
    // A folder's name, not a URI.
    place.run("in --out more --resume --state file:state").exits(0);
    assert!(place.path("file:state/ledger.sqlite").exists());
    service.kill();
    let service = Service::start(&place, "--state state");
    assert_eq!(times_done(&service.log(), "a.pgm"), 1);
    assert_eq!(service.stop(), Some(0));
}

#[test]
fn an_output_folder_that_comes_back_is_still_one_service_s() {
    let place = Place::with(&["in/a.pgm"]);
    let out = place.path("out");
    let service = Service::start(&place, "");
    fs::rename(&out, place.path("away")).unwrap();
    wait("the lock", || out.join(".histeqd/lock").exists());
    place.run("--watch in --out out").exits(3).says(&format!("another histeqd (process {})", service.pid()));
    let taken = (0..).find_map(|number| {
        fs::rename(&out, place.path(format!("away-{number}"))).unwrap();
        Lock::take(&out, &out.join(".histeqd")).ok()
    });
    wait("the loss to be said", || {
        service
            .log()
            .contains(&format!("error: another histeqd (process {}) is already using", std::process::id()))
    });
    assert_eq!(service.ends(), Some(3));
    drop(taken);
}

#[test]
fn the_configuration_can_be_reloaded() {
    let place = Place::with(&["in/a.pgm"]);
    place.file("my.toml", "after = 'keep'\n");
    let service = Service::start(&place, "--config my.toml");
    wait("the output", || is_bright(&place, "a.pgm"));
    place.file("my.toml", "after = 'delete'\nthreads = 7\n");
    service.signal(Signal::HUP);
    wait("the reload", || service.log().contains("restart the service for the changes to threads\n"));
    assert!(service.log().contains("configuration reloaded: changes to after are in force\n"));
    wait("the input to be removed", || !place.path("in/a.pgm").exists());
    place
        .file("my.toml", "quality = 50\nmax-pixels = 100\ntile-size = 64\noverwrite = true\nsettle = '1s'\n");
    service.signal(Signal::HUP);
    let all = "restart the service for the changes to max-pixels, quality, tile-size\n";
    wait("every key to be named", || service.log().contains(all));
    assert!(service.log().contains("overwrite = true has no effect in a service"));
    assert!(service.log().contains("reloaded: changes to after, settle are in force\n"));
    service.signal(Signal::HUP);
    let nothing = "reloaded: no changes for the running service\n";
    wait("a reload of the same to be told", || service.log().contains(nothing));
    place.file("my.toml", "after = 'burn'\n");
    service.signal(Signal::HUP);
    wait("the mistake to be named", || service.log().contains("configuration not reloaded"));
    drop_in(&place, "b.pgm", DULL);
    wait("the next input to be done", || is_bright(&place, "b.pgm"));
}

#[test]
fn a_reload_can_make_a_watched_folder_the_archive() {
    let place = Place::with(&["in/archive/old.pgm"]);
    place.file("my.toml", "after = 'keep'\n");
    let service = Service::start(&place, "--config my.toml");
    wait("the output", || is_bright(&place, "archive/old.pgm"));
    place.file("my.toml", "after = 'move:in/archive'\n");
    service.signal(Signal::HUP);
    wait("the reload", || service.log().contains("configuration reloaded"));
    for name in ["a.pgm", "b.pgm"] {
        drop_in(&place, name, DULL);
        wait("the input to move", || place.path("in/archive").join(name).exists());
    }
    assert_eq!(service.stop(), Some(0));
    assert_eq!(outputs(&place), ["a.pgm", "archive/old.pgm", "b.pgm"]);
}

#[test]
fn single_runs_can_go_by_the_same_ledger() {
    let place = Place::with(&["in/a.pgm", "in/b.pgm"]);
    let done = |arguments: &str| {
        place.run(&format!("in --out out --json {arguments}")).exits(0).json()["done"].clone()
    };
    assert_eq!(done("--resume"), 2);
    assert_eq!(done("--resume"), 0);
    assert_eq!(done("--resume --method clahe"), 2);
    assert_eq!(done("--method clahe"), 0, "the outputs tell without the ledger");
    place.file("in/b.pgm", picture(1, 9));
    assert_eq!(done("--resume --method clahe"), 1);
    let service = Service::start(&place, "--method clahe");
    drop_in(&place, "c.pgm", DULL);
    wait("the third", || times_done(&service.log(), "c.pgm") == 1);
    assert_eq!(times_done(&service.log(), "a.pgm") + times_done(&service.log(), "b.pgm"), 0);
    place.run("in --out out --resume").exits(3).says("another histeqd (process ");
    service.stop();
    assert_eq!(done("--resume --method clahe"), 0);
}

#[test]
fn a_single_run_records_failures_and_tries_them_again() {
    let place = Place::with(&["in/a.pgm", "in/b.pgm"]);
    place.file("in/broken.pgm", "P5 4 1 255 ");
    place.file("in/notes.txt", "no picture");
    // A folder in the way of an output can go away; the broken picture stays broken.
    place.file("out/b.pgm/file", "");
    for _ in 0..2 {
        let ran = place.run("in --out out --resume");
        ran.exits(1).says("failed: in/broken.pgm: ").says("a folder is in the way");
        let told = place.run("status out --json").exits(0).json();
        let counts = ["done", "failed", "retrying", "skipped", "running"].map(|state| told[state].as_u64());
        assert_eq!(counts, [1, 1, 1, 1, 0].map(Some), "{told}");
        assert!(told["failures"][0]["input"].as_str().unwrap().ends_with("/broken.pgm"), "{told}");
    }
    fs::remove_dir_all(place.path("out/b.pgm")).unwrap();
    place.run("in --out out --resume").exits(1).says("Failed: 1");
    assert!(is_bright(&place, "b.pgm"));
}

#[test]
fn an_input_whose_output_a_power_failure_may_have_taken_is_done_again_before_it_goes() {
    // With fast durability, the ledger and the output's name may have reached the disk before the
    // output.
    for left in [None, Some(&b""[..]), Some(&BRIGHT[..BRIGHT.len() - 1])] {
        let place = Place::with(&["in/a.pgm"]);
        let service = Service::start(&place, "--after keep");
        wait("the output", || is_bright(&place, "a.pgm"));
        assert_eq!(service.stop(), Some(0));
        let output = place.path("out/a.pgm");
        left.map_or_else(|| fs::remove_file(&output), |left| fs::write(&output, left)).unwrap();
        let service = Service::start(&place, "--after delete");
        wait("the input to go", || !place.path("in/a.pgm").exists());
        assert!(is_bright(&place, "a.pgm"));
        assert_eq!(service.stop(), Some(0));
    }
}

#[test]
fn an_input_that_a_killed_service_was_about_to_move_is_done_again_only_when_it_is_put_back() {
    let place = Place::with(&["in/a.pgm"]);
    let start = |after: &str| {
        Service::spawn(&place, &mut place.histeqd(&format!("--watch in --out out --verbose --after {after}")))
    };
    let service = start("keep");
    wait("the output", || times_done(&service.log(), "a.pgm") == 1);
    assert_eq!(service.stop(), Some(0));
    // The state that a kill leaves, after the output has been collected.
    fs::rename(place.path("in/a.pgm"), place.path("in/.histeqd-done-a.pgm")).unwrap();
    fs::remove_file(place.path("out/a.pgm")).unwrap();
    let service = start("move:kept");
    let is_away = || place.path("kept/a.pgm").exists();
    wait("the input to move", is_away);
    assert_eq!(times_done(&service.log(), "a.pgm"), 1);
    fs::rename(place.path("kept/a.pgm"), place.path("in/a.pgm")).unwrap();
    wait("another output", || is_bright(&place, "a.pgm") && is_away());
    assert_eq!(times_done(&service.log(), "a.pgm"), 2);
    assert_eq!(service.stop(), Some(0));
}
