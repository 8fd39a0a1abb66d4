//! Turns inputs into a list of jobs that is complete, and free of collisions, before any work
//! starts.

mod candidates;
mod collections;
mod found;
mod images;
mod objects;

use std::collections::HashMap;
use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;

use store::Storage;
use walkdir::{DirEntry, WalkDir};

use super::done::InputState;
use super::folder_settings::{FolderNote, FolderSettings};
use super::list;
use super::plan::{Plan, Skip, Skipped};
use super::prefix::Prefixes;
use super::several::has_several;
use super::sidecars;
use super::stdin::{STANDARD_INPUT, Spooled, standard_input};
use crate::config::{Naming, Settings, SidecarsChoice, Style};
use crate::error::{Error, PictureError, Refusal};
use crate::fs::filesystem::FileSystem;
use crate::fs::paths::{Identity, Shown};
use crate::selection::{Choice, Links, Selection, is_hidden};
use crate::source::stop::Stop;
use codec::Limits;
use collections::Groups;
use found::{Candidate, Found};

/// Lists the pictures to process.
///
/// - Folders are searched recursively, except for hidden files and folders (a leading dot); the
///   output folder is never entered, and names that systems and programs reserve are left out
///   unless `--include` spells them.
/// - The tree below an input folder is mirrored below the output folder, or with `--prefix-folder`
///   below the folder there that has the input folder's name; a file given by name goes directly
///   into it.
/// - An input is skipped if its output was made from it with these settings, unless all outputs are
///   to be overwritten.
/// - Inputs that would share an output, or would have their output replace an input, are refused,
///   each with the other's name.
/// - A folder's pictures have the settings in the files of it and of the folders above it.
/// - With `--files-from`, only the listed files of the folders are examined. With `--shard`, the
///   rest is left to others.
///
/// Files and folders that cannot be read become failures in the plan. The plan is incomplete if a
/// stop is requested meanwhile.
///
/// # Errors
/// When the request as a whole is invalid, or the output folder cannot be used.
pub fn scan(settings: &Settings, stop: &Stop) -> Result<Plan, Error> {
    let out = identity_of_output(&settings.out)?;
    let (selection, found, plan) = (&settings.selection, Vec::new(), Plan::default());
    let mut search = Search {
        settings,
        selection,
        out,
        out_url: objects::url_of(&settings.out)?,
        storage: &settings.storage,
        limits: &settings.limits,
        stop,
        lasting_inodes: HashMap::new(),
        folders: FolderSettings::default(),
        groups: Groups::default(),
        found,
        plan,
    };
    match &settings.files_from {
        Some(list) => search.list(list, settings)?,
        None => settings.inputs.iter().try_for_each(|input| search.input(input))?,
    }
    let Search { found, mut plan, mut folders, groups, .. } = search;
    if let Some(why) = folders.idle_flag(settings).filter(|_| settings.folder_settings && !stop.asked()) {
        return Err(Error::Usage(why));
    }
    let is_verbose = settings.report.style == Style::Verbose;
    plan.notes.extend(folders.take_notes().into_iter().filter_map(|note| match note {
        FolderNote::Idle(text) => Some(text),
        FolderNote::Says(text) => is_verbose.then_some(text),
        // Its pictures fail with this reason.
        FolderNote::Unusable(_) => None,
    }));
    let prefixes = prefixes(settings)?;
    let found = found.into_iter();
    let candidates = found.map(|found| Candidate { output: found.output(settings, &prefixes), found });
    let mut candidates: Vec<_> = candidates.collect();
    if settings.sidecars == SidecarsChoice::Copy {
        let has_copies = |one: &&Candidate| {
            let splits = one.found.settings.as_ref().is_ok_and(|own| own.target.splits);
            !splits && one.found.object.is_none() && one.found.document.is_none()
        };
        let inputs = candidates.iter().filter(has_copies).map(|one| &*one.found.input);
        let pictures = sidecars::Pictures::of(inputs);
        candidates.retain(|one| one.found.named || !pictures.have(&one.found.input));
        // Copying fails with the reason.
        plan.failed.retain(|(path, _)| !pictures.have(path));
        plan.skipped.retain(|one| one.why != Skip::NotAFile || !pictures.have(&one.input));
    }
    if settings.naming == Naming::Mirror {
        plan.copies = collections::files(&candidates, &groups);
    }
    candidates::plan(candidates, settings, stop, &mut plan)?;
    plan.notes.extend(sidecars::note(&plan.jobs, settings));
    Ok(plan)
}

fn prefixes(settings: &Settings) -> Result<Prefixes, Error> {
    if !settings.prefix_folder {
        return Ok(Prefixes::default());
    }
    let folders = settings.inputs.iter().filter(|input| is_folder(input));
    Prefixes::of(&folders.cloned().collect::<Vec<_>>())
}

/// Returns whether an input is a folder. A URL is one unless its name is that of a picture: no
/// server is asked here.
pub(crate) fn is_folder(input: &Path) -> bool {
    if store::is_url(input) { !objects::names_picture(input) } else { input.is_dir() }
}

fn identity_of_output(out: &Path) -> Result<Option<Identity>, Error> {
    if store::is_url(out) {
        return Ok(None);
    }
    match fs::metadata(out) {
        Ok(metadata) if metadata.is_dir() => Ok(Some(Identity::of(&metadata))),
        Ok(_) => Err(Error::CannotRun(format!("--out {} is a file, not a folder", Shown(out)))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Error::CannotRun(format!("--out {} cannot be used: {error}", Shown(out)))),
    }
}

struct Search<'a> {
    settings: &'a Settings,
    selection: &'a Selection,
    out: Option<Identity>,
    /// The output folder, if it is in object storage.
    out_url: Option<store::Url>,
    storage: &'a Storage,
    limits: &'a Limits,
    stop: &'a Stop,
    /// For each device, whether its file system keeps inode numbers.
    lasting_inodes: HashMap<u64, bool>,
    /// The folders' own settings for their pictures.
    folders: FolderSettings,
    /// Those above images in object storage.
    groups: Groups,
    found: Vec<Found>,
    plan: Plan,
}

impl Search<'_> {
    fn input(&mut self, input: &Path) -> Result<(), Error> {
        if input.as_os_str() == STANDARD_INPUT {
            return self.standard_input();
        }
        if store::is_url(input) {
            return self.objects(input);
        }
        match fs::metadata(input) {
            Ok(metadata) if metadata.is_dir() && Some(Identity::of(&metadata)) == self.out => {
                let folder = Shown(input);
                return Err(Error::Usage(format!(
                    "{folder} is both an input and the output folder; choose another --out"
                )));
            }
            Ok(_) if codec::multiscales::is_image_folder(input) => {
                // For the current folder, the name is not in its path.
                let real = input.canonicalize().unwrap_or_default();
                let name = input.file_name().or(real.file_name()).unwrap_or_default();
                self.image(input, Path::new(name), true);
            }
            Ok(metadata) if metadata.is_dir() => self.folder(input),
            Ok(metadata) if metadata.is_file() => {
                let name = input.file_name().expect("a path that ends in .. is not a file");
                self.take(input, name.as_ref(), true, &metadata);
            }
            Ok(_) => self.plan.failed.push((input.to_owned(), Refusal::NotAFile.into())),
            Err(error) if error.kind() == io::ErrorKind::NotFound && is_glob(input) => {
                self.plan.failed.push((input.to_owned(), Refusal::Glob.into()));
            }
            Err(error) => self.fail(input, error),
        }
        Ok(())
    }

    /// Takes standard input as a picture, once however often it is named.
    fn standard_input(&mut self) -> Result<(), Error> {
        let input = Path::new(STANDARD_INPUT);
        if self.found.iter().any(|found| found.spooled.is_some()) {
            return Ok(());
        }
        let mut stdin = match standard_input() {
            Ok(stdin) => stdin,
            Err(error) => {
                self.fail(input, error);
                return Ok(());
            }
        };
        match (Spooled::read(&mut stdin, self.limits, self.stop)?, stdin.metadata()) {
            (Ok(spooled), Ok(metadata)) => {
                self.take(input, input, true, &metadata);
                self.found.last_mut().expect("it was just taken").spooled = Some(spooled);
            }
            (Err(error), _) => self.plan.failed.push((input.to_owned(), error)),
            (_, Err(error)) => self.fail(input, error),
        }
        Ok(())
    }

    fn folder(&mut self, root: &Path) {
        let (selection, out, stop) = (self.selection, self.out, self.stop);
        let walk = WalkDir::new(root).follow_links(selection.links != Links::Never).sort_by_file_name();
        let mut entries = walk.into_iter();
        while !stop.asked()
            && let Some(entry) = entries.next()
        {
            let entry = match entry {
                Ok(entry) => entry,
                Err(error) => {
                    self.unreadable(root, error);
                    continue;
                }
            };
            let choice = choice(&entry, root, selection, out);
            if choice == Choice::Taken && entry.depth() > 0 && self.is_refused_link(&entry) {
                self.skip(entry.path(), Skip::Link);
                if entry.file_type().is_dir() {
                    entries.skip_current_dir();
                }
                continue;
            }
            let is_folder = entry.file_type().is_dir();
            if choice == Choice::Taken && is_folder && codec::multiscales::is_image_folder(entry.path()) {
                self.listed_image(entry.path(), below(entry.path(), root));
                entries.skip_current_dir();
                continue;
            }
            match choice {
                Choice::Taken => self.entry(&entry, root),
                Choice::LeftOut(name) => self.skip(entry.path(), Skip::Reserved(name.purpose)),
                Choice::NotSelected => {}
            }
            if choice != Choice::Taken && entry.file_type().is_dir() {
                entries.skip_current_dir();
            }
        }
    }

    /// Returns whether an entry is a link that is not to be followed.
    fn is_refused_link(&self, entry: &DirEntry) -> bool {
        entry.path_is_symlink()
            && match self.selection.links {
                Links::Follow => false,
                Links::Inside => !self.settings.roots.have(entry.path()),
                Links::Never => true,
            }
    }

    /// Returns whether a listed file is a link that is not to be followed, or is reached through
    /// one.
    fn is_behind_refused_link(&self, path: &Path) -> bool {
        match self.selection.links {
            Links::Follow => false,
            Links::Inside => !self.settings.roots.have(path),
            Links::Never => path.is_symlink() || !self.settings.roots.have(path),
        }
    }

    /// Takes the files of a list by the rules for files that a search finds.
    fn list(&mut self, list: &Path, settings: &Settings) -> Result<(), Error> {
        let folders = list::Folders::of(&settings.inputs)?;
        // Needed only if files of a list can lie in it.
        let out = settings.out.canonicalize().ok().filter(|out| folders.contain(out));
        for listed in list::read(list)? {
            if self.stop.asked() {
                break;
            }
            match folders.place(&listed) {
                Some((folder, below)) => self.listed(&folder.join(&below), &below, out.as_deref()),
                None => self.plan.failed.push((listed, Refusal::OutsideInputs.into())),
            }
        }
        Ok(())
    }

    fn listed(&mut self, path: &Path, below: &Path, out: Option<&Path>) {
        match self.choice_of_listed(path, below, out) {
            Choice::NotSelected => return,
            Choice::LeftOut(name) => return self.skip(path, Skip::Reserved(name.purpose)),
            Choice::Taken => {}
        }
        if self.is_behind_refused_link(path) {
            return self.skip(path, Skip::Link);
        }
        match fs::metadata(path) {
            Ok(metadata) if metadata.is_file() => self.take(path, below, false, &metadata),
            Ok(_) if codec::multiscales::is_image_folder(path) => self.listed_image(path, below),
            Ok(metadata) if metadata.is_dir() => self.skip(path, Skip::ListedFolder),
            Ok(_) => self.skip(path, Skip::NotAFile),
            Err(error) => self.fail(path, error),
        }
    }

    fn choice_of_listed(&self, path: &Path, below: &Path, out: Option<&Path>) -> Choice {
        if below.iter().any(|name| is_hidden(name.as_ref()))
            || out.is_some_and(|out| path.canonicalize().is_ok_and(|path| path.starts_with(out)))
        {
            return Choice::NotSelected;
        }
        let folders = below.ancestors().skip(1).filter(|folder| !folder.as_os_str().is_empty());
        let mut choices = folders.map(|folder| self.selection.folder(folder));
        choices.find(|choice| *choice != Choice::Taken).unwrap_or_else(|| self.selection.file(below))
    }

    fn entry(&mut self, entry: &DirEntry, root: &Path) {
        // An input folder may itself be a link, and walkdir then reports it as one.
        if entry.file_type().is_dir() || entry.depth() == 0 {
            return;
        }
        let path = entry.path();
        match fs::metadata(path) {
            Ok(metadata) if metadata.is_file() => self.take(path, below(path, root), false, &metadata),
            Ok(_) => self.skip(path, Skip::NotAFile),
            Err(error) => self.fail(path, error),
        }
    }

    fn unreadable(&mut self, root: &Path, error: walkdir::Error) {
        let path = error.path().unwrap_or(root).to_owned();
        if error.loop_ancestor().is_some() {
            self.skip(&path, Skip::LinkLoop);
        } else if error.depth() == 0 || self.matters(&path, root) {
            let error = error.into_io_error().unwrap_or_else(|| io::ErrorKind::Other.into());
            self.fail(&path, error);
        }
    }

    /// Returns whether an unreadable entry below an input folder would have been examined: a
    /// dangling link by the rules for files, any other by the rules for folders.
    fn matters(&self, path: &Path, root: &Path) -> bool {
        let below = below(path, root);
        let selected = if path.is_symlink() {
            self.selection.file(below) == Choice::Taken
        } else {
            self.selection.folder(below) == Choice::Taken
        };
        selected && !is_hidden(path)
    }

    fn take(&mut self, input: &Path, below: &Path, named: bool, metadata: &Metadata) {
        let lasting_inodes = self.keeps_inodes(input, metadata);
        let settings = match named {
            true => Ok(Arc::clone(&self.settings.picture)),
            false => self.folders.of(self.settings, input, below),
        };
        let settings = settings.map(|settings| match self.settings.naming {
            Naming::Mirror | Naming::File(_) => {
                settings.of_file(|| has_several(input, &self.settings.limits, &self.settings.roots))
            }
            Naming::Pattern(_) | Naming::StandardOutput | Naming::Nothing => settings,
        });
        self.found.push(Found {
            input: input.to_owned(),
            below: below.to_owned(),
            named,
            settings,
            identity: Identity::of(metadata),
            state: InputState::of(metadata, lasting_inodes),
            spooled: None,
            object: None,
            image: None,
            document: None,
        });
    }

    /// Takes an image that is a folder, if the globs for files select it.
    fn listed_image(&mut self, folder: &Path, below: &Path) {
        match self.selection.file(below) {
            Choice::Taken => self.image(folder, below, false),
            Choice::LeftOut(name) => self.skip(folder, Skip::Reserved(name.purpose)),
            Choice::NotSelected => {}
        }
    }

    /// Takes an image that is a folder.
    fn image(&mut self, folder: &Path, below: &Path, named: bool) {
        if let Some(why) = why_no_image_folder(self.settings) {
            return self.plan.failed.push((folder.to_owned(), Refusal::ImageFolder { why }.into()));
        }
        if codec::multiscales::is_labels_folder(folder) {
            return self.plan.failed.push((folder.to_owned(), Refusal::Labels.into()));
        }
        let state = fs::metadata(folder).and_then(|metadata| {
            let lasting_inodes = self.keeps_inodes(folder, &metadata);
            Ok((InputState::of_folder(folder, &metadata, lasting_inodes)?, metadata))
        });
        match state {
            Ok((state, metadata)) => {
                self.take(folder, below, named, &metadata);
                let found = self.found.last_mut().expect("it was just taken");
                found.state = state;
                found.document = codec::multiscales::image_document(folder);
                if let Ok(settings) = &mut found.settings {
                    *settings = Arc::new(settings.of_image_folder());
                }
            }
            Err(error) => self.fail(folder, error),
        }
    }

    /// Returns whether the file system of an input keeps inode numbers.
    fn keeps_inodes(&mut self, input: &Path, metadata: &Metadata) -> bool {
        let of_device = self.lasting_inodes.entry(metadata.dev());
        *of_device.or_insert_with(|| FileSystem::of(input).is_ok_and(|own| own.lasting_inodes))
    }

    fn skip(&mut self, path: &Path, why: Skip) {
        self.plan.skipped.push(Skipped { input: path.to_owned(), why, output: None });
    }

    fn fail(&mut self, path: &Path, error: io::Error) {
        self.plan.failed.push((path.to_owned(), PictureError::Read(error)));
    }
}

/// Decides about an entry of an input folder, or the folder itself. Hidden entries, and the output
/// folder, are never selected.
fn choice(entry: &DirEntry, root: &Path, selection: &Selection, out: Option<Identity>) -> Choice {
    let below = below(entry.path(), root);
    if entry.depth() == 0 {
        return Choice::Taken;
    }
    if is_hidden(entry.path()) {
        return Choice::NotSelected;
    }
    if !entry.file_type().is_dir() {
        return selection.file(below);
    }
    match (selection.folder(below), out) {
        (Choice::Taken, Some(out)) if entry.metadata().is_ok_and(|entry| Identity::of(&entry) == out) => {
            Choice::NotSelected
        }
        (choice, _) => choice,
    }
}

/// Returns why images that are folders cannot be processed with these settings, if they cannot.
fn why_no_image_folder(settings: &Settings) -> Option<&'static str> {
    if settings.picture.masks.is_some() {
        return Some("--mask is for files; leave --mask out for it");
    }
    match settings.naming {
        Naming::StandardOutput => Some("standard output takes a file; name a folder, such as --out done/"),
        Naming::Mirror | Naming::File(_) | Naming::Pattern(_) | Naming::Nothing => None,
    }
}

fn below<'a>(path: &'a Path, root: &Path) -> &'a Path {
    path.strip_prefix(root).unwrap_or(path)
}

/// Returns whether a shell would expand a path to matching names.
fn is_glob(path: &Path) -> bool {
    path.as_os_str().as_encoded_bytes().iter().any(|byte| b"*?[".contains(byte))
}

#[cfg(test)]
mod tests;
