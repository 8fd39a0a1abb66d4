//! Folders with their own settings, which travel with their pictures.

use std::fs;

use super::server::Server;
use super::{expect_as_local, submit, work};
use crate::cli::folder_settings::{made_by, ramp};
use crate::harness::{Place, wait};
use crate::watch::service::Service;

#[test]
fn each_message_has_the_settings_of_its_pictures_folder() {
    let place = Place::new();
    for name in ["a.pgm", "b/1.pgm", "b/2.pgm", "b/c/3.pgm", "d/4.pgm"] {
        place.file(format!("in/{name}"), ramp());
    }
    place.file("in/b/histeqd.toml", "method = 'clahe'\nformat = 'png'\n");
    place.file("in/b/c/histeqd.toml", "method = 'match'\n");
    place.file("in/d/histeqd.toml", "together = 'folder'\n");
    place.file("reference.pgm", "P5\n2 1\n255\n\u{20}\u{7f}");
    let Some(server) = Server::start(&place, &[]) else { return };
    let queue = server.queue("scans");
    let reference = place.path("reference.pgm");
    place.file("my.toml", format!("reference = '{}'\nstrength = 0.5\n", reference.display()));
    let run = "in --out out --config my.toml";
    submit(&place, &queue, run)
        .exits(1)
        .says("in/d/4.pgm: its folder's settings cannot be used: ")
        .says("the worker of a queue never has; use --together file")
        .says("4 pictures submitted in 3 messages");
    work(&place, &queue, "").exits(0);
    assert_eq!(place.tree("out"), ["a.pgm", "b/1.png", "b/2.png", "b/c/3.png"]);
    // Later runs find them done, through the queue and without it.
    submit(&place, &queue, run).exits(1).says("0 pictures submitted").says("4 done already");
    place.run(run).exits(0).says("Done: 1 picture,").says("Skipped: 4 already done");
    expect_as_local(&place, "out", "--config my.toml");
    // Paths of flags are made absolute for folders too.
    place.file("in/b/histeqd.toml", "strength = 0.25\n");
    fs::remove_dir_all(place.path("in/d")).unwrap();
    let flags = "--method match --reference reference.pgm";
    submit(&place, &queue, &format!("in --out matched {flags}")).exits(0);
    work(&place, &queue, "").exits(0);
    expect_as_local(&place, "matched", flags);
}

#[test]
fn a_watch_that_publishes_has_pictures_wait_for_settings_that_cannot_be_used() {
    let place = Place::new();
    place.file("in/a.pgm", ramp());
    place.file("in/b/1.pgm", ramp());
    place.file("in/b/histeqd.toml", "fromat = 'png'\n");
    let Some(server) = Server::start(&place, &[]) else { return };
    let queue = server.queue("scans");
    let line = format!("--watch in --out out --queue {queue} -v");
    let service = Service::spawn(&place, &mut place.histeqd(&line));
    wait("the other picture", || {
        service.log().contains("submitted: ") && service.log().contains("/in/a.pgm")
    });
    wait("the reason", || {
        service.log().contains("histeqd.toml:1: unknown key `fromat`; did you mean `format`?")
    });
    place.file("in/b/histeqd.toml", "format = 'png'\nmethod = 'clahe'\n");
    wait("it to go on", || {
        service.log().lines().any(|line| line.contains("submitted: ") && line.contains("/in/b/1.pgm"))
    });
    work(&place, &queue, "").exits(0);
    assert_eq!(place.tree("out"), ["a.pgm", "b/1.png"]);
    place.run("in --out local").exits(0);
    assert!(place.read("out/b/1.png") == place.read("local/b/1.png"));
    assert_eq!(place.read("out/a.pgm"), made_by(""));
    // Changed settings of the folder have its pictures submitted again.
    place.file("in/b/histeqd.toml", "method = 'stretch'\n");
    wait("the picture to be submitted again", || service.log().matches("/in/b/1.pgm").count() > 2);
    wait("the new output", || {
        work(&place, &queue, "").exits(0);
        place.path("out/b/1.pgm").exists()
    });
    assert_eq!(place.read("out/b/1.pgm"), made_by("--method stretch"));
    assert_eq!(service.stop(), Some(0));
}
