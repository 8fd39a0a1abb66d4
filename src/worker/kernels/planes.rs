//! The launches that take a plane out of a picture and put it back.

use super::{File, Kernels, Span, line};
use crate::picture::{Depth, Layout, Pixel};
use crate::worker::cuda::{Address, Result, Stream};

impl Kernels {
    /// Copies luma (`None`) or a channel into a plane of its own.
    ///
    /// # Safety
    /// Only this stream may use span and plane until it is done; the plane must have room for all pixels.
    pub(crate) unsafe fn extract(
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
        // SAFETY: guaranteed by the caller.
        unsafe { self.copy_plane(stream, layout, span, plane, step) }
    }

    /// Writes the new values of a plane from [`Kernels::extract`] back into the picture.
    ///
    /// # Safety
    /// As [`Kernels::extract`].
    pub(crate) unsafe fn insert(
        &self,
        stream: &Stream,
        layout: &Layout,
        span: Span,
        plane: (Address, Option<u32>),
    ) -> Result<()> {
        let step = match layout.depth {
            Depth::Eight => "insert8",
            Depth::Sixteen => "insert16",
        };
        // SAFETY: guaranteed by the caller.
        unsafe { self.copy_plane(stream, layout, span, plane, step) }
    }

    /// # Safety
    /// As [`Kernels::extract`]; `step` must be the first part of the name of such a kernel.
    unsafe fn copy_plane(
        &self,
        stream: &Stream,
        layout: &Layout,
        span: Span,
        (plane, channel): (Address, Option<u32>),
        step: &'static str,
    ) -> Result<()> {
        let pixel = match layout.pixel {
            Pixel::Gray => unreachable!("a gray picture is its own plane"),
            Pixel::GrayAlpha => "_gray_alpha",
            Pixel::Rgb => "_rgb",
            Pixel::Rgba => "_rgba",
        };
        let blocks = span.pixels.div_ceil(4096).min(u64::from(4 * self.limits.multiprocessors));
        let (Span { at, pixels }, channel) = (span, channel.unwrap_or(u32::MAX));
        let arguments = arguments![at, pixels, plane, channel];
        // SAFETY: the arguments match the parameters of extract*_* and insert*_*; the rest is guaranteed by the caller.
        unsafe { self.launch(stream, (File::Planes, (step, pixel)), line(blocks, 512), arguments) }
    }
}
