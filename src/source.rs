//! The sources of pictures: a scan of the inputs, or standard input.

mod done;
mod earlier;
pub(crate) mod folder_settings;
pub(crate) mod holes;
mod job;
mod list;
mod pair;
mod plan;
mod prefix;
pub(crate) mod rounds;
pub mod scan;
mod several;
pub(crate) mod sidecars;
#[cfg(feature = "queue")]
mod single;
pub mod stdin;
pub mod stop;

pub use earlier::signs_of_outputs;
pub(crate) use job::fetch_ahead;
pub use job::{Batches, Job, Remake, Workload, balance_tail};
pub use plan::{Plan, Skip, Skipped};
pub use prefix::Prefixes;
pub(crate) use scan::is_folder;
pub use scan::scan;
pub(crate) use several::{has_several, may_be_a_picture};
#[cfg(feature = "queue")]
pub use single::{Objects, single};
pub use stdin::STANDARD_INPUT;
