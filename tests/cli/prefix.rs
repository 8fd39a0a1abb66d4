//! Several input folders and one output folder.

use std::fs;

use crate::harness::{BRIGHT, DULL, Place};

#[test]
fn folders_with_the_same_names_collide_and_the_message_tells_of_the_flag() {
    let place = Place::with(&["one/a.pgm", "two/a.pgm", "two/b.pgm"]);
    let run = place.run("one two --out done -v");
    run.exits(1)
        .says("failed: one/a.pgm: two/a.pgm would have the same output, done/a.pgm; use --prefix-folder to give each");
    place
        .run("one two --out done")
        .exits(1)
        .says("another input would have the same output; use --prefix-folder to give each");
    assert_eq!(place.tree("done"), ["b.pgm"]);
    for inputs in ["one/a.pgm two/a.pgm", "one --format png"] {
        place.file("one/a.ppm", DULL);
        let run = place.run(&format!("{inputs} --out done -v"));
        run.exits(1).says("; rename one, or use different output folders");
    }
}

#[test]
fn with_the_flag_each_folder_has_its_outputs_in_one_of_its_own() {
    let place = Place::with(&["x/one/a.pgm", "two/a.pgm", "two/sub/b.pgm", "c.pgm"]);
    let all = ["c.pgm", "one/a.pgm", "two/a.pgm", "two/sub/b.pgm"];
    for flags in ["", "--resume"] {
        let command = format!("x/one two/ c.pgm --out done --prefix-folder {flags}");
        place.run(&command).exits(0);
        let outputs = || {
            let mut names = place.tree("done");
            names.retain(|name| !name.starts_with(".histeqd/"));
            names
        };
        assert_eq!(outputs(), all, "{flags}");
        assert_eq!(place.read("done/two/a.pgm"), BRIGHT);
        let json = place.run(&format!("{command} --json")).exits(0).json();
        assert_eq!(json["skipped"]["already-done"], 4, "{json}");
        fs::remove_dir_all(place.path("done")).unwrap();
    }
    place.file("config.toml", "prefix-folder = true\n");
    let ran = place.run("two --out done --dry-run --config config.toml");
    ran.exits(0).prints("done/two/sub/b.pgm");
    place.run("two --out done --config config.toml --prefix-folder=false").exits(0);
    assert_eq!(place.tree("done"), ["a.pgm", "sub/b.pgm"]);
}

#[test]
fn without_a_folder_the_flag_is_refused() {
    let place = Place::with(&["a.pgm", "b.pgm"]);
    let run = place.run("a.pgm b.pgm --out done --prefix-folder");
    run.exits(2).says("--prefix-folder has no effect without an input folder");
}

#[test]
fn folders_of_the_same_name_are_refused() {
    let place = Place::with(&["x/in/a.pgm", "y/in/b.pgm"]);
    let run = place.run("x/in y/in/ --out done --prefix-folder");
    run.exits(2)
        .says("x/in and y/in/ have the same name, and so the same folder with --prefix-folder; rename one");
    assert!(place.tree("done").is_empty());
    place.run("x/in ./x/in/ --out done --prefix-folder").exits(0);
    assert_eq!(place.tree("done"), ["in/a.pgm"]);
}
