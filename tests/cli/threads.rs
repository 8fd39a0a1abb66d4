//! The number of threads that a run starts, and its behaviour with few open files.

use std::collections::BTreeSet;
use std::fs;
use std::process::{Child, Stdio};
use std::time::Duration;

use crate::harness::{Place, Ran, binary};

/// Waits for a run to end; returns the names of the stages' threads that were seen meanwhile, and
/// the run.
fn stages(mut child: Child) -> (BTreeSet<String>, Ran) {
    let mut seen = BTreeSet::new();
    while child.try_wait().unwrap().is_none() {
        // The process may have ended since.
        let tasks = fs::read_dir(format!("/proc/{}/task", child.id())).into_iter().flatten().flatten();
        seen.extend(tasks.filter_map(|task| fs::read_to_string(task.path().join("comm")).ok()));
        std::thread::sleep(Duration::from_millis(1));
    }
    let of_stages = seen.iter().map(|name| name.trim().to_owned()).filter(|name| name.contains('-'));
    // A thread has the program's name until it has its own.
    let named = of_stages.filter(|name| name != "ctrl-c" && name != "histeqd-faulty").collect();
    (named, Ran::from(child.wait_with_output().unwrap()))
}

#[test]
fn one_picture_has_one_thread_of_each_stage() {
    let place = Place::new();
    let samples: Vec<u8> = (0..2 * 256 * 256u32).map(|n| (n.wrapping_mul(n) / 7) as u8).collect();
    place.file("in/a.pgm", [b"P5\n256 256\n65535\n", &samples[..]].concat());
    // This many 16-bit LUTs take a while, during which the threads can be listed.
    let mut command = place
        .histeqd("in --out done --devices cpu --threads 3 --method clahe --tiles 32x32 --durability full");
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let (stages, ran) = stages(child);
    ran.exits(0).says("Done: 1 picture");
    assert!(!stages.is_empty());
    // A thread that ends within a millisecond may be missed.
    let one_each = ["decode-0", "encode-0", "lane-cpu-0", "publish-0"].map(str::to_owned).into();
    assert!(stages.is_subset(&one_each), "{stages:?}");
}

/// Runs the binary with this limit on open files.
fn with_files(place: &Place, limit: u32, arguments: &str) -> Ran {
    // Files that the test runner left open would count.
    let close = "exec 3>&- 4>&- 5>&- 6>&- 7>&- 8>&- 9>&-";
    let line = format!("{close}; ulimit -n {limit}; exec '{}' {arguments}", binary());
    Ran::from(place.command("sh", ["-c", &line]))
}

#[test]
fn where_few_files_can_be_open_fewer_are_begun_at_a_time() {
    let names: Vec<String> = (0..120).map(|number| format!("in/{number}.pgm")).collect();
    let place = Place::with(&names.iter().map(String::as_str).collect::<Vec<_>>());
    for devices in ["cpu", "cpu-workers:2", "cpu-workers:1 --jpeg gpu"] {
        let arguments = format!("in --out out --overwrite --threads 64 --devices {devices}");
        with_files(&place, 64, &arguments).exits(0).says("Done: 120 pictures");
    }
}

#[test]
fn too_low_an_open_file_limit_names_the_limit() {
    let place = Place::with(&["in/a.pgm"]);
    let ran = with_files(&place, 4, "in/a.pgm --out out --devices cpu");
    assert!(ran.stderr().contains("raise the limit of open files (ulimit -n, LimitNOFILE="), "{ran}");
}
