//! The watching service, tested as the real binary that its users start, stop and kill.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

#[path = "../harness/mod.rs"]
mod harness;

mod crowds;
mod following;
mod gpu;
mod kills;
mod model;
mod outside;
mod service;
mod trouble;
