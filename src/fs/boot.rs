//! Which of the machine's starts this is: what was written before it may not have reached the disk.

use std::fs;

/// Where Linux says it.
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

/// Returns what tells the machine's last start from others, and from those of other machines; empty if that is not known.
pub(crate) fn boot_id() -> String {
    fs::read_to_string(BOOT_ID).unwrap_or_default().trim().to_owned()
}
