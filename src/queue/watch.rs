//! `histeqd --watch --queue`: watches folders, and publishes new pictures instead of processing
//! them.
//!
//! ```text
//!  watch ──▶ settle ──ready──▶ is its output up to date? ─no─▶ does the queue have it? ─no─▶ queue
//! ```
//!
//! There is no ledger: the outputs show which pictures are done, and the queue which ones wait, are
//! in progress or were put aside. Pictures that the queue lost have no output, and the next listing
//! finds them.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crossbeam_channel::select;
use histeqd_queue::{Limits, Place, Queue};
use sd_notify::NotifyState;
use tracing::{info, warn};

use super::follow::follow;
use super::outgoing::Outgoing;
use super::signature::Signatures;
use super::submit::with_whole_paths;
use super::unusable;
use crate::cli;
use crate::config::{PictureSettings, Settings};
use crate::error::{Error, Exit, PictureError, Refusal};
use crate::fs::paths::Shown;
use crate::selection::output_below;
use crate::service::folders::Folders;
use crate::service::reports::log;
use crate::service::watch::Watch;
use crate::service::watch::notifier::Signal;
use crate::service::watch::settle::{Ending, Ready};
use crate::source::folder_settings::FolderSettings;
use crate::source::stop::Stop;
use crate::source::{self, Batches, Job, Prefixes, may_be_a_picture};

/// The interval of checks for changes that no message announces.
const TICK: Duration = Duration::from_millis(200);

/// Watches folders and publishes their pictures, signed with the key in a file if there is one,
/// until asked to stop.
///
/// # Errors
/// When the command line is invalid, or the queue cannot be used at the start. Later failures are
/// waited out.
pub fn watch(settings: &Settings, place: &Place, key: Option<&Path>, stop: &Stop) -> Result<Exit, Error> {
    log::start(settings.report.style)?;
    let settings = with_whole_paths(settings.clone())?;
    settings.written.check_carried().map_err(Error::Usage)?;
    let signatures = Signatures::of(key)?;
    let is_stored = settings.inputs.iter().any(|input| store::is_url(input));
    let folders = if is_stored { None } else { Some(Folders::of(&settings)?) };
    let (queue, limits) = (Queue::connect(place, &cli::access()?), Limits::default());
    let queue = queue.map_err(|why| unusable(&why))?;
    queue.create(&limits).map_err(|why| unusable(&why))?;
    let version = env!("CARGO_PKG_VERSION");
    info!(
        "histeqd {version}: submitting to {place}; {}; output {}",
        settings.in_brief(),
        Shown(&settings.out)
    );
    settings.notes.iter().for_each(|note| warn!("{note}"));
    // Fails without a service manager, which does not matter.
    let _ = sd_notify::notify(&[NotifyState::Ready]);
    let outgoing = Outgoing::new(&queue, signatures, limits, &settings.written, settings.service.rescan);
    match folders {
        Some(folders) => Watching::new(&settings, folders, outgoing).run(stop),
        None => follow(&settings, outgoing, stop)?,
    }
    info!("stopped");
    Ok(Exit::Done)
}

struct Watching<'a> {
    settings: &'a Settings,
    out: PathBuf,
    prefixes: Prefixes,
    watch: Watch,
    outgoing: Outgoing<'a>,
    folder_settings: FolderSettings,
    outputs: Outputs,
    /// Whether the first listing is complete. Until then, an existing output may belong to an input
    /// that was not found yet.
    is_listed: bool,
    /// The last message logged about each input, which is not repeated after every listing.
    told: HashMap<PathBuf, String>,
}

impl<'a> Watching<'a> {
    fn new(settings: &'a Settings, folders: Folders, outgoing: Outgoing<'a>) -> Self {
        let Folders { watched, out, prefixes, options } = folders;
        let can_collide =
            settings.picture.target.format.is_some() || watched.len() > 1 && !settings.prefix_folder;
        Self {
            settings,
            out,
            prefixes,
            watch: Watch::start(watched, options, settings.service.settle, Instant::now()),
            outgoing,
            folder_settings: FolderSettings::default(),
            outputs: Outputs { can_collide, owners: HashMap::new() },
            is_listed: false,
            told: HashMap::new(),
        }
    }

    fn run(mut self, stop: &Stop) {
        while !stop.asked() {
            let signals = self.watch.signals();
            let signal = select! {
                recv(signals) -> told => told.ok(),
                default(self.pause()) => None,
            };
            self.look(signal);
            self.publish_ready();
        }
    }

    /// Returns how long to wait for a message.
    fn pause(&self) -> Duration {
        let now = Instant::now();
        if self.watch.has_ready() && self.outgoing.has_room(now) {
            return Duration::ZERO;
        }
        self.watch.pause(now, TICK)
    }

    /// Handles a report of the watched folders.
    fn look(&mut self, signal: Option<Signal>) {
        let Self { settings, out, prefixes, watch, folder_settings, outputs, .. } = self;
        let mut is_done = |path: &Path, below: &Path, _| {
            let Ok(own) = folder_settings.of_now(settings, path, below) else { return false };
            let output = output_of(out, prefixes, &own, path, below);
            let job = source::single(path.to_owned(), output.clone(), false, &own, settings);
            let is_done = matches!(job, Ok(None));
            if is_done {
                outputs.claim(&output, path);
            }
            is_done
        };
        watch.turn(signal, &mut is_done, Instant::now());
        watch.log_notes();
        self.folder_settings.take_notes().into_iter().for_each(log::folder_note);
        for folder in self.folder_settings.take_changed() {
            self.watch.retry_below(&folder);
        }
        for path in self.watch.take_gone() {
            self.told.remove(&path);
            if let Some(output) = self.output(&path) {
                self.outputs.release(&output, &path);
            }
        }
        self.is_listed |= !self.watch.is_listing();
    }

    fn output(&mut self, input: &Path) -> Option<PathBuf> {
        let below = self.watch.below(input)?;
        let own = self.folder_settings.of_now(self.settings, input, below).ok()?;
        Some(output_of(&self.out, &self.prefixes, &own, input, below))
    }

    /// Publishes the files that are ready, as far as the queue takes them.
    fn publish_ready(&mut self) {
        let mut jobs = Vec::new();
        while self.is_listed
            && self.outgoing.has_room(Instant::now())
            && jobs.len() < Batches::MAX
            && let Some(Ready { path, .. }) = self.watch.take()
        {
            match self.examine(&path) {
                Ok(job) => jobs.push(job),
                Err(ending) => drop(self.watch.finish(&path, ending)),
            }
        }
        self.outgoing.add(jobs);
        for input in self.outgoing.send() {
            self.watch.finish(&input, Ending::Good);
        }
        if self.outgoing.take_vanished() {
            self.watch.list_all();
        }
    }

    /// Returns the job of a file that is ready, or how it ends without one.
    fn examine(&mut self, path: &Path) -> Result<Job, Ending> {
        // It may have been excluded while it waited.
        let below = self.watch.below(path).filter(|_| self.watch.takes(path)).ok_or(Ending::Good)?;
        let job = self.job(path, below).map_err(|why| self.refuse(path, &why))?;
        let roots = &self.settings.roots;
        // Workers skip the others, which never have an output.
        let job = job.filter(|job| may_be_a_picture(&job.input, roots)).ok_or(Ending::Good)?;
        match self.outgoing.has(&job) {
            Some(false) => Ok(job),
            Some(true) => Err(Ending::Good),
            None => Err(Ending::Held),
        }
    }

    /// Returns the job of an input that has the path `below` below its watched folder; `None` if it
    /// is done.
    fn job(&mut self, path: &Path, below: &Path) -> Result<Option<Job>, PictureError> {
        let own = self.folder_settings.of_now(self.settings, path, below).map_err(PictureError::Folder)?;
        let output = output_of(&self.out, &self.prefixes, &own, path, below);
        self.outputs.can_collide |= own.target.format.is_some();
        if let Some(folder) = self.watch.root_of(&output) {
            let folder = folder.to_owned();
            return Err(Refusal::InInputFolder { output, folder }.into());
        }
        if let Some(other) = self.outputs.claim(&output, path) {
            let separable =
                self.prefixes.is_empty() && self.watch.root_of(&other) != self.watch.root_of(path);
            return Err(Refusal::SharedOutput { other, output, separable }.into());
        }
        source::single(path.to_owned(), output, false, &own, self.settings)
    }

    fn refuse(&mut self, path: &Path, why: &PictureError) -> Ending {
        let ending = if why.is_transient() { Ending::Passing } else { Ending::Refused };
        let why = why.to_string();
        if self.told.get(path) != Some(&why) {
            warn!("not submitted: {}: {why}", Shown(path));
            self.told.insert(path.to_owned(), why);
        }
        ending
    }
}

/// Returns the output of an input with these settings and this path below its watched folder.
fn output_of(out: &Path, prefixes: &Prefixes, own: &PictureSettings, input: &Path, below: &Path) -> PathBuf {
    out.join(output_below(&prefixes.placed(input, below), &own.target))
}

/// The owner of each output, where several inputs may have the same.
struct Outputs {
    can_collide: bool,
    owners: HashMap<PathBuf, PathBuf>,
}

impl Outputs {
    /// Gives an output to an input, unless another one has it, which is returned.
    fn claim(&mut self, output: &Path, input: &Path) -> Option<PathBuf> {
        if !self.can_collide {
            return None;
        }
        match self.owners.get(output) {
            Some(owner) => (owner != input).then(|| owner.clone()),
            None => {
                self.owners.insert(output.to_owned(), input.to_owned());
                None
            }
        }
    }

    /// Frees an output, if it is this input's.
    fn release(&mut self, output: &Path, input: &Path) {
        if self.owners.get(output).is_some_and(|owner| owner == input) {
            self.owners.remove(output);
        }
    }
}
