//! Devices other than the process's own lanes: the same bytes from all of them, and nothing lost when they fail.

mod batch;
mod byte_orders;
mod codestreams;
mod gpu;
mod jpeg;
mod streams;
mod workers;
