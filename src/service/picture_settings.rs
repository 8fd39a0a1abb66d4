//! Folders with their own settings, as they are when a picture is begun. Pictures whose folder has settings that cannot be used wait until these
//! are mended.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use super::told::log;
use super::{Begun, Watching};
use crate::config::{After, FolderError, PictureSettings};
use crate::error::PictureError;
use crate::fs::stamp::Stamp;
use crate::ledger::{Entry, Ledger};
use crate::service::watch::settle::Ending;

/// Returns whether an input was done in this state, with whatever settings.
pub(super) fn is_done(ledger: &Ledger, input: &Path, stamp: Stamp) -> bool {
    let assigned = ledger.assigned(input).ok().flatten();
    assigned.is_some_and(|assigned| assigned.is_done && assigned.stamp == stamp)
}

impl Watching<'_> {
    /// Returns what holds for an input now.
    pub(super) fn settings_of(&mut self, input: &Path) -> Result<Arc<PictureSettings>, Arc<FolderError>> {
        let settings = self.settings;
        match self.watch.below(input) {
            Some(below) => self.folder_settings.of_now(settings, input, below),
            None => Ok(Arc::clone(&settings.picture)),
        }
    }

    /// Has a picture wait whose folder has settings that cannot be used. Returns that it was not begun.
    pub(super) fn wait_for_settings(&mut self, input: &Path, stamp: Stamp, why: Arc<FolderError>) -> bool {
        let ledger = self.output_access.ledger();
        if self.service.after == After::Keep && is_done(ledger, input, stamp) {
            self.finish(input, Ending::Good);
            return false;
        }
        // Nothing is done with no settings, so this is never taken for done.
        let output = self.usual_output(input, &self.settings.picture).unwrap_or_default();
        let entry = Entry { input, stamp, settings: "", output: &output };
        if let Err(why) = ledger.refuse(&entry) {
            return self.not_begun(input, why);
        }
        self.failed(&entry, &PictureError::Folder(why));
        false
    }

    /// Says what was read of folders, and takes pictures up again that waited for it.
    pub(super) fn take_up_folder_settings(&mut self, now: Instant) {
        self.folder_settings.take_notes().into_iter().for_each(log::folder_note);
        for folder in self.folder_settings.take_changed() {
            self.settle.retry_below(&folder, now);
        }
    }

    /// Has the folder of a picture that is done and stays listed, if other settings or another mask hold for it by now.
    pub(super) fn look_for_other_settings(&mut self, input: &Path, begun: &Begun) {
        let settings = self.settings;
        let used = begun.settings.digest().with(begun.mask);
        let differs =
            |now: Arc<PictureSettings>| now.digest().with(now.mask_state(&settings.inputs, input)) != used;
        if self.service.after == After::Keep
            && self.settings_of(input).is_ok_and(differs)
            && let Some(folder) = input.parent()
        {
            self.watch.list_below(folder);
        }
    }
}
