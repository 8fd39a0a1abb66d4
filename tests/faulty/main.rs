//! The histeqd command, with workers that fail on request of the environment variable
//! `HISTEQD_FAULT`.

mod fault;

use std::process::ExitCode;

use fault::Requested;

fn main() -> ExitCode {
    histeqd::program::main(|life| Ok(Box::new(Requested::from_environment(life)?)))
}
