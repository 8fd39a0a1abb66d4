//! Looks for damage before a call of the ledger meets it.

use std::path::Path;

use super::error::unusable;
use super::open::inode;
use super::{FILE, Ledger, LedgerError};

/// The damage to a ledger.
#[derive(Debug)]
pub struct Damage {
    /// The inode of the damaged file.
    pub(super) inode: u64,
    /// The error.
    pub why: LedgerError,
}

impl Ledger {
    /// Reads the whole ledger in `folder` and returns the damage, if any.
    ///
    /// This uses a connection of its own: the ledger's may not notice a truncated file, as it
    /// caches pages. A ledger that cannot be read for now is not damaged.
    pub fn damage(folder: &Path) -> Option<Damage> {
        let inode = inode(&folder.join(FILE));
        let why = match Self::read_file(&folder.join(FILE)) {
            Ok(None) if inode == 0 => return None,
            Ok(None) => unusable("it is empty".into()).into(),
            Ok(Some(ledger)) => ledger.quick_check().err()?,
            Err(why) => why,
        };
        why.is_damage().then_some(Damage { inode, why })
    }

    fn quick_check(&self) -> Result<(), LedgerError> {
        let found: String = self.db.query_row("PRAGMA quick_check(1)", [], |row| row.get(0))?;
        if found == "ok" { Ok(()) } else { Err(unusable(found).into()) }
    }

    /// As [`Ledger::mend`], for damage that [`Ledger::damage`] found. `None` if another ledger has
    /// taken its place since.
    ///
    /// # Errors
    /// As of [`Ledger::open`].
    pub fn mend_found(&mut self, damage: Damage) -> Option<Result<String, LedgerError>> {
        (damage.inode == self.inode).then(|| self.mend(damage.why))
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};

    use super::super::tests::{Case, OUTCOME, entry};
    use super::super::{FILE, Standing};
    use super::*;

    fn with_pictures() -> Case {
        let case = Case::new();
        for number in 0..500 {
            let input = case.at(&format!("{number}.png"));
            case.ledger.begin(&entry(&input, &input)).unwrap();
            case.ledger.done(&input, &OUTCOME).unwrap();
        }
        case
    }

    #[test]
    fn a_sound_ledger_has_no_damage_and_neither_has_none() {
        let case = with_pictures();
        assert!(Ledger::damage(&case.at("state")).is_none());
        assert!(Ledger::damage(&case.at("nowhere")).is_none());
    }

    #[test]
    fn a_ledger_that_is_cut_off_under_its_service_is_found_and_replaced() {
        for length in [0, 100, 4096, 8192] {
            let mut case = with_pictures();
            let file = case.at("state").join(FILE);
            case.ledger.db.pragma_update(None, "wal_checkpoint", "TRUNCATE").unwrap();
            File::options().write(true).open(&file).unwrap().set_len(length).unwrap();
            let damage = Ledger::damage(&case.at("state")).unwrap();
            let note = case.ledger.mend_found(damage).unwrap().unwrap();
            assert!(note.contains("ledger.broken-"), "{note}");
            let input = case.at("0.png");
            assert_eq!(case.ledger.standing(&entry(&input, &input)).unwrap(), Standing::Unknown);
            case.ledger.begin(&entry(&input, &input)).unwrap();
            assert!(Ledger::damage(&case.at("state")).is_none());
        }
    }

    #[test]
    fn damage_of_a_ledger_that_is_not_there_any_more_does_not_touch_the_next() {
        let mut case = with_pictures();
        let file = case.at("state").join(FILE);
        case.ledger.db.pragma_update(None, "wal_checkpoint", "TRUNCATE").unwrap();
        File::options().write(true).open(&file).unwrap().set_len(4096).unwrap();
        let damage = Ledger::damage(&case.at("state")).unwrap();
        fs::remove_dir_all(case.at("state")).unwrap();
        case.ledger.reopen_if_deleted().unwrap();
        let is_another = damage.inode != case.ledger.inode;
        assert_eq!(case.ledger.mend_found(damage).is_none(), is_another);
    }
}
