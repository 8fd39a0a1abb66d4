//! Lanes equalize pictures, on the CPU or on a GPU, with the same bytes.
//!
//! ```
//! use equalize::{ByteOrders, Depth, Layout, Method, Operation, Pixel};
//! use histeqd_lanes::{Unit, open};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! // `Unit::Gpu(0)` is the first GPU.
//! let engine = open(Unit::Cpu(0), None)?;
//! let mut lane = engine.lane()?;
//! let layout = Layout { width: 4, height: 1, pixel: Pixel::Gray, depth: Depth::Eight };
//! let mut pixels = [100, 101, 102, 103];
//! lane.equalize(&mut pixels, &layout, ByteOrders::NATIVE, &Operation::new(Method::Global), &[])?;
//! assert_eq!(pixels, [0, 85, 170, 255]);
//! # Ok(())
//! # }
//! ```
//!
//! An [`Engine`] is opened once per process and shared by its [`Lane`]s and [`JpegLane`]s, each of
//! which belongs to one thread. An [`Order`] is the work on a picture. [`Checked`] is the
//! self-test: a lane must give the CPU's bytes before it gets the first picture of a kind.
//!
//! A process that computes on a GPU should have no other work: the effects of a failing GPU on it
//! cannot be undone.

mod cpu;
#[doc(hidden)]
pub mod gpu;
mod gpu_info;
mod lane;
mod order;
mod self_test;

use cpu::CpuEngine;
pub use cpu::CpuLane;
pub use gpu::{list, locate};
pub use gpu_info::{GpuInfo, GpuList};
pub use lane::{
    CodestreamLane, Engine, EngineError, JPEG_BATCH, JpegLane, Lane, LaneError, Recoded, Recoding, StreamLane,
};
pub use order::{Front, Order};
pub use self_test::Checked;

/// The device of a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// The GPU with this index in CUDA's order.
    Gpu(u32),
    /// The CPU; the number distinguishes several such workers.
    Cpu(u32),
}

/// Opens a unit for this process, which should then have no other work.
///
/// The effects of a failing GPU on a process cannot be undone. `lane_memory` is the most bytes of
/// GPU memory that one lane takes for pictures; by default a fair share of the free memory.
///
/// # Errors
/// If there is no such unit, or it cannot be used.
pub fn open(unit: Unit, lane_memory: Option<u64>) -> Result<Box<dyn Engine>, EngineError> {
    match unit {
        Unit::Cpu(_) => Ok(Box::new(CpuEngine)),
        Unit::Gpu(ordinal) => Ok(Box::new(gpu::GpuEngine::open(ordinal, lane_memory)?)),
    }
}
