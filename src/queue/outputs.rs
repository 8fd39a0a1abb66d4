//! The outputs of a message that a worker may write.
//!
//! More people can often publish than should, and a message is not trusted with files: only files
//! that histeqd wrote are replaced. A signed message may replace the same files as a single run.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};

use codec::Format;

use super::message::Picture;
use super::roots::{Outside, Roots};
use crate::fs::beneath::{Folder, Obstacle};
use crate::fs::paths::{Identity, Shown};
use crate::ledger;
use crate::picture::record::Record;
use crate::selection::is_of_folder_settings;

/// Why an output is not written.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Unwritable {
    #[error(transparent)]
    Outside(#[from] Outside),
    #[error("its output {} is an input of the message", Shown(.0))]
    Input(PathBuf),
    #[error("its output {} would lie in the folder of a ledger, or be a folder's histeqd.toml", Shown(.0))]
    State(PathBuf),
    #[error("its output {} has neither a picture's name nor the extension of its input", Shown(.0))]
    Name(PathBuf),
    #[error("{0}")]
    Link(String),
    #[error("its output {} would replace a file that histeqd did not write; remove it, or submit with --key-file", Shown(.0))]
    Other(PathBuf),
}

/// The facts needed to check the outputs of a message.
pub(super) struct Outputs<'m> {
    roots: &'m Roots,
    inputs: HashSet<Identity>,
}

impl<'m> Outputs<'m> {
    /// Examines the inputs of a message.
    pub(super) fn of(pictures: &[Picture], roots: &'m Roots) -> Self {
        let inputs = pictures.iter().filter_map(|Picture { input, .. }| match store::is_url(input) {
            true => Some(Identity::of_object(input)),
            false => Identity::at(input),
        });
        Self { roots, inputs: inputs.collect() }
    }

    /// Checks that the output of one of its pictures may be written.
    pub(super) fn check(&self, Picture { input, output, .. }: &Picture) -> Result<(), Unwritable> {
        let root = self.roots.of_output(output)?;
        let below = output.strip_prefix(root).unwrap_or(output);
        if below.iter().any(|name| name == ledger::FOLDER) || is_of_folder_settings(output) {
            return Err(Unwritable::State(output.clone()));
        }
        if self.is_input(output) {
            return Err(Unwritable::Input(output.clone()));
        }
        // A file that is not a picture keeps its name, and is skipped when its content is read.
        if Format::of_name(output).is_none() && input.extension() != output.extension() {
            return Err(Unwritable::Name(output.clone()));
        }
        if store::is_url(output) { Ok(()) } else { is_behind_link(root, output) }
    }

    fn is_input(&self, output: &Path) -> bool {
        let there = match store::is_url(output) {
            true => Some(Identity::of_object(output)),
            false => fs::symlink_metadata(output).ok().map(|there| Identity::of(&there)),
        };
        there.is_some_and(|there| self.inputs.contains(&there))
    }
}

/// Checks that no link is on the way to an output.
fn is_behind_link(root: &Path, output: &Path) -> Result<(), Unwritable> {
    let Err(why) = Folder::of(root, output) else { return Ok(()) };
    match why.get_ref().and_then(|why| why.downcast_ref()) {
        Some(obstacle @ Obstacle::Link { .. }) => Err(Unwritable::Link(obstacle.to_string())),
        // The writer meets this obstacle too, or creates the folder.
        _ => Ok(()),
    }
}

/// Returns whether there is a file that histeqd did not write, or that has changed since.
pub(super) fn is_of_others(output: &Path) -> bool {
    let Ok(there) = fs::symlink_metadata(output) else { return false };
    !Record::of(output).is_some_and(|record| record.is_untouched(&there))
}
