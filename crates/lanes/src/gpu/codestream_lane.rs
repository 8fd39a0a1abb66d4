//! A lane that decodes codestreams of JPEG 2000 on a GPU.
//!
//! It uses nvJPEG2000, from a slot and back into it.
#![allow(unsafe_code)]

use super::driver::{Buffer, CudaError, Event, Stream};
use super::engine::GpuEngine;
use super::equalizer::grow;
use super::nvjpeg2000::{Decoder, NvJpeg2000};
use crate::lane::{CodestreamLane, EngineError, LaneError};
use codec::coders::Codestream;

/// Divisor of a lane's share of device memory that gives the share of one of many decoders.
const SHARE_OF_DECODER: u64 = 4;

/// Bytes of device memory that nvJPEG2000 takes for a sample; measured, rounded up.
const BYTES_A_SAMPLE: u64 = 48;

/// One of a GPU's decoders: several codestreams at once are needed to keep a GPU busy.
pub(super) struct GpuCodestreamLane<'e> {
    engine: &'e GpuEngine,
    jpeg: &'e NvJpeg2000,
    /// Made for the first codestream.
    decoder: Option<Decoder<'e>>,
    stream: Stream,
    done: Event,
    samples: Buffer,
}

impl<'e> GpuCodestreamLane<'e> {
    pub(super) fn new(engine: &'e GpuEngine, jpeg: &'e NvJpeg2000) -> Result<Self, EngineError> {
        engine.context.bind()?;
        let (stream, done) = (Stream::new()?, Event::new()?);
        Ok(Self { engine, jpeg, decoder: None, stream, done, samples: Buffer::default() })
    }

    /// Waits until the stream is through.
    fn wait(&self) -> Result<(), CudaError> {
        self.done.record(&self.stream)?;
        self.done.wait()
    }

    fn decode_there(&mut self, slot: &mut [u8], codestream: &Codestream) -> Result<(), LaneError> {
        let decoder = match &mut self.decoder {
            Some(decoder) => decoder,
            none => none.insert(Decoder::new(self.jpeg)?),
        };
        let (samples, bytes) = (codestream.decoded_bytes(), &slot[..codestream.bytes as usize]);
        // SAFETY: the slot is lent to this lane, which waits before any other use of it.
        if !unsafe { decoder.parse(bytes, codestream)? } {
            return Err(LaneError::Decline("nvJPEG2000 reads its header differently".to_owned()));
        }
        let at = grow(&mut self.samples, samples)?;
        // SAFETY: the buffer is that large and this lane's own. It is zeroed to keep other pictures
        // from showing if the library leaves out samples.
        unsafe {
            self.stream.zero(at, samples)?;
            decoder.decode(codestream, at, &self.stream)?;
        }
        // The codestream is read until then, in the place of the samples.
        self.wait()?;
        // SAFETY: as above.
        unsafe { self.stream.download(at, &mut slot[..samples as usize])? };
        Ok(self.wait()?)
    }
}

impl CodestreamLane for GpuCodestreamLane<'_> {
    fn decode(&mut self, slot: &mut [u8], codestream: &Codestream) -> Result<(), LaneError> {
        let room = self.engine.lane_memory / SHARE_OF_DECODER;
        if codestream.samples().saturating_mul(BYTES_A_SAMPLE) > room {
            return Err(LaneError::Full);
        }
        let result = self.decode_there(slot, codestream);
        if let Err(LaneError::Full | LaneError::Decline(_)) = result {
            // Its unfinished work may still be in the stream; and others may need the memory.
            self.wait()?;
            self.decoder = None;
        }
        if let Err(LaneError::Full) = result {
            self.samples = Buffer::default();
        }
        result
    }
}
