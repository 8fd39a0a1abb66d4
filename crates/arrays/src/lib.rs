//! Equalization of batches of pictures in a GPU's memory.
//!
//! They are equalized there on the caller's stream, in the device's primary context, without copies
//! and without waiting. The bytes are those of the CPU.
//!
//! A [`Gpu`] is opened once per process. Each call enqueues a few launches for a whole [`Batch`]
//! and returns; other memory comes from a pool of this crate's own and goes back in the order of
//! the stream.
//!
//! This is for processes that use CUDA anyway, such as a Python interpreter with PyTorch. The
//! program never calls CUDA in its main process; its lanes, in the crate `histeqd-lanes`, launch
//! the same [`Kernels`] for batches of one picture, with memory of their own.

mod batch;
mod clahe;
mod colours;
mod depth8;
mod exposure;
mod global;
mod gpu;
mod kernels;
mod luts;
mod planes;
mod rule;
mod tables;
mod tiles;
mod workspace;

pub use batch::{Batch, BatchPlanes, Counts, Luts, Mask, Pictures};
pub use clahe::ClaheTask;
pub use colours::{Colouring, Relight};
pub use cuda::{Address, CudaError};
pub use gpu::{Error, Gpu, Stream};
pub use kernels::Kernels;
pub use rule::Rule;
pub use tables::{PIXELS_A_TABLE, Planes};
pub use tiles::{Route, Tiling};
