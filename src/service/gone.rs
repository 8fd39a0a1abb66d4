//! Failed pictures whose inputs are gone: nobody can do anything about them any more, so they are forgotten.

use std::path::{Path, PathBuf};

use super::Watching;
use super::prune::PRUNED_A_TURN;
use crate::config::After;
use crate::fs::paths::is_gone;

impl Watching<'_> {
    /// Forgets the failed pictures among the files that are reported as gone.
    pub(super) fn forget_gone(&mut self) {
        let gone = self.settle.take_gone();
        self.forget_failures(&gone);
    }

    /// Looks for the inputs of failed pictures after every listing, and forgets those that are gone: no message names the files in a folder
    /// that is moved away, nor those that went away while nobody watched. One turn looks for a part of them.
    pub(super) fn look_for_failed(&mut self) {
        if self.looked_for.is_empty() && self.watch.take_listed() {
            match self.output_access.ledger().all_failed() {
                Ok(failed) => self.looked_for = failed,
                Err(why) => return self.ledger_failed(why),
            }
        }
        let left = self.looked_for.len().saturating_sub(PRUNED_A_TURN as usize);
        let mut gone = self.looked_for.split_off(left);
        if gone.is_empty() {
            return;
        }
        let missing = self.may_be_unmounted();
        gone.retain(|input| !missing.iter().any(|folder| input.starts_with(folder)) && is_gone(input));
        self.forget_failures(&gone);
    }

    /// Returns the watched folders that look as before a mount: their files may be gone only for now.
    pub(super) fn may_be_unmounted(&self) -> Vec<&Path> {
        let mut folders: Vec<&Path> = self.watch.missing().collect();
        // Where inputs are removed or moved, an empty folder is normal.
        if self.service.after == After::Keep {
            folders.extend(self.watch.empty());
        }
        folders
    }

    fn forget_failures(&mut self, gone: &[PathBuf]) {
        if gone.is_empty() {
            return;
        }
        for input in gone {
            self.retried.forget(input);
            if self.failures.forget(input) {
                self.account.forget_failed(input);
            }
        }
        if let Err(why) = self.output_access.ledger().forget_gone(gone) {
            self.ledger_failed(why);
        }
    }
}
