//! The outgoing side of a watch: messages to publish, and a copy of the queue's content.

use std::collections::{HashMap, HashSet, VecDeque};
use std::fmt::Display;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use histeqd_queue::{DeadLetter, Limits, Published, Queue, QueueError};
use tracing::{debug, info, warn};

use super::message::{Dead, Message, Picture, hash};
use super::signature::Signatures;
use super::submit::{PAUSES, dead_by_name, forget_dead, messages};
use crate::config::Written;
use crate::fs::paths::Shown;
use crate::source::Job;

/// The number of known pictures above which finished ones are to be forgotten.
const MOST: usize = 1_000_000;

/// An obstacle to publishing.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Trouble {
    Full,
    /// The server does not answer as it should.
    Server,
}

/// The messages on their way to the queue, and the pictures that it already has. The queue is asked
/// for these: pictures that this process published may be gone, and others may have been added.
pub(super) struct Outgoing<'a> {
    queue: &'a Queue,
    signatures: Signatures,
    limits: Limits,
    /// The keys of the run.
    written: &'a Written,
    /// The pictures, each in a state and with settings, that wait, are in progress or were put
    /// aside.
    queued: HashSet<u128>,
    /// The dead letters by their names.
    dead: HashMap<String, DeadLetter>,
    /// When both were read.
    read: Option<Instant>,
    /// How long this copy may be used.
    trusted: Duration,
    unsent: VecDeque<Message>,
    /// Why publishing is suspended.
    trouble: Option<Trouble>,
    tries: u32,
    next_try: Instant,
    vanished: bool,
}

impl<'a> Outgoing<'a> {
    pub(super) fn new(
        queue: &'a Queue,
        signatures: Signatures,
        limits: Limits,
        written: &'a Written,
        trusted: Duration,
    ) -> Self {
        Self {
            queue,
            signatures,
            limits,
            written,
            queued: HashSet::new(),
            dead: HashMap::new(),
            read: None,
            trusted,
            unsent: VecDeque::new(),
            trouble: None,
            tries: 0,
            next_try: Instant::now(),
            vanished: false,
        }
    }

    /// Returns whether more pictures can be added.
    pub(super) fn has_room(&self, now: Instant) -> bool {
        self.unsent.is_empty() && self.next_try <= now
    }

    /// Returns whether the queue had to be created again since the last call, and has lost its
    /// content.
    pub(super) fn take_vanished(&mut self) -> bool {
        std::mem::take(&mut self.vanished)
    }

    /// Returns whether the queue has the picture of a job in this state, waiting, in progress or
    /// put aside; `None` if it does not answer.
    pub(super) fn has(&mut self, job: &Job) -> Option<bool> {
        let key = hash(&self.written.carried(&job.settings), &[Picture::of(job.clone())]);
        let matters = self.queued.contains(&key) || self.queued.len() > MOST;
        let is_old = self.read.is_none_or(|read| matters && read.elapsed() >= self.trusted);
        if is_old && let Err(why) = self.read() {
            self.wait_for_server(&why);
            return None;
        }
        Some(self.queued.contains(&key))
    }

    fn read(&mut self) -> Result<(), QueueError> {
        let (mut queued, dead) = (HashSet::new(), dead_by_name(self.queue)?);
        let mut add = |Message { settings, pictures, .. }: Message| {
            queued.extend(pictures.iter().map(|picture| hash(&settings, std::slice::from_ref(picture))));
        };
        let signatures = &self.signatures;
        dead.values()
            .filter_map(|letter| Dead::parse(signatures.check(&letter.payload).ok()?)?.message)
            .for_each(&mut add);
        // Invalid messages are the workers' to refuse.
        self.queue.work(|payload| signatures.read(payload).into_iter().for_each(&mut add))?;
        (self.queued, self.dead, self.read) = (queued, dead, Some(Instant::now()));
        Ok(())
    }

    /// Adds pictures to publish.
    pub(super) fn add(&mut self, jobs: Vec<Job>) {
        self.unsent.extend(messages(jobs, self.written));
    }

    /// Publishes as much as the queue takes, and returns the inputs that it has then.
    pub(super) fn send(&mut self) -> Vec<PathBuf> {
        let mut sent = Vec::new();
        while self.next_try <= Instant::now()
            && let Some(message) = self.unsent.front()
        {
            match self.publish(message) {
                Ok(Published::Full) => {
                    self.hold(Trouble::Full, &"the queue is full; new pictures wait for the workers");
                }
                Ok(Published::Added | Published::Already) => {
                    self.tries = 0;
                    if self.trouble.take().is_some() {
                        info!("the queue takes pictures again");
                    }
                    let Some(Message { settings, pictures, .. }) = self.unsent.pop_front() else { break };
                    for picture in pictures {
                        debug!("submitted: {}", Shown(&picture.input));
                        self.queued.insert(hash(&settings, std::slice::from_ref(&picture)));
                        sent.push(picture.input);
                    }
                }
                Err(QueueError::Missing(_)) => self.create(),
                Err(why) => self.wait_for_server(&why),
            }
        }
        sent
    }

    fn publish(&self, message: &Message) -> Result<Published, QueueError> {
        let letter = self.signatures.sign(message.letter());
        let published = self.queue.publish(&letter.name, letter.payload)?;
        if published == Published::Added {
            forget_dead(self.queue, message, &self.dead)?;
        }
        Ok(published)
    }

    /// Creates the queue again.
    fn create(&mut self) {
        match self.queue.create(&self.limits) {
            Ok(()) => {
                warn!(
                    "the queue is gone; it is created again, and pictures without outputs are submitted again"
                );
                (self.queued, self.dead, self.read) = Default::default();
                self.vanished = true;
            }
            Err(why) => self.wait_for_server(&why),
        }
    }

    fn wait_for_server(&mut self, why: &QueueError) {
        self.hold(Trouble::Server, &format_args!("{why}; new pictures wait until it does"));
    }

    /// Suspends publishing for a while, and logs the reason unless that was the last one logged.
    fn hold(&mut self, trouble: Trouble, why: &dyn Display) {
        if self.trouble != Some(trouble) {
            warn!("{why}");
            self.trouble = Some(trouble);
        }
        self.tries += 1;
        self.next_try = Instant::now() + PAUSES.after(self.tries);
    }
}
