//! A lane that turns JPEGs into JPEGs: decoded by nvJPEG, equalized where the planes then lie, and encoded by nvJPEG. Only compressed bytes
//! go over the bus.
//!
//! Pictures are decoded in batches, which keeps all of a GPU's JPEG engines busy. Damaged pictures never get that far, because nvJPEG would
//! not report the damage. They, and pictures that nvJPEG does not support or fails on, are declined and left to the CPU; only an error of
//! the device itself is an error here.
#![allow(unsafe_code)]

use super::driver::{Buffer, CudaError, Event, Stream};
use super::engine::GpuEngine;
use super::equalizer::{Equalizer, grow};
use super::library::CallError;
use super::nvjpeg::{Encoder, Header, NvJpeg, Plane};
use super::scan_check::ScanCheck;
use crate::lane::{EngineError, JPEG_BATCH, JpegLane, LaneError, Recoded, Recoding};
use codec::{BaselineScan, CompressedJpeg};
use equalize::ByteOrders;
use tracing::trace_span;

/// A lane's share of device memory is divided by this to get the part for files and planes: nvJPEG needs some for itself.
const SHARE_OF_PICTURES: u64 = 4;

pub(super) struct NvJpegLane<'e> {
    engine: &'e GpuEngine,
    jpeg: &'e NvJpeg,
    stream: Stream,
    done: Event,
    equalizer: Equalizer<'e>,
    /// The planes of a batch.
    planes: Buffer,
    check: ScanCheck,
    /// One for each picture of a batch.
    headers: Vec<Header>,
    /// Whether a picture was declined for lack of memory.
    is_full: bool,
}

/// A picture of a batch that has not been declined.
struct Going {
    /// Its index in the batch.
    number: usize,
    planes: Vec<Plane>,
    in_batch: bool,
}

impl<'e> NvJpegLane<'e> {
    pub(super) fn new(engine: &'e GpuEngine, jpeg: &'e NvJpeg) -> Result<Self, EngineError> {
        engine.context.bind()?;
        let stream = Stream::new()?;
        let headers = headers(jpeg, &stream)?;
        Ok(Self {
            equalizer: Equalizer::new(engine, &stream)?,
            done: Event::new()?,
            planes: Buffer::default(),
            check: ScanCheck::default(),
            headers,
            is_full: false,
            engine,
            jpeg,
            stream,
        })
    }

    /// Frees all memory that grew with the pictures, nvJPEG's too.
    fn shrink(&mut self) -> Result<(), EngineError> {
        self.wait()?;
        self.planes = Buffer::default();
        self.check = ScanCheck::default();
        self.equalizer.shrink();
        self.headers.clear();
        self.jpeg.shrink();
        self.headers = headers(self.jpeg, &self.stream)?;
        self.is_full = false;
        Ok(())
    }

    /// Leaves a picture to the CPU.
    fn decline(&mut self, picture: &mut Recoding<'_>, why: &LaneError) {
        self.is_full |= matches!(why, LaneError::Full);
        picture.decline(&why.to_string());
    }

    /// Waits until the stream is through.
    fn wait(&self) -> Result<(), CudaError> {
        self.done.record(&self.stream)?;
        self.done.wait()
    }

    /// Processes as many pictures of the batch as there is room for at once, files and planes; returns how many were dealt with.
    fn some(&mut self, batch: &mut [Recoding<'_>]) -> Result<usize, EngineError> {
        let mut going = Vec::with_capacity(batch.len());
        let (mut bytes, mut files) = (0, 0);
        let mut taken = 0;
        for (number, picture) in batch.iter_mut().enumerate() {
            let file = picture.jpeg.bytes;
            match self.lay_out(number, picture, bytes) {
                Ok((_, end)) if end + files + file > self.room() && !going.is_empty() => break,
                Ok((_, end)) if end + file > self.room() => picture.decline("it is too large"),
                Ok((picture, end)) => {
                    going.push(picture);
                    bytes = end;
                    files += file;
                }
                Err(LaneError::Device(error)) => return Err(error),
                Err(declined) => self.decline(picture, &declined),
            }
            taken = number + 1;
        }
        self.process(batch, going, bytes)?;
        Ok(taken)
    }

    fn room(&self) -> u64 {
        self.engine.lane_memory / SHARE_OF_PICTURES
    }

    /// Parses the header and lays out the planes from byte `start` on, still as offsets; returns where they end.
    fn lay_out(
        &mut self,
        number: usize,
        picture: &Recoding<'_>,
        start: u64,
    ) -> Result<(Going, u64), LaneError> {
        let header = &mut self.headers[number];
        let (planes, end) = header.open(picture.file(), &picture.jpeg, start, 1)?;
        Ok((Going { number, planes, in_batch: header.is_batchable() }, end))
    }

    /// Takes pictures through all steps. Their planes are still offsets, and take `bytes` bytes.
    fn process(
        &mut self,
        batch: &mut [Recoding<'_>],
        mut going: Vec<Going>,
        bytes: u64,
    ) -> Result<(), EngineError> {
        if going.is_empty() {
            return Ok(());
        }
        match trace_span!("check").in_scope(|| self.begin(batch, &mut going, bytes)) {
            Ok(whole) => leave_damaged(batch, &mut going, &whole),
            Err(LaneError::Device(error)) => return Err(error),
            Err(declined) => {
                going.iter().for_each(|one| self.decline(&mut batch[one.number], &declined));
                return Ok(());
            }
        }
        trace_span!("decode").in_scope(|| self.decode(batch, &mut going))?;
        let mut encoders = self.jpeg.encoders(JPEG_BATCH, &self.stream).map_err(text)?;
        trace_span!("equalize and encode").in_scope(|| {
            self.each(batch, &mut going, |lane, picture, one| {
                lane.equalize_and_encode(picture, one, &mut encoders[one.number])
            })?;
            self.wait().map_err(EngineError::from)
        })?;
        let _span = trace_span!("retrieve").entered();
        self.each(batch, &mut going, |lane, picture, one| lane.retrieve(picture, &mut encoders[one.number]))?;
        Ok(self.wait()?)
    }

    /// Places the planes, zeroes them, and has the files checked; returns which files are intact. Waits for both: JPEG engines do not wait
    /// for the stream. They were seen to leave planes untouched without reporting it, and nothing of another picture may show then.
    fn begin(
        &mut self,
        batch: &[Recoding<'_>],
        going: &mut [Going],
        bytes: u64,
    ) -> Result<Vec<bool>, LaneError> {
        let at = grow(&mut self.planes, bytes)?;
        going.iter_mut().flat_map(|one| &mut one.planes).for_each(|plane| plane.at += at);
        let scan = |one: &Going| batch[one.number].file().and_then(BaselineScan::read);
        let scans: Vec<Option<BaselineScan<'_>>> = going.iter().map(scan).collect();
        // SAFETY: the buffer is that large and this lane's own; the files lie in slots that are lent to this lane; and it waits below.
        unsafe {
            self.stream.zero(at, bytes)?;
            self.check.start(&self.engine.kernels, &self.stream, &scans)?;
        }
        self.wait()?;
        self.check.are_whole(&scans).map_err(LaneError::Device)
    }

    /// Carries out a step for each picture; those for which it does not succeed are declined.
    fn each(
        &mut self,
        batch: &mut [Recoding<'_>],
        going: &mut Vec<Going>,
        mut step: impl FnMut(&mut Self, &mut Recoding<'_>, &Going) -> Result<(), LaneError>,
    ) -> Result<(), EngineError> {
        let mut failed = Ok(());
        going.retain(|one| {
            let picture = &mut batch[one.number];
            match step(self, picture, one) {
                Ok(()) => return true,
                Err(LaneError::Device(error)) => failed = Err(error),
                Err(declined) => self.decline(picture, &declined),
            }
            false
        });
        failed
    }

    /// Decodes the pictures that allow it in one batch, and the others (or, if the batch fails, all) one by one.
    fn decode(&mut self, batch: &mut [Recoding<'_>], going: &mut Vec<Going>) -> Result<(), EngineError> {
        let together: Vec<&Going> = going.iter().filter(|one| one.in_batch).collect();
        let files: Vec<&[u8]> =
            together.iter().map(|one| batch[one.number].file().expect("its header was read")).collect();
        let planes: Vec<&[Plane]> = together.iter().map(|one| &*one.planes).collect();
        let mut decoder = self.jpeg.decoder().map_err(text)?;
        // SAFETY: the planes were laid out by the headers, in this lane's buffer; `process` waits before they or the files, whose slots are
        // lent to this lane, are used again.
        let decoded =
            !together.is_empty() && unsafe { decoder.decode_all(&files, &planes, &self.stream) }.is_ok();
        self.wait()?;
        self.each(batch, going, |lane, picture, one| {
            if one.in_batch && decoded {
                return Ok(());
            }
            let file = picture.file().expect("its header was read");
            // SAFETY: as above. It waits each time, because nothing guarantees that a decoder may begin a picture before it has finished
            // another.
            unsafe { decoder.decode(file, &one.planes, &lane.stream) }?;
            Ok(lane.wait()?)
        })
    }

    fn equalize_and_encode(
        &mut self,
        picture: &mut Recoding<'_>,
        one: &Going,
        encoder: &mut Encoder,
    ) -> Result<(), LaneError> {
        let CompressedJpeg { layout, sampling, quality, .. } = picture.jpeg;
        let plan = self.equalizer.plan(
            &layout,
            ByteOrders::NATIVE,
            (&picture.operation, &[]),
            self.planes.bytes(),
        )?;
        let header = &self.headers[one.number];
        // SAFETY: luma is as large as the layout says, without padding; everything is on one stream, and `process` waits for it.
        unsafe {
            self.equalizer.equalize(&self.stream, one.planes[0].at, &plan)?;
            encoder.encode(&one.planes, sampling, quality, header, &self.stream)?;
        }
        Ok(())
    }

    fn retrieve(&mut self, picture: &mut Recoding<'_>, encoder: &mut Encoder) -> Result<(), LaneError> {
        let length = encoder.length(&self.stream)?;
        let Some(to) = picture.slot.get_mut(..length) else {
            return Err(LaneError::Decline("it has become too long for its slot".to_owned()));
        };
        // SAFETY: the slot is lent to this lane, and `process` waits for the stream.
        unsafe { encoder.retrieve(to, &self.stream)? };
        picture.answer = Recoded::Encoded(length as u64);
        Ok(())
    }
}

/// Leaves damaged pictures to the CPU without giving a reason: the CPU reports what is wrong with them.
fn leave_damaged(batch: &mut [Recoding<'_>], going: &mut Vec<Going>, whole: &[bool]) {
    for (one, _) in going.iter().zip(whole).filter(|(_, whole)| !**whole) {
        batch[one.number].decline("");
    }
    let mut whole = whole.iter();
    going.retain(|_| whole.next() == Some(&true));
}

fn text(error: CallError) -> EngineError {
    EngineError(error.to_string())
}

/// Makes what parses the headers of a batch; and the decoder and the encoders if there are none, which take little memory until they are used.
fn headers(jpeg: &NvJpeg, stream: &Stream) -> Result<Vec<Header>, EngineError> {
    trace_span!("make the decoder").in_scope(|| jpeg.decoder().map(drop)).map_err(text)?;
    trace_span!("make encoders").in_scope(|| jpeg.encoders(JPEG_BATCH, stream).map(drop)).map_err(text)?;
    (0..JPEG_BATCH).map(|_| Header::new(jpeg)).collect::<Result<_, _>>().map_err(text)
}

impl JpegLane for NvJpegLane<'_> {
    fn recode(&mut self, batch: &mut [Recoding<'_>]) -> Result<(), EngineError> {
        let mut rest = batch;
        while !rest.is_empty() {
            let result = self.some(rest);
            if result.is_err() {
                // As far as the device still responds.
                let _ = self.wait();
            }
            rest = &mut rest[result?..];
            if self.is_full {
                // The pixel lanes may need it, and other pictures.
                self.shrink()?;
            }
        }
        Ok(())
    }

    fn trap(&mut self) -> Result<(), EngineError> {
        self.engine.kernels.trap(&self.stream)?;
        Ok(self.wait()?)
    }
}
