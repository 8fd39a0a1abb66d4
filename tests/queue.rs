//! `histeqd submit` and `work`, with a real server.

mod chaos;
mod folder_settings;
mod hosts;
pub(crate) mod server;
mod tls;
mod trust;
mod watching;

use std::fs;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::harness::{BRIGHT, DULL, Place, Ran, skipped, wait};
use crate::watch::service::{Service, children, picture};
use server::{Server, WITHOUT_STREAMS};

/// Settings that take long enough to be interrupted, however fast the build.
const SLOW: &str = if cfg!(debug_assertions) {
    "--method clahe --format pnm"
} else {
    "--method clahe --format png --png-level small"
};
/// The extension of their outputs.
const SLOW_EXTENSION: &str = if cfg!(debug_assertions) { "pgm" } else { "png" };

/// Starts a worker on a queue, with the place as its root.
fn worker(place: &Place, queue: &str, arguments: &str) -> Service {
    let root = place.path("");
    let line = format!("work --queue {queue} --root {} --devices cpu -j 1 -v {arguments}", root.display());
    Service::spawn(place, &mut place.histeqd(&line))
}

/// Works on a queue until it is empty.
fn work(place: &Place, queue: &str, arguments: &str) -> Ran {
    let root = place.path("");
    place.run(&format!(
        "work --queue {queue} --root {} --devices cpu --until-empty -v {arguments}",
        root.display()
    ))
}

fn submit(place: &Place, queue: &str, arguments: &str) -> Ran {
    place.run(&format!("submit --queue {queue} {arguments}"))
}

fn status(place: &Place, queue: &str) -> Value {
    place.run(&format!("status --queue {queue} --json")).exits(0).json()
}

/// Returns the names of the inputs that were put aside, and the reasons.
fn dead(place: &Place, queue: &str) -> Vec<(String, String)> {
    let status = status(place, queue);
    let name = |dead: &Value| {
        let input = dead["message"]["pictures"][0]["input"].as_str().unwrap_or_default();
        let name = Path::new(input).file_name().unwrap_or_default().to_string_lossy().into_owned();
        (name, dead["reason"].as_str().unwrap().to_owned())
    };
    let mut dead: Vec<_> = status["dead"].as_array().unwrap().iter().map(name).collect();
    dead.sort();
    dead
}

/// Returns the files below a folder, without the temporary files of a killed worker.
fn outputs(place: &Place, folder: &str) -> Vec<String> {
    let mut names = place.tree(folder);
    names.retain(|name| !name.rsplit('/').next().is_some_and(|name| name.starts_with(".histeqd-")));
    names
}

/// Expects the outputs of a local run with these arguments.
fn expect_as_local(place: &Place, folder: &str, arguments: &str) {
    let local = format!("local-{folder}");
    place.run(&format!("in --out {local} --devices cpu {arguments}"));
    let names = outputs(place, &local);
    assert_eq!(outputs(place, folder), names);
    for name in names {
        assert!(place.read(format!("{folder}/{name}")) == place.read(format!("{local}/{name}")), "{name}");
    }
}

#[test]
fn a_server_without_jetstream_is_told_how_it_is_started_with_it() {
    let place = Place::with(&["in/a.pgm"]);
    let Some(server) = Server::start(&place, &[WITHOUT_STREAMS]) else { return };
    let queue = server.queue("scans");
    submit(&place, &queue, "in --out out").exits(3).says("start it with --jetstream");
    place.run(&format!("status --queue {queue}")).exits(3).says("start it with --jetstream");
    work(&place, &queue, "").exits(3).says("start it with --jetstream");
}

#[test]
fn what_is_submitted_is_done_once_and_failures_are_put_aside_and_tried_again() {
    let place = Place::with(&["in/a.pgm", "in/x/b.pgm", "in/x/c.pgm"]);
    place.file("in/broken.pgm", &DULL[..DULL.len() - 1]);
    place.file("in/notes.txt", "no picture");
    let Some(server) = Server::start(&place, &[]) else { return };
    let queue = server.queue("scans");
    place.run(&format!("status --queue {queue}")).exits(3).says("there is no queue scans on this server");
    submit(&place, &queue, "in --out out")
        .exits(0)
        .says("5 pictures submitted in 1 message; 0 waiting already");
    submit(&place, &queue, "in --out out")
        .exits(0)
        .says("0 pictures submitted in 0 messages; 5 waiting already");
    assert_eq!(status(&place, &queue)["waiting"], 1);
    work(&place, &queue, "").exits(1).says("failed: ").says("broken.pgm");
    expect_as_local(&place, "out", "");
    let [(name, reason)] = &dead(&place, &queue)[..] else { panic!() };
    assert!(name == "broken.pgm" && reason.contains("damaged PNM"), "{name} {reason}");
    place
        .run(&format!("status --queue {queue}"))
        .exits(0)
        .prints("waiting      0 messages\nin progress  0 messages\nworkers      0\nfailed       1\n")
        .prints("broken.pgm: damaged PNM");

    let documented = include_str!("../docs/json.md");
    let told = status(&place, &queue);
    for key in told.as_object().unwrap().keys().chain(told["dead"][0].as_object().unwrap().keys()) {
        assert!(documented.contains(&format!("`{key}`")), "{key}");
    }

    // A retried picture fails again, and is listed once.
    place.run(&format!("retry --queue {queue} none.pgm")).exits(3).says("no failed picture matches");
    place.run(&format!("retry --queue {queue} broken.pgm")).exits(0).prints("1 picture will be retried");
    assert!(dead(&place, &queue).is_empty());
    work(&place, &queue, "").exits(1);
    assert_eq!(dead(&place, &queue).len(), 1);

    // A mended picture that is submitted again leaves the dead letters.
    place.file("in/broken.pgm", DULL);
    submit(&place, &queue, "in --out out")
        .says("2 pictures submitted in 1 message; 0 waiting already, 3 done");
    assert!(dead(&place, &queue).is_empty());
    work(&place, &queue, "").exits(0);
    assert_eq!(place.read("out/broken.pgm"), BRIGHT);
    fs::remove_file(place.path("in/notes.txt")).unwrap();
    // A done picture is done again if its output goes.
    fs::remove_file(place.path("out/a.pgm")).unwrap();
    submit(&place, &queue, "in --out out").says("1 picture submitted in 1 message");
    work(&place, &queue, "").exits(0);
    assert_eq!(place.read("out/a.pgm"), BRIGHT);
    submit(&place, &queue, "in --out out")
        .says("0 pictures submitted in 0 messages; 0 waiting already, 4 done");
}

#[test]
fn settings_travel_with_the_pictures_and_one_worker_does_all() {
    let place = Place::new();
    for number in 0..40 {
        place.file(format!("in/{number}.pgm"), picture(number, 40));
    }
    place.file("target.pgm", picture(99, 40));
    let Some(server) = Server::start(&place, &[]) else { return };
    let queue = server.queue("mixed");
    let all = [
        "",
        "--method clahe --clip-limit 3",
        "--format png --strength 0.5",
        "--method match --reference target.pgm",
        "--preset photo",
        "--preset training",
    ];
    for (number, settings) in all.iter().enumerate() {
        submit(&place, &queue, &format!("in --out out{number} {settings}")).exits(0);
    }
    // The worker's own settings of pictures do not count.
    place.file("config.toml", "preset = 'satellite'\nmethod = 'stretch'\nformat = 'tiff'\nthreads = 2\n");
    work(&place, &queue, "--config config.toml").exits(0);
    for (number, settings) in all.iter().enumerate() {
        expect_as_local(&place, &format!("out{number}"), settings);
        let again = format!("in --out out{number} {settings}");
        if !settings.contains("reference") {
            place.run(&again).exits(0).says("40 already done");
        }
        submit(&place, &queue, &again).exits(0).says("0 pictures submitted");
    }
    for (flags, why) in [
        ("--threads 3", "--threads is a flag of workers"),
        ("--together all", "--together folder, series and all, and --together-by, need all pictures"),
        ("--jpeg gpu", "--jpeg gpu needs a GPU"),
        ("--settle 3s", "--settle has no effect without --watch"),
    ] {
        submit(&place, &queue, &format!("in --out out {flags}")).exits(2).says(why);
    }
}

#[test]
fn who_can_publish_cannot_make_a_worker_touch_anything_but_its_roots() {
    let place = Place::with(&["root/in/a.pgm", "root/in/b.pgm", "other/secret.pgm"]);
    place.link("../../other/secret.pgm", "root/in/link.pgm");
    place.link("../other", "root/way");
    let Some(server) = Server::start(&place, &[]) else { return };
    let queue = server.queue("open");
    submit(&place, &queue, "root/in/a.pgm --out root/out").exits(0);
    let at = |name: &str| place.path(name).display().to_string();
    let message = |input: &str, output: &str, settings: &str| {
        let picture = json!({ "input": at(input), "output": at(output) });
        json!({ "version": 1, "settings": settings, "pictures": [picture] }).to_string()
    };
    let reference = format!("method = 'match'\nreference = '{}'", at("other/secret.pgm"));
    let bad = [
        message("other/secret.pgm", "root/out/1.pgm", ""),
        message("root/in/link.pgm", "root/out/2.pgm", ""),
        message("root/way/secret.pgm", "root/out/3.pgm", ""),
        message("root/in/a.pgm", "other/4.pgm", ""),
        message("root/in/a.pgm", "root/../other/5.pgm", ""),
        message("root/in/b.pgm", "root/way/6.pgm", ""),
        message("root/in/a.pgm", "root/out/7.pgm", &reference),
        message("root/in/a.pgm", "root/out/8.pgm", "state = '/tmp'"),
        message("root/in/a.pgm", "root/out/9.pgm", "jpeg = 'gpu'"),
        message("root/in/a.pgm", "root/out/10.pgm", "").replace("\"version\":1", "\"version\":9"),
        "{}".to_owned(),
        String::new(),
    ];
    for (number, payload) in bad.iter().enumerate() {
        server.publish(&format!("histeqd.open.work.bad{number}"), payload.as_bytes());
    }
    server.publish("histeqd.open.work.binary", b"\xff\x00\xfe");
    let both = json!({ "version": 1, "settings": "", "pictures": [
        { "input": at("other/secret.pgm"), "output": at("root/out/x.pgm") },
        { "input": at("root/in/b.pgm"), "output": at("root/out/b.pgm") },
    ] });
    server.publish("histeqd.open.work.both", both.to_string().as_bytes());
    let root = at("root");
    let ran =
        place.run(&format!("work --queue {queue} --root {root} --devices cpu --until-empty -v --attempts 1"));
    ran.exits(1);
    assert_eq!(place.tree("root/out"), ["a.pgm", "b.pgm"], "{ran}");
    assert_eq!(place.tree("other"), ["secret.pgm"], "{ran}");
    let reasons: Vec<_> = dead(&place, &queue).into_iter().map(|(_, reason)| reason).collect();
    assert_eq!(reasons.len(), bad.len() + 2, "{reasons:#?}");
    for why in [
        "other/secret.pgm is not below a --root of this worker",
        "root/in/link.pgm is not below a --root of this worker, because a link leads out of it",
        "other/4.pgm is not below a --root of this worker",
        "is neither an absolute path without `.` and `..` nor the URL of an object",
        "root/way is a link, and links below",
        "state is not a key of messages",
        "--jpeg gpu needs a GPU",
        "it is of version 9, and this histeqd knows version 1",
        "it is not a message: ",
    ] {
        assert!(reasons.iter().any(|reason| reason.contains(why)), "{why}: {reasons:#?}");
    }
    // A worker without a root is refused.
    place.run(&format!("work --queue {queue} --devices cpu")).exits(2).says("--root <DIR>");
}

#[test]
fn a_full_queue_is_waited_for() {
    let place = Place::new();
    for number in 0..200 {
        place.file(format!("in/{number}.pgm"), picture(number, 9));
    }
    let Some(server) = Server::start(&place, &[]) else { return };
    let queue = server.queue("small");
    let mut command = place.histeqd(&format!("submit --queue {queue} in --out out --max-messages 2"));
    let submitting = Service::spawn(&place, &mut command);
    wait("the queue to be full", || submitting.log().contains("the queue is full; waiting for the workers"));
    assert_eq!(status(&place, &queue)["waiting"], 2);
    let worker = worker(&place, &queue, "");
    assert_eq!(submitting.ends(), Some(0));
    wait("all pictures", || outputs(&place, "out").len() == 200);
    assert_eq!(worker.stop(), Some(0));
    expect_as_local(&place, "out", "");

    // A stop ends the wait.
    fs::remove_dir_all(place.path("out")).unwrap();
    let mut command = place.histeqd(&format!("submit --queue {queue} in --out out"));
    let submitting = Service::spawn(&place, &mut command);
    wait("the queue to be full", || status(&place, &queue)["waiting"] == 2);
    assert_eq!(submitting.stop(), Some(130));
}

#[test]
fn a_stopped_worker_gives_back_what_it_has_not_begun() {
    let place = Place::new();
    for number in 0..300 {
        place.file(format!("in/{number}.pgm"), picture(number, 150));
    }
    let Some(server) = Server::start(&place, &[]) else { return };
    let queue = server.queue("stop");
    submit(&place, &queue, "in --out out --method clahe").exits(0);
    // More stops than attempts at a picture.
    for _ in 0..3 {
        let before = outputs(&place, "out").len();
        let worker = worker(&place, &queue, "--attempts 2");
        wait("a picture", || outputs(&place, "out").len() > before);
        assert_eq!(worker.stop(), Some(0));
        assert_eq!(status(&place, &queue)["in_progress"], 0, "the lease of 30 s is not waited for");
        assert!(dead(&place, &queue).is_empty());
    }
    assert!(outputs(&place, "out").len() < 300);
    work(&place, &queue, "--attempts 2").exits(0);
    expect_as_local(&place, "out", "--method clahe");
}

#[test]
fn a_picture_that_ends_its_worker_again_and_again_is_put_aside_alone() {
    let place = Place::with(&["in/a.pgm", "in/b.pgm"]);
    let Some(server) = Server::start(&place, &[]) else { return };
    let queue = server.queue("poison");
    // A picture that takes this long is killed in the middle.
    place.file("in/slow.pgm", picture(1, 6000));
    submit(&place, &queue, &format!("in --out out {SLOW} --lease 1s")).exits(0);
    for _ in 0..2 {
        let worker = worker(&place, &queue, "--attempts 2");
        // The temporary file of this process shows that it has the picture.
        let own = format!("-{}-", worker.pid());
        let is_begun =
            || place.tree("out").iter().any(|name| name.starts_with(".histeqd-") && name.contains(&own));
        wait("the slow picture to be the only one left", || outputs(&place, "out").len() == 2 && is_begun());
        worker.kill();
    }
    work(&place, &queue, "--attempts 2").exits(1);
    let dead = dead(&place, &queue);
    assert_eq!(dead.len(), 1, "{dead:?}");
    let why = "it was begun 2 times, and each time its worker was killed or cut off";
    assert!(dead[0].0 == "slow.pgm" && dead[0].1.starts_with(why), "{dead:?}");
    assert_eq!(outputs(&place, "out"), ["a", "b"].map(|name| format!("{name}.{SLOW_EXTENSION}")));
}

#[test]
fn a_queue_that_vanished_is_submitted_again_and_its_workers_go_on() {
    let place = Place::with(&["in/a.pgm", "in/b.pgm"]);
    let Some(mut server) = Server::start(&place, &[]) else { return };
    let queue = server.queue("gone");
    let worker = worker(&place, &queue, "");
    submit(&place, &queue, "in --out out").exits(0);
    wait("the outputs", || outputs(&place, "out").len() == 2);
    server.kill();
    fs::remove_dir_all(place.path("streams")).unwrap();
    place.run(&format!("submit --queue {queue} in --out out")).exits(3).says("cannot be used");
    thread::sleep(Duration::from_millis(300));
    server.restart();
    place.file("in/c.pgm", DULL);
    submit(&place, &queue, "in --out out")
        .exits(0)
        .says("1 picture submitted in 1 message; 0 waiting already, 2 done");
    wait("the new output", || outputs(&place, "out").len() == 3);
    worker.signal(Signal::TERM);
    assert_eq!(worker.ends(), Some(0));
}

#[test]
fn a_server_that_wants_a_password_gets_it_from_the_environment_or_the_address() {
    let place = Place::with(&["in/a.pgm"]);
    let Some(server) = Server::start(&place, &["--user", "me", "--pass", "secret"]) else { return };
    let queue = server.queue("locked");
    let ran = submit(&place, &queue, "in --out out");
    ran.exits(3).says("cannot be used: authorization violation");
    let mut command = place.histeqd(&format!("submit --queue {queue} in --out out"));
    command.env("NATS_USER", "me").env("NATS_PASSWORD", "secret");
    Ran::from(command).exits(0);
    let address = queue.replace("nats://", "nats://me:secret@");
    work(&place, &address, "").exits(0);
    assert_eq!(place.read("out/a.pgm"), BRIGHT);
    let mut command = place.histeqd(&format!("submit --queue {queue} in --out out"));
    command.env("NATS_CREDS", "none.creds");
    Ran::from(command).exits(2).says("NATS_CREDS names none.creds, which cannot be used: No such file");
    submit(&place, "nats://127.0.0.1", "in --out out")
        .exits(2)
        .says("is not the address of a queue: it has no name after the host");
}

#[test]
fn what_may_pass_is_tried_again_so_often_and_then_put_aside() {
    let place = Place::with(&["in/a.pgm", "in/b.pgm"]);
    let Some(server) = Server::start(&place, &[]) else { return };
    let queue = server.queue("gone");
    submit(&place, &queue, "in --out out").exits(0);
    fs::remove_file(place.path("in/a.pgm")).unwrap();
    let start = Instant::now();
    work(&place, &queue, "--attempts 2").exits(1).says("failed, retried: ");
    assert!(start.elapsed() > Duration::from_secs(2), "not at once");
    let dead = &status(&place, &queue)["dead"];
    assert_eq!((dead.as_array().unwrap().len(), &dead[0]["deliveries"]), (1, &2.into()), "{dead}");
    assert_eq!(dead[0]["reason"], "cannot be read: No such file or directory (os error 2)");
    assert_eq!(place.tree("out"), ["b.pgm"]);
    // Once the file is back, it is done.
    place.file("in/a.pgm", DULL);
    place.run(&format!("retry --queue {queue}")).exits(0).prints("1 picture will be retried");
    work(&place, &queue, "--attempts 2").exits(0);
    assert_eq!(place.tree("out"), ["a.pgm", "b.pgm"]);
}

#[test]
fn a_message_that_is_not_signed_stays_among_the_failures_until_it_is_forgotten() {
    let place = Place::with(&["in/a.pgm"]);
    let Some(server) = Server::start(&place, &[]) else { return };
    let queue = server.queue("signed");
    place.file("key", "0123456789abcdef0123456789abcdef");
    submit(&place, &queue, "in --out out").exits(0);
    work(&place, &queue, "--key-file key");
    assert_eq!(dead(&place, &queue).len(), 1);
    let retry = |flags: &str| place.run(&format!("retry --queue {queue} --key-file key {flags}"));
    retry("").exits(0).prints("1 failed message cannot be tried again");
    submit(&place, &queue, "in --out out --key-file key").exits(0);
    work(&place, &queue, "--key-file key").exits(0);
    assert_eq!(place.tree("out"), ["a.pgm"]);
    assert_eq!(dead(&place, &queue).len(), 1);
    retry("--forget").exits(0).prints("1 picture forgotten");
    assert!(dead(&place, &queue).is_empty());
    retry("").exits(0).prints("no picture has failed for good");
}

#[test]
fn a_worker_whose_disk_is_gone_puts_nothing_aside() {
    let place = Place::with(&["disk/in/a.pgm", "disk/in/b.pgm"]);
    let Some(server) = Server::start(&place, &[]) else { return };
    let queue = server.queue("disk");
    submit(&place, &queue, "disk/in --out disk/out").exits(0);
    let root = place.path("disk");
    let line = format!("work --queue {queue} --root {} --devices cpu --attempts 1 -v", root.display());
    let submitted = status(&place, &queue)["waiting"].clone();
    let place_of_disk = place.path("elsewhere");
    let worker = Service::spawn(&place, &mut place.histeqd(&line));
    wait("the outputs", || outputs(&place, "disk/out").len() == 2);
    fs::rename(&root, &place_of_disk).unwrap();
    fs::create_dir(&root).unwrap();
    place.file("in/c.pgm", DULL);
    let message = json!({ "version": 1, "settings": "", "pictures": [
        { "input": root.join("in/c.pgm"), "output": root.join("out/c.pgm") },
    ] });
    server.publish("histeqd.disk.work.c", message.to_string().as_bytes());
    wait("the worker to wait", || {
        worker.log().contains(
            "nothing more is started for 5 s: a folder of --root is gone, or another one is in its place",
        )
    });
    assert_eq!(submitted, 1);
    let dead = dead(&place, &queue);
    assert!(dead.is_empty(), "{dead:?} {}", worker.log());
    fs::remove_dir(&root).unwrap();
    fs::rename(&place_of_disk, &root).unwrap();
    place.file("disk/in/c.pgm", DULL);
    wait("the last output", || outputs(&place, "disk/out").len() == 3);
    assert_eq!(worker.stop(), Some(0));
}

#[test]
fn a_server_may_ask_for_a_key_and_for_tls() {
    let place = Place::with(&["in/a.pgm"]);
    // The example key of NATS's documentation.
    place.file("user.nk", "SUACSSL3UAHUDXKFSNVUZRF5UHPMWZ6BFDTJ7M6USDXIEDNPPQYYYCU3VY\n");
    let users =
        "authorization { users = [ { nkey: UDXU4RCSJNZOIQHZNWXHXORDPRTGNJAHAHFRGZNEEJCPQTT2M7NLCNF4 } ] }";
    let tls = "tls { cert_file: server.crt, key_file: server.key }";
    place.file("server.conf", format!("{users}\n{tls}\n"));
    let made = place.command(
        "openssl",
        "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=localhost -addext subjectAltName=IP:127.0.0.1 \
         -addext basicConstraints=critical,CA:FALSE -keyout server.key -out server.crt"
            .split_whitespace(),
    );
    let Ok(true) = { made }.output().map(|made| made.status.success()) else {
        return skipped("no openssl that makes a certificate");
    };
    let Some(server) = Server::start(&place, &["-c", "server.conf"]) else { return };
    let queue = server.queue("safe").replace("nats://", "tls://");
    let run = |line: &str, variables: &[(&str, &str)]| {
        let mut command = place.histeqd(&format!("{line} --queue {queue}"));
        command.envs(variables.iter().copied());
        Ran::from(command)
    };
    let (key, authority) = (("NATS_NKEY", "user.nk"), ("NATS_CA", "server.crt"));
    run("submit in --out out", &[key]).exits(3).says("cannot be used: ");
    run("submit in --out out", &[authority]).exits(3).says("cannot be used: ");
    // A valid certificate, but for another name.
    let by_name = queue.replace("127.0.0.1", "localhost");
    let mut command = place.histeqd(&format!("submit in --out out --queue {by_name}"));
    Ran::from(command.envs([key, authority]).output().unwrap()).exits(3).says("cannot be used: ");
    run("submit in --out out", &[key, authority]).exits(0);
    let root = place.path("");
    let line = format!("work --root {} --devices cpu --until-empty", root.display());
    run(&line, &[key, authority]).exits(0);
    assert_eq!(place.read("out/a.pgm"), BRIGHT);
}

#[test]
fn workers_of_devices_outlive_a_change_of_settings() {
    let place = Place::with(&["in/a.pgm", "in/b.pgm", "in/c.pgm"]);
    let Some(server) = Server::start(&place, &[]) else { return };
    let (queue, root) = (server.queue("scans"), place.path(""));
    let line = format!("work --queue {queue} --root {} --devices cpu-workers:1 -j 1 -v", root.display());
    let service = Service::spawn(&place, &mut place.histeqd(&line));
    wait("the worker process", || service.log().contains("ready after"));
    let begun = children(service.pid());
    assert!(begun.0.len() == 1 && begun.1 == 0, "{begun:?}");
    for (folder, arguments) in [("global", ""), ("clahe", "--method clahe"), ("again", "--strength 0.5")] {
        submit(&place, &queue, &format!("in --out {folder} {arguments}")).exits(0);
        wait("the pictures", || outputs(&place, folder).len() == 3);
        expect_as_local(&place, folder, arguments);
        assert_eq!(children(service.pid()), begun, "{}", service.log());
    }
    let done = status(&place, &queue)["workers"][0]["devices"].clone();
    assert!(done["cpu-worker0"].as_u64().unwrap() > 0, "{done}");
    assert_eq!(service.stop(), Some(0));
}
