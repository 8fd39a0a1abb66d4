//! The lane threads of a worker that equalizes pixels, and what they have in common with those for JPEGs.

use std::sync::{Arc, Mutex, PoisonError};

use crossbeam_channel::{Receiver, Sender};
use tracing::trace_span;

use super::fail;
use super::faults::Faults;
use super::mapped::Mapped;
use super::protocol::{Channel, FromWorker, shorten};
use crate::slot::SlotId;
use codec::CompressedJpeg;
use equalize::{ByteOrders, Layout};
use lanes::{Checked, Engine, EngineError, Lane, LaneError, Order, Recoded};

/// A picture that is lent to the worker.
pub(super) struct Lent {
    pub(super) slot: SlotId,
    pub(super) memory: Arc<Mutex<Mapped>>,
    pub(super) layout: Layout,
    pub(super) byte_orders: ByteOrders,
    pub(super) order: Order,
    /// The JPEG to encode it as, and the size of its planes in bytes; `None` to leave pixels.
    pub(super) encode: Option<(CompressedJpeg, u64)>,
}

/// What all lanes of a worker share.
#[derive(Clone, Copy)]
pub(super) struct LaneContext<'w> {
    pub(super) engine: &'w dyn Engine,
    pub(super) channel: &'w Channel,
    pub(super) faults: &'w dyn Faults,
    pub(super) checked: &'w Checked,
    /// Held while a lane for JPEGs is made. The driver makes nvJPEG's decoders for all processes one after the other, so a lane is made sooner
    /// if no other of its process is made meanwhile.
    pub(super) making: &'w Mutex<()>,
}

/// Reports whether a lane could be created, and returns it if so.
pub(super) fn report<L>(made: &Sender<Result<(), EngineError>>, lane: Result<L, EngineError>) -> Option<L> {
    let (lane, report) = match lane {
        Ok(lane) => (Some(lane), Ok(())),
        Err(error) => (None, Err(error)),
    };
    // The receiver lives until every lane has reported.
    let _ = made.send(report);
    lane
}

impl LaneContext<'_> {
    /// Runs a lane: reports whether it could be created, then carries out what is lent.
    pub(super) fn run_lane(
        &self,
        lent: &Receiver<Lent>,
        made: &Sender<Result<(), EngineError>>,
        prepares: bool,
    ) {
        let Some(mut lane) = report(made, trace_span!("make a lane").in_scope(|| self.lane(prepares))) else {
            return;
        };
        for lent in lent {
            let slot = lent.slot;
            let answer = match lent.carry_out(lane.as_mut(), self) {
                Ok(answer) => answer,
                Err(LaneError::Device(error)) => fail(self.channel, Some(slot), &error),
                Err(declined) => FromWorker::Declined { slot, reason: shorten(declined.to_string()) },
            };
            self.answer(&answer);
        }
    }

    fn lane(&self, prepares: bool) -> Result<Box<dyn Lane + '_>, EngineError> {
        let mut lane = self.engine.lane()?;
        if prepares {
            lane.prepare_to_encode()?;
        }
        Ok(lane)
    }

    /// Sends an answer. Without a main process there is nothing left to do.
    pub(super) fn answer(&self, answer: &FromWorker) {
        if self.channel.send(answer, None).is_err() {
            std::process::exit(0);
        }
    }
}

impl Lent {
    /// Carries out the order; returns the answer to send.
    fn carry_out(&self, lane: &mut dyn Lane, context: &LaneContext<'_>) -> Result<FromWorker, LaneError> {
        let &Self { slot: id, ref layout, byte_orders, ref order, .. } = self;
        let mut memory = self.memory.lock().unwrap_or_else(PoisonError::into_inner);
        let slot = memory.pinned(context.engine)?;
        let bytes = order.slot_bytes(layout) as usize;
        let _span = trace_span!("carry out").entered();
        context.faults.strike(&mut slot[..bytes], &mut || lane.trap())?;
        context.checked.check(lane, layout, byte_orders, order)?;
        let (Some((jpeg, planes)), Order::Equalize(operation)) = (&self.encode, order) else {
            lane.carry_out(&mut slot[..bytes], layout, byte_orders, order)?;
            return Ok(FromWorker::Done { slot: id, encoded: None });
        };
        let pretended = context.faults.pretend(slot, *planes, jpeg).map(Recoded::Encoded);
        Ok(match pretended.map_or_else(|| lane.encode(slot, *planes, jpeg, operation), Ok)? {
            Recoded::Encoded(bytes) => FromWorker::Done { slot: id, encoded: Some(bytes) },
            Recoded::Declined(reason) => FromWorker::Equalized { slot: id, reason: shorten(reason) },
        })
    }
}
