//! File systems of our own: one that a power failure may cost everything that was not synced, and one that behaves as over a bad network.
//! They are mounted with FUSE; where that is not allowed, the tests are reported as skipped.

mod disk;
mod mounted;
mod network;
mod power_failure;
