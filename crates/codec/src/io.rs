//! Bytes in and out: files that are read within a budget, written at an offset, and the cores.

pub(crate) mod budget;
pub(crate) mod cores;
pub(crate) mod image_store;
pub(crate) mod input;
pub(crate) mod output;
pub(crate) mod reader;
