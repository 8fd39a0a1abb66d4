//! Work of devices for a waiting CPU thread.
//!
//! They decode codestreams, and inflate and deflate streams.

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tracing::trace_span;

use super::machine::Machine;
use crate::device::task::{Answer, Offload, OffloadTask};
use crate::slot::schedule::Attempts;
use crate::slot::{Kind, Slot};
use codec::coders::{BlockCoder, CodedStreams, Codestream, CodestreamDecoder, StreamCoder, Streams};

/// The number of devices that may fail on a codestream which the CPU cannot decode.
const TRIES: usize = 3;

/// A coder that hands the codestreams and streams of one input to the devices of a machine.
pub struct DeviceCoder<'d> {
    machine: &'d Machine,
    attempts: &'d Attempts,
    input: &'d Path,
    /// The time that threads waited for devices, in nanoseconds.
    waited: AtomicU64,
}

impl<'d> DeviceCoder<'d> {
    /// Creates the coder for an input, after these attempts at it.
    pub fn new(machine: &'d Machine, attempts: &'d Attempts, input: &'d Path) -> Self {
        Self { machine, attempts, input, waited: AtomicU64::default() }
    }

    /// Returns how long threads waited for devices.
    pub fn waited(&self) -> Duration {
        Duration::from_nanos(self.waited.load(Ordering::Relaxed))
    }

    /// Takes a slot for a codestream.
    ///
    /// Waits for one only if the CPU cannot decode the codestream.
    fn take(&self, codestream: &Codestream) -> Option<Slot> {
        let (pool, bytes) = (&self.machine.pool, codestream.slot_bytes());
        match codestream.coder {
            BlockCoder::Usual => pool.try_take_additional(Kind::Codestream, bytes, self.attempts),
            BlockCoder::HighThroughput => {
                self.machine.cores.rest_while(|| pool.take_codestream(bytes, self.attempts))
            }
        }
    }

    /// Hands a slot to a device; returns it with the result, or `None` if the device declined.
    ///
    /// # Errors
    /// If the device failed.
    fn offload(&self, slot: Slot, offload: Offload) -> Result<Option<Slot>, Failed> {
        let _span = trace_span!("wait for a device").entered();
        let (task, answer) = OffloadTask::new(slot, offload, self.input);
        self.machine.devices.offload(task);
        let before = Instant::now();
        let answer = self.machine.cores.rest_while(|| answer.recv());
        self.waited.fetch_add(before.elapsed().as_nanos() as u64, Ordering::Relaxed);
        match answer {
            Ok(Answer::Done(slot)) => Ok(Some(slot)),
            Ok(Answer::Declined) => Ok(None),
            Err(_) => Err(Failed),
        }
    }

    /// Has a device decode a codestream; returns the slot with the samples.
    ///
    /// `None` if there is no slot for it, or the device declined.
    ///
    /// # Errors
    /// If the device failed.
    fn attempt(&self, codestream: &Codestream, bytes: &[u8]) -> Result<Option<Slot>, Failed> {
        let Some(mut slot) = self.take(codestream) else { return Ok(None) };
        slot.bytes_mut()[..bytes.len()].copy_from_slice(bytes);
        self.offload(slot, Offload::Codestream(*codestream))
    }
}

/// The failure of the device that had the slot.
struct Failed;

impl CodestreamDecoder for DeviceCoder<'_> {
    fn decode(&self, codestream: &Codestream, bytes: &[u8], into: &mut [u8]) -> bool {
        let tries = if codestream.coder == BlockCoder::HighThroughput { TRIES } else { 1 };
        let decoded = (0..tries).find_map(|_| self.attempt(codestream, bytes).ok()).flatten();
        decoded.inspect(|slot| into.copy_from_slice(&slot.bytes()[..into.len()])).is_some()
    }
}

impl StreamCoder for DeviceCoder<'_> {
    fn code(&self, streams: &Streams, fill: &mut dyn FnMut(&mut [u8]) -> bool) -> Option<CodedStreams<'_>> {
        let mut slot = self.machine.pool.try_take_additional(Kind::Streams, streams.bytes, self.attempts)?;
        if !fill(&mut slot.bytes_mut()[..streams.bytes as usize]) {
            return None;
        }
        let slot = self.offload(slot, Offload::Streams(*streams)).ok().flatten()?;
        Some(Box::new(Coded { slot, bytes: streams.bytes as usize }))
    }
}

impl fmt::Debug for DeviceCoder<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeviceCoder").field("input", &self.input).finish_non_exhaustive()
    }
}

/// The start of a slot in which streams were inflated or deflated.
struct Coded {
    slot: Slot,
    bytes: usize,
}

impl Deref for Coded {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.slot.bytes()[..self.bytes]
    }
}

impl DerefMut for Coded {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.slot.bytes_mut()[..self.bytes]
    }
}
