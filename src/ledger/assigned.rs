//! Which output an input had or was to have, whatever its state is now.

use std::path::{Path, PathBuf};

use rusqlite::{OptionalExtension, Row};

use super::{Ledger, LedgerError, bytes, path};
use crate::stamp::Stamp;

/// The output that an input had last, or was to have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assigned {
    /// The file.
    pub output: PathBuf,
    /// The input's state then.
    pub stamp: Stamp,
    /// Whether the picture was done.
    pub is_done: bool,
}

impl Ledger {
    /// Returns the output that an input was last begun for, whatever became of it.
    ///
    /// # Errors
    /// When a call of the database fails.
    pub fn assigned(&self, input: &Path) -> Result<Option<Assigned>, LedgerError> {
        let mut query = self.db.prepare_cached(
            "SELECT output, size, mtime, inode, state = 'done' FROM picture WHERE input = ?1",
        )?;
        let assigned = |row: &Row<'_>| {
            let (size, inode): (i64, i64) = (row.get(1)?, row.get(3)?);
            let stamp =
                Stamp { size: size.cast_unsigned(), mtime_ns: row.get(2)?, inode: inode.cast_unsigned() };
            Ok(Assigned { output: path(row.get(0)?), stamp, is_done: row.get(4)? })
        };
        Ok(query.query_row([bytes(input)], assigned).optional()?)
    }
}

#[cfg(test)]
mod tests {
    use super::super::Entry;
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
        assert_eq!(assigned(), Some(Assigned { output: output.clone(), stamp, is_done: false }));
        case.ledger.done(&input, &OUTCOME).unwrap();
        assert_eq!(assigned(), Some(Assigned { output: output.clone(), stamp, is_done: true }));
        let stamp = Stamp { mtime_ns: -1, inode: u64::MAX, ..stamp };
        case.ledger.begin(&Entry { stamp, output: &next, ..first }).unwrap();
        assert_eq!(assigned(), Some(Assigned { output: next.clone(), stamp, is_done: false }));
    }
}
