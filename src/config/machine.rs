//! What `auto` comes to on this machine.

use std::fs;
use std::num::NonZeroUsize;
use std::thread;

use super::{Bytes, Count, OrAuto};

/// What pictures may take where there is enough: so much, or so much for each thread if that is more.
const MEMORY: u64 = 4 << 30;
const MEMORY_OF_A_THREAD: u64 = 256 << 20;

/// The number of threads: as many as the process may run on, as far as they can be written.
pub(super) fn threads(wanted: OrAuto<Count>) -> Count {
    match wanted {
        OrAuto::Fixed(number) => number,
        OrAuto::Auto => Count(thread::available_parallelism().unwrap_or(NonZeroUsize::MIN).min(Count::MOST)),
    }
}

/// The bytes that pictures may take at once: 4 GiB, or 256 MiB for each thread where that is more; no more than half of what the machine or
/// the control group has.
pub(super) fn memory(wanted: OrAuto<Bytes>, Count(threads): Count) -> Bytes {
    match wanted {
        OrAuto::Fixed(bytes) => bytes,
        OrAuto::Auto => {
            let known = [physical_memory(), group_memory()].into_iter().flatten();
            Bytes(known.fold(enough_for(threads.get()), |least, bytes| least.min(bytes / 2)))
        }
    }
}

/// What so many threads make use of.
fn enough_for(threads: usize) -> u64 {
    MEMORY.max(MEMORY_OF_A_THREAD.saturating_mul(threads as u64))
}

fn physical_memory() -> Option<u64> {
    total(&fs::read_to_string("/proc/meminfo").ok()?)
}

/// The `MemTotal` line of `/proc/meminfo`, in bytes.
fn total(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes * 1024)
}

/// The limit of the control group that a container sees as its root, versions 2 and 1; a service under systemd sits
/// deeper and is found by its path in `/proc/self/cgroup`.
fn group_memory() -> Option<u64> {
    let own = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let own = own.lines().find_map(|line| line.strip_prefix("0::/")).unwrap_or_default();
    [
        format!("/sys/fs/cgroup/{own}/memory.max"),
        "/sys/fs/cgroup/memory.max".into(),
        "/sys/fs/cgroup/memory/memory.limit_in_bytes".into(),
    ]
    .iter()
    .find_map(|path| fs::read_to_string(path).ok()?.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(number: usize) -> Count {
        Count(NonZeroUsize::new(number).unwrap())
    }

    #[test]
    fn the_total_is_found_among_the_lines() {
        assert_eq!(total("MemTotal:       16384 kB\nMemFree: 12 kB\n"), Some(16 << 20));
        assert_eq!(total("MemFree: 12 kB\n"), None);
    }

    #[test]
    fn auto_is_something_and_never_more_than_its_cap() {
        assert!(threads(OrAuto::Auto).0 <= Count::MOST);
        let auto = |threads| memory(OrAuto::Auto, count(threads)).0;
        assert!(auto(1) > 0 && auto(1) <= MEMORY);
        assert!(auto(usize::MAX) <= physical_memory().unwrap() / 2);
        assert_eq!([1, 16, 64].map(enough_for), [4 << 30, 4 << 30, 16 << 30]);
        assert_eq!(enough_for(usize::MAX), u64::MAX);
    }

    #[test]
    fn what_is_written_is_used_as_it_is() {
        assert_eq!(threads(OrAuto::Fixed(count(7))), count(7));
        assert_eq!(memory(OrAuto::Fixed(Bytes(7)), count(64)), Bytes(7));
    }
}
