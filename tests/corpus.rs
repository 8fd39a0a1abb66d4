//! The binary run over folders of broken and unusual files, as a user would run it: all files at
//! once, in bounded time and memory, with every file accounted for and no partial output.
//!
//! Some of the files are kept in `tests/data/bad`. A larger collection is tested too where there is
//! one.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, ExitStatus};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;
use walkdir::WalkDir;

use crate::harness::{collection, histeqd, project};

/// The memory limit that the binary is given, in bytes.
const MEMORY: u64 = 64 << 20;
/// Memory that the process may use beyond [`MEMORY`], in bytes: code, stacks, the codecs' tables.
const BESIDE: u64 = 64 << 20;
/// How long a run may take, which is far longer than it needs; after that it counts as hanging.
const PATIENCE: Duration = Duration::from_secs(300);

/// A finished run of the binary.
struct Run {
    status: ExitStatus,
    summary: Value,
    messages: String,
}

impl Run {
    /// Processes all of `inbox` into `out`, and asserts that the run ends by itself, in time,
    /// without a panic and within its memory.
    fn over(inbox: &Path, out: &Path) -> Self {
        let said = tempfile::tempdir().unwrap();
        let (answer, messages) = (said.path().join("answer"), said.path().join("messages"));
        let mut child = histeqd()
            .arg(inbox)
            .arg("--out")
            .arg(out)
            .args(["--json", "--no-config", "--devices", "cpu", "--threads", "2", "--durability", "fast"])
            .args(["--memory", &MEMORY.to_string()])
            .stdout(File::create(&answer).unwrap())
            .stderr(File::create(&messages).unwrap())
            .spawn()
            .unwrap();
        let (deadline, mut peak) = (Instant::now() + PATIENCE, 0);
        let status = loop {
            peak = peak_memory(&child).unwrap_or(peak);
            if let Some(status) = child.try_wait().unwrap() {
                break status;
            }
            if Instant::now() > deadline {
                child.kill().unwrap();
                panic!("hangs on {}", inbox.display());
            }
            thread::sleep(Duration::from_millis(2));
        };
        let messages = String::from_utf8_lossy(&fs::read(&messages).unwrap()).into_owned();
        assert!(!messages.contains("panicked"), "{messages}");
        assert!((1..=MEMORY + BESIDE).contains(&peak), "took {} MiB", peak >> 20);
        let answer = fs::read_to_string(&answer).unwrap();
        let summary =
            serde_json::from_str(&answer).unwrap_or_else(|error| panic!("{error}: {answer}\n{messages}"));
        Self { status, summary, messages }
    }

    fn done(&self) -> usize {
        usize::try_from(self.summary["done"].as_u64().unwrap()).unwrap()
    }

    fn skipped(&self, why: &str) -> usize {
        usize::try_from(self.summary["skipped"][why].as_u64().unwrap_or(0)).unwrap()
    }

    /// Returns the reasons for the failures, by input.
    fn failed(&self) -> BTreeMap<PathBuf, &str> {
        let failures = self.summary["failed"].as_array().unwrap();
        let reason = |failure: &Value| PathBuf::from(failure["input"].as_str().expect("names are UTF-8"));
        let failed: BTreeMap<_, _> =
            failures.iter().map(|one| (reason(one), one["error"].as_str().unwrap())).collect();
        assert_eq!(failed.len(), failures.len(), "a file failed twice");
        failed
    }

    /// Asserts that each of `inputs` was done, failed with a reason or was skipped as no picture,
    /// and that the exit code agrees.
    fn accounts_for(&self, inputs: &[PathBuf]) {
        let failed = self.failed();
        for (input, reason) in &failed {
            assert!(inputs.contains(input), "not among the inputs: {}", input.display());
            assert!(!reason.is_empty(), "no reason for {}", input.display());
        }
        let settled = self.done() + failed.len() + self.skipped("not-a-picture");
        assert_eq!(settled, inputs.len(), "{}", self.messages);
        assert_eq!(self.status.code(), Some(i32::from(!failed.is_empty())), "{}", self.messages);
    }
}

/// Returns the peak resident memory of a process that is still running, in bytes.
fn peak_memory(child: &Child) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{}/status", child.id())).ok()?;
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    peak.trim().strip_suffix(" kB")?.parse::<u64>().ok().map(|kibibytes| kibibytes * 1024)
}

/// Returns every file below `folder`, including hidden ones, to find leftover temporary files.
fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = WalkDir::new(folder).into_iter().filter_map(Result::ok);
    entries.filter(|entry| entry.file_type().is_file()).map(walkdir::DirEntry::into_path).collect()
}

fn contents(files: &[PathBuf]) -> Vec<Vec<u8>> {
    files.iter().map(|file| fs::read(file).unwrap()).collect()
}

/// Processes the whole folder, then its outputs, which must all be readable pictures.
fn survives(inbox: &Path) -> Run {
    let out = tempfile::tempdir().unwrap();
    let inputs = files(inbox);
    let run = Run::over(inbox, out.path());
    run.accounts_for(&inputs);
    assert_eq!(files(out.path()).len(), run.done(), "files beside the outputs");

    let again = tempfile::tempdir().unwrap();
    let rerun = Run::over(out.path(), again.path());
    assert_eq!(rerun.failed(), BTreeMap::new(), "an output that cannot be read");
    assert_eq!(rerun.done(), run.done());
    run
}

#[test]
fn broken_files_fail_by_name_and_leave_nothing() {
    let inbox = project().join("tests/data/bad");
    let (inputs, out) = (files(&inbox), tempfile::tempdir().unwrap());
    assert!(inputs.len() >= 40, "only {} files", inputs.len());
    let before = contents(&inputs);
    let run = Run::over(&inbox, out.path());
    run.accounts_for(&inputs);
    assert_eq!(run.done(), 0, "{}", run.messages);
    assert_eq!(run.status.code(), Some(1));
    assert_eq!(files(out.path()), Vec::<PathBuf>::new());
    assert!(contents(&inputs) == before, "an input was changed");
}

#[test]
fn a_large_collection_of_broken_files_is_survived() {
    let Some(inbox) = collection("bad") else { return };
    let run = survives(&inbox);
    assert_eq!(run.status.code(), Some(1), "{}", run.messages);
}

#[test]
fn a_large_collection_of_unusual_files_is_done_or_refused_by_name() {
    let Some(inbox) = collection("good") else { return };
    let run = survives(&inbox);
    assert!(run.done() > run.failed().len(), "{}", run.messages);
}
