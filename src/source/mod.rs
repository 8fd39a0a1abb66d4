//! Where pictures come from.

pub mod filesystem;
pub(crate) mod mounts;
mod names;
pub mod notifier;
pub mod scan;
mod selection;
pub mod settle;
pub mod stamp;
pub mod stdin;
pub mod watch;
pub mod writer;

pub(crate) use names::names_other_picture;
pub use names::output_below;
pub use scan::{Batches, Job, Plan, Skip, balance_tail, scan};
pub use selection::Selection;
pub use stdin::STANDARD_INPUT;
