//! A GPU: the driver's calls, the kernels, and the lanes that run them.
#![allow(unsafe_code)]

mod codestream_lane;
mod engine;
mod equalizer;
mod facts;
mod jpeg;
pub mod kernels;
mod library;
mod nvcomp;
mod nvjpeg2000;
mod pixel_lane;
mod stream_lane;

use codestream_lane::GpuCodestreamLane;
pub use cuda as driver;
pub(crate) use engine::GpuEngine;
pub use facts::{list, locate};
use jpeg::CoderLane;
use pixel_lane::GpuLane;
use stream_lane::GpuStreamLane;

use crate::gpu_info::GpuInfo;
use crate::lane::{CodestreamLane, Engine, EngineError, JpegLane, Lane, LaneError, StreamLane};
use cuda::CudaError;

impl From<CudaError> for EngineError {
    fn from(error: CudaError) -> Self {
        Self(error.to_string())
    }
}

impl From<CudaError> for LaneError {
    fn from(error: CudaError) -> Self {
        Self::Device(error.into())
    }
}

impl Engine for GpuEngine {
    fn info(&self) -> Option<GpuInfo> {
        Some(self.info.clone())
    }

    fn pin(&self, memory: &mut [u8]) -> Result<(), EngineError> {
        self.context.bind()?;
        // SAFETY: the worker unpins memory before it unmaps it.
        unsafe { driver::pin(memory)? };
        Ok(())
    }

    fn unpin(&self, memory: &mut [u8]) {
        if self.context.bind().is_ok() {
            driver::unpin(memory);
        }
    }

    fn lane(&self) -> Result<Box<dyn Lane + '_>, EngineError> {
        Ok(Box::new(GpuLane::new(self)?))
    }

    fn jpeg_lane(&self) -> Result<Box<dyn JpegLane + '_>, EngineError> {
        Ok(Box::new(CoderLane::new(self)?))
    }

    fn codestream_lane(&self) -> Result<Box<dyn CodestreamLane + '_>, EngineError> {
        self.context.bind()?;
        let jpeg = self.nvjpeg2000().map_err(EngineError)?;
        Ok(Box::new(GpuCodestreamLane::new(self, jpeg)?))
    }

    fn stream_lane(&self) -> Result<Box<dyn StreamLane + '_>, EngineError> {
        self.context.bind()?;
        Ok(Box::new(GpuStreamLane::new(self, self.nvcomp().map_err(EngineError)?)?))
    }
}
