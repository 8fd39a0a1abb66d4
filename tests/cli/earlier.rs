//! Input folders with outputs of earlier runs in them.

use std::fs;

use rustix::fs::getxattr;

use crate::harness::{Place, skipped};

const AGAIN: &str = "outputs are enhanced again like any other picture";

#[test]
fn the_output_folder_of_a_run_with_a_ledger_is_known_and_all_in_it() {
    let place = Place::with(&["in/sub/a.pgm"]);
    place.run("in --out done --resume").exits(0);
    fs::create_dir(place.path("around")).unwrap();
    for (folder, what) in [
        ("done", "done is the output folder of an earlier run"),
        ("done/sub/", "done/sub/ lies in "),
        (".", ". contains outputs ("),
    ] {
        let run = place.run(&format!("{folder} --out again --dry-run"));
        run.exits(0).says(what).says(AGAIN);
        assert_eq!(run.stderr().matches(AGAIN).count(), 1, "{run}");
    }
}

#[test]
fn outputs_are_known_by_their_records() {
    let place = Place::with(&["in/a.pgm", "in/b.pgm", "in/c.pgm"]);
    place.run("in --out in/done").exits(0);
    if getxattr(place.path("in/done/a.pgm"), "user.histeqd", &mut [0; 64][..]).is_err() {
        return skipped("no user attributes on the file system of temporary files");
    }
    let run = place.run("in/done --out again");
    run.exits(0).says("in/done contains outputs (in/done/").says(") of an earlier run; ").says(AGAIN);
    assert_eq!(run.stderr().matches(AGAIN).count(), 1, "{run}");
    assert!(!place.run("in --out in/done").exits(0).stderr().contains(AGAIN), "its own output folder");
    place.run("in --out again").exits(0).says(AGAIN);
    assert!(!place.run("in/a.pgm --out other").exits(0).stderr().contains(AGAIN), "no folder");
    assert!(!place.run("histogram in/done").exits(0).stderr().contains(AGAIN), "only counted");
}

#[test]
fn an_inbox_in_the_output_folder_holds_no_outputs() {
    let place = Place::with(&["out/in/a.pgm"]);
    let run = place.run("out/in --out out --resume");
    assert!(!run.stderr().contains(AGAIN), "{run}");
    for out in ["out --resume", "elsewhere"] {
        let run = place.run(&format!("out/in --out {out}"));
        assert!(!run.stderr().contains(AGAIN), "{run}");
    }
}
