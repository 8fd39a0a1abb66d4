//! A worker's account of itself.

use std::collections::BTreeMap;
use std::time::Instant;

use serde::{Deserialize, Serialize};

/// A worker's answer to `histeqd status`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Account {
    /// Its machine and process.
    pub(super) worker: String,
    /// Seconds since it started.
    pub(super) seconds: u64,
    /// The pictures it has done.
    pub(super) done: u64,
    /// The pictures done in the last minute.
    pub(super) last_minute: u64,
    /// The pictures it has put aside.
    pub(super) failed: u64,
    /// The pictures that it was given and has not finished.
    pub(super) in_progress: usize,
    /// The number of pictures that each of its devices did.
    pub(super) devices: BTreeMap<String, u64>,
    /// Why it takes no more for now.
    pub(super) waits: Option<String>,
}

/// The number of pictures done in the last minute.
#[derive(Debug)]
pub(super) struct Minute {
    start: Instant,
    /// For each second of a minute, the second since the start that was counted last, and its
    /// count.
    counts: [(u64, u64); 60],
}

impl Minute {
    pub(super) fn new() -> Self {
        Self { start: Instant::now(), counts: [(0, 0); 60] }
    }

    /// Returns the seconds since counting began.
    pub(super) fn seconds(&self) -> u64 {
        self.start.elapsed().as_secs()
    }

    pub(super) fn count(&mut self) {
        self.count_at(self.seconds());
    }

    pub(super) fn sum(&self) -> u64 {
        self.sum_at(self.seconds())
    }

    fn count_at(&mut self, second: u64) {
        let slot = &mut self.counts[(second % 60) as usize];
        if slot.0 != second {
            *slot = (second, 0);
        }
        slot.1 += 1;
    }

    fn sum_at(&self, second: u64) -> u64 {
        let recent = self.counts.iter().filter(|(counted, _)| counted + 60 > second);
        recent.map(|(_, count)| count).sum()
    }
}

/// Returns the name of this worker, which is unique.
pub(super) fn name() -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let host = host.trim();
    format!("{}:{}", if host.is_empty() { "localhost" } else { host }, std::process::id())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_minute_forgets_what_is_older() {
        let mut minute = Minute::new();
        [0, 0, 1, 30, 59].into_iter().for_each(|second| minute.count_at(second));
        assert_eq!([0, 59, 60, 61, 89, 90, 200].map(|second| minute.sum_at(second)), [5, 5, 3, 2, 2, 1, 0]);
        minute.count_at(60);
        assert_eq!((minute.sum_at(60), minute.sum_at(119)), (4, 1));
    }
}
