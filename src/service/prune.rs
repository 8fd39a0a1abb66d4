//! The search for old rows of the ledger, a few in each turn of the loop.

use std::time::{Duration, Instant};

use tracing::info;

use super::Watching;
use crate::config::After;
use crate::ledger::Pruned;
use crate::progress::pictures;

/// How often the ledger is searched for old rows.
const PRUNE: Duration = Duration::from_secs(24 * 3600);
/// The age from which a row is forgotten if its input is gone.
const OLD: Duration = Duration::from_secs(30 * 24 * 3600);
/// The most rows checked in one turn, so that a slow file system does not hold up the loop.
pub(super) const PRUNED_A_TURN: u32 = 1000;

impl Watching<'_> {
    /// Continues the search for old rows of the ledger.
    pub(super) fn prune(&mut self, now: Instant) {
        if !self.has_ground() {
            return;
        }
        let so_far = std::mem::take(&mut self.pruned);
        let missing = self.may_be_unmounted();
        let inputs_go = self.service.after != After::Keep;
        match self.output_access.ledger().prune(
            OLD,
            &missing,
            inputs_go,
            &so_far.last.unwrap_or_default(),
            PRUNED_A_TURN,
        ) {
            Ok(Pruned { forgotten, last }) => {
                let forgotten = so_far.forgotten + forgotten;
                if last.is_some() {
                    self.pruned = Pruned { forgotten, last };
                    return;
                }
                if forgotten > 0 {
                    info!("removed {} from the ledger whose input is long gone", pictures(forgotten as u64));
                }
            }
            Err(why) => self.ledger_failed(why),
        }
        self.next_prune = now + PRUNE;
    }
}
