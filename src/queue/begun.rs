//! The messages that a worker has begun, the number of attempts, and their ends.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use histeqd_queue::{Delivery, Fate, Letter};
use tracing::{debug, info, warn};

use super::account::{self, Account, Minute};
use super::message::{Dead, Message, Picture};
use super::signature::Signatures;
use crate::device::backoff::Backoff;
use crate::error::PictureError;
use crate::fs::paths::Shown;
use crate::picture::remark::RemarkLog;
use crate::progress::Event;

/// The pauses after outputs could not be written at all.
const PAUSES: Backoff = Backoff { first: Duration::from_secs(5), longest: Duration::from_secs(300) };

/// A picture that this worker may not read or write.
pub(super) struct Refused {
    pub(super) picture: Picture,
    pub(super) why: String,
}

/// A message that was pulled and understood.
pub(super) struct Taken {
    pub(super) delivery: Delivery,
    pub(super) message: Message,
    /// The folder of `--root` that its outputs lie in.
    pub(super) root: PathBuf,
}

impl Taken {
    /// Returns how often its pictures were delivered, including this delivery.
    pub(super) fn deliveries(&self) -> u64 {
        self.message.deliveries(self.delivery.deliveries())
    }

    /// Returns whether it can be done in the same run as a message with these settings and this
    /// root.
    pub(super) fn is_like(&self, settings: &str, root: &Path) -> bool {
        self.message.settings == settings && self.root == root
    }
}

/// Why a picture was not done.
pub(super) struct Failure {
    pub(super) reason: String,
    pub(super) fault: Fault,
}

/// The cause of a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// The picture: it would fail again.
    Own,
    /// An obstacle that may pass.
    Passing,
    /// An obstacle that affects every other picture of this worker too.
    Worker,
}

/// The reason that a worker gives if its disk is gone.
pub(super) const GONE: &str = "a folder of --root is gone, or another one is in its place";

impl Failure {
    /// Returns the failure for an error; `are_there` is whether the folders with the pictures are.
    pub(super) fn of(error: &PictureError, are_there: bool) -> Self {
        let fault = match error {
            _ if !are_there => Fault::Worker,
            error if error.affects_all_outputs() => Fault::Worker,
            PictureError::Publish(error) if error.is_of_another() => Fault::Own,
            // Another worker may have more memory.
            error if error.is_transient() || error.exceeds_memory() => Fault::Passing,
            _ => Fault::Own,
        };
        Self { reason: error.in_service(), fault }
    }
}

/// A message with pictures in the pipeline.
struct Begun {
    taken: Taken,
    /// The inputs that have not ended.
    open: HashSet<PathBuf>,
    failures: HashMap<PathBuf, Failure>,
}

#[derive(Default)]
struct WorkerState {
    /// The messages, each by a number.
    begun: BTreeMap<u64, Begun>,
    /// Which message an input in progress belongs to.
    of_input: HashMap<PathBuf, u64>,
    next: u64,
    done: u64,
    failed: u64,
    devices: BTreeMap<String, u64>,
    remarked: RemarkLog,
    /// The number of times in a row that outputs could not be written, the reason, and the end of
    /// the pause.
    waits: Option<(u32, String, Instant)>,
}

/// The messages that a worker has begun, and the counts of their pictures.
pub(super) struct BegunMessages {
    state: Mutex<WorkerState>,
    minute: Mutex<Minute>,
    worker: String,
    attempts: u64,
    signatures: Signatures,
}

impl BegunMessages {
    pub(super) fn new(attempts: u64, signatures: Signatures) -> Self {
        let minute = Mutex::new(Minute::new());
        Self { state: Mutex::default(), minute, worker: account::name(), attempts, signatures }
    }

    /// Returns the signatures that check messages.
    pub(super) fn signatures(&self) -> &Signatures {
        &self.signatures
    }

    fn letter(&self, message: &Message) -> Letter {
        self.signatures.sign(message.letter())
    }

    /// Returns the number of attempts at a picture.
    pub(super) fn attempts(&self) -> u64 {
        self.attempts
    }

    /// Returns whether the message shares no input in progress with another message.
    pub(super) fn is_free_for(&self, message: &Message) -> bool {
        let state = lock(&self.state);
        !message.pictures.iter().any(|picture| state.of_input.contains_key(&picture.input))
    }

    /// Takes over a message, given the inputs that go into the pipeline and the earlier failures.
    pub(super) fn begin(&self, taken: Taken, open: HashSet<PathBuf>, failures: HashMap<PathBuf, Failure>) {
        let begun = Begun { taken, open, failures };
        if begun.open.is_empty() {
            return self.settle(begun);
        }
        let mut state = lock(&self.state);
        let number = state.next;
        state.next += 1;
        state.of_input.extend(begun.open.iter().map(|input| (input.clone(), number)));
        state.begun.insert(number, begun);
    }

    /// Handles an event of the pipeline. `are_there` returns whether the folders with the pictures
    /// are.
    pub(super) fn hear(&self, event: Event, are_there: impl Fn() -> bool) {
        match event {
            // Its output may have gone to the disk's empty mount point.
            Event::Done { input, .. } if !are_there() => {
                self.ended(&input, Some(Failure { reason: GONE.to_owned(), fault: Fault::Worker }));
            }
            Event::Done { input, output, device, .. } => {
                debug!("done: {} -> {} ({device})", Shown(&input), Shown(&output));
                let mut state = lock(&self.state);
                state.done += 1;
                state.waits = None;
                *state.devices.entry(device.to_string()).or_default() += 1;
                drop(state);
                lock(&self.minute).count();
                self.ended(&input, None);
            }
            Event::Skipped { input, planned: true, why } => {
                debug!("skipped: {}: {why:?}", Shown(&input));
                self.ended(&input, None);
            }
            Event::Failed { input, error, planned: true } => {
                self.ended(&input, Some(Failure::of(&error, are_there())));
            }
            Event::Remarked { input, remark, range } => {
                lock(&self.state).remarked.log(&input, remark, &remark.of_one_with(range));
            }
            Event::Device { .. }
            | Event::Planned { .. }
            | Event::Would { .. }
            | Event::Remade { .. }
            | Event::Stopping
            | Event::Load(_)
            | Event::Skipped { planned: false, .. }
            | Event::Part { .. }
            | Event::Failed { planned: false, .. } => {}
        }
    }

    fn ended(&self, input: &Path, failure: Option<Failure>) {
        let mut state = lock(&self.state);
        let Some(number) = state.of_input.remove(input) else { return };
        let Some(begun) = state.begun.get_mut(&number) else { return };
        begun.open.remove(input);
        if let Some(failure) = failure {
            begun.failures.insert(input.to_owned(), failure);
        }
        if begun.open.is_empty()
            && let Some(begun) = state.begun.remove(&number)
        {
            drop(state);
            self.settle(begun);
        }
    }

    /// Gives back the messages that the pipeline has left: they were never begun.
    pub(super) fn leave(&self) {
        let mut state = lock(&self.state);
        let left = std::mem::take(&mut state.begun);
        state.of_input.clear();
        drop(state);
        left.into_values().for_each(|begun| self.settle(begun));
    }

    /// Gives back a message that was never begun.
    pub(super) fn give_back(&self, taken: Taken) {
        let open = taken.message.pictures.iter().map(|picture| picture.input.clone()).collect();
        self.settle(Begun { taken, open, failures: HashMap::new() });
    }

    /// Has the pictures of a message delivered one by one: one that ends its worker then takes no
    /// others with it.
    pub(super) fn split(&self, delivery: Delivery, message: &Message) {
        let tries = message.deliveries(delivery.deliveries()) - 1;
        let letters = (message.pictures.iter())
            .map(|picture| self.letter(&message.instead(vec![picture.clone()], tries)));
        delivery.settle(Vec::new(), Fate::Replaced(letters.collect()));
    }

    /// Puts some pictures of a message aside, and has the others delivered again.
    pub(super) fn refuse(&self, delivery: Delivery, message: &Message, refused: &[Refused]) {
        let deliveries = message.deliveries(delivery.deliveries());
        let dead = refused
            .iter()
            .map(|Refused { picture, why }| self.dead(message, picture, why.clone(), deliveries))
            .collect();
        let others = (message.pictures.iter())
            .filter(|picture| refused.iter().all(|refused| refused.picture != **picture));
        let others: Vec<_> = others.cloned().collect();
        let fate = match others.is_empty() {
            true => Fate::Dead,
            false => Fate::Replaced(vec![self.letter(&message.instead(others, deliveries - 1))]),
        };
        delivery.settle(dead, fate);
    }

    /// Puts a message aside that cannot be understood.
    pub(super) fn refuse_unread(&self, delivery: Delivery, why: String) {
        /// Enough for people to recognize it.
        const SHOWN: usize = 200;
        warn!("a message is refused: {why}");
        let payload = delivery.payload();
        let text = String::from_utf8_lossy(&payload[..payload.len().min(SHOWN)]).into_owned();
        let name = crate::picture::record::Digest::of(payload).to_string();
        let deliveries = delivery.deliveries();
        let dead =
            Dead { reason: why, worker: self.worker.clone(), deliveries, message: None, text: Some(text) };
        lock(&self.state).failed += 1;
        delivery.settle(vec![self.signatures.sign(dead.letter(name))], Fate::Dead);
    }

    /// Settles a message with the queue, when its pictures have ended or are left.
    fn settle(&self, begun: Begun) {
        let Begun { taken, open, mut failures } = begun;
        let deliveries = taken.deliveries();
        let Taken { delivery, message, .. } = taken;
        // Pictures that were not tried, that failed for a cause that can pass, and that are given
        // up.
        let (mut excused, mut passing, mut dead) = (Vec::new(), Vec::new(), Vec::new());
        for picture in &message.pictures {
            if open.contains(&picture.input) {
                excused.push(picture.clone());
                continue;
            }
            let Some(Failure { reason, fault }) = failures.remove(&picture.input) else { continue };
            match fault {
                Fault::Worker => {
                    self.wait(&reason);
                    excused.push(picture.clone());
                }
                Fault::Passing if deliveries < self.attempts => {
                    info!("failed, retried: {}: {reason}", Shown(&picture.input));
                    passing.push(picture.clone());
                }
                Fault::Passing | Fault::Own => dead.push(self.dead(&message, picture, reason, deliveries)),
            }
        }
        let fate = if !excused.is_empty() {
            excused.append(&mut passing);
            Fate::Replaced(vec![self.letter(&message.instead(excused, deliveries - 1))])
        } else if !passing.is_empty() {
            let times = u32::try_from(deliveries).unwrap_or(u32::MAX);
            Fate::Again(Backoff::OF_A_FILE.after(times))
        } else if dead.len() == message.pictures.len() {
            Fate::Dead
        } else {
            Fate::Done
        };
        delivery.settle(dead, fate);
    }

    fn dead(&self, message: &Message, picture: &Picture, reason: String, deliveries: u64) -> Letter {
        warn!("failed: {}: {reason}", Shown(&picture.input));
        lock(&self.state).failed += 1;
        let (alone, name) = (message.about(picture), message.dead_name(picture));
        let worker = self.worker.clone();
        self.signatures
            .sign(Dead { reason, worker, deliveries, message: Some(alone), text: None }.letter(name))
    }

    /// Stops the worker from taking messages for a while.
    pub(super) fn wait(&self, why: &str) {
        let mut state = lock(&self.state);
        let now = Instant::now();
        let times = match &state.waits {
            // One cause makes all pictures in progress fail.
            Some((_, _, until)) if *until > now => return,
            Some((times, ..)) => times + 1,
            None => 1,
        };
        let pause = PAUSES.after(times);
        warn!("nothing more is started for {} s: {why}", pause.as_secs());
        state.waits = Some((times, why.to_owned(), now + pause));
    }

    /// Returns whether the worker takes no messages for now.
    pub(super) fn waits(&self) -> bool {
        lock(&self.state).waits.as_ref().is_some_and(|(_, _, until)| *until > Instant::now())
    }

    /// Returns the number of pictures that were put aside.
    pub(super) fn failed(&self) -> u64 {
        lock(&self.state).failed
    }

    /// Returns the worker's account of itself.
    pub(super) fn account(&self) -> Account {
        let (state, minute) = (lock(&self.state), lock(&self.minute));
        Account {
            worker: self.worker.clone(),
            seconds: minute.seconds(),
            done: state.done,
            last_minute: minute.sum(),
            failed: state.failed,
            in_progress: state.of_input.len(),
            devices: state.devices.clone(),
            waits: state.waits.as_ref().map(|(_, why, _)| why.clone()),
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
