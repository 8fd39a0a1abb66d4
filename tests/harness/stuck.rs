//! A watchdog for runs of the program that do not end. It prints the system calls in which their
//! threads wait and kills them, for their test to fail by name.

use std::collections::HashMap;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Once;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, getpid, kill_process};

/// The longest that a process of the program may last: several times the longest test on a machine
/// under load.
const MOST: Duration = Duration::from_secs(400);

const INTERVAL: Duration = Duration::from_secs(5);

/// Starts to watch the processes of the program below this one, and to kill any that lasts too
/// long.
pub(super) fn watch(program: String) {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        thread::spawn(move || watch_always(Path::new(&program)));
    });
}

fn watch_always(program: &Path) {
    let mut seen: HashMap<Pid, Instant> = HashMap::new();
    loop {
        thread::sleep(INTERVAL);
        let running = running(program);
        seen.retain(|pid, _| running.contains(pid));
        for pid in running {
            if seen.entry(pid).or_insert_with(Instant::now).elapsed() > MOST {
                eprintln!("killed, as it did not end: {}", told(pid));
                // The process may have ended by now.
                let _ = kill_process(pid, Signal::KILL);
            }
        }
    }
}

/// Returns the processes of a program below this one.
fn running(program: &Path) -> Vec<Pid> {
    let (mut found, mut left) = (Vec::new(), children(getpid()));
    while let Some(pid) = left.pop() {
        left.extend(children(pid));
        found.push(pid);
    }
    found.retain(|pid| fs::read_link(folder(*pid).join("exe")).is_ok_and(|exe| exe == program));
    found
}

fn folder(pid: Pid) -> PathBuf {
    format!("/proc/{}", pid.as_raw_nonzero()).into()
}

/// Returns the folders of a process's threads; empty if it has ended.
fn threads(pid: Pid) -> Vec<PathBuf> {
    let threads = fs::read_dir(folder(pid).join("task")).into_iter().flatten();
    threads.filter_map(|thread| Some(thread.ok()?.path())).collect()
}

fn children(pid: Pid) -> Vec<Pid> {
    let lists = threads(pid).into_iter().map(|thread| read(&thread.join("children")));
    let pids = lists.flat_map(|list| list.split_whitespace().map(str::to_owned).collect::<Vec<_>>());
    pids.filter_map(|pid| Pid::from_raw(pid.parse().ok()?)).collect()
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

/// Describes a process by its arguments and, for each thread, the name, the system call it is in
/// and the place in the kernel where it waits.
fn told(pid: Pid) -> String {
    let mut told = read(&folder(pid).join("cmdline")).replace('\0', " ");
    for thread in threads(pid) {
        let [name, call, place] = ["comm", "syscall", "wchan"].map(|name| read(&thread.join(name)));
        let _ = write!(told, "\n    {}: {} {place}", name.trim_end(), call.trim_end());
    }
    told
}
