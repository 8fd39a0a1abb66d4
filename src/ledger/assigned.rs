//! The output that an input had or was to have, and the other inputs with the same output.

use std::path::{Path, PathBuf};

use rusqlite::OptionalExtension;

use super::{Entry, Ledger, LedgerError, appeared, before, bytes, path};
use crate::fs::stamp::Stamp;

/// The output that an input had last, or was to have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assigned {
    /// The file.
    pub output: PathBuf,
    /// The input's state then.
    pub stamp: Stamp,
    /// Whether the picture was done.
    pub is_done: bool,
    /// Whether its output was written: the picture is done, or was in progress when its process was
    /// killed, and the output has appeared since.
    pub is_written: bool,
}

impl Ledger {
    /// Returns the output that an input was last begun for, whatever the result.
    ///
    /// # Errors
    /// When a call of the database fails.
    pub fn assigned(&self, input: &Path) -> Result<Option<Assigned>, LedgerError> {
        let mut query = self.db.prepare_cached(
            "SELECT output, size, before_inode, before_mtime, mtime, inode, state = 'done', state = 'running'
             FROM picture WHERE input = ?1",
        )?;
        Ok(query
            .query_row([bytes(input)], |row| {
                let output = path(row.get(0)?);
                let (size, inode): (i64, i64) = (row.get(1)?, row.get(5)?);
                let stamp =
                    Stamp { size: size.cast_unsigned(), mtime_ns: row.get(4)?, inode: inode.cast_unsigned() };
                let (is_done, is_running): (bool, bool) = (row.get(6)?, row.get(7)?);
                let is_written = is_done || is_running && appeared(&output, before(row)?);
                Ok(Assigned { output, stamp, is_done, is_written })
            })
            .optional()?)
    }

    /// Returns the other inputs that have the same output or are about to. Included are inputs that
    /// still exist and, if inputs are removed or moved when they are done (`inputs_go`), the done
    /// ones as long as the output exists.
    ///
    /// # Errors
    /// When a call of the database fails.
    pub fn rivals(&self, entry: &Entry<'_>, inputs_go: bool) -> Result<Vec<PathBuf>, LedgerError> {
        let mut query = self.db.prepare_cached(
            "SELECT input, state = 'done' FROM picture
             WHERE output = ?1 AND input <> ?2 AND state IN ('running', 'done')",
        )?;
        let rows = query.query_map([bytes(entry.output), bytes(entry.input)], |row| {
            Ok((path(row.get(0)?), row.get::<_, bool>(1)?))
        })?;
        let rows: Vec<(PathBuf, bool)> = rows.collect::<Result<_, _>>()?;
        let stands = inputs_go && entry.output.exists();
        let rivals = rows.into_iter().filter(|(input, is_done)| *is_done && stands || input.exists());
        Ok(rivals.map(|(input, _)| input).collect())
    }

    /// Forgets other inputs that were done with the output of this one, which now owns it.
    pub(super) fn own_output(&self, input: &Path) -> Result<(), LedgerError> {
        // The plus rules out the index by state, which would search all pictures done instead of
        // the few that have this output.
        let mut delete = self.db.prepare_cached(
            "DELETE FROM picture WHERE +state = 'done' AND input <> ?1
                 AND output = (SELECT output FROM picture WHERE input = ?1)",
        )?;
        delete.execute([bytes(input)])?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{Case, OUTCOME, entry};
    use super::*;

    #[test]
    fn it_is_that_of_the_last_state_and_known_before_it_is_done() {
        let case = Case::new();
        let (input, output, next) = (case.at("a.png"), case.at("out.png"), case.at("out.2.png"));
        let assigned = || case.ledger.assigned(&input).unwrap();
        assert_eq!(assigned(), None);
        let first = entry(&input, &output);
        case.ledger.begin(&first).unwrap();
        let Entry { stamp, .. } = first;
        let of = |output: &PathBuf, stamp, is_done, is_written| {
            Some(Assigned { output: output.clone(), stamp, is_done, is_written })
        };
        assert_eq!(assigned(), of(&output, stamp, false, false));
        std::fs::write(&output, "a").unwrap();
        assert_eq!(assigned(), of(&output, stamp, false, true), "its process was killed before it said so");
        case.ledger.done(&input, &OUTCOME).unwrap();
        assert_eq!(assigned(), of(&output, stamp, true, true));
        let stamp = Stamp { mtime_ns: -1, inode: u64::MAX, ..stamp };
        case.ledger.begin(&Entry { stamp, output: &next, ..first }).unwrap();
        assert_eq!(assigned(), of(&next, stamp, false, false));
    }
}
