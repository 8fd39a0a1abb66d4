//! Contrast enhancement for folders of pictures, on CPUs and GPUs, with bit-identical pixels on
//! every device.
//!
//! ```text
//!  source        decode                    lane                        encode + publish
//!                (CPU pool)                (4 per GPU, or 1 per core)  (CPU pool)
//!  scan | watch ▶ read, check limits, slot▶ upload → histogram    slot▶ encode → temp ▶ progress,
//!  bounded jobs   decode INTO the slot      → LUT → apply → write-      → fsync         summary
//!                     ▲                     back, on its own stream     → rename
//!                     │                                                    │
//!                     └──────────────── free slots come back ◀─────────────┘
//! ```
//!
//! JPEGs may also stay compressed in their slots: a GPU's worker then decodes, equalizes and
//! encodes them itself, and its output is published.
//!
//! A picture has one name for each stage. [`source`] finds a [`source::Job`]; [`run::pipeline`]
//! queues and decodes it ([`Picture`](device::task::Picture), with its pixels in a [`slot`]); a
//! [`Task`](device::task::Task) is its slot on the way through a [`device`], which
//! [`slot::schedule`] chooses; when all its devices are done it is
//! [`Processed`](device::task::Processed); [`publish`] makes it appear, and [`progress`] reports
//! it. The lanes of the CPU are threads of this process; those of a GPU are in a [`device::worker`]
//! process of their own. [`run`] is a run over folders, [`service`] is all of `--watch`, and
//! [`ledger`] keeps the record of processed pictures.
//!
//! This is the program's own library, for its `main.rs` and its tests. The crates below it are for
//! other programs too: [`equalize`], the arithmetic; [`codec`], the formats; [`lanes`], the
//! computation on devices.

pub mod cli;
pub mod commands;
pub mod config;
pub mod device;
pub mod error;
pub mod fs;
pub mod histogram;
pub mod ledger;
pub mod picture;
pub mod program;
pub mod progress;
pub mod publish;
#[cfg(feature = "queue")]
pub mod queue;
pub mod report;
pub mod run;
pub mod selection;
pub mod service;
pub mod slot;
pub mod source;
mod terminal_text;
