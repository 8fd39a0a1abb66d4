//! Names that cannot be used, folders that are not there, and listings that do not end.

use std::os::unix::ffi::OsStrExt;
use std::process::Stdio;
use std::time::{Duration, Instant};

use super::stub::{Listings, Stub};
use crate::harness::{BRIGHT, DULL, Place, Ran, wait};

#[test]
fn an_object_with_an_impossible_name_fails_by_name_and_the_others_are_done() {
    let (stub, place) = (Stub::start(Listings::Whole), Place::new());
    for key in ["in/a.pgm", "in/new\nline.pgm", "in/../up.pgm", "in//empty.pgm", "in/z/b.pgm"] {
        stub.put(key, DULL);
    }
    // Two objects that are no pictures: a folder's mark, and the icon file of macOS.
    stub.put("in/marks//", "");
    stub.put("in/Icon\r", "");
    let ran = stub.run(&place, "s3://b/in --out s3://b/out");
    ran.exits(1).says("Done: 2 pictures").says("Failed: 3");
    ran.says(r#"failed: "s3://b/in/new\nline.pgm": a name with a control character, such as a line break, cannot be used"#);
    ran.says("s3://b/in//empty.pgm").says("s3://b/in/../up.pgm").says("a name with a part that is empty");
    assert!(!ran.stderr().contains("Icon") && !ran.stderr().contains("marks"), "{ran}");
    assert_eq!(
        ["out/a.pgm", "out/z/b.pgm"].map(|key| stub.get(key)),
        [Some(BRIGHT.to_vec()), Some(BRIGHT.to_vec())]
    );
    stub.run(&place, "s3://b/in --out s3://b/other --exclude *line*").exits(1).says("Failed: 2");
}

#[test]
fn an_empty_object_that_stands_for_a_folder_is_no_picture_whatever_its_name() {
    let (stub, place) = (Stub::start(Listings::Whole), Place::new());
    ["in/", "in/scan.tif/", "in/empty.png/"].iter().for_each(|key| stub.put(key, ""));
    ["in/a.pgm", "in/scan.tif/1.pgm"].iter().for_each(|key| stub.put(key, DULL));
    stub.run(&place, "s3://b/in --out s3://b/out").exits(0).says("Done: 2 pictures");
    stub.put("in/scan.tif", "");
    stub.run(&place, "s3://b/in --out s3://b/out").exits(1).says("failed: s3://b/in/scan.tif:");
}

#[test]
fn a_file_whose_name_no_object_can_have_fails_by_name_and_the_others_are_written() {
    let (stub, place) = (Stub::start(Listings::Whole), Place::with(&["in/a.pgm", "in/new\nline.pgm"]));
    let latin = std::ffi::OsStr::from_bytes(b"in/caf\xe9.pgm");
    std::fs::write(place.path("").join(latin), DULL).unwrap();
    let ran = stub.run(&place, "in --out s3://b/out");
    ran.exits(1).says("Done: 1 picture,").says("Failed: 2");
    ran.says(r#"its output cannot be written: "s3://b/out/new\nline.pgm": a name with a control character"#);
    ran.says("it is not UTF-8");
    assert_eq!(stub.get("out/a.pgm").as_deref(), Some(BRIGHT));
}

#[test]
fn outputs_are_served_as_what_they_are() {
    let (stub, place) = (Stub::start(Listings::Whole), Place::with(&["in/a.pgm", "in/a without extension"]));
    for (format, kind) in [
        ("keep", "image/x-portable-anymap"),
        ("png", "image/png"),
        ("jpeg", "image/jpeg"),
        ("tiff", "image/tiff"),
    ] {
        stub.run(&place, &format!("in --out s3://b/{format} --format {format}"))
            .exits(0)
            .says("Done: 2 pictures");
        let written: Vec<String> = stub.keys(format);
        assert_eq!(written.len(), 2);
        for key in written {
            assert_eq!(stub.content_type(&key).as_deref(), Some(kind), "{key}");
        }
    }
}

#[test]
fn a_folder_that_is_not_there_is_wrong_usage_and_near_ones_are_named() {
    let (stub, place) = (Stub::start(Listings::Whole), Place::new());
    for key in ["scans/inbox/a.pgm", "scans/old/a.pgm", "other/a.pgm", "other/bad\n/a.pgm", "mark/"] {
        stub.put(key, DULL);
    }
    for (folder, words) in [
        ("s3://b/scnas/inbox", "there is nothing below s3://b/scnas/inbox; did you mean s3://b/scans/?"),
        ("s3://b/scans/inbx", "there is nothing below s3://b/scans/inbx; did you mean s3://b/scans/inbox/?"),
        ("s3://b/quite", "; there is s3://b/mark/, s3://b/other/, s3://b/scans/"),
    ] {
        let ran = stub.run(&place, &format!("{folder} --out out"));
        ran.exits(2).says(words).says("use --allow-empty if it may be empty");
        stub.run(&place, &format!("histogram {folder}")).exits(2).says(words);
        stub.run(&place, &format!("{folder} --out out --allow-empty")).exits(0).says(words);
    }
    // A folder's mark makes it exist.
    stub.run(&place, "s3://b/mark --out out").exits(0);
    place
        .run("in --out out --allow-empty")
        .exits(2)
        .says("--allow-empty has no effect without an input in object");
}

#[test]
fn a_service_waits_for_a_folder_that_is_not_there_yet() {
    let (stub, place) = (Stub::start(Listings::Whole), Place::new());
    let mut command = stub.command(&place, "--watch s3://b/in --out s3://b/out --poll 100ms");
    let mut service = command.stderr(Stdio::null()).spawn().unwrap();
    std::thread::sleep(Duration::from_millis(500));
    stub.put("in/new\nline.pgm", DULL);
    stub.put("in/a.pgm", DULL);
    wait("the output", || stub.get("out/a.pgm").is_some());
    service.kill().unwrap();
    service.wait().unwrap();
}

#[test]
fn a_listing_without_end_is_noticed() {
    let (stub, place) = (Stub::start(Listings::Endless), Place::new());
    stub.put("in/a.pgm", DULL);
    let begun = Instant::now();
    let ran = stub.run(&place, "s3://b/in --out out");
    ran.exits(1).says("s3://b/in: cannot be read: the server repeats its continuation token");
    assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", begun.elapsed());
    assert_eq!(place.read("out/a.pgm"), BRIGHT, "what was listed is done");
}

#[test]
fn plain_http_is_refused_by_the_name_of_the_variable_that_allows_it() {
    let (stub, place) = (Stub::start(Listings::Whole), Place::with(&["in/a.pgm"]));
    stub.put("in/a.pgm", DULL);
    for (arguments, exit) in [("s3://b/in --out out", 1), ("in --out s3://b/out", 3)] {
        let mut command = stub.command(&place, arguments);
        command.env_remove("AWS_ALLOW_HTTP");
        Ran::from(command).exits(exit).says("AWS_ALLOW_HTTP=true");
    }
}
