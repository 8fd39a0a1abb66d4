//! The command line of `histeqd presets`.

use clap::builder::PossibleValue;
use clap::{Args, ValueEnum};

use crate::config::{PRESETS, Preset};

/// The arguments of `histeqd presets`.
#[derive(Debug, Args)]
pub struct PresetsCommand {
    /// Only this preset
    #[arg(value_name = "NAME", ignore_case = true)]
    name: Option<Preset>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Returns the keys of each preset, or of one: as text, a table of a configuration file's keys for
/// each.
pub fn presets(command: &PresetsCommand) -> String {
    let chosen = command.name.and_then(|name| name.to_possible_value());
    let chosen = chosen.as_ref().map(PossibleValue::get_name);
    if !command.json {
        return chosen.map_or_else(|| PRESETS.to_owned(), table);
    }
    let mut tables: toml::Table = PRESETS.parse().expect("the file that comes with the program can be read");
    tables.retain(|name, _| chosen.is_none_or(|chosen| chosen == name));
    serde_json::to_string(&tables).expect("texts and numbers") + "\n"
}

/// Returns the table of a preset with the comment before it.
fn table(name: &str) -> String {
    let header = format!("[{name}]");
    let table = PRESETS.split("\n\n").find(|table| table.lines().any(|line| line == header));
    table.map_or_else(String::new, |table| table.trim_end().to_owned() + "\n")
}
