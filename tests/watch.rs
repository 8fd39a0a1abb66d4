//! The watching service, tested as the real binary that its users start, stop and kill.

mod account;
mod arrivals;
mod collisions;
mod crowds;
mod failures;
mod folder_settings;
mod following;
mod gpu;
mod idle;
mod kills;
mod masks;
mod model;
mod notifications;
mod outside;
mod page;
mod proxy;
pub(crate) mod service;
mod suspects;
mod trouble;
