//! The folders of a service, as absolute paths that serve no two purposes.

pub(crate) mod gate;
pub(crate) mod ledger_check;
pub(crate) mod output_access;
pub(crate) mod tidy;

use std::path::{Path, PathBuf};

use super::watch::Options;
use crate::config::{After, Service, Settings};
use crate::error::Error;
use crate::fs::paths::{Shown, are_same};
use crate::source::Prefixes;

/// The watched folders and the output folder, as absolute paths.
pub(crate) struct Folders {
    pub(crate) watched: Vec<PathBuf>,
    pub(crate) out: PathBuf,
    pub(crate) prefixes: Prefixes,
    pub(crate) options: Options,
}

impl Folders {
    /// Resolves the folders, and checks that the watched ones are not files and serve no other
    /// purpose.
    ///
    /// # Errors
    /// When a folder cannot be used for its purpose.
    pub(crate) fn of(settings: &Settings) -> Result<Self, Error> {
        let out = absolute(&settings.out)?;
        let mut watched: Vec<PathBuf> = Vec::new();
        for input in &settings.inputs {
            let input = absolute(input)?;
            // Under two names, each picture would have two inputs with the same output.
            if !watched.iter().any(|other| are_same(other, &input)) {
                watched.push(input);
            }
        }
        if let Some(file) = watched.iter().find(|folder| folder.is_file()) {
            return Err(Error::Usage(format!("{} is a file; --watch takes folders", Shown(file))));
        }
        if let Some(same) = watched.iter().find(|folder| are_same(folder, &out)) {
            let same = Shown(same);
            return Err(Error::Usage(format!(
                "{same} is both an input and the output folder; choose another --out"
            )));
        }
        let prefixes = if settings.prefix_folder { Prefixes::of(&watched)? } else { Prefixes::default() };
        Ok(Self { options: options(settings, &out)?, watched, out, prefixes })
    }
}

/// Returns the options of the watch, which exclude the folders that the service itself writes to.
///
/// # Errors
/// When a watched folder is one of these.
pub(super) fn options(settings: &Settings, out: &Path) -> Result<Options, Error> {
    let mut excluded = vec![out.to_owned()];
    if let After::Move(folder) = &settings.service.after {
        excluded.push(absolute(folder)?);
    }
    for folder in [&settings.service.failed, &settings.service.state].into_iter().flatten() {
        excluded.push(absolute(folder)?);
    }
    for input in &settings.inputs {
        let input = absolute(input)?;
        if let Some(same) = excluded[1..].iter().find(|folder| are_same(folder, &input)) {
            let same = Shown(same);
            return Err(Error::Usage(format!(
                "{same} is a watched folder; --after move:DIR, --failed and --state must name other folders"
            )));
        }
    }
    let Service { rescan, poll, .. } = settings.service;
    Ok(Options {
        selection: settings.selection.clone(),
        roots: settings.roots.clone(),
        excluded,
        rescan,
        poll,
    })
}

fn absolute(path: &Path) -> Result<PathBuf, Error> {
    std::path::absolute(path)
        .map_err(|error| Error::CannotRun(format!("{} has no absolute path: {error}", Shown(path))))
}
