//! The histeqd command: arguments, signals, exit code.

use std::io::{self, Write};
use std::process::ExitCode;
use std::sync::Arc;

use clap::Parser;
use histeqd::cli::{Cli, Command, HistogramCommand, Invocation};
use histeqd::config::Settings;
use histeqd::error::{Error, Exit};
use histeqd::pipeline::Stop;
use histeqd::progress::Summary;
use histeqd::publish::Publisher;
use histeqd::{bench, device, histogram, worker};

fn main() -> ExitCode {
    match run() {
        Ok(exit) => exit.into(),
        Err(error) => {
            let _ = writeln!(io::stderr(), "error: {error}");
            error.exit().into()
        }
    }
}

fn run() -> Result<Exit, Error> {
    match Cli::parse().resolve()? {
        Invocation::Print(text) => {
            let _ = write!(io::stdout(), "{text}");
            Ok(Exit::Done)
        }
        Invocation::Run(settings) => run_pictures(&settings),
        Invocation::Command(Command::Histogram(command)) => count_pictures(*command),
        Invocation::Command(Command::Devices) => {
            let _ = write!(io::stdout(), "{}", device::find::describe());
            Ok(Exit::Done)
        }
        Invocation::Command(Command::Bench(command)) => {
            let _ = write!(io::stdout(), "{}", bench::report(&command)?);
            Ok(Exit::Done)
        }
        Invocation::Command(Command::Worker(command)) => worker::main(&command),
    }
}

fn run_pictures(settings: &Settings) -> Result<Exit, Error> {
    let stop = Stop::default();
    let publisher = Arc::new(Publisher::new(settings.durability));
    on_signals(&stop, &publisher)?;
    let summary = histeqd::run(settings, &stop, &publisher)?;
    tell(&summary, settings)
}

/// Like [`run_pictures`], to histograms instead of pictures.
fn count_pictures(command: HistogramCommand) -> Result<Exit, Error> {
    let (settings, request) = command.resolve()?;
    let stop = Stop::default();
    let publisher = Arc::new(Publisher::new(settings.durability));
    on_signals(&stop, &publisher)?;
    let summary = histogram::run(&settings, &request, &stop, &publisher)?;
    tell(&summary, &settings)
}

fn tell(summary: &Summary, settings: &Settings) -> Result<Exit, Error> {
    summary
        .tell(settings.report)
        .map_err(|error| Error::CannotRun(format!("the summary cannot be written: {error}")))?;
    Ok(summary.exit())
}

/// The first signal drains, the second leaves at once; no partial file either way.
fn on_signals(stop: &Stop, publisher: &Arc<Publisher>) -> Result<(), Error> {
    let (stop, publisher) = (stop.clone(), Arc::clone(publisher));
    let handler = move || {
        if stop.asked() {
            publisher.abandon_all();
            std::process::exit(Exit::Stopped as i32);
        }
        stop.ask();
    };
    ctrlc::set_handler(handler)
        .map_err(|error| Error::CannotRun(format!("signals cannot be handled: {error}")))
}
