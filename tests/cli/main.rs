//! The real binary, as users meet it.

#![allow(clippy::unwrap_used, reason = "in a test it is an assertion")]

mod bench;
mod configuration;
#[path = "../harness/mod.rs"]
mod harness;
mod inputs;
mod outputs;
mod report;
mod signals;
mod threads;
