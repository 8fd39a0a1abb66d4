//! Folders with their own settings in a service: `histeqd.toml` comes, changes and goes.

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use super::service::{Service, drop_in, outputs, times_done};
use crate::cli::folder_settings::{made_by, ramp};
use crate::harness::{Place, wait};

fn has(place: &Place, output: &str, content: &[u8]) -> bool {
    fs::read(place.path("out").join(output)).is_ok_and(|output| output == content)
}

/// Returns a place with [`ramp`] in the inbox under these names.
fn with_ramps(names: &[&str]) -> Place {
    let place = Place::new();
    names.iter().for_each(|name| place.file(format!("in/{name}"), ramp()));
    place
}

#[test]
fn a_file_that_comes_changes_or_goes_holds_for_what_is_below_it_and_for_nothing_else() {
    for flags in ["", "--poll 200ms"] {
        let place = with_ramps(&["a.pgm", "b/1.pgm", "b/c/2.pgm"]);
        let [global, clahe, stretch] = ["", "--method clahe", "--method stretch"].map(made_by);
        let service = Service::start(&place, flags);
        let all_have = |wanted: [&[u8]; 3]| {
            let names = ["a.pgm", "b/1.pgm", "b/c/2.pgm"];
            names.iter().zip(wanted).all(|(name, content)| has(&place, name, content))
        };
        wait("all outputs", || all_have([&global, &global, &global]));
        place.file("in/b/histeqd.toml", "method = 'clahe'\n");
        wait("a new file to hold", || all_have([&global, &clahe, &clahe]));
        drop_in(&place, "b/c/histeqd.toml", b"method = 'stretch'\n");
        wait("an inner file to go over it", || all_have([&global, &clahe, &stretch]));
        drop_in(&place, "b/c/3.pgm", &ramp());
        wait("a new picture to have the settings too", || has(&place, "b/c/3.pgm", &stretch));
        fs::remove_file(place.path("in/b/c/histeqd.toml")).unwrap();
        wait("a file that goes to hold no more", || all_have([&global, &clahe, &clahe]));
        fs::rename(place.path("in/b/histeqd.toml"), place.path("in/b/old.toml")).unwrap();
        wait("a file that is renamed to hold no more", || all_have([&global, &global, &global]));
        assert_eq!(times_done(&service.log(), "a.pgm"), 1, "{}", service.log());
        assert!(!outputs(&place).iter().any(|output| output.ends_with(".toml")));
        assert!(service.log().contains("INFO settings of a folder: "), "{}", service.log());
        assert_eq!(service.stop(), Some(0));
    }
}

#[test]
fn pictures_wait_for_settings_that_cannot_be_used_and_go_on_when_these_are_mended() {
    let place = with_ramps(&["a.pgm", "b/1.pgm", "b/c/2.pgm"]);
    place.file("in/b/histeqd.toml", "mehtod = 'clahe'\n");
    let service = Service::start(&place, "");
    let why = format!(
        "{}:1: unknown key `mehtod`; did you mean `method`?",
        place.path("in/b/histeqd.toml").display()
    );
    wait("the other picture", || has(&place, "a.pgm", &made_by("")));
    let status = || place.run("status out --json").exits(0).json();
    wait("both to wait", || status()["daemon"]["pausing"] == 2);
    let told = status();
    let reason = told["retries"][0]["reason"].as_str().unwrap();
    assert_eq!(reason, format!("its folder's settings cannot be used: {why}"), "{told}");
    assert_eq!(told["failed"], 0, "{told}");
    place.run("status out").exits(0).prints(&format!("; pictures of a folder are held back: {why}"));
    assert_eq!(told["daemon"]["unusable"], serde_json::json!([why]), "{told}");
    // They are tried again with growing pauses, the third of which takes four seconds.
    thread::sleep(Duration::from_secs(3));
    assert_eq!(outputs(&place), ["a.pgm"]);
    let mended = Instant::now();
    place.file("in/b/histeqd.toml", "method = 'clahe'\n");
    wait("both to go on", || {
        ["b/1.pgm", "b/c/2.pgm"].iter().all(|name| has(&place, name, &made_by("--method clahe")))
    });
    assert!(mended.elapsed() < Duration::from_secs(60), "{:?}", mended.elapsed());
    wait("the trouble to be over", || status()["daemon"]["unusable"] == serde_json::json!([]));
    // The problem is logged once, and no picture counts as failed.
    let log = service.log();
    assert_eq!(log.matches("WARN pictures of a folder are held back: ").count(), 1, "{log}");
    assert!(!log.contains("WARN failed"), "{log}");
    // Done pictures stay done while the file cannot be used again, over a restart too.
    place.file("in/b/histeqd.toml", "after = 'delete'\n");
    wait("that to be said", || service.log().contains("`after` cannot be set by a folder"));
    service.stop();
    let service = Service::start(&place, "");
    drop_in(&place, "b/3.pgm", &ramp());
    wait("a new picture to wait", || status()["daemon"]["pausing"] == 1);
    place.file("in/b/histeqd.toml", "method = 'clahe'\n");
    wait("it to go on", || has(&place, "b/3.pgm", &made_by("--method clahe")));
    assert_eq!(times_done(&service.log(), "b/1.pgm"), 1, "{}", service.log());
    assert!(place.path("in/b/1.pgm").exists());
    assert_eq!(service.stop(), Some(0));
}

#[test]
fn each_folder_has_its_format_and_inputs_go_where_they_are_to_go() {
    let place = with_ramps(&["a.pgm", "b/1.pgm"]);
    place.file("in/b/histeqd.toml", "format = 'png'\ntogether = 'file'\n");
    place.file("in/d/histeqd.toml", "together = 'folder'\n");
    let service = Service::start(&place, "--after move:kept");
    drop_in(&place, "d/1.pgm", &ramp());
    wait("the inputs to go", || place.tree("kept") == ["a.pgm", "b/1.pgm"]);
    assert_eq!(outputs(&place), ["a.pgm", "b/1.png"]);
    wait("the refusal", || service.log().contains("--watch never has; use --together file"));
    assert_eq!(place.tree("in"), ["b/histeqd.toml", "d/1.pgm", "d/histeqd.toml"]);
    assert_eq!(service.stop(), Some(0));
}
