//! Directories and their pixels.

pub(crate) mod channels;
pub(crate) mod colours;
pub(crate) mod header;
pub(crate) mod jpeg;
pub(crate) mod look;
pub(crate) mod other;
pub(crate) mod pages;
pub(crate) mod parts;
pub(crate) mod planes;
pub(crate) mod refused;
pub(crate) mod samples;
pub(crate) mod slide;
pub(crate) mod unmarked;
pub(crate) mod values;
