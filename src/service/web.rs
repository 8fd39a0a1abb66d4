//! The HTTP interface of the service, at an address or its status socket: health, metrics,
//! failures, changes and the page.
//!
//! The module reads the loop's reports, and requests changes through a channel; it never touches
//! the loop's state.

pub(crate) mod access;
pub(crate) mod answers;
pub(crate) mod page;
pub(crate) mod previews;
pub(crate) mod routes;
pub(crate) mod server;
pub(crate) mod status_socket;
