//! Codestreams that a device decodes while a decoder of the CPU waits for their samples.

use std::fmt;
use std::path::Path;

use tracing::trace_span;

use super::machine::Machine;
use crate::device::task::{Answer, CodestreamTask};
use crate::slot::Slot;
use crate::slot::schedule::Attempts;
use codec::{BlockCoder, Codestream, CodestreamDecoder};

/// How many devices may fail at a codestream that the CPU does not decode.
const TRIES: usize = 3;

/// Has the devices of a machine decode the codestreams of one input.
#[derive(Clone, Copy)]
pub struct DeviceDecoder<'d> {
    /// The devices, and the slots that they share with this process.
    pub machine: &'d Machine,
    /// What became of the attempts at the picture so far.
    pub attempts: &'d Attempts,
    /// The input, for messages.
    pub input: &'d Path,
}

impl DeviceDecoder<'_> {
    /// Takes a slot for a codestream. What the CPU can decode waits for none.
    fn take(&self, codestream: &Codestream) -> Option<Slot> {
        let (pool, bytes) = (&self.machine.pool, codestream.slot_bytes());
        match codestream.coder {
            BlockCoder::Usual => pool.try_take_codestream(bytes, self.attempts),
            BlockCoder::HighThroughput => {
                self.machine.cores.rest_while(|| pool.take_codestream(bytes, self.attempts))
            }
        }
    }

    /// Has a device decode a codestream; returns the slot with its samples. An error if the device failed.
    fn attempt(&self, codestream: &Codestream, bytes: &[u8]) -> Result<Option<Slot>, Failed> {
        let Some(mut slot) = self.take(codestream) else { return Ok(None) };
        let _span = trace_span!("have a codestream decoded").entered();
        slot.bytes_mut()[..bytes.len()].copy_from_slice(bytes);
        let (task, answer) = CodestreamTask::new(slot, *codestream, self.input);
        self.machine.devices.decode(task);
        match self.machine.cores.rest_while(|| answer.recv()) {
            Ok(Answer::Decoded(slot)) => Ok(Some(slot)),
            Ok(Answer::Declined) => Ok(None),
            Err(_) => Err(Failed),
        }
    }
}

/// The device that had the codestream failed.
struct Failed;

impl CodestreamDecoder for DeviceDecoder<'_> {
    fn decode(&self, codestream: &Codestream, bytes: &[u8], into: &mut [u8]) -> bool {
        let tries = if codestream.coder == BlockCoder::HighThroughput { TRIES } else { 1 };
        let decoded = (0..tries).find_map(|_| self.attempt(codestream, bytes).ok()).flatten();
        decoded.inspect(|slot| into.copy_from_slice(&slot.bytes()[..into.len()])).is_some()
    }
}

impl fmt::Debug for DeviceDecoder<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeviceDecoder").field("input", &self.input).finish_non_exhaustive()
    }
}
