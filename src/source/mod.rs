//! Where pictures come from.

mod names;
pub mod scan;
mod selection;

pub use scan::{Job, Plan, Skip, scan};
pub use selection::Selection;
