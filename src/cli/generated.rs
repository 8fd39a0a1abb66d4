//! Files generated from the definition of the command line: shell completions and manual pages.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use clap::{Args, Command, CommandFactory};
use clap_complete::Shell;
use clap_mangen::Man;

use super::Cli;
use crate::error::Error;
use crate::fs::paths::Shown;

const NAME: &str = "histeqd";

/// The arguments of `histeqd completions`.
#[derive(Debug, Args)]
pub struct CompletionsCommand {
    /// The shell
    #[arg(value_name = "SHELL")]
    pub shell: Shell,
}

/// The arguments of `histeqd man`.
#[derive(Debug, Args)]
pub struct ManCommand {
    /// Folder for the pages, created if missing
    #[arg(value_name = "DIR")]
    pub folder: PathBuf,
}

/// Returns the script that completes the command line in a shell.
pub fn completions(command: &CompletionsCommand) -> String {
    let all = Cli::command();
    // Without the hidden subcommands, which the scripts would offer.
    let mut shown = Command::new(NAME)
        .version(env!("CARGO_PKG_VERSION"))
        .args(all.get_arguments().cloned())
        .subcommands(visible(&all).cloned());
    let mut script = Vec::new();
    clap_complete::generate(command.shell, &mut shown, NAME, &mut script);
    String::from_utf8_lossy(&script).into_owned()
}

/// Writes the manual pages, one per command.
///
/// # Errors
/// If the folder cannot be created, or a page cannot be written.
pub fn write_manual(command: &ManCommand) -> Result<(), Error> {
    let folder = &command.folder;
    let mut all = Cli::command().disable_help_subcommand(true);
    all.build();
    fs::create_dir_all(folder)
        .and_then(|()| write_pages(&all, folder))
        .map_err(|source| Error::Unwritten { what: format!("the manual in {}", Shown(folder)), source })
}

fn write_pages(command: &Command, folder: &Path) -> io::Result<()> {
    visible(command).try_for_each(|command| write_pages(command, folder))?;
    let page = Man::new(command.clone());
    let mut text = Vec::new();
    page.render(&mut text)?;
    // The examples and tables after the help are already broken into lines, which `.nf` keeps.
    let text = String::from_utf8_lossy(&text).replace(".SH EXTRA\n", ".SH NOTES\n.nf\n.in 1\n");
    fs::write(folder.join(page.get_filename()), text)
}

fn visible(command: &Command) -> impl Iterator<Item = &Command> {
    command.get_subcommands().filter(|command| !command.is_hide_set())
}
