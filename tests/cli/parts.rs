//! Runs for some of the pictures: `--files-from` and `--shard`.

use std::io::Write;
use std::process::{Child, Stdio};

use serde_json::Value;

use crate::harness::{BRIGHT, DULL, Place, Ran};

/// Runs the binary with this on standard input.
fn run_with_stdin(place: &Place, arguments: &str, input: &[u8]) -> Ran {
    let mut command = place.histeqd(arguments);
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(input).unwrap();
    child.wait_with_output().unwrap().into()
}

#[test]
fn only_listed_files_are_taken_and_mirrored_below_their_input_folder() {
    let lines = b"in/a.pgm\n./in/x/b.pgm\nin/x/b.pgm\n" as &[u8];
    let nul = b"in/a.pgm\0in/x/b.pgm\0";
    for list in [lines, nul] {
        let place = Place::with(&["in/a.pgm", "in/x/b.pgm", "in/x/c.pgm"]);
        place.file("list", list);
        place.run("in --out done --files-from list").exits(0);
        assert_eq!(place.tree("done"), ["a.pgm", "x/b.pgm"]);
        run_with_stdin(&place, "in --out piped --files-from -", list).exits(0);
        assert_eq!(place.tree("piped"), ["a.pgm", "x/b.pgm"]);
        // Without an input, paths are mirrored as they are listed, and outputs are no inputs.
        place.file("list", [list, b"\0piped/a.pgm\0out/a.pgm"].concat().as_slice());
        let all = place.run("--out out --files-from list");
        assert_eq!(place.tree("out").iter().filter(|name| name.starts_with("out")).count(), 0, "{all}");
    }
}

#[test]
fn without_an_input_the_list_is_about_the_current_folder() {
    let place = Place::with(&["in/a.pgm", "in/x/b.pgm", "other/a.pgm"]);
    place.file("list", "in/a.pgm\nother/a.pgm\n");
    place.run("--out done --files-from list").exits(0);
    assert_eq!(place.tree("done"), ["in/a.pgm", "other/a.pgm"]);
    assert_eq!(place.read("done/other/a.pgm"), BRIGHT);
    let table = place.run("histogram --files-from list").exits(0).stdout();
    assert!(table.contains("in/a.pgm") && !table.contains("b.pgm"), "{table}");
}

#[test]
fn a_list_is_taken_by_the_rules_for_what_a_search_finds() {
    let place = Place::with(&[
        "in/a.pgm",
        "in/.b/c.pgm",
        "in/d.pgm",
        "in/@eaDir/e.pgm",
        "in/f.pgm~",
        "in/done/g.pgm",
        "in/x/h.pgm",
    ]);
    place.file("in/notes.txt", "no picture");
    let listed = "a.pgm .b/c.pgm d.pgm @eaDir/e.pgm f.pgm~ done/g.pgm x notes.txt";
    let list: String = listed.split(' ').map(|name| format!("in/{name}\n")).collect();
    place.file("list", list);
    let json = place.run("in --out in/done --files-from list --exclude d.pgm --json").exits(0).json();
    assert_eq!(place.tree("in/done"), ["a.pgm", "g.pgm"]);
    let skipped = &json["skipped"];
    assert_eq!((&skipped["listed-folder"], &skipped["not-a-picture"]), (&1.into(), &1.into()), "{json}");
    assert_eq!((&skipped["system-folder"], &skipped["backup"]), (&1.into(), &1.into()), "{json}");
}

#[test]
fn what_is_listed_and_missing_or_outside_is_named() {
    let place = Place::with(&["in/a.pgm", "other/b.pgm", "in/c.pgm"]);
    place.file("list", "in/a.pgm\nin/none.pgm\nother/b.pgm\nin/../other/b.pgm\n");
    let ran = place.run("in --out done --files-from list -v");
    ran.exits(1)
        .says("failed: in/none.pgm: cannot be read: No such file")
        .says("failed: other/b.pgm: it is on the list, but in no input folder; give its folder as INPUT");
    assert_eq!(place.tree("done"), ["a.pgm"]);
    place
        .run("in --out done --files-from none")
        .exits(3)
        .says("--files-from none cannot be read: No such file");
    place
        .run("in/a.pgm --out done --files-from list")
        .exits(2)
        .says("in/a.pgm is not a folder: not a directory");
    place.run("in --out done --files-from list --watch").exits(2);
}

#[test]
fn runs_for_parts_share_an_output_folder_and_do_every_picture_once() {
    let place = Place::new();
    for number in 0..200u32 {
        let levels: Vec<u8> = (0..64 * 64).map(|n: u32| (n.wrapping_mul(number + 3) >> 5) as u8).collect();
        place.file(format!("in/{}/{number}.pgm", number % 7), [b"P5\n64 64\n255\n", &levels[..]].concat());
    }
    // A failure in one of them is reported by that one alone.
    place.file("in/broken.pgm", &DULL[..DULL.len() - 1]);
    place.run("in --out whole").exits(1);
    let start = |part| -> Child {
        let mut command = place.histeqd(&format!("in --out done --shard {part}/4 --json --quiet"));
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let runs: Vec<_> = (1..=4).map(start).collect();
    let told: Vec<Value> =
        runs.into_iter().map(|run| Ran::from(run.wait_with_output().unwrap()).json()).collect();
    let sum = |key: &str| told.iter().map(|one| one[key].as_u64().unwrap()).sum::<u64>();
    assert_eq!((sum("planned"), sum("done")), (201, 200), "{told:?}");
    let failed = told.iter().filter(|one| one["failed"].as_array().is_some_and(|list| !list.is_empty()));
    assert_eq!(failed.count(), 1, "{told:?}");
    let names = place.tree("whole");
    assert_eq!(place.tree("done"), names);
    for name in names {
        assert_eq!(place.read(format!("done/{name}")), place.read(format!("whole/{name}")), "{name}");
    }
    let json = place.run("in --out done --json --quiet").exits(1).json();
    assert_eq!((&json["done"], &json["skipped"]["already-done"]), (&0.into(), &200.into()));
}

#[test]
fn collisions_are_told_whatever_part_the_other_picture_is_in() {
    let place = Place::with(&["in/a.pgm", "in/a.ppm"]);
    let failures: usize = (1..=2)
        .map(|part| {
            let ran = place.run(&format!("in --out done --format png --shard {part}/2 -v"));
            ran.stderr().matches("would have the same output").count()
        })
        .sum();
    assert_eq!(failures, 2);
    assert!(place.tree("done").is_empty());
}

#[test]
fn a_scheduler_says_the_part() {
    let place = Place::with(&["in/a.pgm", "in/b.pgm", "in/c.pgm", "in/d.pgm", "in/e.pgm", "in/f.pgm"]);
    for index in ["0", "1"] {
        let mut command = place.histeqd("in --out done --shard auto");
        command.env("JOB_COMPLETION_INDEX", index).env("JOB_COMPLETIONS", "2");
        let ran = Ran::from(command);
        ran.exits(0);
        let count = place.tree("done").len();
        assert!((1..6).contains(&count) == (index == "0"), "{count} {ran}");
    }
    assert_eq!(place.tree("done").len(), 6);
    place.run("in --out done --shard auto").exits(2).says("give the part, as in --shard 1/4");
    place.run("in --out done --shard 5/4").exits(2).says("the parts are numbered 1/4 to 4/4");
}

#[test]
fn together_with_parts_is_refused_with_a_way_that_works() {
    let place = Place::with(&["in/a.pgm", "in/b.pgm", "in/c.pgm"]);
    place.file("in/d.pgm", b"P5\n4 1\n255\n\x10\x20\x30\x40");
    let ran = place.run("in --out done --together all --shard 1/2");
    ran.exits(2)
        .says("`histeqd histogram --shard 1/2 --counts FILE`, and give the files of all parts to --lut");
    for part in 1..=2 {
        place.run(&format!("histogram in --shard {part}/2 --counts {part}.json")).exits(0);
    }
    for part in 1..=2 {
        place.run(&format!("in --out done --lut 1.json --lut 2.json --shard {part}/2")).exits(0);
    }
    place.run("in --out whole --together all").exits(0);
    for name in ["a.pgm", "b.pgm", "c.pgm", "d.pgm"] {
        assert_eq!(place.read(format!("done/{name}")), place.read(format!("whole/{name}")), "{name}");
    }
    place.run("in --out other --together file --shard 1/2").exits(0);
    place.run("in --out other --resume --shard 1/2").exits(2);
}
