//! A folder of pictures with the outputs that they must have, and the processes that make them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

use crate::harness::{histeqd, wait};

/// A folder of pictures with the outputs that they must have.
pub(crate) struct Batch {
    folder: TempDir,
    pictures: usize,
    flags: Vec<String>,
}

impl Batch {
    /// Writes the named pictures, and lets the CPU make the outputs expected of every device.
    pub(crate) fn new(pictures: impl IntoIterator<Item = (String, Vec<u8>)>, flags: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("inbox")).unwrap();
        let write = |(name, bytes): (String, Vec<u8>)| {
            fs::write(folder.path().join("inbox").join(name), bytes).unwrap();
        };
        let pictures = pictures.into_iter().map(write).count();
        let flags = flags.iter().map(|&flag| flag.to_owned()).collect();
        let batch = Self { folder, pictures, flags };
        let output = batch.histeqd("cpu", "expected").output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        batch
    }

    /// Returns the command that writes the outputs of these devices to the folder `out`.
    pub(crate) fn histeqd(&self, devices: &str, out: &str) -> Command {
        let mut command = histeqd();
        command.arg(self.folder.path().join("inbox")).arg("--out").arg(self.out(out)).args(&self.flags);
        command.args(["--no-config", "--json", "--devices", devices]);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Returns a path in the batch's folder.
    pub(crate) fn out(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Asserts that the run processed all pictures, and returns its summary.
    pub(crate) fn assert_all_there(&self, output: &Output) -> Value {
        assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
        let text = String::from_utf8_lossy(&output.stdout);
        let summary: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(summary["done"], self.pictures, "{summary}");
        summary
    }

    /// Asserts that the run processed all pictures to the expected bytes, and returns its summary.
    pub(crate) fn assert_done(&self, output: &Output, out: &str) -> Value {
        let summary = self.assert_all_there(output);
        let (expected, found) = (self.files("expected"), self.files(out));
        assert_eq!(names(&expected), names(&found));
        for (expected, found) in expected.iter().zip(&found) {
            assert!(fs::read(expected).unwrap() == fs::read(found).unwrap(), "{} differs", found.display());
        }
        summary
    }

    /// Returns the name and the content of each file in a folder.
    pub(crate) fn contents(&self, folder: &str) -> Vec<(String, Vec<u8>)> {
        let files = self.files(folder);
        names(&files).into_iter().zip(files.iter().map(|file| fs::read(file).unwrap())).collect()
    }

    fn files(&self, out: &str) -> Vec<PathBuf> {
        let mut files: Vec<_> =
            fs::read_dir(self.out(out)).unwrap().map(|entry| entry.unwrap().path()).collect();
        files.sort();
        files
    }
}

fn names(paths: &[PathBuf]) -> Vec<String> {
    paths.iter().map(|path| path.file_name().unwrap().to_string_lossy().into_owned()).collect()
}

/// Returns the summary's notes, which are about devices.
pub(crate) fn notes(summary: &Value) -> String {
    summary["notes"].to_string()
}

/// Returns the number of pictures that a device processed.
pub(crate) fn by(summary: &Value, device: &str) -> u64 {
    summary["devices"][device].as_u64().unwrap_or(0)
}

/// Starts a batch, and waits for its first output and for all its workers.
///
/// Returns the process, and the process IDs of the workers.
pub(crate) fn under_way(batch: &Batch, devices: &str, workers: usize) -> (Child, Vec<i32>) {
    // A worker that hangs late keeps the batch from ending before the test has interfered.
    let mut command = batch.histeqd(devices, "out");
    let child = command.args(["--device-timeout", "6s"]).env("HISTEQD_FAULT", "hang@10").spawn().unwrap();
    wait("the first output", || has_output(&batch.out("out")));
    // The first output may be there before all workers have been started.
    let mut found = Vec::new();
    wait("the workers", || {
        found = workers_of(child.id());
        found.len() == workers
    });
    (child, found)
}

fn has_output(out: &Path) -> bool {
    let whole = |path: PathBuf| path.extension().is_some_and(|extension| extension == "pgm");
    fs::read_dir(out).is_ok_and(|entries| entries.flatten().any(|entry| whole(entry.path())))
}

/// Returns the process IDs of the device workers that are children of `parent`.
pub(crate) fn workers_of(parent: u32) -> Vec<i32> {
    let worker = |entry: fs::DirEntry| {
        let pid: i32 = entry.file_name().to_str()?.parse().ok()?;
        let stat = fs::read_to_string(entry.path().join("stat")).ok()?;
        let command = fs::read_to_string(entry.path().join("cmdline")).ok()?;
        let of_parent = stat.rsplit(')').next()?.split_whitespace().nth(1)? == parent.to_string();
        (of_parent && command.contains("\0worker\0--") && !command.contains("--list")).then_some(pid)
    };
    fs::read_dir("/proc").unwrap().flatten().filter_map(worker).collect()
}

/// Returns whether the process runs; a zombie does not.
pub(crate) fn alive(pid: i32) -> bool {
    fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| !stat.contains(") Z "))
}

/// Sends a signal.
pub(crate) fn signal(pid: i32, signal: Signal) {
    kill_process(Pid::from_raw(pid).unwrap(), signal).unwrap();
}
