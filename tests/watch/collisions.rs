//! Names that come again, and inboxes with the same names.

use std::collections::BTreeMap;
use std::fs;
use std::thread;
use std::time::Duration;

use rustix::fs::getxattr;
use rustix::process::Signal;

use super::service::{Service, drop_in, expected, from_environment, make_old, outputs, picture};
use crate::harness::{BRIGHT, DULL, Place, wait};
use crate::samples::Random;

/// Drops pictures into the inbox under one name, each once the one before it is gone.
fn drop_one_after_another(place: &Place, pictures: &[Vec<u8>]) {
    for picture in pictures {
        drop_in(place, "scan.pgm", picture);
        wait("the input to go", || !place.path("in/scan.pgm").exists());
    }
}

/// Returns a single run's output of a picture.
fn equalized(picture: &[u8]) -> Vec<u8> {
    expected(&BTreeMap::from([("a.pgm".to_owned(), picture.to_owned())])).remove("a.pgm").unwrap()
}

#[test]
fn a_name_that_comes_again_gets_a_number_and_both_outputs_stay() {
    for after in ["delete", "move:kept"] {
        let place = Place::new();
        let service = Service::start(&place, &format!("--after {after}"));
        let pictures = [1, 2, 3].map(|seed| picture(seed, 30));
        drop_one_after_another(&place, &pictures);
        let names = ["scan.pgm", "scan.2.pgm", "scan.3.pgm"];
        for (name, picture) in names.iter().zip(&pictures) {
            assert_eq!(place.read(format!("out/{name}")), equalized(picture), "{after}: {name}");
        }
        assert_eq!(outputs(&place).len(), 3);
        if after != "delete" {
            assert_eq!(place.tree("kept").len(), 3);
        }
        let log = service.log();
        assert!(log.contains("/out/scan.pgm has the output of another input, so that of "), "{log}");
        assert!(log.contains("/in/scan.pgm is ") && log.contains("/out/scan.2.pgm"), "{log}");
        fs::remove_file(place.path("out/scan.pgm")).unwrap();
        let last = picture(4, 30);
        drop_one_after_another(&place, std::slice::from_ref(&last));
        assert_eq!(place.read("out/scan.pgm"), equalized(&last), "the name is free again");
        assert_eq!(service.stop(), Some(0));
    }
}

#[test]
fn a_file_that_nobody_here_made_is_not_replaced() {
    let place = Place::with(&["in/a.pgm"]);
    place.file("out/a.pgm", "mine");
    let service = Service::start(&place, "--after delete");
    wait("the input to go", || place.tree("in").is_empty());
    assert_eq!((place.read("out/a.pgm"), place.read("out/a.2.pgm")), (b"mine".to_vec(), BRIGHT.to_vec()));
    assert_eq!(service.stop(), Some(0));
}

#[test]
fn the_former_output_is_replaced_or_waited_for_if_so_asked() {
    let pictures = [1, 2].map(|seed| picture(seed, 30));
    let place = Place::new();
    let service = Service::start(&place, "--after delete --on-collision replace");
    drop_one_after_another(&place, &pictures);
    assert_eq!(outputs(&place), ["scan.pgm"]);
    assert_eq!(place.read("out/scan.pgm"), equalized(&pictures[1]));
    assert!(service.log().contains(", which was there before"), "{}", service.log());
    assert_eq!(service.stop(), Some(0));

    let place = Place::new();
    let service = Service::start(&place, "--after delete --on-collision wait");
    drop_one_after_another(&place, &pictures[..1]);
    drop_in(&place, "scan.pgm", &pictures[1]);
    let told = "/out/scan.pgm exists already, from an earlier input; remove it, or use --on-collision number";
    wait("the log to tell", || service.log().contains(told));
    assert!(place.path("in/scan.pgm").exists() && outputs(&place) == ["scan.pgm"]);
    fs::rename(place.path("out/scan.pgm"), place.path("taken")).unwrap();
    wait("the input to go", || place.tree("in").is_empty());
    assert_eq!(place.read("out/scan.pgm"), equalized(&pictures[1]));
    assert_eq!(service.stop(), Some(0));
}

#[test]
fn a_reload_changes_what_happens() {
    let place = Place::new();
    place.file("config.toml", "after = 'delete'\non-collision = 'replace'\n");
    let service = Service::start(&place, "--config config.toml");
    drop_one_after_another(&place, &[1, 2].map(|seed| picture(seed, 30)));
    assert_eq!(outputs(&place), ["scan.pgm"]);
    place.file("config.toml", "after = 'delete'\n");
    service.signal(Signal::HUP);
    wait("the reload", || service.log().contains("configuration reloaded"));
    assert!(!service.log().contains("restart the service"), "{}", service.log());
    drop_one_after_another(&place, &[picture(3, 30)]);
    assert_eq!(outputs(&place), ["scan.2.pgm", "scan.pgm"]);
    assert_eq!(service.stop(), Some(0));
}

#[test]
fn an_input_that_is_done_and_still_there_gets_no_second_output() {
    let place = Place::new();
    let first = Service::start(&place, "--after delete");
    drop_one_after_another(&place, &[picture(1, 30)]);
    assert_eq!(first.stop(), Some(0));
    // A file where the archive should be keeps the input between its output and its removal.
    place.file("kept", "");
    let service = Service::start(&place, "--after move:kept");
    drop_in(&place, "scan.pgm", &picture(2, 30));
    wait("the input to stay", || service.log().contains("is done, and stays for now"));
    service.kill();
    let both = ["scan.2.pgm", "scan.pgm"];
    assert_eq!(outputs(&place), both);
    let service = Service::start(&place, "--after move:kept");
    wait("the input to stay", || service.log().matches("is done, and stays for now").count() == 2);
    assert_eq!(outputs(&place), both);
    service.kill();
    if getxattr(place.path("out/scan.2.pgm"), "user.histeqd", &mut [0; 64][..]).is_ok() {
        // Only the record on the output is left.
        fs::remove_dir_all(place.path("out/.histeqd")).unwrap();
    }
    fs::remove_file(place.path("kept")).unwrap();
    let service = Service::start(&place, "--after move:kept");
    wait("the input to go", || place.tree("in").is_empty());
    assert_eq!(outputs(&place), both);
    assert_eq!(place.read("out/scan.2.pgm"), equalized(&picture(2, 30)));
    assert_eq!(service.stop(), Some(0));
}

#[test]
fn after_any_number_of_kills_every_arrival_has_one_output() {
    let kills = from_environment("HISTEQD_KILLS", 10);
    let mut random = Random(from_environment("HISTEQD_SEED", 2));
    let place = Place::new();
    let mut arrived = Vec::new();
    for _ in 0..kills {
        let service = Service::begin(&place, "--after delete --threads 2");
        for _ in 0..6 {
            thread::sleep(Duration::from_millis(random.below(60)));
            let name = format!("{}.pgm", random.below(3));
            // An input that is still there is not done yet, and is left alone.
            if !place.path("in").join(&name).exists()
                && !place.tree("in").iter().any(|other| other.ends_with(&name))
            {
                let picture = picture(random.below(1 << 40), 100 + random.below(300) as usize);
                drop_in(&place, &name, &picture);
                arrived.push(picture);
            }
        }
        service.kill();
    }
    for name in outputs(&place).iter().filter(|name| name.ends_with(".tmp")) {
        make_old(&place.path("out").join(name));
    }
    place.run("retry out").exits(0);
    let service = Service::start(&place, "--after delete");
    wait("all inputs to go", || place.tree("in").is_empty());
    assert_eq!(service.stop(), Some(0));
    let mut made: Vec<_> = outputs(&place).iter().map(|name| place.read(format!("out/{name}"))).collect();
    let inputs: BTreeMap<_, _> =
        arrived.into_iter().enumerate().map(|(number, picture)| (format!("{number}.pgm"), picture)).collect();
    let mut wanted: Vec<_> = expected(&inputs).into_values().collect();
    made.sort();
    wanted.sort();
    assert_eq!(made.len(), wanted.len(), "{:?}\n{}", outputs(&place), service_log(&place));
    assert!(made == wanted);
}

fn service_log(place: &Place) -> String {
    String::from_utf8_lossy(&place.read("log")).into_owned()
}

#[test]
fn without_a_policy_for_it_the_flag_is_refused() {
    let place = Place::with(&["in/a.pgm"]);
    for flags in ["", "--watch", "--watch --after keep"] {
        let run = place.run(&format!("in --out out --on-collision wait {flags}"));
        run.exits(2).says("--on-collision has no effect without --watch and --after delete or move:DIR");
    }
}

#[test]
fn inboxes_with_the_same_names_collide_get_numbers_or_folders_of_their_own() {
    let begin = |flags: &str| {
        let place = Place::with(&["one/a.pgm", "two/a.pgm", "in/c.pgm"]);
        let mut command = place.histeqd(&format!("--watch one two --out out --durability fast {flags}"));
        let service = Service::spawn(&place, &mut command);
        (place, service)
    };
    let (place, service) = begin("");
    wait("the hint", || service.log().contains("/out/a.pgm; use --prefix-folder to give each input folder"));
    wait("the output", || outputs(&place) == ["a.pgm"]);
    assert_eq!((service.stop(), outputs(&place)), (Some(0), vec!["a.pgm".into()]));

    let (place, service) = begin("--after delete");
    wait("the inputs to go", || place.tree("one").is_empty() && place.tree("two").is_empty());
    assert_eq!((service.stop(), outputs(&place)), (Some(0), vec!["a.2.pgm".into(), "a.pgm".into()]));

    let (place, service) = begin("--prefix-folder --after move:kept --failed bad");
    place.file("two/b.png", "no picture");
    make_old(&place.path("two/b.png"));
    wait("the inputs to go", || place.tree("one").is_empty() && place.tree("two").is_empty());
    assert_eq!((service.stop(), outputs(&place)), (Some(0), vec!["one/a.pgm".into(), "two/a.pgm".into()]));
    assert_eq!(place.tree("kept"), ["one/a.pgm", "two/a.pgm"]);
    assert_eq!(place.tree("bad"), ["two/b.png", "two/b.png.reason.txt"]);

    place.file("three/one/a.pgm", DULL);
    let run = place.run("--watch one three/one --out out --prefix-folder");
    run.exits(2)
        .says("/three/one have the same name, and so the same folder with --prefix-folder; rename one, or");
}

#[test]
fn a_watched_folder_with_earlier_outputs_is_noticed() {
    let place = Place::with(&["first/a.pgm"]);
    place.run("first --out in --resume").exits(0);
    let service = Service::start(&place, "");
    wait("the output", || place.path("out/a.pgm").exists());
    let told = "/in is the output folder of an earlier run; outputs are enhanced again";
    assert_eq!(service.log().matches(told).count(), 1, "{}", service.log());
    assert_eq!(service.stop(), Some(0));
}
