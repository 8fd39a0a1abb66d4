//! The histeqd command.

use std::io::{self, Write};
use std::process::ExitCode;

use clap::Parser;
use histeqd::cli::{Cli, Invocation};
use histeqd::error::{Error, Exit};

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
        Invocation::Run(_) | Invocation::Command(_) => {
            Err(Error::CannotRun("the pipeline is not connected yet".into()))
        }
    }
}
