//! Codestreams that a device decodes while a decoder of the CPU waits for their samples.

use std::path::Path;

use tracing::trace_span;

use super::machine::Machine;
use crate::device::task::CodestreamTask;
use crate::slot::schedule::Attempts;
use codec::{Codestream, CodestreamDecoder};

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

impl CodestreamDecoder for DeviceDecoder<'_> {
    fn decode(&self, codestream: &Codestream, bytes: &[u8], into: &mut [u8]) -> bool {
        let Self { machine, attempts, input } = *self;
        let Some(mut slot) = machine.pool.try_take_codestream(codestream.slot_bytes(), attempts) else {
            return false;
        };
        let _span = trace_span!("have a codestream decoded").entered();
        slot.bytes_mut()[..bytes.len()].copy_from_slice(bytes);
        let (task, decoded) = CodestreamTask::new(slot, *codestream, input);
        machine.devices.decode(task);
        // The device may leave it to the CPU.
        let Ok(slot) = machine.cores.rest_while(|| decoded.recv()) else { return false };
        into.copy_from_slice(&slot.bytes()[..into.len()]);
        true
    }
}

impl std::fmt::Debug for DeviceDecoder<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DeviceDecoder").field("input", &self.input).finish_non_exhaustive()
    }
}
