//! Contrast enhancement for folders of pictures, on the CPU and on GPUs, byte for byte the same.
//!
//! ```text
//!  source            decode (CPU pool)           lane (4 per GPU, or 1 per core)       encode + publish (CPU pool)
//!  scan | watch ──▶ read, check limits, ──slot──▶ upload → histogram → LUT → apply ──slot──▶ encode → temp → fsync ──▶ progress,
//!    bounded jobs    decode INTO the slot          → writeback, on its own stream             → rename                 summary
//!                         ▲                                                                       │
//!                         └───────────────────────── free slots come back ◀───────────────────────┘
//! ```
//!
//! [`run`] is this picture. [`source`] finds the pictures, [`codec`] decodes and encodes them, [`slot`] holds the only large
//! memory, [`device`] has the lanes (a GPU's are in a [`worker`] process of their own), [`equalize`] is the arithmetic,
//! [`publish`] writes the outputs, [`progress`] tells the user.

pub mod cli;
pub mod codec;
pub mod config;
pub mod device;
pub mod equalize;
pub mod error;
pub mod paths;
pub mod picture;
pub mod pipeline;
pub mod progress;
pub mod publish;
pub mod slot;
pub mod source;
pub mod worker;
