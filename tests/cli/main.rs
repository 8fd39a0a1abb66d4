//! The real binary, as users meet it.

mod configuration;
#[path = "../harness/mod.rs"]
mod harness;
mod inputs;
mod outputs;
mod report;
mod signals;
