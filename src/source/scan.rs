//! Turns inputs into a list of jobs that is complete, and free of collisions, before any work starts.

mod objects;

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::fs::{self, File, Metadata};
use std::io;
use std::iter::Peekable;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::vec;

use serde::Serialize;
use store::{Object, Storage, Version};
use walkdir::{DirEntry, WalkDir};

use super::done::{InputState, Standing};
use super::filesystem::FileSystem;
use super::folder_settings::FolderSettings;
use super::list;
use super::prefix::Prefixes;
use super::stdin::{STANDARD_INPUT, Spooled, standard_input};
use crate::config::{Existing, FolderError, Naming, PictureSettings, Settings, Style};
use crate::error::{Error, PictureError, Refusal};
use crate::paths::{Identity, Shown};
use crate::publish::ignores_case;
use crate::selection::{Choice, Purpose, Selection, is_hidden, output_below, patterned, promises_a_picture};
use crate::stamp::Stamp;
use crate::stop::Stop;
use codec::{Format, Limits};

/// One picture to process.
#[derive(Clone, Debug)]
pub struct Job {
    /// Its place in the list, from 0; 0 in a service, which has no list.
    pub number: usize,
    /// What its output is to look like.
    pub settings: Arc<PictureSettings>,
    /// The file to read.
    pub input: PathBuf,
    /// The file to write; empty if the run writes no output per picture.
    pub output: PathBuf,
    /// Whether the user named this file itself, not a folder above it.
    pub named: bool,
    /// Length of the input when it was found.
    pub bytes: u64,
    /// Whether the input's file system keeps inode numbers.
    pub lasting_inodes: bool,
    /// The state of the input when it was taken, if known. No output of another state is published.
    pub stamp: Option<Stamp>,
    /// Whether its output is there already, and was made with other settings.
    pub remakes: bool,
    /// Whether its output may take the place of a file.
    pub replaces: bool,
    /// The input's content, if it came from standard input.
    pub spooled: Option<Spooled>,
    /// The input's content, if it is in object storage.
    pub object: Option<Arc<Object>>,
    /// What its output replaces in object storage, if that is known.
    pub replaced: Option<Version>,
}

impl Job {
    /// Returns whether the input is still in the state in which it was taken.
    pub fn is_unchanged(&self) -> bool {
        // An object is fetched in the state that was listed, or not at all.
        self.object.is_some() || self.stamp.is_none_or(|stamp| stamp.is_still_of(&self.input))
    }

    /// Returns whether it is a failure if the file's content is not a picture. Other files are to be expected in a folder, unless their
    /// name promises a picture; a file given by name has to be one.
    pub fn must_be_a_picture(&self) -> bool {
        self.named || promises_a_picture(&self.input)
    }
}

/// Why a file or folder was skipped without being a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Skip {
    /// Its output was made from it with these settings, or the ledger knows that it is done.
    AlreadyDone,
    /// Neither its content nor its name is that of a picture.
    NotAPicture,
    /// It is a socket, a pipe or a device.
    NotAFile,
    /// It is a link to a folder, and such links are not to be followed.
    LinkToFolder,
    /// It is a link to a folder that contains it.
    LinkLoop,
    /// It is a folder in a list of files.
    ListedFolder,
    /// Its name is reserved, and no glob asks for it.
    #[serde(untagged)]
    Reserved(Purpose),
}

/// The result of a scan.
#[derive(Debug, Default)]
pub struct Plan {
    /// The jobs, in the order of the inputs and sorted by name within each.
    pub jobs: Vec<Job>,
    /// The files and folders that were skipped, and why.
    pub skipped: Vec<(PathBuf, Skip)>,
    /// The files and folders that cannot be processed, and why.
    pub failed: Vec<(PathBuf, PictureError)>,
    /// What the user should know about the inputs, as sentences.
    pub notes: Vec<String>,
}

/// How many jobs per thread are sorted by size at the end of a list: enough that the last ones are small.
const EVENED: usize = 8;

/// Sorts the end of the list by size, the largest files first, so that the threads finish together: none has a large picture left while the
/// others are idle (R. L. Graham, Bounds on Multiprocessing Timing Anomalies, 1969).
pub fn balance_tail(jobs: &mut [Job], threads: usize) {
    let end = jobs.len().saturating_sub(EVENED.saturating_mul(threads));
    jobs[end..].sort_by_key(|job| Reverse(job.bytes));
}

/// Returns how many bytes the JPEGs among the jobs have, judging by their names.
pub fn jpeg_bytes(jobs: &[Job]) -> u64 {
    let jpegs = jobs.iter().filter(|job| Format::of_name(&job.input) == Some(Format::Jpeg));
    jpegs.map(|job| job.bytes).sum()
}

/// Jobs in their original order, with consecutive small ones in batches: handing one over costs as much as doing it. A small file may be a
/// large picture, so batches get smaller as fewer jobs are left for each thread (guided self-scheduling: C. D. Polychronopoulos and D. J.
/// Kuck, 1987).
pub struct Batches {
    jobs: Peekable<vec::IntoIter<Job>>,
    threads: usize,
}

impl Batches {
    /// The most bytes in a batch of several files. Stages work on a few batches at a time, so this also limits what a stop waits for.
    pub(crate) const MAX_BYTES: u64 = 256 * 1024;
    /// The most files in a batch.
    pub(crate) const MAX: usize = 32;
    /// The least number of batches per thread into which the remaining jobs are split.
    const SHARES: usize = 4;

    /// Returns the batches of `jobs`, for `threads` threads.
    pub fn of(jobs: Vec<Job>, threads: usize) -> Self {
        Self { jobs: jobs.into_iter().peekable(), threads }
    }
}

impl Iterator for Batches {
    type Item = Vec<Job>;

    fn next(&mut self) -> Option<Vec<Job>> {
        let most = self.jobs.len() / self.threads.saturating_mul(Self::SHARES).max(1);
        let most = most.min(Self::MAX);
        let first = self.jobs.next()?;
        let mut bytes = first.bytes;
        let mut batch = vec![first];
        let mut fits = |job: &Job| {
            bytes += job.bytes;
            bytes <= Self::MAX_BYTES
        };
        while batch.len() < most
            && let Some(job) = self.jobs.next_if(&mut fits)
        {
            batch.push(job);
        }
        Some(batch)
    }

    /// Bounds the number of batches: none is empty, so there are no more of them than jobs.
    fn size_hint(&self) -> (usize, Option<usize>) {
        (usize::from(self.jobs.len() > 0), Some(self.jobs.len()))
    }
}

/// Lists the pictures to process.
///
/// - Folders are searched recursively, except for hidden files and folders (a leading dot); the output folder is never entered, and names
///   that systems and programs keep for themselves are left out unless `--include` spells them.
/// - The tree below an input folder is mirrored below the output folder, or with `--prefix-folder` below the folder there that has the
///   input folder's name; a file given by name goes directly into it.
/// - An input whose output was made from it with these settings is skipped, unless all outputs are to be overwritten.
/// - Inputs that would share an output, or whose output would replace an input, are refused, each with the other's name.
/// - A folder's pictures have the settings that the files of it and of the folders above it say.
/// - With `--files-from`, only the listed files of the folders are looked at. With `--shard`, the rest is left to others.
///
/// Files and folders that cannot be read become failures in the plan. The plan is incomplete if a stop is requested meanwhile.
///
/// # Errors
/// When the request as a whole makes no sense, or the output folder cannot be used.
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
        found,
        plan,
    };
    match &settings.files_from {
        Some(list) => search.list(list, settings)?,
        None => settings.inputs.iter().try_for_each(|input| search.input(input))?,
    }
    let Search { found, mut plan, mut folders, .. } = search;
    let is_verbose = settings.report.style == Style::Verbose;
    let notes = folders.take_notes().into_iter().filter(|note| note.is_advice || is_verbose);
    plan.notes.extend(notes.map(|note| note.text));
    let prefixes = prefixes(settings)?;
    let candidates = found.into_iter().map(|found| found.with_output(settings, &prefixes)).collect();
    plan_candidates(candidates, settings, stop, &mut plan)?;
    Ok(plan)
}

fn prefixes(settings: &Settings) -> Result<Prefixes, Error> {
    if !settings.prefix_folder {
        return Ok(Prefixes::default());
    }
    let folders = settings.inputs.iter().filter(|input| is_folder(input));
    Prefixes::of(&folders.cloned().collect::<Vec<_>>())
}

/// Returns whether an input is a folder. A URL is one unless its name is that of a picture, for a server is not asked here.
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

/// An input file, before its output is known.
struct Found {
    input: PathBuf,
    /// Its path below the input folder.
    below: PathBuf,
    named: bool,
    /// What its output is to look like.
    settings: Result<Arc<PictureSettings>, Arc<FolderError>>,
    identity: Identity,
    state: InputState,
    spooled: Option<Spooled>,
    object: Option<Arc<Object>>,
}

impl Found {
    fn with_output(self, settings: &Settings, prefixes: &Prefixes) -> Candidate {
        let output = match &settings.naming {
            Naming::Mirror => {
                let below = prefixes.placed(&self.input, &self.below);
                // Without settings it has no output, and fails.
                let own = self.settings.as_ref().unwrap_or(&settings.picture);
                settings.out.join(output_below(&below, own.target.format))
            }
            Naming::Pattern(pattern) => patterned(pattern, &self.below),
            Naming::File(file) => file.clone(),
            Naming::StandardOutput => "-".into(),
            Naming::Nothing => PathBuf::new(),
        };
        Candidate { output, found: self }
    }

    /// Returns the input folder; that of a file given by name is the folder it lies in.
    fn root(&self) -> Option<&Path> {
        root_of(&self.input, &self.below)
    }
}

/// Returns the input folder of an input that has the path `below` below it.
fn root_of<'p>(input: &'p Path, below: &Path) -> Option<&'p Path> {
    input.ancestors().nth(below.components().count())
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
    /// What folders say of their pictures.
    folders: FolderSettings,
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
            Ok(metadata) if metadata.is_dir() => self.folder(input),
            Ok(metadata) if metadata.is_file() => {
                let name = input.file_name().expect("a path that ends in .. is no file");
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

    /// Takes what comes from standard input, once however often it is named.
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
        let walk = WalkDir::new(root).follow_links(selection.follow_links).sort_by_file_name();
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

    /// Takes the files of a list by the rules for those that a search finds.
    fn list(&mut self, list: &Path, settings: &Settings) -> Result<(), Error> {
        let folders = list::Folders::of(&settings.inputs)?;
        // Only if files of a list can lie in it.
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
        match fs::metadata(path) {
            Ok(metadata) if metadata.is_file() => self.take(path, below, false, &metadata),
            Ok(metadata) if metadata.is_dir() => self.skip(path, Skip::ListedFolder),
            Ok(_) => self.skip(path, Skip::NotAFile),
            Err(error) => self.fail(path, error),
        }
    }

    fn choice_of_listed(&self, path: &Path, below: &Path, out: Option<&Path>) -> Choice {
        let lies_in = |out: &Path| path.canonicalize().is_ok_and(|path| path.starts_with(out));
        if below.iter().any(|name| is_hidden(name.as_ref())) || out.is_some_and(lies_in) {
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
            Ok(metadata) if metadata.is_dir() => self.skip(path, Skip::LinkToFolder),
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

    /// Returns whether something unreadable below an input folder would have been looked at: a dangling link by the rules for files,
    /// anything else by those for folders.
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
        let last = || FileSystem::of(input).is_ok_and(|own| own.lasting_inodes);
        let lasting_inodes = *self.lasting_inodes.entry(metadata.dev()).or_insert_with(last);
        let settings = match (root_of(input, below), input.parent()) {
            (Some(root), Some(folder)) if !named => self.folders.of(self.settings, root, folder),
            _ => Ok(Arc::clone(&self.settings.picture)),
        };
        self.found.push(Found {
            input: input.to_owned(),
            below: below.to_owned(),
            named,
            settings,
            identity: Identity::of(metadata),
            state: InputState::of(metadata, lasting_inodes),
            spooled: None,
            object: None,
        });
    }

    fn skip(&mut self, path: &Path, why: Skip) {
        self.plan.skipped.push((path.to_owned(), why));
    }

    fn fail(&mut self, path: &Path, error: io::Error) {
        self.plan.failed.push((path.to_owned(), PictureError::Read(error)));
    }
}

/// Decides about an entry of an input folder, or the folder itself. What is hidden, and the output folder, are never selected.
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
    let is_out =
        || out.is_some() && entry.metadata().is_ok_and(|metadata| Some(Identity::of(&metadata)) == out);
    let choice = selection.folder(below);
    if choice == Choice::Taken && is_out() { Choice::NotSelected } else { choice }
}

fn below<'a>(path: &'a Path, root: &Path) -> &'a Path {
    path.strip_prefix(root).unwrap_or(path)
}

/// Returns whether a shell would replace a path by the names that match it.
fn is_glob(path: &Path) -> bool {
    path.as_os_str().as_encoded_bytes().iter().any(|byte| b"*?[".contains(byte))
}

/// An input file and its output, an empty path if it has none.
struct Candidate {
    found: Found,
    output: PathBuf,
}

impl Candidate {
    /// Returns what distinguishes it from other paths to the same file: its output, or if it has none, its own absolute path.
    fn place(&self) -> PathBuf {
        if !self.output.as_os_str().is_empty() {
            return self.output.clone();
        }
        std::path::absolute(&self.found.input).unwrap_or_else(|_| self.found.input.clone())
    }
}

/// Turns candidates into jobs, skips and refusals.
///
/// # Errors
/// When a store does not tell which outputs are there.
fn plan_candidates(
    candidates: Vec<Candidate>,
    settings: &Settings,
    stop: &Stop,
    plan: &mut Plan,
) -> Result<(), Error> {
    let candidates = without_repeats(candidates);
    let inputs: HashSet<Identity> = candidates.iter().map(|candidate| candidate.found.identity).collect();
    let shared = shared_outputs(&candidates, settings);
    let inside = inputs_inside_output(settings);
    let around = |output: &Path| {
        let below = output.strip_prefix(&settings.out).ok()?;
        inside.iter().find(|(inside, _)| below.starts_with(inside)).map(|(_, folder)| folder.clone())
    };
    let mut there = objects::Outputs::find(&candidates, settings, stop)?;
    for (candidate, other) in candidates.into_iter().zip(shared).take_while(|_| !stop.asked()) {
        let Candidate { found, output } = candidate;
        if settings.shard.is_some_and(|shard| !shard.takes(&found.below)) {
            continue;
        }
        let stored = there.take(&output);
        let own = match found.settings {
            Ok(own) => own,
            Err(why) => {
                plan.failed.push((found.input, PictureError::Folder(why)));
                continue;
            }
        };
        if let Some(Sharer { other, separable }) = other {
            plan.failed.push((found.input, Refusal::SharedOutput { other, output, separable }.into()));
        } else if replaces_one_of(&inputs, &output, &settings.naming) {
            plan.failed.push((found.input, Refusal::ReplacesInput { output }.into()));
        } else if let Some(folder) = around(&output) {
            plan.failed.push((found.input, Refusal::InInputFolder { output, folder }.into()));
        } else {
            let standing = match (settings.existing, &stored) {
                (Existing::Overwrite, _) => Standing::ToDo,
                (Existing::Skip, Some(stored)) => Standing::of_object(stored, &found.state, own.digest()),
                (Existing::Skip, None) if store::is_url(&output) => Standing::ToDo,
                (Existing::Skip, None) => Standing::of(&output, &found.state, own.digest(), settings.times),
            };
            if standing == Standing::Done {
                plan.skipped.push((found.input, Skip::AlreadyDone));
                continue;
            }
            let stamp = found.state.stamp;
            plan.jobs.push(Job {
                number: plan.jobs.len(),
                settings: own,
                input: found.input,
                output,
                named: found.named,
                bytes: stamp.size,
                lasting_inodes: stamp.inode != 0,
                stamp: None,
                remakes: standing == Standing::OtherSettings,
                replaces: true,
                spooled: found.spooled,
                object: found.object,
                replaced: stored.map(|stored| stored.entry.version),
            });
        }
    }
    Ok(())
}

/// Keeps the first of several paths to the same file with the same output: `inbox inbox/a.png` means each picture once. If there are no
/// outputs, links to the same file are separate pictures, just as they are when each has its own output. A file that is `named` by any of
/// the paths stays so.
fn without_repeats(candidates: Vec<Candidate>) -> Vec<Candidate> {
    let mut seen: HashMap<(Identity, PathBuf), usize> = HashMap::with_capacity(candidates.len());
    let mut kept: Vec<Candidate> = Vec::with_capacity(candidates.len());
    for candidate in candidates {
        let key = (candidate.found.identity, candidate.place());
        match seen.get(&key) {
            Some(&first) => kept[first].found.named |= candidate.found.named,
            None => {
                seen.insert(key, kept.len());
                kept.push(candidate);
            }
        }
    }
    kept
}

/// Returns the input folders inside the output folder, each with its path below that.
fn inputs_inside_output(settings: &Settings) -> Vec<(PathBuf, PathBuf)> {
    if store::is_url(&settings.out) {
        return objects::inputs_inside(settings);
    }
    let Ok(out) = settings.out.canonicalize() else { return Vec::new() };
    let inside = |input: &PathBuf| {
        let folder = input.canonicalize().ok().filter(|folder| folder.is_dir())?;
        Some((folder.strip_prefix(&out).ok()?.to_owned(), input.clone()))
    };
    settings.inputs.iter().filter_map(inside).collect()
}

/// Another input with the same output.
struct Sharer {
    other: PathBuf,
    /// Whether `--prefix-folder` would separate them.
    separable: bool,
}

/// Returns for each candidate another input that has the same output, if there is one. Where the output's file system ignores case, names
/// that differ in nothing else are the same; whether it does is not asked in a dry run, because a file has to be created for that.
fn shared_outputs(candidates: &[Candidate], settings: &Settings) -> Vec<Option<Sharer>> {
    let mirrors = settings.naming == Naming::Mirror && !settings.prefix_folder;
    let are_separable =
        |one: &Found, other: &Found| mirrors && !(one.named && other.named) && one.root() != other.root();
    let numbers = numbers_of_sharers(candidates, settings).into_iter();
    let sharer = |(one, other): (&Candidate, Option<usize>)| {
        let other = &candidates[other?].found;
        Some(Sharer { other: other.input.clone(), separable: are_separable(&one.found, other) })
    };
    candidates.iter().zip(numbers).map(sharer).collect()
}

/// As [`shared_outputs`], but returns the numbers of the others.
fn numbers_of_sharers(candidates: &[Candidate], settings: &Settings) -> Vec<Option<usize>> {
    let shared = sharing(candidates, |output| Cow::Borrowed(output.as_os_str()));
    if settings.dry_run || store::is_url(&settings.out) {
        return shared;
    }
    let folded = sharing(candidates, |output| Cow::Owned(folded(output)));
    let root = settings.naming.root(&settings.out).unwrap_or(Path::new(""));
    let only_folded = folded.iter().zip(&shared).position(|(folded, shared)| folded != shared);
    match only_folded {
        Some(one) if ignores_case(root, &candidates[one].output) => folded,
        _ => shared,
    }
}

/// Returns for each candidate the number of another whose output has the same key, if there is one.
fn sharing<'c>(candidates: &'c [Candidate], key: impl Fn(&'c Path) -> Cow<'c, OsStr>) -> Vec<Option<usize>> {
    let mut by_key: HashMap<Cow<'c, OsStr>, Vec<usize>> = HashMap::with_capacity(candidates.len());
    let with_output = candidates.iter().enumerate().filter(|(_, one)| !one.output.as_os_str().is_empty());
    for (number, candidate) in with_output {
        by_key.entry(key(&candidate.output)).or_default().push(number);
    }
    let mut shared = vec![None; candidates.len()];
    for sharers in by_key.values().filter(|sharers| sharers.len() > 1) {
        for (place, &number) in sharers.iter().enumerate() {
            shared[number] = Some(sharers[usize::from(place == 0)]);
        }
    }
    shared
}

/// Returns what file systems that ignore case make of a path. Those of Windows also drop dots and blanks at a name's end.
fn folded(path: &Path) -> OsString {
    match path.to_str() {
        Some(text) => text.to_lowercase().trim_end_matches(['.', ' ']).into(),
        None => path.as_os_str().to_ascii_lowercase(),
    }
}

fn replaces_one_of(inputs: &HashSet<Identity>, output: &Path, naming: &Naming) -> bool {
    if store::is_url(output) {
        return inputs.contains(&Identity::of_object(output));
    }
    let there = match naming {
        Naming::StandardOutput => standard_output_file(),
        _ => fs::symlink_metadata(output).ok(),
    };
    there.is_some_and(|metadata| inputs.contains(&Identity::of(&metadata)))
}

/// Returns what standard output is, if it is a file.
fn standard_output_file() -> Option<Metadata> {
    let stdout = File::from(io::stdout().as_fd().try_clone_to_owned().ok()?);
    stdout.metadata().ok().filter(Metadata::is_file)
}

#[cfg(test)]
mod tests;
