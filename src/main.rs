//! The histeqd command.

use std::process::ExitCode;

use histeqd::device::worker::NoFaults;

fn main() -> ExitCode {
    histeqd::program::main(|_| Ok(Box::new(NoFaults)))
}
