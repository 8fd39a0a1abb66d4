//! Arrivals of pictures: under temporary names, in parts, and among files that are no inputs.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::thread;
use std::time::{Duration, Instant};

use super::service::{Service, expected, outputs, picture, wait_for};
use crate::harness::{BRIGHT, DULL, Place, wait};

/// Makes a file of a header and a hole of so many bytes.
fn reserve(place: &Place, name: &str, header: &[u8], length: usize) {
    place.file(name, header);
    File::options().write(true).open(place.path(name)).unwrap().set_len(length as u64).unwrap();
}

#[test]
fn files_under_temporary_names_wait_for_their_rename() {
    let place = Place::new();
    let service = Service::start(&place, "--after delete");
    let mut inputs = BTreeMap::new();
    for number in 0..12 {
        let (name, content) = (format!("{number}.pgm"), picture(number, 40));
        let temporary = match number % 4 {
            0 => format!("in/{name}.part"),
            1 => format!("in/{name}.filepart"),
            2 => format!("in/tmp{number}x_y"),
            _ => format!("in/{number}.TMP"),
        };
        place.file(&temporary, &content);
        thread::sleep(Duration::from_millis(60));
        fs::rename(place.path(&temporary), place.path("in").join(&name)).unwrap();
        inputs.insert(name, content);
    }
    wait_for(&place, &expected(&inputs));
    wait("all inputs to go", || place.tree("in").is_empty());
    let log = service.log();
    let told = "/in/0.pgm.part is left out until it is renamed, like everything named *.part (";
    assert_eq!(log.matches(told).count(), 1, "{log}");
    assert_eq!(log.matches(" *.part ").count(), 1, "{log}");
    assert_eq!(outputs(&place).len(), inputs.len(), "{:?}", outputs(&place));
}

#[test]
fn a_name_that_is_no_pictures_is_judged_by_the_content_once_it_has_rested() {
    let place = Place::new();
    let _service = Service::start(&place, "--settle 1s");
    let start = Instant::now();
    place.file("in/scan", DULL);
    wait("the output", || place.path("out/scan").exists());
    assert!(start.elapsed() >= Duration::from_secs(1));
    assert_eq!(place.read("out/scan"), BRIGHT);
}

#[test]
fn what_systems_and_editors_keep_is_left_alone() {
    let own = ["#recycle/old.pgm", "$Recycle.Bin/S-1/old.pgm", "a.pgm.bak", "a.pgm_original", "a.pgm~"];
    let later = ["b/@eaDir/a.pgm/THUMB.pgm", "b/a.pgm~"];
    let place = Place::with(&own.map(|name| format!("in/{name}")).each_ref().map(String::as_str));
    let service = Service::start(&place, "--after delete");
    later.iter().for_each(|name| place.file(format!("in/{name}"), DULL));
    place.file("in/a.pgm", DULL);
    place.file("in/b/z.pgm", DULL);
    wait("the inputs to go, and nothing else", || place.tree("in") == [&own[..], &later[..]].concat());
    assert_eq!(outputs(&place), ["a.pgm", "b/z.pgm"]);
    let told = "/in/#recycle is left out, like everything named #recycle (Synology";
    wait("the log to tell", || service.log().contains(told));
    assert_eq!(service.stop(), Some(0));
    let service = Service::start(&place, "--after delete --include #recycle --include *~");
    wait("what was asked for", || place.tree("in").len() == 4);
    assert_eq!(outputs(&place), ["#recycle/old.pgm", "a.pgm", "a.pgm~", "b/a.pgm~", "b/z.pgm"]);
    assert_eq!(service.stop(), Some(0));
}

#[test]
fn a_file_with_a_hole_is_waited_for_until_it_is_filled() {
    let place = Place::new();
    let service = Service::start(&place, "--after delete");
    let content = picture(1, 400);
    reserve(&place, "in/a.pgm", &content[..15], content.len());
    thread::sleep(Duration::from_secs(3));
    assert_eq!(outputs(&place), [""; 0]);
    let file = File::options().write(true).open(place.path("in/a.pgm")).unwrap();
    file.write_all_at(&content[15..], 15).unwrap();
    drop(file);
    wait_for(&place, &expected(&BTreeMap::from([("a.pgm".to_owned(), content)])));
    wait("the input to go", || place.tree("in").is_empty());
    assert!(!service.log().contains("holes"), "{}", service.log());
}

#[test]
fn a_file_whose_hole_stays_is_taken_in_the_end_and_the_log_says_so() {
    let place = Place::new();
    let service = Service::start(&place, "");
    let content = [b"P5\n400 400\n255\n", &[7, 9][..], &[0; 159_998]].concat();
    reserve(&place, "in/a.pgm", &content[..17], content.len());
    wait_for(&place, &expected(&BTreeMap::from([("a.pgm".to_owned(), content)])));
    wait("the log to tell", || service.log().contains("/in/a.pgm: holes in the file"));
}
