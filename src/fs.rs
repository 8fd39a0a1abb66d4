//! All access to files and their names: opened and reached safely, compared, renamed, shown.
//!
//! The module does not know pictures, runs and services. `paths` shows names and compares them;
//! `input` opens inputs, and `beneath` files below a root; `stamp` and `digest` identify states of
//! content; `filesystem` knows kinds of file systems.

pub(crate) mod beneath;
pub(crate) mod boot;
pub(crate) mod digest;
pub mod files;
pub mod filesystem;
pub(crate) mod input;
pub mod paths;
pub(crate) mod rename;
pub mod stamp;
