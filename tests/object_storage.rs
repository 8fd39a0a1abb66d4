//! Inputs and outputs in object storage, against a real server (SeaweedFS), one that a proxy makes
//! fail, and one of our own in memory.

mod batch;
mod faults;
#[cfg(feature = "zarr")]
mod images;
mod names;
mod proxy;
mod queue;
mod refusals;
mod server;
mod settings;
mod stub;
mod watch;
