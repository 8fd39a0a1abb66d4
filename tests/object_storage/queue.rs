//! A queue whose pictures are in object storage.

use std::fs;
use std::thread;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::{Value, json};

use super::batch::picture;
use super::server::{Bucket, bucket};
use crate::harness::{BRIGHT, DULL, Place, Ran, wait};
use crate::queue::server::Server;
use crate::watch::service::Service;

fn submit(bucket: &Bucket, place: &Place, line: &str) -> Ran {
    bucket.run(place, ["submit"].into_iter().chain(line.split_whitespace()))
}

fn work_line(queue: &str, roots: &[&str]) -> String {
    let roots: String = roots.iter().map(|root| format!(" --root {root}")).collect();
    format!("work --queue {queue} --devices cpu -v{roots}")
}

fn work(bucket: &Bucket, place: &Place, queue: &str, roots: &[&str]) -> Ran {
    bucket.run(place, format!("{} --until-empty", work_line(queue, roots)).split_whitespace())
}

fn status(place: &Place, queue: &str) -> Value {
    place.run(&format!("status --queue {queue} --json")).exits(0).json()
}

/// Expects an output in the bucket to equal that of a local run.
fn expect(bucket: &Bucket, place: &Place, key: &str, content: &[u8]) {
    place.file("expected/in.pgm", content);
    place.run("expected/in.pgm --out expected/out.pgm").exits(0);
    assert_eq!(bucket.get(key), place.read("expected/out.pgm"), "{key}");
}

#[test]
fn pictures_go_from_anywhere_to_anywhere_and_are_done_once() {
    let Some(bucket) = bucket() else { return };
    let place = Place::new();
    let Some(server) = Server::start(&place, &[]) else { return };
    let queue = server.queue("stored");
    let names = ["a.pgm", "in box/50%.pgm", "é/q?x#y.pgm"];
    for (seed, name) in names.iter().enumerate() {
        bucket.put(&format!("in/{name}"), picture(64, 48, seed));
        place.file(format!("in/{name}"), picture(64, 48, seed));
    }
    place.run("in --out local").exits(0);
    let (input, out, here) = (bucket.url("in/"), bucket.url("out"), place.path(""));
    let submitted = "3 pictures submitted in 1 message; 0 waiting already";
    submit(&bucket, &place, &format!("{input} --out {out} --queue {queue}")).exits(0).says(submitted);
    let again = "0 pictures submitted in 0 messages; 3 waiting already";
    submit(&bucket, &place, &format!("{input} --out {out} --queue {queue}")).exits(0).says(again);
    submit(&bucket, &place, &format!("{input} --out here --queue {queue}")).exits(0).says(submitted);
    submit(&bucket, &place, &format!("in --out {} --queue {queue}", bucket.url("there")))
        .exits(0)
        .says(submitted);
    let roots = [&*bucket.url(""), here.to_str().unwrap()];
    work(&bucket, &place, &queue, &roots).exits(0);
    for name in names {
        let expected = place.read(format!("local/{name}"));
        assert_eq!(bucket.get(&format!("out/{name}")), expected, "{name}");
        assert_eq!(bucket.get(&format!("there/{name}")), expected, "{name}");
        assert_eq!(place.read(format!("here/{name}")), expected, "{name}");
    }
    // The records equal those of a run without a queue, and both leave out done pictures by them.
    bucket.run(&place, [&*input, "--out", &out]).exits(0).says("3 already done");
    submit(&bucket, &place, &format!("{input} --out {out} --queue {queue}"))
        .says("0 waiting already, 3 done");
    // A replaced picture is done again.
    let other = picture(64, 48, 9);
    bucket.put("in/a.pgm", other.clone());
    submit(&bucket, &place, &format!("{input} --out {out} --queue {queue}"))
        .exits(0)
        .says("1 picture submitted");
    work(&bucket, &place, &queue, &roots).exits(0);
    expect(&bucket, &place, "out/a.pgm", &other);
}

#[test]
fn a_worker_refuses_what_lies_outside_its_roots() {
    let Some(bucket) = bucket() else { return };
    let Some(other) = super::server::bucket() else { return };
    let place = Place::with(&["here/a.pgm"]);
    let Some(server) = Server::start(&place, &[]) else { return };
    let queue = server.queue("stored");
    bucket.put("in/a.pgm", DULL);
    bucket.put("secret/a.pgm", DULL);
    other.put("in/a.pgm", DULL);
    submit(&bucket, &place, &format!("{} --out {} --queue {queue}", bucket.url("in"), bucket.url("in/out")))
        .exits(0);
    let good = (bucket.url("in/a.pgm"), bucket.url("in/out/bad.pgm"));
    let host = bucket.endpoint().strip_prefix("http://").unwrap().to_owned();
    let name = good.0.strip_prefix("s3://").unwrap().to_owned();
    let here = place.path("here/a.pgm").display().to_string();
    let bad = [
        (bucket.url("secret/a.pgm"), good.1.clone()),
        (other.url("in/a.pgm"), good.1.clone()),
        (good.0.clone(), bucket.url("secret/b.pgm")),
        (good.0.clone(), other.url("in/b.pgm")),
        (bucket.url("in/../secret/a.pgm"), good.1.clone()),
        (format!("http://{host}/{name}"), good.1.clone()),
        (format!("s3://key@{host}/{name}"), good.1.clone()),
        (format!("az://{name}"), good.1.clone()),
        (here, good.1.clone()),
        (good.0.clone(), place.path("here/b.pgm").display().to_string()),
    ];
    for (number, (input, output)) in bad.iter().enumerate() {
        let picture = json!({ "input": input, "output": output });
        let message = json!({ "version": 1, "settings": "", "pictures": [picture] });
        server.publish(&format!("histeqd.stored.work.{number}"), message.to_string().as_bytes());
    }
    work(&bucket, &place, &queue, &[&bucket.url("in")]).exits(1);
    assert_eq!(bucket.get("in/out/a.pgm"), BRIGHT);
    assert_eq!((bucket.list("in").len(), bucket.list("secret").len()), (2, 1));
    assert_eq!((other.list("in").len(), place.tree("here").len()), (1, 1));
    let dead = status(&place, &queue)["dead"].clone();
    assert_eq!(dead.as_array().unwrap().len(), bad.len(), "{dead:#}");
    for dead in dead.as_array().unwrap() {
        let why = dead["reason"].as_str().unwrap();
        let is_told =
            why.contains("is not below a --root of this worker") || why.contains("nor the URL of an object");
        assert!(is_told, "{dead:#}");
    }
    place
        .run(&format!("work --queue {queue} --root http://host/in"))
        .exits(2)
        .says("--root http://host/in: object storage is");
}

#[test]
fn broken_and_missing_objects_are_put_aside_and_a_killed_worker_loses_nothing() {
    let Some(bucket) = bucket() else { return };
    let place = Place::new();
    let Some(server) = Server::start(&place, &[]) else { return };
    let queue = server.queue("stored");
    let large = |seed| picture(900, 900, seed);
    bucket.put_all((0..20).map(|seed| (format!("in/{seed}.pgm"), large(seed))));
    bucket.put("in/broken.pgm", &DULL[..DULL.len() - 1]);
    bucket.put("in/gone.pgm", DULL);
    bucket.put("in/notes.txt", "no picture");
    let (input, out) = (bucket.url("in"), bucket.url("out"));
    let flags = format!("--queue {queue} --method clahe --lease 1s");
    submit(&bucket, &place, &format!("{input} --out {out} {flags}")).exits(0);
    bucket.delete("in/gone.pgm");
    let line = format!("{} --attempts 4 -j 1", work_line(&queue, &[&bucket.url("")]));
    let spawn = || Service::spawn(&place, &mut bucket.command(&place, line.split_whitespace()));
    let worker = spawn();
    wait("the first outputs", || bucket.list("out").len() > 2);
    worker.kill();
    let worker = spawn();
    wait("more outputs", || bucket.list("out").len() > 8);
    worker.signal(Signal::STOP);
    let other = spawn();
    wait("all outputs", || bucket.list("out").len() == 20);
    worker.signal(Signal::CONT);
    wait("the failures", || status(&place, &queue)["dead"].as_array().unwrap().len() == 2);
    wait("the end", || status(&place, &queue)["in_progress"] == 0 && status(&place, &queue)["waiting"] == 0);
    assert_eq!((worker.stop(), other.stop()), (Some(0), Some(0)));
    for seed in 0..20 {
        place.file(format!("in/{seed}.pgm"), large(seed));
    }
    place.run("in --out local --method clahe").exits(0);
    for seed in 0..20 {
        assert_eq!(bucket.get(&format!("out/{seed}.pgm")), place.read(format!("local/{seed}.pgm")), "{seed}");
    }
    let dead = status(&place, &queue)["dead"].to_string();
    assert!(dead.contains("broken.pgm") && dead.contains("gone.pgm"), "{dead}");
    assert_eq!(bucket.list("out").len(), 20);
}

#[test]
fn a_bucket_that_is_away_is_waited_for() {
    let Some(bucket) = bucket() else { return };
    let place = Place::new();
    let Some(server) = Server::start(&place, &[]) else { return };
    let queue = server.queue("stored");
    bucket.put("in/a.pgm", DULL);
    let (input, out) = (bucket.url("in"), bucket.url("out"));
    submit(&bucket, &place, &format!("{input} --out {out} --queue {queue}")).exits(0);
    let line = format!("{} --attempts 1", work_line(&queue, &[&bucket.url("")]));
    let mut command = bucket.command(&place, line.split_whitespace());
    // A port without a server.
    command.env("AWS_ENDPOINT_URL", "http://127.0.0.1:9");
    let worker = Service::spawn(&place, &mut command);
    wait("the worker to wait", || worker.log().contains("nothing more is started for 5 s: "));
    let told = status(&place, &queue);
    assert!(told["dead"].as_array().unwrap().is_empty() && told["in_progress"] == 1, "{told:#}");
    assert_eq!(worker.stop(), Some(0));
    work(&bucket, &place, &queue, &[&bucket.url("")]).exits(0);
    assert_eq!(bucket.get("out/a.pgm"), BRIGHT);
}

#[test]
fn a_watch_of_object_storage_publishes_what_is_new() {
    let Some(bucket) = bucket() else { return };
    let place = Place::new();
    let Some(server) = Server::start(&place, &[]) else { return };
    let queue = server.queue("stored");
    bucket.put("in/a.pgm", DULL);
    bucket.put("in/notes.txt", "no picture");
    let (input, out) = (bucket.url("in"), bucket.url("out"));
    let line = format!("--watch {input} --out {out} --queue {queue} --poll 200ms --rescan 1s -v");
    let watch = || Service::spawn(&place, &mut bucket.command(&place, line.split_whitespace()));
    let (watching, waiting) = (watch(), || status(&place, &queue)["waiting"] == 1);
    wait("the message", || watching.log().contains("submitted: ") && waiting());
    assert_eq!(watching.stop(), Some(0));
    let watching = watch();
    thread::sleep(Duration::from_secs(3));
    assert!(waiting());
    let line = work_line(&queue, &[&bucket.url("")]);
    let worker = Service::spawn(&place, &mut bucket.command(&place, line.split_whitespace()));
    wait("the output", || !bucket.list("out").is_empty());
    let other = picture(9, 9, 3);
    bucket.put("in/a.pgm", other.clone());
    bucket.put("in/b.pgm", DULL);
    place.file("a.pgm", other);
    place.run("a.pgm --out expected.pgm").exits(0);
    wait("the new outputs", || {
        bucket.list("out").len() == 2 && bucket.get("out/a.pgm") == place.read("expected.pgm")
    });
    assert_eq!((watching.stop(), worker.stop()), (Some(0), Some(0)));
    assert_eq!(fs::read_to_string(place.path("log")).unwrap().matches("submitted: ").count(), 5);
}
