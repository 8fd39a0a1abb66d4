//! `--frames split`: pages and frames go into files of their own, in a folder for each picture;
//! they appear together or not at all.

use std::fs;

use crate::animations;
use crate::harness::{Place, wait};
use crate::stacks::{Page, Storage, pages_of, plain};
use crate::watch::service::{Service, drop_in};

fn stack(numbers: std::ops::Range<usize>) -> Vec<u8> {
    let pages: Vec<_> = numbers.map(|number| Page::new(number, 40, 30)).collect();
    plain(&pages, Storage::Stored)
}

/// Returns the names of the files of a folder's first pages.
fn names(folder: &str, count: usize) -> Vec<String> {
    let stem = folder.rsplit('/').next().unwrap();
    (1..=count).map(|number| format!("{folder}/{stem}-{number:05}.tif")).collect()
}

#[test]
fn frames_of_animations_are_files_as_another_decoder_shows_them() {
    let place = Place::new();
    for fields in animations::expected() {
        let name = &fields[0];
        let content = fs::read(animations::data(name)).unwrap();
        place.file(format!("in/{name}"), content);
    }
    place.run("in --out out --frames split --format png --strength 0").exits(0);
    place.run("in --out gif --frames split --format gif --strength 0");
    for fields in animations::expected() {
        let [name, width, height, count, crc] = &*fields else { unreachable!() };
        let stem = name.split('.').next().unwrap();
        let mut found = flate2::Crc::new();
        let count: usize = count.parse().unwrap();
        for number in 1..=count {
            let (layout, pixels, frames) =
                animations::frames(&place.path(format!("out/{stem}/{stem}-{number:05}.png")));
            assert_eq!(
                (frames, layout.width.to_string(), layout.height.to_string()),
                (1, width.clone(), height.clone()),
                "{name}"
            );
            found.update(&animations::rgba(&layout, &pixels));
        }
        assert_eq!(format!("{:08x}", found.sum()), *crc, "{name}");
        assert!(!place.path(format!("out/{stem}/{stem}-{:05}.png", count + 1)).exists(), "{name}");
    }
    // Frames become files of formats for single pictures, and the whole animation has one
    // histogram.
    place.file("one/mixed.gif", fs::read(animations::data("mixed-disposal.gif")).unwrap());
    place.run("one --out tif --frames split --format tiff").exits(0);
    place.run("one --out whole --format png").exits(0);
    let (layout, pixels, count) = animations::frames(&place.path("whole/mixed.png"));
    let rgba = animations::rgba(&layout, &pixels);
    for (number, frame) in rgba.chunks_exact(rgba.len() / count).enumerate() {
        let (layout, pixels, _) =
            animations::frames(&place.path(format!("tif/mixed/mixed-{:05}.tif", number + 1)));
        assert!(animations::rgba(&layout, &pixels) == frame, "frame {number}");
    }
}

#[test]
fn each_picture_has_a_folder_so_that_no_two_share_a_file() {
    let place = Place::new();
    place.file("in/scan.tif", stack(0..3));
    // The output of an earlier run, next to the input.
    place.file("in/scan/scan-00001.tif", stack(7..8));
    place.file("in/scan-00001.tif", stack(8..10));
    place.run("in --out out --frames split").exits(0).says("Done: 3 pictures");
    let mut expected = [names("scan", 3), names("scan/scan-00001", 1), names("scan-00001", 2)].concat();
    expected.sort();
    assert_eq!(place.tree("out"), expected);
    place.run("in --out out --frames split").exits(0).says("Skipped: 3 already done");
    // Another picture with the same names of pages.
    place.file("in/scan.png", fs::read(animations::data("first-smaller.png")).unwrap());
    place.run("in --out png --frames split --format png").exits(1).says("the same output");
    place.run("in/scan.tif --out one.tif --frames split").exits(0);
    assert_eq!(place.tree("one"), ["one-00001.tif", "one-00002.tif", "one-00003.tif"]);
}

#[test]
fn a_ledger_knows_pages_by_the_first_of_them_which_comes_last() {
    let place = Place::new();
    place.file("in/a.tif", stack(0..4));
    place.file("in/b.tif", stack(4..5));
    let resume = || place.run("in --out out --frames split --resume");
    resume().exits(0).says("Done: 2 pictures");
    let whole = [names("a", 4), names("b", 1)].concat();
    let outputs = || {
        let all = place.tree("out");
        all.into_iter().filter(|name| !name.starts_with(".histeqd")).collect::<Vec<_>>()
    };
    assert_eq!(outputs(), whole);
    resume().exits(0).says("Skipped: 2 already done");
    place.file("in/a.tif", stack(10..14));
    resume().exits(0).says("Done: 1 picture,");
    let single = place.path("single.tif");
    fs::write(&single, stack(12..13)).unwrap();
    place.run("single.tif --out alone").exits(0);
    assert_eq!(pages_of(&place.path("out/a/a-00003.tif")), pages_of(&place.path("alone/single.tif")));
}

#[test]
fn a_service_splits_what_arrives_and_removes_it_when_all_is_there() {
    let place = Place::new();
    let service = Service::start(&place, "--frames split --after delete --on-collision number");
    drop_in(&place, "a.tif", &stack(0..3));
    drop_in(&place, "mixed.gif", &fs::read(animations::data("mixed-disposal.gif")).unwrap());
    let is_there = |name: &str| place.path("out").join(name).exists();
    wait("the pages", || is_there("a/a-00001.tif") && is_there("mixed/mixed-00001.gif"));
    wait("the inputs to go", || place.tree("in").is_empty());
    assert!(names("a", 3).iter().all(|name| is_there(name)) && is_there("mixed/mixed-00005.gif"));
    // The pages of another picture of the name get a number.
    drop_in(&place, "a.tif", &stack(5..7));
    wait("the next pages", || is_there("a/a-00001.2.tif"));
    wait("the input to go", || place.tree("in").is_empty());
    assert!(is_there("a/a-00002.2.tif") && !is_there("a/a-00003.2.tif"));
    assert_eq!(service.stop(), Some(0));
    for (name, number) in [("a/a-00002.tif", 1), ("a/a-00002.2.tif", 6)] {
        fs::write(place.path("page.tif"), stack(number..number + 1)).unwrap();
        place.run("page.tif --out alone --overwrite").exits(0);
        assert_eq!(
            pages_of(&place.path("out").join(name)),
            pages_of(&place.path("alone/page.tif")),
            "{name}"
        );
    }
}

#[test]
fn only_files_of_several_frames_have_folders_with_auto() {
    let place = Place::new();
    place.file("in/a.tif", stack(0..3));
    place.file("in/b.tif", stack(4..5));
    place.file("in/m.gif", fs::read(animations::data("mixed-disposal.gif")).unwrap());
    let expected = [vec!["b.png".to_owned()], [names("a", 3), names("m", 5)].concat()].concat();
    let mut expected: Vec<String> = expected.iter().map(|name| name.replace(".tif", ".png")).collect();
    expected.sort();
    for flags in ["--frames auto", "--frames auto --resume", "--frames auto --threads 1"] {
        let out = format!("out{}", flags.len());
        let run = || place.run(&format!("in --out {out} --format png {flags}"));
        run().exits(0).says("Done: 3 pictures");
        let mut found: Vec<_> =
            place.tree(&out).into_iter().filter(|name| !name.starts_with(".histeqd")).collect();
        found.sort();
        assert_eq!(found, expected, "{flags}");
        run().exits(0).says("Skipped: 3 already done");
    }
    place.run("in/a.tif --out one.png --frames auto").exits(0);
    assert_eq!(place.tree("one"), ["one-00001.png", "one-00002.png", "one-00003.png"]);
    // A picture that gains or loses pages is made again, at the place for its new number of pages.
    place.file("in/b.tif", stack(4..6));
    place.run("in --out out13 --format png --frames auto").exits(0).says("Done: 1 picture,");
    assert!(place.path("out13/b/b-00002.png").exists());
    // A single frame may go to standard output; a queue is refused, as its messages would have to
    // name the outputs in advance.
    place.file("c.tif", stack(7..8));
    place.run("c.tif --out - --frames auto").exits(0);
    if cfg!(feature = "queue") {
        place
            .run("submit in --out out --queue nats://127.0.0.1:9/x --frames auto")
            .exits(2)
            .says("--frames auto writes several outputs per picture, but a message of a queue names one");
    }
}

#[test]
fn a_service_knows_again_what_it_split_and_what_it_did_not() {
    let place = Place::new();
    let start = || Service::start(&place, "--frames auto --format png");
    let service = start();
    drop_in(&place, "a.tif", &stack(0..3));
    drop_in(&place, "b.tif", &stack(4..5));
    let is_there = |name: &str| place.path("out").join(name).exists();
    wait("the outputs", || is_there("a/a-00001.png") && is_there("b.png"));
    assert_eq!(service.stop(), Some(0));
    let modified = |name: &str| fs::metadata(place.path("out").join(name)).unwrap().modified().unwrap();
    let before = ["a/a-00001.png", "b.png"].map(modified);
    let service = start();
    drop_in(&place, "c.tif", &stack(8..10));
    wait("the next one", || is_there("c/c-00002.png") && is_there("c/c-00001.png"));
    assert_eq!(service.stop(), Some(0));
    assert_eq!(["a/a-00001.png", "b.png"].map(modified), before);
    assert!(!is_there("a.png") && !is_there("b"));
}

#[test]
fn what_takes_one_output_for_a_picture_is_refused_with_a_remedy() {
    let place = Place::new();
    place.file("a.tif", stack(0..3));
    place
        .run("a.tif --out - --frames split")
        .exits(2)
        .says("standard output takes one; name a folder, such as --out done/");
    place.run("a.tif --out out --frames split --method clahe").exits(0);
    place.file("m.gif", fs::read(animations::data("mixed-disposal.gif")).unwrap());
    place.run("m.gif --out m --frames split --method clahe").exits(0);
    assert_eq!(place.tree("m").len(), 5);
    if cfg!(feature = "queue") {
        place
            .run("submit a.tif --out out --queue nats://127.0.0.1:9/x --frames split")
            .exits(2)
            .says("a message of a queue names one; use --shard to share pictures between machines");
    }
}
