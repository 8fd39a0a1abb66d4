//! A GPU of the ladder: the ladder's kernels, histeqd's own, and the picture in device memory.
#![allow(unsafe_code)]

use std::cell::Cell;

use super::cuda::{Memory, Place, Timer, finish, rest};
use super::kernels::{LadderKernels, TABLE_BYTES};
use super::measure::{self, Result, rounds, wall};
use super::picture::{CLAHE, TestPicture};
use equalize::clahe::Geometry;
use equalize::clip::Clipping;
use equalize::{ByteOrders, Depth, Layout, Method, Operation, Pixel, Strength};
use lanes::gpu::driver::{self, Context, Device, Stream};
use lanes::gpu::kernels::{ClaheTask, Colouring, Kernels, Kind, Span, Tables, Tiling};
use lanes::{Engine, GpuInfo, Unit, open};

/// Gray pixels of 8 bits, and those of RGB, channel by channel.
pub(super) const GRAY: Kind = Kind { pixel: Pixel::Gray, depth: Depth::Eight, colouring: Colouring::LUMA };
pub(super) const CHANNELS: Kind = Kind {
    pixel: Pixel::Rgb,
    depth: Depth::Eight,
    colouring: Colouring { per_channel: true, relight: None },
};

/// Copies of the picture that kernels cycle through, to miss the device's cache.
pub(super) const COPIES: usize = 8;

/// One GPU, used from a single thread while it is current there ([`Gpu::bind`]).
pub(super) struct Gpu {
    context: Context,
    pub(super) kernels: LadderKernels,
    pub(super) own: Own,
    /// The engine that opens histeqd's own lanes.
    pub(super) engine: Box<dyn Engine>,
    pub(super) stream: Stream,
    pub(super) timer: Timer,
    /// All copies of the gray picture, and room for a result of each.
    pictures: Memory,
    results: Memory,
    /// 256 counts, and 256 LUT entries, each of 32 bits.
    pub(super) counts: Memory,
    pub(super) lut: Memory,
    /// Pinned host memory: the gray picture, a result, and counts.
    pub(super) host_picture: Memory,
    pub(super) host_result: Memory,
    pub(super) host_counts: Memory,
    bytes: usize,
}

/// Returns the number of GPUs, or the reason why there is no GPU to open.
pub(super) fn count() -> std::result::Result<u32, String> {
    driver::load()?;
    Device::count().map_err(|error| error.to_string())
}

impl Gpu {
    /// Opens the GPU with this CUDA ordinal, copies the picture to it, and makes it current.
    pub(super) fn open(ordinal: u32, picture: &TestPicture) -> Result<Self> {
        let engine = open(Unit::Gpu(ordinal), None)?;
        let device = Device::get(ordinal)?;
        let context = Context::new(device)?;
        let (stream, bytes) = (Stream::new()?, picture.pixels());
        let gpu = Self {
            kernels: LadderKernels::new(device)?,
            own: Own::new(device, &stream)?,
            timer: Timer::new()?,
            pictures: Memory::new(Place::Device, COPIES * bytes)?,
            results: Memory::new(Place::Device, COPIES * bytes)?,
            counts: Memory::new(Place::Device, TABLE_BYTES)?,
            lut: Memory::new(Place::Device, TABLE_BYTES)?,
            host_picture: Memory::new(Place::Pinned, bytes)?,
            host_result: Memory::new(Place::Pinned, bytes)?,
            host_counts: Memory::new(Place::Pinned, TABLE_BYTES)?,
            context,
            engine,
            stream,
            bytes,
        };
        gpu.host_picture.write(&picture.gray, &gpu.stream)?;
        (0..COPIES).try_for_each(|copy| gpu.host_picture.copy_to(gpu.picture(copy), &gpu.stream))?;
        gpu.lut.write(bytemuck::cast_slice(&picture.lut), &gpu.stream)?;
        rest()?;
        Ok(gpu)
    }

    /// Makes it this thread's current GPU.
    pub(super) fn bind(&self) -> Result<()> {
        Ok(self.context.bind()?)
    }

    pub(super) fn info(&self) -> Option<GpuInfo> {
        self.engine.info()
    }

    /// Returns a copy of the gray picture in device memory.
    pub(super) fn picture(&self, copy: usize) -> Memory {
        self.pictures.part(copy * self.bytes, self.bytes)
    }

    /// Returns the room for the result of a copy.
    pub(super) fn result(&self, copy: usize) -> Memory {
        self.results.part(copy * self.bytes, self.bytes)
    }

    /// Enqueues copying all pictures over the results, for kernels that work in place.
    pub(super) fn refresh(&self) -> driver::Result<()> {
        self.pictures.copy_to(self.results, &self.stream)
    }

    /// Returns the device's seconds per picture for the work that `launch` starts for each copy.
    pub(super) fn kernel_time(&self, launch: impl Fn(usize) -> driver::Result<()>) -> Result<f64> {
        let all = || (0..COPIES).try_for_each(&launch);
        Ok(rounds(|| Ok(self.timer.time(&self.stream, all)?))? / COPIES as f64)
    }

    /// [`Gpu::kernel_time`] for kernels that work in place on [`Gpu::result`].
    ///
    /// The results are restored before each round.
    pub(super) fn kernel_time_in_place(&self, launch: impl Fn(usize) -> driver::Result<()>) -> Result<f64> {
        let all = || (0..COPIES).try_for_each(&launch);
        let round = || {
            self.refresh()?;
            Ok(self.timer.time(&self.stream, all)?)
        };
        Ok(rounds(round)? / COPIES as f64)
    }

    /// Returns the seconds until everything that `start` enqueues in the stream is done.
    pub(super) fn whole_time(&self, start: impl Fn() -> driver::Result<()>) -> Result<f64> {
        rounds(|| wall(|| Ok(start().and_then(|()| finish(&self.stream))?)))
    }

    /// Runs `start` once and waits until everything in the stream is done.
    pub(super) fn once(&self, start: impl FnOnce() -> driver::Result<()>) -> Result<()> {
        start()?;
        Ok(finish(&self.stream)?)
    }

    /// Checks that the counts are right.
    pub(super) fn same_counts(&self, counts: Memory, right: &[u32]) -> Result<measure::Measured> {
        measure::same_counts(&counts.read_words(&self.stream)?, right)
    }

    /// Checks that the pixels are right.
    pub(super) fn same_pixels(&self, pixels: Memory, right: &[u8]) -> Result<measure::Measured> {
        measure::same_pixels(&pixels.read(&self.stream)?, right)
    }
}

/// histeqd's own kernels, launched as a lane launches them.
pub(super) struct Own {
    kernels: Kernels,
    tables: Cell<Tables>,
}

impl Own {
    fn new(device: Device, stream: &Stream) -> Result<Self> {
        let memory = Memory::new(Place::Device, Tables::BYTES as usize)?;
        memory.zero(stream)?;
        let tables = Cell::new(Tables::new(memory.address()));
        Ok(Self { kernels: Kernels::new(device)?, tables })
    }

    /// Adds the histogram of gray pixels, or those of the channels of RGB pixels, to `counts`.
    pub(super) fn count(
        &self,
        stream: &Stream,
        kind: Kind,
        pixels: Memory,
        counts: Memory,
    ) -> driver::Result<()> {
        assert_eq!(counts.bytes(), kind.planes() * TABLE_BYTES);
        // SAFETY: pixels and counts live until the process ends, and have the sizes for this kind.
        unsafe { self.kernels.count(stream, kind, span(kind, pixels), counts.address()) }
    }

    /// Counts gray pixels for [`Own::apply`].
    pub(super) fn count_for_lut(&self, stream: &Stream, pixels: Memory) -> driver::Result<()> {
        self.tables.set(self.tables.get().next());
        // SAFETY: pixels and tables live until the process ends.
        unsafe { self.kernels.count(stream, GRAY, span(GRAY, pixels), self.tables.get().counts8()) }
    }

    /// Applies the LUT of the last [`Own::count_for_lut`] to gray pixels, in place.
    pub(super) fn apply(&self, stream: &Stream, pixels: Memory) -> driver::Result<()> {
        // SAFETY: pixels and tables live until the process ends.
        unsafe { self.kernels.apply8(stream, GRAY, span(GRAY, pixels), &self.tables.get(), Strength::FULL) }
    }

    /// Allocates the memory that CLAHE needs for gray pictures of one size.
    pub(super) fn clahe_of(&self, layout: &Layout) -> Result<OwnClahe<'_>> {
        let operation = Operation::new(Method::Clahe(CLAHE));
        let task = self.kernels.clahe_task(layout, &CLAHE, &operation, None);
        let memory = Memory::new(Place::Device, self.kernels.clahe_bytes(&task) as usize)?;
        Ok(OwnClahe { own: self, layout: *layout, task, memory })
    }
}

/// Returns how CLAHE divides a gray picture into tiles, as passed to kernels.
pub(super) fn tiling(layout: &Layout, geometry: &Geometry) -> Tiling {
    let clipping = Clipping::new(CLAHE.clip_limit, geometry.area(), layout.depth.levels());
    Tiling::new(layout, geometry, clipping.most.unwrap_or(0) as u32, clipping.full_span)
}

/// histeqd's own CLAHE of gray pictures of one size.
pub(super) struct OwnClahe<'o> {
    own: &'o Own,
    layout: Layout,
    task: ClaheTask,
    memory: Memory,
}

impl OwnClahe<'_> {
    /// Equalizes a picture in place.
    pub(super) fn run(&self, stream: &Stream, pixels: Memory) -> driver::Result<()> {
        assert_eq!(pixels.bytes() as u64, self.layout.bytes());
        let (task, memory) = (&self.task, self.memory.address());
        // SAFETY: all live until the process ends and are as large as the task requires; the
        // picture's bytes are a multiple of 16.
        unsafe { self.own.kernels.clahe(stream, &self.layout, span(GRAY, pixels), task, memory) }
    }
}

fn span(kind: Kind, pixels: Memory) -> Span {
    let bytes = if kind.planes() == 3 { 3 } else { 1 };
    Span { at: pixels.address(), pixels: pixels.bytes() as u64 / bytes, byte_orders: ByteOrders::NATIVE }
}
