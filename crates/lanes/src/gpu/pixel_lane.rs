//! A lane of a GPU: its streams and its device memory, and a picture's way through them.
//!
//! The memory is allocated once. A small picture is uploaded, processed and downloaded on one
//! stream; it overlaps only with the pictures of other lanes. A large picture is split into chunks,
//! which makes it overlap with itself: while one chunk is counted the next is uploaded, and while
//! one goes through the LUT the previous one is downloaded. A picture that does not fit into the
//! lane's memory is uploaded twice, chunk by chunk through a ring.
#![allow(unsafe_code)]

use super::driver::{self, Buffer, Event, Stream};
use super::engine::GpuEngine;
use super::equalizer::{Equalizer, grow};
use super::kernels::Span;
use crate::lane::{EngineError, Lane, LaneError};
use equalize::{ByteOrder, ByteOrders, Layout, Method, Operation};

/// The largest picture that is moved as a whole, in bytes.
const WHOLE: u64 = 32 << 20;

/// The chunk size of larger pictures, in bytes: long enough for the bus's full speed.
const CHUNK: u64 = 8 << 20;

/// The number of chunks in device memory when there is no room for the picture.
const RING: usize = 4;

/// The smallest ring of chunks, in bytes, for any share of device memory.
const LEAST_MEMORY: u64 = 4 << 20;

type Result<T> = std::result::Result<T, LaneError>;

pub(super) struct GpuLane<'e> {
    engine: &'e GpuEngine,
    up: Stream,
    work: Stream,
    down: Stream,
    uploaded: Event,
    worked: Event,
    done: Event,
    /// For each place in the ring, the event after the last use of its chunk.
    used: Vec<Event>,
    equalizer: Equalizer<'e>,
    picture: Buffer,
}

/// Consecutive pixels from `first` on, moved and processed together.
#[derive(Clone, Copy)]
struct Chunk {
    first: u64,
    pixels: u64,
    /// Its byte offset in the device buffer.
    offset: u64,
    /// Its place in the ring, if it is in one.
    place: Option<usize>,
}

impl Chunk {
    /// Splits a picture into chunks that lie one after the other, or in a ring of `ring` bytes.
    fn all(layout: &Layout, ring: Option<u64>) -> Vec<Self> {
        let bytes = layout.pixel_bytes() as u64;
        // A multiple of 48 pixels is also a multiple of 16 bytes, whatever the pixel format.
        let most = ring.map_or(CHUNK, |ring| (ring / RING as u64).min(CHUNK));
        let size = (most / (48 * bytes) * 48).max(48);
        let count = layout.pixels().div_ceil(size);
        (0..count)
            .map(|i| {
                let first = i * size;
                let place = ring.map(|_| i as usize % RING);
                let offset = place.map_or(first, |place| place as u64 * size) * bytes;
                Self { first, pixels: size.min(layout.pixels() - first), offset, place }
            })
            .collect()
    }

    fn span(&self, at: u64, byte_orders: ByteOrders) -> Span {
        Span { at: at + self.offset, pixels: self.pixels, byte_orders }
    }

    /// Its range of bytes in the picture.
    fn bytes(&self, layout: &Layout) -> std::ops::Range<usize> {
        let bytes = layout.pixel_bytes() as u64;
        (self.first * bytes) as usize..((self.first + self.pixels) * bytes) as usize
    }
}

impl<'e> GpuLane<'e> {
    pub(super) fn new(engine: &'e GpuEngine) -> driver::Result<Self> {
        engine.context.bind()?;
        let work = Stream::new()?;
        Ok(Self {
            equalizer: Equalizer::new(engine, &work)?,
            engine,
            up: Stream::new()?,
            work,
            down: Stream::new()?,
            uploaded: Event::new()?,
            worked: Event::new()?,
            done: Event::new()?,
            used: (0..RING).map(|_| Event::new()).collect::<driver::Result<_>>()?,
            picture: Buffer::default(),
        })
    }

    fn run(
        &mut self,
        pixels: &mut [u8],
        layout: &Layout,
        byte_orders: ByteOrders,
        operation: &Operation,
        reference: &[u64],
    ) -> Result<()> {
        must_be_countable(layout)?;
        match operation.method {
            Method::Global | Method::Plateau(_) | Method::Stretch(_) | Method::Match
                if self.goes_in_chunks(layout) =>
            {
                self.in_chunks(pixels, layout, byte_orders, operation, reference)
            }
            _ => self.whole(pixels, layout, byte_orders, operation, reference),
        }
    }

    fn goes_in_chunks(&self, layout: &Layout) -> bool {
        layout.bytes() > WHOLE.min(self.engine.lane_memory)
    }

    /// Equalizes a picture as a whole, on one stream.
    fn whole(
        &mut self,
        pixels: &mut [u8],
        layout: &Layout,
        byte_orders: ByteOrders,
        operation: &Operation,
        reference: &[u64],
    ) -> Result<()> {
        let plan = self.equalizer.plan(layout, byte_orders, operation, reference, layout.bytes())?;
        let at = grow(&mut self.picture, layout.bytes())?;
        // SAFETY: `equalize` waits for `done` before the pixels or the buffers are used again.
        unsafe {
            self.work.upload(pixels, at)?;
            self.equalizer.equalize(&self.work, at, &plan)?;
            self.work.download(at, pixels)?;
        }
        Ok(self.done.record(&self.work)?)
    }

    /// Equalizes a large picture by LUTs for whole planes.
    ///
    /// It goes chunk by chunk, in two passes on three streams.
    fn in_chunks(
        &mut self,
        pixels: &mut [u8],
        layout: &Layout,
        byte_orders: ByteOrders,
        operation: &Operation,
        reference: &[u64],
    ) -> Result<()> {
        let fits = layout.bytes() <= self.engine.lane_memory;
        let room = if fits { layout.bytes() } else { self.ring_bytes() };
        let at = grow(&mut self.picture, room)?;
        let chunks = Chunk::all(layout, if fits { None } else { Some(room) });
        let plan = self.equalizer.plan(layout, byte_orders, operation, reference, room)?;
        // SAFETY: `equalize` waits for `done` before the pixels or the buffers are used again; the
        // events order the streams.
        unsafe {
            self.equalizer.begin(&self.work, &plan)?;
            for (i, chunk) in chunks.iter().enumerate() {
                self.bring(&pixels[chunk.bytes(layout)], chunk, at, i >= RING)?;
                let last = i + 1 == chunks.len();
                self.equalizer.count(&self.work, &plan, chunk.span(at, byte_orders), last)?;
                self.leave(chunk, &self.work)?;
            }
            for chunk in &chunks {
                if chunk.place.is_some() {
                    self.bring(&pixels[chunk.bytes(layout)], chunk, at, true)?;
                }
                self.equalizer.apply(&self.work, &plan, chunk.span(at, byte_orders))?;
                self.take(&mut pixels[chunk.bytes(layout)], chunk, at)?;
            }
        }
        self.equalizer.end(&plan);
        Ok(self.done.record(&self.down)?)
    }

    /// Sends a picture through LUTs.
    ///
    /// It goes as a whole on one stream, or in chunks through a ring on three.
    fn map(
        &mut self,
        pixels: &mut [u8],
        layout: &Layout,
        byte_orders: ByteOrders,
        operation: &Operation,
        luts: &[u8],
    ) -> Result<()> {
        must_be_countable(layout)?;
        let in_chunks = self.goes_in_chunks(layout);
        let room = if in_chunks { self.ring_bytes() } else { layout.bytes() };
        let at = grow(&mut self.picture, room)?;
        // SAFETY: `apply` waits for `done` before the pixels, the LUTs or the buffers are used
        // again; the events order the streams.
        unsafe {
            let kind = self.equalizer.upload_luts(&self.work, layout, operation, luts)?;
            if !in_chunks {
                self.work.upload(pixels, at)?;
                let span = Span { at, pixels: layout.pixels(), byte_orders };
                self.equalizer.map(&self.work, kind, span)?;
                self.work.download(at, pixels)?;
                return Ok(self.done.record(&self.work)?);
            }
            for (i, chunk) in Chunk::all(layout, Some(room)).iter().enumerate() {
                self.bring(&pixels[chunk.bytes(layout)], chunk, at, i >= RING)?;
                self.equalizer.map(&self.work, kind, chunk.span(at, byte_orders))?;
                self.take(&mut pixels[chunk.bytes(layout)], chunk, at)?;
            }
        }
        Ok(self.done.record(&self.down)?)
    }

    /// Returns the size in bytes of the ring for a picture that is not kept in device memory.
    fn ring_bytes(&self) -> u64 {
        self.engine.lane_memory.min(CHUNK * RING as u64).max(LEAST_MEMORY)
    }

    /// Uploads a chunk and makes the kernels that follow wait for it.
    ///
    /// If its place in the ring is `taken`, the upload first waits for the last use of that place.
    ///
    /// # Safety
    /// As [`Stream::upload`].
    unsafe fn bring(&self, from: &[u8], chunk: &Chunk, at: u64, taken: bool) -> driver::Result<()> {
        if let Some(place) = chunk.place.filter(|_| taken) {
            self.up.wait(&self.used[place])?;
        }
        // SAFETY: guaranteed by the caller.
        unsafe { self.up.upload(from, at + chunk.offset)? };
        self.uploaded.record(&self.up)?;
        self.work.wait(&self.uploaded)
    }

    /// Downloads a chunk after the enqueued kernels, and frees its place.
    ///
    /// # Safety
    /// As [`Stream::download`].
    unsafe fn take(&self, to: &mut [u8], chunk: &Chunk, at: u64) -> driver::Result<()> {
        self.worked.record(&self.work)?;
        self.down.wait(&self.worked)?;
        // SAFETY: guaranteed by the caller.
        unsafe { self.down.download(at + chunk.offset, to)? };
        self.leave(chunk, &self.down)
    }

    /// Records the end of a chunk's last use, which has just been enqueued in `stream`.
    fn leave(&self, chunk: &Chunk, stream: &Stream) -> driver::Result<()> {
        chunk.place.map_or(Ok(()), |place| self.used[place].record(stream))
    }

    /// Counts all planes into the tables, and downloads the counts to `counts`.
    fn count_planes(
        &mut self,
        pixels: &[u8],
        layout: &Layout,
        byte_order: ByteOrder,
        counts: &mut [u32],
    ) -> Result<()> {
        must_be_countable(layout)?;
        let room = layout.bytes().min(self.ring_bytes());
        let at = grow(&mut self.picture, room)?;
        let chunks = Chunk::all(layout, Some(room));
        let samples = chunks[0].pixels * layout.depth.bytes() as u64;
        let alpha = if layout.pixel.has_alpha() { self.equalizer.plane(samples)? } else { 0 };
        // SAFETY: `count` waits for `done` before the pixels, the counts or the buffers are used
        // again; the events order the streams.
        unsafe {
            self.equalizer.begin_planes(&self.work, layout)?;
            for (i, chunk) in chunks.iter().enumerate() {
                self.bring(&pixels[chunk.bytes(layout)], chunk, at, i >= RING)?;
                let span = chunk.span(at, ByteOrders { from: byte_order, ..ByteOrders::NATIVE });
                self.equalizer.count_planes(&self.work, layout, span, alpha)?;
                self.leave(chunk, &self.work)?;
            }
            self.equalizer.download_counts(&self.work, layout, counts)?;
        }
        Ok(self.done.record(&self.work)?)
    }

    /// Frees all memory that grew with the pictures.
    fn shrink(&mut self) {
        self.picture = Buffer::default();
        self.equalizer.shrink();
    }

    /// Cleans up after a picture that was not completed.
    ///
    /// Waits for everything enqueued and, if the picture was declined, frees memory that others may
    /// need.
    fn clear_up<T>(&mut self, result: &Result<T>) {
        if let Err(trouble) = result {
            self.drain();
            if !matches!(trouble, LaneError::Device(_)) {
                self.shrink();
            }
        }
    }

    /// Waits for everything enqueued, as far as the device still responds.
    fn drain(&self) {
        for stream in [&self.up, &self.work, &self.down] {
            if self.done.record(stream).is_ok() {
                let _ = self.done.wait();
            }
        }
    }
}

/// Declines a picture of too many pixels or with too long sides.
///
/// A count on the device has 32 bits, and a side is a signed integer there.
fn must_be_countable(layout: &Layout) -> Result<()> {
    let longest = layout.width.max(layout.height);
    if layout.pixels() > u64::from(u32::MAX) || longest > i32::MAX as u32 {
        return Err(LaneError::Decline("it has more pixels than are counted on a GPU".to_owned()));
    }
    Ok(())
}

impl Lane for GpuLane<'_> {
    fn equalize(
        &mut self,
        pixels: &mut [u8],
        layout: &Layout,
        byte_orders: ByteOrders,
        operation: &Operation,
        reference: &[u64],
    ) -> Result<()> {
        let run = self.run(pixels, layout, byte_orders, operation, reference);
        let result = run.and_then(|()| Ok(self.done.wait()?));
        // Memory can run out only before the first copy: the pixels of a declined picture are
        // unchanged.
        self.clear_up(&result);
        if result.is_ok() && operation.may_exceed_levels(layout) {
            operation.levels.clamp(pixels, layout, byte_orders.to);
        }
        result
    }

    fn apply(
        &mut self,
        pixels: &mut [u8],
        layout: &Layout,
        byte_orders: ByteOrders,
        operation: &Operation,
        luts: &[u8],
    ) -> Result<()> {
        let mapped = self.map(pixels, layout, byte_orders, operation, luts);
        let result = mapped.and_then(|()| Ok(self.done.wait()?));
        self.clear_up(&result);
        if result.is_ok() && operation.may_exceed_levels(layout) {
            operation.levels.clamp(pixels, layout, byte_orders.to);
        }
        result
    }

    fn count(
        &mut self,
        pixels: &[u8],
        layout: &Layout,
        byte_order: ByteOrder,
        counts: &mut [u64],
    ) -> Result<()> {
        let mut counted = vec![0_u32; counts.len()];
        let result = self
            .count_planes(pixels, layout, byte_order, &mut counted)
            .and_then(|()| Ok(self.done.wait()?));
        self.clear_up(&result);
        counts.iter_mut().zip(counted).for_each(|(count, counted)| *count = counted.into());
        result
    }

    fn trap(&mut self) -> std::result::Result<(), EngineError> {
        self.engine.kernels.trap(&self.work)?;
        self.done.record(&self.work)?;
        Ok(self.done.wait()?)
    }
}
