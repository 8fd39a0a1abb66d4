//! A lane of a GPU: its streams and its device memory, made once, and the way of a picture through them.
//!
//! A small picture goes up, through its kernels and down again on one stream; the overlap is that of the lanes. A large one is
//! cut into chunks, so that it overlaps with itself: while a chunk is counted the next comes up, and while one goes through the
//! LUT the one before goes down. A picture that the lane's memory cannot hold goes up twice, chunk by chunk through a ring.
#![allow(unsafe_code)]

mod count;

use super::cuda::{Buffer, CudaError, Event, Result, Stream};
use super::gpu::GpuEngine;
use super::kernels::{Kind, Span, Tables, Tiles};
use super::{EngineError, Lane};
use crate::equalize::clahe::{Clahe, Geometry};
use crate::equalize::{Method, Operation, Scratch, equalize};
use crate::picture::{Depth, Layout, Pixel};

/// Up to so many bytes, a picture is moved as a whole.
const WHOLE: u64 = 32 << 20;

/// Bytes of a chunk of a larger one: long enough for the bus's full speed.
const CHUNK: u64 = 8 << 20;

/// Chunks in device memory when there is no room for the picture.
const RING: usize = 4;

/// What a lane takes of the device at least, in bytes: the tables and a ring of small chunks.
const LEAST_MEMORY: u64 = 4 << 20;

pub(super) struct GpuLane<'e> {
    engine: &'e GpuEngine,
    up: Stream,
    work: Stream,
    down: Stream,
    uploaded: Event,
    worked: Event,
    done: Event,
    /// For each place in the ring: its chunk has been used.
    used: Vec<Event>,
    tables_memory: Buffer,
    /// Which set of sums the next launch of `equalize8` uses.
    turn: u32,
    memory: Growing,
    scratch: Scratch,
}

/// Device memory that grows with the pictures.
#[derive(Default)]
struct Growing {
    picture: Buffer,
    plane: Buffer,
    luts: Buffer,
    /// Zero between pictures.
    counts: Buffer,
}

/// Why a picture was not done on the GPU.
enum Failure {
    /// It does not fit; the CPU can do it.
    TooLarge,
    /// The device failed.
    Device(CudaError),
}

impl From<CudaError> for Failure {
    fn from(error: CudaError) -> Self {
        if error.is_out_of_memory() { Self::TooLarge } else { Self::Device(error) }
    }
}

/// Pixels from `first` on that are moved and worked on together.
#[derive(Clone, Copy)]
struct Chunk {
    first: u64,
    pixels: u64,
    /// Byte of the device's buffer at which it lies.
    offset: u64,
    /// Its place in the ring, if it is in one.
    place: Option<usize>,
}

impl<'e> GpuLane<'e> {
    pub(super) fn new(engine: &'e GpuEngine) -> Result<Self> {
        engine.context.bind()?;
        let work = Stream::new()?;
        let tables_memory = Buffer::new(Tables::BYTES)?;
        // SAFETY: the memory was just made; the stream, on which all kernels run, comes to it first.
        unsafe { work.zero(tables_memory.address(), Tables::BYTES)? };
        Ok(Self {
            engine,
            up: Stream::new()?,
            work,
            down: Stream::new()?,
            uploaded: Event::new()?,
            worked: Event::new()?,
            done: Event::new()?,
            used: (0..RING).map(|_| Event::new()).collect::<Result<_>>()?,
            tables_memory,
            turn: 0,
            memory: Growing::default(),
            scratch: Scratch::default(),
        })
    }

    fn tables(&self) -> Tables {
        Tables::new(self.tables_memory.address())
    }

    fn run(
        &mut self,
        pixels: &mut [u8],
        layout: &Layout,
        operation: &Operation,
    ) -> std::result::Result<(), Failure> {
        // Counts on the device have 32 bits.
        if layout.pixels() > u64::from(u32::MAX) {
            return Err(Failure::TooLarge);
        }
        let kind = Kind::new(layout.pixel, operation.per_channel);
        match operation.method {
            Method::Global if layout.bytes() <= WHOLE.min(self.engine.lane_memory) => {
                self.whole(pixels, layout, kind)
            }
            Method::Global => self.in_chunks(pixels, layout, kind),
            Method::Clahe(clahe) => self.clahe(pixels, layout, kind, &clahe),
        }
    }

    /// Global equalization on one stream.
    fn whole(&mut self, pixels: &mut [u8], layout: &Layout, kind: Kind) -> std::result::Result<(), Failure> {
        let at = grow(&mut self.memory.picture, layout.bytes())?;
        let (span, tables, kernels) =
            (Span { at, pixels: layout.pixels() }, self.tables(), &self.engine.kernels);
        // SAFETY: `equalize` waits for `done` before the pixels or the buffers are used again.
        unsafe {
            self.work.upload(pixels, at)?;
            if layout.depth == Depth::Eight && kernels.equalizes_at_once(kind) {
                kernels.equalize8(&self.work, kind, span, &tables, self.turn)?;
                self.turn = 1 - self.turn;
            } else {
                self.begin(layout, kind)?;
                self.count_span(span, layout, kind, true)?;
                self.apply(span, layout, kind)?;
            }
            self.work.download(at, pixels)?;
        }
        Ok(self.done.record(&self.work)?)
    }

    /// Global equalization of a large picture, chunk by chunk in two passes on three streams.
    fn in_chunks(
        &mut self,
        pixels: &mut [u8],
        layout: &Layout,
        kind: Kind,
    ) -> std::result::Result<(), Failure> {
        let resident = layout.bytes() <= self.engine.lane_memory;
        let room = if resident {
            layout.bytes()
        } else {
            self.engine.lane_memory.min(CHUNK * RING as u64).max(LEAST_MEMORY)
        };
        let at = grow(&mut self.memory.picture, room)?;
        let bytes = layout.pixel_bytes() as u64;
        // A multiple of 48 pixels is one of 16 bytes too, whatever the pixel.
        let size = CHUNK.min(if resident { CHUNK } else { room / RING as u64 }) / (48 * bytes) * 48;
        let chunks: Vec<Chunk> = (0..layout.pixels().div_ceil(size))
            .map(|i| {
                let first = i * size;
                let place = (!resident).then_some(i as usize % RING);
                let offset = place.map_or(first, |place| place as u64 * size) * bytes;
                Chunk { first, pixels: size.min(layout.pixels() - first), offset, place }
            })
            .collect();
        let span = |chunk: &Chunk| Span { at: at + chunk.offset, pixels: chunk.pixels };
        let host =
            |chunk: &Chunk| (chunk.first * bytes) as usize..((chunk.first + chunk.pixels) * bytes) as usize;

        // SAFETY: `equalize` waits for `done` before the pixels or the buffers are used again; the events order the streams.
        unsafe {
            self.begin(layout, kind)?;
            for (i, chunk) in chunks.iter().enumerate() {
                if let Some(place) = chunk.place.filter(|_| i >= RING) {
                    self.up.wait(&self.used[place])?;
                }
                self.bring(&pixels[host(chunk)], span(chunk))?;
                self.count_span(span(chunk), layout, kind, i + 1 == chunks.len())?;
                if let Some(place) = chunk.place {
                    self.used[place].record(&self.work)?;
                }
            }
            for chunk in &chunks {
                if let Some(place) = chunk.place {
                    self.up.wait(&self.used[place])?;
                    self.bring(&pixels[host(chunk)], span(chunk))?;
                }
                self.apply(span(chunk), layout, kind)?;
                self.worked.record(&self.work)?;
                self.down.wait(&self.worked)?;
                self.down.download(span(chunk).at, &mut pixels[host(chunk)])?;
                if let Some(place) = chunk.place {
                    self.used[place].record(&self.down)?;
                }
            }
        }
        Ok(self.done.record(&self.down)?)
    }

    /// Uploads a chunk and lets the kernels that follow wait for it.
    ///
    /// # Safety
    /// As [`Stream::upload`].
    unsafe fn bring(&self, from: &[u8], span: Span) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe { self.up.upload(from, span.at)? };
        self.uploaded.record(&self.up)?;
        self.work.wait(&self.uploaded)
    }

    /// # Safety
    /// The lane's tables are not used elsewhere until this is done.
    unsafe fn begin(&self, layout: &Layout, kind: Kind) -> Result<()> {
        match layout.depth {
            Depth::Eight => Ok(()),
            // SAFETY: the caller's promise.
            Depth::Sixteen => unsafe { self.engine.kernels.clear16(&self.work, kind, &self.tables()) },
        }
    }

    /// Counts a span; the picture's `last` one makes the LUTs.
    ///
    /// # Safety
    /// The span's bytes and the lane's tables are not used elsewhere until this is done.
    unsafe fn count_span(&self, span: Span, layout: &Layout, kind: Kind, last: bool) -> Result<()> {
        let (kernels, tables) = (&self.engine.kernels, self.tables());
        // SAFETY: the caller's promise.
        unsafe {
            match layout.depth {
                Depth::Eight => kernels.histogram8(&self.work, kind, span, &tables, last),
                Depth::Sixteen => {
                    kernels.histogram16(&self.work, kind, span, &tables)?;
                    if last { kernels.lut16(&self.work, kind, &tables) } else { Ok(()) }
                }
            }
        }
    }

    /// Sends a span through the LUTs.
    ///
    /// # Safety
    /// The span's bytes and the lane's tables are not used elsewhere until this is done.
    unsafe fn apply(&self, span: Span, layout: &Layout, kind: Kind) -> Result<()> {
        let (kernels, tables) = (&self.engine.kernels, self.tables());
        // SAFETY: the caller's promise.
        unsafe {
            match layout.depth {
                Depth::Eight => kernels.apply8(&self.work, kind, span, &tables),
                Depth::Sixteen => kernels.apply16(&self.work, kind, span, &tables),
            }
        }
    }

    fn clahe(
        &mut self,
        pixels: &mut [u8],
        layout: &Layout,
        kind: Kind,
        clahe: &Clahe,
    ) -> std::result::Result<(), Failure> {
        let (kernels, geometry) = (&self.engine.kernels, Geometry::new(layout, clahe));
        let tiles = Tiles::new(layout, &geometry, &kernels.limits);
        let is_plane = layout.pixel == Pixel::Gray;
        let plane_bytes = if is_plane { 0 } else { layout.pixels() * layout.depth.bytes() as u64 };
        if layout.bytes() + plane_bytes + tiles.luts_bytes() + tiles.counts_bytes() > self.engine.lane_memory
        {
            return Err(Failure::TooLarge);
        }
        let at = grow(&mut self.memory.picture, layout.bytes())?;
        let plane = if is_plane { at } else { grow(&mut self.memory.plane, plane_bytes)? };
        let luts = grow(&mut self.memory.luts, tiles.luts_bytes())?;
        let counts_before = self.memory.counts.bytes();
        let counts = grow(&mut self.memory.counts, tiles.counts_bytes())?;
        let span = Span { at, pixels: layout.pixels() };
        // SAFETY: `equalize` waits for `done` before the pixels or the buffers are used again; all is on one stream.
        unsafe {
            if self.memory.counts.bytes() != counts_before {
                self.work.zero(counts, self.memory.counts.bytes())?;
            }
            self.work.upload(pixels, at)?;
            for &channel in channels(kind) {
                if is_plane {
                    kernels.clahe(&self.work, plane, &tiles, counts, luts)?;
                } else {
                    kernels.plane(&self.work, layout, span, (plane, channel), false)?;
                    kernels.clahe(&self.work, plane, &tiles, counts, luts)?;
                    kernels.plane(&self.work, layout, span, (plane, channel), true)?;
                }
            }
            self.work.download(at, pixels)?;
        }
        Ok(self.done.record(&self.work)?)
    }

    /// Waits for whatever was started, as far as the device still answers.
    fn settle(&self) {
        for stream in [&self.up, &self.work, &self.down] {
            if self.done.record(stream).is_ok() {
                let _ = self.done.wait();
            }
        }
    }
}

impl Lane for GpuLane<'_> {
    fn count(
        &mut self,
        pixels: &[u8],
        layout: &Layout,
        counts: &mut [u64],
    ) -> std::result::Result<(), EngineError> {
        match self.count_planes(pixels, layout, counts) {
            Ok(()) => Ok(()),
            Err(Failure::TooLarge) => {
                self.memory = Growing::default();
                crate::equalize::count::count(pixels, layout, counts, &mut self.scratch);
                Ok(())
            }
            Err(Failure::Device(error)) => {
                self.settle();
                Err(error.into())
            }
        }
    }

    fn equalize(
        &mut self,
        pixels: &mut [u8],
        layout: &Layout,
        operation: &Operation,
    ) -> std::result::Result<(), EngineError> {
        let result = self.run(pixels, layout, operation).and_then(|()| Ok(self.done.wait()?));
        match result {
            Ok(()) => Ok(()),
            Err(Failure::TooLarge) => {
                // Only before the first copy can memory lack, so the pixels are still the picture's.
                self.settle();
                self.memory = Growing::default();
                equalize(pixels, layout, operation, &mut self.scratch);
                Ok(())
            }
            Err(Failure::Device(error)) => {
                self.settle();
                Err(error.into())
            }
        }
    }
}

/// Room for so many bytes, in whole 16-byte words.
fn grow(buffer: &mut Buffer, bytes: u64) -> Result<u64> {
    if buffer.bytes() < bytes {
        *buffer = Buffer::default();
        *buffer = Buffer::new(bytes.next_multiple_of(1 << 20))?;
    }
    Ok(buffer.address())
}

/// The planes of CLAHE: luma, or channels by their numbers.
const fn channels(kind: Kind) -> &'static [Option<u32>] {
    match kind {
        Kind::Gray | Kind::GrayAlpha => &[Some(0)],
        Kind::RgbLuma | Kind::RgbaLuma => &[None],
        Kind::RgbChannels | Kind::RgbaChannels => &[Some(0), Some(1), Some(2)],
    }
}
