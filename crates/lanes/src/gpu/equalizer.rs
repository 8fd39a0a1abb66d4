//! Equalization of pixels in device memory.
//!
//! Its tables and other memory are allocated once and reused.
#![allow(unsafe_code)]

use super::driver::{Address, Buffer, CudaError, Event, Result, Stream};
use super::engine::GpuEngine;
use super::kernels::{ClaheTask, Kind, Span, Tables};
use crate::lane::LaneError;
use equalize::count::planes;
use equalize::{ByteOrders, Colour, Depth, Layout, Method, Operation, Pixel, colour, lut};

/// The tables and the memory of a lane for equalization, always on the same stream.
pub(super) struct Equalizer<'e> {
    engine: &'e GpuEngine,
    tables: Tables,
    /// Owns the memory of `tables`.
    _tables: Buffer,
    memory: Growing,
    counted: Event,
    /// LUTs on their way to the device, aligned for either depth.
    luts: Vec<u64>,
}

/// Device memory that grows with the pictures.
#[derive(Default)]
struct Growing {
    plane: Buffer,
    clahe: Buffer,
}

/// A plan for equalizing a picture, with all memory allocated.
pub(super) struct Plan<'r> {
    layout: Layout,
    byte_orders: ByteOrders,
    kind: Kind,
    operation: Operation,
    reference: &'r [u64],
    /// The launches of CLAHE, and the memory for them.
    clahe: Option<(ClaheTask, Address)>,
}

impl Plan<'_> {
    /// Returns whether kernels make the LUTs.
    ///
    /// The LUTs of other methods, after an exposure, of fewer levels and of linked colours are made
    /// here, from counts that kernels make.
    fn is_left_to_kernels(&self) -> bool {
        self.operation.method == Method::Global
            && self.operation.exposure.is_none()
            && !self.operation.levels.are_fewer(self.layout.depth)
            && self.operation.colour != Colour::Linked
    }

    /// Returns whether each block makes the LUTs, from counts that were zeroed before.
    fn is_left_to_blocks(&self) -> bool {
        self.is_left_to_kernels()
            && self.kind.colouring.relight.is_none()
            && self.layout.depth == Depth::Eight
    }
}

impl<'e> Equalizer<'e> {
    pub(super) fn new(engine: &'e GpuEngine, stream: &Stream) -> Result<Self> {
        let lab = equalize::lab_tables();
        let tables = Buffer::new(Tables::BYTES + lab.len() as u64)?;
        let at = Tables::new(tables.address());
        // SAFETY: the memory was just allocated, and the tables for L*a*b* stay as they are; the
        // stream, on which all kernels run, does this first.
        unsafe {
            stream.zero(tables.address(), Tables::BYTES)?;
            stream.upload(lab, at.lab)?;
        }
        let memory = Growing::default();
        let counted = Event::new()?;
        Ok(Self { engine, tables: at, _tables: tables, memory, counted, luts: Vec::new() })
    }

    /// Returns room for a plane of `bytes` bytes.
    pub(super) fn plane(&mut self, bytes: u64) -> std::result::Result<Address, LaneError> {
        grow(&mut self.memory.plane, bytes)
    }

    /// Frees all memory that grew.
    pub(super) fn shrink(&mut self) {
        self.memory = Growing::default();
    }

    /// Allocates the memory for equalizing such a picture.
    ///
    /// `taken` bytes are in the lane for pixels already. `reference` is as for
    /// [`equalize::equalize_like`].
    pub(super) fn plan<'r>(
        &mut self,
        layout: &Layout,
        byte_orders: ByteOrders,
        operation: &Operation,
        reference: &'r [u64],
        taken: u64,
    ) -> std::result::Result<Plan<'r>, LaneError> {
        let has_fewer = operation.levels.are_fewer(layout.depth);
        if matches!(operation.method, Method::Clahe(_)) && layout.depth == Depth::Eight && has_fewer {
            return Err(LaneError::Decline(
                "CLAHE of 8-bit pictures with fewer levels has no kernel".to_owned(),
            ));
        }
        let kind = Kind::new(operation, layout, &self.tables);
        let clahe = match operation.method {
            Method::Global | Method::Plateau(_) | Method::Stretch(_) | Method::Match => None,
            Method::Clahe(clahe) => {
                let kernels = &self.engine.kernels;
                let task = kernels.clahe_task(layout, &clahe, operation, kind.colouring.relight);
                let bytes = kernels.clahe_bytes(&task);
                if taken + bytes > self.engine.lane_memory {
                    return Err(LaneError::Full);
                }
                Some((task, grow(&mut self.memory.clahe, bytes)?))
            }
        };
        Ok(Plan { layout: *layout, byte_orders, kind, operation: *operation, reference, clahe })
    }

    /// Equalizes the pixels at an address in place.
    ///
    /// # Safety
    /// The plan must be the last one made, or one for a picture of the same size; there must be as
    /// many pixels as in the plan, used by this stream alone until it is done.
    pub(super) unsafe fn equalize(&mut self, stream: &Stream, at: Address, plan: &Plan<'_>) -> Result<()> {
        let Plan { layout, byte_orders, clahe, .. } = plan;
        let span = Span { at, pixels: layout.pixels(), byte_orders: *byte_orders };
        // SAFETY: guaranteed by the caller.
        unsafe {
            if let Some((task, memory)) = clahe {
                return self.engine.kernels.clahe(stream, layout, span, task, *memory);
            }
            self.begin(stream, plan)?;
            self.count(stream, plan, span, true)?;
            self.apply(stream, plan, span)?;
        }
        self.end(plan);
        Ok(())
    }

    /// Prepares the tables for a picture that is to be counted.
    ///
    /// Its plan must have a LUT for a whole plane.
    ///
    /// # Safety
    /// Only this stream may use the tables until it is done.
    pub(super) unsafe fn begin(&self, stream: &Stream, plan: &Plan<'_>) -> Result<()> {
        if plan.is_left_to_blocks() {
            return Ok(());
        }
        // SAFETY: guaranteed by the caller.
        unsafe { self.engine.kernels.clear(stream, plan.kind.planes(), plan.layout.depth, &self.tables) }
    }

    /// Counts a span of the picture.
    ///
    /// After the `last` one its pixels can go through [`Equalizer::apply`].
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
        let (kernels, tables) = (&self.engine.kernels, &self.tables);
        // SAFETY: guaranteed by the caller.
        unsafe {
            if plan.is_left_to_blocks() {
                return kernels.count(stream, plan.kind, span, tables.counts8());
            }
            kernels.count(stream, plan.kind, span, tables.counts(0, plan.layout.depth))?;
            match last {
                false => Ok(()),
                true if plan.is_left_to_kernels() => {
                    kernels.make_luts(stream, plan.kind, tables, plan.operation.strength)
                }
                true => self.make_luts(stream, plan),
            }
        }
    }

    /// Waits for the counts, makes the LUTs from them, and uploads these.
    ///
    /// # Safety
    /// As [`Equalizer::count`].
    unsafe fn make_luts(&mut self, stream: &Stream, plan: &Plan<'_>) -> Result<()> {
        let depth = plan.layout.depth;
        let mut counted = vec![0_u32; plan.kind.planes() * depth.levels()];
        // SAFETY: the counts are waited for; the rest is guaranteed by the caller.
        unsafe { stream.download(self.tables.counts(0, depth), bytemuck::cast_slice_mut(&mut counted))? };
        self.counted.record(stream)?;
        self.counted.wait()?;
        let mut counts: Vec<u64> = counted.into_iter().map(u64::from).collect();
        // Linked colours have one LUT, from the sum of the channels' counts.
        let of_luts = plan.operation.planes(plan.layout.pixel) * depth.levels();
        let (sums, others) = counts.split_at_mut(of_luts);
        for counts in others.chunks_exact(of_luts) {
            sums.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
        }
        counts.truncate(of_luts);
        let bytes = counts.len() * depth.bytes();
        self.luts.resize(bytes.div_ceil(size_of::<u64>()), 0);
        let luts = &mut bytemuck::cast_slice_mut(&mut self.luts)[..bytes];
        lut::fill(&plan.operation, depth, &counts, plan.reference, luts);
        // SAFETY: the LUTs are not written again before the stream has been waited for; the rest is
        // guaranteed by the caller.
        unsafe { self.engine.kernels.upload_luts(stream, plan.kind, luts, &self.tables) }
    }

    /// Sends a span of a picture that has been counted through its LUTs.
    ///
    /// # Safety
    /// As [`Equalizer::count`].
    pub(super) unsafe fn apply(&self, stream: &Stream, plan: &Plan<'_>, span: Span) -> Result<()> {
        let (kernels, strength) = (&self.engine.kernels, plan.operation.strength);
        // SAFETY: guaranteed by the caller.
        unsafe {
            match plan.is_left_to_blocks() {
                true => kernels.apply8(stream, plan.kind, span, &self.tables, strength),
                false => kernels.map(stream, plan.kind, span, &self.tables),
            }
        }
    }

    /// Uploads the LUTs for a picture of this layout.
    ///
    /// There is one for each plane that the operation equalizes, as [`equalize::apply`] takes
    /// them. Returns the kind of picture for [`Equalizer::map`].
    ///
    /// # Safety
    /// Only this stream may use LUTs and tables until it is done.
    pub(super) unsafe fn upload_luts(
        &self,
        stream: &Stream,
        layout: &Layout,
        operation: &Operation,
        luts: &[u8],
    ) -> Result<Kind> {
        let kind = Kind::new(operation, layout, &self.tables);
        // SAFETY: guaranteed by the caller.
        unsafe { self.engine.kernels.upload_luts(stream, kind, luts, &self.tables)? };
        Ok(kind)
    }

    /// Sends a span through the LUTs of [`Equalizer::upload_luts`].
    ///
    /// # Safety
    /// As [`Equalizer::count`].
    pub(super) unsafe fn map(&self, stream: &Stream, kind: Kind, span: Span) -> Result<()> {
        // SAFETY: guaranteed by the caller.
        unsafe { self.engine.kernels.map(stream, kind, span, &self.tables) }
    }

    /// Prepares the tables for counting all planes of a picture.
    ///
    /// # Safety
    /// Only this stream may use the tables until it is done.
    pub(super) unsafe fn begin_planes(&self, stream: &Stream, layout: &Layout) -> Result<()> {
        let number = planes(layout.pixel).len();
        // SAFETY: guaranteed by the caller.
        unsafe { self.engine.kernels.clear(stream, number, layout.depth, &self.tables) }
    }

    /// Counts all planes of a span, as [`equalize::count::count`] does.
    ///
    /// `alpha` is room for the samples of its alpha, if it has one.
    ///
    /// # Safety
    /// As [`Equalizer::count`].
    pub(super) unsafe fn count_planes(
        &self,
        stream: &Stream,
        layout: &Layout,
        span: Span,
        alpha: Address,
    ) -> Result<()> {
        let kernels = &self.engine.kernels;
        for (number, &counted) in planes(layout.pixel).iter().enumerate() {
            let to = self.tables.counts(number, layout.depth);
            // SAFETY: guaranteed by the caller.
            unsafe {
                match counted {
                    // The first channel stands for all colours, which are counted together.
                    colour::Plane::Channel(0) => {
                        kernels.count(stream, Kind::plain(layout, true), span, to)?;
                    }
                    colour::Plane::Channel(channel) if channel >= layout.pixel.colour_channels() => {
                        kernels.extract(stream, layout, span, alpha, channel as u32)?;
                        let alpha = Span { at: alpha, byte_orders: ByteOrders::NATIVE, ..span };
                        let gray = Kind { pixel: Pixel::Gray, ..Kind::plain(layout, false) };
                        kernels.count(stream, gray, alpha, to)?;
                    }
                    colour::Plane::Channel(_) => {}
                    colour::Plane::Lightness | colour::Plane::Colours => {
                        unreachable!("it is not among what is counted")
                    }
                    colour::Plane::Luma => {
                        kernels.count(stream, Kind::plain(layout, false), span, to)?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Downloads the counts of [`Equalizer::count_planes`].
    ///
    /// # Safety
    /// As [`Stream::download`].
    pub(super) unsafe fn download_counts(
        &self,
        stream: &Stream,
        layout: &Layout,
        counts: &mut [u32],
    ) -> Result<()> {
        let from = self.tables.counts(0, layout.depth);
        // SAFETY: guaranteed by the caller.
        unsafe { stream.download(from, bytemuck::cast_slice_mut(counts)) }
    }

    /// Moves on to the tables for the next picture, once all of this one has been enqueued.
    pub(super) fn end(&mut self, plan: &Plan<'_>) {
        if plan.is_left_to_blocks() {
            self.tables = self.tables.next();
        }
    }
}

/// Makes room for `bytes` bytes and returns its address.
///
/// A buffer that is too small is replaced, without its content, by one of whole MiB.
pub(super) fn grow(buffer: &mut Buffer, bytes: u64) -> std::result::Result<Address, LaneError> {
    if buffer.bytes() < bytes {
        *buffer = Buffer::default();
        // The picture is unchanged at this point; later, the same error is one of the device.
        let trouble =
            |error: CudaError| if error.is_out_of_memory() { LaneError::Full } else { error.into() };
        *buffer = Buffer::new(bytes.next_multiple_of(1 << 20)).map_err(trouble)?;
    }
    Ok(buffer.address())
}
