//! Devices other than the process's own lanes.
//!
//! All make the same bytes, and no picture is lost when one fails.

mod batch;
mod byte_orders;
mod codestreams;
mod gpu;
mod jpeg;
mod streams;
mod workers;
