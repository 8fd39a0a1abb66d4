//! The lane threads of a worker for work that threads of the main process wait for.

use std::sync::{Arc, Mutex, PoisonError};

use crossbeam_channel::Receiver;
use tracing::trace_span;

use super::fail;
use super::mapped::Mapped;
use super::pixels::LaneContext;
use super::protocol::{FromWorker, shorten};
use crate::device::task::Offload;
use crate::slot::SlotId;
use lanes::{CodestreamLane, EngineError, LaneError, StreamLane};

/// Work that is lent to the worker.
pub(super) struct LentOffload {
    pub(super) slot: SlotId,
    pub(super) memory: Arc<Mutex<Mapped>>,
    pub(super) offload: Offload,
}

/// The lanes of a thread, each made when it is needed.
#[derive(Default)]
struct OffloadLanes<'w> {
    codestreams: Option<Box<dyn CodestreamLane + 'w>>,
    streams: Option<Box<dyn StreamLane + 'w>>,
}

impl LaneContext<'_> {
    /// Does the lent work until the process ends.
    pub(super) fn run_offload_lane(&self, lent: &Receiver<LentOffload>) {
        let mut lanes = OffloadLanes::default();
        for lent in lent {
            let slot = lent.slot;
            let answer = match self.do_offload(&mut lanes, &lent) {
                Ok(()) => FromWorker::Offloaded { slot },
                Err(LaneError::Device(error)) => fail(self.channel, Some(slot), &error),
                Err(declined) => FromWorker::Declined { slot, reason: shorten(declined.to_string()) },
            };
            self.answer(&answer);
        }
    }

    fn do_offload<'w>(
        &'w self,
        lanes: &mut OffloadLanes<'w>,
        LentOffload { memory, offload, .. }: &LentOffload,
    ) -> Result<(), LaneError> {
        // Without a lane, the CPU does it.
        match offload {
            Offload::Codestream(_) => ready(&mut lanes.codestreams, || self.engine.codestream_lane())?,
            Offload::Streams(_) => ready(&mut lanes.streams, || self.engine.stream_lane())?,
        }
        let mut memory = memory.lock().unwrap_or_else(PoisonError::into_inner);
        let slot = memory.pinned(self.engine)?;
        if offload.slot_bytes() > slot.len() as u64 {
            return Err(LaneError::Decline("its slot is too small".to_owned()));
        }
        let _span = trace_span!("do what is offloaded").entered();
        self.faults.strike(slot, &mut || self.engine.lane()?.trap())?;
        match (offload, lanes) {
            (Offload::Codestream(codestream), OffloadLanes { codestreams: Some(lane), .. }) => {
                lane.decode(slot, codestream)
            }
            (Offload::Streams(streams), OffloadLanes { streams: Some(lane), .. }) => lane.code(slot, streams),
            _ => unreachable!("it was made"),
        }
    }
}

/// Makes a lane unless there is one.
fn ready<L>(lane: &mut Option<L>, make: impl FnOnce() -> Result<L, EngineError>) -> Result<(), LaneError> {
    if lane.is_none() {
        *lane = Some(make().map_err(|error| LaneError::Decline(error.to_string()))?);
    }
    Ok(())
}
