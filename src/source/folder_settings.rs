//! Folders with their own settings: a `histeqd.toml` in an input folder, or below it, holds for the pictures below its folder.
//!
//! The file of an inner folder goes over that of an outer one; both go over the configuration file, and flags go over them.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::config::{FolderError, PictureSettings, Settings, Written, folder_file};
use crate::paths::{Identity, Shown, root_of};
use crate::selection::FOLDER_SETTINGS;
use crate::stamp::{Stamp, ctime_ns};

/// The most folders that are remembered: what is forgotten is only read again.
const MOST: usize = 1 << 16;
/// The same for what files say.
const MOST_RESOLVED: usize = 1 << 10;

/// What to tell about the file of a folder, as a sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum FolderNote {
    /// What it says.
    Says(String),
    /// Something that it says has no effect.
    Idle(String),
    /// It cannot be used.
    Unusable(String),
}

/// The settings of a folder's pictures.
type Outcome = Result<Layers, Arc<FolderError>>;

/// What the files from an input folder down to one below it say.
#[derive(Clone, Default)]
struct Layers {
    written: Written,
    /// The folder of the innermost file that says what has one histogram.
    together_in: Option<PathBuf>,
    /// `None` if there are no files.
    settings: Option<Arc<PictureSettings>>,
}

/// A folder that was looked at.
struct Known {
    /// The state of its file then, if it had one.
    file: Option<State>,
    outcome: Outcome,
}

/// What tells one state of a file from another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct State {
    identity: Identity,
    stamp: Stamp,
    ctime_ns: i64,
}

/// The settings of folders, each read once.
#[derive(Default)]
pub(crate) struct FolderSettings {
    /// By input folder, and by folder below it.
    known: HashMap<PathBuf, HashMap<PathBuf, Known>>,
    /// By what files say: folders that say the same share what was made of it.
    resolved: HashMap<String, PictureSettings>,
    changed: Vec<PathBuf>,
    notes: Vec<FolderNote>,
}

impl FolderSettings {
    /// Returns what holds for an input that has the path `below` below its input folder.
    ///
    /// # Errors
    /// When a file on the way cannot be used.
    pub(crate) fn of(
        &mut self,
        settings: &Settings,
        input: &Path,
        below: &Path,
    ) -> Result<Arc<PictureSettings>, Arc<FolderError>> {
        let own = match (root_of(input, below), input.parent()) {
            (Some(root), Some(folder)) if settings.folder_settings => {
                self.layers(settings, root, folder)?.settings
            }
            _ => None,
        };
        Ok(own.unwrap_or_else(|| Arc::clone(&settings.picture)))
    }

    /// Does the same as [`FolderSettings::of`], and looks whether any of the files is another by now.
    ///
    /// # Errors
    /// When a file on the way cannot be used.
    pub(crate) fn of_now(
        &mut self,
        settings: &Settings,
        input: &Path,
        below: &Path,
    ) -> Result<Arc<PictureSettings>, Arc<FolderError>> {
        if settings.folder_settings
            && let Some(root) = root_of(input, below)
            && let Some(known) = self.known.get_mut(root)
        {
            let is_other = |path: &Path| known.get(path).is_some_and(|known| known.file != state(path));
            let way = input.ancestors().skip(1).take_while(|path| path.starts_with(root));
            // What holds below the outermost of them is another.
            if let Some(changed) = way.filter(|path| is_other(path)).last().map(Path::to_owned) {
                known.retain(|path, _| !path.starts_with(&changed));
                self.changed.push(changed);
            }
        }
        self.of(settings, input, below)
    }

    /// Returns the folders whose files were found changed since the last call.
    pub(crate) fn take_changed(&mut self) -> Vec<PathBuf> {
        std::mem::take(&mut self.changed)
    }

    /// Returns what is to be told about the files, since the last call.
    pub(crate) fn take_notes(&mut self) -> Vec<FolderNote> {
        std::mem::take(&mut self.notes)
    }

    fn layers(&mut self, settings: &Settings, root: &Path, folder: &Path) -> Outcome {
        if let Some(known) = self.known.get(root).and_then(|known| known.get(folder)) {
            return known.outcome.clone();
        }
        let above = match folder.parent() {
            Some(parent) if folder != root && parent.starts_with(root) => self.layers(settings, root, parent),
            _ => Ok(Layers::default()),
        };
        // Before it is read: what is written meanwhile makes it another.
        let file = state(folder);
        let outcome = match (above, file) {
            (Ok(above), Some(_)) => self.read(settings, folder, above).inspect_err(|why| {
                self.notes.push(FolderNote::Unusable(why.to_string()));
            }),
            (above, _) => above,
        };
        let known = self.known.entry(root.to_owned()).or_default();
        if known.len() >= MOST {
            known.clear();
        }
        known.insert(folder.to_owned(), Known { file, outcome: outcome.clone() });
        outcome
    }

    fn read(&mut self, settings: &Settings, folder: &Path, above: Layers) -> Outcome {
        let unusable = |error| Arc::new(FolderError::File(error));
        let Some(own) = folder_file::read(folder).map_err(unusable)? else { return Ok(above) };
        let path = folder.join(FOLDER_SETTINGS);
        let Layers { written, mut together_in, .. } = above;
        if own.together.is_some() {
            together_in = Some(folder.to_owned());
        }
        let layered = own.clone().over(written);
        let text = layered.to_toml();
        let made = match self.resolved.get(&text) {
            Some(made) => Ok(made.clone()),
            None => settings.below(&layered),
        };
        let made = made.map_err(|why| Arc::new(FolderError::Unfit { path: path.clone(), why }))?;
        if self.resolved.len() >= MOST_RESOLVED {
            self.resolved.clear();
        }
        self.resolved.insert(text, made.clone());
        self.note(settings, &own, &layered, &path);
        let counted_in = together_in.clone().filter(|_| settings.flags.together.is_none());
        let made = Arc::new(made.of_folder(counted_in.unwrap_or_default()));
        Ok(Layers { written: layered, together_in, settings: Some(made) })
    }

    fn note(&mut self, settings: &Settings, own: &Written, layered: &Written, path: &Path) {
        let keys = own.to_toml();
        let keys: Vec<&str> = keys.lines().collect();
        if !keys.is_empty() {
            self.notes.push(FolderNote::Says(format!("{}: {}", Shown(path), keys.join(", "))));
        }
        let used = settings.written_below(layered);
        let idle = own.without_effect(&used, &Shown(path).to_string()).into_iter();
        self.notes.extend(idle.map(FolderNote::Idle));
    }
}

/// Returns the state of a folder's file; `None` if there is none.
fn state(folder: &Path) -> Option<State> {
    match folder_file::metadata(folder) {
        Ok(metadata) => Some(State {
            identity: Identity::of(&metadata),
            stamp: Stamp::of(&metadata, true),
            ctime_ns: ctime_ns(&metadata),
        }),
        Err(_) => None,
    }
}
