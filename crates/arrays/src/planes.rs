//! One plane of interleaved pixels, luma or a channel, extracted and inserted.
#![allow(unsafe_code)]

use cuda::{Launch, Result, Stream, arguments};
use equalize::{Depth, Pixel};
use histeqd_kernels::PLANES;

use crate::batch::{Batch, Pictures};
use crate::kernels::Kernels;

/// The number of luma among the channels: `LUMA` in the kernels.
const LUMA: u32 = u32::MAX;

impl Kernels {
    /// Copies luma (`None`) or a channel into planes of the GPU's byte order.
    ///
    /// # Safety
    /// The memory must be as described, and for this stream alone until it is done; the planes must
    /// have room.
    pub unsafe fn extract(
        &self,
        stream: &Stream,
        batch: &Batch,
        planes: Pictures,
        channel: Option<u32>,
    ) -> Result<()> {
        // SAFETY: guaranteed by the caller.
        unsafe { self.exchange(stream, batch, planes, channel, false) }
    }

    /// Writes pictures with the new values of planes from [`Kernels::extract`].
    ///
    /// # Safety
    /// As [`Kernels::extract`].
    pub(crate) unsafe fn insert(
        &self,
        stream: &Stream,
        batch: &Batch,
        planes: Pictures,
        channel: Option<u32>,
    ) -> Result<()> {
        // SAFETY: guaranteed by the caller.
        unsafe { self.exchange(stream, batch, planes, channel, true) }
    }

    /// Returns the launch of kernels that copy to or from planes.
    pub(crate) fn exchanging(&self, batch: &Batch) -> Launch {
        let grid = self.spread(batch.layout.pixels(), batch.number, 1 << 13, 4);
        Launch { grid, block: (512, 1, 1), shared: 0 }
    }

    /// # Safety
    /// As [`Kernels::extract`].
    unsafe fn exchange(
        &self,
        stream: &Stream,
        batch: &Batch,
        planes: Pictures,
        channel: Option<u32>,
        inserts: bool,
    ) -> Result<()> {
        let step = match (inserts, batch.layout.depth) {
            (false, Depth::Eight) => "extract8",
            (false, Depth::Sixteen) => "extract16",
            (true, Depth::Eight) => "insert8",
            (true, Depth::Sixteen) => "insert16",
        };
        let pixel = match batch.layout.pixel {
            Pixel::Gray | Pixel::GrayAlpha => "_gray_alpha",
            Pixel::Rgb => "_rgb",
            Pixel::Rgba => "_rgba",
        };
        let (launch, pictures, at) = (self.exchanging(batch), batch.argument(), planes.at);
        let pitch = planes.pitch / batch.layout.depth.bytes() as u64;
        let channel = channel.unwrap_or(LUMA);
        let arguments = arguments![pictures, at, pitch, channel];
        // SAFETY: the arguments match the parameters of these kernels; the rest is guaranteed by
        // the caller.
        unsafe { self.loaded.launch(stream, &PLANES, (step, pixel), launch, arguments) }
    }
}
