//! The histeqd command: arguments, signals, exit code.

use std::fmt::Display;
use std::io::{self, Write};
#[cfg(feature = "queue")]
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use clap::Parser;
#[cfg(feature = "queue")]
use histeqd_queue::Place;
use nix::sys::signal::{SigSet, Signal};

use crate::cli::{Cli, Command, HistogramCommand, Invocation};
use crate::commands::{bench, explain, pause, retry, status};
use crate::config::Settings;
use crate::device::worker;
use crate::device::worker::MakeFaults;
use crate::error::{Error, Exit};
use crate::progress::{Summary, painted, trace};
use crate::publish::Publisher;
use crate::slot::share_heap_in_limited_space;
use crate::source::stop::Stop;
use crate::{cli, device, histogram, run, service};
#[cfg(feature = "queue")]
use crate::{
    cli::{RetryCommand, StatusCommand, SubmitCommand, WorkCommand},
    config::Durability,
    queue,
};

/// Runs the command line. `faults` makes the deliberate faults of this process, if it is a worker.
pub fn main(faults: MakeFaults) -> ExitCode {
    share_heap_in_limited_space();
    codec::silence_contained_panics();
    match run(faults) {
        Ok(exit) => exit.into(),
        Err(error) => {
            if !error.is_broken_pipe() {
                let _ = writeln!(anstream::stderr(), "{}", painted(&format!("error: {error}")));
            }
            error.exit().into()
        }
    }
}

fn run(faults: MakeFaults) -> Result<Exit, Error> {
    match Cli::read()?.resolve()? {
        Invocation::Print(text) => print(&text),
        Invocation::Run(settings) if settings.never_ends => watch(&settings),
        Invocation::Run(settings) => run_pictures(&settings),
        #[cfg(feature = "queue")]
        Invocation::Publish(settings, place, key) => publish(&settings, &place, key.as_deref()),
        Invocation::Command(Command::Histogram(command)) => count_pictures(*command),
        Invocation::Command(Command::Devices) => print(&device::find::describe()),
        Invocation::Command(Command::Presets(command)) => print(&cli::presets(&command)),
        #[cfg(feature = "queue")]
        Invocation::Command(Command::Submit(command)) => submit(*command),
        #[cfg(feature = "queue")]
        Invocation::Command(Command::Work(command)) => work(&command),
        #[cfg(not(feature = "queue"))]
        Invocation::Command(Command::Submit { .. }) => Err(Error::Usage(
            "this histeqd was built without the queue (the feature queue, which --features full has)"
                .to_owned(),
        )),
        #[cfg(feature = "queue")]
        Invocation::Command(Command::Status(StatusCommand { queue: Some(place), json, .. })) => {
            print(&queue::describe(&place, json)?)
        }
        #[cfg(feature = "queue")]
        Invocation::Command(Command::Retry(command @ RetryCommand { queue: Some(_), .. })) => {
            print(&queue::retry(&command)?)
        }
        Invocation::Command(Command::Status(command)) => print(&status::describe(&command)?),
        Invocation::Command(Command::Explain(command)) => {
            let (text, exit) = explain::describe(&command)?;
            print(&text).map(|_| exit)
        }
        Invocation::Command(Command::Retry(command)) => print(&retry::retry(&command)?),
        Invocation::Command(Command::Pause(command)) => print(&pause::pause(&command)?),
        Invocation::Command(Command::Resume(command)) => print(&pause::resume(&command)?),
        Invocation::Command(Command::Bench(command)) => {
            trace::start(true)?;
            print(&bench::report(&command)?)
        }
        Invocation::Command(Command::Completions(command)) => print(&cli::completions(&command)),
        Invocation::Command(Command::Man(command)) => cli::write_manual(&command).map(|()| Exit::Done),
        Invocation::Command(Command::Worker(command)) if command.list => print(&worker::list()),
        Invocation::Command(Command::Worker(command)) => worker::main(&command.args(), command.life, faults),
    }
}

/// Writes the requested text to standard output.
fn print(text: &str) -> Result<Exit, Error> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())
        .and_then(|()| out.flush())
        .map_err(|source| Error::Unwritten { what: "standard output".into(), source })?;
    Ok(Exit::Done)
}

fn run_pictures(settings: &Settings) -> Result<Exit, Error> {
    trace::start(true)?;
    let stop = Stop::default();
    let publisher = Arc::new(Publisher::new(settings.durability));
    on_signals(&stop, &publisher, None)?;
    let summary = run::run(settings, &stop, &publisher)?;
    report(&summary, settings)
}

/// Like [`run_pictures`], but makes histograms instead of pictures.
fn count_pictures(command: HistogramCommand) -> Result<Exit, Error> {
    trace::start(true)?;
    let (settings, request) = command.resolve()?;
    let stop = Stop::default();
    let publisher = Arc::new(Publisher::new(settings.durability));
    on_signals(&stop, &publisher, None)?;
    let summary = histogram::run(&settings, &request, &stop, &publisher)?;
    report(&summary, &settings)
}

#[cfg(feature = "queue")]
fn submit(command: SubmitCommand) -> Result<Exit, Error> {
    let (stop, publisher) = (Stop::default(), Arc::new(Publisher::new(Durability::Full)));
    on_signals(&stop, &publisher, None)?;
    queue::submit(command, &stop)
}

#[cfg(feature = "queue")]
fn publish(settings: &Settings, place: &Place, key: Option<&Path>) -> Result<Exit, Error> {
    let (stop, publisher) = (Stop::default(), Arc::new(Publisher::new(Durability::Full)));
    on_signals(&stop, &publisher, None)?;
    queue::watch(settings, place, key, &stop)
}

#[cfg(feature = "queue")]
fn work(command: &WorkCommand) -> Result<Exit, Error> {
    let written = command.written()?;
    let publisher = Arc::new(Publisher::new(written.durability.unwrap_or(Durability::Full)));
    let stop = Stop::default();
    on_signals(&stop, &publisher, None)?;
    queue::work(command, written, &stop, &publisher)
}

fn report(summary: &Summary, settings: &Settings) -> Result<Exit, Error> {
    match summary.print(settings.report) {
        Err(source) if source.kind() != io::ErrorKind::BrokenPipe => {
            Err(Error::Unwritten { what: "the summary".into(), source })
        }
        // The exit code reports failed pictures even if the summary has no reader.
        _ => Ok(summary.exit()),
    }
}

/// Watches the input folders until a signal ends it. This is the normal end of a service, with exit
/// code 0.
fn watch(settings: &Settings) -> Result<Exit, Error> {
    let publisher = Arc::new(Publisher::new(settings.durability));
    let control = service::Control { stop: Stop::default(), reload: Arc::default(), read: Box::new(reread) };
    on_signals(&control.stop, &publisher, Some(&control.reload))?;
    service::run(settings, control, &publisher)?;
    Ok(Exit::Done)
}

/// Resolves the settings again, from the same command line and the current configuration file.
fn reread() -> Result<Settings, Error> {
    match Cli::try_parse().map_err(|error| Error::Usage(error.to_string()))?.resolve()? {
        Invocation::Run(settings) => Ok(*settings),
        _ => Err(Error::Usage("the command line is for something else now".into())),
    }
}

/// Sets up signals: the first drains the pipeline and the second exits at once; neither leaves a
/// partial file. SIGHUP is such a signal too, unless it was ignored from the start or is there to
/// set `reload`.
fn on_signals(
    stop: &Stop,
    publisher: &Arc<Publisher>,
    reload: Option<&Arc<AtomicBool>>,
) -> Result<(), Error> {
    // With SIGXFSZ blocked, a write beyond the limit on file sizes (`ulimit -f`) fails, and with it
    // one picture, instead of ending the process.
    let mut blocked = SigSet::from(Signal::SIGXFSZ);
    if reload.is_some() || is_ignored(Signal::SIGHUP) {
        blocked.add(Signal::SIGHUP);
    }
    let unhandled = |why: &dyn Display| Error::CannotRun(format!("signals cannot be handled: {why}"));
    // Threads that are started later inherit the mask.
    blocked.thread_block().map_err(|errno| unhandled(&errno))?;
    if let Some(reload) = reload {
        reload_on_hangup(Arc::clone(reload))?;
    }
    let (stop, publisher) = (stop.clone(), Arc::clone(publisher));
    let handler = move || if stop.asked() { leave(&publisher) } else { stop.ask() };
    ctrlc::set_handler(handler).map_err(|error| match error {
        ctrlc::Error::System(error) => Error::thread(error),
        other => unhandled(&other),
    })
}

/// Starts a thread that waits for SIGHUP, which must be blocked, and sets `reload` each time.
fn reload_on_hangup(reload: Arc<AtomicBool>) -> Result<(), Error> {
    let hangup = SigSet::from(Signal::SIGHUP);
    let wait = move || {
        while hangup.wait().is_ok() {
            reload.store(true, Ordering::Relaxed);
        }
    };
    std::thread::Builder::new().name("hangup".into()).spawn(wait).map_err(Error::thread)?;
    Ok(())
}

/// Whether this process was started with the signal ignored, as `nohup` does with SIGHUP
/// (proc_pid_status(5), SigIgn).
fn is_ignored(signal: Signal) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask >> (signal as i32 - 1) & 1 == 1)
}

fn leave(publisher: &Publisher) -> ! {
    publisher.abandon_all();
    std::process::exit(Exit::Stopped as i32)
}
