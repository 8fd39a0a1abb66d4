//! The watching service: `histeqd --watch`.
//!
//! This file starts it: the pipeline, and the loop in `watching`, a single thread that owns
//! everything but pixels, hands jobs to the pipeline and receives their results.
//!
//! ```text
//!  watch ─▶ settle ─ready─▶ ledger.begin ─job─▶ pipeline ─event─▶ ledger.done ─▶ the input is
//!             ▲                                          │                       removed, moved
//!             └── changed meanwhile, or failed for now ──┘                       or set aside
//! ```

mod after;
mod examine;
pub(crate) mod folders;
pub(crate) mod follow;
#[doc(hidden)]
pub mod fuzzing;
mod pictures;
pub(crate) mod reports;
mod rules;
pub mod watch;
mod watching;
mod web;

use std::iter;
use std::net::SocketAddr;
use std::panic;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, bounded};
use tracing::{info, warn};

use crate::config::{Service, Settings};
use crate::device::machine::Machine;
use crate::error::Error;
use crate::ledger;
use crate::progress::Events;
use crate::publish::Publisher;
use crate::run::pipeline::{Encoder, Outlet, Run};
use crate::source::stop::Stop;
use crate::source::{Job, signs_of_outputs};
use after::finished_inputs::FinishedInputs;
use folders::Folders;
use folders::gate::Gate;
use folders::output_access::OutputAccess;
use folders::tidy::{tidy, written_to};
use pictures::Pictures;
use reports::account::Account;
use reports::health::Health;
use reports::log;
use reports::metrics::Metrics;
use reports::notifications::Notifications;
use reports::reporter::Reporter;
use rules::Rules;
use watch::Watch;
use watching::Watching;
use web::access::Access;
use web::answers::{Answers, InForce};
use web::previews::Previews;
use web::routes;
use web::server::{self, Server};
use web::status_socket::StatusSocket;

/// Capacity of the queue of pipeline events.
const WAITING: usize = 4096;
/// The interval of checks for changes that no message announces: a stop request, timers, the
/// watchdog.
const TICK: Duration = Duration::from_millis(200);

/// The controls of a running service for the rest of the program.
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
/// When the service cannot start or cannot continue, for example because another process took over
/// its output folder.
pub fn run(settings: &Settings, control: Control, publisher: &Publisher) -> Result<(), Error> {
    log::start(settings.report.style)?;
    info!("{}", log::first_line(settings));
    log::warn_of_overwrite(settings);
    settings.notes.iter().for_each(|note| warn!("{note}"));
    if settings.inputs.iter().any(|input| store::is_url(input)) {
        return follow::run(settings, &control, publisher);
    }
    // Checked before any file is created, and again once the output folder exists: only then are
    // other paths to it recognized.
    Folders::of(settings)?;
    let (output, anew) = OutputAccess::take(settings, &control.stop)?;
    let Folders { watched, out, prefixes, options } = Folders::of(settings)?;
    watched.iter().filter_map(|folder| signs_of_outputs(folder, &out)).for_each(|note| warn!("{note}"));
    let machine = Arc::new(Machine::new(settings.memory, settings.threads));
    let folder = ledger::folder(&settings.out, settings.service.state.as_deref());
    let account = Arc::new(Account::new(folder.clone(), out.clone()));
    anew.into_iter().for_each(|why| account.ledger_is_new(why));
    let (changes, to_change) = bounded(1);
    let previews = Previews::start(Arc::clone(&machine), Arc::clone(&account), settings);
    let answers = Arc::new(Answers {
        in_force: InForce::of(settings),
        account,
        health: Arc::new(Health::new(settings.device_timeout)),
        metrics: Arc::new(Metrics::new(Arc::clone(&machine))),
        changes,
        access: access(&settings.service)?,
        previews: previews.map_err(Error::thread)?,
    });
    let server = settings.service.listen.map(|address| listen(address, settings, &answers));
    let server = server.transpose().map_err(Error::CannotRun)?;
    let (jobs, given) = bounded(settings.threads);
    let watching = Watching {
        watch: Watch::start(watched, options, settings.service.settle, Instant::now()),
        rules: Rules::new(settings, out.clone(), prefixes),
        output,
        gate: Gate::default(),
        pictures: Pictures::new(jobs),
        finished_inputs: FinishedInputs::start().map_err(Error::thread)?,
        reporter: reporter(settings, &answers)?,
        to_change,
        socket: StatusSocket::new(folder, Arc::clone(&answers)),
        is_paused: false,
        looked_for: Vec::new(),
        control,
    };
    let jobs = starting(given, &answers.health);
    let done = process(settings, watching, jobs, &Encoder::new(settings, &out, publisher)?, &machine);
    drop(server);
    done
}

fn reporter(settings: &Settings, answers: &Answers) -> Result<Reporter, Error> {
    let Service { notify, notify_quiet, .. } = &settings.service;
    let notifications = Notifications::start(notify.as_ref(), *notify_quiet, &settings.out)?;
    let Answers { account, health, metrics, .. } = answers;
    Ok(Reporter::new(Arc::clone(account), Arc::clone(health), Arc::clone(metrics), notifications))
}

/// Runs the pipeline and the loop that gives it jobs until both have ended.
fn process(
    settings: &Settings,
    watching: Watching<'_>,
    jobs: impl Iterator<Item = Vec<Job>>,
    encoder: &Encoder<'_>,
    machine: &Machine,
) -> Result<(), Error> {
    let (events, heard) = Events::queue(WAITING);
    let stop = watching.control.stop.clone();
    thread::scope(|scope| {
        let watching = thread::Builder::new()
            .name("watch".into())
            .spawn_scoped(scope, move || watching.run(&heard))
            .map_err(Error::thread)?;
        thread::Builder::new()
            .name("tidy".into())
            .spawn_scoped(scope, || tidy(written_to(settings), &stop))
            .map_err(Error::thread)?;
        let run = Run::new(settings, encoder, machine, &stop, &events);
        let done = encoder.check().and_then(|()| run.process(jobs));
        drop(events);
        // Whatever ended the pipeline, the tidy thread has to end too.
        stop.ask();
        let watched = watching.join().unwrap_or_else(|panic| panic::resume_unwind(panic));
        done.and(watched.map_err(Error::from))
    })
}

fn access(service: &Service) -> Result<Access, Error> {
    Access::new(service.token_file.as_deref(), &service.listen_names).map_err(Error::Usage)
}

/// Starts the server for clients other than the socket's, and logs how they get access. The error
/// is a sentence for the user.
fn listen(address: SocketAddr, settings: &Settings, answers: &Arc<Answers>) -> Result<Server, String> {
    let (server, address) = server::start(address, routes::all(Arc::clone(answers)))?;
    let has_own_token = settings.service.token_file.is_some();
    if !has_own_token {
        info!("token for retry, pause and resume: {}", answers.access.token());
    }
    if let Some(path) = answers.access.way_in() {
        info!("link that signs in the first browser that opens it: http://{address}{path}");
    }
    if !address.ip().is_loopback() {
        let advice =
            if has_own_token { "" } else { "; --token-file FILE sets a token that outlives the service" };
        warn!(
            "--listen {address}: anyone who can reach this address sees names and previews of pictures; changes need the token{advice}"
        );
    }
    Ok(server)
}

/// Returns the jobs, and reports the service as ready when the pipeline asks for the first one: by
/// then all of the pipeline is up.
fn starting(jobs: Receiver<Job>, health: &Health) -> impl Iterator<Item = Vec<Job>> {
    let mut ready = false;
    iter::from_fn(move || {
        if !std::mem::replace(&mut ready, true) {
            health.ready();
        }
        jobs.recv().ok().map(|job| vec![job])
    })
}
