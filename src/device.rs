//! Devices, which equalize the pictures in slots: the CPU, and worker processes for GPUs.
//!
//! They implement a small trait, and a run chooses among them. [`while_started`] starts the devices
//! of a [`machine`] for one run, or once for all runs of a service.

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

/// A device, which equalizes pictures in slots and passes them on.
///
/// No task is lost, even if the device fails: the picture comes out equalized, or its job goes back
/// to be decoded again for another device, or its failure is reported.
pub trait Device: Send + Sync {
    /// Returns the name for the summary and for messages.
    fn name(&self) -> Arc<str>;

    /// Returns its current state.
    fn state(&self) -> DeviceState;

    /// Takes a task with a slot of this device.
    ///
    /// It does not wait for the picture, but may wait for room in a worker's socket.
    fn submit(&self, task: Task);

    /// Takes the work that a thread waits for, in a slot of this device.
    fn offload(&self, task: OffloadTask);

    /// Ends the device's threads and processes, because no more tasks will come.
    fn close(&self);
}
