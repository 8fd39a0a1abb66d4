//! The launches that take a plane out of a picture and put it back.

use std::ffi::c_void;

use super::{Kernels, Selectors, Span, arguments, line};
use crate::gpu::driver::{Address, Result, Stream};
use equalize::{Depth, Layout, Pixel, Strength};
use histeqd_kernels::PLANES;

/// The number of luma among the channels. `LUMA` in the kernels.
const LUMA: u32 = u32::MAX;

impl Kernels {
    /// Copies luma (`None`) or a channel into a plane of its own, which gets the machine's byte order. Gray may be copied onto itself.
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
        let (Span { at, pixels, byte_orders }, (plane, channel)) = (span, plane);
        let (orders, channel) = (Selectors::new(byte_orders), channel.unwrap_or(LUMA));
        let arguments = arguments![at, pixels, orders, plane, channel];
        // SAFETY: the arguments match the parameters of extract*_*; the rest is guaranteed by the caller.
        unsafe { self.copy_plane(stream, layout, pixels, step, arguments) }
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
        let (Span { at, pixels, byte_orders }, (plane, channel)) = (span, plane);
        let (orders, channel) = (Selectors::new(byte_orders), channel.unwrap_or(LUMA));
        let strength = strength.in_thousandths();
        let arguments = arguments![at, pixels, orders, plane, channel, strength];
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
        unsafe { self.loaded.launch(stream, (&PLANES, (step, pixel)), line(blocks, 512), arguments) }
    }
}
