//! Inputs and outputs in object storage, against a real server (SeaweedFS) and one that a proxy makes fail.

mod batch;
mod faults;
mod proxy;
mod queue;
mod refusals;
mod server;
mod watch;
