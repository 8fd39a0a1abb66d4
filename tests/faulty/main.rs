//! The histeqd command, whose workers fail as the environment variable `HISTEQD_FAULT` says.

mod fault;

use std::process::ExitCode;

use fault::Requested;

fn main() -> ExitCode {
    histeqd::program::main(|life| Ok(Box::new(Requested::from_environment(life)?)))
}
