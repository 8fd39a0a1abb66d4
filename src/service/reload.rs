//! SIGHUP: the configuration is read again, and the keys that a running service can change are applied.

use std::time::Instant;

use tracing::{error, info, warn};

use super::Watching;
use super::folders::options;
use crate::config::{Existing, Settings, Written};

/// The configuration keys that a reload applies to the running service.
const RELOADED: [&str; 8] =
    ["include", "exclude", "settle", "rescan", "poll", "after", "on-collision", "failed"];
/// The configuration key that has no effect in a service.
const OVERWRITE: &str = "overwrite";

impl Watching<'_> {
    /// Rereads the configuration and applies the keys that a running service can change.
    pub(super) fn reload(&mut self, now: Instant) {
        let new = match (self.control.read)().and_then(|new| Ok((options(&new, &self.out)?, new))) {
            Ok(new) => new,
            Err(why) => return error!("the configuration is not reloaded: {why}"),
        };
        let (mut options, new) = new;
        // What is read has to lie where it had to at the start.
        options.selection.links = self.settings.selection.links;
        options.roots = self.settings.roots.clone();
        let fixed = fixed_keys(self.settings, &new);
        let applied = applied_keys(&self.in_force, &new.written);
        self.in_force = new.written.clone();
        self.settle.set_rest(new.service.settle);
        // The listing that follows finds these inputs again, and they are put away as the new settings say.
        self.finished_inputs.forget();
        self.watch.reconfigure(options, now);
        self.service = new.service.clone();
        info!("the configuration is reloaded: {}", told(&applied));
        warn_of_overwrite(&new);
        if !fixed.is_empty() {
            warn!("a restart is needed for the changes to {}", fixed.join(", "));
        }
    }
}

/// Returns the keys that differ and that a running service changes.
fn applied_keys(old: &Written, new: &Written) -> Vec<String> {
    let mut keys = old.differing(new);
    keys.retain(|key| RELOADED.contains(&key.as_str()));
    keys
}

/// Says which keys a reload has changed.
pub(super) fn told(applied: &[String]) -> String {
    match applied {
        [] => "it changes nothing of the running service".to_owned(),
        applied => format!("changes to {} are in force", applied.join(", ")),
    }
}

/// Returns the keys that differ and that a running service cannot change.
fn fixed_keys(old: &Settings, new: &Settings) -> Vec<String> {
    let mut keys = old.written.differing(&new.written);
    keys.retain(|key| !RELOADED.contains(&key.as_str()) && key != OVERWRITE);
    keys
}

/// Warns if `overwrite` is set, which has no effect: the ledger decides what is processed, not the modification times of outputs.
pub(super) fn warn_of_overwrite(settings: &Settings) {
    if settings.existing == Existing::Overwrite {
        warn!(
            "{OVERWRITE} = true has no effect in a service; to process everything again, delete its ledger"
        );
    }
}
