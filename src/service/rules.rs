//! The settings in force: owns the settings as of the last reload, those of the inboxes' folders,
//! and the names of outputs. The module knows neither files nor pictures in progress; the ledger is
//! passed in.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::after::finished_inputs::Fate;
use super::after::numbered::is_numbered;
use super::folders::options;
use super::watch::Options;
use super::watch::settle::Ending;
use crate::config::{
    After, Durability, FolderError, OnCollision, PictureSettings, Service, Settings, Written,
};
use crate::error::Error;
use crate::fs::stamp::Stamp;
use crate::ledger::{self, Assigned, Entry, Ledger, LedgerError, Standing};
use crate::picture::record::Digest;
use crate::selection::output_below;
use crate::source::folder_settings::{FolderNote, FolderSettings};
use crate::source::{Prefixes, has_several};

/// The configuration keys that a reload applies to the running service.
const RELOADED: [&str; 8] =
    ["include", "exclude", "settle", "rescan", "poll", "after", "on-collision", "failed"];
/// The configuration key that has no effect in a service.
const OVERWRITE: &str = "overwrite";

/// The settings in force.
pub(super) struct Rules<'a> {
    /// The settings of the start.
    settings: &'a Settings,
    /// The service's settings as of the last reload.
    service: Service,
    /// All keys as of then.
    written: Written,
    out: PathBuf,
    prefixes: Prefixes,
    folders: FolderSettings,
    /// When the service started, in nanoseconds since 1970.
    began: i64,
}

/// A picture that may be begun, with its settings.
#[derive(Clone)]
pub(super) struct Candidate {
    pub(super) input: PathBuf,
    pub(super) stamp: Stamp,
    pub(super) settings: Arc<PictureSettings>,
    /// The state of its mask.
    pub(super) mask: Option<Digest>,
    /// The settings as the ledger identifies them.
    pub(super) fingerprint: String,
    pub(super) output: PathBuf,
}

impl Candidate {
    /// Returns the picture's entry for the ledger.
    pub(super) fn entry(&self) -> Entry<'_> {
        let Self { input, stamp, fingerprint, output, .. } = self;
        Entry { input, stamp: *stamp, settings: fingerprint, output }
    }

    /// Returns whether another output would result from these settings and this mask than from its
    /// own.
    fn differs(&self, settings: &PictureSettings, mask: Option<Digest>) -> bool {
        settings.digest().with(mask) != self.settings.digest().with(self.mask)
    }
}

/// The changes of a reload.
pub(super) struct Reloaded {
    /// The new options of the watch.
    pub(super) options: Options,
    /// The keys that changed.
    pub(super) applied: Vec<String>,
    /// The keys that differ and need a restart.
    pub(super) fixed: Vec<String>,
}

impl<'a> Rules<'a> {
    pub(super) fn new(settings: &'a Settings, out: PathBuf, prefixes: Prefixes) -> Self {
        Self {
            settings,
            service: settings.service.clone(),
            written: settings.written.clone(),
            out,
            prefixes,
            folders: FolderSettings::default(),
            began: ledger::now_ns(),
        }
    }

    /// Applies the keys of newly read settings that a running service can change.
    ///
    /// # Errors
    /// When a folder cannot be used for its purpose.
    pub(super) fn reload(&mut self, new: &Settings) -> Result<Reloaded, Error> {
        let mut options = options(new, &self.out)?;
        // The allowed places of files to read stay those of the start.
        options.selection.links = self.settings.selection.links;
        options.roots = self.settings.roots.clone();
        let mut applied = self.written.differing(&new.written);
        applied.retain(|key| RELOADED.contains(&key.as_str()));
        let mut fixed = self.settings.written.differing(&new.written);
        fixed.retain(|key| !RELOADED.contains(&key.as_str()) && key != OVERWRITE);
        (self.written, self.service) = (new.written.clone(), new.service.clone());
        Ok(Reloaded { options, applied, fixed })
    }

    /// Returns the settings of the start.
    pub(super) fn settings(&self) -> &'a Settings {
        self.settings
    }

    /// Returns the output folder.
    pub(super) fn out(&self) -> &Path {
        &self.out
    }

    /// Returns whether done inputs stay in their places.
    pub(super) fn inputs_stay(&self) -> bool {
        self.service.after == After::Keep
    }

    /// Returns the response to an output name that is taken.
    pub(super) fn on_collision(&self) -> OnCollision {
        if self.inputs_stay() { OnCollision::Replace } else { self.service.on_collision }
    }

    /// Returns whether each input folder has a folder of its own for its outputs.
    pub(super) fn has_prefixes(&self) -> bool {
        !self.prefixes.is_empty()
    }

    /// Returns the ending of a picture that is done.
    pub(super) fn ending_of_done(&self) -> Ending {
        if self.inputs_stay() { Ending::Good } else { Ending::Leaving }
    }

    /// Returns whether an output is on the disk once the ledger has it as done.
    pub(super) fn outputs_are_durable(&self) -> bool {
        self.settings.durability == Durability::Full
    }

    /// Returns whether an output that was done at the time `finished` may not have reached the
    /// disk: another process made it.
    pub(super) fn may_be_lost(&self, finished: i64) -> bool {
        !self.outputs_are_durable() && finished < self.began
    }

    /// Returns the fate of an input that is done; `None` if it stays.
    pub(super) fn fate_of_done(&self, output: &Path, durable: bool) -> Option<Fate> {
        let (after, out) = (self.service.after.clone(), self.out.clone());
        (!self.inputs_stay()).then(|| Fate::Done { after, out, output: output.to_owned(), durable })
    }

    /// Returns the fate of an input that failed for good; `None` if it stays.
    pub(super) fn fate_of_failed(&self, reason: &str) -> Option<Fate> {
        let folder = self.service.failed.clone()?;
        Some(Fate::Failed { folder, reason: reason.to_owned() })
    }

    /// Returns the path of an input once it is done, and the folder that it is moved to, if it is.
    pub(super) fn place_when_done(&self, input: &Path, below: Option<&Path>) -> (PathBuf, Option<PathBuf>) {
        match (&self.service.after, below) {
            (After::Move(folder), Some(below)) => {
                (folder.join(self.placed(input, below)), Some(folder.clone()))
            }
            _ => (input.to_owned(), None),
        }
    }

    /// Returns the path of an input, given its path `below` its watched folder, within the folders
    /// that it or its output goes to.
    pub(super) fn placed(&self, input: &Path, below: &Path) -> PathBuf {
        self.prefixes.placed(input, below).into_owned()
    }

    /// Returns the output of an input with these settings, if no other is in the way.
    pub(super) fn usual_output(&self, input: &Path, below: &Path, own: &PictureSettings) -> PathBuf {
        self.out.join(output_below(&self.prefixes.placed(input, below), &own.target))
    }

    /// Returns the current settings of the picture of an input.
    ///
    /// # Errors
    /// When the settings of its folder cannot be used.
    pub(super) fn settings_of(
        &mut self,
        input: &Path,
        below: &Path,
    ) -> Result<Arc<PictureSettings>, Arc<FolderError>> {
        self.folders.of_now(self.settings, input, below)
    }

    /// Returns an input with its settings and its output. This is the ledger's output if that is
    /// the usual one with a number, or else the usual one: an input that stays keeps its output
    /// when it changes.
    ///
    /// # Errors
    /// When a call of the ledger fails.
    pub(super) fn candidate(
        &self,
        ledger: &Ledger,
        input: &Path,
        below: &Path,
        stamp: Stamp,
        settings: &Arc<PictureSettings>,
    ) -> Result<Candidate, LedgerError> {
        let assigned = ledger.assigned(input)?;
        let settings = Arc::clone(settings).of_file(|| {
            let same = assigned.as_ref().filter(|assigned| assigned.stamp == stamp);
            self.has_several(input, below, settings, same)
        });
        let usual = self.usual_output(input, below, &settings);
        let assigned = assigned.filter(|assigned| {
            (assigned.stamp == stamp || self.inputs_stay()) && is_numbered(&assigned.output, &usual)
        });
        let mask = settings.mask_state(&self.settings.inputs, input);
        let fingerprint = settings.fingerprint(mask, &self.settings.limits);
        let output = assigned.map_or(usual, |assigned| assigned.output);
        Ok(Candidate { input: input.to_owned(), stamp, settings, mask, fingerprint, output })
    }

    /// Returns whether an input has several pages: the output that it was assigned in this state
    /// (`same`) shows this without reading it.
    fn has_several(
        &self,
        input: &Path,
        below: &Path,
        settings: &PictureSettings,
        same: Option<&Assigned>,
    ) -> bool {
        let is_of = |settings: &PictureSettings| {
            same.is_some_and(|same| is_numbered(&same.output, &self.usual_output(input, below, settings)))
        };
        is_of(&settings.splitting())
            || !is_of(settings) && has_several(input, &self.settings.limits, &self.settings.roots)
    }

    /// Returns an input in a folder with unusable settings. No record in the ledger has empty
    /// settings: it is never taken for done.
    pub(super) fn candidate_without_settings(&self, input: &Path, below: &Path, stamp: Stamp) -> Candidate {
        let settings = Arc::clone(&self.settings.picture);
        let output = self.usual_output(input, below, &settings);
        Candidate { input: input.to_owned(), stamp, settings, mask: None, fingerprint: String::new(), output }
    }

    /// Returns the picture as the ledger is to record it after a failure for lack of memory: with
    /// more memory, it is tried again.
    pub(super) fn for_lack_of_memory(&self, candidate: &Candidate) -> Candidate {
        let fingerprint = format!("{} within {} bytes", candidate.fingerprint, self.settings.memory);
        Candidate { fingerprint, ..candidate.clone() }
    }

    /// Returns the ledger's record of a picture.
    ///
    /// # Errors
    /// When a call of the ledger fails.
    pub(super) fn standing(&self, ledger: &Ledger, candidate: &Candidate) -> Result<Standing, LedgerError> {
        let standing = ledger.standing(&candidate.entry())?;
        if standing == Standing::Unknown
            && let failed @ Standing::Failed { .. } =
                ledger.standing(&self.for_lack_of_memory(candidate).entry())?
        {
            return Ok(failed);
        }
        Ok(standing)
    }

    /// Returns whether a file that was found in this state needs no more attention.
    pub(super) fn is_settled(&mut self, ledger: &Ledger, input: &Path, below: &Path, stamp: Stamp) -> bool {
        let Ok(settings) = self.settings_of(input, below) else {
            return self.inputs_stay() && was_done(ledger, input, stamp);
        };
        let candidate = self.candidate(ledger, input, below, stamp, &settings);
        match candidate.and_then(|candidate| self.standing(ledger, &candidate)) {
            Ok(Standing::Done) => self.inputs_stay(),
            Ok(Standing::Skipped) => true,
            Ok(Standing::Failed { .. }) => self.service.failed.is_none(),
            Ok(Standing::Unknown | Standing::Interrupted { .. }) | Err(_) => false,
        }
    }

    /// Returns whether a picture that is done and stays has got other settings or another mask.
    pub(super) fn has_other_settings(&mut self, done: &Candidate, below: &Path) -> bool {
        let inputs = &self.settings.inputs;
        self.inputs_stay()
            && self
                .settings_of(&done.input, below)
                .is_ok_and(|now| done.differs(&now, now.mask_state(inputs, &done.input)))
    }

    /// Returns the notes about the settings of folders since the last call.
    pub(super) fn take_folder_notes(&mut self) -> Vec<FolderNote> {
        self.folders.take_notes()
    }

    /// Returns the folders whose settings have changed since the last call.
    pub(super) fn take_changed_folders(&mut self) -> Vec<PathBuf> {
        self.folders.take_changed()
    }

    /// Returns why settings of folders cannot be used.
    pub(super) fn unusable(&mut self) -> Vec<String> {
        self.folders.unusable()
    }
}

/// Returns whether an input was done in this state, with whatever settings.
pub(super) fn was_done(ledger: &Ledger, input: &Path, stamp: Stamp) -> bool {
    let assigned = ledger.assigned(input).ok().flatten();
    assigned.is_some_and(|Assigned { is_done, stamp: done, .. }| is_done && done == stamp)
}
