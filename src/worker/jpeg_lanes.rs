//! The worker's threads for JPEGs that a device decodes and encodes.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, Scope};

use crossbeam_channel::Receiver;

use super::fault::Faults;
use super::protocol::{Channel, FromWorker, shorten};
use super::{Engine, EngineError, JPEG_BATCH, JpegLane, Recoded, Recoding, fail};
use crate::codec::CompressedJpeg;
use crate::equalize::Operation;
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

/// What the threads share.
#[derive(Clone)]
pub(super) struct JpegWork<'w> {
    pub(super) engine: &'w dyn Engine,
    pub(super) channel: &'w Channel,
    pub(super) faults: &'w Faults,
    pub(super) lent: Receiver<LentJpeg>,
}

/// Starts so many lanes. The first finds out whether the engine decodes at all, and tells the main process.
///
/// # Errors
/// When the system gives no thread.
pub(super) fn start<'scope, 'w: 'scope>(
    scope: &'scope Scope<'scope, '_>,
    lanes: usize,
    work: JpegWork<'w>,
) -> io::Result<()> {
    if lanes == 0 {
        return Ok(());
    }
    let spawn = move |number: usize, run: Box<dyn FnOnce() + Send + 'scope>| {
        Builder::new().name(format!("jpeg-{number}")).spawn_scoped(scope, run).map(drop)
    };
    let first = move || {
        let lane = work.engine.decodes().and_then(|how| {
            let lane = work.engine.jpeg_lane().map_err(|error| shorten(error.to_string()))?;
            Ok((how, lane))
        });
        let (answer, lane) = match lane {
            Ok((how, lane)) => (Ok(how), Some(lane)),
            Err(reason) => (Err(reason), None),
        };
        tell(work.channel, &FromWorker::Decodes(answer));
        let Some(mut lane) = lane else { return };
        for number in 1..lanes {
            let work = work.clone();
            let more = move || {
                // Where there is no room for another, the first does it all.
                if let Ok(mut lane) = work.engine.jpeg_lane() {
                    work.run(lane.as_mut());
                }
            };
            if spawn(number, Box::new(more)).is_err() {
                break;
            }
        }
        work.run(lane.as_mut());
    };
    spawn(0, Box::new(first))
}

fn tell(channel: &Channel, message: &FromWorker) {
    if channel.send(message, None).is_err() {
        std::process::exit(0);
    }
}

impl JpegWork<'_> {
    /// Takes pictures, as many as there are at a time, until there are no more to come.
    fn run(&self, lane: &mut dyn JpegLane) {
        while let Ok(first) = self.lent.recv() {
            let mut lent = vec![first];
            lent.extend(self.lent.try_iter().take(JPEG_BATCH - 1));
            match self.recode(lane, &lent) {
                Ok(answers) => lent.iter().zip(answers).for_each(|(lent, answer)| self.answer(lent, answer)),
                Err(error) => fail(self.channel, lent[0].slot, &error),
            }
        }
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
        tell(self.channel, &match answer {
            Recoded::Encoded(bytes) => FromWorker::Encoded { slot, bytes },
            Recoded::Declined(reason) => FromWorker::Declined { slot, reason: shorten(reason) },
        });
    }
}
