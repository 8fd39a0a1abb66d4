//! Pictures that were begun and did not end, because their process was killed: one of them may be
//! the cause.

use std::path::{Path, PathBuf};

use super::state::PictureState;
use super::{Ledger, LedgerError, bytes, now_ns};

/// How often a picture is begun in a row without an end before it is given up.
pub const MOST_STARTS: u32 = 3;

impl Ledger {
    /// Takes back the start of these pictures: whatever ends their process now, they are not to
    /// blame.
    ///
    /// # Errors
    /// When a call of the database fails.
    pub fn excuse<'a>(&self, inputs: impl IntoIterator<Item = &'a PathBuf>) -> Result<(), LedgerError> {
        let transaction = self.db.unchecked_transaction()?;
        let mut update = self.db.prepare_cached(
            "UPDATE picture SET starts = starts - 1 WHERE input = ?1 AND state = 'running' AND starts > 0",
        )?;
        for input in inputs {
            update.execute([bytes(input)])?;
        }
        Ok(transaction.commit()?)
    }

    /// Records that a picture failed for good because its process was killed too often while it was
    /// in progress.
    ///
    /// # Errors
    /// When a call of the database fails.
    pub fn give_up(&self, input: &Path, reason: &str) -> Result<(), LedgerError> {
        let mut update = self
            .db
            .prepare_cached("UPDATE picture SET state = ?2, finished = ?3, reason = ?4 WHERE input = ?1")?;
        update.execute(rusqlite::params![bytes(input), PictureState::Failed, now_ns(), reason])?;
        Ok(())
    }

    /// Forgets that pictures are in progress: this has ended for all, and a file in the place of an
    /// output is not theirs. Only the number of their starts is kept.
    ///
    /// # Errors
    /// When a call of the database fails.
    pub fn forget_running(&self) -> Result<(), LedgerError> {
        self.db.execute("DELETE FROM picture WHERE state = 'running' AND starts = 0", [])?;
        self.db.execute(
            "UPDATE picture SET state = 'retry', finished = ?1, again = NULL,
                 reason = 'its process ended while it was in progress'
             WHERE state = 'running'",
            [now_ns()],
        )?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{Case, OUTCOME, entry};
    use super::super::{Entry, Standing};
    use super::*;

    #[test]
    fn starts_are_counted_until_an_end() {
        let case = Case::new();
        let (input, output) = (case.at("a.png"), case.at("out.png"));
        let entry = entry(&input, &output);
        let standing = || case.ledger.standing(&entry).unwrap();
        for starts in 1..=3 {
            case.ledger.begin(&entry).unwrap();
            assert_eq!(standing(), Standing::Interrupted { starts });
        }
        case.ledger.refuse(&entry).unwrap();
        assert_eq!(standing(), Standing::Interrupted { starts: 3 }, "a refusal is no start and no end");
        case.ledger.failed(&input, "busy", false).unwrap();
        assert_eq!(standing(), Standing::Unknown);
        case.ledger.begin(&entry).unwrap();
        case.ledger.done(&input, &OUTCOME).unwrap();
        case.ledger.begin(&entry).unwrap();
        assert_eq!(standing(), Standing::Interrupted { starts: 1 });
    }

    #[test]
    fn what_changed_or_has_other_settings_is_not_suspected() {
        let case = Case::new();
        let (input, output) = (case.at("a.png"), case.at("out.png"));
        let first = entry(&input, &output);
        case.ledger.begin(&first).unwrap();
        case.ledger.begin(&first).unwrap();
        let other = Entry { settings: "clahe", ..first };
        assert_eq!(case.ledger.standing(&other).unwrap(), Standing::Unknown);
        case.ledger.begin(&other).unwrap();
        assert_eq!(case.ledger.standing(&other).unwrap(), Standing::Interrupted { starts: 1 });
    }

    #[test]
    fn who_is_excused_has_not_been_begun() {
        let case = Case::new();
        let [first, second] = ["a.png", "b.png"].map(|name| case.at(name));
        let standing = |input: &PathBuf| case.ledger.standing(&entry(input, input)).unwrap();
        case.ledger.begin(&entry(&first, &first)).unwrap();
        for input in [&first, &second] {
            case.ledger.begin(&entry(input, input)).unwrap();
        }
        case.ledger.excuse([&first, &second]).unwrap();
        assert_eq!(standing(&first), Standing::Interrupted { starts: 1 });
        assert_eq!(standing(&second), Standing::Unknown);
        case.ledger.forget_running().unwrap();
        assert_eq!(standing(&first), Standing::Interrupted { starts: 1 });
        let report = case.ledger.report().unwrap();
        assert_eq!((report.running, report.retrying), (0, 1));
    }

    #[test]
    fn what_is_given_up_stays_so_until_it_changes() {
        let case = Case::new();
        let (input, output) = (case.at("a.png"), case.at("out.png"));
        let entry = entry(&input, &output);
        case.ledger.begin(&entry).unwrap();
        case.ledger.give_up(&input, "killed").unwrap();
        let given_up = Standing::Failed { reason: "killed".into(), given_up: true };
        assert_eq!(case.ledger.standing(&entry).unwrap(), given_up);
    }
}
