//! Ctrl-C: once to finish pictures in progress, twice to exit at once; no partial file either way.

use std::fs;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::harness::{Place, Ran, binary, wait};

const PICTURES: usize = 300;
const SIDE: usize = 1000;

/// A place with more pictures than can be done before a test reacts: one file under many names.
fn busy() -> Place {
    let place = Place::new();
    let mut picture = format!("P5\n{SIDE} {SIDE}\n255\n").into_bytes();
    picture.extend((0..SIDE * SIDE).map(|n| (n % 200) as u8));
    place.file("in/0.pgm", picture);
    for number in 1..PICTURES {
        fs::hard_link(place.path("in/0.pgm"), place.path(format!("in/{number}.pgm"))).unwrap();
    }
    place
}

fn start(place: &Place, flags: &str) -> Child {
    // With many threads, all pictures would be under way at once.
    let mut command = place.histeqd(&format!("in --out done --devices cpu --threads 2 {flags}"));
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    wait("the first output", || place.tree("done").iter().any(|name| name.ends_with(".pgm")));
    child
}

fn interrupt(child: &Child) {
    signal(child, Signal::INT);
}

fn signal(child: &Child, signal: Signal) {
    kill_process(Pid::from_child(child), signal).unwrap();
}

/// Asserts that every output is whole and that there are no other files but a ledger, and returns
/// the number of outputs.
fn assert_whole(place: &Place) -> usize {
    let expected = fs::metadata(place.path("in/0.pgm")).unwrap().len();
    let mut outputs = place.tree("done");
    outputs.retain(|name| !name.starts_with(".histeqd/"));
    for output in &outputs {
        assert!(output.ends_with(".pgm"), "{output} was left behind");
        let length = fs::metadata(place.path(format!("done/{output}"))).unwrap().len();
        assert_eq!(length, expected, "{output} is partial");
    }
    outputs.len()
}

#[test]
fn the_first_signal_finishes_what_was_begun() {
    let place = busy();
    let child = start(&place, "");
    interrupt(&child);
    let ran = Ran::from(child.wait_with_output().unwrap());
    ran.exits(130).says("stopping: ").says("pictures not started; run the same command again to continue");
    let done = assert_whole(&place);
    assert!(done < PICTURES);

    let rest = place.run("in --out done --devices cpu --json").exits(0).json();
    assert_eq!(rest["done"], PICTURES - done);
    assert_eq!(assert_whole(&place), PICTURES);
}

#[test]
fn after_a_stop_no_picture_is_in_progress_for_the_ledger() {
    let place = busy();
    let child = start(&place, "--resume");
    interrupt(&child);
    assert_eq!(child.wait_with_output().unwrap().status.code(), Some(130));
    let done = assert_whole(&place);
    assert!(done < PICTURES);
    let status = || place.run("status done --json").exits(0).json();
    assert_eq!((status()["done"].as_u64(), status()["running"].as_u64()), (Some(done as u64), Some(0)));
    // Without the ledger, these get outputs with other settings.
    place.run("in --out done --devices cpu --method clahe").exits(0);
    let rest = place.run("in --out done --devices cpu --resume --json").exits(0).json();
    assert_eq!(rest["done"], PICTURES - done);
}

#[test]
fn the_first_signal_leaves_pictures_that_wait_for_a_thread() {
    // Files this small are handed to the only decoder all together.
    const FILES: usize = 8;
    let place = Place::new();
    let side = 4000_usize;
    let mut picture = format!("P5\n{side} {side}\n255\n").into_bytes();
    picture.resize(picture.len() + side * side, 7);
    place.file("plain/0.pgm", picture);
    place.run("plain --out in --format png --png-level small").exits(0);
    assert!(fs::metadata(place.path("in/0.png")).unwrap().len() * (FILES as u64) < 256 << 10);
    (1..FILES).for_each(|number| {
        fs::hard_link(place.path("in/0.png"), place.path(format!("in/{number}.png"))).unwrap();
    });
    let mut command = place.histeqd("in --out done --devices cpu --threads 1 --png-level small");
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    wait("the first picture to be started", || !place.tree("done").is_empty());
    interrupt(&child);
    let ran = Ran::from(child.wait_with_output().unwrap());
    ran.exits(130).says("stopping: ").says("pictures not started");
}

#[test]
fn an_ignored_hangup_stays_ignored() {
    let place = busy();
    let run = format!("trap '' HUP; exec '{}' in --out done --devices cpu --threads 2", binary());
    let mut command = place.command("sh", ["-c", &run]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    wait("the first output", || place.tree("done").iter().any(|name| name.ends_with(".pgm")));
    signal(&child, Signal::HUP);
    Ran::from(child.wait_with_output().unwrap()).exits(0);
    assert_eq!(assert_whole(&place), PICTURES);
}

#[test]
fn the_first_signal_ends_a_long_search_at_once() {
    // Every folder has two links to the next, which makes 2^24 paths to the last.
    const DEPTH: usize = 24;
    let place = Place::with(&["in/0/a.pgm"]);
    for depth in 0..DEPTH {
        fs::create_dir_all(place.path(format!("in/{}", depth + 1))).unwrap();
        place.link(format!("../{}", depth + 1), &format!("in/{depth}/left"));
        place.link(format!("../{}", depth + 1), &format!("in/{depth}/right"));
    }
    let mut command = place.histeqd("in/0 --out done --devices cpu --links follow");
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    wait("the signal handler", || catches_interrupts(&child));
    std::thread::sleep(Duration::from_millis(300));
    interrupt(&child);
    let asked = Instant::now();
    let ran = Ran::from(child.wait_with_output().unwrap());
    ran.exits(130).says("Stopped before any picture was started");
    assert!(asked.elapsed() < Duration::from_secs(5), "it went on for {:?}", asked.elapsed());
    assert!(!place.path("done").exists());
}

/// Whether the process has set a handler for SIGINT yet.
fn catches_interrupts(child: &Child) -> bool {
    let status = fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap();
    u64::from_str_radix(caught.trim(), 16).unwrap() >> (Signal::INT.as_raw() - 1) & 1 == 1
}

#[test]
fn the_second_signal_leaves_at_once_without_a_trace() {
    let place = busy();
    let child = start(&place, "");
    // Sent at once, since the pictures under way do not take long; another signal, since a pending
    // one absorbs more of its kind.
    interrupt(&child);
    signal(&child, Signal::TERM);
    let ran = Ran::from(child.wait_with_output().unwrap());
    ran.exits(130);
    assert!(!ran.stderr().contains("Done:"), "it waited for the pictures under way: {ran}");
    assert!(assert_whole(&place) < PICTURES);
}

#[test]
fn a_limit_on_file_sizes_fails_the_pictures_beyond_it_and_not_the_run() {
    let place = Place::with(&["in/small.pgm"]);
    let mut large = format!("P5\n{SIDE} {SIDE}\n255\n").into_bytes();
    large.extend((0..SIDE * SIDE).map(|n| (n % 200) as u8));
    place.file("in/large.pgm", large);
    // In blocks of 512 bytes.
    let run = format!("ulimit -f 100; exec '{}' in --out done --devices cpu --threads 1", binary());
    let ran = Ran::from(place.command("sh", ["-c", &run]));
    ran.exits(1).says("in/large.pgm: ");
    assert_eq!(place.tree("done"), ["small.pgm"]);
}
