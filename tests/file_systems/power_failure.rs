//! Power failures: after one at any moment, all synced data is there, and any part of the unsynced
//! data.

use std::collections::BTreeMap;
use std::fs;

use rusqlite::Connection;

use super::disk::Tree;
use super::mounted::{Manners, Mounted};
use crate::harness::{Place, wait};
use crate::samples::Random;
use crate::watch::service::{Service, expected, from_environment, picture};

/// The number of moments to try, with different parts of the unsynced data.
const MOMENTS: u64 = 150;
/// The number of these after which the work continues.
const STARTS: u64 = 5;

type Files = BTreeMap<String, Vec<u8>>;

/// Returns a mounted disk with pictures in its folder `in`, all of it synced, and the outputs that
/// they must have.
fn prepared(place: &Place, manners: Manners) -> Option<(Mounted, Files, Files)> {
    let inputs: Files =
        (0..6).map(|number| (format!("{}/{number}.pgm", number % 2), picture(number, 90))).collect();
    let mut mounted = Mounted::new(place, Tree::new(), Manners::default())?;
    for (name, content) in &inputs {
        place.file(format!("disk/in/{name}"), content);
    }
    let tree = mounted.disk().tree.clone();
    drop(mounted);
    mounted = Mounted::new(place, tree, manners)?;
    let expected = expected(&inputs);
    Some((mounted, inputs, expected))
}

/// Calls `check` with possible states after power failures at random moments, and the number of
/// each.
fn fail(mounted: Mounted, mut check: impl FnMut(u64, Tree)) {
    let seed = from_environment("HISTEQD_SEED", 1);
    println!("HISTEQD_SEED={seed}");
    let mut random = Random(seed);
    let disk = mounted.into_disk();
    let last = disk.now() as u64;
    for number in 0..MOMENTS {
        // The very last moment is one of them, with those around it.
        let moment = if number == 0 { last } else { random.below(last + 1) } as usize;
        let kept_of_8 = [0, 8, 4, 1, 7][number as usize % 5];
        check(number, disk.after_power_failure(moment, || random.below(8) < kept_of_8));
    }
}

/// Mounts the disk after a power failure, as after the next start of the machine.
fn start_again(place: &Place, tree: Tree) -> Mounted {
    let mounted = Mounted::new(place, tree, Manners::default()).unwrap();
    let lock = place.path("disk/out/.histeqd/lock");
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
    if let Ok(text) = fs::read_to_string(&lock) {
        fs::write(lock, text.replace(boot.trim(), "of the start before")).unwrap();
    }
    mounted
}

/// Expects a readable ledger. It is copied first: SQLite maps its files, and the server of a file
/// system may not map files of it.
fn expect_ledger(place: &Place, mounted: &Mounted) {
    for (name, content) in mounted.disk().tree.files("out") {
        if let Some(file) = name.strip_prefix(".histeqd/").filter(|file| file.starts_with("ledger.")) {
            place.file(format!("copy/{file}"), content);
        }
    }
    let db = Connection::open(place.path("copy/ledger.sqlite")).unwrap();
    let found: String = db.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(found, "ok");
    drop(db);
    fs::remove_dir_all(place.path("copy")).unwrap();
}

/// Returns the outputs: the files that are not hidden.
fn outputs(tree: &Tree) -> Files {
    let is_hidden = |name: &str| name.split('/').any(|part| part.starts_with('.'));
    let files = tree.files("out").into_iter().filter(|(name, _)| !is_hidden(name));
    files.map(|(name, content)| (name, content.to_owned())).collect()
}

fn expect_whole(found: &Files, expected: &Files) {
    for (name, content) in found {
        assert!(expected.get(name) == Some(content), "{name} is partial after a power failure");
    }
}

#[test]
fn after_a_power_failure_outputs_are_whole_and_the_next_run_does_the_rest() {
    let place = Place::new();
    let Some((mounted, _, expected)) = prepared(&place, Manners::default()) else { return };
    let run = || place.run("disk/in --out disk/out --resume --threads 2 --devices cpu");
    run().exits(0);
    fail(mounted, |number, tree| {
        let found = outputs(&tree);
        expect_whole(&found, &expected);
        assert!(number > 0 || found == expected, "what a run has done survives its end");
        if number < STARTS {
            let mounted = start_again(&place, tree);
            let ran = run();
            ran.exits(0);
            assert!(!ran.stderr().contains("could not be used"), "{ran}");
            expect_ledger(&place, &mounted);
            assert_eq!(outputs(&mounted.disk().tree), expected);
        }
    });
}

/// Lets a service put all inputs away, and checks that no power failure takes an input before its
/// output is there for good.
fn check_service(flags: &str, manners: Manners) {
    let place = Place::new();
    let Some((mounted, inputs, expected)) = prepared(&place, manners) else { return };
    let line = format!("--watch disk/in --out disk/out --devices cpu --threads 2 --settle 10ms -v {flags}");
    let service = Service::spawn(&place, &mut place.histeqd(&line));
    wait("an empty inbox", || place.tree("disk/in").is_empty());
    assert_eq!(service.stop(), Some(0));
    let is_full = flags.contains("full");
    fail(mounted, |number, tree| {
        let (waiting, found, archive) = (tree.files("in"), outputs(&tree), tree.files("archive"));
        for (name, content) in &inputs {
            let (folder, file) = name.split_once('/').unwrap();
            let hidden = format!("{folder}/.histeqd-done-{file}");
            let is_waiting = [name, &hidden].iter().any(|name| waiting.get(*name) == Some(&&**content));
            assert!(is_waiting || found.get(name) == expected.get(name), "{name} is lost: {flags}");
            let is_kept = archive.get(name) == Some(&&**content);
            assert!(
                is_waiting || is_kept || !flags.contains("move"),
                "the original of {name} is lost: {flags}"
            );
        }
        // With fast durability an output may be partial, as long as its input is there.
        if is_full {
            expect_whole(&found, &expected);
        }
        if is_full && number < STARTS {
            let mounted = start_again(&place, tree);
            let before = place.read("log").len();
            let service = Service::spawn(&place, &mut place.histeqd(&line));
            // There may be no rest: a signal before the service listens for it would kill it.
            wait("the rest", || {
                service.log()[before..].contains("watching ")
                    && place.tree("disk/in").is_empty()
                    && outputs(&mounted.disk().tree).len() == expected.len()
            });
            let log = service.log();
            assert_eq!(service.stop(), Some(0));
            expect_ledger(&place, &mounted);
            let made = outputs(&mounted.disk().tree);
            let names: Vec<&String> = made.keys().collect();
            assert!(made == expected, "{names:?} at moment {number}: {flags}\n{log}");
        }
    });
}

#[test]
fn no_power_failure_loses_an_input_that_is_deleted_when_done() {
    check_service("--after delete --durability full", Manners::default());
    check_service("--after delete --durability fast", Manners::default());
}

#[test]
fn no_power_failure_loses_an_input_that_is_moved_when_done() {
    let archive = "--after move:disk/archive --durability";
    check_service(&format!("{archive} full"), Manners::default());
    check_service(&format!("{archive} fast"), Manners::default());
    // In two steps, where a rename cannot spare an existing file, and by a copy, where it cannot
    // leave the folder.
    check_service(&format!("{archive} full"), Manners { renames_only_new: false, ..Manners::default() });
    check_service(&format!("{archive} full"), Manners { moves: false, ..Manners::default() });
}
