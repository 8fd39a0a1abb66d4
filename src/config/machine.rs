//! What `auto` comes to on this machine.

use std::fs;
use std::num::NonZeroUsize;
use std::thread;

use super::{Bytes, Count, OrAuto};

const MEMORY_AT_MOST: u64 = 4 << 30;

/// The number of threads: as many as the process may run on.
pub(super) fn threads(wanted: OrAuto<Count>) -> Count {
    match wanted {
        OrAuto::Fixed(number) => number,
        OrAuto::Auto => Count(thread::available_parallelism().unwrap_or(NonZeroUsize::MIN)),
    }
}

/// The bytes that pictures may take at once: 4 GiB, or half of what the machine or the control group has.
pub(super) fn memory(wanted: OrAuto<Bytes>) -> Bytes {
    match wanted {
        OrAuto::Fixed(bytes) => bytes,
        OrAuto::Auto => {
            let known = [physical_memory(), group_memory()].into_iter().flatten();
            Bytes(known.fold(MEMORY_AT_MOST, |least, bytes| least.min(bytes / 2)))
        }
    }
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

    #[test]
    fn the_total_is_found_among_the_lines() {
        assert_eq!(total("MemTotal:       16384 kB\nMemFree: 12 kB\n"), Some(16 << 20));
        assert_eq!(total("MemFree: 12 kB\n"), None);
    }

    #[test]
    fn auto_is_something_and_never_more_than_its_cap() {
        assert!(threads(OrAuto::Auto).0.get() < 1 << 20);
        let Bytes(bytes) = memory(OrAuto::Auto);
        assert!(bytes > 0 && bytes <= MEMORY_AT_MOST);
    }

    #[test]
    fn what_is_written_is_used_as_it_is() {
        let seven = Count(NonZeroUsize::new(7).unwrap());
        assert_eq!(threads(OrAuto::Fixed(seven)), seven);
        assert_eq!(memory(OrAuto::Fixed(Bytes(7))), Bytes(7));
    }
}
