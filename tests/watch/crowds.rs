//! Many files at once (HISTEQD_CROWD sets how many), and one after another for a long time
//! (HISTEQD_SOAK).

use std::collections::BTreeMap;
use std::fs;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::service::{Service, drop_in, expected, from_environment, outputs, picture, times_done};
use crate::harness::{BRIGHT, DULL, Place, skipped, wait};

/// How long a test waits for all outputs before it fails: enough on a machine under load.
const VERY_LONG: Duration = Duration::from_secs(1200);

fn wait_for_count(place: &Place, count: usize) {
    let start = Instant::now();
    while outputs(place).iter().filter(|name| !name.contains(".tmp")).count() < count {
        assert!(start.elapsed() < VERY_LONG, "{} of {count}", outputs(place).len());
        std::thread::sleep(Duration::from_millis(200));
    }
}

#[test]
fn thousands_of_small_files_at_once_are_all_done_once() {
    let count = from_environment("HISTEQD_CROWD", 2_000);
    let place = Place::new();
    let service = Service::start(&place, "");
    for number in 0..count {
        place.file(format!("in/{number}.pgm"), DULL);
    }
    wait_for_count(&place, count as usize);
    assert_eq!(service.stop(), Some(0));
    assert!((0..count).all(|number| place.read(format!("out/{number}.pgm")) == BRIGHT));
    let log = fs::read_to_string(place.path("log")).unwrap();
    assert_eq!(log.lines().filter(|line| line.contains(" done: ")).count(), count as usize);
}

#[test]
fn inotify_queue_overflow_loses_no_file() {
    let queue = fs::read_to_string("/proc/sys/fs/inotify/max_queued_events").unwrap();
    let files: usize = queue.trim().parse::<usize>().unwrap() / 3 + 500;
    if files > 50_000 {
        skipped(format_args!("the kernel's queue is too long to be filled: {queue}"));
        return;
    }
    let place = Place::new();
    let service = Service::start(&place, "");
    wait("the first listing", || service.log().contains("watching "));
    service.signal(Signal::STOP);
    for number in 0..files {
        place.file(format!("in/{number}.pgm"), DULL);
    }
    place.file("in/folder/last.pgm", DULL);
    service.signal(Signal::CONT);
    wait_for_count(&place, files + 1);
    wait("the loss to be said", || service.log().contains("some were lost"));
    assert_eq!(times_done(&service.log(), "folder/last.pgm"), 1);
}

/// Returns the number of inotify watches that a process holds.
fn watches(pid: u32) -> usize {
    let files = fs::read_dir(format!("/proc/{pid}/fdinfo")).unwrap();
    let told = files.filter_map(|file| fs::read_to_string(file.ok()?.path()).ok());
    told.map(|told| told.lines().filter(|line| line.starts_with("inotify ")).count()).sum()
}

#[test]
fn many_folders_that_go_at_once_keep_nothing_waiting() {
    const FOLDERS: usize = 5_000;
    let limit = fs::read_to_string("/proc/sys/fs/inotify/max_user_watches").unwrap();
    if limit.trim().parse::<usize>().unwrap() < 4 * FOLDERS {
        skipped(format_args!("too few folders may be watched here: {limit}"));
        return;
    }
    let place = Place::new();
    for number in 0..FOLDERS {
        fs::create_dir_all(place.path(format!("in/{}/{number}", number / 500))).unwrap();
    }
    let service = Service::start(&place, "");
    wait("all watches", || watches(service.pid()) > FOLDERS);
    for entry in fs::read_dir(place.path("in")).unwrap() {
        fs::remove_dir_all(entry.unwrap().path()).unwrap();
    }
    drop_in(&place, "new/a.pgm", DULL);
    // All this takes a second. If the service searched all folders for each one that goes, it would
    // take longer than `wait` allows.
    wait("the picture that came after", || place.path("out/new/a.pgm").exists());
    wait("the watches to end", || watches(service.pid()) == 2);
    assert_eq!(service.stop(), Some(0));
}

/// Returns the resident memory in kB, and the numbers of file descriptors and threads of a process.
/// Huge pages are left out, as the system makes them of pieces of memory at any time.
fn takes(pid: u32) -> (u64, usize, usize) {
    let rollup = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap();
    let of = |key: &str| -> u64 {
        let line = rollup.lines().find(|line| line.split(':').next() == Some(key));
        line.map_or(0, |line| line.split_whitespace().nth(1).unwrap().parse().unwrap())
    };
    let huge: u64 = ["AnonHugePages", "ShmemPmdMapped", "FilePmdMapped"].into_iter().map(of).sum();
    let memory = of("Rss") - huge;
    let count = |what| fs::read_dir(format!("/proc/{pid}/{what}")).unwrap().count();
    (memory, count("fd"), count("task"))
}

/// The number of measurements during a long run.
const POINTS: u64 = 10;

#[test]
fn a_long_run_does_not_leak() {
    let rounds = from_environment("HISTEQD_SOAK", 1_500).div_ceil(100).max(POINTS);
    let place = Place::new();
    let service = Service::start(&place, "--after delete --threads 2");
    let content = picture(1, 64);
    let right = expected(&BTreeMap::from([("a.pgm".to_owned(), content.clone())]));
    let mut points = Vec::new();
    for round in 1..=rounds {
        for number in 0..100 {
            drop_in(&place, &format!("{round}-{number}.pgm"), &content);
        }
        wait("the inputs to be done and removed", || place.tree("in").is_empty());
        assert_eq!(place.read(format!("out/{round}-99.pgm")), right["a.pgm"]);
        if round * POINTS / rounds > points.len() as u64 {
            points.push(takes(service.pid()));
            println!(
                "after {} pictures: memory in kB, files, threads {:?}",
                round * 100,
                points[points.len() - 1]
            );
        }
    }
    let (early, late) = (points[2], points[points.len() - 1]);
    assert!(late.0 < early.0 + 4096, "{early:?} {late:?}");
    assert!(late.1 <= early.1 + 2 && late.2 <= early.2, "{early:?} {late:?}");
}
