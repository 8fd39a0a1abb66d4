//! A GPU, and streams that belong to callers.
#![allow(unsafe_code)]

use std::mem::ManuallyDrop;
use std::ops::Deref;
use std::sync::{Mutex, PoisonError};

use cuda::{Address, Context, CudaError, Device, Entered, Event, Pool};

use crate::kernels::Kernels;

/// An error that prevented an operation.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is no driver, or no GPU.
    #[error("{0}")]
    Unavailable(String),
    /// A GPU or driver without memory pools.
    #[error(
        "this GPU's driver cannot allocate memory in the order of a stream; it takes a driver for CUDA 11.4 or newer"
    )]
    NoPools,
    /// An operation on fewer levels than the depth has.
    #[error(
        "pictures with fewer levels than their depth has are not equalized in a GPU's memory; use all levels"
    )]
    FewerLevels,
    /// A driver call failed, now or in an earlier launch.
    #[error(transparent)]
    Cuda(#[from] CudaError),
}

/// A GPU that is open in this process.
pub struct Gpu {
    context: Context,
    pub(crate) pool: Pool,
    pub(crate) kernels: Kernels,
}

impl Gpu {
    /// Returns the GPU with this index in CUDA's order.
    ///
    /// It is opened at the first call and stays open.
    ///
    /// # Errors
    /// If there is no such GPU, or it cannot be used.
    pub fn get(ordinal: u32) -> Result<&'static Self, Error> {
        static OPENED: Mutex<Vec<(u32, &'static Gpu)>> = Mutex::new(Vec::new());
        let mut opened = OPENED.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, gpu)) = opened.iter().find(|(number, _)| *number == ordinal) {
            return Ok(gpu);
        }
        let gpu: &'static Self = Box::leak(Box::new(Self::open(ordinal)?));
        opened.push((ordinal, gpu));
        Ok(gpu)
    }

    fn open(ordinal: u32) -> Result<Self, Error> {
        cuda::load().map_err(Error::Unavailable)?;
        let device = Device::get(ordinal)?;
        if !device.has_pools()? {
            return Err(Error::NoPools);
        }
        let context = Context::retain(device)?;
        let _entered = context.enter()?;
        Ok(Self { pool: Pool::new(device)?, kernels: Kernels::new(device)?, context })
    }

    /// Makes the GPU's primary context current and returns one of its streams.
    ///
    /// The context is current until the stream is dropped. 0 and 1 are the legacy default stream, 2
    /// is that of the thread.
    ///
    /// # Errors
    /// If the driver refuses.
    ///
    /// # Safety
    /// It must be a stream of this GPU's primary context.
    pub unsafe fn stream(&'static self, handle: usize) -> Result<Stream, Error> {
        let entered = self.context.enter()?;
        // SAFETY: guaranteed by the caller.
        Ok(Stream { gpu: self, stream: unsafe { cuda::Stream::borrowed(handle) }, _entered: entered })
    }
}

/// A stream of a [`Gpu`], with the GPU's primary context current.
pub struct Stream {
    pub(crate) gpu: &'static Gpu,
    stream: ManuallyDrop<cuda::Stream>,
    _entered: Entered,
}

impl Deref for Stream {
    type Target = cuda::Stream;

    fn deref(&self) -> &cuda::Stream {
        &self.stream
    }
}

impl Stream {
    /// Allocates memory that work after this call may use.
    ///
    /// It must be freed by [`cuda::Stream::free`].
    ///
    /// # Errors
    /// If there is too little memory, or the driver fails.
    pub fn allocate(&self, bytes: u64) -> Result<Address, Error> {
        Ok(self.gpu.pool.allocate(self, bytes)?)
    }

    /// Makes another stream wait for the work in this one.
    ///
    /// # Errors
    /// If the driver fails.
    ///
    /// # Safety
    /// The other must be a stream of the same context.
    pub unsafe fn then(&self, other: usize) -> Result<(), Error> {
        let event = Event::new()?;
        event.record(self)?;
        // SAFETY: guaranteed by the caller.
        Ok(unsafe { cuda::Stream::borrowed(other) }.wait(&event)?)
    }
}
