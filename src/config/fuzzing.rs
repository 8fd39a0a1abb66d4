//! Entry points for fuzz targets: configuration files, settings of folders, and recipes on outputs.

use std::path::Path;

use super::{ConfigError, Request, Settings, Written, file, folder_file, outputs};

/// Parses a text as a configuration file.
///
/// # Errors
/// When it is invalid.
pub fn config_file(text: &str) -> Result<Written, ConfigError> {
    file::parse(Path::new("config.toml"), text)
}

/// Parses a text as a folder's settings file and resolves it. The error is a sentence.
pub fn folder_file(text: &str) -> Result<Written, String> {
    let written = folder_file::parse(Path::new("histeqd.toml"), text).map_err(|why| why.to_string())?;
    Settings::resolve(Written::default(), Request::default())?.below(&written)?;
    Ok(written)
}

/// Parses a text as the recipe on an output.
///
/// Returns its keys as flags, and their difference from the defaults; `None` if it is no recipe.
pub fn recipe(text: &str) -> Option<(Vec<String>, String)> {
    let told = outputs::reported_keys(text)?.into_iter().map(|key| key.flag).collect();
    Some((told, outputs::difference(text, "")?))
}
