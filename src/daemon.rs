//! The watching service: `histeqd --watch`.
//!
//! One thread, this one's loop, owns everything that is not pixels: the watched folders, the settling machine, the ledger.
//! It gives jobs to the pipeline and hears how they end. It never waits for a picture, nor for an input that is copied elsewhere, so it
//! always answers.
//!
//! ```text
//!  watch ──▶ settle ──ready──▶ ledger.begin ──job──▶ pipeline ──event──▶ ledger.done ──▶ away: the input goes, moves, or is set aside
//!              ▲                                                   │
//!              └──── changed meanwhile, or the cause can pass ─────┘
//! ```

mod away;
mod handle;
mod health;
mod hold;
mod inputs;
mod log;
mod metrics;
mod retried;
mod server;

use std::collections::HashMap;
use std::iter;
use std::panic;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, bounded, select};
use tracing::{error, info, warn};

use crate::config::{After, Existing, Service, Settings};
use crate::equalize::Order;
use crate::error::Error;
use crate::ledger::{self, Ledger, LedgerError, Lock, LockError, Pruned};
use crate::machine::Machine;
use crate::paths::Shown;
use crate::pipeline::{Encoder, Stop};
use crate::progress::Event;
use crate::publish::{Publisher, YOUNG, remove_leftovers};
use crate::source::Job;
use crate::source::mounts::Home;
use crate::source::settle::Settle;
use crate::source::stamp::Stamp;
use crate::source::watch::{Options, Watch};
use away::Away;
use health::Health;
use hold::Hold;
use metrics::Metrics;
use retried::Retried;

/// Events that may wait for the loop.
const WAITING: usize = 4096;
/// How often the loop looks at what nobody tells it: a stop, the time, the watchdog.
const TICK: Duration = Duration::from_millis(200);
/// How often the ledger is told how things are.
const SAY: Duration = Duration::from_secs(2);
/// How often old rows of the ledger are looked for, and how old they are.
const PRUNE: Duration = Duration::from_secs(24 * 3600);
const OLD: Duration = Duration::from_secs(30 * 24 * 3600);
/// How many rows are looked at in one turn, so that nothing waits for a slow file system.
const PRUNED_A_TURN: u32 = 1000;

/// The keys that are taken from a configuration that is read again.
const RELOADED: [&str; 8] = ["include", "exclude", "follow", "settle", "rescan", "poll", "after", "failed"];
/// The key that a service has no use for.
const OVERWRITE: &str = "overwrite";

/// What the outside asks of a service that runs.
pub struct Control {
    /// Ask it to finish what was begun.
    pub stop: Stop,
    /// Set it to have the configuration read again.
    pub reload: Arc<AtomicBool>,
    /// Reads the configuration.
    pub read: Box<dyn Fn() -> Result<Settings, Error> + Send>,
}

/// Watches and does pictures until it is asked to stop.
///
/// # Errors
/// When it cannot work at all.
pub fn run(settings: &Settings, control: Control, publisher: &Publisher) -> Result<(), Error> {
    log::start(settings.report.style);
    warn_of_overwrite(settings);
    let cannot = |error: &dyn std::error::Error| Error::CannotRun(error.to_string());
    // Nothing is made in folders that cannot be what they are to be. Once the output folder is there, its other names are known too.
    Folders::of(settings)?;
    let folder = ledger::folder(&settings.out, settings.service.state.as_deref());
    let lock = Lock::take(&settings.out, &folder).map_err(|error| cannot(&error))?;
    let (ledger, note) = Ledger::open(&folder).map_err(|error| cannot(&error))?;
    note.into_iter().for_each(|note| warn!("{note}"));
    let folders = Folders::of(settings)?;
    let health = Arc::new(Health::new(settings.device_timeout));
    let machine = Arc::new(Machine::new(settings.memory, settings.threads));
    let metrics = Arc::new(Metrics::new(Arc::clone(&machine)));
    let server = settings.service.listen.map(|address| server::start(address, &folder, &health, &metrics));
    let server = server.transpose().map_err(Error::CannotRun)?;

    let (jobs, given) = bounded(settings.threads);
    let (events, told) = bounded(WAITING);
    let stop = control.stop.clone();
    let outside = Outside { health: Arc::clone(&health), metrics, machine: Arc::clone(&machine) };
    let away = Away::start().map_err(Error::thread)?;
    let watching = Watching::new(settings, control, folders, (lock, ledger, away), jobs, outside);
    let encoder = Encoder { out: &settings.out, target: &settings.target, publisher };
    let order = Order::Equalize(settings.operation);
    let done = thread::scope(|scope| {
        let watching = thread::Builder::new()
            .name("watch".into())
            .spawn_scoped(scope, move || watching.run(&told))
            .map_err(Error::thread)?;
        thread::Builder::new()
            .name("tidy".into())
            .spawn_scoped(scope, || tidy(written_to(settings), &stop))
            .map_err(Error::thread)?;
        let jobs = starting(given, &health);
        let done = crate::process(jobs, &encoder, order, settings, &machine, &stop, &events);
        drop(events);
        // Whatever ended it, nobody is to tidy on.
        stop.ask();
        let watched = watching.join().unwrap_or_else(|panic| panic::resume_unwind(panic));
        done.and(watched.map_err(|error| cannot(&error)))
    });
    drop(server);
    done
}

/// The folders that a kill may have left temporary files in.
fn written_to(settings: &Settings) -> Vec<PathBuf> {
    let archive = match &settings.service.after {
        After::Move(folder) => Some(folder),
        After::Keep | After::Delete => None,
    };
    [Some(&settings.out), archive, settings.service.failed.as_ref()].into_iter().flatten().cloned().collect()
}

/// Removes what processes that were killed have left in these places.
fn tidy(mut places: Vec<PathBuf>, stop: &Stop) {
    while !places.is_empty() {
        let mut removed = 0;
        for place in std::mem::take(&mut places) {
            let (count, young) = remove_leftovers(&place, || stop.asked());
            removed += count;
            places.extend(young);
        }
        if removed > 0 {
            info!("removed {removed} temporary files of a process that was killed");
        }
        let until = Instant::now() + YOUNG;
        while !places.is_empty() && Instant::now() < until {
            if stop.asked() {
                return;
            }
            thread::sleep(TICK);
        }
    }
}

/// The jobs; the pipeline asks for the first one when all of it stands.
fn starting(jobs: Receiver<Job>, health: &Health) -> impl Iterator<Item = Vec<Job>> {
    let mut ready = false;
    iter::from_fn(move || {
        if !std::mem::replace(&mut ready, true) {
            health.ready();
        }
        jobs.recv().ok().map(|job| vec![job])
    })
}

/// A picture in the pipeline.
struct Begun {
    stamp: Stamp,
    output: PathBuf,
    at: Instant,
}

/// Where the pictures are, and where they go, by absolute paths.
struct Folders {
    watched: Vec<PathBuf>,
    out: PathBuf,
    options: Options,
}

impl Folders {
    /// # Errors
    /// When they cannot be what the settings make of them.
    fn of(settings: &Settings) -> Result<Self, Error> {
        let out = absolute(&settings.out)?;
        let watched: Vec<_> =
            settings.inputs.iter().map(|input| absolute(input)).collect::<Result<_, _>>()?;
        if let Some(file) = watched.iter().find(|folder| folder.is_file()) {
            return Err(Error::Usage(format!("{} is a file, and --watch wants folders", Shown(file))));
        }
        if let Some(same) = watched.iter().find(|folder| is_same(folder, &out)) {
            let same = Shown(same);
            return Err(Error::Usage(format!("{same} is input and output; --out has to be another folder")));
        }
        Ok(Self { options: options(settings, &out)?, watched, out })
    }
}

/// Those who are told how things are, and whom that is asked.
struct Outside {
    health: Arc<Health>,
    metrics: Arc<Metrics>,
    machine: Arc<Machine>,
}

/// The loop's belongings.
struct Watching<'a> {
    settings: &'a Settings,
    /// As the configuration says it now.
    service: Service,
    control: Control,
    out: PathBuf,
    home: Home,
    /// What to say of [`Self::home`] while it is gone.
    unmounted: Option<String>,
    fingerprint: String,
    watch: Watch,
    settle: Settle,
    lock: Lock,
    /// Why another writes the ledger now.
    superseded: Option<LockError>,
    ledger: Ledger,
    hold: Hold,
    away: Away,
    /// None when no more jobs are given.
    jobs: Option<Sender<Job>>,
    running: HashMap<PathBuf, Begun>,
    retried: Retried,
    health: Arc<Health>,
    metrics: Arc<Metrics>,
    machine: Arc<Machine>,
    next_say: Instant,
    next_prune: Instant,
    /// How far the search for old rows has come.
    pruned: Pruned,
}

impl<'a> Watching<'a> {
    fn new(
        settings: &'a Settings,
        control: Control,
        folders: Folders,
        (lock, ledger, away): (Lock, Ledger, Away),
        jobs: Sender<Job>,
        outside: Outside,
    ) -> Self {
        let Outside { health, metrics, machine } = outside;
        let Folders { watched, out, options } = folders;
        let now = Instant::now();
        Self {
            service: settings.service.clone(),
            fingerprint: settings.fingerprint(),
            settle: Settle::new(settings.service.settle),
            hold: Hold::default(),
            away,
            jobs: Some(jobs),
            running: HashMap::new(),
            retried: Retried::default(),
            next_say: now,
            next_prune: now,
            pruned: Pruned::default(),
            settings,
            control,
            home: Home::of(&out),
            unmounted: None,
            out,
            watch: Watch::start(watched, options, now),
            lock,
            superseded: None,
            ledger,
            health,
            metrics,
            machine,
        }
    }

    /// # Errors
    /// When the output folder or the ledger is another service's by now.
    fn run(mut self, events: &Receiver<Event>) -> Result<(), LockError> {
        loop {
            let signals = self.watch.signals();
            let mut signal = None;
            select! {
                recv(signals) -> told => signal = told.ok(),
                recv(events) -> told => match told {
                    Ok(event) => self.hear(event),
                    Err(_) => break,
                },
                default(self.pause()) => {}
            }
            for event in events.try_iter().take(WAITING) {
                self.hear(event);
            }
            if self.jobs.is_some() {
                self.look(signal);
                self.feed();
            }
            self.tick(Instant::now());
        }
        self.away.end();
        // What a stop found on the way into the pipeline was not begun.
        self.running.clear();
        self.say(Instant::now());
        self.superseded.map_or(Ok(()), Err)
    }

    /// How long there is nothing to do if nobody says anything.
    fn pause(&self) -> Duration {
        if self.jobs.is_none() {
            return TICK;
        }
        let now = Instant::now();
        let due = self.settle.next_due().unwrap_or(now + TICK);
        due.min(self.watch.next_turn(now)).saturating_duration_since(now).min(TICK)
    }

    fn tick(&mut self, now: Instant) {
        if self.control.stop.asked() && self.jobs.take().is_some() {
            info!("stopping: {} pictures are being finished", self.running.len());
            self.health.stopping();
        }
        if self.control.reload.swap(false, Ordering::Relaxed) {
            self.reload(now);
        }
        self.health.beat(!self.running.is_empty());
        if self.next_say <= now {
            self.say(now);
        }
        if self.next_prune <= now {
            self.prune(now);
        }
    }

    /// Goes on to look for old rows of the ledger.
    fn prune(&mut self, now: Instant) {
        let so_far = std::mem::take(&mut self.pruned);
        let mut away: Vec<&Path> = self.watch.missing().collect();
        // Where inputs are taken away, an empty folder is the usual one.
        if self.service.after == After::Keep {
            away.extend(self.watch.empty());
        }
        match self.ledger.prune(OLD, &away, &so_far.last.unwrap_or_default(), PRUNED_A_TURN) {
            Ok(Pruned { forgotten, last }) => {
                let forgotten = so_far.forgotten + forgotten;
                if last.is_some() {
                    self.pruned = Pruned { forgotten, last };
                    return;
                }
                if forgotten > 0 {
                    info!("forgot {forgotten} pictures whose inputs are long gone");
                }
            }
            Err(why) => self.ledger_failed(why, now),
        }
        self.next_prune = now + PRUNE;
    }

    /// Tells the ledger, the metrics and the service manager how things are.
    fn say(&mut self, now: Instant) {
        self.next_say = now + SAY;
        self.hold_on(now);
        let counts = self.settle.counts();
        let daemon = ledger::Daemon {
            pid: std::process::id(),
            seconds_ago: 0,
            stopped: self.jobs.is_none() && self.running.is_empty(),
            incomplete: counts.incomplete,
            waiting: counts.ready,
            running: self.running.len(),
            pausing: counts.pausing,
            leaving: self.away.waiting(),
            staying: self.away.staying(),
            held: self.unmounted.as_deref().or(self.hold.why()).map(str::to_owned),
            missing: self.watch.missing().map(|folder| Shown(folder).to_string()).collect(),
            devices: self.machine.devices.states(),
        };
        self.metrics.gauge(&daemon);
        self.health.say(&daemon);
        if let Err(why) = self.ledger.say(&daemon) {
            self.ledger_failed(why, now);
        }
    }

    /// Says what the ledger refused a call with. One that is damaged is begun anew, and what it is to know is done again.
    fn ledger_failed(&mut self, why: LedgerError, now: Instant) {
        match self.ledger.mend(why) {
            Ok(note) => {
                warn!("{note}");
                self.watch.list_all(now);
            }
            Err(why) => warn!("{why}"),
        }
    }

    /// Takes the lock and the ledger again if somebody removed them, or moved them away with their folder.
    fn hold_on(&mut self, now: Instant) {
        if self.is_unmounted() {
            return;
        }
        match self.lock.retake_if_lost() {
            Ok(()) => {}
            Err(why @ LockError::File { .. }) => return warn!("{why}"),
            Err(why) => {
                self.superseded = Some(why);
                return self.control.stop.ask();
            }
        }
        match self.ledger.reopen_if_deleted() {
            Ok(false) => {}
            Ok(true) => {
                warn!("the ledger was deleted; what is in the watched folders is done again");
                self.watch.list_all(now);
            }
            Err(why) => self.ledger_failed(why, now),
        }
    }

    /// Whether the output folder's file system is gone. What is in its place now must not get outputs, nor a ledger.
    fn is_unmounted(&mut self) -> bool {
        let place = Shown(self.home.place()).to_string();
        match (self.home.is_mounted(), &self.unmounted) {
            (false, None) => {
                let why = format!("{place}, where the output folder is, is not mounted");
                warn!("{why}; nothing more is started until it is");
                self.unmounted = Some(why);
            }
            (true, Some(_)) => {
                info!("{place} is mounted again");
                self.unmounted = None;
                self.watch.list_all(Instant::now());
            }
            (true, None) | (false, Some(_)) => {}
        }
        self.unmounted.is_some()
    }

    /// Reads the configuration again, and takes from it what a running service can.
    fn reload(&mut self, now: Instant) {
        let new = match (self.control.read)().and_then(|new| Ok((options(&new, &self.out)?, new))) {
            Ok(new) => new,
            Err(why) => return error!("the configuration is not reloaded: {why}"),
        };
        let (options, new) = new;
        let fixed = fixed_keys(self.settings, &new);
        self.settle.set_rest(new.service.settle);
        // Everything is listed again, and put away as it is now to be.
        self.away.forget();
        self.watch.reconfigure(options, now);
        self.service = new.service.clone();
        info!("the configuration is reloaded");
        warn_of_overwrite(&new);
        if !fixed.is_empty() {
            warn!("a restart is needed for the changes to {}", fixed.join(", "));
        }
    }
}

fn options(settings: &Settings, out: &Path) -> Result<Options, Error> {
    let mut excluded = vec![out.to_owned()];
    if let After::Move(folder) = &settings.service.after {
        excluded.push(absolute(folder)?);
    }
    for folder in [&settings.service.failed, &settings.service.state].into_iter().flatten() {
        excluded.push(absolute(folder)?);
    }
    for input in &settings.inputs {
        let input = absolute(input)?;
        if let Some(same) = excluded[1..].iter().find(|folder| is_same(folder, &input)) {
            let same = Shown(same);
            return Err(Error::Usage(format!(
                "{same} is watched, so inputs cannot be put aside there; --after move, --failed and --state have to name other folders"
            )));
        }
    }
    let Service { rescan, poll, .. } = settings.service;
    Ok(Options { selection: settings.selection.clone(), excluded, rescan, poll })
}

/// The keys that differ and that a running service cannot change.
fn fixed_keys(old: &Settings, new: &Settings) -> Vec<String> {
    let mut keys = old.written.differing(&new.written);
    keys.retain(|key| !RELOADED.contains(&key.as_str()) && key != OVERWRITE);
    keys
}

/// Says what is wanted and cannot be: the ledger, and no time of an output, says what is to be done.
fn warn_of_overwrite(settings: &Settings) {
    if settings.existing == Existing::Overwrite {
        warn!(
            "{OVERWRITE} = true has no effect in a service; to have everything done again, delete its ledger"
        );
    }
}

fn absolute(path: &Path) -> Result<PathBuf, Error> {
    std::path::absolute(path)
        .map_err(|error| Error::CannotRun(format!("{} has no absolute path: {error}", Shown(path))))
}

fn is_same(a: &Path, b: &Path) -> bool {
    a == b || a.canonicalize().ok().is_some_and(|a| b.canonicalize().ok() == Some(a))
}
