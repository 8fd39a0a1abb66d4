//! Devices other than the process's own lanes: the same bytes from all of them, and nothing lost when they fail.
//!
//! `HISTEQD_BIN` names another binary to test; tests that need a GPU skip aloud where there is none, and fail there with
//! `HISTEQD_REQUIRE_CUDA=1`.
#![allow(clippy::unwrap_used, reason = "in a test it is an assertion")]

mod batch;
mod gpu;
mod jpeg;
mod workers;
