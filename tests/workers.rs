//! Worker processes that fail: the real binary with workers that equalize on the CPU over the real protocol, and that are
//! killed, stopped, made to hang or made to fail in the middle of a batch. Whatever happens, all outputs are there and right.
#![allow(clippy::unwrap_used, reason = "in a test it is an assertion")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

const PICTURES: usize = 60;

/// A folder of pictures and the outputs that they must have.
struct Batch {
    folder: TempDir,
}

impl Batch {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let batch = Self { folder };
        fs::create_dir(batch.inbox()).unwrap();
        for number in 0..PICTURES {
            fs::write(batch.inbox().join(format!("{number}.pgm")), picture(number)).unwrap();
        }
        let output = batch.histeqd("cpu", "expected").output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        batch
    }

    fn inbox(&self) -> PathBuf {
        self.folder.path().join("inbox")
    }

    fn histeqd(&self, devices: &str, out: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_histeqd"));
        command.arg(self.inbox()).arg("--out").arg(self.folder.path().join(out));
        command.args(["--no-config", "--json", "--devices", devices]);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    fn assert_complete(&self, out: &str) {
        let files = |name: &str| {
            let mut names: Vec<_> = fs::read_dir(self.folder.path().join(name))
                .unwrap()
                .map(|entry| entry.unwrap().path())
                .collect();
            names.sort();
            names
        };
        let names = |paths: &[PathBuf]| {
            paths.iter().map(|path| path.file_name().unwrap().to_owned()).collect::<Vec<_>>()
        };
        let (expected, found) = (files("expected"), files(out));
        assert_eq!(names(&expected), names(&found));
        for (expected, found) in expected.iter().zip(&found) {
            assert!(fs::read(expected).unwrap() == fs::read(found).unwrap(), "{} differs", found.display());
        }
    }
}

/// A PGM with a ramp that no other number has.
fn picture(number: usize) -> Vec<u8> {
    let (width, height) = (301 + number, 200);
    let mut bytes = format!("P5 {width} {height} 255\n").into_bytes();
    bytes.extend((0..width * height).map(|at| ((at * (number + 3) / 7) % 97) as u8 + 40));
    bytes
}

fn summary(output: &Output) -> Value {
    let text = String::from_utf8_lossy(&output.stdout);
    serde_json::from_str(&text)
        .unwrap_or_else(|error| panic!("{error}: {text} {}", String::from_utf8_lossy(&output.stderr)))
}

fn notes(summary: &Value) -> String {
    summary["notes"].to_string()
}

fn by(summary: &Value, device: &str) -> u64 {
    summary["devices"][device].as_u64().unwrap_or(0)
}

fn run_with_fault(fault: &str, workers: u32) -> (Batch, Value) {
    let batch = Batch::new();
    let mut command = batch.histeqd(&format!("cpu-workers:{workers}"), "out");
    let output = command.args(["--device-timeout", "1s"]).env("HISTEQD_FAULT", fault).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let summary = summary(&output);
    assert_eq!(summary["done"], PICTURES);
    (batch, summary)
}

#[test]
fn workers_give_the_same_bytes_as_the_process_itself() {
    let (batch, summary) = run_with_fault("fail@1000000", 2);
    batch.assert_complete("out");
    assert_eq!(by(&summary, "cpu"), 0, "the workers did it all: {summary}");
    assert!(by(&summary, "cpu-worker0") > 0 && by(&summary, "cpu-worker1") > 0, "{summary}");
}

#[test]
fn a_worker_that_exits_is_started_again_and_nothing_is_lost() {
    let (batch, summary) = run_with_fault("exit@3", 1);
    batch.assert_complete("out");
    assert!(notes(&summary).contains("ended with code 3"), "{summary}");
    assert!(by(&summary, "cpu-worker0") > 0, "{summary}");
}

#[test]
fn a_worker_that_reports_a_failure_is_replaced() {
    let (batch, summary) = run_with_fault("fail@3", 2);
    batch.assert_complete("out");
    assert!(notes(&summary).contains("a test asked for this failure"), "{summary}");
}

#[test]
fn a_worker_that_hangs_is_killed_at_its_deadline() {
    let (batch, summary) = run_with_fault("hang@3", 2);
    batch.assert_complete("out");
    assert!(notes(&summary).contains("overran its deadline"), "{summary}");
}

#[test]
fn a_worker_that_fails_every_time_is_given_up_and_the_cpu_does_the_work() {
    let (batch, summary) = run_with_fault("exit@1*", 1);
    batch.assert_complete("out");
    assert_eq!(by(&summary, "cpu-worker0"), 0, "{summary}");
    assert_eq!(by(&summary, "cpu"), PICTURES as u64, "{summary}");
}

/// Processes whose parent is `parent` and that are workers.
fn workers_of(parent: u32) -> Vec<i32> {
    let children = |entry: fs::DirEntry| {
        let pid: i32 = entry.file_name().to_str()?.parse().ok()?;
        let stat = fs::read_to_string(entry.path().join("stat")).ok()?;
        let command = fs::read_to_string(entry.path().join("cmdline")).ok()?;
        let of_parent = stat.rsplit(')').next()?.split_whitespace().nth(1)? == parent.to_string();
        (of_parent && command.contains("\0worker\0")).then_some(pid)
    };
    fs::read_dir("/proc").unwrap().flatten().filter_map(children).collect()
}

fn wait_until(what: &str, mut happened: impl FnMut() -> bool) {
    let start = Instant::now();
    while !happened() {
        assert!(start.elapsed() < Duration::from_secs(20), "waited too long until {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// A batch that is under way on `workers` workers, of which at least one output is there.
fn under_way(batch: &Batch, workers: u32) -> (Child, Vec<i32>) {
    // One that hangs late keeps the batch from ending before the test has done its deed.
    let mut command = batch.histeqd(&format!("cpu-workers:{workers}"), "out");
    let child = command.args(["--device-timeout", "2s"]).env("HISTEQD_FAULT", "hang@10").spawn().unwrap();
    let out = batch.folder.path().join("out");
    wait_until("the first output is there", || has_output(&out));
    let found = workers_of(child.id());
    assert_eq!(found.len(), workers as usize);
    (child, found)
}

fn has_output(out: &Path) -> bool {
    fs::read_dir(out).is_ok_and(|entries| {
        entries.flatten().any(|entry| entry.path().extension().is_some_and(|extension| extension == "pgm"))
    })
}

fn signal(pid: i32, signal: Signal) {
    kill_process(Pid::from_raw(pid).unwrap(), signal).unwrap();
}

#[test]
fn a_worker_that_is_killed_from_outside_costs_nothing() {
    let batch = Batch::new();
    let (child, workers) = under_way(&batch, 2);
    signal(workers[0], Signal::KILL);
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    batch.assert_complete("out");
    assert!(notes(&summary(&output)).contains("ended by signal 9"));
}

#[test]
fn a_worker_that_is_stopped_is_found_out_and_killed() {
    let batch = Batch::new();
    let (child, workers) = under_way(&batch, 1);
    signal(workers[0], Signal::STOP);
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    batch.assert_complete("out");
    assert!(notes(&summary(&output)).contains("overran its deadline"));
}

#[test]
fn no_worker_outlives_the_main_process() {
    let batch = Batch::new();
    let (mut child, workers) = under_way(&batch, 2);
    child.kill().unwrap();
    child.wait().unwrap();
    let alive =
        |pid: i32| fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| !stat.contains(") Z "));
    wait_until("the workers are gone", || !workers.iter().any(|&pid| alive(pid)));
}
