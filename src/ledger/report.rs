//! What the ledger says to somebody who asks how things are.

use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{OptionalExtension, params};
use serde::{Deserialize, Serialize};

use crate::device::DeviceState;

use super::{Ledger, LedgerError, is_unusable, now_ns, path};

/// Failures of either kind that a report names.
const NAMED: u32 = 10;
pub(super) const LAST_DONE: &str = "SELECT max(finished) FROM picture WHERE state = 'done'";
pub(super) const DONE_SINCE: &str =
    "SELECT count(*), coalesce(sum(pixels), 0) FROM picture WHERE state = 'done' AND finished >= ?1";

/// Counts, rates and last failures.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Report {
    /// Pictures done.
    pub done: u64,
    /// Pictures that cannot be done as they are.
    pub failed: u64,
    /// Files that are no pictures.
    pub skipped: u64,
    /// Pictures that failed for a cause that can pass, and will be tried again.
    pub retrying: u64,
    /// Pictures under way; without a daemon those are done again.
    pub running: u64,
    /// Pictures done in the last minute.
    pub last_minute: u64,
    /// Pictures done in the last hour.
    pub last_hour: u64,
    /// Pixels of the pictures done in the last hour.
    pub last_hour_pixels: u64,
    /// Bytes of all outputs.
    pub bytes_out: u64,
    /// How many seconds ago the last picture was done.
    pub last_done_seconds_ago: Option<u64>,
    /// Pictures that failed for good, the last ones, the newest first.
    pub failures: Vec<FailedPicture>,
    /// Pictures that failed and will be tried again, those first that are next.
    pub retries: Vec<FailedPicture>,
    /// What the daemon said last about itself, if one ever did.
    pub daemon: Option<Daemon>,
}

/// A picture that failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FailedPicture {
    /// The file.
    #[serde(serialize_with = "crate::paths::as_json")]
    pub input: PathBuf,
    /// Why.
    pub reason: String,
    /// How many seconds ago.
    pub seconds_ago: u64,
    /// In how many seconds the daemon tries it again; `None` where it does not, or there was none.
    pub again_in_seconds: Option<u64>,
}

/// What a daemon says about itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Daemon {
    /// Its process.
    pub pid: u32,
    /// How many seconds ago it said this. A daemon that runs says it every few seconds.
    #[serde(skip_deserializing, default)]
    pub seconds_ago: u64,
    /// Whether this is the last that it said: it has stopped.
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
    /// Files that are through and still to be removed, moved or set aside.
    #[serde(default)]
    pub leaving: usize,
    /// What keeps inputs that are through where they are, if they cannot go.
    #[serde(default)]
    pub staying: Option<String>,
    /// Why nothing is begun at the moment, if nothing is.
    pub held: Option<String>,
    /// The watched folders that are not there.
    pub missing: Vec<String>,
    /// What equalizes, and how it is.
    pub devices: Vec<DeviceState>,
}

impl LedgerError {
    /// The same, said to somebody who reads the ledger `file`, and cannot mend it.
    pub(super) fn for_reader_of(self, file: &Path) -> Self {
        match self {
            Self::Database(source) if is_unusable(&source) => Self::Damaged { path: file.to_owned(), source },
            other => other,
        }
    }
}

impl Ledger {
    /// Counts, rates and last failures.
    pub fn report(&self) -> Result<Report, LedgerError> {
        self.collect().map_err(|why| why.for_reader_of(&self.file))
    }

    fn collect(&self) -> Result<Report, LedgerError> {
        let (failures, retries) =
            (self.named("failed", "finished DESC")?, self.named("retry", "again IS NULL, again")?);
        let mut report = Report { failures, retries, daemon: self.daemon()?, ..Report::default() };
        let mut totals = self.db.prepare("SELECT state, pictures, bytes_out FROM total")?;
        let totals = totals.query_map([], |row| {
            Ok((row.get::<_, String>(0)?, row.get::<_, i64>(1)?, row.get::<_, i64>(2)?))
        })?;
        for total in totals {
            let (state, count, bytes) = total?;
            *match state.as_str() {
                "done" => {
                    report.bytes_out = bytes.unsigned_abs();
                    &mut report.done
                }
                "failed" => &mut report.failed,
                "skipped" => &mut report.skipped,
                "retry" => &mut report.retrying,
                _ => &mut report.running,
            } = count.unsigned_abs();
        }
        report.last_minute = self.done_since(Duration::from_secs(60))?.0;
        (report.last_hour, report.last_hour_pixels) = self.done_since(Duration::from_secs(3600))?;
        let last: Option<i64> = self.db.query_row(LAST_DONE, [], |row| row.get(0))?;
        report.last_done_seconds_ago = last.map(seconds_ago);
        Ok(report)
    }

    /// The daemon says how it is.
    pub fn say(&self, daemon: &Daemon) -> Result<(), LedgerError> {
        let state = serde_json::to_string(daemon).expect("numbers and texts");
        let mut replace = self
            .db
            .prepare_cached("INSERT OR REPLACE INTO daemon (id, pid, said, state) VALUES (1, ?1, ?2, ?3)")?;
        replace.execute(params![daemon.pid, now_ns(), state])?;
        Ok(())
    }

    fn daemon(&self) -> Result<Option<Daemon>, LedgerError> {
        let row = self.db.query_row("SELECT said, state FROM daemon", [], |row| {
            Ok((row.get::<_, i64>(0)?, row.get::<_, String>(1)?))
        });
        let daemon = row.optional()?.and_then(|(said, state)| {
            // What another version said is of no use.
            let daemon: Daemon = serde_json::from_str(&state).ok()?;
            Some(Daemon { seconds_ago: seconds_ago(said), ..daemon })
        });
        Ok(daemon)
    }

    fn done_since(&self, age: Duration) -> Result<(u64, u64), LedgerError> {
        let since = now_ns() - i64::try_from(age.as_nanos()).expect("an hour");
        let (count, pixels): (i64, i64) =
            self.db.query_row(DONE_SINCE, [since], |row| Ok((row.get(0)?, row.get(1)?)))?;
        Ok((count.unsigned_abs(), pixels.unsigned_abs()))
    }

    /// The first pictures in a state.
    fn named(&self, state: &str, order: &str) -> Result<Vec<FailedPicture>, LedgerError> {
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

fn seconds_ago(then: i64) -> u64 {
    now_ns().saturating_sub(then).max(0).unsigned_abs() / 1_000_000_000
}

/// Begun seconds count, so that it is never sooner.
fn seconds_until(then: i64) -> u64 {
    then.saturating_sub(now_ns()).max(0).unsigned_abs().div_ceil(1_000_000_000)
}

/// Where the ledger of an output folder is, unless `state` names another place.
pub fn folder(out: &Path, state: Option<&Path>) -> PathBuf {
    state.map_or_else(|| out.join(super::FOLDER), Path::to_owned)
}
