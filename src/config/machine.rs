//! The values of `auto` on this machine.

use std::fs;
use std::num::NonZeroUsize;
use std::path::Path;
use std::thread;

use rustix::process::{Resource, getrlimit};

use super::{Count, Memory, OrAuto};
use crate::fs::files::FileLimit;

/// Memory for pictures if the machine has enough, in bytes: this, or [`MEMORY_OF_A_THREAD`] per
/// thread if that is more.
const MEMORY: u64 = 4 << 30;
const MEMORY_OF_A_THREAD: u64 = 256 << 20;

/// Returns the number of threads.
///
/// `auto` is as many as the process may run on, up to [`Count::MAX`]. The limit on open files
/// bounds either.
pub(super) fn threads(wanted: OrAuto<Count>) -> Count {
    let threads = match wanted {
        OrAuto::Fixed(Count(number)) => number,
        OrAuto::Auto => thread::available_parallelism().unwrap_or(NonZeroUsize::MIN).min(Count::MAX),
    };
    Count(threads.min(FileLimit::allowed().threads()))
}

/// Returns the bytes that pictures may take at once.
///
/// `auto` is 4 GiB, or 256 MiB per thread if that is more, but at most half of the memory of the
/// machine or of its control group, or of the address space that the process may have (`ulimit
/// -v`): a refused allocation ends the process, unless it is one that only fails a picture.
pub(super) fn memory(wanted: OrAuto<Memory>, Count(threads): Count) -> Memory {
    match wanted {
        OrAuto::Fixed(bytes) => bytes,
        OrAuto::Auto => {
            let known = [physical_memory(), group_memory(Path::new("/")), getrlimit(Resource::As).current]
                .into_iter()
                .flatten();
            Memory(known.fold(enough_for(threads.get()), |least, bytes| least.min(bytes / 2)))
        }
    }
}

/// Returns the bytes that this many threads can make use of.
fn enough_for(threads: usize) -> u64 {
    MEMORY.max(MEMORY_OF_A_THREAD.saturating_mul(threads as u64))
}

fn physical_memory() -> Option<u64> {
    total(&fs::read_to_string("/proc/meminfo").ok()?)
}

/// Returns the `MemTotal` line of `/proc/meminfo`, in bytes.
fn total(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes * 1024)
}

/// Returns the smallest memory limit, in bytes, of the control groups of the process (versions 2
/// and 1) and of the groups above them. A container may see its own group as the root, whatever
/// path the kernel names.
fn group_memory(root: &Path) -> Option<u64> {
    let own = fs::read_to_string(root.join("proc/self/cgroup")).unwrap_or_default();
    let versions = [
        ("sys/fs/cgroup", "memory.max", group(&own, "")),
        ("sys/fs/cgroup/memory", "memory.limit_in_bytes", group(&own, "memory")),
    ];
    let files = versions.into_iter().flat_map(|(mount, file, group)| {
        group.ancestors().map(move |group| root.join(mount).join(group).join(file))
    });
    files.filter_map(|file| fs::read_to_string(file).ok()?.trim().parse().ok()).min()
}

/// Returns the path of the process's group in the hierarchy of a controller.
///
/// Version 2 names no controller: it is the empty string.
fn group<'a>(own: &'a str, controller: &str) -> &'a Path {
    let path = own.lines().find_map(|line| {
        let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
        controllers.split(',').any(|name| name == controller).then_some(path)
    });
    Path::new(path.unwrap_or_default().trim_start_matches('/'))
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
        assert!(threads(OrAuto::Auto).0 <= Count::MAX);
        let auto = |threads| memory(OrAuto::Auto, count(threads)).0;
        assert!(auto(1) > 0 && auto(1) <= MEMORY);
        assert!(auto(usize::MAX) <= physical_memory().unwrap() / 2);
        assert_eq!([1, 16, 64].map(enough_for), [4 << 30, 4 << 30, 16 << 30]);
        assert_eq!(enough_for(usize::MAX), u64::MAX);
    }

    #[test]
    fn the_smallest_limit_of_all_groups_above_counts() {
        let root = tempfile::tempdir().unwrap();
        let write = |path: &str, content: &str| {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        };
        let limit = || group_memory(root.path());
        assert_eq!(limit(), None);
        write("proc/self/cgroup", "0::/a.slice/b.service\n");
        write("sys/fs/cgroup/a.slice/b.service/memory.max", "max\n");
        assert_eq!(limit(), None);
        write("sys/fs/cgroup/a.slice/memory.max", "300\n");
        assert_eq!(limit(), Some(300));
        write("sys/fs/cgroup/a.slice/b.service/memory.max", "400\n");
        assert_eq!(limit(), Some(300));
        write("proc/self/cgroup", "4:cpu,memory:/c/d\n1:name=systemd:/e\n0::/\n");
        write("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
        write("sys/fs/cgroup/memory/e/memory.limit_in_bytes", "100\n");
        assert_eq!(limit(), Some(9_223_372_036_854_771_712));
        write("sys/fs/cgroup/memory/c/memory.limit_in_bytes", "600\n");
        assert_eq!(limit(), Some(600));
        write("sys/fs/cgroup/memory/c/d/memory.limit_in_bytes", "500\n");
        assert_eq!(limit(), Some(500));
        write("sys/fs/cgroup/memory.max", "200\n");
        assert_eq!(limit(), Some(200), "the root of a container");
    }

    #[test]
    fn what_is_written_is_used_as_it_is() {
        assert_eq!(threads(OrAuto::Fixed(count(7))), count(7));
        assert_eq!(memory(OrAuto::Fixed(Memory(7)), count(64)), Memory(7));
    }
}
