//! Devices: where slots are equalized. A small trait, its implementations for the CPU and for worker processes, and the choice among them.
//!
//! [`while_started`] has the devices of a [`machine`] work for one run, or for all runs of a service, whose workers are started once.

pub(crate) mod backoff;
mod choose;
mod context;
pub mod cpu;
mod devices;
mod early;
pub mod find;
pub mod machine;
pub mod offload;
mod outlook;
mod required;
mod start;
pub mod supervisor;
pub mod task;
pub mod worker;

use std::sync::Arc;

use crate::device::task::{OffloadTask, Task};
use crate::slot::device_state::DeviceState;
pub use context::Context;
pub use devices::Devices;
pub use start::while_started;

/// A device: takes filled slots and passes them on equalized.
///
/// Whatever happens to the device, no task is lost: it comes out equalized, or its job goes back to be decoded again for another device, or
/// its failure is reported.
pub trait Device: Send + Sync {
    /// Returns the name that the summary and messages use.
    fn name(&self) -> Arc<str>;

    /// Returns its current state.
    fn state(&self) -> DeviceState;

    /// Takes a task whose slot belongs to this device. Does not wait for the picture; may wait for room in a worker's socket.
    fn submit(&self, task: Task);

    /// Takes what a thread waits for, whose slot belongs to this device.
    fn offload(&self, task: OffloadTask);

    /// Lets the device's threads and processes end, because no more tasks will come.
    fn close(&self);
}
