//! The steps after a picture: its input stays, is moved, removed or set aside, and a retried one is
//! remembered.

pub(crate) mod finished_inputs;
pub(crate) mod inputs;
pub(crate) mod numbered;
pub(crate) mod retried;
