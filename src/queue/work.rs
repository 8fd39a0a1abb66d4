//! `histeqd work`: takes messages from a queue and processes their pictures.

use std::collections::{HashMap, HashSet, VecDeque};
use std::iter;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use histeqd_queue::{Delivery, Limits, Queue, QueueError};
use sd_notify::NotifyState;
use tracing::{info, warn};

use super::begun::{BegunMessages, Failure, Fault, GONE, Refused, Taken};
use super::message::{Message, Picture};
use super::outputs::{Outputs, Unwritable, is_of_others};
use super::roots::Roots;
use super::signature::Signatures;
use super::unusable;
use crate::cli::{self, WorkCommand};
use crate::config::{InputFile, OrNone, Report, Request, Settings, Written};
use crate::device::machine::Machine;
use crate::error::{Error, Exit};
use crate::fs::paths::Shown;
use crate::progress::Events;
use crate::publish::{Publisher, Replaces};
use crate::run::lasting::with_devices;
use crate::run::pipeline::{Encoder, Outlet, Run};
use crate::service::reports::log;
use crate::source::stop::Stop;
use crate::source::{Job, Objects, fetch_ahead};

/// Capacity of the queue of pipeline events.
const WAITING: usize = 4096;
/// The time that a request for work may wait at the server. A stop is noticed in between.
const PATIENCE: Duration = Duration::from_secs(2);
/// The same, where another event is likely soon.
const SHORT_PATIENCE: Duration = Duration::from_millis(200);
/// The most messages that wait for an input which is in progress.
const MOST_HELD: usize = 8;
/// The pause after the server did not answer.
const PAUSE: Duration = Duration::from_secs(1);
/// How long the end waits for the server to acknowledge the ends of messages. A message that is not
/// acknowledged is delivered once more, and its outputs are then found to be done.
const SETTLING: Duration = Duration::from_secs(15);
/// The least wait for the server when a stop is requested.
const TICK: Duration = Duration::from_millis(100);

/// Works on a queue until stopped, or, if requested, until it is empty. `written` are the keys of
/// this machine.
///
/// # Errors
/// When the command line is invalid, the queue cannot be used, or the pipeline cannot continue.
pub fn work(
    command: &WorkCommand,
    written: Written,
    stop: &Stop,
    publisher: &Publisher,
) -> Result<Exit, Error> {
    log::start(command.style())?;
    let roots = Arc::new(Roots::of(&command.roots)?);
    let place = &command.queue.queue;
    let queue = Queue::connect(place, &cli::access()?).map_err(|why| unusable(&why))?;
    let limits = command.queue.limits();
    queue.create(&limits).map_err(|why| unusable(&why))?;
    let signatures = Signatures::of(command.queue.key_file.as_deref())?;
    let begun = Arc::new(BegunMessages::new(u64::from(command.attempts.get()), signatures));
    let told = Arc::clone(&begun);
    queue
        .answer(move || serde_json::to_vec(&told.account()).unwrap_or_default())
        .map_err(|why| unusable(&why))?;
    info!("histeqd {}: working on {place}", env!("CARGO_PKG_VERSION"));
    // Fails without a service manager, which does not matter.
    let _ = sd_notify::notify(&[NotifyState::Ready]);
    let until_empty = command.until_empty;
    let (report, held) = (Report { style: command.style(), ..Report::default() }, VecDeque::new());
    let worker = Worker {
        queue: &queue,
        limits,
        roots,
        written,
        report,
        begun: &begun,
        until_empty,
        stop,
        held,
        is_silent: false,
    };
    let done = worker.run(publisher);
    if !queue.finish(SETTLING) {
        warn!("the queue's server does not answer; unconfirmed messages are delivered again");
    }
    done?;
    Ok(if until_empty && begun.failed() > 0 { Exit::SomeFailed } else { Exit::Done })
}

struct Worker<'a> {
    queue: &'a Queue,
    limits: Limits,
    roots: Arc<Roots>,
    /// The keys of this machine.
    written: Written,
    report: Report,
    begun: &'a BegunMessages,
    until_empty: bool,
    stop: &'a Stop,
    /// Messages that have to wait: for other settings, or for an input that is in progress.
    held: VecDeque<Taken>,
    /// Whether the server has stopped answering.
    is_silent: bool,
}

impl Worker<'_> {
    /// Processes messages until there is a reason to stop. Devices are started once, as no message
    /// has settings for them.
    fn run(mut self, publisher: &Publisher) -> Result<(), Error> {
        let settings = self.settings("", self.roots.first()).map_err(Error::Usage)?;
        let stop = self.stop;
        let done = with_devices(&settings, stop, |machine| self.do_all(machine, publisher));
        if stop.asked() {
            info!("stopped");
        }
        self.held.into_iter().for_each(|taken| self.begun.give_back(taken));
        done
    }

    fn do_all(&mut self, machine: &Machine, publisher: &Publisher) -> Result<(), Error> {
        while let Some(first) = self.first() {
            let (text, root) = (first.message.settings.clone(), first.root.clone());
            match self.settings(&text, &root) {
                Ok(settings) => {
                    self.held.push_front(first);
                    self.process(machine, &settings, &text, &root, publisher)?;
                }
                Err(reason) => self.fail_all(first, &reason),
            }
        }
        Ok(())
    }

    /// Returns the next message, for whatever settings.
    fn first(&mut self) -> Option<Taken> {
        loop {
            if self.stop.asked() {
                return None;
            }
            if self.begun.waits() {
                thread::sleep(TICK);
                continue;
            }
            if let Some(held) = self.held.pop_front() {
                return Some(held);
            }
            if !self.take(if self.until_empty { SHORT_PATIENCE } else { PATIENCE }) {
                return None;
            }
        }
    }

    /// Returns the settings for messages that carry this text and have their outputs in this root.
    fn settings(&self, text: &str, root: &Path) -> Result<Settings, String> {
        let written = self.written.clone().with_carried(text)?;
        // Naming the buckets reserves memory for objects.
        let (inputs, out) = (self.roots.buckets(), root.to_owned());
        let roots = Some(self.roots.inputs().clone());
        let request = Request { report: self.report, inputs, roots, out, ..Request::default() };
        let mut settings = Settings::resolve(written, request)?;
        // The obstacles to writing may pass by themselves, as in a service.
        settings.never_ends = true;
        Ok(settings)
    }

    /// Processes all messages with the same settings, until one with others comes.
    fn process(
        &mut self,
        machine: &Machine,
        settings: &Settings,
        text: &str,
        root: &Path,
        publisher: &Publisher,
    ) -> Result<(), Error> {
        let ready = Encoder::new(settings, root, publisher).and_then(|encoder| {
            encoder.check()?;
            Ok(encoder)
        });
        let encoder = match ready {
            // A bucket that is away may come back.
            Err(why) if store::is_url(root) => {
                self.begun.wait(&why.to_string());
                return Ok(());
            }
            ready => ready?,
        };
        let (stop, begun, roots) = (self.stop.clone(), self.begun, Arc::clone(&self.roots));
        let (events, told) = Events::queue(WAITING);
        let done = thread::scope(|scope| {
            thread::Builder::new()
                .name("queue-events".into())
                .spawn_scoped(scope, move || {
                    told.iter().for_each(|event| begun.hear(event, || roots.are_there()));
                })
                .map_err(Error::thread)?;
            let run = Run::new(settings, &encoder, machine, &stop, &events);
            let done = run.feed(iter::from_fn(|| self.batch(settings, text, root)));
            drop(events);
            done
        });
        self.begun.leave();
        done
    }

    /// Returns the jobs of the next message with these settings; `None` if there is no message, or
    /// one with others.
    fn batch(&mut self, settings: &Settings, text: &str, root: &Path) -> Option<Vec<Job>> {
        loop {
            if self.stop.asked() {
                info!("stopping: finishing the pictures in progress");
                return None;
            }
            if !self.roots.are_there() {
                self.begun.wait(GONE);
            }
            if self.begun.waits() {
                thread::sleep(TICK);
                continue;
            }
            let mut held = self.held.iter();
            let next =
                held.position(|taken| taken.is_like(text, root) && self.begun.is_free_for(&taken.message));
            if let Some(place) = next {
                let jobs = self.held.remove(place).map(|taken| self.begin(taken, settings));
                match jobs {
                    Some(jobs) if !jobs.is_empty() => return Some(jobs),
                    _ => continue,
                }
            }
            if self.held.iter().any(|taken| !taken.is_like(text, root)) {
                return None;
            }
            if self.held.len() >= MOST_HELD {
                thread::sleep(TICK);
                continue;
            }
            let is_short = self.until_empty || !self.held.is_empty();
            if !self.take(if is_short { SHORT_PATIENCE } else { PATIENCE }) {
                return None;
            }
        }
    }

    /// Begins a message, and returns the jobs that are still to do.
    fn begin(&self, taken: Taken, settings: &Settings) -> Vec<Job> {
        let (mut jobs, mut failures) = (Vec::with_capacity(taken.message.pictures.len()), HashMap::new());
        let pictures = &taken.message.pictures;
        let is_trusted = self.begun.signatures().are_required();
        let mut objects =
            Objects::find(pictures.iter().flat_map(|picture| [&*picture.input, &*picture.output]), settings);
        for Picture { input, output, named, .. } in pictures {
            match objects.job(input.clone(), output.clone(), *named, &settings.picture) {
                Ok(Some(job))
                    if !is_trusted && (is_of_others(&job.output) || objects.is_of_others(&job.output)) =>
                {
                    let reason = Unwritable::Other(job.output).to_string();
                    failures.insert(job.input, Failure { reason, fault: Fault::Own });
                }
                // Another file may come to the place of the output while the picture is worked on.
                Ok(Some(job)) if !is_trusted => jobs.push(Job { replaces: Replaces::Own, ..job }),
                Ok(Some(job)) => jobs.push(job),
                Ok(None) => {}
                Err(error) => {
                    failures.insert(input.clone(), Failure::of(&error, self.roots.are_there()));
                }
            }
        }
        let open: HashSet<_> = jobs.iter().map(|job| job.input.clone()).collect();
        fetch_ahead(&jobs, settings);
        self.begun.begin(taken, open, failures);
        jobs
    }

    /// Fails all pictures of a message with settings that cannot be used here.
    fn fail_all(&self, taken: Taken, reason: &str) {
        let failures = taken.message.pictures.iter().map(|picture| {
            (picture.input.clone(), Failure { reason: reason.to_owned(), fault: Fault::Passing })
        });
        let failures = failures.collect();
        self.begun.begin(taken, HashSet::new(), failures);
    }

    /// Asks the server for a message, and holds it if it can be processed. Returns whether there
    /// may be more.
    fn take(&mut self, patience: Duration) -> bool {
        match self.queue.pull(patience) {
            Ok(Some(delivery)) => {
                self.hears();
                if let Some(taken) = self.admit(delivery) {
                    self.held.push_back(taken);
                }
                true
            }
            Ok(None) => {
                self.hears();
                !(self.until_empty && self.is_empty())
            }
            Err(why) => {
                if !std::mem::replace(&mut self.is_silent, true) {
                    warn!("{why}; retrying until it answers");
                }
                if matches!(why, QueueError::Missing(_) | QueueError::Failed { .. }) {
                    // Another worker may have been faster.
                    let _ = self.queue.create(&self.limits);
                }
                self.pause();
                true
            }
        }
    }

    fn hears(&mut self) {
        if std::mem::replace(&mut self.is_silent, false) {
            info!("the queue's server answers again");
        }
    }

    fn pause(&self) {
        let mut left = PAUSE;
        while !left.is_zero() && !self.stop.asked() {
            thread::sleep(TICK);
            left = left.saturating_sub(TICK);
        }
    }

    /// Returns whether no work is left, for this worker or another.
    fn is_empty(&self) -> bool {
        self.held.is_empty()
            && self.queue.stats().is_ok_and(|stats| stats.waiting == 0 && stats.in_progress == 0)
    }

    /// Decides about a message: whether it can be understood, may be processed here, and was not
    /// tried too often.
    fn admit(&mut self, delivery: Delivery) -> Option<Taken> {
        let message = match self.begun.signatures().read(delivery.payload()) {
            Ok(message) => message,
            Err(why) => {
                self.begun.refuse_unread(delivery, why);
                return None;
            }
        };
        if let Err(why) = self.check_settings(&message.settings) {
            let refuse = |picture: &Picture| Refused { picture: picture.clone(), why: why.clone() };
            let refused: Vec<_> = message.pictures.iter().map(refuse).collect();
            self.begun.refuse(delivery, &message, &refused);
            return None;
        }
        let refused = self.outside(&message.pictures);
        if !refused.is_empty() {
            self.begun.refuse(delivery, &message, &refused);
            return None;
        }
        let root = self.roots.of_output(&message.pictures[0].output).ok()?.to_owned();
        let deliveries = message.deliveries(delivery.deliveries());
        if message.pictures.len() > 1 && (deliveries > 1 || !self.are_alike(&message, &root)) {
            self.begun.split(delivery, &message);
            return None;
        }
        if deliveries > self.begun.attempts() {
            let why = format!(
                "it was begun {} times, and each time its worker was killed or cut off (the kernel's log shows whether memory ran out)",
                deliveries - 1
            );
            let refused = [Refused { picture: message.pictures[0].clone(), why }];
            self.begun.refuse(delivery, &message, &refused);
            return None;
        }
        Some(Taken { delivery, message, root })
    }

    /// Returns whether the pictures can be processed together: their outputs lie in one root, and
    /// no input is named twice.
    fn are_alike(&self, message: &Message, root: &Path) -> bool {
        let inputs: HashSet<_> = message.pictures.iter().map(|picture| &picture.input).collect();
        inputs.len() == message.pictures.len()
            && message
                .pictures
                .iter()
                .all(|picture| self.roots.of_output(&picture.output).is_ok_and(|own| own == root))
    }

    /// Checks that a message's settings can be read, and that the files that they name are allowed.
    fn check_settings(&self, text: &str) -> Result<(), String> {
        let written = self.written.clone().with_carried(text)?;
        let reference = match &written.reference {
            Some(OrNone::Some(InputFile(file))) => Some(file),
            _ => None,
        };
        let mut files = reference.into_iter().chain(written.lut.iter().flatten());
        if let Some(url) = files.clone().find(|file| store::is_url(file)) {
            return Err(format!("{} is a URL; it must be a file", Shown(url)));
        }
        files.try_for_each(|file| self.roots.check_input(file)).map_err(|why| why.to_string())
    }

    /// Returns the pictures that this worker may not read or not write, and why.
    fn outside(&self, pictures: &[Picture]) -> Vec<Refused> {
        let mut check_input = self.roots.check_inputs();
        let outputs = Outputs::of(pictures, &self.roots);
        let outside = pictures.iter().filter_map(|picture| {
            let checked = check_input(&picture.input).map_err(Unwritable::from);
            let why = checked.and_then(|()| outputs.check(picture)).err()?.to_string();
            Some(Refused { picture: picture.clone(), why })
        });
        outside.collect()
    }
}
