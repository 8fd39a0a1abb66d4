//! Obstacles: a full disk, folders inside one another, mounts that come and go, a damaged ledger.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use super::service::{Service, drop_in, expected, picture, times_done};
use crate::harness::{BRIGHT, DULL, Place, Ran, binary, skipped, wait};

#[test]
fn no_output_lands_in_a_watched_folder() {
    let place = Place::with(&["pool/b/y.pgm", "cam/b/x.pgm"]);
    let service =
        Service::spawn(&place, &mut place.histeqd("--watch pool/b cam --out pool --state state --verbose"));
    wait("the refusal", || service.log().contains("would replace an input"));
    wait("the other output", || place.path("pool/y.pgm").exists());
    assert!(!place.path("pool/b/x.pgm").exists());
    assert_eq!(service.stop(), Some(0));
}

#[test]
fn an_input_that_comes_back_does_not_count_as_done_by_anothers_output() {
    let place = Place::with(&["one/a.pgm"]);
    fs::create_dir(place.path("two")).unwrap();
    let service = Service::spawn(&place, &mut place.histeqd("--watch one two --out out --verbose"));
    let is_said = |words: &str| service.log().contains(words);
    wait("the first output", || is_said("/one/a.pgm -> "));
    fs::rename(place.path("one"), place.path("away")).unwrap();
    wait("the loss to be noticed", || is_said("is gone"));
    place.file("two/a.pgm", DULL);
    wait("the second output", || is_said("/two/a.pgm -> "));
    fs::rename(place.path("away"), place.path("one")).unwrap();
    wait("the refusal", || is_said("/one/a.pgm: ") && is_said("/two/a.pgm would have the same output"));
    assert_eq!(service.stop(), Some(0));
}

#[test]
fn a_repeated_refusal_is_logged_at_info_once() {
    let place = Place::with(&["in/a.pgm", "in/a.pnm"]);
    let service = Service::start(&place, "--format png");
    let tries = || {
        let log = service.log();
        let tries = log.lines().filter(|line| line.contains("retried in "));
        tries.map(str::to_owned).collect::<Vec<_>>()
    };
    wait("two refusals", || tries().len() >= 2);
    let is_loud = |line: &String| line.contains(" INFO ");
    assert!(tries().iter().take(2).map(is_loud).eq([true, false]), "{:?}", tries());
    assert_eq!(service.stop(), Some(0));
}

#[test]
fn work_goes_on_with_a_new_ledger_where_one_turns_out_to_be_damaged() {
    let place = Place::with(&["in/a.pgm"]);
    let damage = || {
        let file = File::options().write(true).open(place.path("out/.histeqd/ledger.sqlite")).unwrap();
        // The page of the table, after the one of the schema.
        file.write_all_at(&[7; 4096], 4096).unwrap();
    };
    let run = || place.run("in --out out --resume --json");
    assert_eq!(run().exits(0).json()["done"], 1);
    damage();
    assert_eq!(run().exits(0).says("ledger.broken-").json()["done"], 1);
    damage();
    let service = Service::start(&place, "");
    wait("the rework", || times_done(&service.log(), "a.pgm") == 1);
    assert!(service.log().contains("ledger.broken-"), "{}", service.log());
    assert_eq!(service.stop(), Some(0));
    assert_eq!(run().exits(0).json()["done"], 0);
}

#[test]
fn nothing_is_started_while_the_lock_cannot_be_looked_after() {
    let place = Place::with(&["in/a.pgm"]);
    let service = Service::start(&place, "");
    wait("the first output", || place.path("out/a.pgm").exists());
    // A file where the ledger's folder belongs: it can neither be opened nor made.
    fs::rename(place.path("out/.histeqd"), place.path("away")).unwrap();
    place.file("out/.histeqd", "");
    wait("the loss to be said", || service.log().contains("nothing more is started until this is resolved"));
    drop_in(&place, "b.pgm", DULL);
    thread::sleep(Duration::from_millis(500));
    assert!(!place.path("out/b.pgm").exists());
    fs::remove_file(place.path("out/.histeqd")).unwrap();
    fs::rename(place.path("away"), place.path("out/.histeqd")).unwrap();
    wait("the second output", || place.path("out/b.pgm").exists());
    assert_eq!(times_done(&service.log(), "a.pgm"), 1);
    assert_eq!(service.stop(), Some(0));
}

#[test]
fn what_is_long_gone_is_forgotten_although_other_folders_are_missing_or_not_mounted() {
    let place = Place::with(&["in/a.pgm", "in/d.pgm", "other/b.pgm", "mount/c.pgm"]);
    place.run("in other mount --out out --resume").exits(0);
    let ledger = rusqlite::Connection::open(place.path("out/.histeqd/ledger.sqlite")).unwrap();
    ledger.execute("UPDATE picture SET started = 1, finished = 1", []).unwrap();
    drop(ledger);
    fs::remove_file(place.path("in/a.pgm")).unwrap();
    fs::rename(place.path("other"), place.path("away")).unwrap();
    fs::remove_file(place.path("mount/c.pgm")).unwrap();
    let service = Service::spawn(&place, &mut place.histeqd("--watch in other mount --out out"));
    wait("the gone one to be forgotten", || service.log().contains("removed 1 picture from the ledger"));
    fs::rename(place.path("away"), place.path("other")).unwrap();
    wait("the folder to be back", || service.log().matches("INFO watching ").count() == 3);
    assert_eq!(service.stop(), Some(0));
    let told = place.run("status out --json").exits(0).json();
    assert_eq!(
        (&told["done"], &told["last_hour"]),
        (&3.into(), &0.into()),
        "known, and not done again: {told}"
    );
}

#[test]
fn inputs_cannot_be_put_aside_where_they_are_watched() {
    for flags in ["--after move:in", "--failed ./in", "--state in"] {
        let place = Place::with(&["in/a.pgm"]);
        let run = place.run(&format!("--watch in --out out {flags}"));
        run.exits(2).says("is a watched folder; --after move:DIR");
        let left: Vec<_> =
            fs::read_dir(place.path("in")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(left, ["a.pgm"], "{flags}");
        assert!(!place.path("out").exists(), "{flags}");
    }
}

#[test]
fn an_output_folder_is_not_watched_under_another_name() {
    let place = Place::with(&["in/a.pgm"]);
    std::os::unix::fs::symlink(".", place.path("alias")).unwrap();
    // Neither folder exists yet.
    place.run("--watch alias/new --out new").exits(2).says("is both an input and the output folder");
    let both = "is both an input and the output folder";
    for (flags, why) in [("--out out", both), ("--out done --after move:out", "is a watched folder")] {
        let script = format!(
            "mkdir -p out && mount --bind in out && touch mounted; exec '{}' --watch in {flags}",
            binary()
        );
        let run = Ran::from(place.with_mounts(&script));
        if !place.path("mounted").exists() {
            return skipped(format_args!("no mounts of our own here: {}", run.stderr()));
        }
        run.exits(2).says(why);
    }
    assert_eq!(place.read("in/a.pgm"), DULL);
}

#[test]
fn an_output_that_would_lie_in_a_watched_folder_or_among_the_inputs_put_away_is_refused() {
    let place = Place::with(&["in/x/a.pgm"]);
    fs::create_dir_all(place.path("out")).unwrap();
    std::os::unix::fs::symlink("../in/x", place.path("out/x")).unwrap();
    let service = Service::start(&place, "--after move:out/originals");
    wait("the refusal", || service.log().contains("out/x/a.pgm would replace an input"));
    assert_eq!(place.read("in/x/a.pgm"), DULL);
    drop_in(&place, "b.pgm", DULL);
    wait("the input to move", || place.path("out/originals/b.pgm").exists());
    drop_in(&place, "originals/b.pgm", BRIGHT);
    wait("the other refusal", || {
        service.log().contains("out/originals/b.pgm would lie in a folder of --after, --failed or --state")
    });
    assert_eq!(place.read("out/originals/b.pgm"), DULL);
    assert_eq!(service.stop(), Some(0));
}

#[test]
fn an_output_is_refused_in_a_mount_of_its_inputs_folder() {
    let place = Place::with(&["in/x/a.pgm"]);
    let mount = "mkdir -p out/x && mount --bind in/x out/x";
    let Some(service) = with_mounts(&place, mount, ":", "") else { return };
    wait("the refusal", || service.log().contains("out/x/a.pgm would replace an input"));
    assert_eq!(place.read("in/x/a.pgm"), DULL);
    assert_eq!(service.stop(), Some(0));
}

#[test]
fn an_archive_in_the_output_folder_by_another_name_is_left_alone() {
    let place = Place::with(&["in/b.pgm"]);
    fs::create_dir_all(place.path("real")).unwrap();
    std::os::unix::fs::symlink("real", place.path("out")).unwrap();
    let service = Service::start(&place, "--after move:real/originals");
    wait("the input to move", || place.path("out/originals/b.pgm").exists());
    drop_in(&place, "originals/b.pgm", BRIGHT);
    wait("the refusal", || service.log().contains("would lie in a folder of --after, --failed or --state"));
    assert_eq!(place.read("real/originals/b.pgm"), DULL);
    assert_eq!(service.stop(), Some(0));
}

#[test]
fn an_inbox_that_is_watched_under_another_path_is_not_its_own_rival() {
    let place = Place::with(&["in/a.pgm"]);
    std::os::unix::fs::symlink("in", place.path("alias")).unwrap();
    let service = Service::start(&place, "");
    wait("the output", || place.path("out/a.pgm").exists());
    service.stop();
    fs::remove_file(place.path("out/a.pgm")).unwrap();
    let command = "--watch alias in --out out --durability fast --verbose";
    let service = Service::spawn(&place, &mut place.histeqd(command));
    wait("another output", || place.path("out/a.pgm").exists());
    drop_in(&place, "a.pgm", &picture(1, 20));
    wait("the output of its replacement", || service.log().matches("done: ").count() == 3);
    assert!(!service.log().contains("would have the same output"), "{}", service.log());
}

#[test]
fn an_archive_that_takes_nothing_is_tried_again() {
    let place = Place::with(&["in/a.pgm"]);
    // A file where the archive should be: like a full disk, it takes no inputs.
    place.file("kept", "");
    let service = Service::start(&place, "--after move:kept");
    wait("the failure to be said", || service.log().contains("a.pgm is done, and stays for now"));
    wait("it to be counted", || {
        let status = place.histeqd("status out --json").output().unwrap();
        let status: serde_json::Value = serde_json::from_slice(&status.stdout).unwrap();
        let staying = status["daemon"]["staying"].as_str().unwrap_or_default();
        status["daemon"]["leaving"] == 1 && staying.contains("in/a.pgm cannot be moved to ")
    });
    place.run("status out").exits(0).prints("\nstaying   ").prints("in/a.pgm cannot be moved to kept: ");
    fs::remove_file(place.path("kept")).unwrap();
    wait("the input to move", || place.path("kept/a.pgm").exists() && !place.path("in/a.pgm").exists());
    assert_eq!(service.stop(), Some(0));
}

/// Starts a service in a mount namespace of its own after `first` has run there; `then` runs once a
/// file `go` exists. Reports a skip and returns `None` where mounts are not allowed.
fn with_mounts(place: &Place, first: &str, then: &str, flags: &str) -> Option<Service> {
    fs::create_dir_all(place.path("in/card")).unwrap();
    let script = format!(
        "{first} || exit 99; (while [ ! -e go ]; do kill -0 $$ || exit; sleep 0.05; done; {then}) & \
         exec '{}' --watch in --out out --verbose {flags}",
        binary()
    );
    let service = Service::spawn(place, &mut place.with_mounts(&script));
    let log = || service.log();
    wait("the mount", || {
        log().contains("watching ") || log().contains("unshare:") || log().contains("mount:")
    });
    if !log().contains("watching ") {
        skipped(format_args!("no mounts of our own here: {}", log()));
        return None;
    }
    Some(service)
}

#[test]
fn what_is_mounted_below_a_watched_folder_is_found() {
    let place = Place::with(&["a.pgm"]);
    let then = "mount -t tmpfs none in/card && cp a.pgm in/card/a.pgm";
    let Some(service) = with_mounts(&place, "mount -t tmpfs none in/card && umount in/card", then, "") else {
        return;
    };
    place.file("go", "");
    wait("the output", || place.path("out/card/a.pgm").exists());
    assert_eq!(service.stop(), Some(0));
}

#[test]
fn a_watched_folder_that_is_mounted_anew_at_once_is_watched_on() {
    let place = Place::with(&["a.pgm"]);
    let first = "mount -t tmpfs none in";
    let then = format!(
        "until umount in; do sleep 0.05; done; {first} && touch gone && while [ -e gone ]; do sleep 0.05; done; cp a.pgm in"
    );
    let Some(service) = with_mounts(&place, first, &then, "") else { return };
    place.file("go", "");
    wait("the other mount", || place.path("gone").exists());
    wait("it to be noticed", || service.log().contains("mounted or unmounted"));
    fs::remove_file(place.path("gone")).unwrap();
    wait("the output", || place.path("out/a.pgm").exists());
    assert_eq!(service.stop(), Some(0));
}

#[test]
fn an_output_folder_that_is_unmounted_is_waited_for() {
    let place = Place::with(&["a.pgm", "in/b.pgm"]);
    fs::create_dir_all(place.path("out")).unwrap();
    let mount = "mount -t tmpfs none out";
    let then = format!(
        "umount -l out && touch gone && while [ -e gone ]; do sleep 0.05; done; ls -A out > there; {mount} && touch back && \
         while [ ! -e out/c.pgm ]; do sleep 0.05; done; touch through"
    );
    let Some(service) = with_mounts(&place, mount, &then, "--after delete") else { return };
    wait("the first output", || !place.path("in/b.pgm").exists());
    place.file("go", "");
    wait("the loss", || place.path("gone").exists());
    drop_in(&place, "c.pgm", DULL);
    wait("it to be noticed", || {
        service.log().contains("/out, the mount point of the output folder, is not mounted")
    });
    // Time for checks of the lock and the ledger, which are made anew where they are only lost.
    thread::sleep(Duration::from_secs(5));
    assert!(place.path("in/c.pgm").exists());
    fs::remove_file(place.path("gone")).unwrap();
    wait("the other mount", || place.path("back").exists());
    assert_eq!(fs::read_to_string(place.path("there")).unwrap(), "", "nothing is made in its place");
    wait("the output", || place.path("through").exists());
    wait("the input to go", || !place.path("in/c.pgm").exists());
    assert_eq!(service.stop(), Some(0));
}

#[test]
fn a_full_disk_is_waited_for() {
    let place = Place::new();
    fs::create_dir_all(place.path("out")).unwrap();
    let mount = "mount -t tmpfs -o size=2m none out && head -c 1500k /dev/zero > out/filler";
    let Some(service) = with_mounts(&place, mount, ":", "--state state") else { return };
    let log = || service.log();
    let inputs: BTreeMap<_, _> =
        (0..5).map(|number| (format!("{number}.pgm"), picture(number, 500))).collect();
    let held = || {
        let told = place.run("status out --state state --json").exits(0).json();
        told["daemon"]["held"].as_str().map(str::to_owned)
    };
    drop_in(&place, "gone.pgm", &picture(9, 900));
    wait("the first to be held", || held().is_some());
    fs::remove_file(place.path("in/gone.pgm")).unwrap();
    wait("nothing to be held when nothing waits", || held().is_none());
    for (name, content) in &inputs {
        drop_in(&place, name, content);
    }
    wait("the full disk to be noticed again", || {
        log().matches("nothing more is started until this is resolved").count() >= 2
    });
    assert!(log().contains("; free some space\n") && !log().contains("same command"), "{}", log());
    // The mount is visible only in the service's namespace, and from here through its `/proc`
    // entry.
    let out = PathBuf::from(format!("/proc/{}/root", service.pid()))
        .join(place.path("out").strip_prefix("/").unwrap());
    fs::remove_file(out.join("filler")).unwrap();
    let right = expected(&inputs);
    wait("all outputs", || {
        right.iter().all(|(name, content)| fs::read(out.join(name)).is_ok_and(|output| output == *content))
    });
    wait("the end of the wait to be said", || log().contains("outputs can be written again"));
    let left: Vec<_> = fs::read_dir(&out).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left.len(), 6, "the outputs and .histeqd: {left:?}");
    assert!(!log().contains(" failed: "), "{}", log());
}

#[test]
fn a_ledger_that_cannot_be_written_is_logged_once() {
    let place = Place::new();
    fs::create_dir_all(place.path("out")).unwrap();
    let then =
        "while [ ! -e through ]; do cat /dev/zero >> out/filler 2>/dev/null; sleep 0.2; done; rm out/filler";
    let Some(service) = with_mounts(&place, "mount -t tmpfs -o size=2m none out", then, "") else { return };
    let told = || service.log().matches("WARN the ledger: ").count();
    place.file("go", "");
    wait("the full disk to be noticed", || told() > 0);
    // The ledger is written to every two seconds.
    thread::sleep(Duration::from_secs(7));
    assert_eq!(told(), 1, "{}", service.log());
    assert!(service.log().contains("disk is full; free some space"), "{}", service.log());
    place.file("through", "");
    wait("the end to be logged", || service.log().contains("the ledger can be written again"));
    assert_eq!(service.stop(), Some(0));
}
