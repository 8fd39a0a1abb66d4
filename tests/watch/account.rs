//! The service's account of itself, whatever became of its ledger.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use super::service::{Service, drop_in, times_done};
use crate::harness::{DULL, Place, wait};

const LEDGER: &str = "out/.histeqd/ledger.sqlite";

#[test]
fn a_ledger_that_is_cut_off_in_place_is_noticed_and_said_within_a_minute() {
    let place = Place::with(&["in/a.pgm"]);
    place.file("in/broken.png", [&b"\x89PNG\r\n\x1a\n"[..], &[0; 40]].concat());
    super::service::make_old(&place.path("in/broken.png"));
    let service = Service::start(&place, "");
    let status = || place.run("status out --json").exits(0).json();
    wait("both to end", || status()["failed"] == 1 && status()["done"] == 1);
    File::options().write(true).open(place.path(LEDGER)).unwrap().set_len(0).unwrap();
    fs::write(place.path("out/.histeqd/ledger.sqlite-wal"), "").unwrap();
    let begun = Instant::now();
    assert_eq!(status()["daemon"]["pid"], service.pid(), "it answers at once");
    wait("the loss to be said", || service.log().contains("ledger.broken-"));
    assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", begun.elapsed());
    wait("the picture to be done again", || times_done(&service.log(), "a.pgm") == 2);
    let told = status();
    assert!(told["incomplete"].as_str().unwrap().ends_with("earlier pictures are not counted"), "{told}");
    assert_eq!(told["failed"], 1, "what failed is remembered");
    assert_eq!(service.log().matches("WARN failed: ").count(), 1, "{}", service.log());
    assert_eq!(service.stop(), Some(0));
}

#[test]
fn the_logs_first_line_says_which_version_runs_and_how() {
    let place = Place::with(&["in/a.pgm"]);
    place.file("histeqd.toml", "method = 'clahe'\nclip-limit = 3\nthreads = 2\n");
    let service = Service::start(&place, "--config histeqd.toml --format png --devices cpu");
    let told = format!(
        " INFO histeqd {}: method clahe, strength 1, clip-limit 3, tiles 8x8, color luma, format png, depth keep; output {}; devices cpu, 2 threads; \
         configuration file {}",
        env!("CARGO_PKG_VERSION"),
        place.path("out").display(),
        place.path("histeqd.toml").display()
    );
    let log = service.log();
    assert!(log.lines().next().unwrap().ends_with(&told), "{log}");
    assert_eq!(service.stop(), Some(0));
}

#[test]
fn the_socket_is_made_anew_where_it_is_stale_or_lost_and_no_link_is_followed() {
    let place = Place::with(&["in/a.pgm"]);
    let answers = || {
        let status = place.run("status out --json");
        status.exits(0).json()["answered"] == true
    };
    let service = Service::start(&place, "");
    wait("an answer", answers);
    service.kill();
    assert!(place.path("out/.histeqd/socket").exists() && !answers());
    let service = Service::start(&place, "");
    wait("an answer", answers);
    fs::remove_file(place.path("out/.histeqd/socket")).unwrap();
    wait("another socket", answers);
    assert_eq!(service.stop(), Some(0));
    assert!(!place.path("out/.histeqd/socket").exists());
    place.file("elsewhere", "somebody's");
    symlink(place.path("elsewhere"), place.path("out/.histeqd/socket")).unwrap();
    let service = Service::start(&place, "");
    wait("the complaint", || service.log().contains("another file has its name; remove it"));
    assert!(!answers() && place.read("elsewhere") == b"somebody's");
    fs::remove_file(place.path("out/.histeqd/socket")).unwrap();
    wait("an answer", answers);
    assert_eq!(service.stop(), Some(0));
}

#[test]
fn users_who_may_only_read_see_the_status_and_change_nothing() {
    let place = Place::with(&["in/a.pgm"]);
    let service = Service::start(&place, "");
    wait("the output", || place.path("out/a.pgm").exists());
    let Some(told) = place.run_without_privileges("status out --json") else { return };
    if rustix::process::geteuid().is_root() {
        let told = told.exits(0).json();
        assert_eq!((&told["answered"], &told["daemon"]["pid"]), (&true.into(), &service.pid().into()));
        let refused = place.run_without_privileges("retry out").unwrap();
        refused.exits(3).says("only the user of the service and root may do this");
    }
    assert_eq!(service.stop(), Some(0));
    let told = place.run_without_privileges("status out").unwrap();
    told.exits(0).prints("done      1").prints(", stopped ");
}

#[test]
fn a_scrape_does_not_wait_for_connections_that_say_nothing() {
    let place = Place::new();
    let service = Service::start(&place, "--listen 127.0.0.1:0");
    wait("the address", || service.log().contains(" at http://"));
    let address = service.log().split_once(" at http://").unwrap().1.lines().next().unwrap().to_owned();
    let silent: Vec<_> = (0..150).map(|_| TcpStream::connect(&address).unwrap()).collect();
    let mut next = UnixStream::connect(place.path("out/.histeqd/socket")).unwrap();
    for stream in [&mut TcpStream::connect(&address).unwrap() as &mut dyn ReadWrite, &mut next] {
        let begun = Instant::now();
        stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(
            answer.contains("# EOF") && begun.elapsed() < Duration::from_secs(1),
            "{:?}",
            begun.elapsed()
        );
    }
    drop(silent);
    assert_eq!(service.stop(), Some(0));
}

trait ReadWrite: Read + Write {}
impl<T: Read + Write> ReadWrite for T {}

#[test]
fn a_long_name_that_failed_has_its_reason_beside_it() {
    let place = Place::new();
    let name = format!("{}.png", "n".repeat(251));
    place.file(format!("in/{name}"), [&b"\x89PNG\r\n\x1a\n"[..], &[0; 40]].concat());
    super::service::make_old(&place.path("in").join(&name));
    let service = Service::start(&place, "--failed bad");
    wait("it to be set aside", || place.path("bad").join(&name).exists());
    let notes: Vec<_> = place.tree("bad").into_iter().filter(|name| name.ends_with(".reason.txt")).collect();
    assert_eq!(notes.len(), 1);
    assert!(notes[0].len() == 255 && notes[0].starts_with("nnn"), "{notes:?}");
    drop_in(&place, "a.pgm", DULL);
    wait("the others to go on", || place.path("out/a.pgm").exists());
    assert_eq!(service.stop(), Some(0));
}

#[test]
fn a_ledger_that_another_program_has_locked_holds_pictures_up_only_as_long() {
    let place = Place::with(&["in/a.pgm"]);
    let service = Service::start(&place, "--listen 127.0.0.1:0");
    wait("the output", || place.path("out/a.pgm").exists());
    let other = rusqlite::Connection::open(place.path(LEDGER)).unwrap();
    other.busy_timeout(Duration::from_secs(60)).unwrap();
    other.execute_batch("BEGIN EXCLUSIVE").unwrap();
    drop_in(&place, "b.pgm", DULL);
    wait("the lock to be said", || {
        let told = place.run("status out --json").exits(0).json();
        let held = told["daemon"]["held"].as_str().unwrap_or_default().to_owned();
        held.contains("database is locked by another program; end that")
            && told["incomplete"].as_str().is_some_and(|why| why.contains("pictures finished since then"))
    });
    assert!(!place.path("out/b.pgm").exists());
    other.execute_batch("ROLLBACK").unwrap();
    drop(other);
    wait("the picture", || place.path("out/b.pgm").exists());
    wait("the count", || {
        let told = place.run("status out --json").exits(0).json();
        told["done"] == 2 && told["incomplete"].is_null() && told["daemon"]["held"].is_null()
    });
    assert_eq!(service.stop(), Some(0));
}
