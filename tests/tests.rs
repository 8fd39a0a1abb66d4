//! What a user, or a program that uses the library, can see of histeqd: one program of tests, so that it is linked once.
//!
//! `HISTEQD_BIN` names another binary to test; tests that need a GPU skip aloud where there is none, and fail there with
//! `HISTEQD_REQUIRE_CUDA=1`.

#![allow(clippy::unwrap_used, reason = "in a test it is an assertion")]

mod cli;
mod codec;
mod corpus;
mod devices;
mod documents;
mod equalize_golden;
mod equalize_properties;
mod gpu_parity;
mod harness;
mod histogram;
mod mutations;
mod samples;
mod settle_model;
mod watch;
