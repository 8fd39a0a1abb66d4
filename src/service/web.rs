//! All that the service answers over HTTP, at an address or its status socket: health, metrics, failures, changes and the page.
//!
//! It reads what the loop has told, and asks it for changes by a channel; it never touches what the loop owns.

pub(crate) mod access;
pub(crate) mod answers;
pub(crate) mod page;
pub(crate) mod previews;
pub(crate) mod routes;
pub(crate) mod server;
pub(crate) mod status_socket;
