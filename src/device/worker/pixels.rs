//! The lane threads of a worker for pixels, and their common ground with those for JPEGs.

use std::sync::{Arc, Mutex, PoisonError};

use crossbeam_channel::{Receiver, Sender};
use tracing::trace_span;

use super::fail;
use super::faults::Faults;
use super::mapped::Mapped;
use super::protocol::{Channel, FromWorker, shorten};
use crate::slot::SlotId;
use equalize::{ByteOrders, Layout};
use lanes::{Checked, Engine, EngineError, Lane, LaneError, Order};

/// A picture that is lent to the worker.
pub(super) struct Lent {
    pub(super) slot: SlotId,
    pub(super) memory: Arc<Mutex<Mapped>>,
    pub(super) layout: Layout,
    pub(super) byte_orders: ByteOrders,
    pub(super) order: Order,
}

/// The environment that all lanes of a worker share.
#[derive(Clone, Copy)]
pub(super) struct LaneContext<'w> {
    pub(super) engine: &'w dyn Engine,
    pub(super) channel: &'w Channel,
    pub(super) faults: &'w dyn Faults,
    pub(super) checked: &'w Checked,
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
    /// Runs a lane, which carries out the lent orders.
    ///
    /// Reports first whether the lane could be created.
    pub(super) fn run_lane(&self, lent: &Receiver<Lent>, made: &Sender<Result<(), EngineError>>) {
        let Some(mut lane) = report(made, trace_span!("make a lane").in_scope(|| self.engine.lane())) else {
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

    /// Sends an answer. Without a main process, the worker ends.
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
        lane.carry_out(&mut slot[..bytes], layout, byte_orders, order)?;
        Ok(FromWorker::Done { slot: id, encoded: None })
    }
}
