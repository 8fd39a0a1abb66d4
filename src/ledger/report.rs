//! A report on the current state of the work.

use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{OptionalExtension, params};
use serde::{Deserialize, Serialize};

use crate::slot::device_state::DeviceState;

use super::state::PictureState;
use super::{Ledger, LedgerError, now_ns, path};

/// The most failures of each kind that a report lists.
const NAMED: u32 = 10;
pub(super) const LAST_DONE: &str = "SELECT max(finished) FROM picture WHERE state = 'done'";
pub(super) const DONE_SINCE: &str =
    "SELECT count(*), coalesce(sum(pixels), 0) FROM picture WHERE state = 'done' AND finished >= ?1";

/// Counts, rates and last failures.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Report {
    /// Pictures done.
    pub done: u64,
    /// Pictures that failed for good.
    pub failed: u64,
    /// Files that are not pictures.
    pub skipped: u64,
    /// Pictures that failed for a cause that can pass, and will be tried again.
    pub retrying: u64,
    /// Pictures in progress; if no service is running, they are done again.
    pub running: u64,
    /// Pictures done in the last minute.
    pub last_minute: u64,
    /// Pictures done in the last hour.
    pub last_hour: u64,
    /// Pixels of the pictures done in the last hour.
    pub last_hour_pixels: u64,
    /// Bytes of all outputs.
    pub bytes_out: u64,
    /// Seconds since the last picture was done.
    pub last_done_seconds_ago: Option<u64>,
    /// The last pictures that failed for good, newest first.
    pub failures: Vec<FailedPicture>,
    /// The pictures that failed and will be tried again next, soonest first.
    pub retries: Vec<FailedPicture>,
    /// Why the counts are incomplete, if they are.
    pub incomplete: Option<String>,
    /// Whether the running service itself answered. Otherwise this is the last state that the
    /// ledger recorded of it.
    pub answered: bool,
    /// The last report of a service about itself, if there ever was one.
    #[serde(rename = "daemon")]
    pub service: Option<ServiceReport>,
}

/// A picture that failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FailedPicture {
    /// The file.
    #[serde(serialize_with = "crate::fs::paths::as_json")]
    pub input: PathBuf,
    /// The reason.
    pub reason: String,
    /// Seconds since it failed.
    pub seconds_ago: u64,
    /// Seconds until the service tries it again; `None` if no service has planned to.
    pub again_in_seconds: Option<u64>,
}

/// A service's report about itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServiceReport {
    /// Its process ID.
    pub pid: u32,
    /// Seconds since this report. A running service reports every few seconds.
    #[serde(skip_deserializing, default)]
    pub seconds_ago: u64,
    /// Whether this is its last report: it has stopped.
    #[serde(default)]
    pub stopped: bool,
    /// Files being written, or not yet known to be complete.
    pub incomplete: usize,
    /// Complete files that wait for their turn.
    pub waiting: usize,
    /// Files in the pipeline.
    pub running: usize,
    /// Files that failed and wait for the next try.
    pub pausing: usize,
    /// Finished inputs that are still to be removed, moved or set aside.
    #[serde(default)]
    pub leaving: usize,
    /// The last finished input that could not be put away, and why.
    #[serde(default)]
    pub staying: Option<String>,
    /// Whether a user paused the service: no pictures are begun.
    #[serde(default)]
    pub paused: bool,
    /// Why no pictures are begun at the moment, if they are held back.
    pub held: Option<String>,
    /// The watched folders that do not exist.
    pub missing: Vec<String>,
    /// Why the settings of folders cannot be used, with their pictures waiting.
    #[serde(default)]
    pub unusable: Vec<String>,
    /// The devices and their states.
    pub devices: Vec<DeviceState>,
}

impl Ledger {
    /// Collects counts, rates and the last failures.
    ///
    /// # Errors
    /// When a call of the database fails, or the ledger is damaged.
    pub fn report(&self) -> Result<Report, LedgerError> {
        self.collect().map_err(|why| why.for_reader_of(&self.file))
    }

    fn collect(&self) -> Result<Report, LedgerError> {
        let (failures, retries) = (
            self.named(PictureState::Failed, "finished DESC")?,
            self.named(PictureState::Retry, "again IS NULL, again")?,
        );
        let mut report = Report { failures, retries, service: self.service()?, ..Report::default() };
        let mut totals = self.db.prepare("SELECT state, pictures, bytes_out FROM total")?;
        let totals = totals
            .query_map([], |row| Ok((row.get(0).ok(), row.get::<_, i64>(1)?, row.get::<_, i64>(2)?)))?;
        for total in totals {
            let (state, count, bytes) = total?;
            *match state {
                Some(PictureState::Done) => {
                    report.bytes_out = bytes.unsigned_abs();
                    &mut report.done
                }
                Some(PictureState::Failed) => &mut report.failed,
                Some(PictureState::Skipped) => &mut report.skipped,
                Some(PictureState::Retry) => &mut report.retrying,
                Some(PictureState::Running) | None => &mut report.running,
            } = count.unsigned_abs();
        }
        report.last_minute = self.done_since(Duration::from_secs(60))?.0;
        (report.last_hour, report.last_hour_pixels) = self.done_since(Duration::from_secs(3600))?;
        let last: Option<i64> = self.db.query_row(LAST_DONE, [], |row| row.get(0))?;
        report.last_done_seconds_ago = last.map(seconds_ago);
        Ok(report)
    }

    /// Records a service's report about itself.
    ///
    /// # Errors
    /// When a call of the database fails.
    pub fn say(&self, service: &ServiceReport) -> Result<(), LedgerError> {
        let state = serde_json::to_string(service).expect("numbers and texts");
        let mut replace = self
            .db
            .prepare_cached("INSERT OR REPLACE INTO daemon (id, pid, said, state) VALUES (1, ?1, ?2, ?3)")?;
        replace.execute(params![service.pid, now_ns(), state])?;
        Ok(())
    }

    fn service(&self) -> Result<Option<ServiceReport>, LedgerError> {
        let row = self.db.query_row("SELECT said, state FROM daemon", [], |row| {
            Ok((row.get::<_, i64>(0)?, row.get::<_, String>(1)?))
        });
        let service = row.optional()?.and_then(|(said, state)| {
            // A report that another version wrote differently is of no use.
            let service: ServiceReport = serde_json::from_str(&state).ok()?;
            Some(ServiceReport { seconds_ago: seconds_ago(said), ..service })
        });
        Ok(service)
    }

    fn done_since(&self, age: Duration) -> Result<(u64, u64), LedgerError> {
        let since = now_ns() - i64::try_from(age.as_nanos()).expect("an hour");
        let (count, pixels): (i64, i64) =
            self.db.query_row(DONE_SINCE, [since], |row| Ok((row.get(0)?, row.get(1)?)))?;
        Ok((count.unsigned_abs(), pixels.unsigned_abs()))
    }

    /// Returns the first pictures in a state, in an order given in SQL.
    fn named(&self, state: PictureState, order: &str) -> Result<Vec<FailedPicture>, LedgerError> {
        let mut query = self.db.prepare(&format!(
            "SELECT input, coalesce(reason, ''), coalesce(finished, started), again FROM picture
             WHERE state = ?1 ORDER BY {order} LIMIT ?2",
        ))?;
        let rows = query.query_map(params![state, NAMED], |row| {
            let again: Option<i64> = row.get(3)?;
            Ok(FailedPicture {
                input: path(row.get(0)?),
                reason: row.get(1)?,
                seconds_ago: seconds_ago(row.get(2)?),
                again_in_seconds: again.map(seconds_until),
            })
        })?;
        Ok(rows.collect::<Result<_, _>>()?)
    }
}

pub(super) fn seconds_ago(then: i64) -> u64 {
    now_ns().saturating_sub(then).max(0).unsigned_abs() / 1_000_000_000
}

/// Returns the number of seconds left, rounded up: the time is never up too early.
fn seconds_until(then: i64) -> u64 {
    then.saturating_sub(now_ns()).max(0).unsigned_abs().div_ceil(1_000_000_000)
}

/// Returns the folder of an output folder's ledger: `state` if given, otherwise a folder in the
/// output folder.
pub fn folder(out: &Path, state: Option<&Path>) -> PathBuf {
    state.map_or_else(|| out.join(super::FOLDER), Path::to_owned)
}
