//! Where pictures come from.

mod done;
mod earlier;
pub mod filesystem;
pub(crate) mod holes;
mod input;
pub(crate) mod mounts;
mod names;
pub mod notifier;
mod prefix;
mod reserved;
pub mod scan;
mod selection;
pub mod settle;
pub mod stamp;
pub mod stdin;
pub mod watch;
pub mod writer;

pub use earlier::signs_of_outputs;
pub(crate) use input::open;
pub use names::output_below;
pub use prefix::Prefixes;
pub use reserved::{Purpose, Reserved};
pub use scan::{Batches, Job, Plan, Skip, balance_tail, scan};
pub use selection::Selection;
pub use stdin::STANDARD_INPUT;
