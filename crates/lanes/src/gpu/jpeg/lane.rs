//! A lane that recodes JPEGs with histeqd's own coder.
#![allow(unsafe_code)]

use super::recoder::{File, Recoder};
use super::self_test;
use crate::gpu::driver::{Address, CudaError, Event, Stream};
use crate::gpu::engine::GpuEngine;
use crate::gpu::equalizer::Equalizer;
use crate::gpu::kernels::{Cover, Recolouring, Span};
use crate::lane::{EngineError, JpegLane, LaneError, Recoded, Recoding};
use crate::order::Order;
use codec::baseline::{BaselineOutput, BaselinePicture};
use equalize::{ByteOrders, Colour, Layout, Pixel, count};
use tracing::trace_span;

/// A lane's share of device memory, divided by this, is left for CLAHE.
const SHARE_OF_CLAHE: u64 = 8;

/// About the most bytes of device memory for several pictures at once.
const MEMORY_OF_SEVERAL: u64 = 2 << 30;

/// The most bytes before the data of a picture: two tables of divisors, four codes, and headers.
const MOST_AHEAD: u64 = 2048;

/// The marker at the end of a file.
const EOI: [u8; 2] = [0xff, 0xd9];

pub(in crate::gpu) struct CoderLane<'e> {
    engine: &'e GpuEngine,
    stream: Stream,
    done: Event,
    equalizer: Equalizer<'e>,
    recoder: Recoder,
    /// The counts of each picture of a batch. The stream writes them until it has been waited for.
    counted: Vec<Vec<u32>>,
}

impl<'e> CoderLane<'e> {
    /// Creates a lane that has recoded small files to the bytes of the CPU.
    ///
    /// # Errors
    /// If the device has no room for it, or writes other bytes.
    pub(in crate::gpu) fn new(engine: &'e GpuEngine) -> Result<Self, EngineError> {
        engine.context.bind()?;
        let stream = Stream::new()?;
        let equalizer = Equalizer::new(engine, &stream)?;
        let (done, recoder, counted) = (Event::new()?, Recoder::default(), Vec::new());
        let mut lane = Self { engine, stream, done, equalizer, recoder, counted };
        self_test::check(&mut lane)?;
        Ok(lane)
    }

    /// Waits until the stream is through.
    fn wait(&self) -> Result<(), CudaError> {
        self.done.record(&self.stream)?;
        self.done.wait()
    }

    /// Carries out the orders of as many pictures, from the first on, as there is room for.
    ///
    /// Either counts them or changes them, as the first order asks for; returns their number.
    fn some(&mut self, batch: &mut [Recoding<'_>]) -> Result<usize, EngineError> {
        let most = self.engine.lane_memory - self.engine.lane_memory / SHARE_OF_CLAHE;
        let room = most.min(MEMORY_OF_SEVERAL);
        let mut files = Vec::new();
        let mut bytes = 0;
        let are_counted = batch.first().is_some_and(|first| !first.order.equalizes());
        for picture in batch.iter().take_while(|picture| picture.order.equalizes() != are_counted) {
            let file = described(picture);
            let more = file.as_ref().map_or(0, Recoder::bytes);
            if bytes + more > room && !files.is_empty() {
                break;
            }
            bytes += if more > most { 0 } else { more };
            files.push(file.filter(|_| more <= most));
        }
        let done = if are_counted { self.count(batch, &files) } else { self.code(batch, &files) };
        let taken = files.len();
        drop(files);
        match done {
            Ok(()) if are_counted => self.leave_counts(&mut batch[..taken]),
            Ok(()) => self.retrieve(&mut batch[..taken])?,
            Err(LaneError::Device(error)) => return Err(error),
            Err(LaneError::Decline(_) | LaneError::Full) => {
                self.wait()?;
                batch[..taken].iter_mut().for_each(leave);
                self.recoder = Recoder::default();
                self.equalizer.shrink();
            }
        }
        Ok(taken)
    }

    /// Decodes, equalizes and codes pictures. Their files stay in their slots.
    fn code(&mut self, batch: &[Recoding<'_>], files: &[Option<File<'_>>]) -> Result<(), LaneError> {
        let kernels = &self.engine.kernels;
        // SAFETY: the slots with the files are lent to this lane until it has waited for the
        // stream.
        unsafe {
            trace_span!("decode").in_scope(|| self.recoder.decode(kernels, &self.stream, files))?;
            for (number, picture) in batch.iter().enumerate().take(files.len()) {
                let Some(at) = self.recoder.pixels(number) else { continue };
                self.equalize(at, picture)?;
            }
            self.recoder.quantize(kernels, &self.stream)?;
            trace_span!("wait for samples").in_scope(|| self.wait())?;
            self.recoder.code(kernels, &self.stream, files)?;
        }
        Ok(trace_span!("wait for data").in_scope(|| self.wait())?)
    }

    /// Equalizes the pixels of a picture at this address.
    ///
    /// # Safety
    /// As [`Equalizer::equalize`]; other input in the slot must stay until the stream is through.
    unsafe fn equalize(&mut self, at: Address, picture: &Recoding<'_>) -> Result<(), LaneError> {
        let (layout, given) = (&picture.jpeg.layout, picture.given());
        // SAFETY: guaranteed by the caller.
        unsafe {
            match &picture.order {
                Order::Equalize(operation) => {
                    let plan = self.equalizer.plan(layout, ByteOrders::NATIVE, operation, given, 0)?;
                    self.equalizer.equalize(&self.stream, at, &plan)?;
                }
                Order::Apply(operation) => {
                    let luts = bytemuck::cast_slice(given);
                    let kind = self.equalizer.upload_luts(&self.stream, layout, operation, luts)?;
                    self.equalizer.map(&self.stream, kind, span(at, layout))?;
                }
                Order::EqualizeFrames { .. } | Order::Nothing | Order::Count { .. } => {
                    unreachable!("it is left to the CPU")
                }
            }
        }
        Ok(())
    }

    /// Decodes pictures and counts all their planes. Their files stay in their slots.
    fn count(&mut self, batch: &[Recoding<'_>], files: &[Option<File<'_>>]) -> Result<(), LaneError> {
        let batch = &batch[..files.len()];
        let room = |picture: &Recoding<'_>| vec![0; count::length(&picture.jpeg.layout)];
        self.counted = batch.iter().map(room).collect();
        // SAFETY: the slots with the files are lent to this lane until it has waited for the
        // stream, and the counts are its own.
        unsafe {
            trace_span!("decode")
                .in_scope(|| self.recoder.decode(&self.engine.kernels, &self.stream, files))?;
            for (number, (picture, counts)) in batch.iter().zip(&mut self.counted).enumerate() {
                let Some(at) = self.recoder.pixels(number) else { continue };
                let layout = &picture.jpeg.layout;
                self.equalizer.begin_planes(&self.stream, layout)?;
                // No JPEG has alpha.
                self.equalizer.count_planes(&self.stream, layout, span(at, layout), 0)?;
                self.equalizer.download_counts(&self.stream, layout, counts)?;
            }
            self.recoder.look(&self.stream)?;
        }
        Ok(trace_span!("wait for counts").in_scope(|| self.wait())?)
    }

    /// Leaves counts in the slots.
    fn leave_counts(&self, batch: &mut [Recoding<'_>]) {
        for (number, (picture, counted)) in batch.iter_mut().zip(&self.counted).enumerate() {
            if !self.recoder.is_whole(number) {
                leave(picture);
                continue;
            }
            let (_, counts) = picture.order.parts(picture.slot, &picture.jpeg);
            counts.iter_mut().zip(counted).for_each(|(count, &counted)| *count = counted.into());
            picture.answer = Recoded::Counted;
        }
    }

    /// Copies the results to the slots.
    fn retrieve(&self, batch: &mut [Recoding<'_>]) -> Result<(), EngineError> {
        for (number, picture) in batch.iter_mut().enumerate() {
            let Some((head, data, length)) = self.recoder.coded(number) else {
                leave(picture);
                continue;
            };
            let bytes = head.len() + length as usize + EOI.len();
            let Some(to) = picture.room().get_mut(..bytes) else {
                leave(picture);
                continue;
            };
            let (ahead, behind) = to.split_at_mut(head.len());
            let (scan, end) = behind.split_at_mut(length as usize);
            ahead.copy_from_slice(head);
            end.copy_from_slice(&EOI);
            // SAFETY: the slot is lent to this lane until it has waited for the stream.
            unsafe { self.stream.download(data, scan)? };
            picture.answer = Recoded::Encoded(bytes as u64);
        }
        Ok(self.wait()?)
    }
}

/// Returns all pixels of a picture at this address.
fn span(at: Address, layout: &Layout) -> Span {
    Span { at, pixels: layout.pixels(), byte_orders: ByteOrders::NATIVE }
}

/// Leaves a picture to the CPU, which makes the same bytes of it and reports damage itself.
fn leave(picture: &mut Recoding<'_>) {
    picture.decline("");
}

/// Describes a picture, unless it is for the CPU.
fn described<'p>(picture: &'p Recoding<'_>) -> Option<File<'p>> {
    if !picture.order.is_for_jpegs() || !picture.has_slot() {
        return None;
    }
    let file = BaselinePicture::read(picture.file()?)?;
    let layout = picture.jpeg.layout;
    let output = BaselineOutput::new(&file, picture.jpeg.quality)?;
    let keeps_hue = picture.order.operation().is_some_and(|operation| operation.colour == Colour::Hue);
    let recolouring = match (&file.components[..], layout.pixel) {
        ([_, _, _], Pixel::Rgb) => Recolouring::Rgb(cover(&file)?),
        ([_, _, _], Pixel::Gray) if keeps_hue => Recolouring::Hue(cover(&file)?),
        (_, Pixel::Gray) => Recolouring::Nothing,
        _ => return None,
    };
    let room = picture.jpeg.slot_bytes().checked_sub(MOST_AHEAD).and_then(|room| u32::try_from(room).ok())?;
    let is_same = (file.size.width, file.size.height) == (layout.width, layout.height);
    is_same.then_some(File { picture: file, output, room, recolouring })
}

/// Returns the luma that a sample of chroma covers.
///
/// `None` unless Cb and Cr have one block in an MCU, which leaves others to the CPU.
fn cover(file: &BaselinePicture<'_>) -> Option<Cover> {
    let [luma, blue, red] = &file.components[..] else { return None };
    let (across, down) = luma.in_mcu;
    let cover = Cover { across: across as u32, down: down as u32 };
    (blue.in_mcu == (1, 1) && red.in_mcu == (1, 1)).then_some(cover)
}

impl JpegLane for CoderLane<'_> {
    fn recode(&mut self, batch: &mut [Recoding<'_>]) -> Result<(), EngineError> {
        let mut rest = batch;
        while !rest.is_empty() {
            let taken = self.some(rest);
            if taken.is_err() {
                // This can fail too, if the device does not respond any more.
                let _ = self.wait();
            }
            rest = &mut rest[taken?..];
        }
        Ok(())
    }

    fn trap(&mut self) -> Result<(), EngineError> {
        self.engine.kernels.trap(&self.stream)?;
        Ok(self.wait()?)
    }
}
