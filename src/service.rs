//! The watching service: `histeqd --watch`.
//!
//! A single thread, the main loop, owns everything but pixels: the watched folders, the settle state machine, the ledger. It hands jobs to
//! the pipeline and hears how they end. It never waits for a picture, nor for an input being copied elsewhere, so it always responds.
//!
//! ```text
//!  watch ──▶ settle ──ready──▶ ledger.begin ──job──▶ pipeline ──event──▶ ledger.done ──▶ the input is removed, moved or set aside
//!              ▲                                                   │
//!              └──── changed meanwhile, or failed for now ─────────┘
//! ```

mod after;
pub(crate) mod folders;
pub(crate) mod follow;
#[doc(hidden)]
pub mod fuzzing;
mod gate;
mod gone;
mod handle;
mod notes;
mod picture_settings;
mod place;
mod prune;
mod rebuild;
mod reload;
mod report;
mod suspects;
pub(crate) mod told;
pub mod watch;
mod web;

use std::collections::HashMap;
use std::iter;
use std::net::SocketAddr;
use std::panic;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, bounded, select};
use tracing::{info, warn};

use crate::commands::retry::Wanted;
use crate::config::{PictureSettings, Service, Settings, Written};
use crate::device::machine::Machine;
use crate::error::Error;
use crate::fs::stamp::Stamp;
use crate::ledger::{self, LedgerError, LockError, Pruned};
use crate::picture::record::Digest;
use crate::progress::{Event, Events};
use crate::publish::Publisher;
use crate::run::pipeline::{Encoder, Run};
use crate::source::folder_settings::FolderSettings;
use crate::source::stop::Stop;
use crate::source::{Job, Prefixes, signs_of_outputs};
use after::finished_inputs::FinishedInputs;
use after::retried::Retried;
use folders::Folders;
use folders::ledger_check::LedgerCheck;
use folders::output_access::{OutputAccess, OutputMount};
use folders::tidy::{tidy, written_to};
use gate::Gate;
use notes::Unwritten;
use rebuild::Failures;
use reload::warn_of_overwrite;
use told::account::Account;
use told::health::Health;
use told::log;
use told::metrics::Metrics;
use told::notifications::Notifications;
use watch::Watch;
use watch::settle::{Ready, Settle};
use web::access::Access;
use web::answers::{Answers, Change, ChangeRequest, InForce};
use web::previews::Previews;
use web::routes;
use web::server::{self, Server};
use web::status_socket::StatusSocket;

/// Capacity of the queue of pipeline events.
const WAITING: usize = 4096;
/// How often the loop checks what no message announces: a stop request, timers, the watchdog.
const TICK: Duration = Duration::from_millis(200);
/// How often the service's state is reported to the ledger, the metrics and the service manager.
const SAY: Duration = Duration::from_secs(2);
/// How the rest of the program controls a running service.
pub struct Control {
    /// Ask it to stop: pictures in progress are finished, no new ones are begun.
    pub stop: Stop,
    /// Set to have the configuration reread.
    pub reload: Arc<AtomicBool>,
    /// Reads the configuration.
    pub read: Box<dyn Fn() -> Result<Settings, Error> + Send>,
}

/// Watches folders and processes their pictures until asked to stop.
///
/// # Errors
/// When the service cannot start or cannot go on, for example because another process took over its output folder.
pub fn run(settings: &Settings, control: Control, publisher: &Publisher) -> Result<(), Error> {
    log::start(settings.report.style)?;
    info!("{}", log::first_line(settings));
    warn_of_overwrite(settings);
    settings.notes.iter().for_each(|note| tracing::warn!("{note}"));
    if settings.inputs.iter().any(|input| store::is_url(input)) {
        return follow::run(settings, &control, publisher);
    }
    // Checked before anything is created, and again once the output folder exists: only then are other paths to it recognized.
    Folders::of(settings)?;
    let (output_access, anew) = OutputAccess::take(settings, &control.stop)?;
    let folders = Folders::of(settings)?;
    let out = folders.out.clone();
    folders
        .watched
        .iter()
        .filter_map(|folder| signs_of_outputs(folder, &out))
        .for_each(|note| warn!("{note}"));
    let health = Arc::new(Health::new(settings.device_timeout));
    let machine = Arc::new(Machine::new(settings.memory, settings.threads));
    let metrics = Arc::new(Metrics::new(Arc::clone(&machine)));
    let folder = ledger::folder(&settings.out, settings.service.state.as_deref());
    let account = Arc::new(Account::new(folder.clone(), out.clone()));
    anew.into_iter().for_each(|why| account.ledger_is_new(why));
    let (changes, to_change) = bounded(1);
    let previews = Previews::start(Arc::clone(&machine), Arc::clone(&account), settings);
    let answers = Arc::new(Answers {
        in_force: InForce::of(settings),
        account: Arc::clone(&account),
        health: Arc::clone(&health),
        metrics: Arc::clone(&metrics),
        changes,
        access: access(&settings.service)?,
        previews: previews.map_err(Error::thread)?,
    });
    let server = settings.service.listen.map(|address| listen(address, settings, &answers));
    let server = server.transpose().map_err(Error::CannotRun)?;
    let socket = StatusSocket::new(folder.clone(), answers);
    let asked = Asked { account, health: Arc::clone(&health), metrics, to_change, socket };
    let check = LedgerCheck::start(folder).map_err(Error::thread)?;

    let (jobs, given) = bounded(settings.threads);
    let (events, told) = Events::queue(WAITING);
    let stop = control.stop.clone();
    let ledger = (output_access, check);
    let watching = Watching::new(settings, control, folders, ledger, jobs, asked)?;
    let encoder = Encoder::new(settings, &out, publisher)?;
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
        let run = Run::new(settings, &encoder, &machine, &stop, &events);
        let done = run.process(jobs);
        drop(events);
        // Whatever ended the pipeline, the tidy thread has to end too.
        stop.ask();
        let watched = watching.join().unwrap_or_else(|panic| panic::resume_unwind(panic));
        done.and(watched.map_err(Error::from))
    });
    drop(server);
    done
}

fn access(service: &Service) -> Result<Access, Error> {
    Access::new(service.token_file.as_deref(), &service.listen_names).map_err(Error::Usage)
}

/// Starts the server for others than the socket's users, and says in the log what its clients may do. The error is a sentence for the user.
fn listen(address: SocketAddr, settings: &Settings, answers: &Arc<Answers>) -> Result<Server, String> {
    let (server, address) = server::start(address, routes::all(Arc::clone(answers)))?;
    let has_own_token = settings.service.token_file.is_some();
    if !has_own_token {
        info!("who retries, pauses or resumes there needs this token: {}", answers.access.token());
    }
    if let Some(path) = answers.access.way_in() {
        info!("the browser that opens this link first may do so without it: http://{address}{path}");
    }
    if !address.ip().is_loopback() {
        let advice =
            if has_own_token { "" } else { "; --token-file FILE sets a token that outlives the service" };
        warn!(
            "--listen {address}: whoever can reach this address sees names and previews of pictures; \
             changes take the token{advice}"
        );
    }
    Ok(server)
}

/// Returns the jobs, and reports the service as ready when the pipeline asks for the first one: by then all of the pipeline is up.
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
    settings: Arc<PictureSettings>,
    /// What tells its mask from other states of it.
    mask: Option<Digest>,
    output: PathBuf,
    /// What the log says of its output once that is there.
    told: Option<String>,
    at: Instant,
    /// Whether nothing else may be in progress: a killed process had it in progress.
    alone: bool,
}

/// Those who ask the service, and what they are told.
struct Asked {
    account: Arc<Account>,
    health: Arc<Health>,
    metrics: Arc<Metrics>,
    to_change: Receiver<ChangeRequest>,
    socket: StatusSocket,
}

/// The main loop's state.
struct Watching<'a> {
    settings: &'a Settings,
    /// The service's settings as of the last reload.
    service: Service,
    /// All keys as of then.
    in_force: Written,
    control: Control,
    out: PathBuf,
    prefixes: Prefixes,
    output_access: OutputAccess,
    ledger_check: LedgerCheck,
    unwritten: Unwritten,
    failures: Failures,
    account: Arc<Account>,
    to_change: Receiver<ChangeRequest>,
    socket: StatusSocket,
    /// Whether somebody paused the service.
    is_paused: bool,
    /// When the service started, in nanoseconds since 1970.
    began: i64,
    /// The inputs that a killed process was about to remove and that this one renamed back, with their ctimes since then.
    put_back: HashMap<PathBuf, i64>,
    folder_settings: FolderSettings,
    watch: Watch,
    settle: Settle,
    gate: Gate,
    finished_inputs: FinishedInputs,
    /// `None` once no more jobs are handed out.
    jobs: Option<Sender<Job>>,
    running: HashMap<PathBuf, Begun>,
    /// A picture that is to be begun next, once nothing is in progress: a killed process had it in progress.
    suspect: Option<Ready>,
    retried: Retried,
    /// The inputs of failed pictures that are still to be looked for.
    looked_for: Vec<PathBuf>,
    notifications: Notifications,
    health: Arc<Health>,
    metrics: Arc<Metrics>,
    next_say: Instant,
    next_prune: Instant,
    /// Progress of the search for old rows.
    pruned: Pruned,
}

impl<'a> Watching<'a> {
    fn new(
        settings: &'a Settings,
        control: Control,
        folders: Folders,
        (output_access, ledger_check): (OutputAccess, LedgerCheck),
        jobs: Sender<Job>,
        Asked { account, health, metrics, to_change, mut socket }: Asked,
    ) -> Result<Self, Error> {
        socket.keep();
        let Folders { watched, out, prefixes, options } = folders;
        let now = Instant::now();
        Ok(Self {
            settings,
            service: settings.service.clone(),
            in_force: settings.written.clone(),
            control,
            out,
            prefixes,
            output_access,
            ledger_check,
            unwritten: Unwritten::default(),
            failures: Failures::default(),
            account,
            to_change,
            socket,
            is_paused: false,
            began: ledger::now_ns(),
            put_back: HashMap::new(),
            folder_settings: FolderSettings::default(),
            watch: Watch::start(watched, options, now),
            settle: Settle::new(settings.service.settle),
            gate: Gate::default(),
            finished_inputs: FinishedInputs::start().map_err(Error::thread)?,
            jobs: Some(jobs),
            running: HashMap::new(),
            suspect: None,
            retried: Retried::default(),
            looked_for: Vec::new(),
            notifications: Notifications::start(
                settings.service.notify.as_ref(),
                settings.service.notify_quiet,
                &settings.out,
            )?,
            health,
            metrics,
            next_say: now,
            next_prune: now,
            pruned: Pruned::default(),
        })
    }

    /// Runs the loop until the pipeline has ended.
    ///
    /// # Errors
    /// When another process has taken over the output folder or the ledger.
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
                recv(self.to_change) -> asked => asked.into_iter().for_each(|request| self.change(request)),
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
        self.finished_inputs.end();
        // Jobs that a stop found on their way into the pipeline were never begun.
        self.running.clear();
        self.say(Instant::now());
        self.output_access.leave()
    }

    /// Returns how long there is nothing to do unless a message arrives.
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
            info!("stopping: finishing the pictures in progress");
            self.health.stopping();
            self.excuse();
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

    /// Returns whether the output folder's file system is there.
    fn has_ground(&mut self) -> bool {
        let ground = self.output_access.look();
        if ground == OutputMount::New {
            // What held outputs up concerned the other file system.
            self.gate.release();
            self.retried.forget_writes();
            self.watch.list_all(Instant::now());
        }
        ground != OutputMount::Gone
    }

    fn ledger_failed(&mut self, why: LedgerError) {
        if let Some(why) = self.output_access.ledger_failed(why) {
            self.go_on_with_new_ledger(why);
        }
    }

    /// Changes what the service does, as somebody asked.
    fn change(&mut self, ChangeRequest { change, answer }: ChangeRequest) {
        let changed = match change {
            Change::Retry(wanted) => self.retry(&wanted),
            Change::Pause => Ok(self.set_paused(true)),
            Change::Resume => Ok(self.set_paused(false)),
        };
        // Whoever asked may have given up meanwhile.
        let _ = answer.send(changed);
    }

    /// Takes failed pictures up again. Returns how many, or a sentence that says why not.
    fn retry(&mut self, wanted: &Wanted) -> Result<usize, String> {
        let are_meant = |input: &Path| wanted.has(input);
        self.failures.forget_those(are_meant);
        let count = self.output_access.ledger().forget_failed(are_meant).map_err(|why| why.to_string())?;
        if count > 0 {
            info!("{count} pictures that had failed are tried again");
            self.watch.list_all(Instant::now());
        }
        Ok(count)
    }

    /// Has no pictures begun, or begun again. Returns how many wait.
    fn set_paused(&mut self, is_paused: bool) -> usize {
        if self.is_paused != is_paused {
            self.is_paused = is_paused;
            info!("{}", if is_paused { "paused: pictures in progress are finished" } else { "resumed" });
            self.say(Instant::now());
        }
        self.settle.counts().ready
    }
}
