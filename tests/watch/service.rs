//! A running service, its inputs, and the outputs that they must have.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::thread;
use std::time::{Duration, SystemTime};

use rustix::process::{Pid, Signal, kill_process};

use crate::harness::{Place, wait};
use crate::samples::Random;

/// A service in a place, usually `histeqd --watch in --out out`; it is killed when dropped.
pub(crate) struct Service {
    child: Child,
    log: PathBuf,
}

impl Service {
    /// Starts the service with further arguments, and waits until it watches.
    pub(crate) fn start(place: &Place, arguments: &str) -> Self {
        let before = fs::read(place.path("log")).map_or(0, |log| log.len());
        let service = Self::begin(place, arguments);
        wait("the service to start", || service.log()[before..].contains("watching "));
        service
    }

    /// Starts the service with further arguments, and does not wait.
    pub(crate) fn begin(place: &Place, arguments: &str) -> Self {
        fs::create_dir_all(place.path("in")).unwrap();
        let mut command =
            place.histeqd(&format!("--watch in --out out --verbose --durability fast {arguments}"));
        Self::spawn(place, &mut command)
    }

    /// Starts the service on these devices, which may be GPUs, and does not wait; `fault` makes a
    /// worker fail.
    pub(crate) fn begin_on(place: &Place, devices: &str, fault: Option<&str>, arguments: &str) -> Self {
        fs::create_dir_all(place.path("in")).unwrap();
        let mut command = place.histeqd(&format!(
            "--watch in --out out --verbose --durability fast --devices {devices} {arguments}"
        ));
        command.env_remove("CUDA_VISIBLE_DEVICES");
        command.envs(fault.map(|fault| ("HISTEQD_FAULT", fault)));
        Self::spawn(place, &mut command)
    }

    /// Starts a command as the service, with standard error appended to the log.
    pub(crate) fn spawn(place: &Place, command: &mut std::process::Command) -> Self {
        let log = place.path("log");
        let file = File::options().create(true).append(true).open(&log).unwrap();
        let child = command.stderr(file).stdout(Stdio::null()).spawn().unwrap();
        Self { child, log }
    }

    /// Returns the log of this service and of earlier ones in the same place.
    pub(crate) fn log(&self) -> String {
        String::from_utf8_lossy(&fs::read(&self.log).unwrap_or_default()).into_owned()
    }

    /// The process id.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends a signal.
    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Kills the service with SIGKILL.
    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Waits for the service to end by itself, and returns its exit code.
    pub(crate) fn ends(mut self) -> Option<i32> {
        self.child.wait().unwrap().code()
    }

    /// Sends SIGTERM, waits for the end, and returns the exit code.
    pub(crate) fn stop(mut self) -> Option<i32> {
        self.signal(Signal::TERM);
        self.child.wait().unwrap().code()
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns the processes that a process started, but for zombies, and the number of zombies.
pub(crate) fn children(pid: u32) -> (Vec<String>, usize) {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).unwrap().flatten();
    let of_task = |task: fs::DirEntry| fs::read_to_string(task.path().join("children")).unwrap_or_default();
    let all: String = tasks.map(|task| of_task(task) + " ").collect();
    let stat = |child: &&str| fs::read_to_string(format!("/proc/{child}/stat")).unwrap_or_default();
    let (zombies, running): (Vec<&str>, Vec<&str>) =
        all.split_whitespace().partition(|child| stat(child).contains(") Z "));
    (running.into_iter().map(str::to_owned).collect(), zombies.len())
}

/// Returns a square gray picture (PGM) of low contrast, different for every `seed`.
pub(crate) fn picture(seed: u64, side: usize) -> Vec<u8> {
    let mut random = Random(seed);
    let mut picture = format!("P5\n{side} {side}\n255\n").into_bytes();
    picture.extend((0..side * side).map(|_| 100 + u8::try_from(random.below(50)).unwrap()));
    picture
}

/// Moves a complete file into the inbox by a rename.
pub(crate) fn drop_in(place: &Place, name: &str, content: &[u8]) {
    let target = place.path("in").join(name);
    fs::create_dir_all(target.parent().unwrap()).unwrap();
    let outside = place.path("outside");
    fs::write(&outside, content).unwrap();
    fs::rename(outside, target).unwrap();
}

/// Sets a file's mtime far back, as if it had not been written to for a long time.
pub(crate) fn make_old(path: &Path) {
    let long_ago = SystemTime::now() - Duration::from_secs(200_000);
    File::options().append(true).open(path).unwrap().set_modified(long_ago).unwrap();
}

/// Writes a file in small pieces, with a pause after each.
pub(crate) fn write_slowly(path: &Path, content: &[u8], pieces: usize, pause: Duration) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let mut file = File::create(path).unwrap();
    for piece in content.chunks(content.len().div_ceil(pieces)) {
        file.write_all(piece).unwrap();
        thread::sleep(pause);
    }
}

/// Returns the outputs of a single run, by name; the service has to make the same.
pub(crate) fn expected(inputs: &BTreeMap<String, Vec<u8>>) -> BTreeMap<String, Vec<u8>> {
    let place = Place::new();
    for (name, content) in inputs {
        place.file(Path::new("in").join(name), content);
    }
    if !inputs.is_empty() {
        place.run("in --out out --quiet --durability fast --devices cpu").exits(0);
    }
    inputs.keys().map(|name| (name.clone(), place.read(Path::new("out").join(name)))).collect()
}

/// Returns the names of the outputs, without histeqd's own folder.
pub(crate) fn outputs(place: &Place) -> Vec<String> {
    place.tree("out").into_iter().filter(|name| !name.starts_with(".histeqd/")).collect()
}

/// Waits until every input's output is there and right.
pub(crate) fn wait_for(place: &Place, expected: &BTreeMap<String, Vec<u8>>) {
    let is_right = |(name, content): (&String, &Vec<u8>)| {
        fs::read(place.path("out").join(name)).is_ok_and(|output| output == *content)
    };
    wait("all outputs", || expected.iter().all(is_right));
}

/// Returns the number of times that a file was done, by a log.
pub(crate) fn times_done(log: &str, name: &str) -> usize {
    let named = format!("/in/{name} -> ");
    log.lines().filter(|line| line.contains(" done: ") && line.contains(&named)).count()
}

/// Returns a number from an environment variable, or `usual` if it is not set: for longer tests.
pub(crate) fn from_environment(name: &str, usual: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(usual)
}
