//! The command line of `histeqd presets`.

use clap::Args;

use crate::config::PRESETS;

/// The arguments of `histeqd presets`.
#[derive(Debug, Args)]
pub struct PresetsCommand {
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Returns the keys of each preset: as text, a table of a configuration file's keys for each.
pub fn presets(command: &PresetsCommand) -> String {
    if !command.json {
        return PRESETS.to_owned();
    }
    let tables: toml::Table = PRESETS.parse().expect("the file that comes with the program can be read");
    serde_json::to_string(&tables).expect("texts and numbers") + "\n"
}
