//! OME-Zarr images in object storage, each of them all objects below a folder.

use std::fs;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use super::proxy::{Fault, start};
use super::server::{Bucket, bucket};
use super::stub::{Listings, Stub};
use crate::harness::{Place, Ran, project, wait};
use crate::zarr::Image;

/// The metadata files that make an image of their folder.
const TELLING: [&str; 3] = [".zattrs", ".zgroup", "zarr.json"];

/// Puts all files of a folder into the bucket, below the same names.
fn put(bucket: &Bucket, place: &Place, folder: &str) {
    let names = place.tree(folder).into_iter().map(|name| format!("{folder}/{name}"));
    bucket.put_all(names.map(|name| (name.clone(), place.read(name))));
}

/// Returns a place with images of both versions in `in`, one of them in shards, and with their
/// outputs in `reference`; puts the images into the bucket.
fn prepared(bucket: &Bucket) -> Place {
    let place = Place::new();
    for name in ["v04-blosc.zarr", "v05-sharded.zarr"] {
        let source = project().join("tests/data/zarr").join(name);
        for file in walkdir::WalkDir::new(&source).into_iter().map(Result::unwrap) {
            if file.file_type().is_file() {
                let below = file.path().strip_prefix(&source).unwrap();
                place.file(Path::new("in/plate").join(name).join(below), fs::read(file.path()).unwrap());
            }
        }
    }
    put(bucket, &place, "in");
    place.run("in --out reference --devices cpu").exits(0).says("2 pictures");
    place
}

/// Checks that a folder in the bucket and a local one hold the same files, key for key.
fn assert_same(bucket: &Bucket, place: &Place, folder: &str, reference: &str) {
    let names = place.tree(reference);
    let keys: Vec<_> = names.iter().map(|name| format!("{folder}/{name}")).collect();
    let mut sorted = keys.clone();
    sorted.sort();
    assert_eq!(bucket.list(folder), sorted);
    for (key, name) in keys.iter().zip(names) {
        assert!(bucket.get(key) == place.read(format!("{reference}/{name}")), "{key}");
    }
}

#[test]
fn an_image_becomes_key_for_key_what_it_becomes_in_a_folder() {
    let Some(bucket) = bucket() else { return };
    let place = prepared(&bucket);
    let (input, out) = (bucket.url("in"), bucket.url("out"));
    let of_name = (bucket.url("in/plate/v04-blosc.zarr"), bucket.url("by-name"));
    let runs = [
        ([&*input, "--out", &out], "2 pictures"),
        (["in", "--out", &bucket.url("from-here")], "2 pictures"),
        ([&*input, "--out", "local"], "2 pictures"),
        ([&*of_name.0, "--out", &of_name.1], "1 picture"),
    ];
    for (arguments, told) in runs {
        bucket.run(&place, arguments).exits(0).says(&format!("Done: {told}"));
    }
    assert_same(&bucket, &place, "out", "reference");
    assert_same(&bucket, &place, "from-here", "reference");
    assert_same(&bucket, &place, "by-name/v04-blosc.zarr", "reference/plate/v04-blosc.zarr");
    assert_eq!(place.tree("local"), place.tree("reference"));
    for name in place.tree("local") {
        assert!(place.read(format!("local/{name}")) == place.read(format!("reference/{name}")), "{name}");
    }
    // The records on the outputs leave no picture to do.
    for (arguments, told) in runs {
        let done = told.trim_end_matches("pictures").trim_end_matches("picture");
        bucket.run(&place, arguments).exits(0).says(&format!("{done}already done"));
    }
    let counted = bucket.run(&place, ["histogram", &*of_name.0]);
    assert!(counted.has_succeeded(), "{counted}");
}

#[test]
fn an_image_that_changed_is_made_again_and_what_it_has_no_more_is_deleted() {
    let Some(bucket) = bucket() else { return };
    let place = Place::new();
    Image::of([1, 40, 40], [16, 16]).write(&place, "in/a.zarr");
    put(&bucket, &place, "in");
    let (input, out) = (bucket.url("in"), bucket.url("out"));
    bucket.run(&place, [&*input, "--out", &out]).exits(0).says("1 picture");
    bucket.put("out/beside", "stays");
    bucket.put("in/a.zarr/0/0/0/0", vec![200; 256]);
    place.file("in/a.zarr/0/0/0/0", vec![200; 256]);
    bucket.delete("in/a.zarr/labels/cells/0/0");
    fs::remove_file(place.path("in/a.zarr/labels/cells/0/0")).unwrap();
    bucket.run(&place, [&*input, "--out", &out]).exits(0).says("Done: 1 picture");
    place.run("in --out reference --devices cpu").exits(0);
    assert_same(&bucket, &place, "out/a.zarr", "reference/a.zarr");
    let other = bucket.run(&place, [&*input, "--out", &out, "--strength", "0.5"]);
    other.exits(0).says("1 output with other settings was made again");
    assert_eq!(bucket.get("out/beside"), b"stays");
}

#[test]
fn what_makes_it_an_image_is_written_last_of_all() {
    let Some(mut bucket) = bucket() else { return };
    let place = prepared(&bucket);
    let (url, seen) = start(bucket.endpoint(), |_, _| Fault::None);
    bucket.through(url);
    bucket.run(&place, ["in", "--out", &bucket.url("out")]).exits(0);
    let requests = seen.requests.lock().unwrap();
    for name in ["v04-blosc.zarr", "v05-sharded.zarr"] {
        let folder = format!("/out/plate/{name}/");
        let puts = requests.iter().filter(|line| line.starts_with("PUT "));
        let puts = puts.filter_map(|line| line.split(' ').nth(1)?.split_once(&*folder).map(|(_, key)| key));
        let is_telling: Vec<_> = puts.map(|key| TELLING.contains(&key)).collect();
        assert!(is_telling.is_sorted() && is_telling.contains(&true) && is_telling.contains(&false));
    }
}

#[test]
fn a_run_that_is_killed_leaves_no_image_and_the_next_one_makes_it() {
    let Some(mut bucket) = bucket() else { return };
    let place = Place::new();
    Image::of([1, 100, 100], [16, 16]).write(&place, "in/a.zarr");
    slowly(&mut bucket);
    place.run("in --out reference --devices cpu").exits(0);
    let out = bucket.url("out");
    let arguments = ["in", "--out", &out, "--devices", "cpu"];
    let mut child = bucket.command(&place, arguments).spawn().unwrap();
    wait("the first chunk", || !bucket.list("out").is_empty());
    child.kill().unwrap();
    child.wait().unwrap();
    let left = bucket.list("out");
    assert!(left.len() < place.tree("reference/a.zarr").len(), "it was killed too late");
    assert!(!left.iter().any(|key| TELLING.iter().any(|name| *key == format!("out/a.zarr/{name}"))));
    // An unfinished image is no input either.
    let refused = bucket.run(&place, [&*out, "--out", "local"]);
    refused.exits(1).says("out/a.zarr: an OME-Zarr image is a folder, and its zarr.json or .zattrs");
    bucket.run(&place, arguments).exits(0).says("Done: 1 picture");
    assert_same(&bucket, &place, "out", "reference");
}

#[test]
fn what_is_damaged_is_told_with_its_key_and_leaves_no_image() {
    let Some(bucket) = bucket() else { return };
    let place = Place::new();
    Image::of([1, 40, 40], [16, 16]).write(&place, "in/a.zarr");
    put(&bucket, &place, "in");
    bucket.put("in/a.zarr/0/0/1/2", "short");
    let (input, out) = (bucket.url("in"), bucket.url("out"));
    let ran = bucket.run(&place, [&*input, "--out", &out]);
    ran.exits(1).says("in/a.zarr").says("chunk 0/0/1/2");
    bucket.put("in/a.zarr/0/0/1/2", vec![0; 3 << 20]);
    bucket.run(&place, [&*input, "--out", &out]).exits(1).says("0/0/1/2: it has 3145728 bytes");
    assert!(!bucket.list("out").contains(&"out/a.zarr/.zattrs".to_owned()));
}

#[test]
fn a_chunk_that_does_not_come_is_asked_for_again() {
    let Some(mut bucket) = bucket() else { return };
    let place = Place::new();
    Image::of([1, 40, 40], [16, 16]).write(&place, "in/a.zarr");
    put(&bucket, &place, "in");
    place.run("in --out reference --devices cpu").exits(0);
    let (url, seen) = start(bucket.endpoint(), |line, number| match line {
        _ if !line.contains("/a.zarr/0/0/") || number % 3 > 0 => Fault::None,
        _ if line.starts_with("GET ") => Fault::HalfAnswer,
        _ => Fault::AnswerLost,
    });
    bucket.through(url);
    bucket.run(&place, [&*bucket.url("in"), "--out", &bucket.url("out")]).exits(0);
    assert_same(&bucket, &place, "out", "reference");
    assert!(seen.count("PUT ") > place.tree("reference").len(), "none was repeated");
}

#[test]
fn a_change_during_the_run_is_noticed() {
    let Some(mut bucket) = bucket() else { return };
    let place = Place::new();
    Image::of([1, 40, 40], [16, 16]).write(&place, "in/a.zarr");
    put(&bucket, &place, "in");
    slowly(&mut bucket);
    let (input, out) = (bucket.url("in"), bucket.url("out"));
    let mut command = bucket.command(&place, [&*input, "--out", &out]);
    let child = command.stderr(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    wait("the first chunk", || !bucket.list("out").is_empty());
    bucket.put("in/a.zarr/labels/cells/0/0", "other labels");
    let ran = Ran::from(child.wait_with_output().unwrap());
    ran.exits(1).says("it changed while it was being read");
    assert!(!bucket.list("out").contains(&"out/a.zarr/.zattrs".to_owned()));
}

#[test]
fn two_runs_of_other_settings_at_once_leave_no_mixture() {
    let Some(mut bucket) = bucket() else { return };
    let place = Place::new();
    Image::of([1, 40, 40], [16, 16]).write(&place, "in/a.zarr");
    let (direct, out) = (bucket.endpoint().to_owned(), bucket.url("out"));
    slowly(&mut bucket);
    let mut command = bucket.command(&place, ["in", "--out", &out, "--strength", "0.5"]);
    let slow = command.stderr(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    wait("the first chunk", || !bucket.list("out").is_empty());
    bucket.through(direct);
    bucket.run(&place, ["in", "--out", &out]).exits(0);
    let ran = Ran::from(slow.wait_with_output().unwrap());
    ran.exits(1).says("another run wrote an image of this name meanwhile");
    assert!(!bucket.list("out").contains(&"out/a.zarr/.zattrs".to_owned()));
    bucket.run(&place, ["in", "--out", &out]).exits(0).says("Done: 1 picture");
    place.run("in --out reference --devices cpu").exits(0);
    assert_same(&bucket, &place, "out", "reference");
}

#[test]
fn the_metadata_of_a_collection_go_with_its_images_from_and_to_a_bucket() {
    let (stub, place) = (Stub::start(Listings::Whole), Place::new());
    Image::of([1, 40, 40], [16, 16]).write(&place, "in/file/0");
    place.file("in/file/.zattrs", r#"{"bioformats2raw.layout": 3}"#);
    place.file("in/file/.zgroup", "{}");
    place.file("in/file/OME/METADATA.ome.xml", "<OME/>");
    place.file("in/.zgroup", "{}");
    let metadata = [".zattrs", ".zgroup", "OME/METADATA.ome.xml"].map(|name| format!("file/{name}"));
    for name in place.tree("in") {
        stub.put(&format!("in/{name}"), place.read(format!("in/{name}")));
    }
    stub.put("here/file/.zgroup", "{}");
    let read = |name: &String| place.read(format!("in/{name}"));
    for (input, out) in [("in", "here"), ("s3://b/in", "there")] {
        stub.run(&place, &format!("{input} --out s3://b/{out} --devices cpu")).exits(0);
        assert!(metadata.iter().all(|name| stub.get(&format!("{out}/{name}")) == Some(read(name))), "{out}");
        assert_eq!(stub.get(&format!("{out}/.zgroup")), None);
    }
    stub.run(&place, "s3://b/in --out local --devices cpu").exits(0);
    assert!(metadata.iter().all(|name| place.read(format!("local/{name}")) == read(name)));
    stub.put("taken/file/.zattrs", "another");
    stub.run(&place, "in --out s3://b/taken --devices cpu").exits(1).says(
        "in/file/.zattrs: these metadata of a collection are not copied: \
         s3://b/taken/file/.zattrs is another object of that name; move it away and run again",
    );
    assert_eq!(stub.get("taken/file/.zattrs").unwrap(), b"another");
}

/// Points the program to a server that is slow to write.
fn slowly(bucket: &mut Bucket) {
    let late = |line: &str, _| match line.starts_with("PUT ") {
        true => Fault::Late(Duration::from_millis(30)),
        false => Fault::None,
    };
    let (url, _) = start(bucket.endpoint(), late);
    bucket.through(url);
}
