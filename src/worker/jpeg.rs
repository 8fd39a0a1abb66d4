//! The threads of a worker that decodes, equalizes and encodes JPEGs.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crossbeam_channel::{Receiver, Sender};

use super::check::Checked;
use super::fault::Faults;
use super::protocol::{Channel, FromWorker, shorten};
use super::{Engine, EngineError, JPEG_BATCH, JpegLane, Recoded, Recoding, fail};
use crate::codec::CompressedJpeg;
use crate::equalize::{Operation, Order};
use crate::slot::{Memory, SlotId};

/// A JPEG in the worker's hands.
pub(super) struct LentJpeg {
    pub(super) slot: SlotId,
    pub(super) memory: Arc<Mutex<Memory>>,
    pub(super) jpeg: CompressedJpeg,
    pub(super) operation: Operation,
}

impl LentJpeg {
    fn lock(&self) -> MutexGuard<'_, Memory> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a lane works with.
pub(super) struct JpegWork<'w> {
    pub(super) engine: &'w dyn Engine,
    pub(super) channel: &'w Channel,
    pub(super) faults: &'w Faults,
    pub(super) checked: &'w Checked,
    pub(super) lent: Receiver<LentJpeg>,
}

/// A lane: reports whether it could be made, and works until there is no more to come.
pub(super) fn run_lane(work: &JpegWork<'_>, made: &Sender<Result<(), EngineError>>) {
    let (lane, report) = match work.engine.jpeg_lane() {
        Ok(lane) => (Some(lane), Ok(())),
        Err(error) => (None, Err(error)),
    };
    // The receiver lives until every lane has reported.
    let _ = made.send(report);
    if let Some(mut lane) = lane {
        work.run(lane.as_mut());
    }
}

impl JpegWork<'_> {
    /// Takes pictures, as many as there are at a time, until there are no more to come.
    fn run(&self, lane: &mut dyn JpegLane) {
        while let Ok(first) = self.lent.recv() {
            let mut lent = vec![first];
            lent.extend(self.lent.try_iter().take(JPEG_BATCH - 1));
            let checked = lent.iter().try_for_each(|lent| self.check(lent));
            match checked.and_then(|()| self.recode(lane, &lent)) {
                Ok(answers) => lent.iter().zip(answers).for_each(|(lent, answer)| self.answer(lent, answer)),
                Err(error) => fail(self.channel, lent[0].slot, &error),
            }
        }
    }

    /// Checks the kernels, which this process has from the driver's compiler for itself.
    fn check(&self, lent: &LentJpeg) -> Result<(), EngineError> {
        let (luma, order) = (lent.jpeg.layout, Order::Equalize(lent.operation));
        if self.checked.has(&luma, &order) {
            return Ok(());
        }
        self.checked.check(self.engine.lane()?.as_mut(), &luma, &order)
    }

    fn recode(&self, lane: &mut dyn JpegLane, lent: &[LentJpeg]) -> Result<Vec<Recoded>, EngineError> {
        // Each slot is lent once, so no two of them are the same.
        let mut memories: Vec<_> = lent.iter().map(LentJpeg::lock).collect();
        let mut batch: Vec<Recoding<'_>> = memories
            .iter_mut()
            .zip(lent)
            .map(|(memory, &LentJpeg { jpeg, operation, .. })| {
                let answer = Recoded::Declined("it was not tried".to_owned());
                Recoding { slot: memory.bytes_mut(), jpeg, operation, answer }
            })
            .collect();
        for picture in &mut batch {
            self.faults.strike(picture.slot, || lane.trap())?;
        }
        lane.recode(&mut batch)?;
        Ok(batch.into_iter().map(|picture| picture.answer).collect())
    }

    fn answer(&self, lent: &LentJpeg, answer: Recoded) {
        let slot = lent.slot;
        let message = match answer {
            Recoded::Encoded(bytes) => FromWorker::Done { slot, encoded: Some(bytes) },
            Recoded::Declined(reason) => FromWorker::Declined { slot, reason: shorten(reason) },
        };
        if self.channel.send(&message, None).is_err() {
            std::process::exit(0);
        }
    }
}
