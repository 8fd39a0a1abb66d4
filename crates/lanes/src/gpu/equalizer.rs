//! Equalization of pixels that are already in device memory: the tables and the memory it takes besides the pixels, allocated once and
//! reused.
#![allow(unsafe_code)]

use super::driver::{Address, Buffer, CudaError, Event, Result, Stream};
use super::engine::GpuEngine;
use super::kernels::{ClaheMemory, Kind, Span, Tables};
use crate::lane::LaneError;
use equalize::clahe::Geometry;
use equalize::clip::{Clipping, LevelsInUse};
use equalize::{
    ByteOrder, ByteOrders, ClipLimit, Colour, Depth, Layout, Method, Operation, Pixel, Strength, lut,
};

/// What a lane equalizes with, always on the same stream.
pub(super) struct Equalizer<'e> {
    engine: &'e GpuEngine,
    tables: Tables,
    /// Owns the memory of `tables`.
    _tables: Buffer,
    memory: Growing,
    counted: Event,
    /// LUTs that are on their way to the device, aligned for either depth.
    luts: Vec<u64>,
}

/// Device memory that grows with the pictures.
#[derive(Default)]
struct Growing {
    plane: Buffer,
    luts: Buffer,
    /// Zero between pictures.
    counts: Buffer,
}

/// How to equalize a picture, with all the memory that takes already allocated.
pub(super) struct Plan<'r> {
    layout: Layout,
    byte_orders: ByteOrders,
    kind: Kind,
    operation: Operation,
    reference: &'r [u64],
    clahe: Option<ClahePlan>,
}

struct ClahePlan {
    memory: ClaheMemory,
    clip_limit: ClipLimit,
    /// The levels of a plane.
    levels: usize,
    /// Where luma or a channel is extracted to; `None` if the picture is its own plane.
    plane: Option<Address>,
    counts: Address,
    luts: Address,
}

impl Plan<'_> {
    /// Returns whether kernels make the LUTs. Those of other methods, and of fewer levels, are made here, of counts that kernels make.
    fn is_left_to_kernels(&self) -> bool {
        self.operation.method == Method::Global && !self.operation.levels.are_fewer(self.layout.depth)
    }

    fn what(&self) -> (Kind, Depth) {
        (self.kind, self.layout.depth)
    }
}

impl<'e> Equalizer<'e> {
    pub(super) fn new(engine: &'e GpuEngine, stream: &Stream) -> Result<Self> {
        let tables = Buffer::new(Tables::BYTES)?;
        // SAFETY: the memory was just allocated; the stream, on which all kernels run, zeroes it first.
        unsafe { stream.zero(tables.address(), Tables::BYTES)? };
        let memory = Growing::default();
        let counted = Event::new()?;
        let at = Tables::new(tables.address());
        Ok(Self { engine, tables: at, _tables: tables, memory, counted, luts: Vec::new() })
    }

    /// Returns the tables for the next picture.
    pub(super) fn tables(&self) -> Tables {
        self.tables
    }

    /// Returns room for a plane of `bytes` bytes.
    pub(super) fn plane(&mut self, bytes: u64) -> std::result::Result<Address, LaneError> {
        grow(&mut self.memory.plane, bytes)
    }

    /// Frees all memory that grew.
    pub(super) fn shrink(&mut self) {
        self.memory = Growing::default();
    }

    /// Allocates what equalizing such a picture takes, besides the `taken` bytes that the lane has for pixels. `reference` is as for
    /// [`equalize::equalize_like`].
    pub(super) fn plan<'r>(
        &mut self,
        stream: &Stream,
        layout: &Layout,
        byte_orders: ByteOrders,
        (operation, reference): (&Operation, &'r [u64]),
        taken: u64,
    ) -> std::result::Result<Plan<'r>, LaneError> {
        if let Some(what) = without_kernel(layout, operation) {
            return Err(LaneError::Decline(format!("{what} has no kernel")));
        }
        let kind = Kind::new(layout.pixel, operation.is_per_channel());
        let clahe = match operation.method {
            Method::Global | Method::Stretch(_) | Method::Match => None,
            Method::Clahe(clahe) => {
                let levels = operation.levels.number(layout.depth);
                let geometry = Geometry::new(layout, &clahe).with_levels(levels);
                let limits = &self.engine.kernels.limits;
                let clipping = Clipping::new(clahe.clip_limit, geometry.area(), levels);
                let memory = ClaheMemory::new(layout, &geometry, &clipping, limits);
                // New levels are weakened towards the old ones when they are put back.
                let is_plane = layout.pixel == Pixel::Gray && operation.strength == Strength::FULL;
                let (plane, counts, luts) = self.room_for_clahe(stream, layout, &memory, taken, is_plane)?;
                Some(ClahePlan { memory, clip_limit: clahe.clip_limit, levels, plane, counts, luts })
            }
        };
        Ok(Plan { layout: *layout, byte_orders, kind, operation: *operation, reference, clahe })
    }

    /// Returns room for the plane, unless the picture is its own plane, for the counts and for the LUTs.
    fn room_for_clahe(
        &mut self,
        stream: &Stream,
        layout: &Layout,
        memory: &ClaheMemory,
        taken: u64,
        is_plane: bool,
    ) -> std::result::Result<(Option<Address>, Address, Address), LaneError> {
        let plane_bytes = if is_plane { 0 } else { layout.pixels() * layout.depth.bytes() as u64 };
        if taken + plane_bytes + memory.luts_bytes() + memory.counts_bytes() > self.engine.lane_memory {
            return Err(LaneError::Full);
        }
        let plane = if is_plane { None } else { Some(grow(&mut self.memory.plane, plane_bytes)?) };
        let luts = grow(&mut self.memory.luts, memory.luts_bytes())?;
        let counts_before = self.memory.counts.bytes();
        let counts = grow(&mut self.memory.counts, memory.counts_bytes())?;
        if self.memory.counts.bytes() != counts_before {
            // SAFETY: the memory was just allocated; the stream, on which all kernels run, zeroes it first.
            unsafe { stream.zero(counts, self.memory.counts.bytes())? };
        }
        Ok((plane, counts, luts))
    }

    /// Equalizes the pixels at an address in place.
    ///
    /// # Safety
    /// The plan must be the last one made, or one for a picture of the same size; there must be as many pixels as it says, used by this
    /// stream alone until it is done.
    pub(super) unsafe fn equalize(&mut self, stream: &Stream, at: Address, plan: &Plan<'_>) -> Result<()> {
        let Plan { layout, byte_orders, clahe, .. } = plan;
        let span = Span { at, pixels: layout.pixels(), byte_orders: *byte_orders };
        // SAFETY: guaranteed by the caller.
        unsafe {
            if let Some(clahe) = clahe {
                return self.clahe(stream, plan, span, clahe);
            }
            self.begin(stream, plan)?;
            self.count(stream, plan, span, true)?;
            self.apply(stream, plan, span)?;
        }
        self.end(plan);
        Ok(())
    }

    /// Prepares the tables for a picture that is to be counted, if its plan is one with a LUT for a whole plane.
    ///
    /// # Safety
    /// Only this stream may use the tables until it is done.
    pub(super) unsafe fn begin(&self, stream: &Stream, plan: &Plan<'_>) -> Result<()> {
        if plan.is_left_to_kernels() && plan.layout.depth == Depth::Eight {
            return Ok(());
        }
        // SAFETY: guaranteed by the caller.
        unsafe {
            self.engine.kernels.clear(stream, plan.kind.planes() as usize, plan.layout.depth, &self.tables)
        }
    }

    /// Counts a span of the picture. After the `last` one its pixels can go through [`Equalizer::apply`].
    ///
    /// # Safety
    /// Only this stream may use span and tables until it is done.
    pub(super) unsafe fn count(
        &mut self,
        stream: &Stream,
        plan: &Plan<'_>,
        span: Span,
        last: bool,
    ) -> Result<()> {
        let (kernels, strength) = (&self.engine.kernels, plan.operation.strength);
        // SAFETY: guaranteed by the caller.
        unsafe {
            if plan.is_left_to_kernels() {
                return kernels.count_for_luts(stream, plan.what(), span, &self.tables, last, strength);
            }
            kernels.count(stream, plan.what(), span, self.tables.counts(0, plan.layout.depth))?;
            if last { self.make_luts(stream, plan) } else { Ok(()) }
        }
    }

    /// Waits for the counts, makes the LUTs of them, and uploads these.
    ///
    /// # Safety
    /// As [`Equalizer::count`].
    unsafe fn make_luts(&mut self, stream: &Stream, plan: &Plan<'_>) -> Result<()> {
        let depth = plan.layout.depth;
        let mut counted = vec![0_u32; plan.kind.planes() as usize * depth.levels()];
        // SAFETY: the counts are waited for; the rest is guaranteed by the caller.
        unsafe { stream.download(self.tables.counts(0, depth), bytemuck::cast_slice_mut(&mut counted))? };
        self.counted.record(stream)?;
        self.counted.wait()?;
        let counts: Vec<u64> = counted.into_iter().map(u64::from).collect();
        let bytes = counts.len() * depth.bytes();
        self.luts.resize(bytes.div_ceil(size_of::<u64>()), 0);
        let luts = &mut bytemuck::cast_slice_mut(&mut self.luts)[..bytes];
        lut::fill(&plan.operation, depth, &counts, plan.reference, luts);
        // SAFETY: the LUTs are not written again before the stream has been waited for; the rest is guaranteed by the caller.
        unsafe { stream.upload(luts, self.tables.luts) }
    }

    /// Sends a span of a picture that has been counted through its LUTs.
    ///
    /// # Safety
    /// As [`Equalizer::count`].
    pub(super) unsafe fn apply(&self, stream: &Stream, plan: &Plan<'_>, span: Span) -> Result<()> {
        let (kernels, strength) = (&self.engine.kernels, plan.operation.strength);
        // SAFETY: guaranteed by the caller.
        unsafe {
            match plan.is_left_to_kernels() {
                true => kernels.apply(stream, plan.what(), span, &self.tables, strength),
                false => kernels.map(stream, plan.what(), span, &self.tables),
            }
        }
    }

    /// Moves on to the tables for the next picture, once all of this one has been enqueued.
    pub(super) fn end(&mut self, plan: &Plan<'_>) {
        if plan.is_left_to_kernels() && plan.layout.depth == Depth::Eight {
            self.tables = self.tables.next();
        }
    }

    /// # Safety
    /// As [`Equalizer::equalize`].
    unsafe fn clahe(&self, stream: &Stream, plan: &Plan<'_>, span: Span, clahe: &ClahePlan) -> Result<()> {
        let (kernels, &Plan { ref layout, kind, operation, .. }) = (&self.engine.kernels, plan);
        // SAFETY: guaranteed by the caller.
        unsafe {
            let Some(plane) = clahe.plane else {
                return self.clahe_of_plane(stream, layout, span, clahe);
            };
            let native = Span { at: plane, byte_orders: ByteOrders::NATIVE, ..span };
            let ByteOrders { from, to } = span.byte_orders;
            let channels = channels(kind);
            for (number, &channel) in channels.iter().enumerate() {
                // Each insertion writes all channels.
                let to = if number + 1 == channels.len() { to } else { from };
                let span = Span { byte_orders: ByteOrders { from, to }, ..span };
                kernels.extract(stream, layout, span, (plane, channel))?;
                self.clahe_of_plane(stream, layout, native, clahe)?;
                kernels.insert(stream, layout, span, (plane, channel), operation.strength)?;
            }
        }
        Ok(())
    }

    /// # Safety
    /// As [`Equalizer::equalize`], for the pixels of a plane.
    unsafe fn clahe_of_plane(
        &self,
        stream: &Stream,
        layout: &Layout,
        plane: Span,
        clahe: &ClahePlan,
    ) -> Result<()> {
        let &ClahePlan { memory, clip_limit, levels, counts, luts, .. } = clahe;
        // SAFETY: guaranteed by the caller.
        unsafe {
            let memory = if clip_limit.needs_levels(levels) {
                let in_use = self.levels_in_use(stream, layout.depth, plane)?;
                let Some(clipping) = Clipping::of_levels(in_use, memory.area()) else {
                    return self.convert_plane(stream, layout, plane);
                };
                memory.with(&clipping)
            } else {
                memory
            };
            self.engine.kernels.clahe(stream, plane, &memory, counts, luts)
        }
    }

    /// Converts a plane that keeps its levels from one byte order to the other.
    ///
    /// # Safety
    /// As [`Equalizer::equalize`], for the pixels of a plane.
    unsafe fn convert_plane(&self, stream: &Stream, layout: &Layout, plane: Span) -> Result<()> {
        let ByteOrders { from, to } = plane.byte_orders;
        if from == to {
            return Ok(());
        }
        // Bytes are swapped alike in both directions.
        let byte_orders = ByteOrders { from: ByteOrder::Swapped, to: ByteOrder::Native };
        let layout = Layout { pixel: Pixel::Gray, ..*layout };
        // SAFETY: a plane is gray, and guaranteed by the caller.
        unsafe {
            self.engine.kernels.extract(stream, &layout, Span { byte_orders, ..plane }, (plane.at, Some(0)))
        }
    }

    /// Counts a plane, and waits for the levels that occur in it.
    ///
    /// # Safety
    /// As [`Equalizer::equalize`], for the pixels of a plane.
    unsafe fn levels_in_use(&self, stream: &Stream, depth: Depth, plane: Span) -> Result<LevelsInUse> {
        let (kernels, what) = (&self.engine.kernels, (Kind::Gray, depth));
        let mut counts = vec![0_u32; depth.levels()];
        let at = self.tables.counts(0, depth);
        // SAFETY: the counts are waited for; the rest is guaranteed by the caller.
        unsafe {
            kernels.clear(stream, 1, depth, &self.tables)?;
            kernels.count(stream, what, plane, at)?;
            stream.download(at, bytemuck::cast_slice_mut(&mut counts))?;
        }
        self.counted.record(stream)?;
        self.counted.wait()?;
        Ok(LevelsInUse::new(counts.iter().map(|&count| count > 0)))
    }
}

/// Returns the words for what this operation does with pictures of this layout, if there is no kernel for it.
pub(super) fn without_kernel(layout: &Layout, operation: &Operation) -> Option<&'static str> {
    match operation.method {
        _ if operation.colour == Colour::Hue && layout.pixel.colour_channels() > 1 => {
            Some("a new luma that keeps the hue")
        }
        _ if operation.colour == Colour::Lab && layout.pixel.colour_channels() > 1 => Some("L*a*b*"),
        Method::Clahe(_) if layout.depth == Depth::Eight && operation.levels.are_fewer(layout.depth) => {
            Some("CLAHE of 8-bit pictures with fewer levels")
        }
        _ => None,
    }
}

/// Makes room for `bytes` bytes and returns its address. A buffer that is too small is replaced, without its content, by one of whole MiB.
pub(super) fn grow(buffer: &mut Buffer, bytes: u64) -> std::result::Result<Address, LaneError> {
    if buffer.bytes() < bytes {
        *buffer = Buffer::default();
        // Nothing has been done to the picture at this point; later, the same error is one of the device.
        let trouble =
            |error: CudaError| if error.is_out_of_memory() { LaneError::Full } else { error.into() };
        *buffer = Buffer::new(bytes.next_multiple_of(1 << 20)).map_err(trouble)?;
    }
    Ok(buffer.address())
}

/// Returns the planes that CLAHE works on: luma (`None`), or channels by number.
const fn channels(kind: Kind) -> &'static [Option<u32>] {
    match kind {
        Kind::Gray | Kind::GrayAlpha => &[Some(0)],
        Kind::RgbLuma | Kind::RgbaLuma => &[None],
        Kind::RgbChannels | Kind::RgbaChannels => &[Some(0), Some(1), Some(2)],
    }
}
