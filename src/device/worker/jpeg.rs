//! The lane threads of a worker that decodes JPEGs, and equalizes and encodes or counts them.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use crossbeam_channel::Sender;
use tracing::trace_span;

use super::fail;
use super::mapped::Mapped;
use super::pixels::{LaneContext, report};
use super::protocol::{FromWorker, shorten};
use crate::slot::SlotId;
use codec::coders::CompressedJpeg;
use equalize::ByteOrders;
use lanes::{EngineError, JPEG_BATCH, JpegLane, LaneError, Order, Recoded, Recoding};

/// A JPEG that is lent to the worker.
pub(super) struct LentJpeg {
    pub(super) slot: SlotId,
    pub(super) memory: Arc<Mutex<Mapped>>,
    pub(super) jpeg: CompressedJpeg,
    pub(super) order: Order,
}

impl LentJpeg {
    fn lock(&self) -> MutexGuard<'_, Mapped> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The queue of JPEGs that no lane has taken yet.
#[derive(Default)]
pub(super) struct Waiting {
    jpegs: Mutex<VecDeque<LentJpeg>>,
    come: Condvar,
}

impl Waiting {
    pub(super) fn push(&self, jpeg: LentJpeg) {
        self.jpegs.lock().unwrap_or_else(PoisonError::into_inner).push_back(jpeg);
        self.come.notify_one();
    }

    /// Waits for pictures and takes a batch of them.
    fn take(&self) -> Vec<LentJpeg> {
        let jpegs = self.jpegs.lock().unwrap_or_else(PoisonError::into_inner);
        let jpegs = self.come.wait_while(jpegs, |jpegs| jpegs.is_empty());
        let mut jpegs = jpegs.unwrap_or_else(PoisonError::into_inner);
        let count = jpegs.len().min(JPEG_BATCH);
        jpegs.drain(..count).collect()
    }
}

impl LaneContext<'_> {
    /// Runs a JPEG lane, which recodes batches until the process ends.
    ///
    /// Reports first whether the lane could be created.
    pub(super) fn run_jpeg_lane(&self, waiting: &Waiting, made: &Sender<Result<(), EngineError>>) {
        let made_lane = trace_span!("make a lane").in_scope(|| self.engine.jpeg_lane());
        let Some(mut lane) = report(made, made_lane) else { return };
        loop {
            let lent = waiting.take();
            let checked = lent.iter().try_for_each(|lent| self.check(lent));
            let answers = match checked.and_then(|()| self.recode(lane.as_mut(), &lent)) {
                Ok(answers) => answers,
                Err(LaneError::Device(error)) => {
                    // Of several pictures, any may be the one on which it failed.
                    let only = if let [lent] = lent.as_slice() { Some(lent.slot) } else { None };
                    fail(self.channel, only, &error)
                }
                Err(declined) => lent.iter().map(|_| Recoded::Declined(declined.to_string())).collect(),
            };
            lent.iter().zip(answers).for_each(|(lent, answer)| self.answer(&message(lent.slot, answer)));
        }
    }

    /// Tests the kernels, which the driver compiles for each process separately.
    fn check(&self, lent: &LentJpeg) -> Result<(), LaneError> {
        let (layout, order) = (&lent.jpeg.layout, &lent.order);
        if self.checked.has(layout, ByteOrders::NATIVE, order) {
            return Ok(());
        }
        let _span = trace_span!("self-test").entered();
        self.checked.check(self.engine.lane()?.as_mut(), layout, ByteOrders::NATIVE, order)
    }

    fn recode(&self, lane: &mut dyn JpegLane, lent: &[LentJpeg]) -> Result<Vec<Recoded>, LaneError> {
        // A slot is lent only once at a time, so no two of these locks are the same.
        let mut memories: Vec<_> = lent.iter().map(LentJpeg::lock).collect();
        let mut batch: Vec<Recoding<'_>> = memories
            .iter_mut()
            .zip(lent)
            .map(|(memory, &LentJpeg { jpeg, order, .. })| {
                let answer = Recoded::Declined("it was not tried".to_owned());
                Ok(Recoding { slot: memory.pinned(self.engine)?, jpeg, order, answer })
            })
            .collect::<Result<_, EngineError>>()?;
        for picture in &mut batch {
            self.faults.strike(picture.slot, &mut || lane.trap())?;
        }
        let _span = trace_span!("batch").entered();
        lane.recode(&mut batch)?;
        for picture in &mut batch {
            if let Some(bytes) = self.faults.pretend(picture.slot, &picture.jpeg) {
                picture.answer = Recoded::Encoded(bytes);
            }
        }
        Ok(batch.into_iter().map(|picture| picture.answer).collect())
    }
}

/// Returns the message with the result for a JPEG.
fn message(slot: SlotId, answer: Recoded) -> FromWorker {
    match answer {
        Recoded::Encoded(bytes) => FromWorker::Done { slot, encoded: Some(bytes) },
        Recoded::Counted => FromWorker::Done { slot, encoded: None },
        Recoded::Declined(reason) => FromWorker::Declined { slot, reason: shorten(reason) },
    }
}
