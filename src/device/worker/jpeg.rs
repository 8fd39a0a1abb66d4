//! The lane threads of a worker that decodes, equalizes and encodes JPEGs.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use crossbeam_channel::Sender;
use tracing::trace_span;

use super::fail;
use super::mapped::Mapped;
use super::pixels::{LaneContext, report};
use super::protocol::{FromWorker, shorten};
use crate::slot::SlotId;
use codec::{CompressedJpeg, JpegCoder, Sampling};
use equalize::{ByteOrders, Operation};
use lanes::{EngineError, JPEG_BATCH, JpegLane, LaneError, Order, Recoded, Recoding};

/// A JPEG that is lent to the worker.
pub(super) struct LentJpeg {
    pub(super) slot: SlotId,
    pub(super) memory: Arc<Mutex<Mapped>>,
    pub(super) jpeg: CompressedJpeg,
    pub(super) operation: Operation,
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
    fn take(&self, batches: &mut Batches) -> Vec<LentJpeg> {
        let jpegs = self.jpegs.lock().unwrap_or_else(PoisonError::into_inner);
        let jpegs = self.come.wait_while(jpegs, |jpegs| jpegs.is_empty());
        let mut jpegs = jpegs.unwrap_or_else(PoisonError::into_inner);
        match batches {
            Batches::First(most) => {
                let count = jpegs.len().min(*most);
                jpegs.drain(..count).collect()
            }
            Batches::OfPlaces(places) => take_batch(&mut jpegs, |lent| lent.jpeg.sampling, places),
        }
    }
}

/// The pictures that a lane takes at a time, of those that wait.
enum Batches {
    /// The first ones, at most so many.
    First(usize),
    /// Those that fit: for each place in a batch, the chroma subsampling of the last picture there.
    OfPlaces(Vec<Sampling>),
}

/// Takes a batch, each picture at a place that last had one of the same chroma subsampling, if there is one: for a different subsampling
/// nvJPEG reallocates the buffers of that place, under a lock that all processes of the driver share. Measured, that takes 2 to 5 ms per
/// picture. The picture that has waited longest is always taken. (A picture that is not decoded shifts those behind it, which costs time
/// and nothing else.)
fn take_batch<T>(
    waiting: &mut VecDeque<T>,
    sampling: impl Fn(&T) -> Sampling,
    places: &mut Vec<Sampling>,
) -> Vec<T> {
    let count = waiting.len().min(JPEG_BATCH);
    let mut batch: Vec<Option<T>> = std::iter::repeat_with(|| None).take(count).collect();
    if let Some(first) = waiting.pop_front() {
        let fitting = places.iter().take(count).position(|&place| place == sampling(&first));
        batch[fitting.unwrap_or(count - 1)] = Some(first);
    }
    for (taken, &place) in batch.iter_mut().zip(&*places).filter(|(taken, _)| taken.is_none()) {
        let fitting = waiting.iter().position(|one| sampling(one) == place);
        *taken = fitting.and_then(|fitting| waiting.remove(fitting));
    }
    let batch: Vec<T> = batch.into_iter().filter_map(|taken| taken.or_else(|| waiting.pop_front())).collect();
    places.splice(..count.min(places.len()), batch.iter().map(sampling));
    batch
}

impl LaneContext<'_> {
    /// Runs a JPEG lane: reports whether it could be created, then recodes batches of whatever is waiting, until the process ends.
    pub(super) fn run_jpeg_lane(
        &self,
        coder: JpegCoder,
        waiting: &Waiting,
        made: &Sender<Result<(), EngineError>>,
    ) {
        let made_lane = {
            let _only = self.making.lock().unwrap_or_else(PoisonError::into_inner);
            let _span = trace_span!("make a lane").entered();
            match coder {
                JpegCoder::Histeqd => self.engine.coder_lane(),
                JpegCoder::NvJpeg => self.engine.jpeg_lane(),
            }
        };
        let Some(mut lane) = report(made, made_lane) else { return };
        let mut batches = match coder {
            JpegCoder::Histeqd => Batches::First(lane.batch()),
            JpegCoder::NvJpeg => Batches::OfPlaces(Vec::with_capacity(JPEG_BATCH)),
        };
        loop {
            let lent = waiting.take(&mut batches);
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
        let (luma, order) = (lent.jpeg.layout, Order::Equalize(lent.operation));
        if self.checked.has(&luma, ByteOrders::NATIVE, &order) {
            return Ok(());
        }
        let _span = trace_span!("self-test").entered();
        self.checked.check(self.engine.lane()?.as_mut(), &luma, ByteOrders::NATIVE, &order)
    }

    fn recode(&self, lane: &mut dyn JpegLane, lent: &[LentJpeg]) -> Result<Vec<Recoded>, LaneError> {
        // A slot is lent only once at a time, so no two of these locks are the same.
        let mut memories: Vec<_> = lent.iter().map(LentJpeg::lock).collect();
        let mut batch: Vec<Recoding<'_>> = memories
            .iter_mut()
            .zip(lent)
            .map(|(memory, &LentJpeg { jpeg, operation, .. })| {
                let answer = Recoded::Declined("it was not tried".to_owned());
                Ok(Recoding { slot: memory.pinned(self.engine)?, jpeg, operation, answer })
            })
            .collect::<Result<_, EngineError>>()?;
        for picture in &mut batch {
            self.faults.strike(picture.slot, &mut || lane.trap())?;
        }
        let _span = trace_span!("batch").entered();
        lane.recode(&mut batch)?;
        Ok(batch.into_iter().map(|picture| picture.answer).collect())
    }
}

/// Returns the message that says what became of a JPEG.
fn message(slot: SlotId, answer: Recoded) -> FromWorker {
    match answer {
        Recoded::Encoded(bytes) => FromWorker::Done { slot, encoded: Some(bytes) },
        Recoded::Declined(reason) => FromWorker::Declined { slot, reason: shorten(reason) },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Sampling::{Full, HalfWidth, Quarter};

    fn take(waiting: &mut VecDeque<(Sampling, u32)>, places: &mut Vec<Sampling>) -> Vec<(Sampling, u32)> {
        take_batch(waiting, |&(sampling, _)| sampling, places)
    }

    fn numbered(samplings: &[Sampling]) -> VecDeque<(Sampling, u32)> {
        samplings.iter().copied().zip(0..).collect()
    }

    #[test]
    fn places_keep_their_sampling_while_there_are_pictures_of_it() {
        let mut places = vec![Quarter, Full, Quarter];
        let mut waiting = numbered(&[Full, Quarter, Full, Quarter]);
        assert_eq!(take(&mut waiting, &mut places), [(Quarter, 1), (Full, 0), (Quarter, 3), (Full, 2)]);
        assert_eq!(places, [Quarter, Full, Quarter, Full]);
        assert!(waiting.is_empty());
    }

    #[test]
    fn the_oldest_is_taken_even_where_no_place_fits() {
        let mut places = vec![Quarter; JPEG_BATCH];
        let mut waiting = numbered(&[[Full].as_slice(), &[Quarter; 2 * JPEG_BATCH]].concat());
        let batch = take(&mut waiting, &mut places);
        assert_eq!(batch.len(), JPEG_BATCH);
        assert_eq!(batch.last(), Some(&(Full, 0)));
        assert_eq!(waiting.front(), Some(&(Quarter, JPEG_BATCH as u32)));
    }

    #[test]
    fn a_smaller_batch_leaves_the_other_places_as_they_were() {
        let mut places = vec![Quarter, Full, HalfWidth];
        assert_eq!(take(&mut numbered(&[Full]), &mut places), [(Full, 0)]);
        assert_eq!(places, [Full, Full, HalfWidth]);
        assert_eq!(take(&mut VecDeque::new(), &mut places), []);
        assert_eq!(places, [Full, Full, HalfWidth]);
    }

    #[test]
    fn pictures_that_wait_are_all_taken_whatever_they_are_like() {
        let mut places = Vec::new();
        let mut waiting = numbered(&[Full, Quarter, HalfWidth].repeat(7));
        let mut taken = Vec::new();
        while !waiting.is_empty() {
            taken.extend(take(&mut waiting, &mut places).into_iter().map(|(_, number)| number));
        }
        taken.sort_unstable();
        assert_eq!(taken, Vec::from_iter(0..21));
    }
}
