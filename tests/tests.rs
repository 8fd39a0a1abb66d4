//! Black-box tests of the binary and the library, in a single test program, which is linked only
//! once.
//!
//! `HISTEQD_BIN` overrides the binary under test, histeqd-faulty. Without a GPU, tests that need
//! one are reported as skipped, or fail with `HISTEQD_REQUIRE_CUDA=1`; tests that need a server are
//! treated likewise by `HISTEQD_REQUIRE_SERVERS=1`. All skipped tests are listed at the end.

#![allow(clippy::unwrap_used, reason = "in a test it is an assertion")]

mod animations;
mod browser;
mod cases;
mod channels;
mod cli;
mod corpus;
mod devices;
mod documents;
mod equalize_golden;
mod equalize_properties;
mod file_systems;
mod formats;
mod gpu_parity;
mod harness;
mod histogram;
mod large;
mod links;
mod mutations;
#[cfg(feature = "object-storage")]
mod object_storage;
mod overviews;
#[cfg(feature = "queue")]
mod queue;
mod report_page;
mod samples;
mod settle_model;
mod split;
mod stacks;
mod together;
mod volumes;
mod watch;
mod writers;
#[cfg(feature = "zarr")]
mod zarr;
