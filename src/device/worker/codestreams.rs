//! The lane threads of a worker that decode codestreams of JPEG 2000.

use std::sync::{Arc, Mutex, PoisonError};

use crossbeam_channel::Receiver;
use tracing::trace_span;

use super::fail;
use super::mapped::Mapped;
use super::pixels::LaneContext;
use super::protocol::{FromWorker, shorten};
use crate::slot::SlotId;
use codec::Codestream;
use lanes::{CodestreamLane, LaneError};

/// A codestream that is lent to the worker.
pub(super) struct LentCodestream {
    pub(super) slot: SlotId,
    pub(super) memory: Arc<Mutex<Mapped>>,
    pub(super) codestream: Codestream,
}

impl LaneContext<'_> {
    /// Decodes what is lent, until the process ends. The lane is made for the first codestream.
    pub(super) fn run_codestream_lane(&self, lent: &Receiver<LentCodestream>) {
        let mut lane = None;
        for lent in lent {
            let slot = lent.slot;
            let answer = match self.decode(&mut lane, &lent) {
                Ok(()) => FromWorker::Decoded { slot },
                Err(LaneError::Device(error)) => fail(self.channel, Some(slot), &error),
                Err(declined) => FromWorker::Declined { slot, reason: shorten(declined.to_string()) },
            };
            self.answer(&answer);
        }
    }

    fn decode<'w>(
        &'w self,
        lane: &mut Option<Box<dyn CodestreamLane + 'w>>,
        lent: &LentCodestream,
    ) -> Result<(), LaneError> {
        let lane = match lane {
            Some(lane) => lane,
            // Without one, the CPU decodes.
            none => none.insert(
                self.engine.codestream_lane().map_err(|error| LaneError::Decline(error.to_string()))?,
            ),
        };
        let LentCodestream { memory, codestream, .. } = lent;
        let mut memory = memory.lock().unwrap_or_else(PoisonError::into_inner);
        let slot = memory.pinned(self.engine)?;
        if codestream.slot_bytes() > slot.len() as u64 {
            return Err(LaneError::Decline("its slot is too small".to_owned()));
        }
        let _span = trace_span!("decode a codestream").entered();
        self.faults.strike(slot, &mut || self.engine.lane()?.trap())?;
        lane.decode(slot, codestream)
    }
}
