//! A lane that inflates and deflates streams on a GPU.
//!
//! It uses nvCOMP, from a slot and back into it.
#![allow(unsafe_code)]

use super::driver::{Address, Buffer, CudaError, Event, Stream};
use super::engine::GpuEngine;
use super::equalizer::grow;
use super::nvcomp::{Batch, NvComp};
use crate::lane::{EngineError, LaneError, StreamLane};
use codec::coders::{StreamWork, Streams};

/// Divisor of a lane's share of device memory that gives the share of one of many coders.
const SHARE_OF_CODER: u64 = 4;

/// Bytes after the input that may be read with it.
const BEYOND: u64 = 256;

/// Numbers of eight bytes for each stream.
///
/// They are addresses and lengths of inputs, addresses, rooms and lengths of outputs, and a status.
const LISTS: usize = 6;

/// One of a GPU's coders: several pictures at once are needed to keep a GPU busy.
pub(super) struct GpuStreamLane<'e> {
    engine: &'e GpuEngine,
    nvcomp: &'e NvComp,
    stream: Stream,
    done: Event,
    input: Buffer,
    output: Buffer,
    lists: Buffer,
    workspace: Buffer,
}

/// The addresses of the lists of a batch, which follow one another.
struct Lists {
    batch: Batch,
    /// The content that is sent there first: all lists but the last two.
    given: Vec<u64>,
}

impl Lists {
    /// Returns lists at an address, of inputs and outputs at these addresses.
    fn new(
        streams: &Streams,
        at: Address,
        inputs: impl Iterator<Item = (Address, u64)>,
        outputs: impl Iterator<Item = Address>,
        room: u64,
    ) -> Self {
        let count = streams.count as usize;
        let (starts, lengths): (Vec<u64>, Vec<u64>) = inputs.unzip();
        let given = [starts, lengths, outputs.collect(), vec![room; count]].concat();
        let list = |number: u64| at + number * 8 * count as u64;
        let batch = Batch {
            count,
            most: streams.most as usize,
            at_inputs: list(0),
            at_input_lengths: list(1),
            at_outputs: list(2),
            at_rooms: list(3),
            at_output_lengths: list(4),
            at_statuses: list(5),
            workspace: (0, 0),
        };
        Self { batch, given }
    }
}

impl<'e> GpuStreamLane<'e> {
    pub(super) fn new(engine: &'e GpuEngine, nvcomp: &'e NvComp) -> Result<Self, EngineError> {
        engine.context.bind()?;
        let (stream, done) = (Stream::new()?, Event::new()?);
        let [input, output, lists, workspace] = [(); 4].map(|()| Buffer::default());
        Ok(Self { engine, nvcomp, stream, done, input, output, lists, workspace })
    }

    /// Waits until the stream is through.
    fn wait(&self) -> Result<(), CudaError> {
        self.done.record(&self.stream)?;
        self.done.wait()
    }

    /// Makes room for the input, the output and other memory, if they are not too large together.
    fn room(&mut self, count: usize, read: usize, written: usize, workspace: usize) -> Result<(), LaneError> {
        let (read, written) = (read as u64 + BEYOND, written as u64);
        if read + written + workspace as u64 > self.engine.lane_memory / SHARE_OF_CODER {
            return Err(LaneError::Full);
        }
        grow(&mut self.input, read)?;
        grow(&mut self.output, written)?;
        grow(&mut self.lists, (LISTS * 8 * count) as u64)?;
        grow(&mut self.workspace, workspace.max(1) as u64)?;
        Ok(())
    }

    /// Inflates the streams at these places of the slot.
    fn inflate(
        &mut self,
        slot: &mut [u8],
        streams: &Streams,
        lengths: &[u32],
    ) -> Result<Vec<u32>, LaneError> {
        let Some(places) = streams.places_within(lengths, slot.len()) else { return Err(outside()) };
        let (start, count, most) = (streams.start(), streams.count as usize, streams.most as usize);
        let end = places.last().map_or(start, |last| last.end);
        let workspace = self.nvcomp.inflate_workspace(count, most, &self.stream)?;
        self.room(count, end - start, count * streams.stride(), workspace)?;
        let (input, output) = (self.input.address(), self.output.address());
        let inputs = places.iter().map(|place| (input + (place.start - start) as u64, place.len() as u64));
        let outputs = (0..count).map(|number| output + (number * streams.stride()) as u64);
        let mut lists = Lists::new(streams, self.lists.address(), inputs, outputs, most as u64);
        lists.batch.workspace = (self.workspace.address(), workspace);
        // SAFETY: the slot is lent to this lane, and the buffers, which are large enough, are its
        // own, until it has waited below.
        unsafe {
            self.stream.upload(bytemuck::cast_slice(&lists.given), lists.batch.at_inputs)?;
            self.stream.upload(&slot[start..end], input)?;
            self.nvcomp.inflate(&lists.batch, &self.stream)?;
            self.stream.download(output, &mut slot[start..streams.end_of_data()])?;
        }
        self.lengths(&lists.batch, most)
    }

    /// Deflates the data in the slot.
    fn deflate(
        &mut self,
        slot: &mut [u8],
        streams: &Streams,
        lengths: &[u32],
    ) -> Result<Vec<u32>, LaneError> {
        let (start, end, count) = (streams.start(), streams.end_of_data(), streams.count as usize);
        if end > slot.len() || lengths.iter().any(|&length| length > streams.most) {
            return Err(outside());
        }
        let most = streams.most as usize;
        let room = self.nvcomp.room_for_stream(most)?.next_multiple_of(16);
        let workspace = self.nvcomp.deflate_workspace(count, most, &self.stream)?;
        self.room(count, end - start, count * room, workspace)?;
        let (input, output) = (self.input.address(), self.output.address());
        let inputs = (0..)
            .map(|number| input + number * streams.stride() as u64)
            .zip(lengths.iter().map(|&length| length.into()));
        let at = |number: usize| output + (number * room) as u64;
        let mut lists = Lists::new(streams, self.lists.address(), inputs, (0..count).map(at), room as u64);
        lists.batch.workspace = (self.workspace.address(), workspace);
        // SAFETY: as above.
        unsafe {
            self.stream.upload(bytemuck::cast_slice(&lists.given), lists.batch.at_inputs)?;
            self.stream.upload(&slot[start..end], input)?;
            self.nvcomp.deflate(&lists.batch, &self.stream)?;
        }
        let lengths = self.lengths(&lists.batch, room)?;
        let places = streams.places_within(&lengths, slot.len());
        let places =
            places.ok_or_else(|| LaneError::Decline("its strips get longer than they are".to_owned()))?;
        for (number, place) in places.into_iter().enumerate() {
            // SAFETY: as above.
            unsafe { self.stream.download(at(number), &mut slot[place])? };
        }
        self.wait()?;
        Ok(lengths)
    }

    /// Waits; returns the length of each output, 0 for failed streams.
    fn lengths(&self, batch: &Batch, most: usize) -> Result<Vec<u32>, LaneError> {
        // A copy to memory that is not pinned would spin until the stream is through.
        self.wait()?;
        let (mut lengths, mut statuses) = (vec![0_u64; batch.count], vec![0_u32; batch.count]);
        // SAFETY: the lists have so many numbers; this waits until they are there.
        unsafe {
            self.stream.download(batch.at_output_lengths, bytemuck::cast_slice_mut(&mut lengths))?;
            self.stream.download(batch.at_statuses, bytemuck::cast_slice_mut(&mut statuses))?;
        }
        self.wait()?;
        let result = |(&length, &status): (&u64, &u32)| match status {
            0 if length <= most as u64 => length as u32,
            _ => 0,
        };
        Ok(lengths.iter().zip(&statuses).map(result).collect())
    }
}

/// The error for invalid lengths from the main process.
fn outside() -> LaneError {
    LaneError::Decline("its slot is too small".to_owned())
}

impl StreamLane for GpuStreamLane<'_> {
    fn code(&mut self, slot: &mut [u8], streams: &Streams) -> Result<(), LaneError> {
        let lengths = streams.lengths(slot);
        let result = match streams.work {
            StreamWork::Inflate => self.inflate(slot, streams, &lengths),
            StreamWork::Deflate => self.deflate(slot, streams, &lengths),
        };
        if let Err(LaneError::Full | LaneError::Decline(_)) = result {
            // Its unfinished work may still be in the stream; and others may need the memory.
            self.wait()?;
            for buffer in [&mut self.input, &mut self.output, &mut self.workspace] {
                *buffer = Buffer::default();
            }
        }
        streams.set_lengths(slot, &result?);
        Ok(())
    }
}
