//! The CUDA kernels: the modules embedded in this program, and a typed launch for each kernel. For the sources see `kernels/`.
#![allow(unsafe_code)]

mod jpeg_scan;

pub use arrays::{ClaheTask, Relight, Route, Tiling};
pub use cuda::arguments;
pub use jpeg_scan::{Scan, ScanMemory, Verdict};

use super::driver::{Address, Device, Launch, LoadedKernels, Result, Stream};
use arrays::{Batch, PIXELS_A_TABLE, Pictures, Planes, Rule};
use equalize::{ByteOrders, Clahe, Depth, Layout, Method, Operation, Pixel, Strength};
use histeqd_kernels::{GLOBAL8, TRAP};

/// The fewest pixels of a large gray plane: its tiles, handed out one by one, are then enough to keep the GPU busy to the end.
const LARGE_PLANE: u64 = 24_000_000;

/// Returns the fewest pixels that go through the same kernels as a picture of this layout, as far as its size decides.
pub const fn min_pixels_for_same_kernels(layout: &Layout) -> u64 {
    match layout.depth {
        Depth::Eight if matches!(layout.pixel, Pixel::Gray) && layout.pixels() >= LARGE_PLANE => LARGE_PLANE,
        Depth::Sixteen if layout.pixels() > PIXELS_A_TABLE => PIXELS_A_TABLE + 1,
        _ => 1,
    }
}

/// How the pixels of a picture are read: as one value each, or as three planes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Gray,
    GrayAlpha,
    RgbLuma,
    RgbChannels,
    RgbaLuma,
    RgbaChannels,
}

impl Kind {
    pub const fn new(pixel: Pixel, per_channel: bool) -> Self {
        match (pixel, per_channel) {
            (Pixel::Gray, _) => Self::Gray,
            (Pixel::GrayAlpha, _) => Self::GrayAlpha,
            (Pixel::Rgb, false) => Self::RgbLuma,
            (Pixel::Rgb, true) => Self::RgbChannels,
            (Pixel::Rgba, false) => Self::RgbaLuma,
            (Pixel::Rgba, true) => Self::RgbaChannels,
        }
    }

    const fn pixel(self) -> Pixel {
        match self {
            Self::Gray => Pixel::Gray,
            Self::GrayAlpha => Pixel::GrayAlpha,
            Self::RgbLuma | Self::RgbChannels => Pixel::Rgb,
            Self::RgbaLuma | Self::RgbaChannels => Pixel::Rgba,
        }
    }

    const fn channels(self) -> u64 {
        match self {
            Self::Gray => 1,
            Self::GrayAlpha => 2,
            Self::RgbLuma | Self::RgbChannels => 3,
            Self::RgbaLuma | Self::RgbaChannels => 4,
        }
    }

    pub const fn planes(self) -> u32 {
        match self {
            Self::RgbChannels | Self::RgbaChannels => 3,
            _ => 1,
        }
    }

    const fn suffix(self) -> &'static str {
        match self {
            Self::Gray => "_gray",
            Self::GrayAlpha => "_gray_alpha",
            Self::RgbLuma => "_rgb_luma",
            Self::RgbChannels => "_rgb_channels",
            Self::RgbaLuma => "_rgba_luma",
            Self::RgbaChannels => "_rgba_channels",
        }
    }

    /// Returns the most threads of a block that works on packs.
    const fn threads(self) -> u32 {
        if self.channels() == 3 { 512 } else { 1024 }
    }
}

/// A run of pixels in device memory, aligned to 16 bytes.
#[derive(Clone, Copy)]
pub struct Span {
    pub at: Address,
    pub pixels: u64,
    /// Those in which kernels read the pixels, and write them back.
    pub byte_orders: ByteOrders,
}

impl Span {
    /// Returns it as a batch of one picture in one row, changed in place.
    fn of(self, kind: Kind, depth: Depth) -> Batch {
        self.batch(Layout { width: self.pixels as u32, height: 1, pixel: kind.pixel(), depth })
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
    /// Three histograms of 256 counts each for this picture, and three that its last count zeroes for the next picture.
    counts8: [Address; 2],
    /// Histograms that are zeroed before use: for equalization at depth 16 up to three, for a colour histogram one for each plane.
    counts: Address,
    /// Three LUTs: of depth 16, or given ones of either depth.
    pub luts: Address,
    /// The number of tiles of a large plane that have been handed out; 0 between kernels.
    handed_out: Address,
    /// [`equalize::lab_tables`], once they are there.
    pub lab: Address,
}

impl Tables {
    const COUNTS8_BYTES: u64 = 3 * 256 * 4;
    const COUNTS_BYTES: u64 = 5 * 65536 * 4;
    const LUTS_BYTES: u64 = 3 * 65536 * 2;
    /// With what the alignment of the next takes.
    const HANDED_OUT_BYTES: u64 = 16;

    /// The size of all tables but the last in bytes; they must begin zeroed.
    pub const BYTES: u64 =
        2 * Self::COUNTS8_BYTES + Self::COUNTS_BYTES + Self::LUTS_BYTES + Self::HANDED_OUT_BYTES;

    pub const fn new(at: Address) -> Self {
        let counts8 = [at, at + Self::COUNTS8_BYTES];
        let counts = counts8[1] + Self::COUNTS8_BYTES;
        let luts = counts + Self::COUNTS_BYTES;
        Self { counts8, counts, luts, handed_out: luts + Self::LUTS_BYTES, lab: at + Self::BYTES }
    }

    /// Returns the tables for the next picture, once this one's last pixels have been counted for equalization at depth 8.
    pub const fn next(self) -> Self {
        Self { counts8: [self.counts8[1], self.counts8[0]], ..self }
    }

    /// Returns the address of a plane's counts in a colour histogram, 32 bits each.
    pub const fn counts(&self, plane: usize, depth: Depth) -> Address {
        self.counts + (plane * depth.levels() * 4) as u64
    }
}

/// The kernels of one GPU.
pub struct Kernels(arrays::Kernels);

impl Kernels {
    pub fn new(device: Device) -> Result<Self> {
        Ok(Self(arrays::Kernels::new(device)?))
    }

    fn loaded(&self) -> &LoadedKernels {
        self.0.loaded()
    }

    /// Returns how CLAHE of such pictures goes through the kernels.
    pub fn clahe_task(
        &self,
        layout: &Layout,
        clahe: &Clahe,
        how: (&Operation, Option<Relight>),
    ) -> ClaheTask {
        ClaheTask::new(&self.0, layout, clahe, how)
    }

    /// Returns the bytes of memory that CLAHE of a picture needs.
    pub fn clahe_bytes(&self, task: &ClaheTask) -> u64 {
        task.bytes(&self.0, 1)
    }

    /// Applies CLAHE to a picture, in place, with memory at `memory`.
    ///
    /// # Safety
    /// Only this stream may use span and memory until it is done; the span must be readable in whole 16-byte words.
    pub unsafe fn clahe(
        &self,
        stream: &Stream,
        layout: &Layout,
        span: Span,
        (task, memory): (&ClaheTask, Address),
    ) -> Result<()> {
        // SAFETY: guaranteed by the caller.
        unsafe { self.0.clahe(stream, &span.batch(*layout), task, memory) }
    }

    /// Copies a channel of a span into a plane of its own, which gets the GPU's byte order.
    ///
    /// # Safety
    /// Only this stream may use span and plane until it is done; the plane must have room for all pixels.
    pub unsafe fn extract(
        &self,
        stream: &Stream,
        layout: &Layout,
        span: Span,
        (plane, channel): (Address, u32),
    ) -> Result<()> {
        let row = Layout { width: span.pixels as u32, height: 1, ..*layout };
        let plane = Pictures { at: plane, pitch: 0 };
        // SAFETY: guaranteed by the caller.
        unsafe { self.0.extract(stream, &span.batch(row), plane, Some(channel)) }
    }

    /// Returns a launch of blocks of `threads` threads that take pack after pack of a span, at most `blocks` blocks per multiprocessor.
    fn spread(&self, kind: Kind, depth: Depth, span: Span, (threads, blocks): (u32, u32)) -> Launch {
        let bytes = span.pixels * kind.channels() * depth.bytes() as u64;
        let pack = if kind.channels() == 3 { 48 } else { 16 };
        let most = u64::from(blocks * self.0.multiprocessors());
        line(bytes.div_ceil(pack * u64::from(threads)).min(most), threads)
    }

    /// Counts a span for equalization, adding to the counts of earlier spans. After the picture's `last` span, its pixels can go through
    /// [`Kernels::apply`] of the same strength.
    ///
    /// # Safety
    /// Only this stream may use span and tables until it is done.
    pub unsafe fn count_for_luts(
        &self,
        stream: &Stream,
        (kind, depth): (Kind, Depth),
        span: Span,
        tables: &Tables,
        last: bool,
        strength: Strength,
    ) -> Result<()> {
        let [counts8, next] = tables.counts8;
        // SAFETY: guaranteed by the caller.
        unsafe {
            match depth {
                Depth::Eight => {
                    let next = if last { next } else { 0 };
                    if is_large(kind, span) {
                        self.histogram8_large(stream, span, (counts8, next), tables.handed_out)
                    } else {
                        self.histogram8(stream, kind, span, (counts8, next))
                    }
                }
                Depth::Sixteen => {
                    self.count(stream, (kind, depth), span, tables.counts)?;
                    if last { self.make_luts(stream, (kind, depth), tables, strength) } else { Ok(()) }
                }
            }
        }
    }

    /// Counts a span, adding to the counts of earlier spans, into one histogram for each plane of the kind.
    ///
    /// # Safety
    /// Only this stream may use span and counts until it is done.
    pub unsafe fn count(
        &self,
        stream: &Stream,
        (kind, depth): (Kind, Depth),
        span: Span,
        counts: Address,
    ) -> Result<()> {
        let planes = Planes::Equalized { per_channel: kind.planes() > 1 };
        // SAFETY: guaranteed by the caller.
        unsafe { self.0.count(stream, &span.of(kind, depth), planes, None, counts) }
    }

    /// Counts what has to be known of a span whose colours follow so, as [`Kernels::count`] does.
    ///
    /// # Safety
    /// As [`Kernels::count`].
    pub unsafe fn count_for_colours(
        &self,
        stream: &Stream,
        (kind, depth): (Kind, Depth),
        relight: Relight,
        span: Span,
        counts: Address,
    ) -> Result<()> {
        let planes = Planes::equalized((false, Some(relight)));
        // SAFETY: guaranteed by the caller.
        unsafe { self.0.count(stream, &span.of(kind, depth), planes, None, counts) }
    }

    /// `next`: the address of counts to zero, or 0 for none.
    ///
    /// # Safety
    /// As [`Kernels::count`].
    unsafe fn histogram8(
        &self,
        stream: &Stream,
        kind: Kind,
        span: Span,
        (counts, next): (Address, Address),
    ) -> Result<()> {
        // Half of what a multiprocessor can hold, so that other lanes' kernels can run beside it.
        let blocks = 1024 / kind.threads();
        let launch = self.spread(kind, Depth::Eight, span, (kind.threads(), blocks));
        let (Span { at, pixels, .. }, name) = (span, ("histogram8", kind.suffix()));
        // SAFETY: the arguments match the parameters of histogram8_*; the rest is guaranteed by the caller.
        unsafe {
            self.loaded().launch(stream, (&GLOBAL8, name), launch, arguments![at, pixels, counts, next])
        }
    }

    /// # Safety
    /// As [`Kernels::histogram8`]; `handed_out` must be this stream's alone, and 0.
    unsafe fn histogram8_large(
        &self,
        stream: &Stream,
        span: Span,
        (counts, next): (Address, Address),
        handed_out: Address,
    ) -> Result<()> {
        let launch = self.spread(Kind::Gray, Depth::Eight, span, (1024, 2));
        let (Span { at, pixels, .. }, name) = (span, ("histogram8", "_large"));
        // SAFETY: the arguments match the parameters of histogram8_large; the rest is guaranteed by the caller.
        unsafe {
            self.loaded().launch(
                stream,
                (&GLOBAL8, name),
                launch,
                arguments![at, pixels, counts, next, handed_out],
            )
        }
    }

    /// Sends a span through the LUTs that follow from the counts.
    ///
    /// # Safety
    /// Only this stream may use span and tables until it is done.
    pub unsafe fn apply(
        &self,
        stream: &Stream,
        (kind, depth): (Kind, Depth),
        span: Span,
        tables: &Tables,
        strength: Strength,
    ) -> Result<()> {
        // SAFETY: guaranteed by the caller.
        unsafe {
            match depth {
                Depth::Eight => self.apply8(stream, kind, span, tables, strength),
                Depth::Sixteen => self.map(stream, (kind, depth), None, span, tables),
            }
        }
    }

    /// # Safety
    /// As [`Kernels::apply`].
    unsafe fn apply8(
        &self,
        stream: &Stream,
        kind: Kind,
        span: Span,
        tables: &Tables,
        strength: Strength,
    ) -> Result<()> {
        // At least 256 threads per block: each computes one level of the LUT.
        let spread = if kind.channels() == 3 { (512, 2) } else { (256, 4) };
        let launch = self.spread(kind, Depth::Eight, span, spread);
        let (Span { at, pixels, .. }, [counts, _], handed_out) = (span, tables.counts8, tables.handed_out);
        let strength = strength.in_thousandths();
        if is_large(kind, span) {
            let name = ("apply8", "_large");
            // SAFETY: the arguments match the parameters of apply8_large; the rest is guaranteed by the caller.
            return unsafe {
                self.loaded().launch(
                    stream,
                    (&GLOBAL8, name),
                    launch,
                    arguments![at, pixels, counts, strength, handed_out],
                )
            };
        }
        let name = ("apply8", kind.suffix());
        // SAFETY: the arguments match the parameters of apply8_*; the rest is guaranteed by the caller.
        unsafe {
            self.loaded().launch(stream, (&GLOBAL8, name), launch, arguments![at, pixels, counts, strength])
        }
    }

    /// Sends a span through the LUTs at [`Tables::luts`], one for each plane of the kind, which have the strength in them. `relight`: how colours
    /// follow, if not as the kind says.
    ///
    /// # Safety
    /// As [`Kernels::apply`].
    pub unsafe fn map(
        &self,
        stream: &Stream,
        (kind, depth): (Kind, Depth),
        relight: Option<Relight>,
        span: Span,
        tables: &Tables,
    ) -> Result<()> {
        let how = (kind.planes() > 1, relight);
        // SAFETY: guaranteed by the caller.
        unsafe { self.0.map(stream, &span.of(kind, depth), how, tables.luts, 0) }
    }

    /// Zeroes the first `planes` histograms of [`Tables::counts`].
    ///
    /// # Safety
    /// Only this stream may use the tables until it is done.
    pub unsafe fn clear(&self, stream: &Stream, planes: usize, depth: Depth, tables: &Tables) -> Result<()> {
        // SAFETY: there are five histograms; the rest is guaranteed by the caller.
        unsafe { stream.zero(tables.counts, (planes * depth.levels() * 4) as u64) }
    }

    /// Makes the LUTs at [`Tables::luts`] of the counts of all planes of the kind.
    ///
    /// # Safety
    /// Only this stream may use the tables until it is done.
    pub unsafe fn make_luts(
        &self,
        stream: &Stream,
        (kind, depth): (Kind, Depth),
        tables: &Tables,
        strength: Strength,
    ) -> Result<()> {
        let (&Tables { counts, luts, .. }, planes) = (tables, kind.planes() as usize);
        let rule = Rule::new(Method::Global, strength, 0);
        // SAFETY: guaranteed by the caller.
        unsafe { self.0.make_luts(stream, (counts, false), (planes, planes), depth, rule, luts) }
    }

    /// Makes a kernel fail, and the whole context with it.
    pub fn trap(&self, stream: &Stream) -> Result<()> {
        // SAFETY: the kernel has no parameters.
        unsafe { self.loaded().launch(stream, (&TRAP, ("trap", "")), line(1, 1), &mut []) }
    }
}

/// Returns whether a span at depth 8 goes through the kernels for large planes.
fn is_large(kind: Kind, span: Span) -> bool {
    kind == Kind::Gray && span.pixels >= LARGE_PLANE
}

/// Returns a one-dimensional launch of at least one block.
fn line(blocks: u64, threads: u32) -> Launch {
    let blocks = u32::try_from(blocks.max(1)).expect("fewer blocks than pixels, which are fewer than 2^31");
    Launch { grid: (blocks, 1, 1), block: (threads, 1, 1), shared: 0 }
}

#[cfg(test)]
mod tests {
    use super::super::GpuEngine;
    use super::super::driver::Module;
    use histeqd_kernels::{CLAHE8, CLAHE16, COLOURS, GLOBAL8, GLOBAL16, JPEG_SCAN, PLANES};

    #[test]
    fn the_driver_takes_what_is_compiled_for_its_gpu() {
        let Some(engine) = GpuEngine::open_or_skip() else { return };
        let capability = engine.kernels.loaded().capability();
        let refused = std::env::var_os("CUDA_FORCE_PTX_JIT").is_some_and(|value| value == "1");
        for module in [GLOBAL8, GLOBAL16, PLANES, COLOURS, CLAHE8, CLAHE16, JPEG_SCAN] {
            let Some(cubin) = module.cubin(capability) else { continue };
            assert_eq!(Module::from_cubin(&cubin).is_err(), refused);
            Module::load(&module, capability).unwrap();
        }
    }
}
