//! `histeqd --watch --queue`: arriving pictures are published once.

use std::fs;
use std::thread;
use std::time::Duration;

use super::server::Server;
use super::{dead, expect_as_local, outputs, status, submit, work, worker};
use crate::harness::{BRIGHT, DULL, Place, wait};
use crate::watch::service::{Service, drop_in, picture};

/// Starts a watch of `in` that publishes to a queue.
fn watching(place: &Place, queue: &str, arguments: &str) -> Service {
    fs::create_dir_all(place.path("in")).unwrap();
    let line = format!("--watch in --out out --queue {queue} -v {arguments}");
    Service::spawn(place, &mut place.histeqd(&line))
}

/// Waits until the queue has so many messages for workers.
fn wait_for_messages(place: &Place, queue: &str, count: u64) {
    wait("the messages", || status(place, queue)["waiting"] == count);
}

#[test]
fn what_arrives_is_published_once_whoever_restarts() {
    let place = Place::new();
    for number in 0..40 {
        place.file(format!("in/{number}.pgm"), picture(number, 9));
    }
    place.file("in/notes.txt", "no picture");
    place.file("in/scan", DULL);
    let Some(mut server) = Server::start(&place, &[]) else { return };
    let queue = server.queue("inbox");
    let watch = watching(&place, &queue, "--settle 100ms --rescan 1s");
    wait("the pictures", || watch.log().matches("submitted: ").count() == 41);
    let count = status(&place, &queue)["waiting"].as_u64().unwrap();
    assert!((2..=41).contains(&count), "{count}");
    // Further listings, a restart, and a server that is away publish no picture again.
    thread::sleep(Duration::from_secs(3));
    assert_eq!(watch.stop(), Some(0));
    let watch = watching(&place, &queue, "--settle 100ms --rescan 1s");
    drop_in(&place, "new/a.pgm", DULL);
    wait_for_messages(&place, &queue, count + 1);
    server.kill();
    drop_in(&place, "b.pgm", DULL);
    wait("the loss to be told", || watch.log().contains("; new pictures wait until it does"));
    drop_in(&place, "c.pgm", DULL);
    server.restart();
    wait("the end to be told", || watch.log().contains("the queue takes pictures again"));
    wait("all", || watch.log().matches("submitted: ").count() == 44);
    assert_eq!(watch.log().matches("new pictures wait").count(), 1, "{}", watch.log());
    // A picture that is replaced while it waits is a new one.
    let before = status(&place, &queue)["waiting"].as_u64().unwrap();
    drop_in(&place, "b.pgm", &picture(77, 20));
    wait_for_messages(&place, &queue, before + 1);
    let worker = worker(&place, &queue, "");
    wait("the outputs", || outputs(&place, "out").len() == 44 && status(&place, &queue)["waiting"] == 0);
    wait("the end", || status(&place, &queue)["in_progress"] == 0);
    // A replaced picture with an output is a new one, too.
    drop_in(&place, "b.pgm", &picture(78, 20));
    let expected = || place.run("in/b.pgm --out again.pgm --overwrite").exits(0).stdout().is_empty();
    assert!(expected());
    wait("the new output", || place.read("out/b.pgm") == place.read("again.pgm"));
    fs::remove_file(place.path("in/notes.txt")).unwrap();
    let submitted = watch.log().matches("submitted: ").count();
    thread::sleep(Duration::from_secs(3));
    assert_eq!(watch.log().matches("submitted: ").count(), submitted, "{}", watch.log());
    assert_eq!((watch.stop(), worker.stop()), (Some(0), Some(0)));
    expect_as_local(&place, "out", "");
    assert!(dead(&place, &queue).is_empty());
}

#[test]
fn a_watch_waits_for_room_and_submits_again_what_a_queue_has_lost() {
    let place = Place::new();
    let Some(mut server) = Server::start(&place, &[]) else { return };
    let queue = server.queue("inbox");
    place.file("none.pgm", DULL);
    submit(&place, &queue, "none.pgm --out out --max-messages 3").exits(0);
    let watch = watching(&place, &queue, "--settle 100ms --rescan 1s");
    for number in 0..6 {
        drop_in(&place, &format!("{number}.pgm"), &picture(number, 400));
    }
    wait("the queue to be full", || watch.log().contains("the queue is full"));
    wait_for_messages(&place, &queue, 3);
    // The server loses all its data.
    server.kill();
    fs::remove_dir_all(place.path("streams")).unwrap();
    server.restart();
    wait("the queue to be made anew", || watch.log().contains("it is created again"));
    work(&place, &queue, "").exits(0);
    wait("the outputs", || {
        work(&place, &queue, "").exits(0);
        outputs(&place, "out").len() == 6
    });
    assert_eq!(watch.log().matches("the queue is full").count(), 1, "{}", watch.log());
    assert_eq!(watch.stop(), Some(0));
    expect_as_local(&place, "out", "");
}

#[test]
fn what_was_put_aside_is_published_again_once_it_is_replaced() {
    let place = Place::with(&["in/good.pgm"]);
    let Some(server) = Server::start(&place, &[]) else { return };
    let queue = server.queue("inbox");
    place.file("in/bad.pgm", &DULL[..DULL.len() - 1]);
    let watch = watching(&place, &queue, "--settle 100ms --rescan 1s");
    wait("the watch", || watch.log().contains("submitted: "));
    let worker = worker(&place, &queue, "");
    wait("the failure", || dead(&place, &queue).len() == 1);
    let submitted = watch.log().matches("submitted: ").count();
    thread::sleep(Duration::from_secs(3));
    assert_eq!(watch.stop(), Some(0));
    let watch = watching(&place, &queue, "--settle 100ms --rescan 1s");
    drop_in(&place, "other.pgm", DULL);
    wait("the other one", || place.path("out/other.pgm").exists());
    assert_eq!(watch.log().matches("submitted: ").count(), submitted + 1, "{}", watch.log());
    drop_in(&place, "bad.pgm", DULL);
    wait("the replaced one", || place.path("out/bad.pgm").exists());
    assert_eq!(place.read("out/bad.pgm"), BRIGHT);
    wait("the dead letter to go", || dead(&place, &queue).is_empty());
    assert_eq!((watch.stop(), worker.stop()), (Some(0), Some(0)));
}

#[test]
fn inputs_that_share_an_output_do_not_take_turns() {
    let place = Place::new();
    let Some(server) = Server::start(&place, &[]) else { return };
    let queue = server.queue("inbox");
    let worker = worker(&place, &queue, "");
    place.file("in/a.pgm", DULL);
    let watch = watching(&place, &queue, "--format png --settle 100ms --rescan 1s");
    wait("the output", || place.path("out/a.png").exists());
    let made = fs::metadata(place.path("out/a.png")).unwrap().modified().unwrap();
    drop_in(&place, "a.ppm", b"P6\n1 1\n255\nabc");
    let told = "a.ppm: ";
    wait("the refusal", || watch.log().contains("not submitted: ") && watch.log().contains(told));
    assert_eq!(watch.stop(), Some(0));
    let watch = watching(&place, &queue, "--format png --settle 100ms --rescan 1s");
    wait("the refusal", || watch.log().matches("would have the same output").count() == 2);
    thread::sleep(Duration::from_secs(3));
    assert_eq!(watch.log().matches("would have the same output").count(), 2, "{}", watch.log());
    assert_eq!(fs::metadata(place.path("out/a.png")).unwrap().modified().unwrap(), made);
    // The name is free once its input is gone.
    fs::remove_file(place.path("in/a.pgm")).unwrap();
    wait("the other output", || fs::metadata(place.path("out/a.png")).unwrap().modified().unwrap() != made);
    assert_eq!((watch.stop(), worker.stop()), (Some(0), Some(0)));
}

#[test]
fn flags_without_an_effect_beside_a_queue_are_refused() {
    let place = Place::with(&["in/a.pgm"]);
    let queue = "nats://127.0.0.1:1/inbox";
    for (flags, why) in [
        ("--after delete", "--after has no effect with --queue: inputs stay where they are"),
        ("--failed bad", "--failed has no effect with --queue"),
        ("--state state", "--state has no effect with --queue"),
        ("--listen 127.0.0.1:1", "--listen has no effect with --queue"),
        ("--devices cpu", "--devices is a flag of workers"),
        ("--durability fast", "--durability is a flag of workers"),
        ("--split-channels --color per-channel", "--split-channels is a flag of workers"),
        ("--jpeg gpu", "--jpeg gpu needs a GPU"),
        ("--mask in", "--mask finds masks by paths below the input folder"),
        ("--together folder", "--together folder needs all pictures"),
    ] {
        place.run(&format!("--watch in --out out --queue {queue} {flags}")).exits(2).says(why);
    }
    place.run(&format!("in --out out --queue {queue}")).exits(2).says("--watch");
    place.run(&format!("--watch in --out out --queue {queue}")).exits(3).says("cannot be used");
    assert!(!place.path("out").exists());
}
