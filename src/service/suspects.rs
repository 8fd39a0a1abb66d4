//! Pictures that a killed process had in progress. One of them may have killed it, for example by taking all memory, and would again: so each
//! is begun alone, and the one that never ends is given up. The others end, and are suspects no longer.

use std::sync::Arc;

use tracing::{error, info};

use super::Watching;
use super::notes::End;
use crate::config::PictureSettings;
use crate::error::Refusal;
use crate::fs::paths::Shown;
use crate::ledger::{Entry, MOST_STARTS};
use crate::service::watch::settle::{Ending, Ready, Verdict};

impl Watching<'_> {
    /// Returns whether nothing may be begun for now: a suspect is in progress, or is to be begun next and does not have the pipeline to
    /// itself yet.
    pub(super) fn is_isolating(&self) -> bool {
        let is_occupied = !self.running.is_empty();
        self.suspect.is_some() && is_occupied || self.running.values().any(|begun| begun.alone)
    }

    /// Begins a picture that was begun `starts` times without an end, gives it up, or puts it off until nothing else is in progress.
    /// Returns whether it went into the pipeline.
    pub(super) fn begin_suspect(
        &mut self,
        entry: &Entry<'_>,
        own: Arc<PictureSettings>,
        starts: u32,
    ) -> bool {
        if starts >= MOST_STARTS {
            self.give_up(entry, starts);
            return false;
        }
        if !self.running.is_empty() {
            self.suspect = Some(Ready { path: entry.input.to_owned(), stamp: entry.stamp });
            return false;
        }
        info!("{} was in progress when histeqd was killed; it is processed alone", Shown(entry.input));
        self.give(entry, own, true)
    }

    fn give_up(&mut self, entry: &Entry<'_>, starts: u32) {
        let reason = Refusal::KillsProcess { starts }.to_string();
        if self.finish(entry.input, Ending::Good) == Verdict::Settled {
            self.metrics.failed();
            error!("failed: {}: {reason}", Shown(entry.input));
            self.account.failed(entry.input, &reason);
            self.note(entry.input, End::GivenUp { reason: reason.clone() });
            self.failures.remember(entry, &reason, true);
            self.set_aside(entry.input, entry.stamp, &reason);
        }
    }

    /// Takes the blame from the pictures in progress, as soon as a stop is requested: whoever requested it may end the process at any moment.
    pub(super) fn excuse(&mut self) {
        if let Err(why) = self.output_access.ledger().excuse(self.running.keys()) {
            self.ledger_failed(why);
        }
    }
}
