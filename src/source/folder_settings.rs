//! Folders with their own settings: a `histeqd.toml` in an input folder, or below it, holds for the
//! pictures below its folder.
//!
//! The file of an inner folder goes over that of an outer one; both go over the configuration file,
//! and flags go over them.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::config::{FolderError, PictureSettings, Settings, Written, folder_file};
use crate::fs::paths::{Identity, Shown, root_of};
use crate::fs::stamp::{Stamp, ctime_ns};
use crate::selection::FOLDER_SETTINGS;

/// The most folders to remember: forgotten ones are only read again.
const MOST: usize = 1 << 16;
/// The most different contents of files to remember.
const MOST_RESOLVED: usize = 1 << 10;
/// The most folders with unusable settings that a service names.
const MOST_NAMED: usize = 8;
/// The time after which unusable settings are checked again: the files that they need may come
/// without a change of their own.
const DISTRUSTED: Duration = Duration::from_secs(10);

/// A note about the settings file of a folder, as a sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum FolderNote {
    /// Its content.
    Says(String),
    /// A part of it that has no effect.
    Idle(String),
    /// It cannot be used.
    Unusable(String),
}

/// The settings of a folder's pictures.
type Outcome = Result<Arc<Layers>, Arc<FolderError>>;

/// The merged content of the files from an input folder down to one below it.
#[derive(Default)]
struct Layers {
    written: Written,
    /// The folder of the innermost file that sets `--together`.
    together_in: Option<PathBuf>,
    /// `None` if there are no files.
    settings: Option<Arc<PictureSettings>>,
}

/// A folder that was examined.
struct Known {
    /// The state of its file then, if it had one.
    file: Option<FileState>,
    outcome: Outcome,
    at: Instant,
}

impl Known {
    /// Returns whether it should be examined again even if its file is the same.
    fn is_doubtful(&self) -> bool {
        self.outcome.is_err() && self.at.elapsed() >= DISTRUSTED
    }
}

/// The state of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FileState {
    identity: Identity,
    stamp: Stamp,
    ctime_ns: i64,
}

/// The settings of folders, each read once.
#[derive(Default)]
pub(crate) struct FolderSettings {
    /// By input folder, and by folder below it.
    known: HashMap<PathBuf, HashMap<PathBuf, Known>>,
    /// By the content of files: folders with the same content share the resolved settings.
    resolved: HashMap<String, PictureSettings>,
    /// By folder, why its settings cannot be used, as last reported.
    told: HashMap<PathBuf, String>,
    changed: Vec<PathBuf>,
    notes: Vec<FolderNote>,
    /// The flags that some folder's settings have given an effect.
    effective: HashSet<&'static str>,
}

impl FolderSettings {
    /// Returns the settings of an input with the path `below` below its input folder.
    ///
    /// # Errors
    /// When a file on the way cannot be used.
    pub(crate) fn of(
        &mut self,
        settings: &Settings,
        input: &Path,
        below: &Path,
    ) -> Result<Arc<PictureSettings>, Arc<FolderError>> {
        // Not during the lookups: a folder is only known together with those above it.
        self.known.values_mut().filter(|known| known.len() >= MOST).for_each(HashMap::clear);
        let own = match (root_of(input, below), input.parent()) {
            (Some(root), Some(folder)) if settings.folder_settings => {
                self.layers(settings, root, folder)?.settings.clone()
            }
            _ => None,
        };
        Ok(own.unwrap_or_else(|| Arc::clone(&settings.picture)))
    }

    /// Does the same as [`FolderSettings::of`], and checks whether any of the files has changed.
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
            let (mut outermost, mut has_changed) = (None, false);
            for folder in input.ancestors().skip(1).take_while(|folder| folder.starts_with(root)) {
                let Some(one) = known.get(folder) else { continue };
                let is_other = one.file != state(folder);
                has_changed |= is_other;
                if is_other || one.is_doubtful() {
                    outermost = Some(folder.to_owned());
                }
            }
            if let Some(outermost) = outermost {
                known.retain(|folder, _| !folder.starts_with(&outermost));
                if has_changed {
                    self.changed.push(outermost);
                }
            }
        }
        self.of(settings, input, below)
    }

    /// Returns the folders whose files were found changed since the last call.
    pub(crate) fn take_changed(&mut self) -> Vec<PathBuf> {
        std::mem::take(&mut self.changed)
    }

    /// Returns the notes about the files since the last call.
    pub(crate) fn take_notes(&mut self) -> Vec<FolderNote> {
        std::mem::take(&mut self.notes)
    }

    /// Returns why files cannot be used, for some of the existing ones.
    pub(crate) fn unusable(&mut self) -> Vec<String> {
        self.told.retain(|folder, _| state(folder).is_some());
        let mut told: Vec<_> = self.told.values().cloned().collect();
        told.sort_unstable();
        told.truncate(MOST_NAMED);
        told
    }

    /// Returns a sentence about a flag without an effect, by the settings and by those of all
    /// folders that were read, unless one could not be read.
    pub(crate) fn idle_flag(&mut self, settings: &Settings) -> Option<String> {
        let mut idle = left_to_folders(settings, &Written::default()).into_iter();
        let (_, why) = idle.find(|(flag, _)| !self.effective.contains(flag))?;
        self.unusable().is_empty().then_some(why)
    }

    fn layers(&mut self, settings: &Settings, root: &Path, folder: &Path) -> Outcome {
        if let Some(known) = self.known.get(root).and_then(|known| known.get(folder)) {
            return known.outcome.clone();
        }
        let above = match folder.parent() {
            Some(parent) if folder != root && parent.starts_with(root) => self.layers(settings, root, parent),
            _ => Ok(Arc::default()),
        };
        // Before it is read: a write meanwhile changes its state.
        let file = state(folder);
        let outcome = match (above, file) {
            (Ok(above), Some(_)) => {
                let read = self.read(settings, folder, &above);
                self.note_outcome(folder, &read);
                read
            }
            (above, _) => above,
        };
        let known = Known { file, outcome: outcome.clone(), at: Instant::now() };
        self.known.entry(root.to_owned()).or_default().insert(folder.to_owned(), known);
        outcome
    }

    fn read(&mut self, settings: &Settings, folder: &Path, above: &Arc<Layers>) -> Outcome {
        let Some(own) = folder_file::read(folder).map_err(|error| Arc::new(FolderError::File(error)))? else {
            return Ok(Arc::clone(above));
        };
        let path = folder.join(FOLDER_SETTINGS);
        let together_in = match own.together {
            Some(_) => Some(folder.to_owned()),
            None => above.together_in.clone(),
        };
        let layered = own.clone().over(above.written.clone());
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
        Ok(Arc::new(Layers { written: layered, together_in, settings: Some(made) }))
    }

    /// Adds a note why settings cannot be used, unless it repeats the last one.
    fn note_outcome(&mut self, folder: &Path, outcome: &Outcome) {
        let why = outcome.as_ref().err().map(ToString::to_string);
        if self.told.get(folder) != why.as_ref() {
            self.notes.extend(why.clone().map(FolderNote::Unusable));
            match why {
                Some(why) => drop(self.told.insert(folder.to_owned(), why)),
                None => drop(self.told.remove(folder)),
            }
        }
    }

    fn note(&mut self, settings: &Settings, own: &Written, layered: &Written, path: &Path) {
        let keys = own.to_toml();
        let keys: Vec<&str> = keys.lines().collect();
        if !keys.is_empty() {
            self.notes.push(FolderNote::Says(format!("{}: {}", Shown(path), keys.join(", "))));
        }
        let idle: HashSet<_> = flags_of(left_to_folders(settings, layered)).collect();
        let all = flags_of(left_to_folders(settings, &Written::default()));
        self.effective.extend(all.filter(|flag| !idle.contains(flag)));
        let used = settings.written_below(layered);
        let idle = own.without_effect(&used, &Shown(path).to_string()).into_iter();
        let covered = own.preset.and_then(|_| settings.written.defaults_over_preset(&settings.flags, &used));
        self.notes.extend(idle.chain(covered).map(FolderNote::Idle));
    }
}

/// Returns the flags that have no effect below a folder, given the merged settings files of it and
/// the folders above it, each with a sentence about it.
fn left_to_folders(settings: &Settings, folders: &Written) -> Vec<(&'static str, String)> {
    settings.flags.left_to_folders(&settings.written_below(folders))
}

fn flags_of(idle: Vec<(&'static str, String)>) -> impl Iterator<Item = &'static str> {
    idle.into_iter().map(|(flag, _)| flag)
}

/// Returns the state of a folder's file; `None` if it has none.
fn state(folder: &Path) -> Option<FileState> {
    match folder_file::metadata(folder) {
        Ok(metadata) => Some(FileState {
            identity: Identity::of(&metadata),
            stamp: Stamp::of(&metadata, true),
            ctime_ns: ctime_ns(&metadata),
        }),
        Err(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::config::Request;

    struct Case {
        place: tempfile::TempDir,
        settings: Settings,
        folders: FolderSettings,
    }

    impl Case {
        fn new() -> Self {
            let place = tempfile::tempdir().unwrap();
            fs::create_dir_all(place.path().join("in/b/c")).unwrap();
            let settings = Settings::resolve(Written::default(), Request::default()).unwrap();
            Self { place, settings, folders: FolderSettings::default() }
        }

        fn write(&self, folder: &str, text: &str) {
            // A new file each time, as several may be written within a tick of the clock.
            let (new, path) =
                (self.place.path().join("new"), self.place.path().join(folder).join(FOLDER_SETTINGS));
            fs::write(&new, text).unwrap();
            fs::rename(new, path).unwrap();
        }

        /// Returns the keys that hold for a picture below `in`, or the reason why there are none.
        fn now(&mut self, below: &str) -> String {
            let input = self.place.path().join("in").join(below);
            match self.folders.of_now(&self.settings, &input, Path::new(below)) {
                Ok(own) => own.of_outputs().replace('\n', " "),
                Err(why) => why.to_string(),
            }
        }

        fn changed(&mut self) -> Vec<PathBuf> {
            let place = self.place.path().to_owned();
            let below = |folder: PathBuf| folder.strip_prefix(&place).unwrap().to_owned();
            self.folders.take_changed().into_iter().map(below).collect()
        }
    }

    #[test]
    fn a_file_that_changes_is_noticed_wherever_on_the_way_it_is() {
        let mut case = Case::new();
        assert_eq!([case.now("a.png"), case.now("b/c/a.png")], ["", ""]);
        case.write("in/b", "quality = 80");
        assert_eq!(
            [case.now("a.png"), case.now("b/c/a.png"), case.now("b/a.png")],
            ["", "quality = 80 ", "quality = 80 "]
        );
        assert_eq!(case.changed(), [Path::new("in/b")]);
        case.write("in", "quality = 70\ndepth = 8");
        case.write("in/b/c", "quality = 90");
        assert_eq!(case.now("b/c/a.png"), "depth = 8 quality = 90 ");
        assert_eq!(case.changed(), [Path::new("in")], "the outermost");
        assert_eq!(case.now("b/a.png"), "depth = 8 quality = 80 ");
        fs::remove_file(case.place.path().join("in/b/c").join(FOLDER_SETTINGS)).unwrap();
        assert_eq!([case.now("b/a.png"), case.now("b/c/a.png")], ["depth = 8 quality = 80 "; 2]);
        assert_eq!(case.changed(), [Path::new("in/b/c")]);
        assert_eq!(case.now("b/c/a.png"), "depth = 8 quality = 80 ");
        assert!(case.changed().is_empty());
    }

    #[test]
    fn why_a_file_cannot_be_used_is_said_once_and_holds_for_all_below_it() {
        let mut case = Case::new();
        case.write("in/b", "quality = 0");
        case.write("in/b/c", "quality = 90");
        let why = [case.now("b/a.png"), case.now("b/c/a.png"), case.now("b/c/b.png")];
        assert!(
            why[0].contains("in/b/histeqd.toml:1: quality: ") && why.iter().all(|one| *one == why[0]),
            "{why:?}"
        );
        assert_eq!(case.folders.take_notes(), [FolderNote::Unusable(why[0].clone())]);
        assert_eq!(case.folders.unusable(), [why[0].clone()]);
        // Without a change it is checked again after a while, and not reported again.
        let known = case.folders.known.values_mut().flat_map(HashMap::values_mut);
        let long_ago = Instant::now().checked_sub(DISTRUSTED).unwrap();
        known.for_each(|known| known.at = long_ago);
        assert_eq!(case.now("b/c/a.png"), why[0]);
        assert!(case.folders.take_notes().is_empty() && case.changed().is_empty());
        case.write("in/b", "strength = 0.5");
        assert_eq!(case.now("b/c/a.png"), "strength = 0.5 quality = 90 ");
        assert_eq!(case.changed(), [Path::new("in/b")]);
        assert!(case.folders.unusable().is_empty());
        case.write("in/b", "quality = 0");
        assert_eq!(case.now("b/c/a.png"), why[0]);
        assert!(
            case.folders.take_notes().contains(&FolderNote::Unusable(why[0].clone())),
            "it is news again"
        );
        fs::remove_dir_all(case.place.path().join("in/b")).unwrap();
        assert!(case.folders.unusable().is_empty(), "nothing waits for what is gone");
    }

    #[test]
    fn folders_have_no_settings_where_that_is_turned_off() {
        let mut case = Case::new();
        case.write("in/b/c", "method = 'clahe'");
        assert_eq!(case.now("b/c/a.png"), "method = \"clahe\" ");
        case.settings.folder_settings = false;
        assert_eq!(case.now("b/c/a.png"), "");
    }
}
