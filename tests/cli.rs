//! The real binary, as users meet it.

mod bench;
mod configuration;
mod dry_run;
mod earlier;
mod explain;
pub(crate) mod folder_settings;
mod generated;
mod inputs;
mod levels;
mod measured;
mod memory;
mod methods;
mod no_data;
mod outputs;
mod parts;
mod prefix;
mod preset_results;
mod presets;
mod record;
mod report;
mod sidecars;
mod signals;
mod single;
mod threads;
mod unused;
mod words;
