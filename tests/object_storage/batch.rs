//! Runs over local folders and folders in object storage.

use std::fs;

use super::server::{Bucket, bucket};
use crate::harness::{BRIGHT, DULL, Place, wait};
use crate::stacks::{Page, Storage, plain};

/// Names with characters that are special in URLs or shells.
const NAMES: [&str; 6] = ["a.pgm", "in box/b c.pgm", "50%.pgm", "%20+&=.pgm", "é/ü €.pgm", "q?x#y.pgm"];

/// A gray picture of varied levels.
pub(super) fn picture(width: usize, height: usize, seed: usize) -> Vec<u8> {
    let mut bytes = format!("P5\n{width} {height}\n255\n").into_bytes();
    bytes.extend((0..width * height).map(|at| (60 + (at * 31 + at / 7 + seed * 13) % 97) as u8));
    bytes
}

/// Puts pictures into a local folder and one in the bucket, and makes the outputs of the local
/// ones.
fn prepared(bucket: &Bucket) -> Place {
    let place = Place::new();
    for (seed, name) in NAMES.iter().enumerate() {
        let content = picture(64, 48, seed);
        bucket.put(&format!("in/{name}"), content.clone());
        place.file(format!("in/{name}"), content);
    }
    place.run("in --out reference").exits(0);
    place
}

fn assert_done(bucket: &Bucket, place: &Place, folder: &str) {
    let names = place.tree("reference");
    let mut keys: Vec<_> = names.iter().map(|name| format!("{folder}/{name}")).collect();
    keys.sort();
    assert_eq!(bucket.list(folder), keys);
    for name in names {
        assert_eq!(
            bucket.get(&format!("{folder}/{name}")),
            place.read(format!("reference/{name}")),
            "{name}"
        );
    }
}

#[test]
fn outputs_are_those_of_a_local_run_wherever_inputs_and_outputs_are() {
    let Some(bucket) = bucket() else { return };
    let place = prepared(&bucket);
    let (input, out) = (bucket.url("in"), bucket.url("out"));
    bucket.run(&place, [&*input, "--out", &out]).exits(0).says("Done: 6 pictures");
    assert_done(&bucket, &place, "out");
    bucket.run(&place, ["in", "--out", &bucket.url("from here/")]).exits(0).says("Done: 6 pictures");
    assert_done(&bucket, &place, "from here");
    bucket.run(&place, [&*input, "--out", "local"]).exits(0).says("Done: 6 pictures");
    assert_eq!(place.tree("local"), place.tree("reference"));
    for name in NAMES {
        assert_eq!(place.read(format!("local/{name}")), place.read(format!("reference/{name}")), "{name}");
    }
    // The records on the outputs leave no picture to do.
    for arguments in
        [[&*input, "--out", &out], ["in", "--out", &bucket.url("from here")], [&*input, "--out", "local"]]
    {
        bucket.run(&place, arguments).exits(0).says("Skipped: 6 already done");
    }
}

#[test]
fn another_input_and_other_settings_make_other_outputs() {
    let Some(bucket) = bucket() else { return };
    let place = prepared(&bucket);
    let (input, out) = (bucket.url("in"), bucket.url("out"));
    bucket.run(&place, [&*input, "--out", &out]).exits(0);
    let untouched = bucket.head("out/50%.pgm");
    let other = picture(64, 48, 99);
    bucket.put("in/a.pgm", other.clone());
    bucket.run(&place, [&*input, "--out", &out]).exits(0).says("Done: 1 picture,").says("5 already done");
    place.file("in/a.pgm", other);
    place.run("in --out reference").exits(0);
    assert_done(&bucket, &place, "out");
    assert_eq!(bucket.head("out/50%.pgm"), untouched);

    let stretch = ["--method", "stretch"];
    bucket
        .run(&place, [&*input, "--out", &out].into_iter().chain(stretch))
        .exits(0)
        .says("Note: 6 outputs with other settings were made again: --method stretch instead of global\n");
    let made = bucket.run(&place, ["explain", &bucket.url("out/50%.pgm")]);
    made.exits(0).prints(": made by histeqd, unchanged since\n  settings: --method stretch\n");
    place.run("in --out reference --method stretch").exits(0);
    assert_done(&bucket, &place, "out");
    bucket.run(&place, [&*input, "--out", &out, "--overwrite"]).exits(0).says("Done: 6 pictures");
    place.run("in --out reference --overwrite").exits(0);
    assert_done(&bucket, &place, "out");
}

#[test]
fn the_same_changes_are_seen_by_outputs_here() {
    let Some(bucket) = bucket() else { return };
    let place = Place::new();
    bucket.put("in/b.pgm", DULL);
    let input = bucket.url("in");
    for resume in [None, Some("--resume")] {
        let arguments = || [&*input, "--out", "out"].into_iter().chain(resume);
        fs::remove_dir_all(place.path("out")).ok();
        bucket.put("in/a.pgm", DULL);
        bucket.run(&place, arguments()).exits(0).says("Done: 2 pictures");
        assert_eq!(place.read("out/a.pgm"), BRIGHT);
        bucket.run(&place, arguments()).exits(0).says("2 already done");
        bucket.put("in/a.pgm", picture(8, 8, resume.iter().count()));
        bucket.run(&place, arguments()).exits(0).says("Done: 1 picture,").says("1 already done");
    }
}

#[test]
fn what_somebody_else_put_there_is_an_output_by_age_and_an_older_one_is_replaced() {
    let Some(bucket) = bucket() else { return };
    let place = Place::new();
    bucket.put("out/a.pgm", "older");
    std::thread::sleep(std::time::Duration::from_millis(1100));
    bucket.put("in/a.pgm", DULL);
    bucket.put("in/b.pgm", DULL);
    std::thread::sleep(std::time::Duration::from_millis(1100));
    bucket.put("out/b.pgm", "younger");
    bucket.run(&place, [&*bucket.url("in"), "--out", &bucket.url("out")]).exits(0).says("1 already done");
    assert_eq!((bucket.get("out/a.pgm"), bucket.get("out/b.pgm")), (BRIGHT.to_vec(), b"younger".to_vec()));
}

#[test]
fn listings_of_many_pages_are_read_to_their_end() {
    let Some(bucket) = bucket() else { return };
    let place = Place::new();
    bucket.put_all((0..1500).map(|number| (format!("in/{}/{number:04}.pgm", number % 3), DULL.to_vec())));
    let arguments = [&*bucket.url("in"), "--out", &bucket.url("out")];
    bucket.run(&place, arguments).exits(0).says("Done: 1500 pictures");
    let outputs = bucket.list("out");
    assert_eq!(outputs.len(), 1500);
    assert_eq!(bucket.get("out/2/1499.pgm"), BRIGHT);
    bucket.run(&place, arguments).exits(0).says("1500 already done");
}

#[test]
fn one_picture_and_single_objects_and_pages() {
    let Some(bucket) = bucket() else { return };
    let place = Place::with(&["a.pgm"]);
    bucket.put("in/a.pgm", DULL);
    bucket.run(&place, [&*bucket.url("in/a.pgm"), "--out", &bucket.url("one.pgm")]).exits(0);
    assert_eq!(bucket.get("one.pgm"), BRIGHT);
    bucket.run(&place, ["a.pgm", "--out", &bucket.url("two.png")]).exits(0);
    assert!(bucket.get("two.png").starts_with(b"\x89PNG"));
    let piped = bucket.command(&place, [&*bucket.url("in/a.pgm"), "--out", "-"]).output().unwrap();
    assert_eq!(piped.stdout, BRIGHT, "{piped:?}");
    bucket.run(&place, [&*bucket.url("in/b.pgm"), "--out", "out"]).exits(1).says("there is no such object");
    bucket
        .run(&place, [&*bucket.url("im"), "--out", "out"])
        .exits(2)
        .says("there is nothing below s3://")
        .says(&bucket.url("in"));
    let histogram = bucket.run(&place, ["histogram", &bucket.url("in")]);
    histogram.exits(0).prints("a.pgm");
}

#[test]
fn pages_that_are_split_are_objects_of_their_own() {
    let Some(bucket) = bucket() else { return };
    let place = Place::new();
    let pages: Vec<_> = (0..3).map(|number| Page::new(number, 40, 30)).collect();
    bucket.put("in/a.tif", plain(&pages, Storage::Stored));
    let (input, out) = (bucket.url("in"), bucket.url("out"));
    let split = |out: &str| bucket.run(&place, [&*input, "--out", out, "--frames", "split"]);
    split("local").exits(0).says("Done: 1 picture");
    split(&out).exits(0).says("Done: 1 picture");
    let names = ["a/a-00001.tif", "a/a-00002.tif", "a/a-00003.tif"];
    assert_eq!(place.tree("local"), names);
    assert_eq!(bucket.list("out"), names.map(|name| format!("out/{name}")));
    for name in names {
        assert_eq!(bucket.get(&format!("out/{name}")), place.read(format!("local/{name}")), "{name}");
    }
    split(&out).exits(0).says("1 already done");
    bucket.put("in/a.tif", plain(&pages[1..], Storage::Stored));
    split(&out).exits(0).says("Done: 1 picture");
    assert_eq!(bucket.get("out/a/a-00001.tif"), place.read("local/a/a-00002.tif"), "pages are replaced");
    assert_eq!(bucket.get("out/a/a-00002.tif"), place.read("local/a/a-00003.tif"));
}

#[test]
fn a_large_output_goes_up_in_parts_and_is_whole() {
    let Some(bucket) = bucket() else { return };
    let place = Place::new();
    // Longer than a part of an upload, and than the memory for fetched objects.
    let large = picture(6000, 6000, 1);
    place.file("in/large.pgm", large.clone());
    place.run("in --out reference").exits(0);
    bucket.put("in/large.pgm", large);
    let arguments = [&*bucket.url("in"), "--out", &bucket.url("out"), "--memory", "160MiB"];
    bucket.run(&place, arguments).exits(0);
    assert_done(&bucket, &place, "out");
    // The ETag of an object in several parts ends in their number.
    assert!(
        bucket.head("out/large.pgm").0.trim_matches('"').ends_with("-3"),
        "{:?}",
        bucket.head("out/large.pgm")
    );
    bucket.run(&place, arguments).exits(0).says("1 already done");
    bucket.run(&place, arguments.into_iter().chain(["--method", "stretch"])).exits(0).says("made again");
    place.run("in --out reference --method stretch").exits(0);
    assert_done(&bucket, &place, "out");
}

#[test]
fn folders_in_each_other_and_left_out_names_are_as_on_a_disk() {
    let Some(bucket) = bucket() else { return };
    let place = Place::new();
    for name in ["a.pgm", ".hidden.pgm", ".thumbs/b.pgm", "@eaDir/c.pgm", "sub/d.pgm"] {
        bucket.put(&format!("in/{name}"), DULL);
    }
    let (input, done) = (bucket.url("in/"), bucket.url("in/done"));
    bucket.put("in/sub/e.txt", "no picture");
    bucket.run(&place, [&*input, "--out", &done, "--exclude", "d.*"]).exits(0).says("Done: 1 picture,");
    assert_eq!(bucket.list("in/done"), ["in/done/a.pgm"]);
    bucket.run(&place, [&*input, "--out", &done]).exits(0).says("Done: 1 picture,").says("1 already done");
    bucket
        .run(&place, [&*input, "--out", &bucket.url("in")])
        .exits(2)
        .says("is both an input and the output folder");
    bucket.run(&place, [&*bucket.url("in/sub"), "--out", &input]).exits(0);
    bucket.run(&place, [&*bucket.url("in/a.pgm"), "--out", &input]).exits(1).says("would replace an input");
}

#[test]
fn a_killed_run_leaves_whole_outputs_and_the_next_one_does_the_rest() {
    let Some(bucket) = bucket() else { return };
    let place = Place::new();
    let pictures = || (0..200).map(|seed| (format!("in/{seed}.pgm"), picture(200, 150, seed)));
    pictures().for_each(|(name, content)| place.file(name, content));
    place.run("in --out reference").exits(0);
    bucket.put_all(pictures());
    let arguments = [&*bucket.url("in"), "--out", &bucket.url("out")];
    let mut run = bucket.command(&place, arguments).stderr(std::process::Stdio::null()).spawn().unwrap();
    wait("the first outputs", || bucket.list("out").len() > 5);
    run.kill().unwrap();
    run.wait().unwrap();
    for key in bucket.list("out") {
        assert_eq!(bucket.get(&key), place.read(key.replacen("out", "reference", 1)), "{key}");
    }
    bucket.run(&place, arguments).exits(0);
    assert_done(&bucket, &place, "out");
}
