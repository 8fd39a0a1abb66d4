//! The ladder without a GPU: `CUDA_VISIBLE_DEVICES` hides any that there are.

#![allow(clippy::unwrap_used, reason = "in a test it is an assertion")]

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

/// Climbs in this folder, with these arguments, separated by spaces; expects this exit code.
fn climb(folder: &Path, arguments: &str, code: i32) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ladder"));
    command.args(arguments.split_whitespace()).current_dir(folder).env("CUDA_VISIBLE_DEVICES", "");
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(code), "{output:?}");
    output
}

fn printed(output: Output) -> String {
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn without_a_gpu_the_ladder_says_so_and_measures_the_cpu() {
    let folder = tempfile::tempdir().unwrap();
    let text = printed(climb(folder.path(), "--size 256x128", 0));
    assert!(text.contains("A picture of 256 x 128 pixels"), "{text}");
    assert!(text.contains("\nNo GPU, so its rungs are left out: "), "{text}");
    let rows: Vec<_> = text.lines().filter(|line| line.starts_with("  ")).collect();
    assert_eq!(rows.len(), 7, "{text}");
    assert!(rows.iter().all(|row| row.contains("CPU") && row.ends_with("  same")), "{text}");
}

#[test]
fn the_ladder_as_json_tells_of_every_rung() {
    let folder = tempfile::tempdir().unwrap();
    let text = printed(climb(folder.path(), "--size 256x128 --json", 0));
    let json: Value = serde_json::from_str(&text).unwrap();
    assert!(json["gpu"].is_null());
    let reason = json["no_gpu"].as_str().unwrap();
    let sections = json["sections"].as_array().unwrap();
    let rungs: Vec<_> = sections.iter().flat_map(|section| section["rungs"].as_array().unwrap()).collect();
    let having = |outcome| rungs.iter().filter(|rung| rung["outcome"] == outcome).count();
    assert_eq!((having("measured"), having("failed")), (7, 0), "{json:#}");
    let absent: Vec<_> = rungs.iter().filter(|rung| rung["outcome"] == "skipped").collect();
    assert_eq!(absent.len(), rungs.len() - 7);
    assert!(absent.iter().all(|rung| rung["reason"] == reason), "{json:#}");
}

#[test]
fn the_ladder_can_be_drawn() {
    let folder = tempfile::tempdir().unwrap();
    let text = printed(climb(folder.path(), "--size 256x128 --plot bars.svg --only clahe", 0));
    assert!(text.contains("CLAHE"), "{text}");
    let svg = fs::read_to_string(folder.path().join("bars.svg")).unwrap();
    assert!(svg.starts_with("<svg") && svg.contains("histeqd, one CPU thread"), "{svg}");
    let output = climb(folder.path(), "--size 16x16 --plot no/folder/bars.svg", 3);
    assert!(String::from_utf8_lossy(&output.stderr).contains("no/folder/bars.svg"), "{output:?}");
}

#[test]
fn what_cannot_be_measured_is_a_usage_error() {
    let folder = tempfile::tempdir().unwrap();
    for (arguments, why) in [
        ("--size 250x128", "multiples of 16"),
        ("--size 131072x131072", "too large"),
        ("--size big", "WIDTHxHEIGHT"),
        ("--size 16x16 --only stairs", "--only stairs"),
        ("--plot bars.jpg", ".png or .svg"),
    ] {
        let output = climb(folder.path(), arguments, 2);
        assert!(String::from_utf8_lossy(&output.stderr).contains(why), "{output:?}");
    }
}
