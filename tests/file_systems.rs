//! File systems for tests: one that may lose all unsynced data in a power failure, one that fails
//! at each request in turn, one that behaves as over a bad network, and one that is slow. They are
//! mounted with FUSE; where that is not allowed, the tests are reported as skipped.

mod disk;
mod failing;
mod mounted;
mod network;
mod power_failure;
mod slow;
