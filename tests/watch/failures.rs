//! Permanent failures of pictures: when they are recognized, and how long they are reported.

use std::fs;
use std::thread;
use std::time::Duration;

use super::service::{Service, drop_in};
use crate::harness::{DULL, Place, wait};

/// The start of a HEIF, with its type.
const HEIF: &[u8] = b"\0\0\0\x18ftypheic\0\0\0\0mif1heic";

/// A TIFF of two pictures of one pixel each, the second in CIELab.
fn two_pages() -> Vec<u8> {
    const ENTRIES: [(u16, u32); 8] =
        [(256, 1), (257, 1), (258, 8), (259, 1), (262, 1), (273, 8), (278, 1), (279, 1)];
    let second = 12 + 2 + 12 * ENTRIES.len() + 4;
    let mut file = b"II*\0\x0c\0\0\0\x07\0\0\0".to_vec();
    for (next, colours) in [(second, 1), (0, 8)] {
        file.extend((ENTRIES.len() as u16).to_le_bytes());
        for (tag, value) in ENTRIES {
            // One number of 32 bits.
            let value = if tag == 262 { colours } else { value };
            file.extend([tag.to_le_bytes(), 4u16.to_le_bytes()].concat());
            file.extend([1u32.to_le_bytes(), value.to_le_bytes()].concat());
        }
        file.extend((next as u32).to_le_bytes());
    }
    file
}

#[test]
fn what_no_further_bytes_can_mend_fails_at_once_and_what_may_be_incomplete_does_not() {
    let place = Place::new();
    let service = Service::start(&place, "--max-pixels 1000");
    let hopeless = [
        ("animation.heic", HEIF.to_vec(), "a HEIC (HEIF) is not supported"),
        ("pages.tif", two_pages(), "page 2: a CIELab TIFF is not supported"),
        ("photo.raf", b"FUJIFILMCCD-RAW 0201".to_vec(), "a Fujifilm raw file is not supported"),
        // Only the name gives the format.
        ("brain.nii", vec![7; 400], "a NIfTI volume is not supported"),
        ("large.pgm", b"P5\n100 100\n255\n".to_vec(), "too large: 100x100 pixels"),
    ];
    let incomplete = [
        ("short.pgm", b"P5\n4 1\n255\n\x64".to_vec()),
        ("unknown.png", vec![0; 64]),
        ("empty.png", Vec::new()),
    ];
    for (name, content, _) in &hopeless {
        drop_in(&place, name, content);
    }
    for (name, content) in &incomplete {
        drop_in(&place, name, content);
    }
    for (name, _, why) in &hopeless {
        let told = format!("/in/{name}: {why}");
        wait(name, || service.log().contains(&told));
        let log = service.log();
        let line = log.lines().find(|line| line.contains(&told)).unwrap();
        assert!(line.contains(" WARN failed: "), "{line}");
    }
    for (name, _) in &incomplete {
        let pending = || {
            service
                .log()
                .lines()
                .any(|line| line.contains("not complete yet: ") && line.contains(&format!("/in/{name}: ")))
        };
        wait(name, pending);
    }
    assert_eq!(service.log().matches(" WARN failed: ").count(), hopeless.len(), "{}", service.log());
    assert_eq!(service.stop(), Some(0));
}

/// Returns the number of permanent failures by `histeqd status`.
fn failed(place: &Place) -> u64 {
    place.run("status out --json").exits(0).json()["failed"].as_u64().unwrap()
}

#[test]
fn a_failure_leaves_the_status_with_its_input() {
    let place = Place::new();
    let service = Service::start(&place, "");
    for name in
        ["deleted.heic", "renamed.heic", "offline.heic", "sub/moved.heic", "sub/b/moved.heic", "stays.heic"]
    {
        drop_in(&place, name, HEIF);
    }
    wait("all to fail", || failed(&place) == 6);
    fs::remove_file(place.path("in/deleted.heic")).unwrap();
    wait("the deleted one to leave", || failed(&place) == 5);
    fs::rename(place.path("in/renamed.heic"), place.path("renamed.heic")).unwrap();
    wait("the renamed one to leave", || failed(&place) == 4);
    service.stop();
    fs::remove_file(place.path("in/offline.heic")).unwrap();
    let service = Service::start(&place, "--rescan 1s");
    wait("the one removed meanwhile to leave", || failed(&place) == 3);
    fs::rename(place.path("in/sub"), place.path("sub")).unwrap();
    wait("those in the folder to leave", || failed(&place) == 1);
    place.run("status out").exits(0).prints("in/stays.heic: a HEIC (HEIF) is not supported");
    assert_eq!(service.stop(), Some(0));
}

#[test]
fn a_failure_stays_in_the_status_while_its_whole_inbox_is_away() {
    let place = Place::new();
    let service = Service::start(&place, "--rescan 1s");
    drop_in(&place, "a.heic", HEIF);
    wait("it to fail", || failed(&place) == 1);
    fs::rename(place.path("in"), place.path("away")).unwrap();
    wait("the loss to be noticed", || service.log().contains("is gone"));
    // An empty folder in its place is like the mount point of a file system that is not mounted.
    fs::create_dir(place.path("in")).unwrap();
    wait("the other folder to be watched", || service.log().matches("INFO watching ").count() == 2);
    thread::sleep(Duration::from_secs(3));
    assert_eq!(failed(&place), 1);
    fs::remove_dir(place.path("in")).unwrap();
    fs::rename(place.path("away"), place.path("in")).unwrap();
    wait("the inbox to be back", || service.log().matches("INFO watching ").count() == 3);
    drop_in(&place, "b.pgm", DULL);
    wait("the others to go on", || place.path("out/b.pgm").exists());
    assert_eq!(service.log().matches(" WARN failed: ").count(), 1, "it is not tried again");
    assert_eq!(service.stop(), Some(0));
}

#[test]
fn a_failure_that_is_set_aside_leaves_the_status_and_is_tried_again_when_it_is_moved_back() {
    let place = Place::new();
    let service = Service::start(&place, "--failed bad");
    let times_failed = || service.log().matches(" WARN failed: ").count();
    drop_in(&place, "a.heic", HEIF);
    wait("it to be set aside", || place.path("bad/a.heic").exists());
    wait("it to leave the status", || failed(&place) == 0);
    assert_eq!(times_failed(), 1);
    fs::rename(place.path("bad/a.heic"), place.path("in/a.heic")).unwrap();
    wait("it to be tried again", || times_failed() == 2);
    assert_eq!(service.stop(), Some(0));
}

#[test]
fn what_needs_more_than_all_memory_fails_at_once_and_is_tried_again_after_a_restart_with_more() {
    let place = Place::new();
    let pixels: Vec<u8> = (0..128 * 512_u32).flat_map(|at| (at as u16).to_be_bytes()).collect();
    let service = Service::start(&place, "--method clahe --memory 1MiB");
    drop_in(&place, "large.pgm", &[&b"P5 128 512 65535\n"[..], &pixels].concat());
    wait("it to fail", || failed(&place) == 1);
    let log = service.log();
    assert!(log.contains("but --memory allows 1048576; raise --memory"), "{log}");
    assert!(log.matches(" WARN failed: ").count() == 1 && !log.contains("retried in"), "{log}");
    assert_eq!(service.stop(), Some(0));

    let service = Service::start(&place, "--method clahe --memory 1MiB");
    drop_in(&place, "small.pgm", DULL);
    wait("the others to go on", || place.path("out/small.pgm").exists());
    assert_eq!(
        (service.log().matches(" WARN failed: ").count(), failed(&place)),
        (1, 1),
        "{}",
        service.log()
    );
    assert_eq!(service.stop(), Some(0));

    let service = Service::start(&place, "--method clahe --memory 8MiB");
    wait("it to be tried again", || place.path("out/large.pgm").exists());
    wait("it to leave the status", || failed(&place) == 0);
    assert_eq!(service.stop(), Some(0));
}
