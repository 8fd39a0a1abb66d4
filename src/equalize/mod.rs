//! The arithmetic: what equalization makes of samples. Pure functions on slices; no I/O, no threads.

use serde::{Deserialize, Serialize};

/// How contrast is enhanced.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum Method {
    /// One LUT for the whole picture, from the histogram of the whole picture.
    Global,
}

/// What a lane does with the samples of a picture. (Gray output is no case of its own: the decoder then delivers gray.)
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Operation {
    /// How contrast is enhanced.
    pub method: Method,
    /// For RGB: each channel by itself, instead of luma.
    pub per_channel: bool,
}
