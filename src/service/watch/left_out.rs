//! What the user is told about files and folders that are left out for their reserved names.

use std::collections::HashSet;
use std::path::Path;

use super::Note;
use crate::paths::Shown;
use crate::selection::{Purpose, Reserved};

/// The reserved names that the user was told of, each by one file or folder: there may be a folder of the same name in every other.
#[derive(Debug, Default)]
pub(super) struct LeftOut {
    told: HashSet<&'static Reserved>,
}

impl LeftOut {
    /// Returns a note about a file or folder with a reserved name, if it is the first.
    pub(super) fn note(&mut self, path: &Path, name: &'static Reserved) -> Option<Note> {
        let rename = if name.purpose == Purpose::Incomplete { " until it is renamed" } else { "" };
        self.told.insert(name).then(|| {
            Note::Info(format!(
                "{} is left out{rename}, as is whatever is named {name} ({}); --include '*' --include '{name}' takes it",
                Shown(path),
                name.maker
            ))
        })
    }
}
