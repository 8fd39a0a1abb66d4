//! Messages to people whose command line has a likely other meaning.

use std::fs;
use std::path::{Path, PathBuf};

use crate::harness::{BRIGHT, Place, project};

#[test]
fn what_is_no_command_is_told_how_it_is_asked_for() {
    let place = Place::with(&["in/a.pgm"]);
    for line in ["watch in", "watch in --out done", "Watch in --out done"] {
        place.run(line).exits(2).says("did you mean `histeqd --watch INBOX --out OUT`");
    }
    place.run("equalize in --out done").exits(2).says("did you mean `histeqd INPUT --out OUT`?");
    place.run("gpus").exits(2).says("did you mean `histeqd devices`?");
    assert!(!place.path("done").exists());
    fs::rename(place.path("in"), place.path("watch")).unwrap();
    place.run("watch --out done").exits(0);
    assert_eq!(place.tree("done"), ["a.pgm"]);
}

#[test]
fn choices_are_read_in_any_case_as_flags_and_in_the_file() {
    let place = Place::with(&["in/a.pgm"]);
    place.run("in --out done --method CLAHE --format PNG --tile-size OFF").exits(0);
    assert_eq!(place.tree("done"), ["a.png"]);
    place.file("my.toml", "method = \"Global\"\nformat = \"TIF\"\ncolor = \"Gray\"\njpeg = \"CPU\"\n");
    place.run("in --out filed --config my.toml").exits(0);
    assert_eq!(place.tree("filed"), ["a.tif"]);
    place.file("my.toml", "method = \"Local\"\n");
    place
        .run("in --out filed --config my.toml")
        .exits(2)
        .says("my.toml:1: method: must be one of \"global\", ");
    place.run("histogram in --format JSON --equalized --method CLAHE").exits(0).prints("\"equalized\"");
}

#[test]
fn a_glob_that_the_shell_left_alone_is_no_file_that_is_missing() {
    let place = Place::with(&["in/a.pgm", "in/b[1].pgm"]);
    let ran = place.run("in/*.jpg --out done");
    ran.exits(1).says("failed: in/*.jpg: does not exist; the shell expands globs unless they are quoted");
    place.run("in/b[1].pgm --out done").exits(0);
    assert_eq!(place.read("done/b[1].pgm"), BRIGHT);
}

#[test]
fn keys_of_the_file_without_effect_are_told_and_flags_are_refused() {
    let place = Place::with(&["in/a.pgm"]);
    place.file(
        "my.toml",
        "clip-limit = 3\nquality = 80\nformat = \"png\"\nsettle = \"1s\"\ntiles = \"8x8\"\n",
    );
    let ran = place.run("in --out done --config my.toml");
    ran.exits(0).says("clip-limit of the configuration file has no effect without --method clahe\n");
    ran.says("quality of the configuration file has no effect without --format keep or jpeg\n");
    assert_eq!(ran.stderr().matches("no effect").count(), 2, "{ran}");
    place.run("in --out done --config my.toml --method clahe --format jpeg --quiet").exits(0).is_silent();
    place
        .run("in --out done --clip-limit 3")
        .exits(2)
        .says("--clip-limit has no effect without --method clahe");
}

#[test]
fn shells_complete_what_may_become_of_inputs() {
    let place = Place::new();
    for shell in ["bash", "zsh", "fish"] {
        let script = place.run(&format!("completions {shell}")).exits(0).stdout();
        assert!(["keep", "delete", "move"].iter().all(|word| script.contains(word)), "{shell}");
    }
    assert!(!place.run("-h").stdout().contains("[possible values: keep"));
    place.run("--watch in --out out --after burn").exits(2).says("is not keep, delete or move:DIR");
}

/// Returns the files of Rust below a folder.
fn sources(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries
        .flat_map(|path| if path.is_dir() { sources(&path) } else { vec![path] })
        .filter(|path| path.extension().is_some_and(|extension| extension == "rs"))
        .collect()
}

#[test]
fn words_of_others_reach_people_through_one_function() {
    let src = project().join("src");
    let is_way = |line: &str| {
        ["println!", "print!(", "dbg!(", "stderr(),", "stderr().write"].iter().any(|way| line.contains(way))
    };
    let is_escaped = |line: &str| ["painted(", "without_passwords("].iter().any(|way| line.contains(way));
    let mut found = Vec::new();
    for file in sources(&src) {
        let text = fs::read_to_string(&file).unwrap();
        let (code, _) = text.split_once("#[cfg(test)]").unwrap_or((&text, ""));
        let name = file.strip_prefix(src.parent().unwrap()).unwrap().display().to_string();
        let lines = code.lines().filter(|line| !line.trim_start().starts_with("//"));
        found.extend(
            lines
                .filter(|line| is_way(line) && !is_escaped(line))
                .map(|line| format!("{name}: {}", line.trim())),
        );
    }
    assert_eq!(found, Vec::<String>::new(), "these go around src/terminal_text.rs");
}

#[cfg(not(feature = "queue"))]
#[test]
fn a_build_without_the_queue_says_so() {
    let place = Place::with(&["in/a.pgm"]);
    for line in ["submit in --out out --queue nats://host/scans", "work --queue nats://host/scans --root ."] {
        place
            .run(line)
            .exits(2)
            .says("built without the queue (the feature queue, which --features full has)");
    }
}

#[cfg(not(feature = "object-storage"))]
#[test]
fn a_build_without_object_storage_says_so() {
    let place = Place::with(&["in/a.pgm"]);
    place.run("in --out s3://bucket/done").exits(3).says("built without object storage");
}
