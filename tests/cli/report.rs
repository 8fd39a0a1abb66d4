//! The report to the user, and the exit codes.

use std::fs::File;
use std::process::{Command, Stdio};

use crate::harness::{DULL, Place, Ran, binary};
use crate::samples::Random;

#[test]
fn the_summary_says_what_was_done_and_where_to_look() {
    let place = Place::with(&["in/a.pgm", "in/b.pgm"]);
    let ran = place.run("in --out done");
    ran.exits(0).says("Done: 2 pictures, ").says("look in done");
    assert!(ran.stdout().is_empty());
}

#[test]
fn quiet_leaves_only_failures() {
    let place = Place::with(&["in/a.pgm"]);
    place.run("in --out done --quiet").exits(0).is_silent();
    place.file("in/b.pgm", "P5 broken");
    let ran = place.run("in --out done --quiet");
    assert_eq!(ran.exits(1).stderr().lines().count(), 1);
    ran.says("failed: in/b.pgm: ");
}

#[test]
fn failures_are_told_once_by_reason_and_each_where_that_is_asked_for() {
    let place = Place::with(&["in/a.pgm"]);
    (0..5).for_each(|number| place.file(format!("in/b{number}.pgm"), &DULL[..12]));
    place.file("in/c.png", "no picture");
    let ran = place.run("in --out done --threads 1");
    ran.exits(1)
        .says("failed: 5 x damaged PNM: truncated: only 1 of 4 bytes of pixels are there: in/b0.pgm, in/b1.pgm, in/b2.pgm and 2 more")
        .says(" and 2 more (--verbose lists all)\n");
    ran.says("failed: in/c.png: not a picture").says("Failed: 6 (see above)\n");
    assert_eq!(ran.stderr().matches("failed: ").count(), 2, "{ran}");
    for each in ["-v", "-q", "--json"] {
        let ran = place.run(&format!("in --out done {each}"));
        ran.exits(1).says("failed: in/b4.pgm: damaged PNM: ");
        assert_eq!(ran.stderr().matches("failed: ").count(), 6, "{ran}");
    }
    assert_eq!(place.run("in --out done --json").json()["failed"].as_array().map(Vec::len), Some(6));
}

#[test]
fn a_terminal_gets_colours_unless_it_wants_none() {
    let place = Place::with(&["in/a.pgm"]);
    let told = |before: &str| {
        let command =
            format!("{before} '{}' in --out done --overwrite; {before} '{}' in", binary(), binary());
        Ran::from(place.command("script", ["-qec", &command, "/dev/null"])).stdout()
    };
    let coloured = told("TERM=xterm");
    assert!(coloured.contains("\u{1b}[1m\u{1b}[32mDone:\u{1b}[0m 1 picture"), "{coloured:?}");
    let plain = told("TERM=xterm NO_COLOR=1");
    assert!(plain.contains("Done: 1 picture") && !plain.contains("[32m"), "{plain:?}");
    assert!(!place.run("in --out done").stderr().contains('\u{1b}'));
}

#[test]
fn verbose_has_a_line_for_every_picture() {
    let place = Place::with(&["in/a.pgm"]);
    place.run("in --out done -v").exits(0).says("done: in/a.pgm -> done/a.pgm (cpu)\n");
    place.run("in --out done -v").exits(0).says("skipped: in/a.pgm: already done\n");
}

#[test]
fn json_is_one_object_with_everything() {
    let place = Place::with(&["in/a.pgm", "in/b.pgm"]);
    place.file("in/c.pgm", "P5 broken");
    place.file("in/notes", "text");
    let ran = place.run("in --out done --json --quiet");
    let json = ran.exits(1).json();
    assert_eq!(ran.stdout().lines().count(), 1);
    assert_eq!((&json["done"], &json["pixels"], &json["left"]), (&2.into(), &8.into(), &0.into()));
    assert_eq!(json["skipped"], serde_json::json!({ "not-a-picture": 1 }));
    assert_eq!(json["failed"][0]["input"], "in/c.pgm");
    assert_eq!(json["devices"], serde_json::json!({ "cpu": 2 }));
    assert_eq!(json["bytes_in"], json["bytes_out"]);
    assert_eq!(json["stopped"], false);
}

#[test]
fn where_the_time_went_is_told_to_those_who_ask() {
    let place = Place::with(&["in/a.pgm", "in/b.pgm"]);
    place.run("in --out done --timings").exits(0).says("\nTime: decode ").says(" cores busy");
    let json = place.run("in --out again --json --timings").exits(0).json();
    let stages = json["timings"]["stages"].as_object().unwrap();
    assert_eq!(stages.len(), 6);
    assert!(stages["decode"].as_f64().unwrap() > 0.0 && stages["encode"].as_f64().unwrap() > 0.0, "{json}");
    assert!(json["timings"]["limit"].is_string());
    assert!(place.run("in --out third --json").exits(0).json().get("timings").is_none());
}

#[test]
fn files_in_memory_are_limited_by_cores_whatever_their_format() {
    let place = Place::new();
    let mut random = Random(54);
    for number in 0..6 {
        let mut picture = b"P5 1200 900 65535\n".to_vec();
        picture.extend(
            (0..1200 * 900).flat_map(|at| ((at % 1200) as u16 + random.below(900) as u16).to_be_bytes()),
        );
        place.file(format!("in/{number}.pgm"), picture);
    }
    for format in ["png", "tiff", "jpeg"] {
        place.run(&format!("in --out in-{format} --format {format} --depth 8 --quiet")).exits(0);
        let flags = "--threads 2 --devices cpu --durability fast --json --quiet --timings";
        let json = place.run(&format!("in-{format} --out out-{format} {flags}")).exits(0).json();
        let limit = json["timings"]["limit"].as_str().unwrap();
        assert!(["decoding", "equalizing", "encoding"].contains(&limit), "{format}: {json}");
    }
}

/// Command lines that print to standard output.
const PRINTING: [&str; 5] =
    ["histogram in", "in --out done --dry-run", "in --out done --json --quiet", "--print-config", "devices"];

fn printing_to(to: impl Into<Stdio>, mut command: Command) -> Ran {
    command.stdout(to);
    Ran::from(command)
}

#[test]
fn a_closed_stdout_pipe_ends_a_run_silently() {
    let place = Place::with(&["in/a.pgm"]);
    for line in PRINTING {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        printing_to(writer, place.histeqd(line)).exits(0).is_silent();
    }
}

#[test]
fn a_failed_write_to_stdout_is_an_error() {
    let place = Place::with(&["in/a.pgm"]);
    for line in PRINTING {
        let full = File::options().write(true).open("/dev/full").unwrap();
        let ran = printing_to(full, place.histeqd(line));
        ran.exits(3).says("cannot be written: No space left on device");
        assert_eq!(ran.stderr().lines().count(), 1, "{ran}");
    }
}

#[test]
fn help_is_short_or_long_and_goes_to_standard_output() {
    let place = Place::new();
    let (short, long) = (place.run("-h"), place.run("--help"));
    for help in [&short, &long] {
        help.exits(0).is_silent().prints("histeqd [OPTIONS] --out <OUT> <INPUT>...");
        for heading in ["Picture:", "Output:", "Selection:", "Resources:", "Report:", "Examples:"] {
            help.prints(&format!("\n{heading}\n"));
        }
        assert!(!help.stdout().contains("\n  worker"), "{help}");
    }
    short.prints("`histeqd --help` lists all flags");
    long.prints("Exit codes:").prints("\nConfiguration:\n");
    assert_eq!(place.run("help").exits(0).stdout(), long.stdout());
    place.run("help histogram").exits(0).prints("histeqd histogram [OPTIONS] <PICTURE>...");
    assert!(long.stdout().len() > 2 * short.stdout().len());
    place.run("--version").exits(0).prints(concat!("histeqd ", env!("CARGO_PKG_VERSION")));
}

#[test]
fn usage_errors_exit_2_with_a_suggestion() {
    let place = Place::with(&["in/a.pgm"]);
    place.run("").exits(2).says("--out <OUT>");
    place
        .run("in done")
        .exits(2)
        .says("--out is missing, so done is an input; if it is the output, write --out done");
    place.run("in --out done --ovewrite").exits(2).says("--overwrite");
    place.run("histogramm in/a.pgm --bins 2").exits(2).says("did you mean `histeqd histogram`?");
    place.run("statuss done").exits(2).says("did you mean `histeqd status`?");
    place.run("in --out done --memory lots").exits(2).says("4GiB");
    place.run("in --out done --include a[").exits(2).says("a[");
    assert!(!place.path("done").exists());
}

#[test]
fn a_gpu_that_is_insisted_on_and_not_there_stops_everything() {
    let place = Place::with(&["in/a.pgm"]);
    for devices in ["all", "0", "GPU-1234"] {
        let ran = place.run(&format!("in --out done --devices {devices}"));
        ran.exits(3).says("error: no GPU can be used: ");
        assert_eq!(place.tree("done"), [""; 0]);
    }
    place.run("in --out done --devices auto").exits(0);
}

#[test]
fn devices_are_listed_even_where_there_is_only_a_processor() {
    Place::new().run("devices").exits(0).prints("cpu");
}

#[test]
fn readme_asks_for_the_rust_that_is_needed() {
    let readme = include_str!("../../README.md");
    let needed = concat!("[Rust](https://rustup.rs) ", env!("CARGO_PKG_RUST_VERSION"), " or newer");
    assert!(readme.contains(needed), "not in README: {needed}");
}
