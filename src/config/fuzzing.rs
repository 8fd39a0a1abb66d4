//! What fuzz targets reach of configuration files and settings of folders.

use std::path::Path;

use super::{ConfigError, Request, Settings, Written, file, folder_file};

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
