//! `--watch` of folders in object storage: they are listed again and again, and what is new is processed.
//!
//! An object appears whole, so nothing has to settle, and the outputs tell what is done, so there is no ledger: a round is a run of its own. What
//! fails for good is left out until it is replaced; everything else that fails is tried again in the next round. The devices are the same in
//! all rounds, until a reload changes what they were started with.

use std::collections::HashMap;
use std::panic;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError};
use tracing::{debug, error, info, warn};

use super::reload::told;
use super::{Control, TICK, WAITING};
use crate::config::Settings;
use crate::device::machine::Machine;
use crate::error::Error;
use crate::fs::paths::Shown;
use crate::fs::stamp::Stamp;
use crate::progress::{Event, Events};
use crate::publish::{self, Publisher};
use crate::run::lasting::{suit, with_devices};
use crate::run::pipeline::{Encoder, Outlet, Run};
use crate::service::told::health::Health;
use crate::source::stop::Stop;
use crate::source::{Batches, Job, Plan, Skip, balance_tail, fetch_ahead, scan};

/// How often the folders are listed unless `--poll` says.
pub(crate) const POLL: Duration = Duration::from_secs(30);

/// Follows the folders until asked to stop.
///
/// # Errors
/// When the service cannot start. What fails later is waited for.
pub(super) fn run(settings: &Settings, control: &Control, publisher: &Publisher) -> Result<(), Error> {
    let mut follower = Follower {
        settings: as_single_run(settings.clone()),
        stop: control.stop.clone(),
        publisher,
        health: Health::new(settings.device_timeout),
        done_with: HashMap::new(),
        told: HashMap::new(),
    };
    follower.health.ready();
    let out = &settings.out;
    if store::is_url(out) {
        follower.follow(control)
    } else {
        publish::with_leftovers_removed(out, usize::MAX, || follower.follow(control))
            .map_err(Error::thread)?
    }
}

/// Returns the settings of a round. In it, a bucket that is gone ends all of the round, not only a picture.
fn as_single_run(mut settings: Settings) -> Settings {
    settings.watch = false;
    settings
}

struct Follower<'a> {
    settings: Settings,
    stop: Stop,
    publisher: &'a Publisher,
    health: Health,
    /// The inputs that are not to be tried again in these states: they failed for good, or are no pictures.
    done_with: HashMap<PathBuf, Stamp>,
    /// What was said of an input or folder, so that it is not said again in every round.
    told: HashMap<PathBuf, String>,
}

/// What a round heard.
#[derive(Default)]
struct Heard {
    /// What failed or is no picture, for good.
    over: Vec<PathBuf>,
    /// What failed, and what is to be said of it.
    failed: HashMap<PathBuf, String>,
}

impl Follower<'_> {
    /// Makes rounds until asked to stop.
    fn follow(&mut self, control: &Control) -> Result<(), Error> {
        let stop = self.stop.clone();
        while !stop.asked() {
            let settings = Settings { watch: true, ..self.settings.clone() };
            with_devices(&settings, &stop, |machine| self.rounds(control, &settings, machine))?;
        }
        self.health.stopping();
        Ok(())
    }

    /// Makes rounds on a machine whose devices were started with these settings, until asked to stop or until others are needed.
    fn rounds(&mut self, control: &Control, started_with: &Settings, machine: &Machine) -> Result<(), Error> {
        while !self.stop.asked() {
            if control.reload.swap(false, Ordering::Relaxed) {
                self.reload(control);
            }
            if !suit(started_with, &self.settings) {
                return Ok(());
            }
            self.round(machine)?;
            let next = Instant::now() + self.settings.service.poll.unwrap_or(POLL);
            while !self.stop.asked() && Instant::now() < next {
                self.health.beat(false);
                thread::sleep(TICK.min(next.saturating_duration_since(Instant::now())));
            }
        }
        Ok(())
    }

    /// Lists the folders once, and processes what is new.
    fn round(&mut self, machine: &Machine) -> Result<(), Error> {
        let (events, heard) = Events::queue(WAITING);
        let round = Stop::default();
        let mut stamps = HashMap::new();
        let (done, heard) = thread::scope(|scope| {
            let listening = thread::Builder::new()
                .name("follow".into())
                .spawn_scoped(scope, || self.listen(&heard, &round))
                .map_err(Error::thread)?;
            let done = scan(&self.settings, &round).and_then(|plan| {
                let jobs = self.to_do(plan, &events);
                stamps.extend(jobs.iter().filter_map(|job| Some((job.input.clone(), stamp(job)?))));
                self.process(machine, jobs, &round, &events)
            });
            drop(events);
            Ok::<_, Error>((done, listening.join().unwrap_or_else(|panic| panic::resume_unwind(panic))))
        })?;
        let Heard { over, mut failed } = heard;
        if let Err(why) = done {
            failed.insert(self.settings.out.clone(), why.to_string());
        }
        self.done_with.extend(over.into_iter().filter_map(|input| stamps.remove_entry(&input)));
        self.tell(failed);
        Ok(())
    }

    /// Takes from a plan what is to be done in this round.
    fn to_do(&self, plan: Plan, events: &Events) -> Vec<Job> {
        for (input, error) in plan.failed {
            events.tell(Event::Failed { input, error, planned: false });
        }
        let is_new =
            |job: &Job| stamp(job).is_none_or(|stamp| self.done_with.get(&job.input) != Some(&stamp));
        let jobs: Vec<Job> = plan.jobs.into_iter().filter(is_new).collect();
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
        let settings = &self.settings;
        let encoder = Encoder::new(settings, &settings.out, self.publisher)?;
        encoder.check()?;
        balance_tail(&mut jobs, settings.threads);
        fetch_ahead(&jobs, settings);
        Run::new(settings, &encoder, machine, round, events).feed(Batches::of(jobs, settings.threads))
    }

    /// Hears what becomes of the pictures of a round, and ends it if the service is to stop.
    fn listen(&self, events: &Receiver<Event>, round: &Stop) -> Heard {
        let mut heard = Heard::default();
        loop {
            if self.stop.asked() {
                round.ask();
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

    /// Says what failed, unless the round before has said so, and what works again.
    fn tell(&mut self, failed: HashMap<PathBuf, String>) {
        for (path, why) in &failed {
            if self.told.get(path) != Some(why) {
                warn!("{}: {why}", Shown(path));
            }
        }
        let is_folder =
            |path: &Path| self.settings.inputs.iter().chain([&self.settings.out]).any(|own| own == path);
        for path in self.told.keys().filter(|path| is_folder(path) && !failed.contains_key(*path)) {
            info!("{}: there again", Shown(path));
        }
        self.told = failed;
    }

    fn reload(&mut self, control: &Control) {
        match (control.read)() {
            Ok(settings) => {
                // Each round is a run of its own, so that nothing needs a restart of the service.
                info!(
                    "the configuration is reloaded: {}",
                    told(&self.settings.written.differing(&settings.written))
                );
                self.settings = as_single_run(settings);
                // Other settings may do what failed.
                self.done_with.clear();
            }
            Err(why) => error!("the configuration is not reloaded: {why}"),
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
        Event::Remarked { input, remark } => debug!("note: {}: {}", Shown(&input), remark.of_one()),
        _ => {}
    }
}

fn stamp(job: &Job) -> Option<Stamp> {
    job.object.as_ref().map(|object| Stamp::of_object(object.entry()))
}
