//! histeqd

pub mod equalize;
pub mod picture;
