//! Forgets pictures whose inputs are long gone, so that the ledger does not grow forever.

use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::params;

use super::{Ledger, LedgerError, bytes, now_ns, path};
use crate::fs::paths::is_gone;

/// The result of a call of [`Ledger::prune`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pruned {
    /// The number of pictures that were forgotten.
    pub forgotten: usize,
    /// The last path that was checked; `None` at the end.
    pub last: Option<PathBuf>,
}

struct Row {
    input: PathBuf,
    is_old: bool,
    /// Its output, if it is done.
    made: Option<PathBuf>,
}

impl Ledger {
    /// Forgets pictures with inputs that are gone and that ended longer than `age` ago or never
    /// ended.
    ///
    /// Inputs in the folders `missing` are kept: they may be gone only because their folder is. If
    /// inputs are removed or moved when they are done (`inputs_go`), pictures with an existing
    /// output are kept too, which protects it from other inputs. One call checks the next `most`
    /// pictures after the path `after`, because checking a file may take long.
    ///
    /// # Errors
    /// When a call of the database fails.
    pub fn prune(
        &self,
        age: Duration,
        missing: &[&Path],
        inputs_go: bool,
        after: &Path,
        most: u32,
    ) -> Result<Pruned, LedgerError> {
        let before = now_ns().saturating_sub(i64::try_from(age.as_nanos()).unwrap_or(i64::MAX));
        let mut query = self.db.prepare_cached(
            "SELECT input, state IN ('running', 'retry') OR coalesce(finished, started) < ?2,
                    CASE state WHEN 'done' THEN output END
             FROM picture WHERE input > ?1 ORDER BY input LIMIT ?3",
        )?;
        let rows = query.query_map(params![bytes(after), before, most], |row| {
            Ok(Row {
                input: path(row.get(0)?),
                is_old: row.get(1)?,
                made: row.get::<_, Option<_>>(2)?.map(path),
            })
        })?;
        let rows: Vec<Row> = rows.collect::<Result<_, _>>()?;
        let mut forgotten = 0;
        let transaction = self.db.unchecked_transaction()?;
        let ended = rows.iter().filter(|row| {
            row.is_old
                && !missing.iter().any(|folder| row.input.starts_with(folder))
                && is_gone(&row.input)
                && !(inputs_go && row.made.as_deref().is_some_and(|output| !is_gone(output)))
        });
        for row in ended {
            self.forget(&row.input)?;
            forgotten += 1;
        }
        transaction.commit()?;
        let is_end = rows.len() < most as usize;
        Ok(Pruned { forgotten, last: rows.into_iter().next_back().map(|row| row.input).filter(|_| !is_end) })
    }
}
