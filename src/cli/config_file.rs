//! The flags that choose the configuration file.

use std::path::PathBuf;

use clap::Args;

use crate::config::{self, ConfigError, Written};

/// The configuration file of a command.
#[derive(Clone, Debug, Args)]
pub(super) struct ConfigFile {
    /// Configuration file to read instead of the default one
    #[arg(long, value_name = "FILE", help_heading = "Configuration")]
    config: Option<PathBuf>,

    /// Read no configuration file
    #[arg(long, help_heading = "Configuration", conflicts_with = "config")]
    no_config: bool,
}

impl ConfigFile {
    /// Returns the named file, or the usual one unless there is to be none; and its content.
    ///
    /// # Errors
    /// If it cannot be used.
    pub(super) fn read(self) -> Result<(Option<PathBuf>, Written), ConfigError> {
        let file = self.config.or_else(|| if self.no_config { None } else { config::default_path() });
        let written = file.as_deref().map_or(Ok(Written::default()), config::read)?;
        Ok((file, written))
    }
}
