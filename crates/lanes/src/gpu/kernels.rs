//! The CUDA kernels: the modules embedded in this program, and a typed launch for each kernel.
//!
//! For the sources see `kernels/`.
#![allow(unsafe_code)]

mod jpeg_codes;
mod jpeg_decode;
mod jpeg_encode;

pub use arrays::{ClaheTask, Colouring, Relight, Route, Tiling};
pub use cuda::arguments;
pub use jpeg_codes::STEPS;
pub use jpeg_decode::{Finding, Interval, Picture, Places};
pub use jpeg_encode::{Coding, Cover, JpegBatch, Recolouring, SampleBytes, Symbols, Transform};

use super::driver::{Address, Device, Launch, LoadedKernels, Result, Stream};
use arrays::{Batch, BatchPlanes, Counts, Luts, PIXELS_A_TABLE, Pictures, Planes, Rule};
use equalize::{ByteOrders, Clahe, Depth, Layout, Method, Operation, Pixel, Strength};
use histeqd_kernels::TRAP;

/// Returns the fewest pixels that go through the same kernels as a picture of this layout.
///
/// It considers only the kernels that depend on the size.
pub const fn min_pixels_for_same_kernels(layout: &Layout) -> u64 {
    match layout.depth {
        Depth::Sixteen if layout.pixels() > PIXELS_A_TABLE => PIXELS_A_TABLE + 1,
        Depth::Eight | Depth::Sixteen => 1,
    }
}

/// The way in which the pixels of a picture are read and its colours follow.
///
/// They are read as one value each, or channel by channel.
#[derive(Clone, Copy, Debug)]
pub struct Kind {
    pub pixel: Pixel,
    pub depth: Depth,
    pub colouring: Colouring,
}

impl Kind {
    /// Returns the kind of pictures for this operation.
    ///
    /// `tables` are the lane's.
    pub fn new(operation: &Operation, layout: &Layout, tables: &Tables) -> Self {
        let colouring = Colouring::new(operation, layout, tables.lab);
        Self { pixel: layout.pixel, depth: layout.depth, colouring }
    }

    /// Returns the kind of pictures without a [`Relight`].
    pub const fn plain(layout: &Layout, per_channel: bool) -> Self {
        let colouring = Colouring { per_channel, relight: None };
        Self { pixel: layout.pixel, depth: layout.depth, colouring }
    }

    fn counted(self) -> Planes {
        Planes::equalized(self.colouring)
    }

    /// Returns the number of equalized planes.
    pub fn planes(self) -> usize {
        self.counted().number(self.pixel)
    }
}

/// A run of pixels in device memory, aligned to 16 bytes.
#[derive(Clone, Copy)]
pub struct Span {
    pub at: Address,
    pub pixels: u64,
    /// The byte orders in which kernels read the pixels, and write them back.
    pub byte_orders: ByteOrders,
}

impl Span {
    /// Returns it as a batch of one picture in one row, changed in place.
    fn of(self, kind: Kind) -> Batch {
        let Kind { pixel, depth, .. } = kind;
        self.batch(Layout { width: self.pixels as u32, height: 1, pixel, depth })
    }

    /// Returns it as a batch of one picture of this layout, changed in place.
    fn batch(self, layout: Layout) -> Batch {
        let from = Pictures { at: self.at, pitch: 0 };
        Batch { byte_orders: self.byte_orders, ..Batch::to_read(layout, 1, from) }
    }
}

/// A lane's counts and LUTs in device memory.
#[derive(Clone, Copy)]
pub struct Tables {
    /// Histograms of this picture and of the next one, three of 256 counts each.
    ///
    /// [`Kernels::apply8`] zeroes those of the next one.
    counts8: [Address; 2],
    /// Histograms that are zeroed before use.
    ///
    /// They are up to three for equalization, and one for each plane for a colour histogram.
    counts: Address,
    /// Three LUTs of either depth.
    pub luts: Address,
    /// The address of [`equalize::lab_tables`], once they are there.
    pub lab: Address,
}

impl Tables {
    const COUNTS8_BYTES: u64 = 3 * 256 * 4;
    const COUNTS_BYTES: u64 = 5 * 65536 * 4;
    const LUTS_BYTES: u64 = 3 * 65536 * 2;

    /// The size of all tables but the last in bytes, a multiple of 16.
    ///
    /// They must be zero in the beginning.
    pub const BYTES: u64 = 2 * Self::COUNTS8_BYTES + Self::COUNTS_BYTES + Self::LUTS_BYTES;

    pub const fn new(at: Address) -> Self {
        let counts8 = [at, at + Self::COUNTS8_BYTES];
        let counts = counts8[1] + Self::COUNTS8_BYTES;
        Self { counts8, counts, luts: counts + Self::COUNTS_BYTES, lab: at + Self::BYTES }
    }

    /// Returns the tables for the next picture, after [`Kernels::apply8`] to this one.
    pub const fn next(self) -> Self {
        Self { counts8: [self.counts8[1], self.counts8[0]], ..self }
    }

    /// Returns the address of the counts for [`Kernels::apply8`].
    pub const fn counts8(&self) -> Address {
        self.counts8[0]
    }

    /// Returns the address of a plane's counts in a colour histogram, 32 bits each.
    pub const fn counts(&self, plane: usize, depth: Depth) -> Address {
        self.counts + (plane * depth.levels() * 4) as u64
    }
}

const ONE_THREAD: Launch = Launch { grid: (1, 1, 1), block: (1, 1, 1), shared: 0 };

/// The kernels of one GPU.
pub struct Kernels(arrays::Kernels);

impl Kernels {
    pub fn new(device: Device) -> Result<Self> {
        Ok(Self(arrays::Kernels::new(device)?))
    }

    fn loaded(&self) -> &LoadedKernels {
        self.0.loaded()
    }

    /// Returns the launches and the memory for CLAHE of such pictures.
    pub fn clahe_task(
        &self,
        layout: &Layout,
        clahe: &Clahe,
        operation: &Operation,
        relight: Option<Relight>,
    ) -> ClaheTask {
        ClaheTask::new(&self.0, layout, clahe, operation, relight)
    }

    /// Returns the bytes of memory that CLAHE of a picture needs.
    pub fn clahe_bytes(&self, task: &ClaheTask) -> u64 {
        task.bytes(&self.0, 1)
    }

    /// Applies CLAHE to a picture, in place, with memory at `memory`.
    ///
    /// # Safety
    /// Only this stream may use span and memory until it is done; the span must be readable in
    /// whole 16-byte words.
    pub unsafe fn clahe(
        &self,
        stream: &Stream,
        layout: &Layout,
        span: Span,
        task: &ClaheTask,
        memory: Address,
    ) -> Result<()> {
        // SAFETY: guaranteed by the caller.
        unsafe { self.0.clahe(stream, &span.batch(*layout), task, memory) }
    }

    /// Copies a channel of a span into a plane of its own, in the GPU's byte order.
    ///
    /// # Safety
    /// Only this stream may use span and plane until it is done; the plane must have room for all
    /// pixels.
    pub unsafe fn extract(
        &self,
        stream: &Stream,
        layout: &Layout,
        span: Span,
        plane: Address,
        channel: u32,
    ) -> Result<()> {
        let row = Layout { width: span.pixels as u32, height: 1, ..*layout };
        let plane = Pictures { at: plane, pitch: 0 };
        // SAFETY: guaranteed by the caller.
        unsafe { self.0.extract(stream, &span.batch(row), plane, Some(channel)) }
    }

    /// Sends an 8-bit span through the LUTs that follow from [`Tables::counts8`].
    ///
    /// They are those of global equalization.
    ///
    /// # Safety
    /// Only this stream may use span and tables until it is done.
    pub unsafe fn apply8(
        &self,
        stream: &Stream,
        kind: Kind,
        span: Span,
        tables: &Tables,
        strength: Strength,
    ) -> Result<()> {
        let rule = Rule::new(Method::Global, strength, 0);
        // SAFETY: guaranteed by the caller; the tables have room for three planes.
        unsafe { self.0.apply8(stream, &span.of(kind), kind.colouring.per_channel, rule, tables.counts8) }
    }

    /// Counts a span, adding to the counts of earlier spans.
    ///
    /// There is one histogram for each plane of the kind.
    ///
    /// # Safety
    /// Only this stream may use span and counts until it is done.
    pub unsafe fn count(&self, stream: &Stream, kind: Kind, span: Span, counts: Address) -> Result<()> {
        // SAFETY: guaranteed by the caller.
        unsafe { self.0.count(stream, &span.of(kind), kind.counted(), None, counts) }
    }

    /// Makes the LUTs at [`Tables::luts`] from the counts, by global equalization.
    ///
    /// There is one for each plane of the kind.
    ///
    /// # Safety
    /// Only this stream may use the tables until it is done.
    pub unsafe fn make_luts(
        &self,
        stream: &Stream,
        kind: Kind,
        tables: &Tables,
        strength: Strength,
    ) -> Result<()> {
        let counts = Counts { at: tables.counts, are_wide: false };
        let planes = BatchPlanes { number: kind.planes(), of_picture: kind.planes(), depth: kind.depth };
        let rule = Rule::new(Method::Global, strength, 0);
        // SAFETY: guaranteed by the caller.
        unsafe { self.0.make_luts(stream, counts, planes, rule, tables.luts) }
    }

    /// Sends a span through the LUTs at [`Tables::luts`], one for each plane of the kind.
    ///
    /// The LUTs include the strength.
    ///
    /// # Safety
    /// Only this stream may use span and tables until it is done.
    pub unsafe fn map(&self, stream: &Stream, kind: Kind, span: Span, tables: &Tables) -> Result<()> {
        let luts = Luts { at: tables.luts, stride: 0 };
        // SAFETY: guaranteed by the caller.
        unsafe { self.0.map(stream, &span.of(kind), kind.colouring, luts) }
    }

    /// Uploads LUTs to [`Tables::luts`]: one for each plane of the kind, or one for all of them.
    ///
    /// # Safety
    /// Only this stream may use LUTs and tables until it is done.
    pub unsafe fn upload_luts(
        &self,
        stream: &Stream,
        kind: Kind,
        luts: &[u8],
        tables: &Tables,
    ) -> Result<()> {
        let all = (kind.planes() * kind.depth.levels() * kind.depth.bytes()) as u64;
        for at in (0..all).step_by(luts.len()) {
            // SAFETY: there is room for three LUTs; the rest is guaranteed by the caller.
            unsafe { stream.upload(luts, tables.luts + at)? };
        }
        Ok(())
    }

    /// Zeroes the first `planes` histograms of [`Tables::counts`].
    ///
    /// # Safety
    /// Only this stream may use the tables until it is done.
    pub unsafe fn clear(&self, stream: &Stream, planes: usize, depth: Depth, tables: &Tables) -> Result<()> {
        // SAFETY: there are five histograms; the rest is guaranteed by the caller.
        unsafe { stream.zero(tables.counts, (planes * depth.levels() * 4) as u64) }
    }

    /// Makes a kernel fail, and the whole context with it.
    pub fn trap(&self, stream: &Stream) -> Result<()> {
        // SAFETY: the kernel has no parameters.
        unsafe { self.loaded().launch(stream, &TRAP, ("trap", ""), ONE_THREAD, &mut []) }
    }
}

#[cfg(test)]
mod tests {
    use super::super::GpuEngine;
    use super::super::driver::Module;
    use histeqd_kernels::{
        CLAHE8, CLAHE16, COLOURS, GLOBAL8, GLOBAL16, JPEG_DECODE, JPEG_ENCODE, JPEG_TRANSFORM, PLANES,
    };

    #[test]
    fn the_driver_takes_what_is_compiled_for_its_gpu() {
        let Some(engine) = GpuEngine::open_or_skip() else { return };
        let capability = engine.kernels.loaded().capability();
        let refused = std::env::var_os("CUDA_FORCE_PTX_JIT").is_some_and(|value| value == "1");
        for module in
            [GLOBAL8, GLOBAL16, PLANES, COLOURS, CLAHE8, CLAHE16, JPEG_DECODE, JPEG_TRANSFORM, JPEG_ENCODE]
        {
            let Some(cubin) = module.cubin(capability) else { continue };
            assert_eq!(Module::from_cubin(&cubin).is_err(), refused);
            Module::load(&module, capability).unwrap();
        }
    }
}
