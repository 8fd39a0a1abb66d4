//! What fuzz targets reach of configuration files, settings of folders, and recipes on outputs.

use std::path::Path;

use super::{ConfigError, Request, Settings, Written, file, folder_file, outputs};

/// Reads a text as that of a configuration file.
///
/// # Errors
/// When it is none.
pub fn config_file(text: &str) -> Result<Written, ConfigError> {
    file::parse(Path::new("config.toml"), text)
}

/// Reads a text as that of a folder's file, and resolves it. The error is a sentence.
pub fn folder_file(text: &str) -> Result<Written, String> {
    let written = folder_file::parse(Path::new("histeqd.toml"), text).map_err(|why| why.to_string())?;
    Settings::resolve(Written::default(), Request::default())?.below(&written)?;
    Ok(written)
}

/// Reads a text as what an output says of its settings, and tells them, and how those of outputs without one differ; `None` if it is none.
pub fn recipe(text: &str) -> Option<(Vec<String>, String)> {
    let told = outputs::told_keys(text)?.into_iter().map(|key| key.flag).collect();
    Some((told, outputs::difference(text, "")?))
}
