//! Reports of the service: its log, its metrics and health, its account of itself, notifications.

pub(crate) mod account;
pub(crate) mod activity;
pub(crate) mod health;
pub(crate) mod log;
pub(crate) mod metrics;
pub(crate) mod notifications;
pub(crate) mod reporter;
