//! Refusals of a worker, whoever publishes: a message is not trusted with files.

use std::fs;
use std::os::unix::fs::symlink;

use serde_json::json;

use super::server::Server;
use super::{dead, status, submit, work, worker};
use crate::harness::{BRIGHT, DULL, Place, wait};

/// Publishes a message about pictures, each an input and an output in the place, as any program
/// could.
fn publish(server: &Server, place: &Place, name: &str, settings: &str, pictures: &[(&str, &str)]) {
    let picture =
        |&(input, output): &(&str, &str)| json!({"input": place.path(input), "output": place.path(output)});
    let pictures: Vec<_> = pictures.iter().map(picture).collect();
    let message = json!({"version": 1, "settings": settings, "pictures": pictures}).to_string();
    server.publish(&format!("histeqd.q.work.{name}"), message.as_bytes());
}

#[test]
fn a_message_replaces_nothing_but_what_histeqd_wrote() {
    let place = Place::with(&["in/a.pgm", "in/b.pgm", "in/self.pgm"]);
    let Some(server) = Server::start(&place, &[]) else { return };
    let queue = server.queue("q");
    submit(&place, &queue, "in/a.pgm --out out").exits(0);
    work(&place, &queue, "").exits(0);
    assert_eq!(place.read("out/a.pgm"), BRIGHT);
    for (file, content) in
        [("notes.txt", "text"), ("in/histeqd.toml", "method = 'clahe'\n"), ("out/.histeqd/x.png", "x")]
    {
        place.file(file, content);
    }
    fs::create_dir(place.path("victim")).unwrap();
    symlink("../victim", place.path("out/link")).unwrap();
    let refused = [
        ("in/a.pgm", "in/b.pgm", "did not write"),
        ("in/self.pgm", "in/self.pgm", "is an input of the message"),
        ("in/a.pgm", "notes.txt", "neither a picture's name"),
        ("in/a.pgm", "in/histeqd.toml", "or be a folder's histeqd.toml"),
        ("in/a.pgm", "out/.histeqd/x.png", "in the folder of a ledger"),
        ("in/a.pgm", "out/link/a.pgm", "is a link, and links below"),
    ];
    let before: Vec<_> = refused.iter().map(|(_, output, _)| fs::read(place.path(output)).ok()).collect();
    for (number, (input, output, _)) in refused.iter().enumerate() {
        publish(&server, &place, &format!("m{number}"), "overwrite = true\n", &[(input, output)]);
    }
    // Outputs of histeqd are replaced, and new outputs are written.
    publish(&server, &place, "again", "method = 'stretch'\noverwrite = true\n", &[("in/a.pgm", "out/a.pgm")]);
    publish(&server, &place, "new", "", &[("in/b.pgm", "out/b.pgm")]);
    work(&place, &queue, "").exits(1);
    let reasons = dead(&place, &queue);
    assert_eq!(reasons.len(), refused.len(), "{reasons:?}");
    for (_, output, why) in refused {
        assert!(reasons.iter().any(|(_, reason)| reason.contains(why)), "{output} {why}: {reasons:?}");
    }
    let after: Vec<_> = refused.iter().map(|(_, output, _)| fs::read(place.path(output)).ok()).collect();
    assert_eq!(before, after);
    assert_eq!(place.read("in/b.pgm"), DULL);
    assert!(place.path("out/b.pgm").exists() && place.tree("victim").is_empty());
}

#[test]
fn a_file_that_comes_while_its_picture_is_worked_on_stays() {
    let place = Place::new();
    let Some(server) = Server::start(&place, &[]) else { return };
    let queue = server.queue("q");
    let row: Vec<u8> = (0..8000_u32).map(|x| (60 + x * 7 % 80) as u8).collect();
    place.file("in/big.pgm", [b"P5\n8000 8000\n255\n".to_vec(), row.repeat(8000)].concat());
    place.file("out/other", "");
    submit(&place, &queue, "in/big.pgm --out other").exits(0);
    publish(&server, &place, "m", "", &[("in/big.pgm", "out/big.pgm")]);
    let worker = worker(&place, &queue, "--memory 64MiB");
    wait("the temporary file", || {
        fs::read_dir(place.path("out"))
            .unwrap()
            .flatten()
            .any(|entry| entry.file_name().to_string_lossy().starts_with(".histeqd-"))
    });
    place.file("coming", "somebody's");
    fs::rename(place.path("coming"), place.path("out/big.pgm")).unwrap();
    wait("the end", || dead(&place, &queue).len() == 1);
    assert!(dead(&place, &queue)[0].1.contains("another file of that name has appeared"));
    assert_eq!(place.read("out/big.pgm"), b"somebody's");
    assert_eq!(worker.stop(), Some(0));
}

#[test]
fn files_that_settings_name_are_read_from_the_roots_each_time() {
    let place = Place::with(&["root/in/a.pgm", "root/in/b.pgm", "elsewhere/r.pgm"]);
    let Some(server) = Server::start(&place, &[]) else { return };
    let queue = server.queue("q");
    submit(&place, &queue, "root/in/b.pgm --out root/out").exits(0);
    symlink("../elsewhere/r.pgm", place.path("root/r.pgm")).unwrap();
    let settings = format!("method = 'match'\nreference = '{}'\n", place.path("root/r.pgm").display());
    publish(&server, &place, "a", &settings, &[("root/in/a.pgm", "root/out/a.pgm")]);
    let root = place.path("root");
    let line = format!("work --queue {queue} --root {} --devices cpu --until-empty", root.display());
    place.run(&line).exits(1);
    let reasons = dead(&place, &queue);
    assert!(reasons[0].1.contains("a link leads out of it"), "{reasons:?}");
    assert_eq!(place.tree("root/out"), ["b.pgm"]);
}

#[test]
fn workers_with_a_key_take_signed_messages_alone() {
    let place = Place::with(&["in/a.pgm", "in/b.pgm"]);
    let Some(server) = Server::start(&place, &[]) else { return };
    let queue = server.queue("q");
    place.file("key", "0123456789abcdef0123456789abcdef\n");
    place.file("other", "another key that nobody has\n");
    submit(&place, &queue, "in/a.pgm --out out --key-file key").exits(0);
    submit(&place, &queue, "in/b.pgm --out out --key-file other").exits(0);
    publish(&server, &place, "c", "", &[("in/b.pgm", "out/c.pgm")]);
    work(&place, &queue, "--key-file key").exits(1);
    assert_eq!(place.read("out/a.pgm"), BRIGHT);
    assert!(!place.path("out/b.pgm").exists() && !place.path("out/c.pgm").exists());
    let status = status(&place, &queue);
    let refused = status["dead"].as_array().unwrap();
    assert!(
        refused.len() == 2
            && refused.iter().all(|dead| dead["reason"].as_str().unwrap().contains("not signed"))
    );
    // A signer is trusted like the user who starts a run: foreign outputs are replaced, but no
    // input.
    place.file("out/b.pgm", "somebody's");
    place.file("in/broken.png", b"\x89PNG\r\n\x1a\n");
    submit(&place, &queue, "in/b.pgm in/broken.png --out out --overwrite --key-file key").exits(0);
    work(&place, &queue, "--key-file key --attempts 1").exits(1);
    assert_eq!(place.read("out/b.pgm"), BRIGHT);
    // A failed picture goes back only with the key.
    place.file("in/broken.png", BRIGHT);
    place.run(&format!("retry --queue {queue} broken.png")).exits(0);
    work(&place, &queue, "--key-file key --attempts 1").exits(1);
    place.run(&format!("submit in/broken.png --out out --queue {queue} --key-file key")).exits(0);
    work(&place, &queue, "--key-file key").exits(0);
    assert!(place.path("out/broken.png").exists());
    place
        .run(&format!("work --queue {queue} --root . --key-file in/a.none"))
        .exits(2)
        .says("--key-file in/a.none cannot be read");
}

#[test]
fn what_workers_and_dead_letters_say_does_not_drive_the_terminal() {
    let place = Place::with(&["in/a.pgm"]);
    let Some(server) = Server::start(&place, &[]) else { return };
    let queue = server.queue("q");
    submit(&place, &queue, "in/a.pgm --out out").exits(0);
    let letter = json!({"reason": "no\u{1b}[2J\u{202e}", "worker": "w\nfailed 0", "deliveries": 1, "message": null, "text": "x"});
    server.publish("histeqd.q.dead.d", letter.to_string().as_bytes());
    let told = place.run(&format!("status --queue {queue}"));
    told.exits(0).prints("no\\u{1b}[2J\\u{202e} (w\\nfailed 0, delivery 1)");
    let mistyped = place.run("submit in --out out --queue nats://user:hunter2@host/a/b");
    mistyped.exits(2);
    assert!(!mistyped.stderr().contains("hunter2"), "{mistyped}");
}
