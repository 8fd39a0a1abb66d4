//! The real binary, as users meet it.

mod bench;
mod configuration;
mod generated;
mod inputs;
mod levels;
mod outputs;
mod report;
mod signals;
mod threads;
