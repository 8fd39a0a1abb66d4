//! The service's account of itself, from its own memory: the ledger's sums are added if it can be
//! read, but are not required.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use crate::ledger::{
    FailedPicture, FailureSearch, FoundFailures, Ledger, LedgerError, Report, ServiceReport,
};
use crate::progress::CompletedParts;
use crate::service::reports::activity::{Activity, DonePicture, Recent};

/// The number of last failures to name.
const NAMED: usize = 10;

/// Written by the loop, read by all other threads.
pub(crate) struct Account {
    /// The ledger's folder.
    folder: PathBuf,
    /// The output folder.
    out: PathBuf,
    state: Mutex<Counts>,
}

#[derive(Default)]
struct Counts {
    service: ServiceReport,
    said: Option<Instant>,
    /// Counts since the start.
    own: Own,
    /// Why the ledger cannot be written.
    trouble: Option<String>,
    /// When and why the ledger was replaced by a new one.
    anew: Option<(Instant, String)>,
}

#[derive(Default)]
struct Own {
    done: u64,
    failed: u64,
    skipped: u64,
    bytes_out: u64,
    last_done: Option<Instant>,
    failures: VecDeque<(Instant, PathBuf, String)>,
    activity: Activity,
}

impl Account {
    /// Creates the account of a service with this folder for its ledger, and this one for outputs.
    pub(crate) fn new(folder: PathBuf, out: PathBuf) -> Self {
        Self { folder, out, state: Mutex::default() }
    }

    /// Returns the output folder.
    pub(crate) fn out(&self) -> &Path {
        &self.out
    }

    /// Takes the loop's report about itself, and why the ledger cannot be written, if it cannot.
    pub(crate) fn say(&self, service: ServiceReport, trouble: Option<String>) {
        let mut state = self.lock();
        (state.service, state.said, state.trouble) = (service, Some(Instant::now()), trouble);
    }

    /// Records that the ledger has no record of earlier work, and why.
    pub(crate) fn ledger_is_new(&self, why: String) {
        self.lock().anew = Some((Instant::now(), why));
    }

    /// Counts a picture that was done.
    pub(crate) fn done(&self, picture: DonePicture) {
        let own = &mut self.lock().own;
        own.done += 1;
        own.bytes_out += picture.bytes_out;
        own.last_done = Some(picture.at);
        own.activity.done(picture);
    }

    /// Records how many of the parts of a picture in progress are complete.
    pub(crate) fn part(&self, input: &Path, completed: CompletedParts) {
        self.lock().own.activity.part(input, completed);
    }

    /// Records that a picture is no longer in progress.
    pub(crate) fn ended(&self, input: &Path) {
        self.lock().own.activity.ended(input);
    }

    /// Counts a file that is not a picture.
    pub(crate) fn skipped(&self) {
        self.lock().own.skipped += 1;
    }

    /// Counts a picture that failed for good.
    pub(crate) fn failed(&self, input: &Path, reason: &str) {
        let own = &mut self.lock().own;
        own.failed += 1;
        own.activity.failed(Instant::now());
        own.failures.push_front((Instant::now(), input.to_owned(), reason.to_owned()));
        own.failures.truncate(NAMED);
    }

    /// Takes back a counted failure: its input is gone.
    pub(crate) fn forget_failed(&self, input: &Path) {
        let own = &mut self.lock().own;
        own.failed = own.failed.saturating_sub(1);
        own.failures.retain(|(_, failed, _)| failed != input);
    }

    /// Returns the report for clients.
    pub(crate) fn report(&self) -> Report {
        let read = Ledger::read(&self.folder).and_then(|ledger| ledger.map(|own| own.report()).transpose());
        self.merge(read)
    }

    /// Returns the recent activity.
    pub(crate) fn recent(&self) -> Recent {
        self.lock().own.activity.recent(Instant::now())
    }

    /// Returns one of the latest pictures by its number.
    pub(crate) fn picture(&self, number: u64) -> Option<DonePicture> {
        self.lock().own.activity.picture(number)
    }

    /// Returns the pictures that failed for good. The error is a sentence.
    pub(crate) fn failures(&self, search: &FailureSearch) -> Result<FoundFailures, String> {
        let ledger = Ledger::read(&self.folder).map_err(|why| why.to_string())?;
        let ledger = ledger.ok_or("the ledger is gone")?;
        ledger.failures(search).map_err(|why| why.to_string())
    }

    fn merge(&self, read: Result<Option<Report>, LedgerError>) -> Report {
        let state = self.lock();
        let (mut report, incomplete) = match read {
            Ok(Some(report)) => (report, state.what_is_missing()),
            Ok(None) => (
                state.own_report(),
                Some("the ledger is gone; only pictures of this service since its start are counted".into()),
            ),
            Err(why) => (
                state.own_report(),
                Some(format!("{why}; only pictures of this service since its start are counted")),
            ),
        };
        let seconds_ago = state.said.map_or(0, |said| said.elapsed().as_secs());
        report.service = Some(ServiceReport { seconds_ago, ..state.service.clone() });
        Report { incomplete, answered: true, ..report }
    }

    fn lock(&self) -> MutexGuard<'_, Counts> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Counts {
    /// Returns the gaps in the ledger's sums, although it can be read.
    fn what_is_missing(&self) -> Option<String> {
        let not_written =
            self.trouble.as_ref().map(|why| format!("{why}; pictures finished since then are not counted"));
        let anew = || {
            let (at, why) = self.anew.as_ref()?;
            let minutes = at.elapsed().as_secs() / 60;
            Some(format!("{why} ({minutes} min ago); earlier pictures are not counted"))
        };
        not_written.or_else(anew)
    }

    fn own_report(&self) -> Report {
        let Own { done, failed, skipped, bytes_out, last_done, failures, .. } = &self.own;
        let failures = failures.iter().map(|(at, input, reason)| FailedPicture {
            input: input.clone(),
            reason: reason.clone(),
            seconds_ago: at.elapsed().as_secs(),
            again_in_seconds: None,
        });
        Report {
            done: *done,
            failed: *failed,
            skipped: *skipped,
            bytes_out: *bytes_out,
            running: self.service.running as u64,
            retrying: self.service.pausing as u64,
            last_done_seconds_ago: last_done.map(|at| at.elapsed().as_secs()),
            failures: failures.collect(),
            ..Report::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn account() -> Account {
        let account = Account::new("nowhere".into(), "out".into());
        account.say(ServiceReport { held: Some("no room".into()), ..ServiceReport::default() }, None);
        account.done(DonePicture::for_tests(7));
        account.failed(Path::new("in/a.png"), "damaged");
        account
    }

    #[test]
    fn without_a_ledger_it_tells_what_it_did_itself_and_that_this_is_not_all() {
        let report = account().report();
        assert_eq!((report.done, report.failed, report.bytes_out), (1, 1, 7));
        assert_eq!(report.failures[0].reason, "damaged");
        assert_eq!(report.service.unwrap().held.as_deref(), Some("no room"));
        assert!(report.incomplete.unwrap().starts_with("the ledger is gone; only pictures of this service"));
    }

    #[test]
    fn a_failure_whose_input_is_gone_is_told_no_longer() {
        let account = account();
        account.failed(Path::new("in/b.png"), "damaged");
        account.forget_failed(Path::new("in/a.png"));
        let report = account.report();
        assert_eq!((report.failed, report.failures.len()), (1, 1));
        assert_eq!(report.failures[0].input, Path::new("in/b.png"));
    }

    #[test]
    fn the_sums_are_the_ledgers_and_the_state_is_its_own() {
        let account = account();
        let read = || Report { done: 90, ..Report::default() };
        let report = account.merge(Ok(Some(read())));
        assert_eq!((report.done, report.incomplete), (90, None));
        assert_eq!(report.service.unwrap().held.as_deref(), Some("no room"));
        account.ledger_is_new("it was damaged".into());
        let incomplete = account.merge(Ok(Some(read()))).incomplete.unwrap();
        assert_eq!(incomplete, "it was damaged (0 min ago); earlier pictures are not counted");
        account.say(ServiceReport::default(), Some("the disk is full".into()));
        let incomplete = account.merge(Ok(Some(read()))).incomplete.unwrap();
        assert_eq!(incomplete, "the disk is full; pictures finished since then are not counted");
    }
}
