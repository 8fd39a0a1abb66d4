//! The record of processed pictures: one row per picture, in an embedded database that survives
//! kills and power failures.
//!
//! The ledger makes a restart cheap and exact, but is never essential: a picture that it does not
//! know is processed again. It can be deleted at any time, and an unreadable ledger is set aside
//! and replaced by an empty one.

mod assigned;
mod check;
mod error;
mod failures;
mod interrupted;
mod lock;
mod open;
mod prune;
mod recorded;
mod report;
mod schema;
mod state;

use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rusqlite::{Connection, OptionalExtension, Row, named_params, params};

pub use assigned::Assigned;
pub use check::Damage;
pub use error::{LedgerError, TakeError};
pub use failures::{FailureSearch, FoundFailures};
pub use interrupted::MOST_STARTS;
pub use lock::{Lock, LockError};
pub use prune::Pruned;
pub use recorded::Recorded;
pub use report::{FailedPicture, Report, ServiceReport, folder};
use state::PictureState;

use crate::fs::paths::folder_of;
use crate::fs::stamp::{Stamp, mtime_ns};
use crate::picture::record::Record;

/// The name of histeqd's own folder in the output folder.
pub const FOLDER: &str = ".histeqd";
/// The database's file name.
pub(crate) const FILE: &str = "ledger.sqlite";

/// An input in a certain state, and the output to be made from it.
#[derive(Clone, Copy, Debug)]
pub struct Entry<'a> {
    /// The file to read.
    pub input: &'a Path,
    /// The state of its content.
    pub stamp: Stamp,
    /// All settings that determine how the output looks.
    pub settings: &'a str,
    /// The file to write.
    pub output: &'a Path,
}

/// The ledger's knowledge of an input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    /// No record that still applies: it is to be processed.
    Unknown,
    /// It was done in its current state and with these settings.
    Done,
    /// It is not a picture.
    Skipped,
    /// It was begun several times in a row without an end, in its current state and with these
    /// settings: its process was killed each time.
    Interrupted {
        /// The number of times.
        starts: u32,
    },
    /// It failed for good in its current state and with these settings.
    Failed {
        /// Why.
        reason: String,
        /// Whether it was [given up](Ledger::give_up), for later runs too.
        given_up: bool,
    },
}

/// The result of a picture that was done.
#[derive(Clone, Copy, Debug)]
pub struct Outcome<'a> {
    /// The device that equalized it.
    pub device: &'a str,
    /// Width times height.
    pub pixels: u64,
    /// Bytes of the output.
    pub bytes_out: u64,
}

/// Takes the locks of an output folder and of its ledger, and opens the ledger. Also returns a note
/// about the ledger, if there is one.
///
/// After a power failure, outputs are not assumed to belong to pictures in progress, since they may
/// not have reached the disk completely.
///
/// # Errors
/// As of [`Lock::take`] and [`Ledger::open`].
pub fn take(out: &Path, state: Option<&Path>) -> Result<(Lock, Ledger, Option<String>), TakeError> {
    let folder = folder(out, state);
    let lock = Lock::take(out, &folder)?;
    let (mut ledger, mut note) = Ledger::open(&folder)?;
    if lock.may_follow_power_failure() {
        if let Err(why) = ledger.forget_running() {
            note = Some(ledger.mend(why)?);
        }
        lock.power_failure_is_over()?;
    }
    Ok((lock, ledger, note))
}

/// An open ledger. Only the process that holds the [`Lock`] writes to it; any number may read it.
#[derive(Debug)]
pub struct Ledger {
    db: Connection,
    file: PathBuf,
    inode: u64,
}

impl Ledger {
    /// Returns the record of an input.
    ///
    /// A picture that was in progress when its process was killed counts as done if its output has
    /// appeared since it was begun: outputs appear complete, and unless its own record contradicts,
    /// it is assumed to be from this input.
    ///
    /// # Errors
    /// When a call of the database fails.
    pub fn standing(&self, entry: &Entry<'_>) -> Result<Standing, LedgerError> {
        let mut query = self.db.prepare_cached(
            "SELECT state, coalesce(reason, ''), before_inode, before_mtime, starts FROM picture
             WHERE input = :input AND size = :size AND mtime = :mtime AND inode = :inode
               AND settings = (SELECT CAST(id AS TEXT) FROM settings WHERE text = :settings) AND output = :output",
        )?;
        let row = query.query_row(
            named_params! {
                ":input": bytes(entry.input), ":size": entry.stamp.size.cast_signed(),
                ":mtime": entry.stamp.mtime_ns, ":inode": entry.stamp.inode.cast_signed(),
                ":settings": entry.settings, ":output": bytes(entry.output),
            },
            // An unknown state, a sign of damage, costs no more than this picture.
            |row| Ok((row.get(0).ok(), row.get(1)?, before(row)?, row.get(4)?)),
        );
        let Some((state, reason, before, starts)) = row.optional()? else { return Ok(Standing::Unknown) };
        Ok(match state {
            Some(PictureState::Done) => Standing::Done,
            Some(PictureState::Skipped) => Standing::Skipped,
            Some(PictureState::Failed) => Standing::Failed { reason, given_up: starts > 0 },
            Some(PictureState::Running) if appeared(entry.output, before) && !is_anothers(entry) => {
                self.adopt(entry)?;
                Standing::Done
            }
            Some(PictureState::Running | PictureState::Retry) if starts > 0 => {
                Standing::Interrupted { starts }
            }
            Some(PictureState::Running | PictureState::Retry) | None => Standing::Unknown,
        })
    }

    /// Returns when a picture was done, in nanoseconds since 1970, and the bytes of its output;
    /// `None` if it is not done.
    ///
    /// # Errors
    /// When a call of the database fails.
    pub fn made(&self, input: &Path) -> Result<Option<(i64, u64)>, LedgerError> {
        let mut query = self
            .db
            .prepare_cached("SELECT finished, bytes_out FROM picture WHERE input = ?1 AND state = 'done'")?;
        Ok(query
            .query_row([bytes(input)], |row| Ok((row.get(0)?, row.get::<_, i64>(1)?.cast_unsigned())))
            .optional()?)
    }

    fn adopt(&self, entry: &Entry<'_>) -> Result<(), LedgerError> {
        let bytes_out = fs::metadata(entry.output).map_or(0, |metadata| metadata.len());
        self.done(entry.input, &Outcome { device: "", pixels: 0, bytes_out })
    }

    /// Records that a picture is begun, once more if it never ended.
    ///
    /// # Errors
    /// When a call of the database fails.
    pub fn begin(&self, entry: &Entry<'_>) -> Result<(), LedgerError> {
        self.insert(entry, PictureState::Running)
    }

    /// Records that a picture is not begun for now.
    ///
    /// # Errors
    /// When a call of the database fails.
    pub fn refuse(&self, entry: &Entry<'_>) -> Result<(), LedgerError> {
        self.insert(entry, PictureState::Retry)
    }

    fn insert(&self, entry: &Entry<'_>, state: PictureState) -> Result<(), LedgerError> {
        let before = version(entry.output);
        let begun = u32::from(state == PictureState::Running);
        let mut settings = self.db.prepare_cached("INSERT OR IGNORE INTO settings (text) VALUES (?1)")?;
        settings.execute([entry.settings])?;
        let mut insert = self.db.prepare_cached(
            "INSERT OR REPLACE INTO picture
                 (input, size, mtime, inode, settings, output, state, started, before_inode, before_mtime, starts)
             SELECT ?1, ?2, ?3, ?4, id, ?6, ?10, ?7, ?8, ?9,
                 ?11 + coalesce((SELECT starts FROM picture WHERE input = ?1 AND size = ?2 AND mtime = ?3 AND inode = ?4
                     AND settings = CAST(id AS TEXT) AND output = ?6), 0)
             FROM settings WHERE text = ?5",
        )?;
        insert.execute(params![
            bytes(entry.input),
            entry.stamp.size.cast_signed(),
            entry.stamp.mtime_ns,
            entry.stamp.inode.cast_signed(),
            entry.settings,
            bytes(entry.output),
            now_ns(),
            before.map(|(inode, _)| inode),
            before.map(|(_, mtime)| mtime),
            state,
            begun,
        ])?;
        Ok(())
    }

    /// Records that a picture that was begun has its output. Other inputs with this output are
    /// forgotten: theirs was replaced or taken away.
    ///
    /// # Errors
    /// When a call of the database fails.
    pub fn done(&self, input: &Path, outcome: &Outcome<'_>) -> Result<(), LedgerError> {
        // First: a kill in between must not leave an input recorded as done with the output of
        // another.
        self.own_output(input)?;
        let mut update = self.db.prepare_cached(
            "UPDATE picture SET state = 'done', finished = ?2, device = ?3, pixels = ?4, bytes_out = ?5, reason = NULL,
                 starts = 0
             WHERE input = ?1",
        )?;
        update.execute(params![
            bytes(input),
            now_ns(),
            outcome.device,
            outcome.pixels.cast_signed(),
            outcome.bytes_out.cast_signed(),
        ])?;
        Ok(())
    }

    /// Records that a file that was begun turned out not to be a picture.
    ///
    /// # Errors
    /// When a call of the database fails.
    pub fn skipped(&self, input: &Path) -> Result<(), LedgerError> {
        self.end(input, PictureState::Skipped, None, None)
    }

    /// Records that a picture that was begun failed, for good or for a cause that can pass.
    ///
    /// # Errors
    /// When a call of the database fails.
    pub fn failed(&self, input: &Path, reason: &str, for_good: bool) -> Result<(), LedgerError> {
        self.end(input, if for_good { PictureState::Failed } else { PictureState::Retry }, Some(reason), None)
    }

    /// Records that a picture that was begun failed, and is tried again after `pause`.
    ///
    /// # Errors
    /// When a call of the database fails.
    pub fn retried(&self, input: &Path, reason: &str, pause: Duration) -> Result<(), LedgerError> {
        let again = now_ns().saturating_add(i64::try_from(pause.as_nanos()).unwrap_or(i64::MAX));
        self.end(input, PictureState::Retry, Some(reason), Some(again))
    }

    fn end(
        &self,
        input: &Path,
        state: PictureState,
        reason: Option<&str>,
        again: Option<i64>,
    ) -> Result<(), LedgerError> {
        let mut update = self.db.prepare_cached(
            "UPDATE picture SET state = ?2, finished = ?3, reason = ?4, again = ?5, starts = 0 WHERE input = ?1",
        )?;
        update.execute(params![bytes(input), state, now_ns(), reason, again])?;
        Ok(())
    }

    /// Forgets failures, for good or for now, of `inputs` that are gone.
    ///
    /// # Errors
    /// When a call of the database fails.
    pub fn forget_gone(&self, inputs: &[PathBuf]) -> Result<(), LedgerError> {
        let transaction = self.db.unchecked_transaction()?;
        let mut delete = self
            .db
            .prepare_cached("DELETE FROM picture WHERE input = ?1 AND state IN ('retry', 'failed')")?;
        for input in inputs {
            delete.execute([bytes(input)])?;
        }
        Ok(transaction.commit()?)
    }

    /// Forgets an input: its record does not apply any more.
    ///
    /// # Errors
    /// When a call of the database fails.
    pub fn forget(&self, input: &Path) -> Result<(), LedgerError> {
        self.db.prepare_cached("DELETE FROM picture WHERE input = ?1")?.execute([bytes(input)])?;
        Ok(())
    }

    /// Forgets the pictures that failed for good and `are_meant`, which has them tried again.
    /// Returns their number.
    ///
    /// # Errors
    /// When a call of the database fails.
    pub fn forget_failed(&self, are_meant: impl Fn(&Path) -> bool) -> Result<usize, LedgerError> {
        let transaction = self.db.unchecked_transaction()?;
        let meant: Vec<_> = self.all_failed()?.into_iter().filter(|input| are_meant(input)).collect();
        for input in &meant {
            self.forget(input)?;
        }
        transaction.commit()?;
        Ok(meant.len())
    }

    /// Returns the inputs of all pictures that failed for good.
    ///
    /// # Errors
    /// When a call of the database fails.
    pub fn all_failed(&self) -> Result<Vec<PathBuf>, LedgerError> {
        let mut query = self.db.prepare_cached("SELECT input FROM picture WHERE state = 'failed'")?;
        Ok(query.query_map([], |row| row.get(0).map(path))?.collect::<Result<_, _>>()?)
    }

    /// Sets how long a call waits while another process has the database locked.
    pub fn set_patience(&self, patience: Duration) {
        // Fails only if the database is closed.
        let _ = self.db.busy_timeout(patience);
    }
}

/// Splits a ledger's folder into a root and the path below it: a folder named [`FOLDER`] lies in an
/// output folder, below which links are not followed, and any other is a root itself.
fn rooted(folder: &Path) -> (&Path, &Path) {
    if folder.ends_with(FOLDER) { (folder_of(folder), Path::new(FOLDER)) } else { (folder, Path::new("")) }
}

/// Inode and mtime of an output, which change when it is replaced.
type Version = (i64, i64);

fn version(path: &Path) -> Option<Version> {
    let metadata = fs::symlink_metadata(path).ok()?;
    Some((metadata.ino().cast_signed(), mtime_ns(&metadata)))
}

/// Returns whether an output is another file than the one `before`. Both must differ: the mtime
/// alone changes if an older output is written to, and some file systems make up inodes at every
/// mount.
fn appeared(output: &Path, before: Option<Version>) -> bool {
    version(output).is_some_and(|now| before.is_none_or(|before| now.0 != before.0 && now.1 != before.1))
}

/// Returns whether the record on an output names another input.
fn is_anothers(entry: &Entry<'_>) -> bool {
    Record::of(entry.output).is_some_and(|record| !record.is_from(&entry.stamp))
}

fn before(row: &Row<'_>) -> rusqlite::Result<Option<Version>> {
    let (inode, mtime): (Option<i64>, Option<i64>) = (row.get(2)?, row.get(3)?);
    Ok(inode.zip(mtime))
}

/// Returns the time in nanoseconds since 1970.
pub(crate) fn now_ns() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
}

fn bytes(path: &Path) -> &[u8] {
    path.as_os_str().as_bytes()
}

fn path(bytes: Vec<u8>) -> PathBuf {
    OsString::from_vec(bytes).into()
}

#[cfg(test)]
mod tests;
