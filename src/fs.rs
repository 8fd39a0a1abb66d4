//! What touches files and their names, for all the rest: opened and reached without surprises, told apart, renamed, shown.
//!
//! It knows nothing of pictures, runs and services. `paths` shows names and compares them; `input` opens what is read and `beneath`
//! what lies below a root; `stamp` and `digest` tell states of content apart.

pub(crate) mod beneath;
pub(crate) mod boot;
pub(crate) mod digest;
pub mod files;
pub(crate) mod input;
pub mod paths;
pub(crate) mod rename;
pub mod stamp;
