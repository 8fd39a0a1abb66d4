//! The identity of the machine's boot: data written before it may not have reached the disk.

use std::fs;

/// The file in which Linux publishes it.
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

/// Returns an identifier of the machine's last boot, unique among boots and machines; empty if
/// unknown.
pub(crate) fn boot_id() -> String {
    fs::read_to_string(BOOT_ID).unwrap_or_default().trim().to_owned()
}
