//! What a new ledger is told when the old one is lost under the service: what the service remembers.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::time::Instant;

use super::{Begun, Watching};
use crate::fs::stamp::Stamp;
use crate::ledger::{Entry, Ledger, LedgerError};

/// The most failed pictures that are remembered. Those beyond are tried again with a new ledger, and fail again.
const MOST: usize = 1000;

/// The pictures that failed for good since the start.
#[derive(Default)]
pub(super) struct Failures(HashMap<PathBuf, Failure>);

struct Failure {
    stamp: Stamp,
    settings: String,
    output: PathBuf,
    reason: String,
    given_up: bool,
}

impl Failures {
    pub(super) fn remember(&mut self, entry: &Entry<'_>, reason: &str, given_up: bool) {
        if self.0.len() < MOST {
            let failure = Failure {
                stamp: entry.stamp,
                settings: entry.settings.to_owned(),
                output: entry.output.to_owned(),
                reason: reason.to_owned(),
                given_up,
            };
            self.0.insert(entry.input.to_owned(), failure);
        }
    }

    /// Forgets a picture. Returns whether it was remembered.
    pub(super) fn forget(&mut self, input: &Path) -> bool {
        self.0.remove(input).is_some()
    }

    pub(super) fn forget_those(&mut self, are_meant: impl Fn(&Path) -> bool) {
        self.0.retain(|input, _| !are_meant(input));
    }
}

impl Watching<'_> {
    /// Goes on with a new ledger, because of what `why` says: tells it what is remembered, and has everything listed. What was done before
    /// is done again.
    pub(super) fn go_on_with_new_ledger(&mut self, why: String) {
        self.account.ledger_is_new(why);
        self.watch.list_all(Instant::now());
        if let Err(why) = self.rebuild() {
            // Then these pictures are only done or tried once more.
            let _ = self.output_access.ledger_failed(why);
        }
    }

    fn rebuild(&self) -> Result<(), LedgerError> {
        let ledger: &Ledger = self.output_access.ledger();
        for (input, Begun { stamp, settings, mask, output, .. }) in &self.running {
            let settings = settings.fingerprint(*mask, &self.settings.limits);
            ledger.begin(&Entry { input, stamp: *stamp, settings: &settings, output })?;
        }
        for (input, Failure { stamp, settings, output, reason, given_up }) in &self.failures.0 {
            ledger.begin(&Entry { input, stamp: *stamp, settings, output })?;
            if *given_up { ledger.give_up(input, reason) } else { ledger.failed(input, reason, true) }?;
        }
        Ok(())
    }
}
