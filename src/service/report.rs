//! The report about the service that the ledger, the metrics, the service manager and `histeqd status` get.

use std::time::Instant;

use super::{SAY, Watching};
use crate::fs::paths::Shown;
use crate::ledger;

impl Watching<'_> {
    /// Reports the service's state to the ledger, the metrics and the service manager.
    pub(super) fn say(&mut self, now: Instant) {
        self.next_say = now + SAY;
        if self.has_ground() {
            if let Some(why) = self.output_access.keep() {
                self.go_on_with_new_ledger(why);
            }
            if let Some(damage) = self.ledger_check.found()
                && let Some(why) = self.output_access.ledger_is_damaged(damage)
            {
                self.go_on_with_new_ledger(why);
            }
            if self.jobs.is_some() && self.output_access.trouble().is_none() {
                self.socket.keep();
            }
        }
        let counts = self.settle.counts();
        let waiting = counts.ready + usize::from(self.suspect.is_some());
        if waiting + self.running.len() == 0 {
            self.gate.release();
        }
        let service = ledger::ServiceReport {
            pid: std::process::id(),
            seconds_ago: 0,
            stopped: self.jobs.is_none() && self.running.is_empty(),
            incomplete: counts.incomplete,
            waiting,
            running: self.running.len(),
            pausing: counts.pausing,
            leaving: self.finished_inputs.waiting(),
            staying: self.finished_inputs.staying(),
            paused: self.is_paused,
            held: self.output_access.trouble().or(self.gate.why()).map(str::to_owned),
            unusable: self.folder_settings.unusable(),
            missing: self.watch.missing().map(|folder| Shown(folder).to_string()).collect(),
            devices: self.metrics.devices(),
        };
        self.metrics.gauge(&service);
        self.health.say(&service);
        self.notifications.look(&service, now);
        let written = self.write_notes().and_then(|()| self.output_access.ledger().say(&service));
        match written {
            // What held pictures up may have been the ledger; if not, the next one finds that out.
            Ok(()) if self.output_access.ledger_works() => self.gate.release(),
            Ok(()) => {}
            Err(why) => self.ledger_failed(why),
        }
        self.account.say(service, self.output_access.ledger_trouble());
    }
}
