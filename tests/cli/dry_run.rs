//! The report of `--dry-run` on the actions of a run, without doing them.

use std::collections::BTreeMap;

use crate::harness::{DULL, Place, project};

/// The failures in a summary, by input.
fn failures(json: &serde_json::Value) -> BTreeMap<String, String> {
    let failed = json["failed"].as_array().unwrap().iter();
    let text = |value: &serde_json::Value| value.as_str().unwrap().to_owned();
    failed.map(|one| (text(&one["input"]), text(&one["error"]))).collect()
}

#[test]
fn what_would_fail_is_told_as_a_run_tells_it() {
    let place = Place::with(&["in/a.pgm", "in/b.pgm"]);
    place.file("in/photo.heic", b"\0\0\0\x18ftypheic\0\0\0\0mif1heic");
    place.file("in/notes", "no picture");
    place.file("in/large.pgm", "P5\n60000 60000\n255\n");
    let ran = place.run("in --out done --dry-run");
    ran.exits(1).says("failed: in/photo.heic: ").says("failed: in/large.pgm: too large: 60000x60000 pixels");
    ran.says("Would do: 2 pictures\nSkipped: 1 not a picture\nWould fail: 2 (see above)\n");
    assert_eq!(ran.stdout(), "in/a.pgm -> done/a.pgm\nin/b.pgm -> done/b.pgm\n");

    let json = place.run("in --out done --dry-run --json").exits(1).json();
    assert_eq!((&json["planned"], &json["done"], &json["left"]), (&5.into(), &0.into(), &0.into()));
    assert_eq!(json["would"].as_array().unwrap().len(), 2);
    assert!(!place.path("done").exists());
    let run = place.run("in --out done --json").exits(1).json();
    assert_eq!(failures(&json), failures(&run));
    assert_eq!((&json["skipped"], &run["done"]), (&run["skipped"], &2.into()));

    place
        .run("in/photo.heic --out done --dry-run")
        .exits(1)
        .says("Would do: 0 pictures\nWould fail: 1 (see above)\n");
}

#[test]
fn the_flags_that_refuse_a_picture_do_so_without_a_run() {
    let place = Place::new();
    place.file("in/a.pgm", [b"P5\n2000 2000\n255\n".as_slice(), &[7; 4_000_000]].concat());
    place.file(
        "in/alpha.pam",
        [b"P7\nWIDTH 1\nHEIGHT 1\nDEPTH 4\nMAXVAL 255\nTUPLTYPE RGB_ALPHA\nENDHDR\n".as_slice(), &[1; 4]]
            .concat(),
    );
    for flags in ["--max-pixels 1MP", "--max-bytes 1MiB", "--memory 1MiB --format png", "--format jpeg"] {
        let told = |mode: &str| {
            failures(&place.run(&format!("in --out done --json {flags} {mode}")).exits(1).json())
        };
        let would = told("--dry-run");
        assert_eq!(would.len(), 1, "{flags}: {would:?}");
        assert_eq!(would, told("--overwrite"), "{flags}");
    }
    place.run("in --out done --overwrite --dry-run").exits(0);
}

#[test]
fn of_broken_files_all_that_is_told_is_true() {
    let bad = project().join("tests/data/bad");
    let place = Place::with(&["in/a.pgm"]);
    let told = |mode: &str| {
        let run = format!("{} in --out done --json --quiet {mode}", bad.display());
        failures(&place.run(&run).exits(1).json())
    };
    let (would, did) = (told("--dry-run"), told(""));
    assert!(would.len() > did.len() / 2, "{} of {}", would.len(), did.len());
    for (input, error) in &would {
        assert_eq!(did.get(input), Some(error), "{input}");
    }
}

#[test]
fn the_list_is_in_order_whatever_reads_the_headers() {
    let names: Vec<String> = (0..3000).map(|number| format!("in/{number:04}.pgm")).collect();
    let place = Place::new();
    names.iter().for_each(|name| place.file(name, DULL));
    let listed = place.run("in --out done --dry-run --threads 8").exits(0).stdout();
    let inputs: Vec<_> = listed.lines().map(|line| line.split(" -> ").next().unwrap()).collect();
    assert_eq!(inputs, names);
}
