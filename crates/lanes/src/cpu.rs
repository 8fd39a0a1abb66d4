//! The CPU as a worker's backend, and as the lanes of the main process itself.

use crate::gpu_info::GpuInfo;
use crate::lane::{
    CodestreamLane, Engine, EngineError, JpegLane, Lane, LaneError, Recoded, Recoding, StreamLane,
};
use codec::coders::{Codestream, Streams, code_streams, decode_codestream};
use equalize::count::count_on;
use equalize::{
    ByteOrder, ByteOrders, Executor, Layout, Operation, Scratch, Sequential, apply_on, equalize_on,
    swap_bytes,
};

/// The CPU as a worker's backend.
pub(crate) struct CpuEngine;

impl Engine for CpuEngine {
    fn info(&self) -> Option<GpuInfo> {
        None
    }

    fn pin(&self, _memory: &mut [u8]) -> Result<(), EngineError> {
        Ok(())
    }

    fn unpin(&self, _memory: &mut [u8]) {}

    fn lane(&self) -> Result<Box<dyn Lane + '_>, EngineError> {
        Ok(Box::new(CpuLane::default()))
    }

    fn jpeg_lane(&self) -> Result<Box<dyn JpegLane + '_>, EngineError> {
        Ok(Box::new(DecliningLane))
    }

    fn codestream_lane(&self) -> Result<Box<dyn CodestreamLane + '_>, EngineError> {
        Ok(Box::new(CpuCodestreamLane))
    }

    fn stream_lane(&self) -> Result<Box<dyn StreamLane + '_>, EngineError> {
        Ok(Box::new(CpuStreamLane))
    }
}

/// Inflates and deflates as the main process does.
struct CpuStreamLane;

impl StreamLane for CpuStreamLane {
    fn code(&mut self, slot: &mut [u8], streams: &Streams) -> Result<(), LaneError> {
        code_streams(streams, slot);
        Ok(())
    }
}

/// Decodes codestreams as the main process does.
struct CpuCodestreamLane;

impl CodestreamLane for CpuCodestreamLane {
    fn decode(&mut self, slot: &mut [u8], codestream: &Codestream) -> Result<(), LaneError> {
        let bytes = slot[..codestream.bytes as usize].to_vec();
        let samples = &mut slot[..codestream.decoded_bytes() as usize];
        decode_codestream(codestream, &bytes, samples).map_err(|error| LaneError::Decline(error.to_string()))
    }
}

/// A JPEG lane on the CPU, which has no decoder: it declines every picture.
struct DecliningLane;

impl JpegLane for DecliningLane {
    fn recode(&mut self, batch: &mut [Recoding<'_>]) -> Result<(), EngineError> {
        let reason = || Recoded::Declined("this worker has no decoder".to_owned());
        batch.iter_mut().for_each(|picture| picture.answer = reason());
        Ok(())
    }
}

/// A lane on the CPU, which an executor may help with large pictures.
///
/// It never fails or declines. Conversion of byte orders by the lane saves no time.
pub struct CpuLane<E = Sequential> {
    executor: E,
    scratch: Scratch,
}

impl Default for CpuLane {
    fn default() -> Self {
        Self::new(Sequential)
    }
}

impl<E> CpuLane<E> {
    /// Creates a lane that shares its pictures among this executor's threads.
    pub fn new(executor: E) -> Self {
        Self { executor, scratch: Scratch::default() }
    }
}

impl<E: Executor> Lane for CpuLane<E> {
    fn equalize(
        &mut self,
        pixels: &mut [u8],
        layout: &Layout,
        byte_orders: ByteOrders,
        operation: &Operation,
        reference: &[u64],
    ) -> Result<(), LaneError> {
        byte_orders.from.convert(pixels);
        equalize_on(&self.executor, None, pixels, layout, operation, reference, &mut self.scratch);
        byte_orders.to.convert(pixels);
        Ok(())
    }

    fn apply(
        &mut self,
        pixels: &mut [u8],
        layout: &Layout,
        byte_orders: ByteOrders,
        operation: &Operation,
        luts: &[u8],
    ) -> Result<(), LaneError> {
        byte_orders.from.convert(pixels);
        apply_on(&self.executor, pixels, layout, operation, luts);
        byte_orders.to.convert(pixels);
        Ok(())
    }

    fn count(
        &mut self,
        pixels: &[u8],
        layout: &Layout,
        byte_order: ByteOrder,
        counts: &mut [u64],
    ) -> Result<(), LaneError> {
        let mut converted = Vec::new();
        let pixels = match byte_order {
            ByteOrder::Native => pixels,
            ByteOrder::Swapped => {
                converted.extend_from_slice(pixels);
                swap_bytes(&mut converted);
                &converted
            }
        };
        count_on(&self.executor, pixels, layout, counts, &mut self.scratch);
        Ok(())
    }
}
