//! Computation: an engine, opened once per process, and its lanes, one per thread.

use codec::coders::{Codestream, CompressedJpeg, Streams};
use equalize::{ByteOrder, ByteOrders, Layout, Operation};

use crate::gpu_info::GpuInfo;
use crate::order::{Order, Parts};

/// A failure of the device, as the worker sees it.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct EngineError(pub String);

impl EngineError {
    /// Returns the error for a device with results that cannot be trusted.
    pub(crate) fn wrong_results() -> Self {
        Self(
            "its results differ from the CPU's: its memory, its driver or histeqd is faulty; please report it"
                .to_owned(),
        )
    }
}

/// The reason why a lane did not complete a picture.
#[derive(Debug, thiserror::Error)]
pub enum LaneError {
    /// The picture is left to others, for this reason.
    #[error("{0}")]
    Decline(String),
    /// The picture is left to others, because there is not enough memory for it.
    #[error("it does not fit into the GPU's memory")]
    Full,
    /// The device failed; the worker must end.
    #[error(transparent)]
    Device(#[from] EngineError),
}

/// A worker's backend: opened once, then shared by its lanes.
pub trait Engine: Send + Sync {
    /// Returns the properties of the GPU; `None` for the CPU.
    fn info(&self) -> Option<GpuInfo>;

    /// Prepares memory for fast transfers, before any lane sees it.
    ///
    /// The memory must stay mapped until it is unpinned.
    ///
    /// # Errors
    /// If the device refuses the memory.
    fn pin(&self, memory: &mut [u8]) -> Result<(), EngineError>;

    /// Undoes [`Engine::pin`].
    fn unpin(&self, memory: &mut [u8]);

    /// Creates a lane, to be used on the calling thread only.
    ///
    /// # Errors
    /// If the device has no room for it.
    fn lane(&self) -> Result<Box<dyn Lane + '_>, EngineError>;

    /// Creates a JPEG lane, to be used on the calling thread only.
    ///
    /// Its files have the CPU's bytes, and several lanes share a GPU well. Before it is returned,
    /// it has recoded a few small files.
    ///
    /// # Errors
    /// If this backend cannot decode JPEGs, or the device has no room for the lane; if the small
    /// files came out with other bytes than the CPU's.
    fn jpeg_lane(&self) -> Result<Box<dyn JpegLane + '_>, EngineError>;

    /// Creates a lane for codestreams of JPEG 2000, to be used on the calling thread only.
    ///
    /// It takes little memory until its first one.
    ///
    /// # Errors
    /// If this backend cannot decode them, or the device has no room for the lane.
    fn codestream_lane(&self) -> Result<Box<dyn CodestreamLane + '_>, EngineError>;

    /// Creates a lane for streams of deflate, to be used on the calling thread only.
    ///
    /// It takes little memory until its first ones.
    ///
    /// # Errors
    /// If this backend neither inflates nor deflates, or the device has no room for the lane.
    fn stream_lane(&self) -> Result<Box<dyn StreamLane + '_>, EngineError>;
}

/// A lane that equalizes pictures on a device, one after the other.
pub trait Lane {
    /// Equalizes the pixels in place, as [`equalize::equalize_like`] does.
    ///
    /// `reference` are the counts of a reference. Converts pixels from one byte order to the other,
    /// and returns once they can be read.
    ///
    /// # Errors
    /// [`LaneError`]. The pixels of a declined picture are unchanged; after a device failure they
    /// are undefined.
    fn equalize(
        &mut self,
        pixels: &mut [u8],
        layout: &Layout,
        byte_orders: ByteOrders,
        operation: &Operation,
        reference: &[u64],
    ) -> Result<(), LaneError>;

    /// Sends the pixels through LUTs of an operation in place, as [`equalize::apply`] does.
    ///
    /// Converts pixels from one byte order to the other, and returns once they can be read.
    ///
    /// # Errors
    /// As [`Lane::equalize`].
    fn apply(
        &mut self,
        pixels: &mut [u8],
        layout: &Layout,
        byte_orders: ByteOrders,
        operation: &Operation,
        luts: &[u8],
    ) -> Result<(), LaneError>;

    /// Counts all planes of the pixels into `counts`, as [`equalize::count::count`] does.
    ///
    /// `byte_order` is that of the pixels.
    ///
    /// # Errors
    /// [`LaneError`]; the counts are then undefined.
    fn count(
        &mut self,
        pixels: &[u8],
        layout: &Layout,
        byte_order: ByteOrder,
        counts: &mut [u64],
    ) -> Result<(), LaneError>;

    /// Makes the GPU fail, to test the handling of its pictures.
    ///
    /// # Errors
    /// Always.
    fn trap(&mut self) -> Result<(), EngineError> {
        no_trap()
    }

    /// Carries out an order on the bytes of a slot.
    ///
    /// Equalized pixels are converted from one byte order to the other.
    ///
    /// # Errors
    /// [`LaneError`]; the bytes are then undefined.
    fn carry_out(
        &mut self,
        slot: &mut [u8],
        layout: &Layout,
        byte_orders: ByteOrders,
        order: &Order,
    ) -> Result<(), LaneError> {
        let Parts { front: pixels, counts, given } = order.all_parts(slot, layout);
        let ByteOrders { from, to } = byte_orders;
        match order {
            Order::Equalize(operation) => self.equalize(pixels, layout, byte_orders, operation, given),
            Order::EqualizeFrames { operation, frames } => {
                let frame = layout.frame(*frames);
                pixels
                    .chunks_exact_mut(frame.bytes() as usize)
                    .try_for_each(|pixels| self.equalize(pixels, &frame, byte_orders, operation, &[]))
            }
            Order::Apply(operation) => {
                let luts = bytemuck::cast_slice(given);
                self.apply(pixels, layout, byte_orders, operation, luts)
            }
            Order::Nothing => Ok(()),
            Order::Count { equalize: None } => self.count(pixels, layout, from, counts),
            Order::Count { equalize: Some(operation) } => {
                let (before, after) = counts.split_at_mut(counts.len() / 2);
                self.count(pixels, layout, from, before)?;
                self.equalize(pixels, layout, byte_orders, operation, given)?;
                self.count(pixels, layout, to, after)
            }
        }
    }
}

fn no_trap() -> Result<(), EngineError> {
    Err(EngineError("only a GPU can trap".to_owned()))
}

/// A lane that recodes JPEGs on a device, one batch after the other.
pub trait JpegLane {
    /// Decodes a batch and carries out its orders, each picture in its slot.
    ///
    /// An order that changes pixels replaces the file by another; counts are left behind the file.
    /// Returns once the slots can be read. Pictures that the lane does not take are declined.
    ///
    /// # Errors
    /// If the device fails; the slots are then undefined and the worker must end.
    fn recode(&mut self, batch: &mut [Recoding<'_>]) -> Result<(), EngineError>;

    /// As [`Lane::trap`].
    ///
    /// # Errors
    /// Always.
    fn trap(&mut self) -> Result<(), EngineError> {
        no_trap()
    }
}

/// A lane that decodes codestreams of JPEG 2000 on a device, one after the other.
pub trait CodestreamLane {
    /// Decodes the codestream at the start of a slot and replaces it with its samples.
    ///
    /// It does so as [`codec::coders::CodestreamDecoder::decode`] does, and returns once they may
    /// be read. The slot has [`Codestream::slot_bytes`].
    ///
    /// # Errors
    /// [`LaneError`]; the slot is then undefined.
    fn decode(&mut self, slot: &mut [u8], codestream: &Codestream) -> Result<(), LaneError>;
}

/// A lane that inflates and deflates streams on a device, many at once.
pub trait StreamLane {
    /// Replaces the streams in a slot by their data, or data by streams.
    ///
    /// It does so as [`codec::coders::StreamCoder::code`] does, and returns once they can be read.
    ///
    /// # Errors
    /// [`LaneError`]; the slot is then undefined.
    fn code(&mut self, slot: &mut [u8], streams: &Streams) -> Result<(), LaneError>;
}

/// The number of pictures from which on a JPEG lane is hardly faster if it takes more at a time.
pub const JPEG_BATCH: usize = 20;

/// A JPEG that a lane is recoding.
pub struct Recoding<'m> {
    /// Its slot, which holds the file first and finally the result, as [`Order::slot_bytes`] says.
    pub slot: &'m mut [u8],
    /// The description of the file.
    pub jpeg: CompressedJpeg,
    /// The work on it, one of those that [are for JPEGs](Order::is_for_jpegs).
    pub order: Order,
    /// The result of recoding.
    pub answer: Recoded,
}

impl Recoding<'_> {
    pub(crate) fn decline(&mut self, reason: &str) {
        self.answer = Recoded::Declined(reason.to_owned());
    }

    /// Returns the bytes of the file; `None` if it claims to be longer than the slot.
    pub(crate) fn file(&self) -> Option<&[u8]> {
        self.slot.get(..usize::try_from(self.jpeg.bytes).ok()?)
    }

    /// Returns whether the slot is as long as the order needs.
    pub(crate) fn has_slot(&self) -> bool {
        self.order.slot_bytes(&self.jpeg) <= self.slot.len() as u64
    }

    /// Returns the order's other input.
    pub(crate) fn given(&self) -> &[u64] {
        self.order.given_in(self.slot, &self.jpeg)
    }

    /// Returns the room for the result.
    pub(crate) fn room(&mut self) -> &mut [u8] {
        self.order.parts(self.slot, &self.jpeg).0
    }
}

/// The result of recoding a JPEG.
pub enum Recoded {
    /// The slot begins with the result, which has this many bytes.
    Encoded(u64),
    /// The counts are in the slot, behind the file.
    Counted,
    /// It is left to the CPU, for this reason.
    ///
    /// The reason is empty if there is no need to report it, as for damaged data, which the CPU
    /// reports itself.
    Declined(String),
}
