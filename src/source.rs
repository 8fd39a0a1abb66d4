//! Where pictures come from: a scan of the inputs, or standard input.

mod done;
pub mod filesystem;
pub(crate) mod holes;
mod input;
pub mod scan;
pub mod stdin;

pub(crate) use input::open;
pub use scan::{Batches, Job, Plan, Skip, balance_tail, scan};
pub use stdin::STANDARD_INPUT;
