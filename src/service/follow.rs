//! `--watch` of folders in object storage: processes the new pictures of each round. [`Rounds`]
//! defines the rounds.
//!
//! An object appears whole and need not settle, and the outputs themselves are the record of
//! finished work: there is no ledger, and a round is a run of its own. Pictures that fail for good
//! are left out until they are replaced; all others that fail are tried again in the next round.
//! The devices are the same in all rounds, until a reload changes the settings that they were
//! started with.

use std::collections::HashMap;
use std::panic;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError};
use tracing::{debug, error, info};

use super::{Control, TICK, WAITING};
use crate::config::Settings;
use crate::device::machine::Machine;
use crate::error::Error;
use crate::fs::paths::Shown;
use crate::progress::{Event, Events};
use crate::publish::{self, Publisher};
use crate::run::lasting::{suit, with_devices};
use crate::run::pipeline::{Encoder, Outlet, Run};
use crate::service::reports::health::Health;
use crate::service::reports::log;
use crate::source::rounds::{self, Rounds};
use crate::source::stop::Stop;
use crate::source::{Batches, Job, Plan, Skip, balance_tail, fetch_ahead, scan};

/// Follows the folders until asked to stop.
///
/// # Errors
/// When the service cannot start. Later failures are waited out.
pub(super) fn run(settings: &Settings, control: &Control, publisher: &Publisher) -> Result<(), Error> {
    let health = Health::new(settings.device_timeout);
    let mut follower = Follower { rounds: Rounds::new(settings), control, publisher, health: &health };
    health.ready();
    let out = &settings.out;
    if store::is_url(out) {
        follower.follow()
    } else {
        publish::with_leftovers_removed(out, usize::MAX, || follower.follow()).map_err(Error::thread)?
    }
}

struct Follower<'a> {
    rounds: Rounds,
    control: &'a Control,
    publisher: &'a Publisher,
    health: &'a Health,
}

/// The results of a round.
#[derive(Default)]
struct Heard {
    /// Files that failed for good, or are not pictures.
    over: Vec<PathBuf>,
    /// Failures, with their messages.
    failed: HashMap<PathBuf, String>,
}

impl Follower<'_> {
    /// Makes rounds until asked to stop.
    fn follow(&mut self) -> Result<(), Error> {
        let stop = &self.control.stop;
        while !stop.asked() {
            let settings = Settings { never_ends: true, ..self.rounds.settings().clone() };
            with_devices(&settings, stop, |machine| self.follow_on(machine, &settings))?;
        }
        self.health.stopping();
        Ok(())
    }

    /// Makes rounds on a machine with devices that were started with these settings, until asked to
    /// stop or until others are needed.
    fn follow_on(&mut self, machine: &Machine, started_with: &Settings) -> Result<(), Error> {
        let (control, health) = (self.control, self.health);
        let round = || {
            if control.reload.swap(false, Ordering::Relaxed) {
                self.reload();
            }
            let suits = suit(started_with, self.rounds.settings());
            suits.then(|| self.round(machine)).transpose()
        };
        rounds::follow(&control.stop, round, || health.beat(false))
    }

    /// Lists the folders once, and processes the new pictures. Returns the pause before the next
    /// round.
    fn round(&mut self, machine: &Machine) -> Result<Duration, Error> {
        let (events, heard) = Events::queue(WAITING);
        let round = Stop::default();
        let mut states = HashMap::new();
        let listener = Listener { stop: &self.control.stop, health: self.health, round: &round };
        let (done, Heard { over, mut failed }) = thread::scope(|scope| {
            let listening = thread::Builder::new()
                .name("follow".into())
                .spawn_scoped(scope, move || listener.listen(&heard))
                .map_err(Error::thread)?;
            let done = scan(self.rounds.settings(), &round).and_then(|mut plan| {
                plan.refuse_image_folders(rounds::NO_IMAGE_FOLDERS);
                let jobs = self.take_new(plan, &events);
                states.extend(jobs.iter().filter_map(|job| Some((job.input.clone(), job.listed_state()?))));
                self.process(machine, jobs, &round, &events)
            });
            drop(events);
            Ok::<_, Error>((done, listening.join().unwrap_or_else(|panic| panic::resume_unwind(panic))))
        })?;
        if let Err(why) = done {
            failed.insert(self.rounds.settings().out.clone(), why.to_string());
        }
        for (input, state) in over.into_iter().filter_map(|input| states.remove_entry(&input)) {
            self.rounds.pass(input, state);
        }
        self.rounds.log("", failed);
        Ok(self.rounds.pause())
    }

    /// Takes the jobs of this round from a plan.
    fn take_new(&mut self, plan: Plan, events: &Events) -> Vec<Job> {
        for (input, error) in plan.failed {
            events.send(Event::Failed { input, error, planned: false });
        }
        let jobs = self.rounds.without_passed(plan.jobs);
        if !jobs.is_empty() {
            debug!("{} to process", jobs.len());
        }
        jobs
    }

    fn process(
        &self,
        machine: &Machine,
        mut jobs: Vec<Job>,
        round: &Stop,
        events: &Events,
    ) -> Result<(), Error> {
        if jobs.is_empty() || round.asked() {
            return Ok(());
        }
        let settings = self.rounds.settings();
        let encoder = Encoder::new(settings, &settings.out, self.publisher)?;
        encoder.check()?;
        balance_tail(&mut jobs, settings.threads);
        fetch_ahead(&jobs, settings);
        Run::new(settings, &encoder, machine, round, events).feed(Batches::of(jobs, settings.threads))
    }

    fn reload(&mut self) {
        match (self.control.read)() {
            Ok(settings) => {
                // Each round is a run of its own: no change needs a restart.
                log::reloaded(&self.rounds.settings().written.differing(&settings.written), &[]);
                self.rounds.reload(settings);
            }
            Err(why) => error!("configuration not reloaded: {why}"),
        }
    }
}

/// The listener to the events of a round, which ends the round if the service is to stop.
struct Listener<'a> {
    stop: &'a Stop,
    health: &'a Health,
    round: &'a Stop,
}

impl Listener<'_> {
    fn listen(&self, events: &Receiver<Event>) -> Heard {
        let mut heard = Heard::default();
        loop {
            if self.stop.asked() {
                self.round.ask();
            }
            self.health.beat(true);
            match events.recv_timeout(TICK) {
                Ok(event) => {
                    self.health.moved();
                    hear(event, &mut heard);
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return heard,
            }
        }
    }
}

fn hear(event: Event, heard: &mut Heard) {
    match event {
        Event::Done { input, output, device, .. } => {
            info!("{} -> {} ({device})", Shown(&input), Shown(&output));
        }
        Event::Failed { input, error, .. } => {
            if !error.is_transient() {
                heard.over.push(input.clone());
            }
            heard.failed.insert(input, error.in_service());
        }
        Event::Skipped { input, why: Skip::NotAPicture | Skip::Object(_), .. } => heard.over.push(input),
        Event::Remarked { input, remark, range } if remark.is_about_one() => {
            info!("note: {}: {}", Shown(&input), remark.of_one_with(range));
        }
        _ => {}
    }
}
