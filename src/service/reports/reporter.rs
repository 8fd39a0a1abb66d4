//! Reports events to all receivers: owns the log's messages about pictures, their counts, the
//! metrics, the health and notifications. The module makes no decisions.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tracing::{debug, error, info, warn};

use super::account::Account;
use super::activity::DonePicture;
use super::health::Health;
use super::metrics::Metrics;
use super::notifications::Notifications;
use crate::fs::paths::Shown;
use crate::ledger::ServiceReport;
use crate::picture::remark::{Remark, RemarkLog};
use crate::progress::CompletedParts;

/// The interval of reports on the service's state.
const SAY: Duration = Duration::from_secs(2);

/// All receivers of reports.
pub(crate) struct Reporter {
    account: Arc<Account>,
    health: Arc<Health>,
    metrics: Arc<Metrics>,
    notifications: Notifications,
    remarked: RemarkLog,
    next: Instant,
}

impl Reporter {
    pub(crate) fn new(
        account: Arc<Account>,
        health: Arc<Health>,
        metrics: Arc<Metrics>,
        notifications: Notifications,
    ) -> Self {
        Self { account, health, metrics, notifications, remarked: RemarkLog::default(), next: Instant::now() }
    }

    /// Returns the account with the counts of pictures.
    pub(crate) fn account(&self) -> &Account {
        &self.account
    }

    /// Returns the service's health.
    pub(crate) fn health(&self) -> &Health {
        &self.health
    }

    /// Returns the metrics.
    pub(crate) fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    /// Reports a complete part, of this many pixels, of a picture in progress, and how many of its
    /// parts are complete.
    pub(crate) fn part(&self, input: &Path, pixels: u64, completed: CompletedParts) {
        self.health.moved();
        self.metrics.part(pixels);
        self.account.part(input, completed);
    }

    /// Reports that a picture is no longer in progress, however it ended.
    pub(crate) fn ended(&self, input: &Path) {
        self.health.moved();
        self.account.ended(input);
    }

    /// Reports a remark about a picture, in these words.
    pub(crate) fn remarked(&mut self, input: &Path, remark: Remark, text: &str) {
        if remark == Remark::WithHoles {
            // With --after, the file goes away.
            warn!("note: {}: {text}", Shown(input));
        } else {
            self.remarked.log(input, remark, text);
        }
    }

    /// Counts a picture that was done.
    pub(crate) fn done(&self, picture: DonePicture) {
        self.metrics.done(&picture);
        self.account.done(picture);
    }

    /// Counts a file that is not a picture.
    pub(crate) fn skipped(&self) {
        self.metrics.skipped();
        self.account.skipped();
    }

    /// Reports a picture that failed for good.
    pub(crate) fn failed(&mut self, input: &Path, reason: &str) {
        self.notifications.failed(input, reason, Instant::now());
        warn!("failed: {}: {reason}", Shown(input));
        self.count_failed(input, reason);
    }

    /// Reports a picture that is given up: it kills the process.
    pub(crate) fn given_up(&self, input: &Path, reason: &str) {
        error!("failed: {}: {reason}", Shown(input));
        self.count_failed(input, reason);
    }

    fn count_failed(&self, input: &Path, reason: &str) {
        self.metrics.failed();
        self.account.failed(input, reason);
    }

    /// Reports a picture that is tried again after `pause`; at the info level only if that
    /// `is_news`, since some are retried forever.
    pub(crate) fn retried(&self, input: &Path, reason: &str, pause: Duration, is_news: bool) {
        self.metrics.retried();
        let seconds = pause.as_secs_f64().ceil();
        if is_news {
            info!("failed, retried in {seconds} s: {}: {reason}", Shown(input));
        } else {
            debug!("failed again, retried in {seconds} s: {}: {reason}", Shown(input));
        }
    }

    /// Returns whether it is time to report the service's state.
    pub(crate) fn is_due(&self, now: Instant) -> bool {
        self.next <= now
    }

    /// Reports the service's state to all receivers but the ledger, which has taken it unless there
    /// is `ledger_trouble`.
    pub(crate) fn say(&mut self, service: ServiceReport, ledger_trouble: Option<String>, now: Instant) {
        self.next = now + SAY;
        self.metrics.gauge(&service);
        self.health.say(&service);
        self.notifications.look(&service, now);
        self.account.say(service, ledger_trouble);
    }
}
