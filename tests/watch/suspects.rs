//! Pictures that were in progress when the process was killed.

use std::path::Path;

use rusqlite::Connection;

use super::service::{Service, drop_in, picture};
use crate::harness::{BRIGHT, DULL, Place, wait};

/// Workers with which every picture stays in progress.
const HANGING: (&str, &str) = ("cpu-workers:1", "hang@1*");

/// Starts a service that finishes no picture.
fn begin_hanging(place: &Place, flags: &str) -> Service {
    let flags = format!("--device-timeout 10min --method clahe {flags}");
    Service::begin_on(place, HANGING.0, Some(HANGING.1), &flags)
}

/// Returns the pictures in progress and how often each was begun, by name.
fn starts(place: &Place) -> Vec<(String, u32)> {
    let Ok(ledger) = Connection::open(place.path("out/.histeqd/ledger.sqlite")) else { return Vec::new() };
    let query = "SELECT CAST(input AS TEXT), starts FROM picture WHERE state = 'running' ORDER BY input";
    let Ok(mut query) = ledger.prepare(query) else { return Vec::new() };
    let name = |path: String| Path::new(&path).file_name().unwrap().to_string_lossy().into_owned();
    let rows = query.query_map([], |row| Ok((name(row.get(0)?), row.get(1)?)));
    rows.and_then(Iterator::collect).unwrap_or_default()
}

fn all(starts: u32) -> Vec<(String, u32)> {
    ["a.pgm", "b.pgm", "c.pgm"].map(|name| (name.to_owned(), starts)).to_vec()
}

fn drop_three(place: &Place) {
    for (number, name) in (1..).zip(["a.pgm", "b.pgm", "c.pgm"]) {
        drop_in(place, name, &picture(number, 50));
    }
}

#[test]
fn what_kills_the_service_again_and_again_is_given_up_until_it_is_retried() {
    let place = Place::with(&["in/a.pgm"]);
    for times in 1..=3 {
        let service = begin_hanging(&place, "");
        wait("the picture to be in progress", || starts(&place) == [("a.pgm".to_owned(), times)]);
        service.kill();
    }
    let service = Service::start(&place, "--method clahe --listen 127.0.0.1:0");
    wait("it to be given up", || service.log().contains("ERROR failed: "));
    let reason = "in/a.pgm: histeqd was killed 3 times in a row while it was in progress";
    assert!(service.log().contains(reason), "{}", service.log());
    place.run("status out").exits(0).prints("failed    1 for good").prints(reason);
    drop_in(&place, "b.pgm", DULL);
    wait("the others to go on", || place.path("out/b.pgm").exists());
    assert!(!place.path("out/a.pgm").exists());
    place.run("retry out nothing.pgm").exits(3).says("no failed picture matches");
    place.run("retry out a.pgm").exits(0).prints("1 picture will be retried now");
    wait("it to be taken up", || place.path("out/a.pgm").exists());
    place.run("retry out").exits(0).prints("no picture has failed for good");
    assert_eq!(service.stop(), Some(0));
}

#[test]
fn after_a_kill_each_that_was_in_progress_is_tried_alone_and_the_innocent_are_cleared() {
    let place = Place::new();
    drop_three(&place);
    let service = begin_hanging(&place, "--threads 4");
    wait("three to be in progress", || starts(&place) == all(1));
    service.kill();
    let service = begin_hanging(&place, "--threads 4");
    wait("one to be alone", || starts(&place).iter().filter(|(_, starts)| *starts == 2).count() == 1);
    drop_in(&place, "d.pgm", DULL);
    wait("the queue", || {
        place.run("status out --json").exits(0).json()["daemon"]["waiting"].as_u64().is_some_and(|n| n >= 2)
    });
    assert_eq!(starts(&place).len(), 3, "nothing has joined it");
    service.kill();
    let service = Service::start(&place, "--method clahe --threads 4");
    wait("all outputs", || {
        ["a", "b", "c", "d"].iter().all(|name| place.path(format!("out/{name}.pgm")).exists())
    });
    assert_eq!(service.log().matches("it is processed alone").count(), 4);
    assert_eq!(service.stop(), Some(0));
    let ledger = Connection::open(place.path("out/.histeqd/ledger.sqlite")).unwrap();
    let suspects: u32 =
        ledger.query_row("SELECT count(*) FROM picture WHERE starts > 0", [], |row| row.get(0)).unwrap();
    assert_eq!(suspects, 0);
}

#[test]
fn a_stop_blames_nobody_even_if_it_ends_in_a_kill() {
    let place = Place::with(&["in/a.pgm"]);
    for _ in 0..4 {
        let service = begin_hanging(&place, "");
        wait("the picture to be in progress", || starts(&place) == [("a.pgm".to_owned(), 1)]);
        service.signal(rustix::process::Signal::TERM);
        // If the stop came before the pipeline had taken it, it is not in progress any more.
        wait("the stop", || starts(&place).iter().all(|(_, starts)| *starts == 0));
        service.kill();
    }
    assert_eq!(place.run("status out --json").exits(0).json()["failed"], 0);
}

#[test]
fn a_resumed_run_gives_up_what_kills_it_too() {
    let place = Place::new();
    drop_three(&place);
    let resume = "in --out out --resume --threads 4 --quiet";
    let begin = || {
        let mut command = place.histeqd(&format!("{resume} --devices cpu-workers:1 --device-timeout 10min"));
        Service::spawn(&place, command.env("HISTEQD_FAULT", "hang@1*"))
    };
    let run = begin();
    wait("three to be in progress", || starts(&place) == all(1));
    run.kill();
    for times in 2..=3 {
        let run = begin();
        wait("the first to be alone", || {
            starts(&place) == [("a.pgm".into(), times), ("b.pgm".into(), 1), ("c.pgm".into(), 1)]
        });
        run.kill();
    }
    let told = place.run(&format!("{resume} --json"));
    told.exits(1).says("in/a.pgm: histeqd was killed 3 times in a row while it was in progress");
    let summary = told.json();
    assert_eq!((&summary["done"], summary["failed"].as_array().unwrap().len()), (&2.into(), 1));
    place.run(resume).exits(1).says("in/a.pgm: histeqd was killed 3 times");
    place
        .run("retry out in/a.pgm")
        .exits(0)
        .prints("1 picture will be retried by the next --watch or --resume");
    place.run(resume).exits(0);
    assert!(place.path("out/a.pgm").exists());
    drop_in(&place, "plain.pgm", DULL);
    place.run(resume).exits(0);
    assert_eq!(place.read("out/plain.pgm"), BRIGHT);
}
