//! The real binary, as users meet it.

mod bench;
mod configuration;
mod generated;
mod inputs;
mod outputs;
mod report;
mod signals;
mod single;
mod threads;
