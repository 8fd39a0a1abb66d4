//! The launches that take a plane out of a picture and put it back.

use std::ffi::c_void;

use super::{File, Kernels, Span, arguments, line};
use crate::gpu::driver::{Address, Result, Stream};
use equalize::{Depth, Layout, Pixel, Strength};

impl Kernels {
    /// Copies luma (`None`) or a channel into a plane of its own.
    ///
    /// # Safety
    /// Only this stream may use span and plane until it is done; the plane must have room for all pixels.
    pub unsafe fn extract(
        &self,
        stream: &Stream,
        layout: &Layout,
        span: Span,
        plane: (Address, Option<u32>),
    ) -> Result<()> {
        let step = match layout.depth {
            Depth::Eight => "extract8",
            Depth::Sixteen => "extract16",
        };
        let (at, pixels, plane, channel) = places(span, plane);
        // SAFETY: the arguments match the parameters of extract*_*; the rest is guaranteed by the caller.
        unsafe { self.copy_plane(stream, layout, pixels, step, arguments![at, pixels, plane, channel]) }
    }

    /// Writes the new values of a plane from [`Kernels::extract`] back into the picture, at this strength.
    ///
    /// # Safety
    /// As [`Kernels::extract`].
    pub unsafe fn insert(
        &self,
        stream: &Stream,
        layout: &Layout,
        span: Span,
        plane: (Address, Option<u32>),
        strength: Strength,
    ) -> Result<()> {
        let step = match layout.depth {
            Depth::Eight => "insert8",
            Depth::Sixteen => "insert16",
        };
        let ((at, pixels, plane, channel), strength) = (places(span, plane), strength.in_thousandths());
        let arguments = arguments![at, pixels, plane, channel, strength];
        // SAFETY: the arguments match the parameters of insert*_*; the rest is guaranteed by the caller.
        unsafe { self.copy_plane(stream, layout, pixels, step, arguments) }
    }

    /// # Safety
    /// As [`Kernels::extract`]; `step` must be the first part of the name of a kernel with these arguments.
    unsafe fn copy_plane(
        &self,
        stream: &Stream,
        layout: &Layout,
        pixels: u64,
        step: &'static str,
        arguments: &mut [*mut c_void],
    ) -> Result<()> {
        let pixel = match layout.pixel {
            Pixel::Gray => "_gray",
            Pixel::GrayAlpha => "_gray_alpha",
            Pixel::Rgb => "_rgb",
            Pixel::Rgba => "_rgba",
        };
        let blocks = pixels.div_ceil(4096).min(u64::from(4 * self.limits.multiprocessors));
        // SAFETY: guaranteed by the caller.
        unsafe { self.launch(stream, (File::Planes, (step, pixel)), line(blocks, 512), arguments) }
    }
}

/// Returns the first four arguments of the kernels here.
fn places(span: Span, (plane, channel): (Address, Option<u32>)) -> (Address, u64, Address, u32) {
    (span.at, span.pixels, plane, channel.unwrap_or(u32::MAX))
}
